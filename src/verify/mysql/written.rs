//! What was written, in bytes, where all writes are watched. Pure.

use super::Edge;
use crate::model::{Interval, Op, Role, Server};
use crate::server::asking::Counted;
use crate::server::mysql::doublewrite::is_in_tablespace;
use crate::server::mysql::status::counters::Between;
use crate::verify::row::{Kind, Range, Row, Verdict};

struct Line {
    what: &'static str,
    roles: &'static [Role],
    /// The event under which performance_schema has exactly these writes.
    event: Option<&'static str>,
    /// A counter that has something else, and what.
    counter: Option<&'static str>,
    differs: &'static str,
}

const DOUBLEWRITE_FILES: &str = "wait/io/file/innodb/innodb_dblwr_file";
const DATA_FILES: &str = "wait/io/file/innodb/innodb_data_file";
const DATA_WRITTEN: &str = "innodb_data_written";
/// MariaDB's counter has every write of a page, and none of the redo log.
const OF_MARIADB: Line = Line {
    what: "InnoDB without redo log, bytes",
    roles: &PAGES,
    event: None,
    counter: Some(DATA_WRITTEN),
    differs: "",
};

const DATA: [Role; 5] =
    [Role::SystemTablespace, Role::Tablespace, Role::Undo, Role::Temporary, Role::Dictionary];
const PAGES: [Role; 6] = [
    Role::Doublewrite,
    Role::SystemTablespace,
    Role::Tablespace,
    Role::Undo,
    Role::Temporary,
    Role::Dictionary,
];
const INNODB: [Role; 7] = [Role::Redo, PAGES[0], PAGES[1], PAGES[2], PAGES[3], PAGES[4], PAGES[5]];

/// Measured on MySQL 9.7 and MariaDB 10.11 (docs/verify.md).
const LINES: [Line; 5] = [
    Line {
        what: "redo log, bytes",
        roles: &[Role::Redo],
        event: Some("wait/io/file/innodb/innodb_log_file"),
        counter: Some("innodb_os_log_written"),
        differs: "the counter has the log's records, not the blocks in which they are written, some of them again",
    },
    Line {
        what: "doublewrite buffer, bytes",
        roles: &[Role::Doublewrite],
        event: Some(DOUBLEWRITE_FILES),
        counter: None,
        differs: "",
    },
    Line { what: "data files, bytes", roles: &DATA, event: Some(DATA_FILES), counter: None, differs: "" },
    Line {
        what: "InnoDB together, bytes",
        roles: &INNODB,
        event: None,
        counter: Some(DATA_WRITTEN),
        differs: "the counter leaves out pages that are written asynchronously",
    },
    Line {
        what: "binary log, bytes",
        roles: &[Role::Binlog],
        event: Some("wait/io/file/sql/binlog"),
        counter: Some("binlog_bytes_written"),
        differs: "the counter has what transactions wrote to it, not all that begins and ends a file",
    },
];

const NOT_TOLD: &str = "not each write to it was told from others to the system tablespace: its place was not known in time, the \
                        writes are durable themselves, or not all are watched";
/// Of a doublewrite buffer in the system tablespace: pages, each of them whole.
const DOUBLEWRITE_PAGES: &str = "innodb_dblwr_pages_written";
const INSIDE: Line = Line {
    what: "doublewrite buffer, bytes",
    roles: &[Role::Doublewrite],
    event: None,
    counter: Some(DOUBLEWRITE_PAGES),
    differs: "",
};

/// None of them if not all writes are watched.
pub(super) fn rows(server: &Server, measurement: &Interval, first: &Edge, last: &Edge) -> Vec<Row> {
    if !measurement.setup.ops.contains(&Op::Write) {
        return Vec::new();
    }
    let bytes_of = |roles: &[Role]| {
        let rows = measurement.all_write_roles().filter(|row| row.server == server.id);
        rows.filter(|row| roles.contains(&row.role)).map(|row| row.stats.bytes).sum()
    };
    let is_mariadb = last.after.number("binlog_group_commits").is_some();
    let has_events = Between { from: &first.after, to: &last.before }.written_bytes(DATA_FILES).is_some();
    let is_inside = server.version.as_deref().is_some_and(is_in_tablespace);
    let of_server = |line| match line {
        Line { counter: Some(DATA_WRITTEN), .. } if is_mariadb => OF_MARIADB,
        Line { event: Some(DOUBLEWRITE_FILES), .. } if is_inside => INSIDE,
        // One kind of file to performance_schema.
        Line { event: Some(DATA_FILES), .. } if is_inside && has_events => Line { roles: &PAGES, ..line },
        line => line,
    };
    let is_told = measurement.tells_doublewrite_apart(server.id);
    let row = |line: Line| match line.counter {
        Some(DOUBLEWRITE_PAGES) if !is_told => {
            Row::not_compared(line.what, bytes_of(line.roles), Some(NOT_TOLD))
        }
        _ => line.row(bytes_of(line.roles), first, last),
    };
    LINES.into_iter().map(of_server).map(row).collect()
}

impl Line {
    fn counted(&self, between: &Between<'_>) -> Option<Counted> {
        let exact = self.event.and_then(|event| between.written_bytes(event));
        exact.or_else(|| {
            let source = self.counter?;
            let exact = self.differs.is_empty();
            let grown = between.grown(source)?;
            let count = match source {
                DOUBLEWRITE_PAGES => grown.checked_mul(between.to.number("innodb_page_size")?)?,
                _ => grown,
            };
            Some(Counted { count, source, exact })
        })
    }

    fn row(&self, traced: u64, first: &Edge, last: &Edge) -> Row {
        let outer = self.counted(&Between { from: &first.before, to: &last.after });
        let inner = self.counted(&Between { from: &first.after, to: &last.before });
        let (Some(outer), Some(inner)) = (outer, inner) else {
            return Row {
                what: self.what,
                traced,
                counted: None,
                source: None,
                kind: Kind::NoCounter,
                verdict: Verdict::NotCompared,
                note: Some("this server does not count them, or the account may not read the counter".into()),
            };
        };
        // A write is counted by the server when its thread goes on after it, which on a busy server may be
        // after our figures and the server's own were read.
        let is_quiet = first.is_quiet && last.is_quiet;
        let counted = Range { at_least: inner.count.min(outer.count), at_most: outer.count };
        let note = match (outer.exact, is_quiet) {
            (true, true) => None,
            (true, false) => Some("the server was writing while the window began or ended"),
            (false, _) => Some(self.differs),
        };
        Row {
            what: self.what,
            traced,
            counted: Some(counted),
            source: Some(outer.source),
            kind: if note.is_none() { Kind::Exact } else { Kind::Approximate },
            verdict: counted.verdict(traced),
            note: note.map(str::to_owned),
        }
    }
}
