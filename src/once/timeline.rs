//! `fsynctop history`: the past as a time line, a row for some seconds each, with the worst seconds marked.
//! Incidents come first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::incidents::{self, JsonIncident};
use super::{render, table};
use crate::model::{Interval, Role, Server, ServerId, Stats};
use crate::recording::series::{Part, Standout, Worst};
use crate::recording::{self, Incident, Troubles};
use crate::render::grid::{Align, Cell, Column, layout};
use crate::render::header;
use crate::render::json;
use crate::render::ranked::{ranked, without_any_quiet};
use crate::render::reading::Sentence;
use crate::render::rows::max_ns;
use crate::render::{Options, Output, Paint, json_schema, reading};
use crate::text::{absence, count, duration, length, percent, rate, rfc3339, seconds};

/// Rows that fit a screen with what stands above and below them.
const FEW: usize = 15;
/// Rows whose worst second is marked.
const WORST_MARKED: usize = 5;
/// How many seconds a row covers where nobody says how much: round figures, that are added up at sight.
const STEPS: [u64; 13] = [10, 15, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400];
/// Rows that a time line has at most, while that is possible.
const ROWS: u32 = 40;

/// How much of a range a row covers.
pub fn step(range: Duration) -> Duration {
    let wanted = (range / ROWS).as_secs();
    let [.., longest] = STEPS;
    Duration::from_secs(STEPS.into_iter().find(|step| *step >= wanted).unwrap_or(longest))
}

/// Writes a time line. `all`: its parts summed up; `troubles`: what went wrong in them.
pub fn write(
    parts: &[Part],
    all: &Interval,
    troubles: &Troubles,
    options: &Options,
    out: &mut impl Write,
) -> io::Result<()> {
    match options.output {
        Output::Table => out.write_all(options.style.finish(text(parts, all, troubles, options)).as_bytes()),
        Output::Json => {
            let mut incidents = troubles.incidents.list();
            parts.iter().enumerate().try_for_each(|(at, part)| {
                let is_last = at + 1 == parts.len();
                let begun = |incident: &&mut &Incident| is_last || incident.begin < part.interval.span.end;
                let here: Vec<&Incident> = incidents.extract_if(.., |one| begun(&one)).collect();
                write_json(part, &here, out)
            })
        }
        Output::Csv => parts.iter().enumerate().try_for_each(|(at, part)| {
            let options = Options { interval: Some(at), ..options.clone() };
            render(&part.interval, &options, out)
        }),
    }
}

fn text(parts: &[Part], all: &Interval, troubles: &Troubles, options: &Options) -> String {
    let mut out = String::new();
    let (servers, quiet) = without_any_quiet(ranked(all, options), all, options);
    let incidents = reading::incidents(&troubles.incidents, all, options);
    // They may have left the screen by the end.
    let first = incidents.first().filter(|_| parts.len() > FEW).cloned();
    let incidents =
        if incidents.is_empty() { no_slow_log(troubles).into_iter().collect() } else { incidents };
    if !incidents.is_empty() {
        table::sentences(&mut out, incidents, options);
        out.push('\n');
    }
    for ranked in &servers {
        for line in header::of_server(all, ranked.id, ranked.certain(), options) {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
        let server = ranked.id;
        let known = all.servers.iter().find(|known| known.id == server);
        let logs = logs(parts, server, known.map(|known| &**known));
        out.push_str(&rows(parts, server, &logs, options));
        out.push('\n');
    }
    let are_all_shown = quiet.is_empty();
    if !are_all_shown {
        table::sentences(&mut out, quiet.into_iter().map(Sentence::plain).collect(), options);
        out.push('\n');
    }
    if servers.is_empty() && are_all_shown {
        let _ = writeln!(out, "{}", absence::server(all.span.duration));
    }
    if let Some(first) = first {
        let text = first.text.trim_end_matches(" (UTC):").to_owned() + ": see above.";
        table::sentences(&mut out, vec![Sentence { text, ..first }], options);
    }
    let whole = format!("these {}", crate::text::interval(troubles.duration));
    table::sentences(&mut out, reading::of_window(troubles, &whole, all, options), options);
    out
}

/// What is denied where there is no incident.
fn no_slow_log(troubles: &Troubles) -> Option<Sentence> {
    let (slow, saturated) = recording::slow_and_saturated();
    let slow = troubles.incidents.tells_slow_logs()?.then_some(&*slow);
    absence::slow_log(slow, &saturated, &troubles.lost).map(Sentence::plain)
}

const fn column(title: &'static str, drop_at: Option<u8>) -> Column {
    Column { title, align: Align::Right, roomy: 0, drop_at, flexible: false }
}

const BYTES: &str = "BYTES";

/// Of each log that commits wait for, its title in the two columns that it has.
const fn of_log(log: Role) -> Option<(&'static str, &'static str)> {
    match log {
        Role::Redo => Some(("REDO P99", "REDO MAX")),
        Role::Binlog => Some(("BINLOG P99", "BINLOG MAX")),
        Role::Wal => Some(("WAL P99", "WAL MAX")),
        Role::Aof => Some(("AOF P99", "AOF MAX")),
        _ => None,
    }
}

const BEFORE_LOGS: [Column; 3] =
    [Column { align: Align::Left, ..column("UTC", None) }, column("SYNCS/S", Some(4)), column("BUSY", None)];

const BEHIND_LOGS: [Column; 6] = [
    column("OTHER MAX", Some(1)),
    column("IN FLIGHT", Some(0)),
    column("OLDEST", Some(3)),
    column("ERRORS", None),
    // Of durable writes; left out where there were none.
    column(BYTES, Some(0)),
    Column { align: Align::Left, ..column("WORST SECOND", None) },
];

/// The logs of the server's engine; of one that is not known, those that were synced.
fn logs(parts: &[Part], server: ServerId, known: Option<&Server>) -> Vec<Role> {
    if let Some(known) = known.filter(|known| !known.logs().is_empty()) {
        return known.logs().to_vec();
    }
    let rows = parts.iter().flat_map(|part| &part.interval.roles);
    let synced: BTreeSet<Role> = rows.filter(|row| row.server == server).map(|row| row.role).collect();
    Role::SERIAL.into_iter().filter(|role| synced.contains(role)).collect()
}

fn rows(parts: &[Part], server: ServerId, logs: &[Role], options: &Options) -> String {
    let marked = worst_of(parts, server);
    let mut rows: Vec<Vec<Cell>> =
        parts.iter().enumerate().map(|(at, part)| row(part, server, logs, marked.contains(&at))).collect();
    let of_server = |part: &Part| {
        let rows = part.interval.roles.iter().filter(|row| row.server == server);
        rows.map(|row| row.stats.bytes).any(|bytes| bytes > 0)
    };
    let of_logs = logs.iter().filter_map(|&log| of_log(log));
    let of_logs = of_logs.flat_map(|(p99, max)| [column(p99, Some(2)), column(max, None)]);
    let mut columns: Vec<Column> = BEFORE_LOGS.into_iter().chain(of_logs).chain(BEHIND_LOGS).collect();
    if !parts.iter().any(of_server) {
        let at = columns.iter().position(|column| column.title == BYTES).expect("it is one of them");
        columns.remove(at);
        rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    layout(&columns, &rows, &options.style)
}

/// The parts with the longest waits.
fn worst_of(parts: &[Part], server: ServerId) -> BTreeSet<usize> {
    let mut waits: Vec<(Duration, usize)> = parts
        .iter()
        .enumerate()
        .filter_map(|(at, part)| Some((part.servers.get(&server)?.worst.as_ref()?.wait(), at)))
        .collect();
    waits.sort_by_key(|&(wait, at)| std::cmp::Reverse((wait, at)));
    waits.into_iter().take(WORST_MARKED).map(|(_, at)| at).collect()
}

fn row(part: &Part, server: ServerId, logs: &[Role], is_marked: bool) -> Vec<Cell> {
    let m = &part.interval;
    let standout = part.servers.get(&server).cloned().unwrap_or_default();
    let of = |wanted: &dyn Fn(Role) -> bool| {
        let mut total = Stats::default();
        let rows = m.roles.iter().filter(|row| row.server == server && wanted(row.role));
        rows.for_each(|row| total.merge(&row.stats));
        total
    };
    let all = of(&|_| true);
    let of_log = |&log: &Role| {
        let syncs = of(&|role| role == log);
        [p99(&syncs).into(), max(&syncs).into()]
    };
    let other = of(&|role| !role.is_serial());
    let errors = match all.error_count() {
        0 => "0".to_owned().into(),
        n => Cell { text: count(n), paint: Paint::Error, ..Cell::default() },
    };
    let mut cells: Vec<Cell> = vec![
        time_of_day(m.span.start).into(),
        rate(all.count, m.span.duration).into(),
        busy(&standout, m.span.duration).into(),
    ];
    cells.extend(logs.iter().flat_map(of_log));
    cells.extend([
        max(&other).into(),
        count(standout.in_flight).into(),
        oldest(&standout),
        errors,
        count(all.bytes).into(),
        standout.worst.filter(|_| is_marked).map(|worst| mark(&worst)).unwrap_or_default(),
    ]);
    cells
}

/// Of the busiest log.
fn busy(standout: &Standout, over: Duration) -> String {
    standout.busy.values().max().map_or_else(|| "–".into(), |busy| percent(share(*busy, over)))
}

fn share(busy: Duration, over: Duration) -> f64 {
    if over.is_zero() { 0.0 } else { (busy.as_secs_f64() / over.as_secs_f64()).min(1.0) }
}

fn oldest(standout: &Standout) -> Cell {
    if standout.in_flight == 0 {
        return "–".to_owned().into();
    }
    let text = duration(standout.oldest.as_nanos() as u64);
    let is_long = standout.oldest >= Duration::from_secs(1);
    Cell { text, paint: if is_long { Paint::Stuck } else { Paint::Plain }, ..Cell::default() }
}

/// `10:03:17 redo 2.1s`, `10:03:17 redo ≥40s` for one that was still in flight.
fn mark(worst: &Worst) -> Cell {
    let ended = Duration::from_nanos(worst.stats.max.ns);
    let wait = duration(worst.wait().as_nanos() as u64);
    let least = if worst.oldest > ended { "≥" } else { "" };
    let text = format!("{} {} {least}{wait}", time_of_day(worst.start), worst.role.name());
    Cell { text, paint: Paint::Error, ..Cell::default() }
}

fn p99(stats: &Stats) -> String {
    stats.quantile_ns(0.99).map_or_else(|| "–".into(), duration)
}

fn max(stats: &Stats) -> String {
    if stats.count == 0 { "–".into() } else { table::maximum(stats.max) }
}

/// `10:03:17`
fn time_of_day(time: SystemTime) -> String {
    rfc3339(time).get(11..19).unwrap_or_default().to_owned()
}

/// A measurement, and what stood out in it.
#[derive(Serialize)]
struct JsonPart {
    #[serde(flatten)]
    measurement: json_schema::Measurement,
    worst_seconds: Vec<JsonStandout>,
    /// Those that began in this row; in the first one, also those that had begun before.
    incidents: Vec<JsonIncident>,
    /// Syncs of files that are in `roles` and not in `files`.
    syncs_of_other_files: u64,
}

#[derive(Serialize)]
struct JsonStandout {
    pid: u32,
    in_flight_most: u64,
    oldest_in_flight_seconds: f64,
    /// The share of the time, for each log that the server serialises.
    busy: BTreeMap<Role, f64>,
    #[serde(flatten)]
    worst: Option<JsonWorst>,
}

#[derive(Serialize)]
struct JsonWorst {
    start: String,
    end: String,
    role: Role,
    count: u64,
    p99_seconds: Option<f64>,
    max_seconds: Option<f64>,
    wait_seconds: f64,
}

fn write_json(part: &Part, incidents: &[&Incident], out: &mut impl Write) -> io::Result<()> {
    let over = part.interval.span.duration;
    let second = |worst: &Worst| JsonWorst {
        start: rfc3339(worst.start),
        end: rfc3339(worst.end),
        role: worst.role,
        count: worst.stats.count,
        p99_seconds: worst.stats.quantile_ns(0.99).map(seconds),
        max_seconds: (worst.stats.count > 0).then(|| max_ns(worst.stats.max)).flatten().map(seconds),
        wait_seconds: length(worst.wait()),
    };
    let standouts = part.servers.iter().map(|(server, standout)| JsonStandout {
        pid: server.pid,
        in_flight_most: standout.in_flight,
        oldest_in_flight_seconds: length(standout.oldest),
        busy: standout.busy.iter().map(|(&role, &busy)| (role, share(busy, over))).collect(),
        worst: standout.worst.as_ref().map(second),
    });
    let part = JsonPart {
        measurement: json::of(&part.interval),
        worst_seconds: standouts.collect(),
        incidents: incidents.iter().map(|incident| incidents::json(incident, &part.interval)).collect(),
        syncs_of_other_files: part.interval.rest.stats.count,
    };
    json::write_visible(&part, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{
        MYSQL, assert_expected, busy, hostile, in_flight, of_postgres, quiet, two_servers,
    };
    use crate::recording::{self, History};
    use crate::render::Style;

    fn history() -> History {
        let mut history = History::new(recording::Options::default());
        for second in 0..120 {
            let mut one = if second % 2 == 0 { busy() } else { two_servers() };
            if (77..80).contains(&second) {
                one = quiet();
                one.in_flight.push(in_flight(Role::Redo, "/d/#ib_redo7", Duration::from_secs(second - 76)));
            }
            one.span.duration = Duration::from_secs(1);
            one.span.start += Duration::from_secs(second);
            one.span.end = one.span.start + one.span.duration;
            history.push(&one);
        }
        history
    }

    #[test]
    fn what_durable_writes_wrote_has_a_column_where_there_were_any() {
        let mut written = busy();
        written.span.duration = Duration::from_secs(1);
        written.span.end = written.span.start + written.span.duration;
        let redo = written.roles.iter_mut().find(|row| row.role == Role::Redo).unwrap();
        (redo.op, redo.stats.bytes) = (crate::model::Op::DsyncWrite, 4_608);
        let mut history = History::new(recording::Options::default());
        history.push(&written);
        let mut out = Vec::new();
        let all = history.last(Duration::from_secs(60)).unwrap();
        let parts = history.series(Duration::from_secs(60), Duration::from_secs(30));
        let troubles = history.troubles(Duration::from_secs(60), Duration::from_secs(1), |_| true);
        write(&parts, &all, &troubles, &Options::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let heading = text.lines().find(|line| line.starts_with("UTC")).unwrap_or_else(|| panic!("{text}"));
        assert!(heading.contains("ERRORS  BYTES  WORST SECOND"), "{text}");
        assert!(text.lines().any(|line| line.contains("  4,608")), "{text}");
        assert!(!render(Output::Table, Some(200)).contains("BYTES"));
    }

    #[test]
    fn an_idle_server_has_no_rows_of_zeros_and_a_long_table_ends_with_how_many_incidents_there_were() {
        let idle = |mut m: Interval| {
            let id = ServerId { pid: 777, start_ns: 1 };
            m.servers.push(std::sync::Arc::new(Server {
                id,
                name: "idle".into(),
                ..(*m.servers[0]).clone()
            }));
            m
        };
        let history = history();
        let all = idle(history.last(Duration::from_secs(120)).unwrap());
        let troubles = history.troubles(Duration::from_secs(120), Duration::from_secs(1), |_| true);
        let text = |step| {
            let parts = history.series(Duration::from_secs(120), Duration::from_secs(step));
            let mut out = Vec::new();
            write(&parts, &all, &troubles, &Options::default(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (long, short) = (text(5), text(30));
        assert_eq!(long.lines().filter(|line| line.starts_with("UTC")).count(), 2, "{long}");
        assert!(long.contains("No sync was counted of 1 server: idle"), "{long}");
        assert!(
            long.lines().any(|line| line.starts_with("1 hang") && line.ends_with(": see above.")),
            "{long}"
        );
        assert!(!short.contains("see above"), "{short}");
    }

    #[test]
    fn the_columns_are_those_of_the_logs_of_its_engine() {
        let heading = |mut m: Interval| {
            let mut history = History::new(recording::Options::default());
            m.span.duration = Duration::from_secs(1);
            m.span.end = m.span.start + m.span.duration;
            history.push(&m);
            let all = history.last(Duration::from_secs(60)).unwrap();
            let parts = history.series(Duration::from_secs(60), Duration::from_secs(30));
            let troubles = history.troubles(Duration::from_secs(60), Duration::from_secs(1), |_| true);
            let mut out = Vec::new();
            write(&parts, &all, &troubles, &Options::default(), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.lines().find(|line| line.starts_with("UTC")).unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        let columns = |heading: &str| {
            ["REDO P99", "BINLOG MAX", "WAL P99", "WAL MAX"].map(|title| heading.contains(title))
        };
        assert_eq!(columns(&heading(quiet())), [true, true, false, false]);
        assert_eq!(columns(&heading(of_postgres(quiet()))), [false, false, true, true]);
        // Of another process, what there was.
        let mut stranger = busy();
        std::sync::Arc::make_mut(&mut stranger.servers[0]).engine = None;
        assert_eq!(columns(&heading(stranger)), [true, true, false, false]);
        let mut stranger = quiet();
        std::sync::Arc::make_mut(&mut stranger.servers[0]).engine = None;
        assert_eq!(columns(&heading(stranger)), [false; 4]);
    }

    #[test]
    fn where_there_is_no_incident_it_is_said_what_was_looked_for() {
        let text = |seconds: u64, missed: u64| {
            let mut history = History::new(recording::Options::default());
            for second in 0..seconds {
                let mut m = busy();
                m.span.start += Duration::from_secs(second);
                m.span.duration = Duration::from_secs(1);
                m.span.end = m.span.start + m.span.duration;
                m.roles.iter_mut().for_each(|row| row.stats.sum_ns = 1_000_000);
                m.lost.preempted = missed;
                history.push(&m);
            }
            let all = history.last(Duration::from_secs(60)).unwrap();
            let troubles = history.troubles(Duration::from_secs(60), Duration::from_secs(100), |_| true);
            let parts = history.series(Duration::from_secs(60), Duration::from_secs(30));
            let mut out = Vec::new();
            write(&parts, &all, &troubles, &Options::default(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let known = text(30, 0);
        let said = "No log was slow (4 times its usual for 3 s) or saturated (80 % busy for 10 s).\n";
        assert!(known.starts_with(said), "{known}");
        let short = text(5, 0);
        assert!(short.starts_with("No log was saturated (80 % busy for 10 s).\n"), "{short}");
        assert!(!text(30, 1).contains("No log was"));
    }

    fn render(output: Output, width: Option<usize>) -> String {
        let history = history();
        let all = history.last(Duration::from_secs(60)).unwrap();
        let parts = history.series(Duration::from_secs(60), step(Duration::from_secs(60)));
        let style = Style { width, ..Style::default() };
        let mut text = Vec::new();
        let troubles = history.troubles(Duration::from_secs(60), Duration::from_secs(1), |_| true);
        write(&parts, &all, &troubles, &Options { output, style, ..Options::default() }, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn there_are_forty_rows_at_most_while_that_is_possible() {
        let step = |seconds| super::step(Duration::from_secs(seconds)).as_secs();
        assert_eq!([10, 60, 420, 600, 3_600, 86_400].map(step), [10, 10, 10, 15, 120, 3_600]);
        assert_eq!(step(u64::MAX), 14_400);
    }

    #[test]
    fn the_time_line_looks_as_expected() {
        assert_expected("src/once/expected/timeline_120.txt", &render(Output::Table, Some(120)));
        assert_expected("src/once/expected/timeline_80.txt", &render(Output::Table, Some(80)));
    }

    #[test]
    fn as_json_each_row_is_a_measurement_with_its_worst_second() {
        let text = render(Output::Json, None);
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 6);
        let hung = rows
            .iter()
            .flat_map(|part| part["worst_seconds"].as_array().unwrap())
            .max_by(|a, b| {
                a["wait_seconds"].as_f64().unwrap().total_cmp(&b["wait_seconds"].as_f64().unwrap())
            })
            .unwrap();
        assert_eq!((hung["wait_seconds"].as_f64(), hung["role"].as_str()), (Some(3.0), Some("redo")));
        assert_eq!(hung["pid"], MYSQL.pid);
        // Seven seconds as busy as usual, three in which nothing ended.
        assert!((0.9..0.95).contains(&hung["busy"]["redo"].as_f64().unwrap()), "{hung}");
        assert!((0.6..0.7).contains(&hung["busy"]["binlog"].as_f64().unwrap()), "{hung}");
        for part in &rows {
            assert_eq!((part["schema"].as_u64(), part["duration_seconds"].as_f64()), (Some(1), Some(10.0)));
            assert!(!part["roles"].as_array().unwrap().is_empty());
        }
    }

    #[test]
    fn as_json_an_incident_is_in_the_row_in_which_it_began() {
        let text = render(Output::Json, None);
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut told: Vec<&serde_json::Value> = Vec::new();
        for (at, part) in rows.iter().enumerate() {
            for incident in part["incidents"].as_array().unwrap() {
                let text = |object: &serde_json::Value, name: &str| object[name].as_str().unwrap().to_owned();
                assert!(at == 0 || text(part, "start") <= text(incident, "start"), "{incident}");
                assert!(text(incident, "start") < text(part, "end"), "{incident}");
                assert_eq!(incident["what"] == "saturated", incident["busy"].is_number(), "{incident}");
                told.push(incident);
            }
        }
        let whats: Vec<_> = told.iter().map(|incident| incident["what"].as_str().unwrap()).collect();
        assert_eq!(whats, ["saturated", "saturated", "hang"]);
        let hang = told[2];
        assert_eq!((hang["wait_seconds"].as_f64(), hang["role"].as_str()), (Some(3.0), Some("redo")));
        assert_eq!((hang["path"].as_str(), &hang["pid"]), (Some("/d/#ib_redo7"), &MYSQL.pid.into()));
    }

    #[test]
    fn names_chosen_by_an_attacker_are_escaped_among_the_incidents() {
        let mut history = History::new(recording::Options::default());
        history.push(&hostile());
        let all = history.last(Duration::MAX).unwrap();
        let troubles = history.troubles(Duration::MAX, Duration::from_secs(1), |_| true);
        let options = Options::default();
        let said = reading::incidents(&troubles.incidents, &all, &options);
        let said: Vec<String> = said.into_iter().map(|sentence| sentence.text).collect();
        let said = said.join("\n");
        assert!(said.contains("failed, 1 EIO, 2 EBADF, 2 ENOSPC"), "{said}");
        assert!(said.contains("/d/a\\nb\\x1b]0;owned\\x07\\xff\\xc3.ibd"), "{said}");
        assert!(said.chars().all(|c| c == '\n' || !crate::text::is_deceptive(c)), "{said}");
    }

    #[test]
    fn as_csv_there_is_one_heading() {
        let text = render(Output::Csv, None);
        assert_eq!(text.lines().filter(|line| line.starts_with("start,end,")).count(), 1);
        assert!(text.lines().count() > 6);
    }
}
