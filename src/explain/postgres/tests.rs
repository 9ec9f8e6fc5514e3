use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::explain::audit::{Finding, Standing, render as render_audit};
use crate::explain::factors::{Edges, InFlightSamples, Uncertain};
use crate::explain::waits::{Account, Processors};
use crate::linux::storage::{Storage, WriteCache};
use crate::model::fixture::{self, MYSQL};
use crate::model::{Durability, InFlight, Interval, Op, Server, Stats, durability};

const SECONDS: u64 = 10;
const BACKENDS: u32 = 8;
const WALWRITER: u32 = 99;

type Pairs<'a> = &'a [(&'static str, &'static str)];

fn server(notes: &[&str]) -> Server {
    let notes = notes.iter().map(|&note| note.to_owned()).collect();
    Server { notes, ..fixture::server(MYSQL, "postgres", "PostgreSQL 15.14", 5432) }
}

/// Ten seconds with so many syncs of the WAL of two milliseconds, made by this call, and a checkpoint.
fn measurement(op: Op, wal: u64) -> Interval {
    let row = |inode, path: &str, role, op, stats| fixture::row(MYSQL, inode, path, role, op, stats);
    let segment = "/d/pg_wal/000000010000000000000001";
    let files = vec![
        row(1, segment, Role::Wal, op, fixture::stats(&[(wal, 2_000_000)])),
        row(2, "/d/base/5/16384", Role::Data, Op::Fsync, fixture::stats(&[(30, 3_000_000)])),
        row(3, "/d/pg_xact/0000", Role::CommitStatus, Op::Fsync, fixture::stats(&[(1, 10_000_000)])),
    ];
    let files = Vec::from_iter(files.into_iter().filter(|row| row.stats.count > 0));
    let mut m = fixture::lasting(Duration::from_secs(SECONDS), fixture::quiet());
    std::sync::Arc::make_mut(&mut m.setup).ops.push(Op::DsyncWrite);
    fixture::with_files(m, files, Vec::new())
}

/// 200 samples: in so many of them a sync of the WAL, one in ten of these by the walwriter.
fn samples(wal: u32) -> InFlightSamples {
    let start = Instant::now();
    let mut samples = InFlightSamples::starting_at(MYSQL, LOGS, start);
    for n in 0..200 {
        let tid = if n % 10 == 0 { WALWRITER } else { n % BACKENDS };
        let one = fixture::in_flight(Role::Wal, "/d/pg_wal/000000010000000000000001", Duration::ZERO);
        let now = (n < wal).then(|| InFlight { tid, thread: "postgres".into(), ..one });
        samples.add(now.as_slice(), start + Duration::from_millis(50) * (n + 1));
    }
    samples
}

fn titles() -> BTreeMap<u32, String> {
    // The last backend has ended.
    let backends = (0..BACKENDS - 1).map(|tid| (tid, "client backend".to_owned()));
    backends.chain([(WALWRITER, "walwriter".to_owned())]).collect()
}

/// Ten seconds with so many transactions.
fn status(transactions: &'static str, settings: Pairs, more: Pairs) -> (Reading, Reading) {
    let defaults = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("wal_sync_method", "fdatasync"),
        ("full_page_writes", "on"),
        ("data_sync_retry", "off"),
        ("commit_delay", "0"),
        ("commit_siblings", "5"),
    ];
    let at = |transactions: &'static str, checkpoints| {
        let counters = [
            ("started", "1.5"),
            ("in_recovery", "false"),
            ("clients", "8"),
            ("transactions", transactions),
            ("pg_stat_bgwriter.checkpoints_timed", "7"),
            ("pg_stat_bgwriter.checkpoints_req", checkpoints),
        ];
        Reading::from_pairs(
            counters.into_iter().chain(more.iter().copied()),
            defaults.into_iter().chain(settings.iter().copied()),
        )
    };
    let from = at("0", "1");
    let mut to = at(transactions, "2");
    to.counted = from.counted + Duration::from_secs(SECONDS);
    (from, to)
}

fn taken_apart(measurement: &Interval, status: Option<&(Reading, Reading)>) -> Throughput {
    let edges = Edges { begun: &[], until: measurement, unsure: &Uncertain::default() };
    let (server, in_flight) = (server(&[]), &samples(160));
    let status = status.map(|(from, to)| (from, to));
    measure(&Window { server: &server, measurement, edges, status, in_flight }, Some(&titles()))
}

#[test]
fn page_and_json_match_the_expected_output() {
    let throughput = taken_apart(&measurement(Op::Fdatasync, 4_000), Some(&status("16000", &[], &[])));
    fixture::assert_expected("src/explain/postgres/expected/pgbench.txt", &render(&throughput, true));
    let json = serde_json::to_value(&throughput).unwrap();
    for field in ["observed_transactions_per_second", "predicted_transactions_per_second"] {
        assert!(json[field].as_f64().is_some_and(|value| (value - 1_600.0).abs() < 1e-6), "{json:#}");
    }
    let factors = &json["factors"];
    assert_eq!(factors["transactions_per_wal_sync"]["value"], 4.0);
    assert_eq!((&factors["logs"][0]["role"], &factors["logs"][0]["busy"]), (&"wal".into(), &0.8.into()));
    let who = |n: usize| factors["synced_by"][n]["who"].as_str().unwrap();
    assert_eq!([who(0), who(1), who(2)], ["client backend", OTHERS, "walwriter"]);
    let checkpoints = &factors["checkpoints"];
    assert_eq!(checkpoints["count"], 1);
    assert_eq!((&checkpoints["syncs"], &checkpoints["data_syncs"]), (&31.into(), &30.into()));
    assert!((checkpoints["seconds"].as_f64().unwrap() - 0.1).abs() < 1e-9);
}

#[test]
fn a_wal_that_no_commit_waits_for_has_no_equation() {
    let of = |settings, more| {
        taken_apart(&measurement(Op::Fdatasync, 40), Some(&status("16000", settings, more))).factors
    };
    for (settings, more, says) in [
        (&[("synchronous_commit", "off")][..], &[][..], "synchronous_commit=off"),
        (&[("fsync", "off")], &[], "fsync=off"),
        (&[], &[("in_recovery", "true")], "a standby"),
    ] {
        let factors = of(settings, more);
        assert!(factors.form.why_not_wal.as_ref().unwrap().contains(says), "{factors:?}");
        assert!(factors.form.in_words.contains("no commit waits") || says == "a standby", "{factors:?}");
        assert_eq!((factors.naive, factors.logs[0].bound_transactions_per_second), (None, None));
    }
    // A standby's numbers are its source's.
    assert_eq!(of(&[], &[("in_recovery", "true")]).transactions, None);
}

#[test]
fn durable_writes_are_the_wals_syncs() {
    let status = status("16000", &[("wal_sync_method", "open_datasync")], &[]);
    let measurement = measurement(Op::DsyncWrite, 4_000);
    let throughput = taken_apart(&measurement, Some(&status));
    let text = render(&throughput, true);
    for said in [
        "a commit waits for a write of the WAL that is itself durable (wal_sync_method=open_datasync).",
        "transactions per WAL write             4.00",
        "these are its syncs here",
        "WAL: written by client backend",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let mut unseen = measurement;
    std::sync::Arc::make_mut(&mut unseen.setup).ops.retain(|&op| op != Op::DsyncWrite);
    let factors = taken_apart(&unseen, Some(&status)).factors;
    assert!(factors.form.waits_unseen && factors.naive.is_none(), "{factors:?}");
}

#[test]
fn what_else_a_commit_waits_for_is_said() {
    let settings = [
        ("commit_delay", "500"),
        ("synchronous_standby_names", "ANY 1 (a, b)"),
        ("synchronous_commit", "remote_apply"),
    ];
    let status = status("16000", &settings, &[]);
    let text = render(&taken_apart(&measurement(Op::Fdatasync, 4_000), Some(&status)), true);
    assert!(text.contains("waits 500 µs for others, if 5 more transactions are open."), "{text}");
    assert!(text.contains("A commit also waits for standbys"), "{text}");
    assert!(!text.contains("one after the other"), "how long a commit takes is not known: {text}");
    // Where none waits for the WAL, none waits in its turn.
    for (setting, value) in [("fsync", "off"), ("synchronous_commit", "off")] {
        let status = self::status("16000", &[("commit_delay", "500"), (setting, value)], &[]);
        let factors = taken_apart(&measurement(Op::Fdatasync, 4_000), Some(&status)).factors;
        assert_eq!((factors.form.notes.len(), factors.form.waits_for_more), (0, false), "{factors:?}");
    }
    // Nor are its files opened for durable writes then.
    let status = self::status("16000", &[("fsync", "off"), ("wal_sync_method", "open_sync")], &[]);
    assert_eq!(taken_apart(&measurement(Op::Fdatasync, 4_000), Some(&status)).factors.form.by_writes, None);
}

#[test]
fn without_counters_what_was_traced_is_said_all_the_same() {
    let measurement = measurement(Op::Fdatasync, 4_000);
    let throughput = taken_apart(&measurement, None);
    assert_eq!(throughput.observed_transactions_per_second, None);
    let factors = &throughput.factors;
    assert_eq!(factors.logs[0].syncs, 4_000);
    assert!(!factors.form.known && factors.transactions_per_wal_sync.source.contains("no connection"));
    let (from, to) = status("16000", &[], &[]);
    let mut again = Reading::from_pairs([("started", "2.5"), ("transactions", "16000")], []);
    again.counted = to.counted;
    let text = render(&taken_apart(&measurement, Some(&(from, again))), true);
    assert!(text.contains("cannot be used: the server was restarted meanwhile"), "{text}");
}

fn findings(
    server: &Server,
    measurement: &Interval,
    status: &(Reading, Reading),
    storage: &str,
) -> Vec<Finding> {
    let durability = match storage {
        "tmpfs" => Durability::No("tmpfs keeps files in memory only".into()),
        _ => Durability::Yes,
    };
    let example = Storage::example(&["rw"], Some(WriteCache::Volatile), durability);
    let storage = [Storage { filesystem: storage.into(), ..example }];
    audit(&Evidence {
        server,
        measurement,
        status: Some((&status.0, &status.1)),
        storage: &storage,
        flush_waits: BTreeMap::from([(Role::Redo, 300), (Role::Wal, 300)]),
    })
}

fn standing(findings: &[Finding], setting: &str) -> Standing {
    let found = findings.iter().find(|finding| finding.setting.starts_with(setting));
    found.unwrap_or_else(|| panic!("{setting}: {findings:?}")).standing
}

#[test]
fn a_promise_is_kept_broken_or_weak_by_what_was_seen() {
    let of_one_called = |comm: &str, settings: Pairs, wal: u64| {
        let mut measurement = measurement(Op::Fdatasync, wal);
        if wal == 0 {
            measurement.roles.clear();
        }
        let stats = Stats { bytes: 4_000_000, ..fixture::stats(&[(9, 1_000)]) };
        std::sync::Arc::make_mut(&mut measurement.setup).ops.push(Op::Write);
        measurement.writes = vec![fixture::row(MYSQL, 1, "/d/pg_wal/x", Role::Wal, Op::Write, stats)].into();
        let server = Server { comm: comm.into(), ..server(&[]) };
        findings(&server, &measurement, &status("16000", settings, &[]), "ext4")
    };
    let of = |settings: Pairs, wal: u64| of_one_called("postgres", settings, wal);
    let kept = of(&[], 4_000);
    for setting in ["fsync=on", "synchronous_commit=on"] {
        assert_eq!(standing(&kept, setting), Standing::Consistent, "{kept:#?}");
    }
    assert_eq!(standing(&kept, "ext4"), Standing::Kept);
    assert_eq!(standing(&kept, "full_page_writes=on"), Standing::Unseen);
    let commit = kept.iter().find(|finding| finding.setting == "synchronous_commit=on").unwrap();
    assert_eq!(commit.seen, "4,000 syncs of the WAL for 16,000 transactions");
    assert_eq!(standing(&of(&[], 0), "synchronous_commit=on"), Standing::Broken);
    assert_eq!(standing(&of_one_called("postmaster", &[], 0), "synchronous_commit=on"), Standing::Broken);
    // By a name that is nobody's, its children are not known as its own.
    assert_eq!(standing(&of_one_called("pg15", &[], 0), "synchronous_commit=on"), Standing::Unseen);
    for (setting, value, expected) in [
        ("fsync", "off", Standing::Broken),
        ("synchronous_commit", "off", Standing::Weak),
        ("full_page_writes", "off", Standing::Weak),
        ("data_sync_retry", "on", Standing::Weak),
    ] {
        let found = of(&[(setting, value)], 4_000);
        assert_eq!(standing(&found, &format!("{setting}={value}")), expected);
    }
    // What is broken comes first.
    assert!(
        render_audit(&of(&[("fsync", "off")], 0)).starts_with("BROKEN     fsync=off: nothing is ever synced")
    );
    assert_eq!(
        standing(&of(&[("fsync", "off")], 0), "synchronous_commit"),
        Standing::Unseen,
        "once is enough"
    );
    let cow = findings(
        &server(&[]),
        &measurement(Op::Fdatasync, 9),
        &status("9", &[("full_page_writes", "off")], &[]),
        "zfs",
    );
    assert_eq!(standing(&cow, "full_page_writes=off"), Standing::Usual);
    let preloaded = server(&[durability::SYNCS_DO_NOTHING]);
    let found = findings(&preloaded, &measurement(Op::Fdatasync, 9), &status("9", &[], &[]), "ext4");
    assert_eq!(found[0].setting, "libeatmydata");
}

#[test]
fn sessions_that_do_not_wait_are_noticed_by_commits_that_no_sync_can_have_released() {
    let commit = |came| {
        let at = |sessions| status("1780", &[], &[("sessions", sessions)]);
        let ends = (at("500").0, at(came).1);
        let found = findings(&server(&[]), &measurement(Op::Fdatasync, 10), &ends, "ext4");
        let naive = taken_apart(&measurement(Op::Fdatasync, 10), Some(&ends)).factors.naive;
        let finding = found.into_iter().find(|finding| finding.setting == "synchronous_commit=on").unwrap();
        assert_eq!(naive.is_some(), finding.standing == Standing::Consistent, "{finding:?}");
        finding
    };
    let unclear = commit("500");
    assert_eq!(unclear.standing, Standing::Unclear, "{unclear:?}");
    let said = "10 syncs of the WAL for 1,780 transactions of 16 sessions at most: not every commit waited; \
                synchronous_commit=off in a session,";
    assert!(unclear.seen.starts_with(said), "{unclear:?}");
    assert_eq!(commit("900").standing, Standing::Consistent, "many came and went");
}

#[test]
fn durable_writes_keep_the_promise_where_they_are_watched() {
    let settings = [("wal_sync_method", "open_sync")];
    let mut measurement = measurement(Op::DsyncWrite, 400);
    let of = |measurement: &Interval| {
        let found = findings(&server(&[]), measurement, &status("1600", &settings, &[]), "ext4");
        found.into_iter().find(|finding| finding.setting == "synchronous_commit=on").unwrap()
    };
    let kept = of(&measurement);
    assert_eq!(kept.standing, Standing::Consistent);
    assert_eq!(kept.seen, "400 durable writes of the WAL for 1,600 transactions, wal_sync_method=open_sync");
    std::sync::Arc::make_mut(&mut measurement.setup).ops.retain(|&op| op != Op::DsyncWrite);
    assert_eq!(of(&measurement).standing, Standing::Unseen);
}

#[test]
fn advice_needs_its_figure() {
    let advise = |wal: u64, idle| {
        let throughput = taken_apart(&measurement(Op::Fdatasync, wal), Some(&status("16000", &[], &[])));
        super::advise(&throughput, &Processors::new(idle, &Account::default()))
    };
    assert!(advise(4_500, Some(0.6))[0].what.contains("Faster syncs of the WAL"));
    assert_eq!(advise(1_000, Some(0.6))[0].what, "More connections would help.");
    assert_eq!(advise(1_000, None), [], "idle time was not measured");
}
