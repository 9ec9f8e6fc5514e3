//! Compares one line after the other. Pure.

use std::collections::BTreeMap;

use super::{Edge, redo_made, written};
use crate::model::{FileRow, Interval, Op, Role, Server, ServerId};
use crate::server::asking::Counted;
use crate::server::mysql::durable_writes::DurableWrites;
use crate::server::mysql::status::counters::Between;
use crate::server::mysql::status::reading::Reading;
use crate::text::capitalize;
use crate::verify::edge::Counts;
use crate::verify::row::{Bounds, Kind, Row, Verification};

/// How far MariaDB's count of commit groups may lag behind under load: a group is counted once it has
/// acquired the locks of the next two stages after its sync (trx_group_commit_leader in sql/log.cc), and
/// one group can wait for each.
const MAX_GROUP_LAG: u64 = 2;

/// One quantity to compare: its name, the traced syncs, the server's counter.
struct Line<'a> {
    what: &'static str,
    traced: u64,
    counter: &'a dyn Fn(&Between<'_>) -> Option<Counted>,
    /// Why the row is approximate, if it is.
    approximate: Option<&'static str>,
    none: Option<&'static str>,
    /// The number by which the counter may lag behind under load.
    lag: u64,
}

impl Counts for Reading {
    fn compare(server: &Server, first: &Edge, last: &Edge) -> Verification {
        compare(server, first, last)
    }

    fn with_settings_of(self, other: &Reading) -> Reading {
        self.with_variables_of(other)
    }

    /// By how much the counters of what is compared grew from one reading to the next.
    fn moved(from: &Reading, to: &Reading) -> u64 {
        let writes = DurableWrites::by_settings(to).redo.map(|_| "innodb_log_writes");
        let numbers: u64 =
            ["innodb_data_fsyncs", "binlog_group_commits", "binlog_cache_use", "aria_transaction_log_syncs"]
                .into_iter()
                .chain(writes)
                .filter_map(|name| to.number(name)?.checked_sub(from.number(name)?))
                .fold(0, u64::saturating_add);
        let sum = |all: &Option<BTreeMap<String, u64>>| {
            all.iter().flat_map(|all| all.values()).fold(0, |sum: u64, one| sum.saturating_add(*one))
        };
        let of_binlogs = sum(&to.binlog_files).abs_diff(sum(&from.binlog_files));
        let of_writes = sum(&to.written).abs_diff(sum(&from.written));
        numbers.saturating_add(of_binlogs).saturating_add(of_writes)
    }

    fn transactions(from: &Reading, to: &Reading) -> Option<Counted> {
        Between { from, to }.transactions()
    }

    fn is_reset(from: &Reading, to: &Reading) -> bool {
        Between { from, to }.interrupted().is_some()
    }

    fn pending_syncs(&self) -> u64 {
        Reading::pending_syncs(self)
    }
}

/// Compares one server's syncs between two edges.
fn compare(server: &Server, first: &Edge, last: &Edge) -> Verification {
    let id = server.id;
    let measurement = Interval::between(&first.snapshot, &last.snapshot);
    // The server counts a durable write as a write.
    let is_sync = |row: &&FileRow| row.server == id && !row.op.writes();
    let files: Vec<&FileRow> = measurement.files.iter().filter(is_sync).collect();
    let of = |wanted: &dyn Fn(&FileRow) -> bool| {
        files.iter().filter(|row| wanted(row)).map(|row| row.stats.count).sum::<u64>()
    };
    let role = |role: Role| of(&|row| row.info.role == role);
    let durable = Written::of(server, &measurement, first, last);
    // MariaDB's dictionary files are the server's, not InnoDB's: .frm files and the DDL log.
    let is_mariadb = last.after.number("binlog_group_commits").is_some();
    let is_innodb = |row: &FileRow| {
        let is_ibd = |path: &std::path::PathBuf| path.extension() == Some("ibd".as_ref());
        let own = row.info.path.as_ref().map_or(!is_mariadb, is_ibd);
        row.info.role.is_innodb() && (row.info.role != Role::Dictionary || own)
    };
    let innodb = of(&is_innodb);
    let made = redo_made::count(id, first, last, &files);
    let redo = role(Role::Redo) - made.syncs;
    let data = innodb - redo;
    let not_separable = (!made.is_sure).then_some(redo_made::WHY);
    let data_counter = |between: &Between<'_>| {
        let count = between.innodb_syncs()?.count.checked_sub(between.redo_syncs()?.count)?;
        let source = "innodb_data_fsyncs - innodb_os_log_fsyncs";
        Some(Counted { count, source, exact: made.is_sure })
    };
    let lines = [
        Line {
            what: "redo log",
            traced: redo,
            counter: &|between| {
                between.redo_syncs().map(|counted| Counted { exact: made.is_sure, ..counted })
            },
            approximate: not_separable,
            none: Some("this server does not count its redo log's syncs separately; they are in the sum"),
            lag: 0,
        },
        Line {
            what: "data files, doublewrite, undo",
            traced: data,
            counter: &data_counter,
            approximate: not_separable,
            none: Some("this server counts them only together with the redo log's"),
            lag: 0,
        },
        Line {
            what: "InnoDB together",
            traced: innodb,
            counter: &|between| between.innodb_syncs(),
            approximate: None,
            none: None,
            lag: 0,
        },
        Line {
            what: "binary log",
            traced: role(Role::Binlog),
            counter: &|between| between.binlog_syncs(),
            approximate: Some(
                "the server started another file during the window, or ran a statement that changes definitions, and \
                 counts that differently",
            ),
            none: Some(
                "no counter: not every commit group syncs this log, or the account may not read the counter",
            ),
            lag: if is_mariadb { MAX_GROUP_LAG } else { 0 },
        },
        Line {
            what: "Aria's and other engines' logs",
            traced: role(Role::EngineLog),
            counter: &|between| between.aria_log_syncs(),
            approximate: Some("the counter covers only Aria's log, and counts requests"),
            none: None,
            lag: 0,
        },
    ];
    let mut rows: Vec<Row> = lines.iter().map(|line| row(line, id, first, last)).collect();
    rows.splice(1..1, durable.as_ref().map(|durable| durable.row(id, first, last)));
    let other = files.iter().map(|row| row.stats.count).sum::<u64>()
        - innodb
        - role(Role::Binlog)
        - role(Role::EngineLog);
    let note = "directories, relay logs, indexes and the like: no server counts them";
    let nothing_counts_it = Row::not_compared("everything else", other, Some(note));
    let written = written::rows(server, &measurement, first, last);
    let is_worth_a_line = |row: &Row| row.traced > 0 || row.counted.is_some_and(|range| range.at_most > 0);
    rows.push(nothing_counts_it);
    rows.extend(written);
    rows.retain(|row| row.kind == Kind::Exact || is_worth_a_line(row));
    Verification {
        not_compared: not_compared(server, last, durable.is_some()),
        interrupted: Between { from: &first.before, to: &last.after }.interrupted().map(str::to_owned),
        refused: last.after.refused.clone(),
        ..Verification::of(server, &measurement, rows)
    }
}

/// The durable writes of a redo log that its writes make durable.
struct Written {
    traced: u64,
    /// All to one file: the beginning of another is a write that the server does not count.
    to_one_file: bool,
}

impl Written {
    /// None: they are not watched, or the log is made durable by syncs.
    fn of(server: &Server, measurement: &Interval, first: &Edge, last: &Edge) -> Option<Written> {
        let is_watched = measurement.setup.ops.contains(&Op::DsyncWrite);
        let is_said =
            || [&first.before, &last.after].map(|at| DurableWrites::of(server, Some(at)).redo.is_some());
        let is_one = |row: &&FileRow| {
            row.server == server.id && row.info.role == Role::Redo && row.op.writes() && row.stats.count > 0
        };
        let rows: Vec<_> = measurement.files.iter().filter(is_one).collect();
        let traced = rows.iter().map(|row| row.stats.count).sum();
        let to_one_file = rows.len() <= 1;
        (is_watched && (traced > 0 || is_said() == [true; 2])).then_some(Written { traced, to_one_file })
    }

    fn row(&self, server: ServerId, first: &Edge, last: &Edge) -> Row {
        let line = Line {
            what: "redo log, durable writes",
            traced: self.traced,
            counter: &|between| {
                let counted = between.redo_writes()?;
                Some(Counted { exact: counted.exact && self.to_one_file, ..counted })
            },
            approximate: Some(
                "the server does not count the writes of its checkpoints, and there was one during the window, or \
                 it began another file",
            ),
            none: Some("this server does not count its redo log's writes"),
            lag: 1,
        };
        row(&line, server, first, last)
    }
}

/// A durable write is no sync. `redo_is_compared`: with what the server counts of its writes.
fn not_compared(server: &Server, last: &Edge, redo_is_compared: bool) -> Vec<String> {
    let mut writes = DurableWrites::of(server, Some(&last.after));
    if redo_is_compared {
        writes.redo = None;
    }
    let writes = writes.in_words();
    let sentence = |writes: String| {
        format!(
            "{}: the server counts no sync for it, so what is compared here says nothing of it.",
            capitalize(&writes)
        )
    };
    writes.map(sentence).into_iter().collect()
}

fn row(line: &Line, server: ServerId, first: &Edge, last: &Edge) -> Row {
    // Read before our figures at one end and after them at the other, the counter covers more than the
    // window; the other way around, it covers less.
    let outer = (line.counter)(&Between { from: &first.before, to: &last.after });
    let inner = (line.counter)(&Between { from: &first.after, to: &last.before });
    // Groups not yet counted when the window started are counted within it; those not yet counted at its
    // end are missing.
    let lag = |edge: &Edge| if edge.is_quiet { 0 } else { line.lag };
    // Servers count a sync when it starts or when it has finished, the probes when it has finished.
    let slack = first.in_flight(server) + last.in_flight(server);
    let bounds = Bounds { outer, inner, before: slack + lag(first), after: slack + lag(last) };
    bounds.row(line.what, line.traced, line.approximate, line.none)
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
