//! A measurement as CSV: the column names once per run, then a row for each interval and row of the table.
//! Names are escaped as in the table, so that every record is one line.

use std::io::{self, Write};
use std::sync::Arc;

use crate::model::{Interval, Stats};
use crate::render::json::{length, seconds};
use crate::render::rows::{Row, Subject, everyone, max_ns, nameless, rows};
use crate::render::{By, Options};
use crate::text::{errno, escape, rfc3339};

/// What every row begins with, before what it stands for.
const INTERVAL: [&str; 5] = ["start", "end", "duration_seconds", "pid", "comm"];
/// What every row ends with. An empty field is a figure that does not exist.
const FIGURES: [&str; 20] = [
    "op",
    "syncs",
    "syncs_per_second",
    "errors",
    "errors_by_name",
    "total_seconds",
    "in_flight_mean",
    "min_seconds",
    "mean_seconds",
    "p50_seconds",
    "p90_seconds",
    "p99_seconds",
    "p999_seconds",
    "max_seconds",
    "max_exact",
    "bytes",
    "via",
    "completion",
    "host",
    "server_name",
];

fn subject_columns(by: By) -> &'static [&'static str] {
    match by {
        By::Role => &["role"],
        By::File | By::Writes => &["role", "file", "open", "device", "filesystem", "inode", "generation"],
        By::Thread => &["thread", "tid"],
        By::Server => &[],
    }
}

pub(super) fn write(m: &Interval, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    if options.interval.is_none_or(|interval| interval == 0) {
        let figures = FIGURES.iter().map(|&name| match name {
            "syncs" if options.by == By::Writes => "writes",
            "syncs_per_second" if options.by == By::Writes => "writes_per_second",
            name => name,
        });
        let subject = subject_columns(options.by).iter().copied();
        csv.write_record(INTERVAL.iter().copied().chain(subject).chain(figures))?;
    }
    let (start, end, duration) =
        (rfc3339(m.span.start), rfc3339(m.span.end), length(m.span.duration).to_string());
    for row in rows(m, &everyone(m), options).into_iter().take(options.limit.unwrap_or(usize::MAX)) {
        let server = m.servers.iter().find(|server| server.id == row.server);
        let mut fields = vec![start.clone(), end.clone(), duration.clone(), row.server.pid.to_string()];
        fields.push(server.map(|server| name(server.comm.as_bytes())).unwrap_or_default());
        subject(&row, &mut fields);
        figures(&row, m, &mut fields);
        // What came later comes last: some read columns by their number.
        fields.push(name(m.setup.host.as_bytes()));
        fields.push(server.map(|server| no_formula(&server.name)).unwrap_or_default());
        csv.write_record(&fields)?;
    }
    csv.flush()
}

/// An escaped name, which a spreadsheet does not take for a formula.
fn name(bytes: &[u8]) -> String {
    no_formula(&escape(bytes))
}

fn no_formula(escaped: &str) -> String {
    match escaped.bytes().next() {
        Some(first @ (b'=' | b'+' | b'-' | b'@')) => format!("\\x{first:02x}{}", &escaped[1..]),
        _ => escaped.to_owned(),
    }
}

fn subject(row: &Row, fields: &mut Vec<String>) {
    let optional =
        |text: &Option<Arc<str>>| text.as_ref().map(|text| name(text.as_bytes())).unwrap_or_default();
    match row.subject {
        Subject::Role(role) => fields.push(role.name().into()),
        Subject::Thread(thread) => fields.extend([name(thread.name.as_bytes()), thread.tid.to_string()]),
        Subject::Server => {}
        Subject::File(file) => {
            let path = file.info.path.as_ref().map(|path| name(path.as_os_str().as_encoded_bytes()));
            let id = match file.target {
                crate::model::Target::File(id) => Some(id),
                _ => None,
            };
            fields.extend([
                file.info.role.name().into(),
                nameless(file).or(path).unwrap_or_default(),
                file.info.open.to_string(),
                optional(&file.info.device),
                optional(&file.info.filesystem),
                id.map(|id| id.inode.to_string()).unwrap_or_default(),
                id.map(|id| id.generation.to_string()).unwrap_or_default(),
            ]);
        }
    }
}

fn figures(row: &Row, m: &Interval, fields: &mut Vec<String>) {
    let stats: &Stats = &row.stats;
    let optional = |ns: Option<u64>| ns.map(|ns| seconds(ns).to_string()).unwrap_or_default();
    let per_second = match m.span.duration.as_secs_f64() {
        0.0 => String::new(),
        seconds => (stats.count as f64 / seconds).to_string(),
    };
    let errors: Vec<String> =
        stats.errors.iter().map(|(&number, n)| format!("{}={n}", errno(number))).collect();
    fields.extend([
        row.op.what().into(),
        stats.count.to_string(),
        per_second,
        stats.error_count().to_string(),
        errors.join(" "),
        seconds(stats.sum_ns).to_string(),
        stats.in_flight_mean(m.span.duration).to_string(),
        optional(stats.min_ns()),
        optional(stats.mean_ns()),
        optional(stats.quantile_ns(0.5)),
        optional(stats.quantile_ns(0.9)),
        optional(stats.quantile_ns(0.99)),
        optional(stats.quantile_ns(0.999)),
        optional(max_ns(stats)),
        if stats.count > 0 { stats.max.exact.to_string() } else { String::new() },
        if row.op.writes() { stats.bytes.to_string() } else { String::new() },
        row.op.via().name().into(),
        stats.completions.name(row.op).unwrap_or_default().into(),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    fn csv_of(m: &Interval, by: By, interval: Option<usize>) -> String {
        let mut out = Vec::new();
        write(m, &Options { by, interval, ..Options::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_series_has_its_column_names_once() {
        let m = fixture::busy();
        assert!(csv_of(&m, By::Role, None).starts_with("start,end,duration_seconds,pid,comm,role,op,syncs,"));
        assert!(csv_of(&m, By::Role, Some(0)).starts_with("start,"));
        assert!(csv_of(&m, By::Role, Some(1)).starts_with("2026-"));
    }

    #[test]
    fn every_grouping_has_a_row_each_and_its_sum_is_the_total() {
        let m = fixture::busy();
        for by in [By::Role, By::File, By::Thread, By::Server] {
            let text = csv_of(&m, by, None);
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let at = reader.headers().unwrap().iter().position(|name| name == "syncs").unwrap();
            let syncs: u64 = reader.records().map(|row| row.unwrap()[at].parse::<u64>().unwrap()).sum();
            assert_eq!(syncs, m.total().count, "{by:?}");
        }
    }

    #[test]
    fn writes_are_not_called_syncs() {
        let text = csv_of(&fixture::busy(), By::Writes, None);
        let names = text.lines().next().unwrap();
        assert!(names.contains(",op,writes,writes_per_second,errors,") && !names.contains("sync"), "{names}");
    }

    #[test]
    fn a_limit_keeps_the_first_rows_of_each_interval() {
        let mut out = Vec::new();
        let options = Options { by: By::File, limit: Some(2), ..Options::default() };
        write(&fixture::busy(), &options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("binlog.000003") && text.contains("#ib_redo5"), "{text}");
    }

    #[test]
    fn a_row_looks_as_it_always_did() {
        fixture::assert_expected("src/once/expected/role.csv", &csv_of(&fixture::busy(), By::Role, None));
        fixture::assert_expected(
            "src/once/expected/file_hostile.csv",
            &csv_of(&fixture::hostile(), By::File, None),
        );
    }

    #[test]
    fn hostile_names_are_one_line_and_no_formula() {
        let m = fixture::hostile();
        let text = csv_of(&m, By::Thread, None);
        assert!(text.contains("\\x3dcmd|'/C calc'!"), "{text}");
        let all = text + &csv_of(&m, By::File, Some(1));
        assert_eq!(all.lines().count(), 1 + m.threads.len() + m.files.len());
        assert!(all.chars().all(|c| c == '\n' || !crate::text::is_deceptive(c)));
    }
}
