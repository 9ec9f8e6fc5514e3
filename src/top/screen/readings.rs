//! What the figures say, in sentences, and who else syncs on the servers' devices: of the last seconds, since
//! what changes from second to second is of no use.

use std::time::Duration;

use ratatui::layout::Rect;

use super::pen::Pen;
use crate::live;
use crate::model::{Device, Neighbour, words};
use crate::render::header::clock;
use crate::render::rows::p99;
use crate::render::{Paint, place};
use crate::text::{capitalize, escape_sentence, interval, rate, shorten_end, width};
use crate::top::cells::{latency_in_words, maximum_in_words};
use crate::top::palette::Ink;
use crate::top::state::{Read, State};

/// No snapshot for so long, beside three intervals: something is wrong.
const LATE: Duration = Duration::from_secs(2);
/// Of all lines of a sentence but the first.
const INDENT: &str = "  ";

pub fn draw(state: &State, area: Rect, pen: &mut Pen) {
    let lines = lines(state);
    let style = crate::render::Style { width: Some(usize::from(area.width)), ..state.style };
    let mut y = area.y;
    for (at, (text, ink)) in lines.iter().enumerate() {
        let left = usize::from(area.bottom() - y);
        if left == 0 {
            return;
        }
        let mut wrapped = style.wrap(text, INDENT.len());
        if wrapped.len() > left || wrapped.len() == left && at + 1 < lines.len() {
            let rest = wrapped.split_off(left - 1);
            wrapped.push(cut(&rest, usize::from(area.width), state.style.ellipsis()));
        }
        for line in wrapped {
            pen.put(area.x, y, area.width, &line, *ink);
            y += 1;
        }
    }
}

/// As much of these lines as there is room for on one, and a sign that there is more.
fn cut(lines: &[String], columns: usize, ellipsis: &str) -> String {
    let indent = if lines.first().is_some_and(|line| line.starts_with(INDENT)) { INDENT } else { "" };
    let text = lines.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join(" ");
    let room = columns.saturating_sub(width(indent) + 1 + width(ellipsis));
    format!("{indent}{} {ellipsis}", shorten_end(&text, room, ""))
}

/// The most urgent first.
fn lines(state: &State) -> Vec<(String, Ink)> {
    let mut lines: Vec<(String, Ink)> = Vec::new();
    match &state.tracing.sampling {
        live::State::Paused { why } => {
            lines.push((format!("{}.", escape_sentence(&capitalize(why))), Ink::Alarm));
        }
        live::State::Failed { why } => {
            lines.push((format!("Nothing is traced any more: {}", escape_sentence(why)), Ink::Alarm));
        }
        live::State::Stopped => lines.push(("Tracing has ended.".into(), Ink::Alarm)),
        live::State::Running | live::State::Degraded { .. } => {
            let late = state.since_shown();
            if late > state.tracing.expected_interval() * 3 + LATE {
                lines.push((format!("No new figures for {}.", interval(late)), Ink::Alarm));
            }
        }
    }
    lines.extend(commits_wait(state).map(|text| (text, Ink::Alarm)));
    let window =
        state.shown.read.as_ref().and_then(|read| read.sentences_over).map(|over| recent(state, over));
    let sentences = state.shown.read.iter().flat_map(|read| &read.sentences);
    lines.extend(sentences.enumerate().map(|(at, sentence)| {
        let ink = match sentence.paint {
            Paint::Error | Paint::Stuck => Ink::Alarm,
            Paint::Plain | Paint::Heading => Ink::Plain,
        };
        match window.as_ref().filter(|_| at == 0) {
            Some(window) => (format!("{}: {}", capitalize(window), sentence.text), ink),
            None => (sentence.text.clone(), ink),
        }
    }));
    lines
}

/// What it means that a log hangs.
fn commits_wait(state: &State) -> Option<String> {
    let stuck = state.stuck();
    let sync = stuck.iter().find(|sync| sync.role.is_serial())?;
    let whose = if state.servers().len() > 1 {
        format!(" of {}", state.server_name(sync.server))
    } else {
        String::new()
    };
    let who = words(state.shown.server(sync.server), sync.role).who;
    Some(format!("{who}{whose} waits for {}.", sync.role.in_a_sentence()))
}

/// `also on /dev/vda, last 10 s: xtrabackup 41/s, p99 90 ms; 2 more`: as much as there is room for.
pub fn neighbours(state: &State, columns: usize) -> String {
    let Some(read) = &state.shown.read else { return String::new() };
    let window = |before: &str, time: &dyn Fn(Duration) -> String, after: &str| match read.devices_are_recent
    {
        true => format!("{before}{}{after}", time(read.devices_over)),
        false => String::new(),
    };
    let (long, short) = (window(", ", &|over| recent(state, over), ""), window(" (", &seconds, ")"));
    let forms = [(&long, true), (&short, true), (&short, false)];
    let lines = forms.into_iter().map(|(window, latency)| also_on(state, read, window, latency, columns));
    let mut narrow = String::new();
    for line in lines {
        if width(&line) <= columns {
            return line;
        }
        narrow = line;
    }
    narrow
}

fn also_on(state: &State, read: &Read, window: &str, latency: bool, columns: usize) -> String {
    let (busy, quiet): (Vec<_>, Vec<_>) =
        read.devices.iter().partition(|device| !device.neighbours.is_empty());
    let name = |device: &&Device| state.style.name(device.name.as_bytes());
    if busy.is_empty() {
        let names: Vec<String> = quiet.iter().map(name).collect();
        return match names.is_empty() {
            true => String::new(),
            false => format!("also on {}{window}: {}", names.join(", "), read.nobody),
        };
    }
    let more = |n: usize| if n > 0 { format!("; {n} more") } else { String::new() };
    let all: usize = busy.iter().map(|device| device.neighbours.len()).sum();
    let (mut line, mut named) = (String::new(), 0);
    for device in &busy {
        for (at, neighbour) in device.neighbours.iter().enumerate() {
            let begin = match (named, at) {
                (0, _) => format!("also on {}{window}: ", name(device)),
                (_, 0) => format!("; on {}: ", name(device)),
                _ => "; ".into(),
            };
            let next = format!("{line}{begin}{}", one(state, neighbour, read.devices_over, latency));
            if named > 0 && width(&next) + width(&more(all - named - 1)) > columns {
                return line + &more(all - named);
            }
            (line, named) = (next, named + 1);
        }
    }
    line
}

/// `xtrabackup 41/s, p99 90 ms`.
fn one(state: &State, neighbour: &Neighbour, over: Duration, latency: bool) -> String {
    let stats = &neighbour.stats;
    let pid = neighbour.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
    let worst = match p99(stats) {
        _ if !latency => String::new(),
        _ if stats.count == 0 => ", not timed".into(),
        Some(ns) => format!(", p99 {}", latency_in_words(ns, state.choice.units)),
        None => format!(", max {}", maximum_in_words(stats.max, state.choice.units)),
    };
    let place = if latency { place::in_words(&neighbour.place, &state.style) } else { String::new() };
    format!(
        "{}{pid} {}/s{worst}{place}",
        state.style.name(neighbour.comm.as_bytes()),
        rate(stats.all(), over)
    )
}

/// `last 10 s`; of the past: `10 s until 03:12:59`.
fn recent(state: &State, over: Duration) -> String {
    match state.record.paused_at() {
        None => format!("last {}", seconds(over)),
        Some(tick) => format!("{} until {}", seconds(over), clock(tick.end)),
    }
}

pub fn seconds(window: Duration) -> String {
    match window.as_secs_f64() {
        s if s < 0.95 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}
