//! A measurement as CSV: the column names once per run, then a row for each interval and row of the table.
//! Names are escaped as in the table, so that every record is one line.

use std::io::{self, Write};
use std::sync::Arc;

use crate::model::figures::{Figure, Value};
use crate::model::{Interval, Op, ServerId, Target};
use crate::render::row::{About, File, Row, nameless_file, path_bytes};
use crate::render::rows::{everyone, max_ns, rows};
use crate::render::{By, Options};
use crate::text::{errno, escape, length, rfc3339, seconds};

/// What every row begins with, before what it stands for.
const INTERVAL: [&str; 5] = ["start", "end", "duration_seconds", "pid", "comm"];
/// What every row ends with.
enum Field {
    Op,
    Figure(Figure),
    Via,
    Host,
    ServerName,
}

/// In the order in which they were introduced, since some read columns by their number.
fn fields() -> Vec<Field> {
    let mut fields = vec![Field::Op];
    for &figure in Figure::ALL.iter().filter(|figure| !figure.line().csv.is_empty()) {
        let (before, after) = match figure {
            Figure::Completion => (Some(Field::Via), vec![Field::Host, Field::ServerName]),
            _ => (None, Vec::new()),
        };
        fields.extend(before.into_iter().chain([Field::Figure(figure)]).chain(after));
    }
    fields
}

impl Field {
    fn name(&self, by: By) -> String {
        match self {
            Field::Op => "op".into(),
            Field::Figure(figure) if by == By::Writes => figure.line().csv.replace("syncs", "writes"),
            Field::Figure(figure) => figure.line().csv.into(),
            Field::Via => "via".into(),
            Field::Host => "host".into(),
            Field::ServerName => "server_name".into(),
        }
    }

    fn text(&self, row: &Row, m: &Interval) -> String {
        match self {
            Field::Op => row.op().map_or("", Op::what).into(),
            Field::Figure(figure) => figure_text(row.figure(*figure, m.span.duration)),
            Field::Via => row.op().map_or("", |op| op.via().name()).into(),
            Field::Host => name(m.setup.host.as_bytes()),
            Field::ServerName => row
                .server()
                .and_then(|id| m.server(id))
                .map(|server| no_formula(&server.name))
                .unwrap_or_default(),
        }
    }
}

/// Empty where the figure does not exist.
fn figure_text(value: Value) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Count(n) | Value::Bytes(n) => n.to_string(),
        Value::Rate(_, over) if over.is_zero() => String::new(),
        Value::Rate(n, over) => (n as f64 / over.as_secs_f64()).to_string(),
        Value::Time(ns) | Value::Quantile(_, ns, _) => seconds(ns).to_string(),
        Value::Mean(sum, n) => seconds(sum / n).to_string(),
        Value::Max(max) => max_ns(max).map(|ns| seconds(ns).to_string()).unwrap_or_default(),
        Value::InFlight(mean) => mean.to_string(),
        Value::Errors(errors) => errors.total().to_string(),
        Value::ErrorNames(errors) => {
            let each: Vec<String> =
                errors.iter().map(|(&number, n)| format!("{}={n}", errno(number))).collect();
            each.join(" ")
        }
        Value::Flag(flag) => flag.to_string(),
        Value::Word(word) => word.into(),
    }
}

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
    let ends_with = fields();
    if options.interval.is_none_or(|interval| interval == 0) {
        let subject = subject_columns(options.by).iter().copied();
        let names = INTERVAL.iter().copied().chain(subject).map(str::to_owned);
        csv.write_record(names.chain(ends_with.iter().map(|field| field.name(options.by))))?;
    }
    let (start, end, duration) =
        (rfc3339(m.span.start), rfc3339(m.span.end), length(m.span.duration).to_string());
    for row in rows(m, &everyone(m), options).into_iter().take(options.limit.unwrap_or(usize::MAX)) {
        let server = row.server().unwrap_or(ServerId::NONE);
        let comm = m.server(server).map(|server| name(server.comm.as_bytes())).unwrap_or_default();
        let mut texts = vec![start.clone(), end.clone(), duration.clone(), server.pid.to_string(), comm];
        subject(&row, &mut texts);
        texts.extend(ends_with.iter().map(|field| field.text(&row, m)));
        csv.write_record(&texts)?;
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
    match &row.about {
        About::Role(role) => fields.push(role.name().into()),
        About::Thread(thread) => {
            fields.extend([
                name(thread.as_bytes()),
                row.key.tid().map(|tid| tid.to_string()).unwrap_or_default(),
            ]);
        }
        About::File(File { target, info, .. }) => {
            let path = info.path.as_deref().map(|path| name(path_bytes(path)));
            let id = match target {
                Target::File(id) => Some(id),
                _ => None,
            };
            fields.extend([
                info.role.name().into(),
                nameless_file(*target, info).or(path).unwrap_or_default(),
                info.open.to_string(),
                optional(&info.device),
                optional(&info.filesystem),
                id.map(|id| id.inode.to_string()).unwrap_or_default(),
                id.map(|id| id.generation.to_string()).unwrap_or_default(),
            ]);
        }
        About::Server(_) | About::Neighbour { .. } | About::Log(_) => {}
    }
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
