//! The lines above the table: whose figures these are, how busy the logs are, who else syncs, what is stuck.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ratatui::layout::Rect;

use super::pen::{GAP, Part, Pen, fit};
use super::readings;
use crate::live;
use crate::model::{Interval, Lost, Role, SATURATED, Server, ServerId, Stats};
use crate::render::header::{self, clock};
use crate::render::ranked::Ranked;
use crate::text::{count, counted, escape_sentence, interval, rate, rfc3339, shorten_middle, width};
use crate::top::layout::{Areas, tabs};
use crate::top::palette::Ink;
use crate::top::rows;
use crate::top::state::State;
use crate::top::view::View;
use crate::verdict::{self, OfServer};

/// Sick servers that are named with their states.
const MOST_SICK: usize = 2;

pub fn draw(state: &State, areas: &Areas, pen: &mut Pen) {
    let Rect { x, y, width: columns, height } = areas.header;
    let has_neighbours = height > 2;
    let time = format!("{} UTC", clock(state.now_wall));
    let taken = width(&time) as u16;
    pen.put_right(x, y, columns, &time, Ink::Faint);
    let mut parts = who(state);
    if !has_neighbours {
        parts.extend(how(state));
    }
    pen.put_parts(x, y, columns.saturating_sub(taken + GAP as u16), &parts);
    pen.put_parts(x, y + 1, columns, &totals(state));
    if has_neighbours {
        let how = how(state);
        let wide: usize = how.iter().map(|part| width(&part.text) + GAP).sum();
        let room = columns.saturating_sub(wide as u16);
        pen.put_fitted(x, y + 2, room, &readings::neighbours(state, usize::from(room)), Ink::Plain);
        pen.put_parts(x + room + GAP as u16, y + 2, columns.saturating_sub(room + GAP as u16), &how);
    }
    for (at, line) in state.stuck_lines().iter().enumerate() {
        pen.put_fitted(x, areas.stuck.y + at as u16, columns, line, Ink::Alarm);
    }
    readings::draw(state, areas.readings, pen);
    tab_line(state, areas.tabs, pen);
}

/// `3306  mysqld 31960  MySQL 9.7.4  port 3306  /var/lib/mysql  ext4 on /dev/vda`.
fn who(state: &State) -> Vec<Part> {
    let Some(figures) = &state.shown.figures else { return vec![Part::new(9, "fsynctop", Ink::Strong)] };
    let servers = state.servers();
    let known = |id: &ServerId| figures.m.servers.iter().find(|server| server.id == *id);
    match &servers[..] {
        [] => vec![Part::new(9, "fsynctop: no server yet", Ink::Strong)],
        [id] => match known(id) {
            Some(server) => server_parts(server, state),
            None => vec![Part::new(9, format!("pid {}", id.pid), Ink::Strong)],
        },
        several => {
            let sick = state.shown.ranked.iter().filter(|one| several.contains(&one.id));
            let sick = sick.filter_map(|one| Some((one.id, one.certain()?)));
            let sick = sick.filter(|(_, state)| header::is_sick(*state));
            let mut parts: Vec<Part> = sick
                .take(MOST_SICK)
                .map(|(id, sick)| format!("{} {}", state.server_name(id), header::word(sick)))
                .map(|text| Part::new(9, text, Ink::Alarm))
                .collect();
            let names: Vec<String> = several.iter().map(|id| state.server_name(*id)).collect();
            let count = format!("{} servers", several.len());
            parts.push(Part::new(8, format!("{count}: {}", names.join(", ")), Ink::Strong).or(count));
            parts
        }
    }
}

/// `refresh 1 s`.
fn how(state: &State) -> Vec<Part> {
    if state.shown.figures.is_none() || state.playing.is_some() {
        return Vec::new();
    }
    let every = match state.tracing.sampling {
        live::State::Degraded { interval: now } => {
            Part::new(8, format!("refresh {} to save CPU", short(now)), Ink::Warning)
        }
        _ => Part::new(7, format!("refresh {}", short(state.tracing.interval)), Ink::Faint),
    };
    vec![every]
}

/// `1 s`, `0.2 s`.
fn short(interval: Duration) -> String {
    format!("{} s", interval.as_secs_f64())
}

fn server_parts(server: &Server, state: &State) -> Vec<Part> {
    let path = |path: &Path| state.style.name(path.as_os_str().as_encoded_bytes());
    let escaped = |text: &String| state.style.name(text.as_bytes());
    let mut parts = Vec::new();
    let mut push = |rank, text: String| parts.push(Part::new(rank, text, Ink::Plain));
    if let Some(product) = server.product() {
        push(5, state.style.name(product.as_bytes()));
    }
    if let Some(container) = &server.container {
        push(3, format!("container {}", escaped(container)));
    }
    let ports: Vec<String> = server.ports.iter().map(u16::to_string).collect();
    match (ports.is_empty(), &server.socket) {
        (false, _) => push(1, format!("port {}", ports.join(", "))),
        (true, Some(socket)) => push(0, format!("socket {}", path(socket))),
        (true, None) => {}
    }
    if let Some(datadir) = &server.datadir {
        push(2, path(datadir));
    }
    let on = |device: &String| format!("on {}", escaped(device));
    match (&server.filesystem, &server.device) {
        (Some(filesystem), Some(device)) => push(6, format!("{} {}", escaped(filesystem), on(device))),
        (Some(filesystem), None) => push(6, escaped(filesystem)),
        (None, Some(device)) => push(6, on(device)),
        (None, None) => {}
    }
    let name = header::name_of(server.id, Some(server), &state.style);
    parts.insert(0, Part::new(9, name, Ink::Strong));
    parts.insert(1, Part::new(7, header::process(server, &state.style), Ink::Plain));
    let verdict = state.shown.ranked.iter().find(|one| one.id == server.id).and_then(Ranked::certain);
    match verdict {
        Some(verdict) if header::is_sick(verdict) => {
            parts.insert(1, Part::new(9, header::word(verdict), Ink::Alarm));
        }
        _ if !server.alive => parts.insert(1, Part::new(8, "exited", Ink::Warning)),
        Some(verdict) => parts.insert(1, Part::new(8, header::word(verdict), Ink::Strong)),
        None => {}
    }
    parts
}

/// `5,294 syncs/s  redo 37 % busy  binlog 74 % busy  3 in flight`, then what failed and what was missed.
fn totals(state: &State) -> Vec<Part> {
    let Some(figures) = &state.shown.figures else { return Vec::new() };
    let m = &figures.m;
    if m.span.duration.is_zero() {
        return vec![Part::new(9, "the first figures are on their way", Ink::Plain)];
    }
    let servers = state.servers();
    let mut total = Stats::default();
    m.roles.iter().filter(|row| servers.contains(&row.server)).for_each(|row| total.merge(&row.stats));
    let mut parts = vec![Part::new(8, format!("{} syncs/s", rate(total.count, m.span.duration)), Ink::Plain)];
    if !state.choice.cumulative && is_unusual(m.span.duration, state.tracing.expected_interval()) {
        parts.push(Part::new(8, format!("over {}", interval(m.span.duration)), Ink::Plain));
    }
    for role in logs(m, &servers) {
        parts.extend(busiest(state, m, &servers, role));
    }
    let in_flight = m.in_flight.iter().filter(|sync| servers.contains(&sync.server));
    let in_flight = in_flight.fold(0, |sum: u64, sync| sum.saturating_add(sync.count));
    parts.push(Part::new(3, format!("{} in flight", count(in_flight)), Ink::Plain));
    parts.extend(failures(state));
    parts.extend(confidence(state, m));
    let not_recording = state.record.standing.not_recording.as_ref();
    parts.extend(not_recording.map(|_| Part::new(6, "not recorded", Ink::Warning)));
    parts
}

/// The logs of these servers' engines, and others that were synced.
fn logs(m: &Interval, servers: &[ServerId]) -> Vec<Role> {
    let known = m.servers.iter().filter(|server| servers.contains(&server.id));
    let known = known.flat_map(|server| server.logs().iter().copied());
    let synced = m.roles.iter().filter(|row| servers.contains(&row.server)).map(|row| row.role);
    let in_flight = m.in_flight.iter().filter(|sync| servers.contains(&sync.server)).map(|sync| sync.role);
    let all: BTreeSet<Role> = known.chain(synced).chain(in_flight).collect();
    Role::SERIAL.into_iter().filter(|role| all.contains(role)).collect()
}

/// The first interval is short, so is one in which another length was asked for, and an exporter has a length
/// of its own: what they show rests on less time, or on more.
fn is_unusual(duration: Duration, asked: Duration) -> bool {
    duration * 5 < asked * 4 || duration * 4 > asked * 5
}

/// How busy a log is; of several servers, the busiest.
fn busiest(state: &State, m: &Interval, servers: &[ServerId], role: Role) -> Option<Part> {
    let of = |server: &ServerId| {
        let mut sum = Stats::default();
        m.roles
            .iter()
            .filter(|row| row.server == *server && row.role == role)
            .for_each(|row| sum.merge(&row.stats));
        let stuck = m.in_flight.iter().filter(|sync| sync.server == *server && sync.role == role);
        let oldest = stuck.map(|sync| sync.age).max().unwrap_or_default();
        (rows::busy(sum.in_flight_mean(m.span.duration), oldest, m.span.duration), *server)
    };
    let (busy, server) = servers.iter().map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let whose = match servers.len() > 1 && busy > 0.0 {
        true => format!(" ({})", state.server_name(server)),
        false => String::new(),
    };
    let ink = if busy >= SATURATED { Ink::Warning } else { Ink::Plain };
    let share = format!("{} {:.0} %", role.name(), busy * 100.0);
    let short = if servers.len() > 1 { format!("{share} busy") } else { share.clone() };
    Some(Part::new(7, format!("{share} busy{whose}"), ink).or(short))
}

/// Since the log began, or before, where an exporter remembers it: one that failed long ago still matters.
fn failures(state: &State) -> Option<Part> {
    let servers = state.servers();
    let is_shown = |of: &&OfServer| servers.iter().any(|server| server.pid == of.pid);
    let mut failing = state
        .record
        .standing
        .servers
        .iter()
        .filter(|of| of.state == verdict::State::Failing)
        .filter(is_shown);
    if let Some(first) = failing.next() {
        let (day, time) = (first.since.get(..10), first.since.get(11..19));
        let short = format!("FAILING since {}", escape_sentence(time.unwrap_or(&first.since)));
        let more = match failing.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let whole = format!("FAILING since {} {}{more}", day.unwrap_or_default(), time.unwrap_or_default());
        return Some(Part::new(9, escape_sentence(&whole), Ink::Alarm).or(short));
    }
    let last = state.record.past.log.last_failure()?;
    let failed = format!("{} failed", count(state.record.past.log.failures()));
    Some(Part::new(9, format!("{failed}, last {}", clock(last.at)), Ink::Alarm))
}

/// Where not every one of the watched calls was counted.
fn confidence(state: &State, m: &Interval) -> Option<Part> {
    let describe = |lost: &Lost| match lost.missed() {
        _ if lost.is_zero() => None,
        0 if lost.processes > 0 => Some(format!("{} processes not followed", count(lost.processes))),
        0 if !lost.paused.is_zero() => Some("not traced for a while".to_owned()),
        0 => Some("counted, not all attributed".to_owned()),
        n => Some(format!("{} missed", count(n))),
    };
    match (describe(&m.lost), state.record.latest.as_ref().and_then(|latest| describe(&latest.lost))) {
        (Some(now), _) => Some(Part::new(9, now, Ink::Alarm)),
        (None, Some(before)) => Some(Part::new(5, format!("{before} before"), Ink::Warning)),
        (None, None) => (m.lost.unwatched > 0)
            .then(|| Part::new(5, format!("{} not watched", count(m.lost.unwatched)), Ink::Warning)),
    }
}

/// The groupings, and to the right what narrows the view.
fn tab_line(state: &State, area: Rect, pen: &mut Pen) {
    let mut end = area.x;
    for (view, x, columns) in tabs() {
        let is_shown = view == state.choice.view;
        if is_shown {
            pen.put(area.x + x, area.y, columns, &format!("[{}]", view.title()), Ink::Strong);
        } else {
            pen.put(area.x + x + 1, area.y, columns - 2, view.title(), Ink::Plain);
            // Its key.
            let first = view.title().get(..1).unwrap_or_default();
            pen.put(area.x + x + 1, area.y, 1, first, Ink::Chosen);
        }
        end = area.x + x + columns;
    }
    let room = area.right().saturating_sub(end + 1);
    let parts = narrowed(state);
    let wide: usize = fit(&parts, usize::from(room)).iter().map(|(text, _)| width(text) + GAP).sum();
    let x = area.right().saturating_sub(wide.saturating_sub(GAP).min(usize::from(room)) as u16);
    pen.put_parts(x, area.y, area.right() - x, &parts);
}

fn narrowed(state: &State) -> Vec<Part> {
    let mut parts = Vec::new();
    let page = state.areas().page();
    if state.shown.rows.len() > page {
        let first = state.choice.table().selection.offset;
        let last = (first + page).min(state.shown.rows.len());
        let [first, last, all] = [first + 1, last, state.shown.rows.len()].map(|n| count(n as u64));
        parts.push(Part::new(1, format!("{first}–{last} of {all}"), Ink::Faint));
    }
    if let (Some(role), View::File) = (state.choice.scope.role, state.choice.view) {
        parts.push(Part::new(4, format!("files of {}", role.name()), Ink::Mode));
    }
    if let Some(id) = state.choice.scope.server.filter(|_| state.shown.servers().len() > 1) {
        parts.push(Part::new(3, format!("only {}", state.server_name(id)), Ink::Mode));
    }
    if state.choice.filter.is_on() {
        let text = state.style.name(state.choice.filter.text.as_bytes());
        let sign = if state.choice.filter.is_regex { "~" } else { "/" };
        let [rows, all] = [state.shown.rows.len(), state.shown.rows_before_filter].map(|n| count(n as u64));
        let of = format!("{rows} of {all}");
        let short = format!("{sign}{}: {of}", shorten_middle(&text, 8, state.style.ellipsis()));
        parts.push(Part::new(6, format!("{sign}{text}: {of} rows"), Ink::Mode).or(short));
    }
    if state.choice.cumulative
        && let Some(figures) = &state.shown.figures
    {
        let since = format!("since {}", clock(figures.m.span.start));
        parts.push(
            Part::new(5, format!("{since}, {}", interval(figures.m.span.duration)), Ink::Mode).or(since),
        );
    }
    if let (Some(playing), Some(tick)) = (state.playing, state.record.paused_at()) {
        let what = if playing.is_on { "PLAYING" } else { "RECORDING" };
        let day = rfc3339(tick.end).get(..10).unwrap_or_default().to_owned();
        let at = clock(tick.end);
        parts.push(Part::new(7, format!("{what} of {day} at {at}"), Ink::Mode).or(format!("{what} {at}")));
    } else if state.record.paused.is_some() {
        let tick = state.record.paused_at();
        let at = tick.map_or(String::new(), |tick| {
            let by = if tick.from_exporter { ", from the exporter's history" } else { "" };
            format!(" at {}{by}", clock(tick.end))
        });
        let short = tick.map_or(String::new(), |tick| format!(" {}", clock(tick.end)));
        parts.push(Part::new(7, format!("PAUSED{at}"), Ink::Mode).or(format!("PAUSED{short}")));
    }
    if let Some(figures) = &state.shown.figures
        && figures.m.rest.rows > 0
        && state.choice.view == View::File
    {
        let files = counted(figures.m.rest.rows, "more file", "more files");
        let text = format!("{files}, {}", counted(figures.m.rest.stats.count, "sync", "syncs"));
        parts.push(Part::new(2, text, Ink::Mode));
    }
    parts
}
