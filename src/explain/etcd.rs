//! Of etcd: whether it syncs at all, and what its filesystem makes of that. Its throughput is not taken
//! apart: a proposal also waits for other members, which are not seen here.

use super::audit::storage::{preloaded, with_storage};
use super::audit::{Finding, Log, Standing, syncs};
use super::commit_watch::Explained;
use super::commits::{Commits, Inputs};
use crate::model::Role;
use crate::server::etcd::adapter::UNSAFE;
use crate::server::etcd::status::client::Client;
use crate::server::etcd::status::reading::{Between, COMMITS, Reading, WAL};
use crate::text::count;

pub(crate) const LOGS: &[Role] = &[Role::Wal];

pub type Evidence<'a> = super::audit::Evidence<'a, Reading>;

impl Explained for Client {
    const HAS_FACTORS: bool = false;
    const LOGS: &'static [Role] = LOGS;
    const DATA: &'static [Role] = &[Role::Backend];

    fn with_rest_of(counters: Reading, _: Reading) -> Reading {
        counters
    }

    fn explain<'a>(evidence: &Evidence<'a>, inputs: &Inputs<'a>) -> Commits {
        Commits::of_settings(audit(evidence), &[], inputs)
    }
}

/// All findings, the most serious first.
pub fn audit(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(preloaded(evidence));
    findings.push(log_is_synced(evidence));
    with_storage(evidence, findings)
}

fn log_is_synced(evidence: &Evidence) -> Finding {
    let made = evidence.syncs(Role::Wal);
    let between = evidence.status.map(|(from, to)| Between { from, to });
    let between = between.filter(|between| between.interrupted().is_none());
    let grown = |name| between.and_then(|between| between.grown(name)).map(|counted| counted.count);
    if evidence.server.notes.iter().any(|note| note == UNSAFE) {
        let promise =
            "neither the log nor the backend is synced: a crash of the host can destroy this member's data";
        let commits = grown(COMMITS)
            .filter(|&n| n > 0)
            .map_or(String::new(), |n| format!(" for {} commits of the backend", count(n)));
        let seen = format!("{}{commits}", syncs(evidence.all_syncs()));
        return Finding::new("unsafe-no-fsync", Standing::Broken, promise, seen);
    }
    let counted = grown(WAL);
    let seen = match counted {
        Some(n) => format!("{} of the log, where etcd counted {}", syncs(made), count(n)),
        None => format!("{} of the log", syncs(made)),
    };
    let promise = "a member acknowledges a proposal once its log is synced";
    // It counts its syncs: where there were some, the log had grown.
    let grown = evidence.written(Role::Wal).or(counted.map(|_| u64::MAX));
    let log = Log { made_durable: made, commits: counted, grown, sessions: None, why_not: "" };
    evidence.of_waiting("unsafe-no-fsync=false".into(), promise, seen, &log)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::fixture::{self, MYSQL};
    use crate::model::{Interval, Op, Server};

    fn standing(server: &Server, syncs: u64, counted: Option<u64>) -> (Standing, String) {
        let log = "/d/member/wal/0000000000000000-0000000000000000.wal";
        let row = fixture::row(MYSQL, 1, log, Role::Wal, Op::Fdatasync, fixture::stats(&[(syncs, 5)]));
        let files = Vec::from_iter((syncs > 0).then_some(row));
        let measurement: Interval = fixture::with_files(fixture::quiet(), files, Vec::new());
        let at = |n: u64| Reading::from_pairs([(WAL, n), (COMMITS, n)]);
        let (from, to) = (at(10), at(10 + counted.unwrap_or(0)));
        let status = counted.map(|_| (&from, &to));
        let evidence = Evidence {
            server,
            measurement: &measurement,
            status,
            storage: &[],
            flush_waits: BTreeMap::new(),
        };
        let finding = audit(&evidence).remove(0);
        (finding.standing, format!("{}: {}", finding.setting, finding.seen))
    }

    #[test]
    fn what_is_seen_of_the_promise_to_sync_is_held_to_what_is_counted() {
        let server = fixture::server(MYSQL, "etcd", "etcd 3.4.23", 2379);
        let of = |syncs, counted| standing(&server, syncs, counted);
        let kept = "unsafe-no-fsync=false: 7 syncs of the log, where etcd counted 7";
        assert_eq!(of(7, Some(7)), (Standing::Consistent, kept.to_owned()));
        assert_eq!(of(7, None).0, Standing::Consistent);
        assert_eq!(of(0, Some(0)).0, Standing::Unseen);
        assert_eq!(of(0, Some(500)).0, Standing::Broken, "it counts syncs that the kernel never saw");
    }

    #[test]
    fn an_etcd_that_was_told_not_to_sync_breaks_every_promise() {
        let mut server = fixture::server(MYSQL, "etcd", "etcd 3.4.23", 2379);
        server.notes = vec![UNSAFE.to_owned()];
        let (at_once, said) = standing(&server, 0, Some(20));
        assert_eq!(
            (at_once, &*said),
            (Standing::Broken, "unsafe-no-fsync: 0 syncs for 20 commits of the backend")
        );
    }
}
