//! Needs root and real servers: the throughput taken apart into factors that are measured apart from each
//! other, and the server's counters as an account without any rights sees them.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsynctop::cli::connection::ConnectionArgs;
use fsynctop::cli::one_server;
use fsynctop::cli::options::TargetArgs;
use fsynctop::engine::engines::Engines;
use fsynctop::engine::rules::Rules;
use fsynctop::explain::audit::Standing;
use fsynctop::explain::commit_watch::CommitWatch;
use fsynctop::explain::commits::Commits;
use fsynctop::explain::factors::samples::{By, Sampled};
use fsynctop::explain::factors::{DurableBy, Log};
use fsynctop::explain::waits::Account;
use fsynctop::model::{Interval, Op};
use fsynctop::probe::ProbeConfig;
use fsynctop::sampler::Sampler;
use fsynctop::server::asking::choose::Chosen;
use fsynctop::server::mysql::status::client::Client;

use crate::common::Running;
use crate::common::exact::on_each;
use crate::common::rows;
use crate::common::server::{Database, Kind};

/// Takes a load apart, in a window in the midst of it.
fn watch(database: &Database, connections: u32, window: Duration) -> Commits {
    let targets = TargetArgs { pid: vec![database.pid], ..TargetArgs::default() };
    let connection = ConnectionArgs::default();
    let known = one_server::are_factors_known;
    let rules = Arc::new(Rules::builtin());
    let found = one_server::of_any_engine(&targets, &connection, &rules, &[known]).unwrap();
    let Chosen { server, status } = found.choose::<Client>().unwrap();
    let config = rows::of_pid(database.pid);
    let ops = config.ops.iter().copied().chain([Op::DsyncWrite]).collect();
    let config = ProbeConfig { watch_waits: true, ops, ..config };
    let mut sampler = Sampler::start(&config, Rules::builtin(), "test".into()).unwrap();
    let mut load = database.load(connections, 1_000_000);
    let _load = Running(load.stdout(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        sampler.wait(Duration::from_millis(100)).unwrap();
    }
    let mut commits = CommitWatch::begin(server, status, sampler.watch_logs(), Engines::builtin());
    commits.count_at_begin();
    let from = commits.open(&mut sampler).unwrap();
    let end = Instant::now() + window;
    while Instant::now() < end {
        sampler.wait(commits.every()).unwrap();
        commits.sample(&mut sampler).unwrap();
    }
    commits.count_at_end();
    let to = commits.close(&mut sampler, Sampler::snapshot).unwrap();
    let measurement = Interval::between(&from, &to);
    let commits = commits.finish(&measurement, &from.in_flight, &measurement, &Account::default());
    eprintln!("{connections} connections\n{}", commits.render());
    commits
}

/// So many windows at most.
const WINDOWS: u32 = 3;

/// For where it is not the question whether the logs add up: one window of which the page says that they do
/// not decides nothing, and another is taken. A sync far longer than others, cut by the window's edge, is in
/// one of the two figures only. A figure that is always wrong would be so in each window.
fn watch_until_it_adds_up(database: &Database, connections: u32, window: Duration) -> Commits {
    let adds_up = |commits: &Commits| {
        commits.innodb().unwrap().factors.logs.iter().all(|log| log.adds_up == Some(true))
    };
    let mut commits = watch(database, connections, window);
    for _ in 1..WINDOWS {
        if adds_up(&commits) {
            break;
        }
        commits = watch(database, connections, window);
    }
    commits
}

/// A busy loop for each processor.
fn hogs() -> Vec<Running> {
    let hog = || {
        let mut command = Command::new("sh");
        Running(command.args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap())
    };
    (0..std::thread::available_parallelism().unwrap().get()).map(|_| hog()).collect()
}

/// As far off as the samples may be by chance, and by what happens at the window's edges: 1 % of the time.
/// For 6,000 samples that is 0.03 at most, whoever else uses the processors.
fn tolerance(sampled: &Sampled) -> f64 {
    3.0 * sampled.standard_error + 0.01
}

/// Little's law, between two figures that are measured apart from each other: the mean number in flight,
/// sampled, and the rate times the mean latency.
fn assert_samples_agree(log: &Log, page: &str) {
    let sampled = log.in_flight.unwrap();
    assert_eq!(sampled.by, By::Timer, "{page}");
    let by_latencies = log.syncs_per_second * log.mean_latency_seconds;
    let off = sampled.mean - by_latencies;
    assert!(off.abs() < tolerance(&sampled), "{off} off {by_latencies}: {page}");
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn the_factors_of_a_real_load_add_up() {
    on_each(|kind| {
        let database = Database::start(kind, &[]);
        database.prepare();
        for (connections, hogged) in [(1, false), (16, false), (16, true)] {
            let _hogs = hogged.then(hogs);
            let commits = watch(&database, connections, Duration::from_secs(6));
            let (page, throughput) = (commits.render(), commits.innodb().unwrap());
            let standing = |setting: &str| {
                let finding = commits.audit.iter().find(|finding| finding.setting == setting);
                finding.unwrap_or_else(|| panic!("{setting}: {page}")).standing
            };
            assert_eq!(standing("innodb_flush_log_at_trx_commit=1"), Standing::Consistent);
            assert_eq!(standing("sync_binlog=1"), Standing::Consistent);
            assert!(commits.audit.iter().all(|finding| finding.standing > Standing::Usual), "{page}");
            let factors = &throughput.factors;
            let group = factors.transactions_per_commit_group.value.unwrap();
            match connections {
                1 => assert!((group - 1.0).abs() < 0.05, "{page}"),
                _ => assert!(group > 1.2, "{page}"),
            }
            assert_eq!(
                factors.commit_groups_per_binlog_sync.value.is_some(),
                kind == Kind::MariaDb,
                "{page}"
            );
            let observed = throughput.observed_transactions_per_second.unwrap();
            for log in &factors.logs {
                assert_eq!(log.adds_up, Some(true), "{page}");
                assert_samples_agree(log, &page);
                assert!(log.in_flight.unwrap().is_serial(), "the servers serialise their logs: {page}");
                assert!(observed <= log.bound_transactions_per_second.unwrap() * 1.03, "{page}");
            }
            let predicted = throughput.predicted_transactions_per_second.unwrap();
            let sampled = factors.logs[1].in_flight.unwrap();
            assert!((predicted / observed - 1.0).abs() < tolerance(&sampled) / sampled.mean, "{page}");
            assert!(
                factors.redo.fullness().unwrap() > 0.0 && factors.redo.bytes_per_hour.unwrap() > 0,
                "{page}"
            );
            assert!(!factors.redo.synced_by.is_empty(), "{page}");
            let naive = factors.naive.unwrap();
            assert!((naive.multiple - naive.transactions_per_group * naive.groups_at_once).abs() < 1e-6);
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn where_a_log_is_not_waited_for_its_equation_does_not_apply() {
    on_each(|kind| {
        for (option, says) in
            [("--skip-log-bin", "the binary log is off"), ("--sync-binlog=0", "sync_binlog=0")]
        {
            let database = Database::start(kind, &[option]);
            database.prepare();
            let commits = watch_until_it_adds_up(&database, 8, Duration::from_secs(4));
            let (page, throughput) = (commits.render(), commits.innodb().unwrap());
            let weak = commits.audit.iter().any(|finding| finding.standing == Standing::Weak);
            assert_eq!(weak, option == "--sync-binlog=0", "{page}");
            let factors = &throughput.factors;
            assert!(factors.form.why_not_binlog.as_ref().unwrap().contains(says), "{page}");
            let redo = &factors.logs[0];
            assert_eq!(redo.adds_up, Some(true), "{page}");
            // The redo log is waited for alone, and it is that which predicts.
            assert_eq!(throughput.predicted_transactions_per_second, redo.predicted_transactions_per_second);
            let naive = factors.naive.unwrap();
            assert!((naive.ceiling_transactions_per_second * redo.mean_latency_seconds - 1.0).abs() < 1e-9);
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn durable_writes_of_the_redo_log_are_its_syncs() {
    on_each(|kind| {
        let database = Database::start(kind, &["--innodb-flush-method=O_DSYNC"]);
        database.prepare();
        for connections in [1, 16] {
            let commits = watch(&database, connections, Duration::from_secs(6));
            let (page, throughput) = (commits.render(), commits.innodb().unwrap());
            let factors = &throughput.factors;
            assert!(page.contains("a write of the redo log that is itself durable"), "{page}");
            assert!(factors.form.waits_for_durable_write && !factors.form.waits_unseen, "{page}");
            let observed = throughput.observed_transactions_per_second.unwrap();
            let [redo, binlog] = &factors.logs[..] else { panic!("{page}") };
            assert_eq!(
                (redo.made_durable_by, binlog.made_durable_by),
                (DurableBy::DurableWrites, DurableBy::Syncs),
                "{page}"
            );
            for log in [redo, binlog] {
                assert_eq!(log.adds_up, Some(true), "{page}");
                assert_samples_agree(log, &page);
                assert!(observed <= log.bound_transactions_per_second.unwrap() * 1.03, "{page}");
            }
            // Alone, a commit waits for a write of the redo log of its own.
            let per_write = factors.transactions_per_redo_sync.value.unwrap();
            assert!(if connections == 1 { per_write <= 1.05 } else { per_write > 0.2 }, "{page}");
            let naive = factors.naive.unwrap();
            let each = redo.mean_latency_seconds + binlog.mean_latency_seconds;
            assert!((naive.ceiling_transactions_per_second * each - 1.0).abs() < 1e-9, "{page}");
            let of_redo =
                commits.audit.iter().find(|finding| finding.setting.starts_with("innodb_flush_log")).unwrap();
            assert_eq!(of_redo.standing, Standing::Consistent, "{page}");
            assert!(of_redo.seen.contains(" durable writes for "), "{page}");
        }
    });
}

/// Tables of another engine write nothing to the redo log and wait for none of its syncs.
#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn no_promise_is_broken_by_transactions_that_it_is_not_about() {
    on_each(|kind| {
        let database = Database::start(kind, &[]);
        database.prepare();
        database.execute(&["ALTER TABLE napkin.products ENGINE=MyISAM"]);
        let commits = watch(&database, 4, Duration::from_secs(4));
        let of = |setting: &str| commits.audit.iter().find(|finding| finding.setting == setting).unwrap();
        let redo = of("innodb_flush_log_at_trx_commit=1");
        assert!(matches!(redo.standing, Standing::Unseen | Standing::Unclear), "{}", commits.render());
        assert_eq!(of("sync_binlog=1").standing, Standing::Consistent, "{}", commits.render());
    });
}

/// As on a replica without log_slave_updates, or with sql_log_bin=0.
#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn transactions_that_the_binary_log_does_not_take_are_counted_all_the_same() {
    on_each(|kind| {
        let by_rows = (kind == Kind::MariaDb).then_some("--binlog-format=ROW");
        let options: Vec<&str> = ["--binlog-ignore-db=napkin"].into_iter().chain(by_rows).collect();
        let database = Database::start(kind, &options);
        database.prepare();
        let commits = watch(&database, 4, Duration::from_secs(4));
        let page = commits.render();
        let throughput = commits.innodb().unwrap();
        assert!(throughput.observed_transactions_per_second.is_some_and(|rate| rate > 20.0), "{page}");
        assert!(page.contains("handler_commit; the binary log took none of them"), "{page}");
    });
}
