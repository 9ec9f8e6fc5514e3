//! The line that says whose figures these are, and the syncs that are stuck, which stand above every table.

use super::Options;
use super::row::Row;
use super::style::{Paint, Style};
use crate::model::{InFlight, Interval, Server, ServerId};
use crate::text::{counted, duration_in_words, interval, rfc3339};
use crate::verdict::State;

/// Stuck syncs listed one by one; the rest is a count.
const STUCK_SHOWN: usize = 10;

/// `3306 is ok · mysqld 31960 · MySQL 9.7.4 · port 3306 · /var/lib/mysql · ext4 on /dev/vda · 1.37 s`; what
/// is not known is left out. `state`: as far as it is certain.
pub(crate) fn of_server(m: &Interval, id: ServerId, state: Option<State>, options: &Options) -> Vec<String> {
    let style = &options.style;
    let mut parts = Vec::new();
    match m.server(id) {
        Some(server) => describe(server, style, &mut parts),
        None => parts.push(format!("pid {}", id.pid)),
    }
    let name = parts.first().cloned().unwrap_or_default();
    let has_ended = m.server(id).is_some_and(|server| !server.alive);
    parts[0] = match state {
        _ if id == ServerId::ENDED => name,
        Some(state) if is_sick(state) || !has_ended => format!("{name} is {}", word(state)),
        _ if has_ended => format!("{name} has exited"),
        _ => name,
    };
    let lines = lines(m, parts, options);
    lines.into_iter().map(|line| style.paint(paint_of(state), &line)).collect()
}

/// What is wrong is not overlooked.
pub(crate) fn word(state: State) -> String {
    if is_sick(state) { state.name().to_uppercase() } else { state.name().to_owned() }
}

pub(crate) fn is_sick(state: State) -> bool {
    matches!(state, State::Slow | State::Stalled | State::Failing)
}

fn paint_of(state: Option<State>) -> Paint {
    match state {
        Some(State::Failing) => Paint::Error,
        Some(State::Stalled | State::Slow) => Paint::Stuck,
        Some(State::Ok | State::Idle | State::Unknown) | None => Paint::Heading,
    }
}

/// For a table of several servers.
pub(crate) fn of_all(m: &Interval, options: &Options) -> Vec<String> {
    let lines = lines(m, vec![format!("{} servers", m.servers.len())], options);
    lines.into_iter().map(|line| options.style.paint(Paint::Heading, &line)).collect()
}

fn lines(m: &Interval, mut parts: Vec<String>, options: &Options) -> Vec<String> {
    parts.push(interval(m.span.duration));
    if options.interval.is_some() {
        parts.push(format!("until {}", rfc3339(m.span.end)));
    }
    parts.extend(m.setup.note.clone());
    options.style.wrap_at(&parts.join(" · "), " · ", 2)
}

/// What the server is called, escaped: the same in every view, in metrics and in alerts.
pub(crate) fn name(m: &Interval, id: ServerId, style: &Style) -> String {
    name_of(id, m.server(id).map(|server| &**server), style)
}

/// `3306`, `orders`; `pid 31960` of one that is not described.
pub(crate) fn name_of(id: ServerId, server: Option<&Server>, style: &Style) -> String {
    server.map_or_else(|| format!("pid {}", id.pid), |server| style.escaped_name(&server.name))
}

/// `mysqld 31960`.
pub(crate) fn process(server: &Server, style: &Style) -> String {
    format!("{} {}", style.name(server.comm.as_bytes()), server.id.pid)
}

fn describe(server: &Server, style: &Style, parts: &mut Vec<String>) {
    let path = |path: &std::path::Path| style.name(path.as_os_str().as_encoded_bytes());
    let escaped = |text: &String| style.name(text.as_bytes());
    let process = (server.id != ServerId::ENDED).then(|| process(server, style));
    // A process that is called nothing else has its name in there.
    let is_in_process = process.is_some() && *server.name == *server.comm;
    parts.extend((!is_in_process).then(|| style.escaped_name(&server.name)));
    parts.extend(process);
    parts.extend(server.product().map(|product| style.name(product.as_bytes())));
    parts.extend(server.container.as_ref().map(|name| format!("container {}", escaped(name))));
    let ports: Vec<String> = server.ports.iter().map(u16::to_string).collect();
    match (ports.as_slice(), &server.socket) {
        ([], Some(socket)) => parts.push(format!("socket {}", path(socket))),
        ([], None) => {}
        ([port], _) => parts.push(format!("port {port}")),
        (ports, _) => parts.push(format!("ports {}", ports.join(", "))),
    }
    parts.extend(server.datadir.as_deref().map(path));
    match (server.filesystem.as_ref().map(escaped), server.device.as_ref().map(escaped)) {
        (Some(filesystem), Some(device)) => parts.push(format!("{filesystem} on {device}")),
        (Some(only), None) => parts.push(only),
        (None, Some(device)) => parts.push(format!("on {device}")),
        (None, None) => {}
    }
}

/// The syncs of these servers that hang, the oldest first.
pub(crate) fn stuck<'a>(m: &'a Interval, servers: &[ServerId], options: &Options) -> Vec<&'a InFlight> {
    let hangs = |sync: &&InFlight| servers.contains(&sync.server) && sync.age >= options.stuck_after;
    m.in_flight.iter().filter(hangs).collect()
}

/// A line for each: `STUCK for 12 s: redo fdatasync, thread ib_log_flush 31999, /var/lib/mysql/…`.
pub(crate) fn stuck_lines(m: &Interval, servers: &[ServerId], options: &Options) -> Vec<String> {
    let style = &options.style;
    let stuck = stuck(m, servers, options);
    let mut lines = Vec::new();
    for sync in stuck.iter().take(STUCK_SHOWN) {
        let whose = if servers.len() > 1 { name(m, sync.server, style) + ", " } else { String::new() };
        lines.push(format!("STUCK {}: {whose}{}", age(sync), describe_sync(sync, style)));
    }
    if stuck.len() > STUCK_SHOWN {
        let more = counted((stuck.len() - STUCK_SHOWN) as u64, "more sync", "more syncs");
        lines.push(format!("STUCK {more}"));
    }
    let wrapped = lines.iter().flat_map(|line| style.wrap(line, 6));
    wrapped.map(|line| style.paint(Paint::Stuck, &line)).collect()
}

/// `for 12 s`, `for at least 2m05s`.
pub(crate) fn age(sync: &InFlight) -> String {
    let age = duration_in_words(u64::try_from(sync.age.as_nanos()).unwrap_or(u64::MAX));
    if sync.age_is_minimum { format!("for at least {age}") } else { format!("for {age}") }
}

/// `redo fdatasync, thread ib_log_flush 31999, /var/lib/mysql/#innodb_redo/#ib_redo5`.
pub(crate) fn describe_sync(sync: &InFlight, style: &Style) -> String {
    let thread = style.name(sync.thread.as_bytes());
    let mut text = format!("{} {}, thread {thread} {}", sync.role.name(), sync.op.name(), sync.tid);
    if let Some(path) = &sync.path {
        text += ", ";
        text += &style.name(path.as_os_str().as_encoded_bytes());
    }
    text
}

/// The mean number in flight of a row; for a log that the server serialises, how busy it is. A sync that
/// began before the interval counts with its whole latency, so the quotient can exceed what is possible: a
/// log is never more than 100 % busy.
pub(crate) fn in_flight(row: &Row, m: &Interval) -> String {
    let mean = row.stats.in_flight_mean(m.span.duration);
    match row.role() {
        Some(role) if role.is_serial() => format!("{:>3.0} % busy", (mean * 100.0).min(100.0)),
        _ => mean_in_flight(mean),
    }
}

pub(crate) fn mean_in_flight(mean: f64) -> String {
    format!(" {mean:.2}")
}

/// The time of day in UTC: `03:12:59`.
pub(crate) fn clock(time: std::time::SystemTime) -> String {
    rfc3339(time).get(11..19).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_clock_is_utc() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(3 * 3600 + 12 * 60 + 59);
        assert_eq!(clock(time), "03:12:59");
    }
}
