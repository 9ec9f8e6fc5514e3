//! The table of one measurement: whose figures, what is stuck, the rows, the neighbours, the reading.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::history::Troubles;
use crate::model::histogram::LAST_EXPONENT;
use crate::model::{Backlog, Interval, Max, RoleRow, Server, ServerId, Stats, UnsyncedRow, Via};
use crate::render::grid::{Align, Cell, Column, layout};
use crate::render::rows::{self, Row, Subject, nameless, p99, rows_for_people};
use crate::render::{By, Options, Paint, Shown, Style, device, header, histogram, reading};
use crate::text::{absence, count, counted, duration, duration_in_words, errno, interval, rate};

/// Neighbours named one by one; the rest is a sum.
const NEIGHBOURS_SHOWN: usize = 3;

/// From this width on, several errors of one row are named in it.
const ROOM_FOR_ERRNOS: usize = 100;

/// The whole text of one measurement.
pub(super) fn table(m: &Interval, options: &Options) -> String {
    let mut out = String::new();
    if options.interval.is_some_and(|interval| interval > 0) {
        out.push('\n');
    }
    let servers = servers(m);
    if servers.is_empty() {
        let _ = writeln!(out, "no server traced · {}", m.setup.mode.name());
    } else if options.by == By::Server && servers.len() > 1 {
        section(&mut out, m, &servers, header::of_all(m, options), options);
    } else {
        for &server in &servers {
            section(&mut out, m, &[server], header::of_server(m, server, options), options);
        }
    }
    match &options.session {
        None => sentences(&mut out, reading::confidence(m, options), options),
        Some(session) => {
            out.push('\n');
            self::session(&mut out, session, m, options);
        }
    }
    out
}

/// What is to be said of a whole session, of which a table shows the last part.
fn session(out: &mut String, session: &Troubles, m: &Interval, options: &Options) {
    let whole = format!("the whole session of {}", interval(session.duration));
    sentences(out, reading::of_window(session, &whole, m, options), options);
}

/// All servers, also one that only its rows still know.
pub(super) fn servers(m: &Interval) -> Vec<ServerId> {
    let mut servers: Vec<ServerId> =
        m.servers.iter().map(|server: &std::sync::Arc<Server>| server.id).collect();
    let unknown = m.roles.iter().map(|row| row.server).chain(m.in_flight.iter().map(|sync| sync.server));
    for id in unknown {
        if !servers.contains(&id) {
            servers.push(id);
        }
    }
    servers
}

fn section(out: &mut String, m: &Interval, servers: &[ServerId], header: Vec<String>, options: &Options) {
    for line in header {
        let _ = writeln!(out, "{}", options.style.paint(Paint::Heading, &line));
    }
    out.push('\n');
    let stuck = header::stuck_lines(m, servers, options);
    if !stuck.is_empty() {
        let _ = writeln!(out, "{}\n", stuck.join("\n"));
    }
    let rows = rows_for_people(m, servers, options);
    if options.by == By::Thread && !m.setup.by_thread {
        out.push_str("no rows by thread: they were not kept\n");
    } else {
        grid(out, m, servers, &rows, options);
    }
    for line in neighbour_lines(m, servers, &options.style) {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
    if options.histogram {
        histogram::draw(out, m, servers, &options.style);
    }
    for &server in servers {
        let mut text = reading::of_server(m, server, options);
        if options.session.is_some() {
            // What went wrong is told once, of all of the session.
            text.retain(|sentence| !matches!(sentence.paint, Paint::Error | Paint::Stuck));
        }
        if servers.len() > 1 {
            let name = header::name(m, server, &options.style);
            text.iter_mut().for_each(|sentence| sentence.text.insert_str(0, &format!("{name}: ")));
        }
        sentences(out, text, options);
    }
    // Between two servers a blank line; the last sentence of all follows its server's own directly.
    if servers.last() != self::servers(m).last() {
        out.push('\n');
    }
}

fn sentences(out: &mut String, sentences: Vec<reading::Sentence>, options: &Options) {
    for sentence in sentences {
        for line in options.style.wrap(&sentence.text, 2) {
            let _ = writeln!(out, "{}", options.style.paint(sentence.paint, &line));
        }
    }
}

fn grid(out: &mut String, m: &Interval, servers: &[ServerId], rows: &[Row], options: &Options) {
    let style = &options.style;
    let shown = options.limit.unwrap_or(usize::MAX);
    let mut lines: Vec<Vec<Cell>> = rows
        .iter()
        .take(shown)
        .map(|row| {
            let mut cells = subject(row, m, style);
            cells.push(row.op.name().to_owned().into());
            cells.extend(figures(&row.stats, header::in_flight(row, m), m, style));
            cells.push(bytes(row.op.writes(), &row.stats));
            cells
        })
        .collect();
    if options.by == By::Writes {
        add_unsynced(&mut lines, &rows[..rows.len().min(shown)], m);
    }
    let mut total = Stats::default();
    if options.by == By::Writes {
        rows.iter().for_each(|row| total.merge(&row.stats));
    } else {
        m.roles.iter().filter(|row| servers.contains(&row.server)).for_each(|row| total.merge(&row.stats));
    }
    let subjects = subject_columns(options.by);
    let mut cells = vec![Cell::default(); subjects.len() + 1];
    cells[0].text = "total".into();
    cells.extend(figures(&total, header::mean_in_flight(total.in_flight_mean(m.span.duration)), m, style));
    cells.push(bytes(total.bytes > 0, &total));
    if options.by == By::Writes {
        let its = m.unsynced.rows.iter().filter(|row| servers.contains(&row.server));
        cells.push(unsynced(its.map(|row| row.now).reduce(Backlog::and)));
    }
    lines.push(cells);

    let mut columns: Vec<Column> = subjects.into_iter().chain(figure_columns()).collect();
    if options.by == By::Writes {
        columns
            .iter_mut()
            .filter(|column| column.title == title(Shown::Syncs))
            .for_each(|column| column.title = WRITES);
    }
    if options.by == By::Writes {
        columns.push(right(title(Shown::Bytes), Some(4)));
        columns.push(right(title(Shown::Unsynced), Some(4)));
    } else if rows.iter().any(|row| row.op.writes()) || options.columns.contains(&Shown::Bytes) {
        columns.push(right(title(Shown::Bytes), Some(4)));
    } else {
        lines.iter_mut().for_each(|cells| drop(cells.pop()));
    }
    let (columns, lines) = chosen(&options.columns, columns, lines);
    out.push_str(&layout(&columns, &lines, style));
    if options.by == By::Thread {
        without_thread(out, m, servers, style);
    }
    if let Some(left_out) = rows.get(shown..).filter(|rest| !rest.is_empty()) {
        let left: u64 = left_out.iter().map(|row| row.stats.count).sum();
        let rows = counted(left_out.len() as u64, "more row", "more rows");
        let (are, them) = if left_out.len() == 1 { ("is", "it") } else { ("are", "them") };
        let left = if options.by == By::Writes {
            counted(left, "write", "writes")
        } else {
            counted(left, "sync", "syncs")
        };
        let line = format!("{rows} with {left} {are} left out here (--limit); the total counts {them}");
        for line in style.wrap(&line, 2) {
            let _ = writeln!(out, "{line}");
        }
    }
}

/// A request has no thread of its own: a worker of the kernel may end what one thread of the server has
/// begun.
fn without_thread(out: &mut String, m: &Interval, servers: &[ServerId], style: &Style) {
    let is_one = |row: &&RoleRow| servers.contains(&row.server) && row.op.via() != Via::Call;
    let requests: u64 = m.roles.iter().filter(is_one).map(|row| row.stats.count).sum();
    if requests > 0 {
        let (are, they) = if requests == 1 { ("is", "it has") } else { ("are", "they have") };
        let requests = counted(requests, "asynchronous request", "asynchronous requests");
        let line = format!("{requests} {are} in the total and in no row: {they} no thread");
        for line in style.wrap(&line, 2) {
            let _ = writeln!(out, "{line}");
        }
    }
}

/// The columns that were asked for, in that order; the first, which says what a row is, stays where it is.
/// None of these is left out for want of room.
fn chosen(asked: &[Shown], columns: Vec<Column>, lines: Vec<Vec<Cell>>) -> (Vec<Column>, Vec<Vec<Cell>>) {
    if asked.is_empty() {
        return (columns, lines);
    }
    let is_it = |column: &Column, shown: Shown| {
        column.title == title(shown) || (shown == Shown::Syncs && column.title == WRITES)
    };
    let place = |shown: &Shown| (1..columns.len()).find(|&at| is_it(&columns[at], *shown));
    // A thread's number belongs to its name.
    let subject = (0..columns.len()).take_while(|&at| at == 0 || columns[at].title == TID);
    let places: Vec<usize> = subject.chain(asked.iter().filter_map(place)).collect();
    let lines = lines.iter().map(|line| places.iter().map(|&at| line[at].clone()).collect()).collect();
    (places.iter().map(|&at| Column { drop_at: None, ..columns[at].clone() }).collect(), lines)
}

const TID: &str = "TID";
/// Where rows count writes instead of syncs.
const WRITES: &str = "WRITES";

fn title(shown: Shown) -> &'static str {
    match shown {
        Shown::Role => "ROLE",
        Shown::Op => "OP",
        Shown::Syncs => "SYNCS",
        Shown::Rate => "/s",
        Shown::Mean => "MEAN",
        Shown::P50 => "P50",
        Shown::P99 => "P99",
        Shown::Max => "MAX",
        Shown::InFlight => "IN FLIGHT",
        Shown::Errors => "ERRORS",
        Shown::Bytes => "BYTES",
        Shown::Unsynced => "UNSYNCED",
    }
}

fn left(title: &'static str, drop_at: Option<u8>) -> Column {
    Column { title, align: Align::Left, roomy: 0, drop_at, flexible: false }
}

fn right(title: &'static str, drop_at: Option<u8>) -> Column {
    Column { title, align: Align::Right, roomy: 6, drop_at, flexible: false }
}

fn subject_columns(by: By) -> Vec<Column> {
    match by {
        By::Role => vec![left(title(Shown::Role), None)],
        By::File | By::Writes => {
            vec![Column { flexible: true, ..left("FILE", None) }, left(title(Shown::Role), Some(6))]
        }
        By::Thread => vec![left("THREAD", None), right(TID, None)],
        By::Server => vec![left("SERVER", None)],
    }
}

/// What a narrow terminal loses first is what the others imply: the median and the mean before the rate, the
/// share of the time before the operation. Count, p99, maximum and errors always stay.
fn figure_columns() -> [Column; 9] {
    [
        left(title(Shown::Op), Some(5)),
        right(title(Shown::Syncs), None),
        right(title(Shown::Rate), Some(3)),
        right(title(Shown::Mean), Some(2)),
        right(title(Shown::P50), Some(1)),
        right(title(Shown::P99), None),
        right(title(Shown::Max), None),
        Column { roomy: "100 % busy".len(), ..left(title(Shown::InFlight), Some(4)) },
        right(title(Shown::Errors), None),
    ]
}

fn subject(row: &Row, m: &Interval, style: &Style) -> Vec<Cell> {
    match row.subject {
        Subject::Role(role) => vec![role.name().to_owned().into()],
        Subject::Thread(thread) => {
            vec![style.name(thread.name.as_bytes()).into(), thread.tid.to_string().into()]
        }
        Subject::Server => vec![header::name(m, row.server, style).into()],
        Subject::File(file) => {
            let text = match &file.info.path {
                Some(path) if nameless(file).is_none() => style.name(path.as_os_str().as_encoded_bytes()),
                _ => nameless(file).unwrap_or_default(),
            };
            let is_file = matches!(file.target, crate::model::Target::File(_));
            let suffix = match (row.files, is_file && file.info.unlinked) {
                (1, false) => String::new(),
                (1, true) => " (gone)".into(),
                (n, false) => format!(" ({} files)", count(n as u64)),
                (n, true) => format!(" ({} gone)", count(n as u64)),
            };
            vec![Cell { text, suffix, paint: Paint::Plain }, file.info.role.name().to_owned().into()]
        }
    }
}

fn figures(stats: &Stats, in_flight: String, m: &Interval, style: &Style) -> Vec<Cell> {
    let optional = |ns: Option<u64>| ns.map_or_else(|| "–".to_owned(), duration);
    vec![
        count(stats.count).into(),
        rate(stats.count, m.span.duration).into(),
        optional(stats.mean_ns()).into(),
        optional(stats.quantile_ns(0.5)).into(),
        optional(rows::p99(stats)).into(),
        if stats.count == 0 { "–".to_owned().into() } else { maximum(stats.max).into() },
        in_flight.into(),
        errors(stats, style),
    ]
}

/// What was written, where that is known.
fn bytes(is_known: bool, stats: &Stats) -> Cell {
    if is_known { count(stats.bytes).into() } else { Cell::default() }
}

/// To each file's first row, since what is unsynced is the file's and not one operation's. Files that had one
/// path one after the other are one.
fn add_unsynced(lines: &mut [Vec<Cell>], rows: &[Row], m: &Interval) {
    let mut seen = BTreeSet::new();
    for (cells, row) in lines.iter_mut().zip(rows) {
        let Subject::File(file) = row.subject else { continue };
        let path = file.info.path.as_deref();
        let is_first = seen.insert((row.server, path, path.is_none().then_some(file.target)));
        let is_its = |of: &&UnsyncedRow| {
            let is_same =
                if path.is_some() { of.info.path.as_deref() == path } else { of.target == file.target };
            of.server == row.server && is_same
        };
        let its = m.unsynced.rows.iter().filter(is_its).map(|row| row.now).reduce(Backlog::and);
        cells.push(if is_first { unsynced(its) } else { Cell::default() });
    }
}

/// `0`, or `16,384 (1.2s)`: the bytes, and the age of the oldest.
fn unsynced(backlog: Option<Backlog>) -> Cell {
    match backlog {
        Some(Backlog { bytes, age }) if bytes > 0 => {
            format!("{} ({})", count(bytes), duration(age.as_nanos() as u64)).into()
        }
        _ => "0".to_owned().into(),
    }
}

/// The greatest latency; `≤` where only its bucket is known, whose upper edge this is.
pub(super) fn maximum(max: Max) -> String {
    match max {
        Max { ns: u64::MAX, .. } => format!("≥{}", duration(1 << LAST_EXPONENT)),
        Max { ns, exact: true } => duration(ns),
        Max { ns, exact: false } => format!("≤{}", duration(ns)),
    }
}

/// `0`, `2 EIO`, `1 EIO 4 ENOSPC`: the name of the error stands beside the red number. Where
/// there is little room, several errors are one sum; the sentences below the table name them.
fn errors(stats: &Stats, style: &Style) -> Cell {
    if stats.error_count() == 0 {
        return "0".to_owned().into();
    }
    if stats.errors.len() > 1 && style.width.is_some_and(|columns| columns < ROOM_FOR_ERRNOS) {
        return Cell { text: count(stats.error_count()), paint: Paint::Error, ..Cell::default() };
    }
    let named: Vec<String> =
        stats.errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number))).collect();
    Cell { text: named.join(" "), paint: Paint::Error, ..Cell::default() }
}

/// `also on /dev/vda: xtrabackup 41 syncs/s, p99 90 ms`: a line for each device, one for all where nobody
/// else synced.
fn neighbour_lines(m: &Interval, servers: &[ServerId], style: &Style) -> Vec<String> {
    let devices = device::devices(m, servers);
    if devices.is_empty() {
        return Vec::new();
    }
    let (busy, quiet): (Vec<_>, Vec<_>) = devices.iter().partition(|device| !device.neighbours.is_empty());
    let mut lines = Vec::new();
    for device in busy {
        let mut parts: Vec<String> =
            device.neighbours.iter().take(NEIGHBOURS_SHOWN).map(|n| neighbour(n, m, style)).collect();
        if let Some(rest) = device.neighbours.get(NEIGHBOURS_SHOWN..).filter(|rest| !rest.is_empty()) {
            let syncs = rest.iter().map(|n| n.stats.all()).sum();
            let others = counted(rest.len() as u64, "other", "others");
            parts.push(format!("{others} {} syncs/s", rate(syncs, m.span.duration)));
        }
        lines.push(format!("also on {}: {}", style.name(device.name.as_bytes()), parts.join("; ")));
    }
    if !quiet.is_empty() {
        let filesystems = device::filesystems(m, servers);
        let names: Vec<String> = quiet.iter().map(|device| style.name(device.name.as_bytes())).collect();
        lines.push(format!(
            "also on {}: {}",
            names.join(", "),
            absence::neighbour(&m.setup.net, &filesystems)
        ));
    }
    lines.iter().flat_map(|line| style.wrap(line, 2)).collect()
}

fn neighbour(neighbour: &device::Neighbour, m: &Interval, style: &Style) -> String {
    let name = style.name(neighbour.comm.as_bytes());
    let pid = neighbour.pid.map(|pid| format!(" {pid} (traced)")).unwrap_or_default();
    let stats = &neighbour.stats;
    let mut parts = Vec::new();
    if stats.count > 0 {
        let worst = match p99(stats) {
            Some(ns) => format!("p99 {}", duration_in_words(ns)),
            None => format!("max {}", rows::max_in_words(stats.max)),
        };
        parts.push(format!("{} syncs/s, {worst}", rate(stats.count, m.span.duration)));
    }
    if stats.untimed > 0 {
        parts.push(format!("{} untimed syncs/s", rate(stats.untimed, m.span.duration)));
    }
    format!("{name}{pid} {}{}", parts.join(", "), neighbour.place.in_words(style))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
