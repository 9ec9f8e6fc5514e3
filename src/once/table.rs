//! The table of one measurement: whose figures, what is stuck, the rows, the neighbours, the reading.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::model::figures::{Figure, Fit, Value, is_told};
use crate::model::histogram::LAST_EXPONENT;
use crate::model::{
    Backlog, Errors, Interval, Max, Neighbour, Op, RoleRow, ServerId, Stats, Target, UnsyncedRow, Via,
    neighbours,
};
use crate::recording::Troubles;
use crate::render::columns::Column;
use crate::render::grid::{self, Align, Cell, layout};
use crate::render::ranked::{ranked, without_quiet};
use crate::render::row::{About, Key, Row, file_name, suffix};
use crate::render::rows::{self, p99, rows_for_people};
use crate::render::{By, Options, Paint, Style, header, histogram, place, reading};
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
    let (servers, quiet) = without_quiet(ranked(m, options), m, options);
    if servers.is_empty() && quiet.is_empty() {
        let _ = writeln!(out, "no server traced");
    } else if options.by == By::Server && servers.len() > 1 {
        let ids: Vec<ServerId> = servers.iter().map(|one| one.id).collect();
        section(&mut out, m, &ids, header::of_all(m, options), options);
    } else {
        for (at, server) in servers.iter().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            section(
                &mut out,
                m,
                &[server.id],
                header::of_server(m, server.id, server.certain(), options),
                options,
            );
        }
    }
    if !servers.is_empty() && !quiet.is_empty() {
        out.push('\n');
    }
    sentences(&mut out, quiet.into_iter().map(reading::Sentence::plain).collect(), options);
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
pub(super) fn session(out: &mut String, session: &Troubles, m: &Interval, options: &Options) {
    let whole = format!("the whole session of {}", interval(session.duration));
    sentences(out, reading::incidents(&session.incidents, m, options), options);
    sentences(out, reading::of_window(session, &whole, m, options), options);
}

fn section(out: &mut String, m: &Interval, servers: &[ServerId], header: Vec<String>, options: &Options) {
    for line in header {
        let _ = writeln!(out, "{line}");
    }
    // Who asks for the writes is told first what they come to.
    let answer = |&server: &ServerId| reading::amplification(m, server, options);
    let answers: Vec<_> = servers.iter().filter(|_| options.by == By::Writes).filter_map(answer).collect();
    sentences(out, answers.clone(), options);
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
        text.retain(|sentence| !answers.contains(sentence));
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
}

pub(super) fn sentences(out: &mut String, sentences: Vec<reading::Sentence>, options: &Options) {
    for sentence in sentences {
        for line in options.style.wrap(&sentence.text, 2) {
            let _ = writeln!(out, "{}", options.style.paint(sentence.paint, &line));
        }
    }
}

fn grid(out: &mut String, m: &Interval, servers: &[ServerId], rows: &[Row], options: &Options) {
    let style = &options.style;
    let shown = options.limit.unwrap_or(usize::MAX);
    let columns = columns(rows, options);
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows.iter().take(shown) {
        let cell = |column: &Column| match column {
            // It is the file's and not one operation's, and stands in the file's first row.
            Column::Unsynced if seen.insert(file_of(row)) => unsynced(backlog_of(row, m)),
            column => cell(row, *column, m, style),
        };
        lines.push(columns.iter().map(cell).collect());
    }
    let everyone = Key::Server(ServerId::NONE, None);
    let total = Row::new(everyone, About::Server(None), total(m, servers, rows, options.by));
    let cell = |(at, column): (usize, &Column)| match column {
        _ if at == 0 => "total".to_owned().into(),
        Column::Figure(figure) => figure_cell(*figure, total.figure(*figure, m.span.duration), style),
        Column::Unsynced => {
            let its = m.unsynced.rows.iter().filter(|row| servers.contains(&row.server));
            unsynced(its.map(|row| row.now).reduce(Backlog::and))
        }
        _ => Cell::default(),
    };
    lines.push(columns.iter().enumerate().map(cell).collect());
    let columns: Vec<grid::Column> = columns.iter().map(|column| heading(*column, options)).collect();
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

fn total(m: &Interval, servers: &[ServerId], rows: &[Row], by: By) -> Stats {
    if by != By::Writes {
        return m.total_of(|row| servers.contains(&row.server));
    }
    let mut total = Stats::default();
    rows.iter().for_each(|row| total.merge(&row.stats));
    total
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

/// What says what a row is.
fn subject_columns(by: By) -> &'static [Column] {
    match by {
        By::Role | By::Server | By::File | By::Writes => &[Column::Name],
        // A thread's number belongs to its name.
        By::Thread => &[Column::Name, Column::Tid],
    }
}

/// Those that were asked for, in that order; else all that there is something to say in.
fn columns(rows: &[Row], options: &Options) -> Vec<Column> {
    let by = options.by;
    let is_there = |column: &Column| match column {
        Column::Role => matches!(by, By::File | By::Writes),
        Column::Unsynced => by == By::Writes,
        _ => true,
    };
    let subject = subject_columns(by).iter().copied();
    if !options.columns.is_empty() {
        return subject.chain(options.columns.iter().map(|shown| shown.column()).filter(is_there)).collect();
    }
    let is_default = |column: &Column| match column {
        Column::Figure(Figure::Bytes) => {
            by == By::Writes || rows.iter().any(|row| row.op().is_some_and(Op::writes))
        }
        Column::Figure(figure) => figure.line().once != Fit::Never,
        column => is_there(column),
    };
    let figures = Figure::by_place().into_iter().map(Column::Figure);
    let all = [Column::Role, Column::Op].into_iter().chain(figures).chain([Column::Unsynced]);
    subject.chain(all.filter(is_default)).collect()
}

/// What a narrow terminal loses first is what the others imply: the median and the mean before the rate, the
/// share of the time before the operation. Count, p99, maximum and errors always stay, and so does what was
/// asked for.
fn heading(column: Column, options: &Options) -> grid::Column {
    let left =
        |title, drop_at| grid::Column { title, align: Align::Left, roomy: 0, drop_at, flexible: false };
    let right =
        |title, drop_at| grid::Column { title, align: Align::Right, roomy: 6, drop_at, flexible: false };
    let heading = match column {
        Column::Name => match options.by {
            By::Role => left("ROLE", None),
            By::File | By::Writes => grid::Column { flexible: true, ..left("FILE", None) },
            By::Thread => left("THREAD", None),
            By::Server => left("SERVER", None),
        },
        Column::Tid => right("TID", None),
        Column::Role => left("ROLE", Some(6)),
        Column::Op => left("OP", Some(5)),
        Column::Unsynced => right("UNSYNCED", Some(4)),
        Column::Figure(figure) => {
            let line = figure.line();
            let drop_at = match line.once {
                Fit::Until(at) => Some(at),
                Fit::Always | Fit::Never => None,
            };
            match figure {
                Figure::Syncs if options.by == By::Writes => right("WRITES", drop_at),
                Figure::InFlight => grid::Column { roomy: "100 % busy".len(), ..left(line.title, drop_at) },
                _ => right(line.title, drop_at),
            }
        }
        Column::Time | Column::Server | Column::Device | Column::Shared | Column::Busy | Column::Graph => {
            left("", None)
        }
    };
    if options.columns.is_empty() { heading } else { grid::Column { drop_at: None, ..heading } }
}

fn cell(row: &Row, column: Column, m: &Interval, style: &Style) -> Cell {
    match column {
        Column::Name => name(row, m, style),
        Column::Tid => row.key.tid().map(|tid| tid.to_string()).unwrap_or_default().into(),
        Column::Role => row.role().map_or("", |role| role.name()).to_owned().into(),
        Column::Op => row.op().map_or("", Op::name).to_owned().into(),
        Column::Figure(Figure::InFlight) => header::in_flight(row, m).into(),
        Column::Figure(figure) => figure_cell(figure, row.figure(figure, m.span.duration), style),
        _ => Cell::default(),
    }
}

fn name(row: &Row, m: &Interval, style: &Style) -> Cell {
    match &row.about {
        About::Role(role) => role.name().to_owned().into(),
        About::Thread(thread) => style.name(thread.as_bytes()).into(),
        About::Server(_) => header::name(m, row.server().unwrap_or(ServerId::NONE), style).into(),
        About::File(file) => Cell {
            text: file_name(file.target, &file.info, style),
            suffix: suffix(file),
            paint: Paint::Plain,
        },
        About::Neighbour { .. } | About::Log(_) => Cell::default(),
    }
}

fn figure_cell(figure: Figure, value: Value, style: &Style) -> Cell {
    match value {
        Value::Absent if figure.line().is_optional => Cell::default(),
        Value::Errors(errors) | Value::ErrorNames(errors) => self::errors(errors, style),
        Value::Time(ns) => duration(ns).into(),
        Value::Mean(sum, n) => duration(sum / n).into(),
        Value::Quantile(q, ns, n) if is_told(q, n) => duration(ns).into(),
        Value::Quantile(..) => "–".to_owned().into(),
        Value::Max(max) => maximum(max).into(),
        Value::InFlight(mean) => header::mean_in_flight(mean).into(),
        Value::Rate(n, over) => rate(n, over).into(),
        Value::Count(n) | Value::Bytes(n) => count(n).into(),
        Value::Flag(flag) => if flag { "yes" } else { "no" }.to_owned().into(),
        Value::Word(word) => word.to_owned().into(),
        Value::Absent => "–".to_owned().into(),
    }
}

/// What unsynced bytes belong to: files that had one path one after the other are one.
fn file_of(row: &Row) -> Option<(Option<ServerId>, Result<&Path, Target>)> {
    let About::File(file) = &row.about else { return None };
    Some((row.server(), file.info.path.as_deref().ok_or(file.target)))
}

fn backlog_of(row: &Row, m: &Interval) -> Option<Backlog> {
    let About::File(file) = &row.about else { return None };
    let is_its = |of: &&UnsyncedRow| {
        let is_same = match file.info.path.as_deref() {
            Some(path) => of.info.path.as_deref() == Some(path),
            None => of.target == file.target,
        };
        Some(of.server) == row.server() && is_same
    };
    m.unsynced.rows.iter().filter(is_its).map(|row| row.now).reduce(Backlog::and)
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
fn errors(errors: &Errors, style: &Style) -> Cell {
    if errors.total() == 0 {
        return "0".to_owned().into();
    }
    if errors.len() > 1 && style.width.is_some_and(|columns| columns < ROOM_FOR_ERRNOS) {
        return Cell { text: count(errors.total()), paint: Paint::Error, ..Cell::default() };
    }
    let named: Vec<String> =
        errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number))).collect();
    Cell { text: named.join(" "), paint: Paint::Error, ..Cell::default() }
}

/// `also on /dev/vda: xtrabackup 41 syncs/s, p99 90 ms`: a line for each device, one for all where nobody
/// else synced.
fn neighbour_lines(m: &Interval, servers: &[ServerId], style: &Style) -> Vec<String> {
    let devices = neighbours::devices(m, servers);
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
        let filesystems = neighbours::filesystems(m, servers);
        let names: Vec<String> = quiet.iter().map(|device| style.name(device.name.as_bytes())).collect();
        lines.push(format!(
            "also on {}: {}",
            names.join(", "),
            absence::neighbour(&m.setup.net, &filesystems)
        ));
    }
    lines.iter().flat_map(|line| style.wrap(line, 2)).collect()
}

fn neighbour(neighbour: &Neighbour, m: &Interval, style: &Style) -> String {
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
    format!("{name}{pid} {}{}", parts.join(", "), place::in_words(&neighbour.place, style))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
