use std::time::{Duration, Instant};

use super::*;
use crate::explain::factors::{Alone, Edges, InFlightSamples, Uncertain};
use crate::model::fixture::{self, MARIADB, MYSQL};
use crate::model::{InFlight, Interval, Op, Server};

const SECONDS: u64 = 10;

/// Ten seconds with these syncs, given as (count, nanoseconds each).
fn measurement(redo: (u64, u64), binlog: (u64, u64)) -> Interval {
    let row = |server, inode, path: &str, role, stats: (u64, u64)| {
        fixture::row(server, inode, path, role, Op::Fdatasync, fixture::stats(&[stats]))
    };
    let files = vec![
        row(MYSQL, 1, "/d/ib_logfile0", Role::Redo, redo),
        row(MYSQL, 2, "/d/binlog.000001", Role::Binlog, binlog),
        row(MARIADB, 3, "/b/ib_logfile0", Role::Redo, (777_777, 1_000)),
    ];
    let files = Vec::from_iter(files.into_iter().filter(|row| row.stats.count > 0));
    fixture::lasting(Duration::from_secs(SECONDS), fixture::with_files(fixture::quiet(), files, Vec::new()))
}

/// 200 samples: the number of those with a sync of the redo log and of the binary log in flight.
fn samples(redo: u64, binlog: u64) -> InFlightSamples {
    let start = Instant::now();
    let mut samples = InFlightSamples::starting_at(MYSQL, LOGS, start);
    for n in 0..200 {
        let one = |role| fixture::in_flight(role, "/d/x", Duration::ZERO);
        let mut now: Vec<InFlight> = Vec::new();
        now.extend((n < redo).then(|| InFlight { thread: "connection".into(), ..one(Role::Redo) }));
        now.extend((n >= 200 - binlog).then(|| one(Role::Binlog)));
        samples.add(&now, start + Duration::from_millis(50) * (n as u32 + 1));
    }
    samples
}

/// Two readings of a MariaDB, ten seconds apart.
fn status(commits: &str, groups: &str, variables: &[(&'static str, &'static str)]) -> (Reading, Reading) {
    let at = |commits: &str, groups: &str, uptime: &str, lsn: &str| {
        let status = [
            ("Binlog_commits", commits),
            ("Handler_commit", commits),
            ("Binlog_group_commits", groups),
            ("Uptime", uptime),
            ("Threads_connected", "17"),
            ("Innodb_lsn_current", lsn),
            ("Innodb_checkpoint_age", "50331648"),
            ("Innodb_checkpoint_max_age", "80000000"),
            ("Innodb_buffer_pool_pages_dirty", "512"),
            ("Innodb_buffer_pool_pages_total", "8192"),
        ];
        let defaults = [
            ("log_bin", "ON"),
            ("sync_binlog", "1"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("innodb_log_file_size", "100663296"),
        ];
        Reading::from_pairs(status, defaults.into_iter().chain(variables.iter().copied()))
    };
    let from = at("1000", "500", "100", "0");
    let mut to = at(commits, groups, "110", "10485760");
    to.counted = from.counted + Duration::from_secs(SECONDS);
    (from, to)
}

fn mysqld() -> Server {
    fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306)
}

fn taken_apart(
    measurement: &Interval,
    status: Option<&(Reading, Reading)>,
    samples: &InFlightSamples,
) -> Throughput {
    let status = status.map(|(from, to)| (from, to));
    let edges = Edges { begun: &[], until: measurement, unsure: &Uncertain::default() };
    measure(&Window { server: &mysqld(), measurement, edges, status, in_flight: samples })
}

fn near(actual: Option<f64>, expected: f64) {
    let actual = actual.unwrap_or(f64::NAN);
    assert!((actual - expected).abs() < expected * 1e-6, "{actual} is not {expected}");
}

/// 40,000 transactions in 8,000 groups; 10,000 redo syncs of 300 µs, 8,000 binary-log syncs of 1 ms.
fn classic() -> (Interval, (Reading, Reading)) {
    (measurement((10_000, 300_000), (8_000, 1_000_000)), status("41000", "8500", &[]))
}

#[test]
fn the_factors_multiply_to_the_throughput() {
    let (measurement, status) = classic();
    let throughput = taken_apart(&measurement, Some(&status), &samples(60, 160));
    let factors = &throughput.factors;
    near(throughput.observed_transactions_per_second, 4_000.0);
    near(throughput.predicted_transactions_per_second, 4_000.0);
    near(factors.transactions_per_commit_group.value, 5.0);
    near(factors.commit_groups_per_binlog_sync.value, 1.0);
    near(factors.redo_syncs_per_binlog_sync.value, 1.25);
    let [redo, binlog] = &factors.logs[..] else { panic!("{factors:?}") };
    near(Some(redo.busy), 0.3);
    near(Some(binlog.busy), 0.8);
    near(binlog.bound_transactions_per_second, 5_000.0);
    near(redo.bound_transactions_per_second, 4_000.0 / 0.3);
    assert_eq!((redo.adds_up, binlog.adds_up), (Some(true), Some(true)));
    let naive = factors.naive.unwrap();
    near(Some(naive.ceiling_transactions_per_second), 1.0 / 0.0013);
    near(Some(naive.multiple), 5.2);
    near(Some(naive.transactions_per_group * naive.groups_at_once), 5.2);
    near(Some(naive.groups_at_once), 1.04);
    // Little's law: 16 connections beside fsynctop's own.
    let connections = factors.connections.unwrap();
    near(Some(connections.seconds_per_transaction), 16.0 / 4_000.0);
    near(Some(connections.seconds_in_syncs), 0.0013);
}

#[test]
fn connections_that_come_and_go_have_no_mean() {
    let (measurement, (mut from, to)) = classic();
    for (earlier, is_reported) in [("16", true), ("18", true), ("9", false), ("1", false)] {
        from.status.insert("threads_connected".into(), earlier.into());
        let throughput = taken_apart(&measurement, Some(&(from.clone(), to.clone())), &samples(60, 160));
        assert_eq!(throughput.factors.connections.is_some(), is_reported, "{earlier}");
    }
}

#[test]
fn samples_that_disagree_with_the_latencies_are_reported() {
    let (measurement, status) = classic();
    let throughput = taken_apart(&measurement, Some(&status), &samples(60, 80));
    let binlog = &throughput.factors.logs[1];
    assert_eq!(binlog.adds_up, Some(false));
    near(throughput.predicted_transactions_per_second, 2_000.0);
    assert!(render(&throughput, false).contains("0.400 ± 0.035, DOES NOT ADD UP"));
    // A handful of samples proves nothing either way, and predicts nothing.
    let mut few = InFlightSamples::new(MYSQL, LOGS);
    few.add(&[], Instant::now() + Duration::from_millis(1));
    let throughput = taken_apart(&measurement, Some(&status), &few);
    assert_eq!(throughput.factors.logs[1].adds_up, None);
    assert_eq!(throughput.predicted_transactions_per_second, None);
}

#[test]
fn a_sync_across_an_edge_of_the_window_counts_only_its_part_within() {
    let (mut measurement, status) = classic();
    let samples = samples(60, 120); // of the binary log 0.6, and the latencies say 0.8
    let binlog = |measurement: &Interval, begun: &[InFlight]| {
        let (from, to) = &status;
        let edges = Edges { begun, until: measurement, unsure: &Uncertain::default() };
        let status = Some((from, to));
        let server = &mysqld();
        let window = Window { server, measurement, edges, status, in_flight: &samples };
        measure(&window).factors.logs[1].clone()
    };
    let cut = |role, seconds| fixture::in_flight(role, "/d/x", Duration::from_secs(seconds));
    let stalled = cut(Role::Binlog, 2);
    assert_eq!(binlog(&measurement, &[]).adds_up, Some(false));
    // Two seconds of the latencies' sum lie before the window.
    let begun = binlog(&measurement, std::slice::from_ref(&stalled));
    assert_eq!(begun.adds_up, Some(true));
    near(Some(begun.busy), 0.6);
    near(begun.bound_transactions_per_second, 4_000.0 / 0.6);
    near(begun.predicted_transactions_per_second, 4_000.0);
    let others = [
        cut(Role::Redo, 2),
        InFlight { server: MARIADB, ..stalled.clone() },
        // Its end is not traced.
        InFlight { age_is_minimum: true, ..stalled.clone() },
    ];
    near(Some(binlog(&measurement, &others).busy), 0.8);
    // Its file was not known yet: it may belong to this log.
    let unnamed = InFlight { role: Role::Other, path: None, ..stalled.clone() };
    let unknown = binlog(&measurement, &[unnamed]);
    assert_eq!((unknown.busy, unknown.adds_up), (0.8, Some(true)));
    // A sync that has not finished is in no latency.
    measurement.in_flight.push(stalled);
    near(Some(binlog(&measurement, &[]).busy), 1.0);
}

#[test]
fn a_sync_that_ended_while_rows_were_read_is_uncertain() {
    let (measurement, status) = classic();
    // The binary log: eight seconds by the latencies, six by the samples.
    let adds_up = |unsure: &Uncertain| {
        let edges = Edges { begun: &[], until: &measurement, unsure };
        let status = Some((&status.0, &status.1));
        let in_flight = &samples(60, 120);
        let server = &mysqld();
        let window = Window { server, measurement: &measurement, edges, status, in_flight };
        measure(&window).factors.logs[1].adds_up
    };
    let ended = |role, seconds| Uncertain {
        ended: vec![fixture::in_flight(role, "/d/x", Duration::from_secs(seconds))],
        ..Uncertain::default()
    };
    assert_eq!(adds_up(&ended(Role::Binlog, 2)), Some(true));
    assert_eq!(adds_up(&ended(Role::Redo, 2)), Some(false));
    assert_eq!(adds_up(&Uncertain::default()), Some(false));
    assert_eq!(adds_up(&Uncertain { apart: Duration::from_secs(2), ..Uncertain::default() }), Some(true));
}

#[test]
fn a_log_that_was_seen_twice_in_flight_is_not_serial_and_gives_no_bound() {
    let (measurement, status) = classic();
    let mut samples = samples(60, 160);
    let one = fixture::in_flight(Role::Redo, "/d/x", Duration::ZERO);
    let at = |n: u32| Instant::now() + Duration::from_secs(SECONDS) + Duration::from_millis(50) * (n + 1);
    // A single overlap may be an artefact of the scan.
    samples.add(&[one.clone(), one.clone()], at(0));
    let throughput = taken_apart(&measurement, Some(&status), &samples);
    assert!(throughput.factors.logs[0].bound_transactions_per_second.is_some());
    (1..20).for_each(|n| samples.add(&[one.clone(), one.clone()], at(n)));
    let throughput = taken_apart(&measurement, Some(&status), &samples);
    assert_eq!(throughput.factors.logs[0].bound_transactions_per_second, None);
    assert!(throughput.factors.logs[1].bound_transactions_per_second.is_some());
}

#[test]
fn a_log_that_commits_do_not_wait_for_has_no_equation() {
    let (measurement, _) = classic();
    let samples = samples(60, 160);
    let with = |variables: &[(&'static str, &'static str)]| {
        taken_apart(&measurement, Some(&status("41000", "8500", variables)), &samples)
    };
    for (variable, says) in [
        (("log_bin", "OFF"), "the binary log is off"),
        (("sync_binlog", "0"), "sync_binlog=0"),
        (("sync_binlog", "100"), "one commit group in 100"),
        (("binlog_storage_engine", "innodb"), "in InnoDB"),
    ] {
        let throughput = with(&[variable]);
        let form = &throughput.factors.form;
        assert!(form.why_not_binlog.as_ref().unwrap().contains(says), "{form:?}");
        assert_eq!(form.commits_wait_for(), Some(Role::Redo));
        // The redo log's latency alone: 40,000 transactions by 10,000 syncs of 300 µs.
        near(Some(throughput.factors.naive.unwrap().ceiling_transactions_per_second), 1.0 / 0.0003);
        assert_eq!(throughput.factors.logs[1].bound_transactions_per_second, None);
        assert!(render(&throughput, true).contains("a commit waits for the redo log alone"));
    }
    let unsynced = with(&[("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")]);
    assert_eq!((unsynced.predicted_transactions_per_second, unsynced.factors.naive), (None, None));
    let galera = with(&[("wsrep_on", "ON")]);
    assert!(galera.factors.form.notes[0].contains("Galera"));
}

/// The syncs of the redo log, as durable writes that are watched.
fn by_writes(mut measurement: Interval) -> Interval {
    let rows = measurement.roles.iter_mut().filter(|row| row.role == Role::Redo);
    rows.for_each(|row| row.op = Op::DsyncWrite);
    std::sync::Arc::make_mut(&mut measurement.setup).ops.push(Op::DsyncWrite);
    measurement
}

#[test]
fn durable_writes_of_the_redo_log_are_its_syncs() {
    let (synced, _) = classic();
    let written = by_writes(synced.clone());
    let dsync = [("innodb_flush_method", "O_DSYNC")];
    let by_syncs = taken_apart(&synced, Some(&status("41000", "8500", &[])), &samples(60, 160));
    let throughput = taken_apart(&written, Some(&status("41000", "8500", &dsync)), &samples(60, 160));
    let factors = &throughput.factors;
    assert_eq!(
        factors.form.in_words,
        "a commit waits for a write of the redo log that is itself durable (innodb_flush_method=O_DSYNC), then for the \
         binary log's sync"
    );
    assert_eq!((&factors.form.why_not_redo, factors.form.waits_unseen), (&None, false));
    let [redo, binlog] = &factors.logs[..] else { panic!("{factors:?}") };
    assert_eq!((redo.made_durable_by, binlog.made_durable_by), (DurableBy::DurableWrites, DurableBy::Syncs));
    let same = &by_syncs.factors.logs[0];
    assert_eq!(Log { made_durable_by: DurableBy::Syncs, ..redo.clone() }, *same);
    assert_eq!(
        (&factors.naive, &factors.connections),
        (&by_syncs.factors.naive, &by_syncs.factors.connections)
    );
    near(factors.transactions_per_redo_sync.value, 4.0);
    let text = render(&throughput, true);
    for part in [
        "redo writes per binary-log sync",
        "transactions per redo write",
        "  The redo log is made durable by its writes: these are its syncs here.",
        "written by connections",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("redo sync"), "{text}");
    // The log that is waited for last predicts.
    let alone = [dsync[0], ("sync_binlog", "0")];
    let throughput = taken_apart(&written, Some(&status("41000", "8500", &alone)), &samples(60, 160));
    near(throughput.predicted_transactions_per_second, 4_000.0);
    // At 2, a commit waits for a write, which is enough; at 0, for none.
    for (value, waits) in [("2", true), ("0", false)] {
        let variables = [dsync[0], ("innodb_flush_log_at_trx_commit", value)];
        let factors =
            taken_apart(&written, Some(&status("41000", "8500", &variables)), &samples(60, 160)).factors;
        assert_eq!(factors.logs[0].bound_transactions_per_second.is_some(), waits, "{value}");
    }
}

#[test]
fn on_a_synchronous_mount_commits_wait_for_the_writes_and_the_syncs() {
    let (mut measurement, status) = classic();
    let row = measurement.roles.iter().find(|row| row.role == Role::Redo).unwrap().clone();
    let stats = fixture::stats(&[(12_000, 50_000)]);
    measurement.roles.push(crate::model::RoleRow { op: Op::DsyncWrite, stats, ..row });
    std::sync::Arc::make_mut(&mut measurement.setup).ops.push(Op::DsyncWrite);
    let redo = taken_apart(&measurement, Some(&status), &samples(60, 160)).factors.logs[0].clone();
    assert_eq!((redo.made_durable_by, redo.syncs), (DurableBy::Syncs, 10_000));
    near(Some(redo.busy), 0.36);
    near(Some(redo.syncs_per_second * redo.mean_latency_seconds), 0.36);
}

#[test]
fn where_durable_writes_are_not_watched_they_are_waited_for_unseen() {
    let measurement = measurement((0, 0), (8_000, 1_000_000));
    let samples = samples(0, 160);
    let with = |variables: &[(&'static str, &'static str)]| {
        let variables = [&[("innodb_flush_method", "O_DSYNC")], variables].concat();
        taken_apart(&measurement, Some(&status("41000", "8500", &variables)), &samples)
    };
    let write = "a write of the redo log that is itself durable (innodb_flush_method=O_DSYNC; not seen \
                 here)";
    for trx_commit in ["1", "2"] {
        let trx_commit = ("innodb_flush_log_at_trx_commit", trx_commit);
        let throughput = with(&[trx_commit]);
        let form = &throughput.factors.form;
        assert_eq!(form.in_words, format!("a commit waits for {write}, then for the binary log's sync"));
        assert!(form.waits_for_durable_write && form.waits_unseen && form.why_not_redo.is_some(), "{form:?}");
        // The binary log's equation holds; how long a commit takes alone is not known.
        near(throughput.predicted_transactions_per_second, 4_000.0);
        assert_eq!((throughput.factors.naive, throughput.factors.connections), (None, None));
        assert_eq!(
            with(&[trx_commit, ("sync_binlog", "0")]).factors.form.in_words,
            format!("a commit waits only for {write}")
        );
    }
    let unwritten = with(&[("innodb_flush_log_at_trx_commit", "0")]);
    assert_eq!(unwritten.factors.form.in_words, "a commit waits for the binary log's sync alone");
    assert!(!unwritten.factors.form.waits_for_durable_write);
    // Without a connection, the descriptors tell.
    let notes = vec![crate::model::durability::REDO_BY_WRITES.to_owned()];
    let form = Form::of(&Server { notes, ..mysqld() }, None, &[]);
    assert!(form.why_not_redo.unwrap().contains("its descriptors have O_DSYNC"));
}

#[test]
fn without_a_connection_traced_figures_are_still_reported() {
    let (measurement, _) = classic();
    let throughput = taken_apart(&measurement, None, &samples(60, 160));
    assert_eq!(throughput.observed_transactions_per_second, None);
    near(throughput.factors.redo_syncs_per_binlog_sync.value, 1.25);
    assert_eq!(throughput.factors.transactions_per_commit_group.value, None);
    assert!(throughput.factors.transactions_per_commit_group.source.contains("no connection"));
    assert_eq!(throughput.factors.logs.len(), 2);
    let text = render(&throughput, true);
    assert!(text.contains("No connection to the server: its own counters are missing."), "{text}");
    assert!(text.contains("80 %"), "{text}");
}

#[test]
fn without_a_group_counter_groups_are_counted_by_binary_log_syncs() {
    let (measurement, _) = classic();
    let at = |gtids, uptime: &str| Reading {
        gtids: Some(gtids),
        ..Reading::from_pairs(
            [("Uptime", uptime)],
            [
                ("log_bin", "ON"),
                ("gtid_mode", "ON"),
                ("sync_binlog", "1"),
                ("innodb_flush_log_at_trx_commit", "1"),
            ],
        )
    };
    let from = at(7, "5");
    let to = Reading { counted: from.counted + Duration::from_secs(SECONDS), ..at(40_007, "15") };
    let throughput = taken_apart(&measurement, Some(&(from, to)), &samples(60, 160));
    near(throughput.factors.transactions_per_commit_group.value, 5.0);
    let groups = &throughput.factors.commit_groups_per_binlog_sync;
    assert_eq!(groups.value, None);
    assert!(groups.source.ends_with("does not count its groups, so the syncs stand for them"), "{groups:?}");
}

#[test]
fn a_ratio_without_a_value_names_what_is_missing_of_it() {
    // MariaDB counts groups, whether they sync the binary log or not.
    let measurement = measurement((10_000, 300_000), (0, 0));
    let factors = |variables: &[(&'static str, &'static str)], commits: &str| {
        taken_apart(&measurement, Some(&status(commits, "8500", variables)), &samples(60, 0)).factors
    };
    let unsynced = factors(&[("sync_binlog", "0")], "41000");
    near(unsynced.transactions_per_commit_group.value, 5.0);
    let missing = &unsynced.commit_groups_per_binlog_sync;
    assert_eq!(missing.value, None);
    assert!(missing.source.contains("sync_binlog=0"), "{missing:?}");
    let untraced = factors(&[], "41000").commit_groups_per_binlog_sync;
    assert_eq!(untraced.source, "no sync of the binary log was traced");
    // Reset meanwhile, without the server saying so.
    let uncounted = factors(&[("log_bin", "ON")], "7").transactions_per_commit_group;
    assert_eq!(uncounted.source, "not measurable here: the transactions of this server are not known");
}

#[test]
fn after_a_restart_no_counter_is_used() {
    let (measurement, (from, to)) = classic();
    let throughput = taken_apart(&measurement, Some(&(to, from)), &samples(60, 160));
    assert_eq!(throughput.observed_transactions_per_second, None);
    assert!(throughput.factors.left_out[0].contains("restarted"), "{:?}", throughput.factors.left_out);
}

#[test]
fn the_redo_log_is_sized_by_what_is_written_to_it() {
    let (measurement, status) = classic();
    let throughput = taken_apart(&measurement, Some(&status), &samples(60, 160));
    let redo = &throughput.factors.redo;
    // 10 MB in ten seconds.
    assert_eq!(redo.bytes_per_hour, Some(3600 << 20));
    assert_eq!(redo.an_hour_needs_bytes, Some((3600_u64 << 20).div_ceil(64 << 20) * (64 << 20)));
    near(redo.hours_held, 96.0 / 3600.0);
    near(redo.fullness(), 50_331_648.0 / 80_000_000.0);
    near(redo.dirty_share, 0.0625);
    assert!(!redo.limit.unwrap().is_estimate);
    let (who, share) = redo.mostly_synced_by().unwrap();
    assert_eq!((who.in_words(), share), ("connections", 1.0));
}

#[test]
fn page_and_json_match_the_expected_output() {
    let (measurement, status) = classic();
    let throughput = taken_apart(&measurement, Some(&status), &samples(60, 160));
    fixture::assert_expected("src/explain/innodb/expected/classic.txt", &render(&throughput, true));
    let text = render(&throughput, false);
    assert!(text.contains("4,000 commits/s are 5.20 times") && text.lines().count() < 8, "{text}");
    let json = serde_json::to_value(&throughput).unwrap();
    for field in ["observed_transactions_per_second", "predicted_transactions_per_second"] {
        assert!(json[field].as_f64().is_some_and(|value| (value - 4_000.0).abs() < 1e-6), "{json:#}");
    }
    assert_eq!(json["factors"]["logs"][1]["role"], "binlog");
    assert_eq!(json["factors"]["redo"]["synced_by"][0]["who"], "connections");
}

#[test]
fn the_latencies_are_compared_with_those_of_a_sync_alone() {
    use crate::sync_cost::plan::{Case, Method, Pattern};
    use crate::sync_cost::{Calibration, Figures, Outcome, Place};
    let (measurement, status) = classic();
    let factors = taken_apart(&measurement, Some(&status), &samples(60, 160)).factors;
    let outcome = |pattern, mean_seconds| {
        let figures = Figures {
            syncs: 1_000,
            syncs_per_second: 1.0 / mean_seconds,
            mean_seconds,
            p50_seconds: mean_seconds,
            p99_seconds: mean_seconds,
            max_seconds: mean_seconds,
            journal_commits: None,
        };
        Outcome { case: Case::alone(Method::Fdatasync, pattern), figures: Some(figures), refused: None }
    };
    let mut calibration = Calibration {
        schema: 1,
        when: "2026-01-01T00:00:00Z".into(),
        place: Place::inspect(std::path::Path::new("/")).unwrap(),
        kernel: "6.12".into(),
        block_bytes: 4096,
        seconds_each: 1.0,
        outcomes: vec![outcome(Pattern::Overwritten, 0.0001), outcome(Pattern::Appended, 0.002)],
        complete: true,
    };
    let alone = Alone::of(&factors.logs, &calibration).unwrap();
    let text = alone.in_words();
    assert!(
        text.contains("100 µs for the redo log alone, 300 µs under this load (3.00 times that)"),
        "{text}"
    );
    assert!(
        text.contains("2.0 ms for the binary log alone, 1.0 ms under this load (0.50 times that)"),
        "{text}"
    );
    calibration.outcomes.clear();
    assert_eq!(Alone::of(&factors.logs, &calibration), None);
}
