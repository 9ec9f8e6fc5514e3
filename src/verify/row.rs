//! One line of a comparison, whatever server it is with. Pure.

use serde::Serialize;

use crate::model::{Interval, Lost, Server, durability};
use crate::server::asking::Counted;
use crate::text::rfc3339_millis;

/// How reliable the comparison of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Both sides count the same calls: this row decides whether the verification succeeds.
    Exact,
    /// The server's counter covers other things as well, or not everything; the note says why.
    Approximate,
    /// The server has no such counter, or none that this account may read.
    NoCounter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Agrees,
    Differs,
    /// The range of the server's count excludes too little for a count that lies in it to say anything.
    Undecided,
    NotCompared,
}

/// The server's count: a single number if nothing moved at the edges, else a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    pub at_least: u64,
    pub at_most: u64,
}

/// One quantity that both sides count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub what: &'static str,
    pub traced: u64,
    pub counted: Option<Range>,
    /// The name of the server's counter.
    pub source: Option<&'static str>,
    pub kind: Kind,
    pub verdict: Verdict,
    pub note: Option<String>,
}

impl Range {
    /// It excludes less than it admits.
    fn is_vague(self) -> bool {
        self.at_most - self.at_least > self.at_most.div_ceil(2)
    }

    pub(super) fn verdict(self, traced: u64) -> Verdict {
        match (self.at_least..=self.at_most).contains(&traced) {
            false => Verdict::Differs,
            true if self.is_vague() => Verdict::Undecided,
            true => Verdict::Agrees,
        }
    }
}

impl Row {
    /// Nothing counts it. `note`: why.
    pub(super) fn not_compared(what: &'static str, traced: u64, note: Option<&str>) -> Row {
        Row {
            what,
            traced,
            counted: None,
            source: None,
            kind: Kind::NoCounter,
            verdict: Verdict::NotCompared,
            note: note.map(str::to_owned),
        }
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verification {
    /// RFC 3339.
    pub start: String,
    pub end: String,
    pub duration_seconds: f64,
    /// What the server says that it committed meanwhile.
    pub transactions: Option<Counted>,
    pub rows: Vec<Row>,
    pub lost: Lost,
    /// What neither side counts, so that rows that agree say nothing of it. Plain sentences.
    pub not_compared: Vec<String>,
    /// Why the server may count syncs that were not traced, if it does. Plain sentences.
    pub possible_causes: Vec<String>,
    /// Why the server's counters are unusable for the whole window.
    pub interrupted: Option<String>,
    /// What the account may not read.
    pub refused: Vec<String>,
}

impl Verification {
    #[cfg(test)]
    pub(super) fn row(&self, what: &str) -> &Row {
        self.rows.iter().find(|row| row.what == what).unwrap_or_else(|| panic!("{self:?}"))
    }

    /// `rows`: the lines. What the server says beside them is added.
    pub(super) fn of(server: &Server, measurement: &Interval, rows: Vec<Row>) -> Verification {
        Verification {
            start: rfc3339_millis(measurement.span.start),
            end: rfc3339_millis(measurement.span.end),
            duration_seconds: measurement.span.duration.as_secs_f64(),
            transactions: None,
            possible_causes: possible_causes(server, &rows, measurement),
            rows,
            lost: measurement.lost,
            not_compared: Vec::new(),
            interrupted: None,
            refused: Vec::new(),
        }
    }

    /// Of the rows that both sides count exactly: whether all that can be decided agree, or one differs.
    /// None: there was not enough to say.
    pub(crate) fn agrees(&self) -> Option<bool> {
        let exact = || self.rows.iter().filter(|row| row.kind == Kind::Exact);
        let has = |verdict| exact().any(|row| row.verdict == verdict);
        if self.interrupted.is_some() {
            return None;
        }
        match has(Verdict::Differs) {
            true => Some(false),
            false => has(Verdict::Agrees).then_some(true),
        }
    }

    #[cfg(test)]
    pub(crate) fn succeeds(&self) -> bool {
        self.agrees() == Some(true)
    }
}

/// What the server counted at both ends of the window.
pub(super) struct Bounds {
    /// By readings that enclose ours; the counter and its name.
    pub outer: Option<Counted>,
    /// By readings that ours enclose.
    pub inner: Option<Counted>,
    /// So many of what was counted may have happened before the window.
    pub before: u64,
    /// So many calls of the window may not have been counted by its end.
    pub after: u64,
}

impl Bounds {
    /// `approximate`: why the row is, where the counter is not exact. `none`: why there is none.
    pub fn row(
        self,
        what: &'static str,
        traced: u64,
        approximate: Option<&'static str>,
        none: Option<&'static str>,
    ) -> Row {
        let empty = Row::not_compared(what, traced, none);
        let Some(outer) = self.outer else { return empty };
        let inner = self.inner.map_or(0, |inner| inner.count);
        let counted = Range {
            at_least: inner.min(outer.count).saturating_sub(self.before),
            at_most: outer.count.saturating_add(self.after),
        };
        let exact = outer.exact;
        Row {
            counted: Some(counted),
            source: Some(outer.source),
            kind: if exact { Kind::Exact } else { Kind::Approximate },
            verdict: counted.verdict(traced),
            note: if exact { None } else { approximate.map(str::to_owned) },
            ..empty
        }
    }
}

/// Where the server counts syncs that the kernel was not seen to be asked for.
fn possible_causes(server: &Server, rows: &[Row], measurement: &Interval) -> Vec<String> {
    let is_short = |row: &Row| {
        let counted = row.counted.filter(|_| row.kind == Kind::Exact);
        counted.is_some_and(|counted| row.traced < counted.at_least)
    };
    if !rows.iter().any(is_short) {
        return Vec::new();
    }
    if durability::syncs_do_nothing(server) {
        return vec![durability::SYNCS_DO_NOTHING.to_owned()];
    }
    let ways = durability::not_watched(&measurement.setup.ops).filter(|way| way.is_sync());
    let ways: Vec<_> = ways.map(|way| way.called).collect();
    vec![format!(
        "The server counts more syncs than it was seen to ask the kernel for. Possible causes: a preloaded library such \
         as libeatmydata, which turns them into nothing, {}or a way to sync that is not watched ({}).",
        if server.seccomp_filters > 0 { "a seccomp filter of the server, which answers them, " } else { "" },
        ways.join(", ")
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL};

    fn row(kind: Kind, traced: u64, at_least: u64, at_most: u64) -> Row {
        let counted = Range { at_least, at_most };
        let empty = Row::not_compared("redo log", traced, None);
        Row { counted: Some(counted), kind, verdict: counted.verdict(traced), ..empty }
    }

    #[test]
    fn a_range_that_excludes_little_agrees_with_nothing() {
        let verdict = |traced, at_least, at_most| row(Kind::Exact, traced, at_least, at_most).verdict;
        assert_eq!(verdict(956, 0, 964), Verdict::Undecided);
        assert_eq!(verdict(965, 0, 964), Verdict::Differs);
        assert_eq!(verdict(956, 482, 964), Verdict::Agrees);
        assert_eq!(verdict(0, 0, 0), Verdict::Agrees);
        assert_eq!(verdict(1, 0, 1), Verdict::Agrees);
    }

    #[test]
    fn where_there_was_nothing_to_compare_with_neither_is_said() {
        let server = fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
        let agrees = |rows| Verification::of(&server, &fixture::quiet(), rows).agrees();
        assert_eq!(agrees(Vec::new()), None);
        assert_eq!(agrees(vec![Row::not_compared("redo log", 5, None)]), None);
        assert_eq!(agrees(vec![row(Kind::Approximate, 5, 9, 9)]), None);
        assert_eq!(agrees(vec![row(Kind::Exact, 956, 0, 964)]), None);
        assert_eq!(agrees(vec![row(Kind::Exact, 956, 0, 964), row(Kind::Exact, 5, 5, 5)]), Some(true));
        assert_eq!(agrees(vec![row(Kind::Exact, 4, 5, 5), row(Kind::Exact, 5, 5, 5)]), Some(false));
    }
}
