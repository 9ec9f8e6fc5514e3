//! The details of the selected row: its latencies over time, and beside them their histogram in the interval.

use std::sync::Arc;

use ratatui::layout::Rect;

use super::pen::{GAP, Part, Pen, fit};
use super::readings::seconds;
use crate::render::header::{self, clock};
use crate::render::histogram::bar;
use crate::render::row::{About, Row};
use crate::render::rows::p99;
use crate::text::{absence, count, counted, end_of_path, rate, width};
use crate::top::cells::{Units, latency, latency_in_words, maximum_in_words};
use crate::top::heatmap::{Map, Span, legend, level, map};
use crate::top::palette::{ASCII_SHADES, Ink, SHADES};
use crate::top::state::State;
use crate::top::view::View;

/// Of the labels and the axis: `262µs` and room to spare, so that it is seldom that the picture moves.
const LABEL_AT_LEAST: u16 = 8;
/// A gap between the exporter's history and our own figures that attaching alone explains; a longer one is
/// shown.
const UNTRACED: std::time::Duration = std::time::Duration::from_secs(3);
/// Of the name in the title, if it is that long.
const NAME_AT_LEAST: usize = 24;
/// From so many lines on, there is room for a legend of the shades.
const ROOM_FOR_LEGEND: u16 = 7;
/// A sync that was in flight all the time.
const HUNG: &str = "║";
/// Of the bars beside the picture.
const BARS: std::ops::RangeInclusive<u16> = 14..=60;

pub fn draw(state: &State, area: Rect, pen: &mut Pen) {
    let (Some(row), Some(figures)) = (state.selected(), &state.shown.figures) else { return };
    title(state, row, area, pen);
    let bars = (area.width / 4).clamp(*BARS.start(), *BARS.end());
    let legend_lines = u16::from(area.height >= ROOM_FOR_LEGEND);
    let drawn = |label: u16| {
        let picture = area.width.saturating_sub(label + bars + 1);
        let span = Span { until: figures.tick, columns: usize::from(picture), each: state.choice.each };
        let points = || state.record.past.trails.points(&row.key);
        let has_failed = points().any(|point| point.errors > 0 && span.column(point.tick).is_some());
        let bands = area.height.saturating_sub(2 + legend_lines + u16::from(has_failed));
        let map = map(points(), &row.stats.histogram, span, usize::from(bands))?;
        let labels = map.bands.iter().map(|band| width(&edge(band.from_ns, state.choice.units)) as u16 + 1);
        let widest = labels.max().unwrap_or(0);
        Some((map, span, picture, widest))
    };
    // A unit that is much too small has long labels; with less room for the picture there are no longer ones.
    let mut label = LABEL_AT_LEAST;
    let mut found = drawn(label);
    if let Some(widest) = found.as_ref().map(|(.., widest)| *widest).filter(|widest| *widest > label) {
        label = widest;
        found = drawn(label);
    }
    let Some((map, span, picture, _)) = found else {
        let text = format!("{} ([ draws more)", absence::row());
        pen.put(area.x + label, area.y + 1, area.width - label, &text, Ink::Faint);
        return;
    };
    let below = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
    let axis_y = area.bottom() - 1 - legend_lines;
    draw_map(state, &map, below, label, picture, pen);
    draw_bars(state, &map, Rect::new(area.right() - bars, below.y, bars, below.height), pen);
    draw_failures(&map, Rect::new(area.x, axis_y - 1, label + picture, 1), label, pen);
    axis(state, span, Rect::new(area.x + label, axis_y, picture, 1), pen);
    pen.put(area.right() - bars, axis_y, bars, &bars_title(state, usize::from(bars)), Ink::Faint);
    if legend_lines > 0 {
        let legend_area = Rect::new(area.x + label, area.bottom() - 1, area.width - label, 1);
        draw_legend(state, &map, legend_area, pen);
    }
}

/// `redo fdatasync  4,480 syncs  3,084/s  p50 92 µs  p99 467 µs  max 2.8 ms`, after the server's name if
/// there are several: facts go before too much of the name does.
fn title(state: &State, row: &Row, area: Rect, pen: &mut Pen) {
    let facts = facts(state, row);
    let op = row.op().map_or(String::new(), |op| format!(" {}", op.name()));
    let columns = usize::from(area.width);
    let wide: usize = facts.iter().map(|fact| width(&fact.text) + GAP).sum();
    let name = row.name(&state.style);
    let room = columns.saturating_sub(width(&op) + 1);
    let whose = whose(state, row, room.saturating_sub(width(&name).min(NAME_AT_LEAST)));
    let room = room.saturating_sub(width(&whose));
    let name =
        end_of_path(&name, room.saturating_sub(wide).max(NAME_AT_LEAST.min(room)), state.style.ellipsis());
    pen.put(area.x, area.y, area.width, &"─".repeat(columns), Ink::Faint);
    let mut x = area.x + pen.put(area.x, area.y, area.width, &format!("{whose}{name}{op} "), Ink::Strong);
    let room = usize::from(area.right().saturating_sub(x + 1));
    for (text, ink) in fit(&facts, room).into_iter().filter(|(text, _)| width(text) <= room) {
        x += pen.put(x, area.y, area.right() - x, &format!(" {text} "), ink);
    }
}

/// `3306: ` where several servers are shown; of a name that is too long, the pid instead.
fn whose(state: &State, row: &Row, room: usize) -> String {
    let is_named = View::from(&row.key) != View::Server && state.servers().len() > 1;
    let Some(id) = row.server().filter(|_| is_named) else { return String::new() };
    let name = format!("{}: ", state.server_name(id));
    let pid = format!("{}: ", id.pid);
    if width(&name) <= room || width(&name) <= width(&pid) { name } else { pid }
}

fn facts(state: &State, row: &Row) -> Vec<Part> {
    let over = state.shown.figures.as_ref().map(|figures| figures.m.span.duration).unwrap_or_default();
    let stats = &row.stats;
    let fact = |rank, text: String| Part::new(rank, text, Ink::Plain);
    let (one, several) = state.choice.view.counts();
    let mut facts =
        vec![fact(2, counted(stats.all(), one, several)), fact(4, format!("{}/s", rate(stats.all(), over)))];
    if stats.count > 0 {
        let in_words = |ns| latency_in_words(ns, state.choice.units);
        facts.extend(stats.quantile_ns(0.5).map(|ns| fact(3, format!("p50 {}", in_words(ns)))));
        facts.extend(p99(stats).map(|ns| fact(5, format!("p99 {}", in_words(ns)))));
        facts.push(fact(6, format!("max {}", maximum_in_words(stats.max, state.choice.units))));
    }
    let server = row.server().and_then(|id| state.shown.server(id));
    let rank = if View::from(&row.key) == View::Server { 6 } else { 0 };
    facts.extend(server.map(|server| fact(rank, header::process(server, &state.style))));
    if let About::File(file) = &row.about {
        let escaped = |text: &Arc<str>| state.style.name(text.as_bytes());
        let filesystem = file.info.filesystem.as_ref().map(escaped);
        match (filesystem, file.info.device.as_ref().map(escaped)) {
            (Some(filesystem), Some(device)) => facts.push(fact(1, format!("{filesystem} on {device}"))),
            (Some(one), None) | (None, Some(one)) => facts.push(fact(1, one)),
            (None, None) => {}
        }
    }
    facts
}

fn draw_map(state: &State, map: &Map, area: Rect, label: u16, picture: u16, pen: &mut Pen) {
    let shades = if state.style.unicode { SHADES } else { ASCII_SHADES };
    for (at, band) in map.bands.iter().enumerate() {
        let y = area.y + at as u16;
        pen.put_right(area.x, y, label - 1, &edge(band.from_ns, state.choice.units), Ink::Faint);
        let axis = if state.style.unicode { "│" } else { "|" };
        pen.put(area.x + label - 1, y, 1, axis, Ink::Faint);
        for (column, &n) in band.counts.iter().enumerate().take(usize::from(picture)) {
            let x = area.x + label + column as u16;
            // What has not ended took longer than each band below the one that it has reached.
            let is_hung = map.hung[column].is_some_and(|reached| at == reached || at > reached && n == 0);
            if is_hung {
                pen.put(x, y, 1, HUNG, Ink::Alarm);
            } else if let Some(level) = level(n, map.most) {
                pen.put(x, y, 1, shades[usize::from(level)], Ink::Level(level));
            }
        }
    }
}

/// The lower edge of a line of the picture, as it is written beside it: `≥262µs`.
fn edge(from_ns: u64, units: Units) -> String {
    format!("≥{}", latency(from_ns, units))
}

/// What the bars count: `syncs in last 1 s`.
fn bars_title(state: &State, columns: usize) -> String {
    let Some(figures) = &state.shown.figures else { return String::new() };
    let over = seconds(figures.m.span.duration);
    let short = match (state.choice.cumulative, &state.record.paused) {
        (true, _) => format!("since {}", clock(figures.m.span.start)),
        (false, None) => format!("in last {over}"),
        (false, Some(_)) => format!("in this {over}"),
    };
    let long = format!("{} {short}", state.choice.view.counts().1);
    if width(&long) < columns { long } else { short }
}

/// `║ in flight throughout  syncs per character: ░ 1+  ▒ 6+  ▓ 38+  █ 238 to 1,500`.
fn draw_legend(state: &State, map: &Map, area: Rect, pen: &mut Pen) {
    let shades = if state.style.unicode { SHADES } else { ASCII_SHADES };
    let mut x = area.x;
    if map.hung.iter().any(Option::is_some) {
        x += pen.put(x, area.y, 1, HUNG, Ink::Alarm);
        x += pen.put(x, area.y, area.right() - x, " in flight throughout  ", Ink::Faint);
    }
    let (entries, most) = (legend(map.most), map.most);
    let counts = |(at, &(_, from)): (usize, &(u8, u64))| match at + 1 == entries.len() {
        true if from == most => format!(" {}", count(from)),
        true => format!(" {} to {}", count(from), count(most)),
        false => format!(" {}+  ", count(from)),
    };
    let texts: Vec<String> = entries.iter().enumerate().map(counts).collect();
    if texts.is_empty() {
        return;
    }
    let wide = texts.iter().map(|text| 1 + width(text)).sum::<usize>();
    let room = usize::from(area.right().saturating_sub(x));
    let (_, several) = state.choice.view.counts();
    let long = format!("{several} per character: ");
    let title = if width(&long) + wide <= room { long } else { format!("{several}: ") };
    x += pen.put(x, area.y, area.right().saturating_sub(x), &title, Ink::Faint);
    for (text, (shade, _)) in texts.iter().zip(&entries) {
        if x + 1 + width(text.trim_end()) as u16 > area.right() {
            return;
        }
        x += pen.put(x, area.y, 1, shades[usize::from(*shade)], Ink::Level(*shade));
        x += pen.put(x, area.y, area.right() - x, text, Ink::Faint);
    }
}

fn draw_bars(state: &State, map: &Map, area: Rect, pen: &mut Pen) {
    let digits = map.bands.iter().map(|band| width(&count(band.now))).max().unwrap_or(1) as u16;
    let room = area.width.saturating_sub(digits + 2);
    for (at, band) in map.bands.iter().enumerate() {
        let y = area.y + at as u16;
        let axis = if state.style.unicode { "│" } else { "|" };
        pen.put(area.x, y, 1, axis, Ink::Faint);
        if band.now > 0 {
            pen.put(area.x + 1, y, room, &bar(band.now, map.most_now, usize::from(room)), Ink::Plain);
            pen.put_right(area.right() - digits, y, digits, &count(band.now), Ink::Plain);
        }
    }
}

/// A mark below the picture wherever something failed; the line is there only where something did.
fn draw_failures(map: &Map, area: Rect, label: u16, pen: &mut Pen) {
    if map.failed.iter().all(|failed| *failed == 0) {
        return;
    }
    pen.put_right(area.x, area.y, label - 1, "failed", Ink::Faint);
    for (column, _) in map.failed.iter().enumerate().filter(|(_, failed)| **failed > 0) {
        pen.put(area.x + label + column as u16, area.y, 1, "!", Ink::Alarm);
    }
}

/// How far back the picture goes.
fn axis(state: &State, span: Span, area: Rect, pen: &mut Pen) {
    let drawn = state.record.past.until(span.until).take(span.columns * span.each as usize);
    let covered: std::time::Duration = drawn.map(|tick| tick.duration).sum();
    let end = match &state.record.paused {
        Some(_) => state.record.past.tick(span.until).map_or(String::new(), |tick| clock(tick.end)),
        None => "now".into(),
    };
    let seconds = covered.as_secs();
    let begin = if seconds >= 120 {
        format!("-{}m{:02}s", seconds / 60, seconds % 60)
    } else {
        format!("-{seconds}s")
    };
    pen.put_right(area.x, area.y, area.width, &end, Ink::Faint);
    // What is not full yet begins further to the right.
    let full = state.record.past.until(span.until).count() / span.each as usize;
    let first = span.columns.saturating_sub(full) as u16;
    let is_begin_shown = area.width > first + (width(&begin) + width(&end)) as u16 + 1;
    if is_begin_shown {
        pen.put(area.x + first, area.y, area.width - first, &begin, Ink::Faint);
    }
    // Where the figures of an exporter end and its own begin.
    let told = state.record.past.until(span.until).find(|tick| tick.from_exporter);
    if let Some(seam) = told.and_then(|tick| span.column(tick.number)).filter(|seam| seam + 1 < span.columns)
    {
        let mark = if state.style.unicode { "│" } else { "|" };
        let own = told.and_then(|tick| state.record.past.tick(tick.number + 1).zip(Some(tick)));
        let unseen = own.and_then(|(own, told)| (own.end - own.duration).duration_since(told.end).ok());
        let long = match unseen.filter(|unseen| *unseen >= UNTRACED) {
            None => format!("exporter's history{mark}"),
            Some(unseen) => format!("exporter's history, then {} s untraced{mark}", unseen.as_secs()),
        };
        let short = format!("exporter{mark}");
        let begins = if is_begin_shown { usize::from(first) + width(&begin) + 1 } else { usize::from(first) };
        let ends = span.columns - width(&end) - 1;
        let fits = |text: &&String| seam + 1 >= begins + width(text) && seam < ends;
        if let Some(text) = [&long, &short].into_iter().find(fits) {
            let wide = width(text) as u16;
            pen.put(area.x + seam as u16 + 1 - wide, area.y, wide, text, Ink::Faint);
        } else if seam < ends {
            pen.put(area.x + seam as u16, area.y, 1, mark, Ink::Faint);
        }
    }
}
