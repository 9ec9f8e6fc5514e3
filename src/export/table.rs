//! One long table of all operations: a row for each interval, server, role, file and operation. Its columns
//! are those of `once --by file --output csv`, and the engine behind them.

use std::io::{self, Write};

use crate::model::{Interval, RoleRow, ServerId, roles_of};
use crate::render::By;
use crate::render::cells::{Field, fields};
use crate::render::row::{About, Key, Row};

pub(crate) fn columns() -> Vec<Field> {
    let mut columns = fields(By::File);
    columns.push(Field::Engine);
    columns
}

/// Its rows are not of syncs alone.
pub(crate) fn column_name(field: Field) -> String {
    field.name("operations")
}

/// Their sums are those of the interval: of the roles that make durable and, where all writes are watched, of
/// writes.
pub(crate) fn rows(m: &Interval) -> impl Iterator<Item = Row> {
    let files = m.files.iter().chain(&m.writes);
    files.map(|row| Row::of_file(row, Key::of_file(row))).chain(other_files(m))
}

/// The files that are not kept apart: one row for each server, role and operation, or, where the figures of
/// roles are not those of their files (a file has changed its role), one in all.
fn other_files(m: &Interval) -> Vec<Row> {
    if m.rest.rows == 0 {
        return Vec::new();
    }
    let apart = roles_of(&m.files);
    let key = |row: &RoleRow| (row.server, row.role, row.op);
    let others = m.roles.iter().map(|row| {
        let stats = match apart.binary_search_by_key(&key(row), key) {
            Ok(at) => row.stats.since(&apart[at].stats),
            Err(_) => row.stats.clone(),
        };
        Row::new(Key::of_role(row), About::Role(row.role), stats)
    });
    let others: Vec<Row> = others.filter(|row| row.stats.count > 0).collect();
    let sum = |of: fn(&Row) -> u64| others.iter().map(of).fold(0, u64::saturating_add);
    let rest = &m.rest.stats;
    let sums = (sum(|row| row.stats.count), sum(|row| row.stats.bytes), sum(|row| row.stats.error_count()));
    if sums == (rest.count, rest.bytes, rest.error_count()) {
        return others;
    }
    vec![Row::new(Key::Server(ServerId::NONE, None), About::Server(None), rest.clone())]
}

/// As CSV. `is_first`: the names of the columns come before it.
pub(crate) fn write_csv(m: &Interval, is_first: bool, out: &mut impl Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    let columns = columns();
    if is_first {
        csv.write_record(columns.iter().map(|&column| column_name(column)))?;
    }
    for row in rows(m) {
        csv.write_record(columns.iter().map(|column| column.cell(&row, m).to_string()))?;
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL, busy, hostile, quiet, row, stats, two_servers, with_files};
    use crate::model::{Op, Role};

    fn csv_of(m: &Interval) -> String {
        let mut out = Vec::new();
        write_csv(m, true, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The sum of a column over the rows of which this holds.
    fn sum(text: &str, column: &str, wanted: impl Fn(&dyn Fn(&str) -> String) -> bool) -> u64 {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        let of = |record: &csv::StringRecord, name: &str| {
            record[names.iter().position(|column| column == name).unwrap()].to_owned()
        };
        let wanted = records.iter().filter(|record| wanted(&|name| of(record, name)));
        wanted.map(|record| of(record, column).parse().unwrap_or(0)).sum()
    }

    /// A table of files of two roles, some of which are written; so many of them are kept apart.
    fn of_many_files(kept: usize) -> Interval {
        let mut files = Vec::new();
        for n in 0..20 {
            let mut written = stats(&[(n + 1, 100_000 * (n + 1))]);
            written.bytes = 4_096 * n + 7;
            written.errors.insert(libc::EIO, n % 3);
            files.push(row(MYSQL, n, &format!("/d/t{n}.ibd"), Role::Tablespace, Op::DsyncWrite, written));
            files.push(row(
                MYSQL,
                100 + n,
                &format!("/d/b{n}"),
                Role::Binlog,
                Op::Fsync,
                stats(&[(1, 5_000)]),
            ));
        }
        let mut m = with_files(quiet(), files, Vec::new());
        for row in &m.files[kept..] {
            m.rest.add(row);
        }
        m.files.truncate(kept);
        m
    }

    #[test]
    fn sums_are_those_of_the_interval_to_the_call_and_the_byte() {
        for m in [busy(), two_servers(), hostile(), of_many_files(40), of_many_files(7), of_many_files(0)] {
            let (text, total) = (csv_of(&m), m.total());
            let of_syncs = |of: &dyn Fn(&str) -> String| of("op") != "write";
            assert_eq!(sum(&text, "operations", of_syncs), total.count);
            assert_eq!(sum(&text, "bytes", of_syncs), total.bytes);
            assert_eq!(sum(&text, "errors", of_syncs), total.error_count());
            for role in &m.roles {
                let of_role = |of: &dyn Fn(&str) -> String| {
                    let is_op = of("op") == role.op.what() && of("via") == role.op.via().name();
                    is_op && of("role") == role.role.name() && of("pid") == role.server.pid.to_string()
                };
                assert_eq!(sum(&text, "operations", of_role), role.stats.count, "{role:?}");
                assert_eq!(sum(&text, "bytes", of_role), role.stats.bytes, "{role:?}");
            }
        }
    }

    #[test]
    fn where_a_file_has_changed_its_role_the_others_are_one_row_and_no_sum_changes() {
        let mut m = of_many_files(7);
        m.files.iter_mut().for_each(|row| std::sync::Arc::make_mut(&mut row.info).role = Role::Other);
        let text = csv_of(&m);
        assert_eq!(text.lines().count(), 1 + 7 + 1);
        assert_eq!(sum(&text, "operations", |_| true), m.total().count);
        assert_eq!(sum(&text, "bytes", |_| true), m.total().bytes);
    }

    #[test]
    fn all_writes_are_rows_where_they_are_watched() {
        let mut m = busy();
        let mut written = stats(&[(9, 1_000)]);
        written.bytes = 36_864;
        m.writes = vec![row(MYSQL, 1, "/d/x", Role::Binlog, Op::Write, written)].into();
        let text = csv_of(&m);
        let of_writes = |of: &dyn Fn(&str) -> String| of("op") == "write";
        assert_eq!((sum(&text, "operations", of_writes), sum(&text, "bytes", of_writes)), (9, 36_864));
        assert_eq!(sum(&text, "operations", |_| true), m.total().count + 9);
    }

    #[test]
    fn hostile_names_are_one_line_and_no_formula() {
        let mut m = hostile();
        std::sync::Arc::make_mut(&mut m.servers[0]).name = "=cmd|'/C calc'!A0".into();
        let text = csv_of(&m);
        assert_eq!(text.lines().count(), 1 + m.files.len());
        assert!(text.contains("\\x3dcmd|'/C calc'!A0"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !crate::text::is_deceptive(c)));
    }

    #[test]
    fn a_row_looks_as_it_always_did() {
        fixture::assert_expected("src/export/expected/table.csv", &csv_of(&busy()));
    }
}
