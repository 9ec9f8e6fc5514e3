//! The ratios of transactions, commit groups and syncs. Each of the four quantities is known or missing for
//! one reason, which all ratios that need it share: they cannot contradict each other.

use super::Form;
use crate::explain::factors::{DurableBy, Factor};
use crate::text::absence;

/// Per second, or why it is not known.
type Rate = Result<f64, String>;

/// What the ratios are made of.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    transactions: Rate,
    /// Of them, the counter's name.
    source: &'static str,
    groups: Groups,
    redo_syncs: Rate,
    redo_by: DurableBy,
    binlog_syncs: Rate,
}

/// How the commit groups are known.
#[derive(Clone, Debug)]
enum Groups {
    /// By the server's own counter, or not at all.
    Counted(Rate),
    /// With sync_binlog=1 each group syncs the binary log once; the only other sync is a rotation's.
    AreBinlogSyncs,
}

/// What was counted and traced, per second.
pub(super) struct Seen {
    /// Why there are no counters of the server's.
    pub no_counters: Option<&'static str>,
    pub transactions: Option<(f64, &'static str)>,
    pub groups: Option<f64>,
    pub redo_syncs: Option<f64>,
    pub redo_by: DurableBy,
    pub binlog_syncs: Option<f64>,
}

impl Rates {
    pub fn of(seen: &Seen, form: &Form) -> Rates {
        let missing = |what: &str| format!("not measurable here: {}", seen.no_counters.unwrap_or(what));
        let syncs = |rate: Option<f64>, why_not: &Option<String>, none: &str| {
            rate.ok_or_else(|| why_not.clone().unwrap_or_else(|| none.to_owned()))
        };
        let no_groups = || form.why_not_binlog.clone();
        let groups = match seen.groups {
            Some(rate) => Groups::Counted(match absence::commit_group(rate) {
                None => Ok(rate),
                Some(none) => Err(no_groups().unwrap_or_else(|| missing(&none))),
            }),
            None => match seen.no_counters.map(missing).or_else(no_groups) {
                Some(why) => Groups::Counted(Err(why)),
                None => Groups::AreBinlogSyncs,
            },
        };
        Rates {
            transactions: seen
                .transactions
                .map(|(rate, _)| rate)
                .ok_or_else(|| missing("the transactions of this server are not known")),
            source: seen.transactions.map_or("", |(_, source)| source),
            groups,
            redo_by: seen.redo_by,
            redo_syncs: syncs(seen.redo_syncs, &form.why_not_redo, &absence::log_traced("the redo log")),
            binlog_syncs: syncs(
                seen.binlog_syncs,
                &form.why_not_binlog,
                &absence::log_traced("the binary log"),
            ),
        }
    }

    pub fn transactions_per_commit_group(&self) -> Factor {
        match &self.groups {
            Groups::Counted(groups) => ratio(&self.transactions, groups, self.source),
            Groups::AreBinlogSyncs => ratio(
                &self.transactions,
                &self.binlog_syncs,
                "the binary log's syncs: this server counts no groups, and with sync_binlog=1 each group syncs once",
            ),
        }
    }

    pub fn commit_groups_per_binlog_sync(&self) -> Factor {
        match &self.groups {
            Groups::Counted(groups) => {
                ratio(groups, &self.binlog_syncs, "binlog_group_commits and traced syncs")
            }
            Groups::AreBinlogSyncs => {
                let source =
                    "not measurable here: this server does not count its groups, so the syncs stand for them";
                Factor { value: None, source: source.into() }
            }
        }
    }

    pub fn transactions_per_binlog_sync(&self) -> Factor {
        ratio(&self.transactions, &self.binlog_syncs, &self.and_traced_syncs())
    }

    pub fn transactions_per_redo_sync(&self) -> Factor {
        match self.redo_by {
            DurableBy::Syncs => ratio(&self.transactions, &self.redo_syncs, &self.and_traced_syncs()),
            DurableBy::DurableWrites => {
                let source = format!("{} and traced durable writes", self.source);
                ratio(&self.transactions, &self.redo_syncs, &source)
            }
        }
    }

    pub fn redo_syncs_per_binlog_sync(&self) -> Factor {
        let source = match self.redo_by {
            DurableBy::Syncs => "traced syncs of both",
            DurableBy::DurableWrites => "traced durable writes of the one, traced syncs of the other",
        };
        ratio(&self.redo_syncs, &self.binlog_syncs, source)
    }

    fn and_traced_syncs(&self) -> String {
        format!("{} and traced syncs", self.source)
    }
}

fn ratio(of: &Rate, by: &Rate, source: &str) -> Factor {
    match (of, by) {
        (Ok(of), Ok(by)) => Factor { value: Some(of / by), source: source.to_owned() },
        (Err(why), _) | (_, Err(why)) => Factor { value: None, source: why.clone() },
    }
}
