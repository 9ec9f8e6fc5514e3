//! What the page says in one place it must not deny in another: over many inputs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::audit::Evidence;
use super::commit_watch::Explained;
use super::commits::Inputs;
use super::factors::{Edges, InFlightSamples, Uncertain};
use super::innodb;
use super::waits::{Account, Committer, Part, Phase, Processors, Who};
use super::{Explanation, page};
use crate::model::fixture::{self, MYSQL};
use crate::model::{Interval, Op, Role};
use crate::render::Style;
use crate::server::mysql::status::client::Client;
use crate::server::mysql::status::reading::Reading;

const SECONDS: u64 = 10;
const TRANSACTIONS: u64 = 40_000;

/// Syncs of a millisecond each.
fn measurement(redo: u64, binlog: u64) -> Interval {
    let row = |inode, role, n| {
        fixture::row(MYSQL, inode, "/d/x", role, Op::Fdatasync, fixture::stats(&[(n, 1_000_000)]))
    };
    let files = [row(1, Role::Redo, redo), row(2, Role::Binlog, binlog)];
    let files = Vec::from_iter(files.into_iter().filter(|row| row.stats.count > 0));
    let m = fixture::lasting(Duration::from_secs(SECONDS), fixture::quiet());
    fixture::with_files(m, files, Vec::new())
}

/// Of a server that counts commit groups (MariaDB), or of one that does not.
fn readings(groups: Option<u64>, variables: &[(&str, &str)]) -> (Reading, Reading) {
    let at = |transactions: u64, groups: Option<u64>, uptime: &str| {
        let commits = transactions.to_string();
        let counted = groups.map(|groups| groups.to_string());
        let mut status = vec![("Uptime", uptime), ("Handler_commit", commits.as_str())];
        if let Some(groups) = &counted {
            status.extend([("Binlog_commits", commits.as_str()), ("Binlog_group_commits", groups.as_str())]);
        }
        let variables = [("gtid_mode", "ON")].into_iter().chain(variables.iter().copied());
        let gtids = groups.is_none().then_some(transactions);
        Reading { gtids, ..Reading::from_pairs(status, variables) }
    };
    let from = at(0, groups.map(|_| 0), "1");
    let to =
        Reading { counted: from.counted + Duration::from_secs(SECONDS), ..at(TRANSACTIONS, groups, "11") };
    (from, to)
}

fn explained(
    measurement: Interval,
    (from, to): &(Reading, Reading),
    idle: Option<f64>,
    waits: Account,
) -> Explanation {
    let start = Instant::now();
    let mut samples = InFlightSamples::starting_at(MYSQL, innodb::LOGS, start);
    (1..=200).for_each(|n| samples.add(&[], start + Duration::from_millis(50 * n)));
    let server = fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
    let evidence = Evidence {
        server: &server,
        measurement: &measurement,
        status: Some((from, to)),
        storage: &[],
        flush_waits: BTreeMap::new(),
    };
    let processors = Processors::new(idle, &waits);
    let unsure = Uncertain::default();
    let inputs = Inputs {
        edges: Edges { begun: &[], until: &measurement, unsure: &unsure },
        in_flight: &samples,
        processors,
        calibration: None,
        titles: None,
        no_status: None,
    };
    let commits = Some(Client::explain(&evidence, &inputs));
    Explanation {
        commits,
        waits,
        processors,
        journals: Vec::new(),
        incidents: None,
        not_measurable: Vec::new(),
        measurement,
    }
}

/// A window whose syncs were runnable without a CPU, or waited for a committer that was, for these shares of
/// their time, in percent.
fn waits(queued: u64, committer_queued: u64) -> Account {
    let commit = Phase::JournalCommit;
    let part = Part {
        measured: 100,
        phases: [(Phase::RunQueue, queued), (commit, 100 - queued)].into(),
        under: [
            ((commit, Committer::Queued), committer_queued),
            ((commit, Committer::Flush), 100 - queued - committer_queued),
        ]
        .into(),
    };
    let who = Who { server: MYSQL, role: Role::Redo, op: Op::Fdatasync };
    Account { parts: [(who, part)].into(), ..Account::default() }
}

#[test]
fn no_page_says_that_cpus_are_short_and_that_more_connections_would_find_one() {
    let variables = [("log_bin", "ON"), ("sync_binlog", "1"), ("innodb_flush_log_at_trx_commit", "1")];
    let status = readings(None, &variables);
    let (mut short, mut advised) = (0, 0);
    let idle = (0..=20).map(|twentieths| Some(f64::from(twentieths) / 20.0)).chain([None]);
    for idle in idle {
        for (queued, committer) in (0..=50).step_by(5).flat_map(|q| [0, 4, 5, 10, 50].map(|c| (q, c))) {
            for (redo, binlog) in [(2_000, 3_000), (2_000, 9_000)] {
                let explanation =
                    explained(measurement(redo, binlog), &status, idle, waits(queued, committer));
                let text = page::page(&explanation, &Style::default(), true);
                let is_short = text.contains("waiting for a free CPU");
                let is_advised = text.contains("More connections would help");
                assert!(!(is_short && is_advised), "{text}");
                assert!(
                    !(text.contains("more runnable threads than CPUs") && text.contains("% idle")),
                    "{text}"
                );
                short += usize::from(is_short);
                advised += usize::from(is_advised);
            }
        }
    }
    assert!(short > 0 && advised > 0);
}

#[test]
fn no_page_denies_what_it_says_of_commits() {
    let settings = |log_bin, sync_binlog, trx_commit, method| {
        [
            ("log_bin", log_bin),
            ("sync_binlog", sync_binlog),
            ("innodb_flush_log_at_trx_commit", trx_commit),
            ("innodb_flush_method", method),
        ]
    };
    for (log_bin, sync_binlog) in [("ON", "1"), ("ON", "0"), ("ON", "100"), ("OFF", "1")] {
        for (trx_commit, method) in
            ["0", "1", "2"].into_iter().flat_map(|n| [(n, "O_DIRECT"), (n, "O_DSYNC")])
        {
            for (groups, watched) in
                [None, Some(0), Some(35_000)].into_iter().flat_map(|n| [(n, false), (n, true)])
            {
                for (redo, binlog) in [(0, 0), (2_000, 0), (0, 3_000), (2_000, 3_000)] {
                    let status = readings(groups, &settings(log_bin, sync_binlog, trx_commit, method));
                    let mut measurement = measurement(redo, binlog);
                    if watched {
                        Arc::make_mut(&mut measurement.setup).ops.push(Op::DsyncWrite);
                    }
                    if watched && method == "O_DSYNC" {
                        let rows = measurement.roles.iter_mut().filter(|row| row.role == Role::Redo);
                        rows.for_each(|row| row.op = Op::DsyncWrite);
                    }
                    let explanation = explained(measurement, &status, Some(0.6), waits(10, 0));
                    let text = page::page(&explanation, &Style::default(), true);
                    assert_agrees(&explanation, &text);
                    assert!(!(watched && text.contains("not seen here")), "{text}");
                    if method == "O_DSYNC" && trx_commit != "0" {
                        assert!(!text.contains("no commit waits for a sync."), "{text}");
                        assert!(!text.contains("binary log's sync alone"), "{text}");
                    }
                    for (setting, syncs) in [("trx_commit=1:", redo), ("sync_binlog=1:", binlog)] {
                        let is_kept = |line: &&str| line.starts_with("consistent") && line.contains(setting);
                        let kept = text.lines().find(is_kept);
                        assert!(kept.is_none() || syncs > 0, "{text}");
                    }
                }
            }
        }
    }
}

fn assert_agrees(explanation: &Explanation, text: &str) {
    let factors = &explanation.commits.as_ref().unwrap().innodb().unwrap().factors;
    let (per_group, groups_per_sync, per_sync) = (
        factors.transactions_per_commit_group.value,
        factors.commit_groups_per_binlog_sync.value,
        factors.transactions_per_binlog_sync.value,
    );
    // Of a server that counts groups, nobody says that it does not; nor are groups counted that are not
    // known.
    let is_mariadb = factors.transactions.as_ref().is_some_and(|counted| counted.source == "binlog_commits");
    assert!(!(is_mariadb && text.contains("does not count its groups")), "{text}");
    assert!(!text.contains("counts no commit groups"), "{text}");
    if let (Some(per_group), Some(groups_per_sync), Some(per_sync)) = (per_group, groups_per_sync, per_sync) {
        assert!((per_group * groups_per_sync / per_sync - 1.0).abs() < 1e-9, "{text}");
    }
    if groups_per_sync.is_some() {
        assert!(per_group.is_some() && per_sync.is_some(), "{text}");
    }
    // What is said to be missing is nowhere on the page.
    for (role, what) in [(Role::Redo, "redo log"), (Role::Binlog, "binary log")] {
        let was_traced = factors.logs.iter().any(|log| log.role == role);
        assert!(!(was_traced && text.contains(&format!("no sync of the {what} was traced"))), "{text}");
    }
}
