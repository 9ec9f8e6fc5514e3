//! A measurement as CSV: the column names once per run, then a row for each interval and row of the table.

use std::io::{self, Write};

use crate::model::Interval;
use crate::render::cells::fields;
use crate::render::rows::{everyone, rows};
use crate::render::{By, Options};

pub(super) fn write(m: &Interval, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    let fields = fields(options.by);
    if options.interval.is_none_or(|interval| interval == 0) {
        let operations = if options.by == By::Writes { "writes" } else { "syncs" };
        csv.write_record(fields.iter().map(|field| field.name(operations)))?;
    }
    for row in rows(m, &everyone(m), options).into_iter().take(options.limit.unwrap_or(usize::MAX)) {
        csv.write_record(fields.iter().map(|field| field.cell(&row, m).to_string()))?;
    }
    csv.flush()
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
