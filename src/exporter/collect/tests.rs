//! The books under everything that servers, files and snapshots do: restarts, reused pids, folded rows, roles
//! that are found out late. No counter goes down, nothing is counted twice, nothing is lost, and the series
//! stay few.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::book::{Book, Options};
use super::families::{self, Kind};
use super::own::{Own, ProcessFacts};
use super::{expose, forms};
use crate::exporter::recording::Facts;
use crate::exporter::source::Form;
use crate::exporter::verdict::{OfServer, Told};
use crate::live::Published;
use crate::model::fixture::*;
use crate::model::*;
use crate::verdict::State;

mod failures;
mod forms_of_it;
mod servers;
mod writes;

/// Snapshots of servers that a test changes between them.
struct World {
    start: Instant,
    seconds: u64,
    setup: Arc<Setup>,
    servers: Vec<Server>,
    files: Vec<FileRow>,
    failures: Vec<FileRow>,
    neighbours: Vec<NeighbourRow>,
    in_flight: Vec<InFlight>,
    unsynced: Vec<UnsyncedFile>,
    unsynced_dropped: u64,
    lost: Lost,
    book: Book,
    /// The samples of the scrape before.
    before: BTreeMap<String, f64>,
}

impl World {
    fn new(options: Options) -> World {
        World {
            start: Instant::now(),
            seconds: 0,
            setup: quiet().setup,
            servers: Vec::new(),
            files: Vec::new(),
            failures: Vec::new(),
            neighbours: Vec::new(),
            in_flight: Vec::new(),
            unsynced: Vec::new(),
            unsynced_dropped: 0,
            lost: Lost::default(),
            book: Book::new(options),
            before: BTreeMap::new(),
        }
    }

    fn with_mysql() -> World {
        let mut world = World::new(Options::default());
        world.servers.push(server(MYSQL, "mysqld", "MySQL 9.7.4", 3306));
        world
    }

    /// A second passes; a snapshot is taken and scraped. No counter may have gone down.
    fn tick(&mut self) -> BTreeMap<String, f64> {
        self.seconds += 1;
        let mut files = self.files.clone();
        files.sort_by_key(|row| (row.server, row.target, row.op));
        let (files, writes) = files.into_iter().partition(|row| row.op.makes_durable());
        let snapshot = Snapshot {
            taken: self.start + Duration::from_secs(self.seconds),
            taken_wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.seconds),
            monotonic: Duration::from_secs(self.seconds),
            number: self.seconds,
            setup: self.setup.clone(),
            lost: self.lost,
            servers: self.servers.iter().cloned().map(Arc::new).collect(),
            files,
            failures: self.failures.clone(),
            writes,
            threads: Vec::new(),
            in_flight: self.in_flight.clone(),
            neighbours: self.neighbours.clone(),
            refused: Vec::new(),
            unwatched: Vec::new(),
            disks: BTreeMap::new(),
            io: Vec::new(),
            whole_disks: Default::default(),
            unsynced: Unsynced {
                rows: self.unsynced.clone(),
                dropped: self.unsynced_dropped,
                ..Unsynced::default()
            },
            waits: Default::default(),
            wait_losses: Default::default(),
        };
        let snapshot = Arc::new(snapshot);
        let mut published = match self.book.last() {
            Some(last) => Published::after(last.clone(), snapshot),
            None => Published::first(snapshot),
        };
        self.book.feed(&mut published);
        let samples = samples(&self.text());
        for (series, value) in &self.before {
            if is_counter(series) {
                let now = samples.get(series).unwrap_or_else(|| panic!("{series} has gone"));
                assert!(now >= value, "{series} went from {value} to {now}");
            }
        }
        self.before.clone_from(&samples);
        samples
    }

    fn text(&self) -> String {
        self.written(Form::Text)
    }

    fn written(&self, form: Form) -> String {
        String::from_utf8(self.bytes(form)).unwrap()
    }

    fn bytes(&self, form: Form) -> Vec<u8> {
        forms::write(form, &expose::families(&self.book, &own()), &self.book.options().buckets).unwrap()
    }

    /// More syncs of a file: (how many, each so many ns).
    fn sync(&mut self, at: usize, latencies: &[(u64, u64)]) {
        self.files[at].stats.merge(&stats(latencies));
    }

    /// The ledger folds a row into its role's.
    fn fold(&mut self, at: usize) {
        let row = self.files.remove(at);
        let target = Target::Gone(row.info.role);
        let heir =
            |other: &&mut FileRow| (other.server, other.target, other.op) == (row.server, target, row.op);
        match self.files.iter_mut().find(heir) {
            Some(heir) => heir.stats.merge(&row.stats),
            None => {
                let info = FileInfo { path: None, open: false, unlinked: true, ..(*row.info).clone() };
                self.files.push(FileRow { target, info: Arc::new(info), ..row });
            }
        }
    }

    fn learn_role(&mut self, at: usize, role: Role) {
        Arc::make_mut(&mut self.files[at].info).role = role;
    }
}

fn own() -> Own {
    Own {
        is_tracing: true,
        is_paused: false,
        interval: Duration::from_secs(1),
        self_test: Some(SystemTime::UNIX_EPOCH),
        process: ProcessFacts::read(),
        web_process: ProcessFacts::read(),
        recording: Some(Facts { last_ns: Some(1_700_000_000_000_000_000), ..Facts::default() }),
        recorder: ProcessFacts::read(),
        verdicts: Some(Arc::new(told())),
        ..Own::default()
    }
}

/// Never too old.
fn told() -> Told {
    let server = OfServer {
        name: "3306".into(),
        pid: MYSQL.pid,
        whose: Owner::System(999),
        uid: Some(999),
        unit: None,
        state: State::Slow,
        since: SystemTime::UNIX_EPOCH,
        began: Duration::MAX,
        sentence: String::new(),
        because: None,
        storage: None,
        is_running: true,
    };
    Told {
        host: "db1".into(),
        made: Duration::MAX,
        made_wall: SystemTime::UNIX_EPOCH,
        valid_for: Duration::from_secs(5),
        not_tracing: None,
        not_recording: None,
        servers: vec![server],
        gone: Vec::new(),
    }
}

#[test]
fn a_pause_counts_while_it_lasts() {
    let mut world = World::with_mysql();
    world.start -= Duration::from_secs(60);
    world.tick();
    let paused = |is_paused| {
        let own = Own { is_paused, ..own() };
        let families = expose::families(&world.book, &own);
        let text = forms::write(Form::Text, &families, &world.book.options().buckets).unwrap();
        samples(std::str::from_utf8(&text).unwrap())["fsynctop_paused_seconds_total"]
    };
    assert_eq!(paused(false), 0.0);
    let first = paused(true);
    assert!(first >= 58.0, "since the last snapshot: {first}");
    assert!(paused(true) > first);
}

#[test]
fn each_state_has_its_sample_and_the_present_one_is_1() {
    let book = Book::new(Options::default());
    let families = expose::families(&book, &own());
    let text = forms::write(Form::Text, &families, &book.options().buckets).unwrap();
    let samples = samples(std::str::from_utf8(&text).unwrap());
    let of = |state: &str| samples[&format!("fsynctop_verdict{{server=\"3306\",state=\"{state}\"}}")];
    assert_eq!(State::ALL.map(|state| of(state.name())), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(samples["fsynctop_verdict_since_timestamp_seconds{server=\"3306\"}"], 0.0);
}

fn is_counter(series: &str) -> bool {
    let name = series.split('{').next().unwrap();
    (name.ends_with("_total") && !name.starts_with("process_"))
        || ["_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
}

fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let earlier = samples.insert(series.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
        assert_eq!(earlier, None, "{series} is there twice");
    }
    samples
}

/// The sum of a family's samples that have all of these labels.
fn sum(samples: &BTreeMap<String, f64>, family: &str, labels: &[&str]) -> f64 {
    let is_one = |series: &str| {
        series.split('{').next() == Some(family) && labels.iter().all(|label| series.contains(label))
    };
    samples.iter().filter(|(series, _)| is_one(series)).map(|(_, value)| value).sum()
}

fn syncs(samples: &BTreeMap<String, f64>, labels: &[&str]) -> f64 {
    let count = sum(samples, "fsynctop_sync_duration_seconds_count", labels);
    let infinite: Vec<&str> = labels.iter().copied().chain(["le=\"+Inf\""]).collect();
    assert_eq!(count, sum(samples, "fsynctop_sync_duration_seconds_bucket", &infinite));
    count
}

fn redo(server: ServerId, inode: u64, latencies: &[(u64, u64)]) -> FileRow {
    row(server, inode, "/var/lib/mysql/#innodb_redo/#ib_redo7", Role::Redo, Op::Fdatasync, stats(latencies))
}

fn table(server: ServerId, inode: u64, latencies: &[(u64, u64)]) -> FileRow {
    let path = format!("/var/lib/mysql/shop/t{inode}.ibd");
    row(server, inode, &path, Role::Tablespace, Op::Fsync, stats(latencies))
}

#[test]
fn what_was_counted_before_the_first_snapshot_is_there_and_so_are_the_zeros() {
    let mut world = World::with_mysql();
    world.files.push(redo(MYSQL, 1, &[(5, 80_000), (1, 20_000_000)]));
    let all = world.tick();
    assert_eq!(syncs(&all, &["server=\"3306\"", "role=\"redo\"", "op=\"fdatasync\""]), 6.0);
    assert_eq!(sum(&all, "fsynctop_sync_duration_seconds_sum", &["role=\"redo\""]), 0.0204);
    let bucket = |le: &str| {
        sum(
            &all,
            "fsynctop_sync_duration_seconds_bucket",
            &["role=\"redo\"", "op=\"fdatasync\"", &format!("le=\"{le}\"")],
        )
    };
    assert_eq!((bucket("0.000024576"), bucket("0.000098304"), bucket("+Inf")), (0.0, 5.0, 6.0));
    // Nothing has synced its binary log, and nothing has failed: that is to be seen.
    for series in [
        "fsynctop_sync_duration_seconds_count{server=\"3306\",role=\"binlog\",op=\"fdatasync\",via=\"call\"}",
        "fsynctop_sync_errors_total{server=\"3306\",role=\"redo\",errno=\"EIO\"}",
        "fsynctop_sync_errors_total{server=\"3306\",role=\"tablespace\",errno=\"EROFS\"}",
        "fsynctop_sync_errors_total{server=\"3306\",role=\"binlog\",errno=\"ENOSPC\"}",
        "fsynctop_syncs_in_flight{server=\"3306\",role=\"binlog\"}",
        "fsynctop_lost_total{kind=\"preempted\"}",
    ] {
        assert_eq!(all.get(series), Some(&0.0), "{series}");
    }
}

#[test]
fn files_that_are_dropped_and_folded_are_neither_lost_nor_counted_again() {
    let mut world = World::with_mysql();
    for n in 0..10 {
        world.files.push(table(MYSQL, n, &[(n + 1, 100_000)]));
    }
    let all = world.tick();
    assert_eq!(syncs(&all, &["role=\"tablespace\""]), 55.0);
    // One more sync each, and some are folded in the same second.
    for at in 0..10 {
        world.sync(at, &[(1, 200_000)]);
    }
    for _ in 0..6 {
        world.fold(2);
    }
    let all = world.tick();
    assert_eq!(syncs(&all, &["role=\"tablespace\""]), 65.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &[]), 65.0);
    // A file that was folded comes back with more than it had, another one with less.
    world.fold(1);
    world.files.push(table(MYSQL, 1, &[(9, 300_000)]));
    world.fold(0);
    world.files.push(table(MYSQL, 0, &[(1, 300_000)]));
    let all = world.tick();
    assert_eq!(syncs(&all, &["role=\"tablespace\""]), 75.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &[]), 75.0);
    let time = sum(&all, "fsynctop_sync_duration_seconds_sum", &[]);
    assert!((time - (55.0 * 100e-6 + 10.0 * 200e-6 + 10.0 * 300e-6)).abs() < 1e-12, "{time}");
    assert!((sum(&all, "fsynctop_file_sync_seconds_total", &[]) - time).abs() < 1e-12);
}

#[test]
fn a_role_that_is_found_out_late_takes_nothing_away() {
    let mut world = World::with_mysql();
    world.files.push(redo(MYSQL, 1, &[(5, 80_000)]));
    world.learn_role(0, Role::Other);
    Arc::make_mut(&mut world.files[0].info).path = None;
    assert_eq!(syncs(&world.tick(), &["role=\"other\""]), 5.0);
    world.learn_role(0, Role::Redo);
    Arc::make_mut(&mut world.files[0].info).path = Some("/d/ib_logfile0".into());
    world.sync(0, &[(3, 80_000)]);
    let all = world.tick();
    assert_eq!((syncs(&all, &["role=\"other\""]), syncs(&all, &["role=\"redo\""])), (5.0, 3.0));
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["path=\"other\""]), 5.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["path=\"/d/ib_logfile*\""]), 3.0);
    // Folded under its new role, with all that it ever did.
    world.fold(0);
    let all = world.tick();
    assert_eq!((syncs(&all, &["role=\"other\""]), syncs(&all, &["role=\"redo\""])), (5.0, 3.0));
}

#[test]
fn latencies_that_cold_files_share_are_counted_once() {
    let mut world = World::with_mysql();
    let cold = |count, sum_ns| Stats { count, sum_ns, ..Stats::default() };
    world.files.push(FileRow { stats: cold(4, 400_000), ..table(MYSQL, 1, &[]) });
    let shared = Stats { count: 0, sum_ns: 0, max: Max::default(), ..stats(&[(4, 100_000)]) };
    world.files.push(FileRow {
        target: Target::Shared(Role::Tablespace),
        stats: shared,
        ..table(MYSQL, 2, &[])
    });
    let all = world.tick();
    assert_eq!(syncs(&all, &["role=\"tablespace\""]), 4.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["role=\"tablespace\""]), 4.0);
    assert_eq!(sum(&all, "fsynctop_sync_duration_seconds_sum", &["role=\"tablespace\""]), 0.0004);
}

#[test]
fn a_server_waits_for_its_name_and_its_syncs_wait_with_it() {
    let mut world = World::new(Options::default());
    world.servers.push(Server::new(MYSQL, "mysqld".into()));
    world.files.push(redo(MYSQL, 1, &[(5, 80_000)]));
    let all = world.tick();
    assert_eq!(syncs(&all, &[]), 0.0);
    world.sync(0, &[(2, 80_000)]);
    world.servers[0] = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
    let all = world.tick();
    assert_eq!(syncs(&all, &["server=\"3306\""]), 7.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["server=\"3306\""]), 7.0);
}

#[test]
fn a_server_that_cannot_be_described_is_shown_all_the_same_and_named_when_it_can() {
    let mut world = World::new(Options::default());
    world.servers.push(Server::new(MYSQL, "mysqld".into()));
    world.files.push(redo(MYSQL, 1, &[(5, 80_000)]));
    world.in_flight.push(in_flight(Role::Redo, "/d/ib_logfile0", Duration::from_secs(70)));
    let all = (0..7).map(|_| world.tick()).last().unwrap();
    assert_eq!(syncs(&all, &["server=\"mysqld\""]), 5.0);
    assert_eq!(all["fsynctop_sync_oldest_in_flight_seconds{server=\"mysqld\",role=\"redo\"}"], 70.0);
    assert_eq!(all["fsynctop_server_up{server=\"mysqld\"}"], 1.0);
    world.servers[0] = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
    world.sync(0, &[(2, 80_000)]);
    world.tick();
    world.sync(0, &[(1, 80_000)]);
    let all = world.tick();
    assert_eq!(syncs(&all, &[]), 8.0);
    assert!(syncs(&all, &["server=\"3306\""]) >= 1.0);
    assert_eq!(all["fsynctop_sync_oldest_in_flight_seconds{server=\"3306\",role=\"redo\"}"], 70.0);
    assert_eq!(all["fsynctop_sync_oldest_in_flight_seconds{server=\"mysqld\",role=\"redo\"}"], 0.0);
    // It was never down, only unknown.
    assert!(!all.contains_key("fsynctop_server_up{server=\"mysqld\"}"));
}

#[test]
fn a_path_that_is_found_out_with_the_server_is_the_only_one() {
    let mut world = World::new(Options::default());
    world.servers.push(Server::new(MYSQL, "mysqld".into()));
    world.files.push(redo(MYSQL, 1, &[(5, 80_000)]));
    let known = world.files[0].info.clone();
    // Relative to the mount, as the kernel told it.
    Arc::make_mut(&mut world.files[0].info).path = Some("/ib_logfile0".into());
    assert_eq!(sum(&world.tick(), "fsynctop_file_syncs_total", &[]), 0.0, "they wait");
    world.servers[0] = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
    world.files[0].info = known.clone();
    let all = world.tick();
    let path = super::rotation::shown(Role::Redo, known.path.as_deref().unwrap()).display().to_string();
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &[&format!("path=\"{path}\"")]), 5.0, "{all:#?}");
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &[]), 5.0);
}

#[test]
fn the_scrape_is_as_small_at_the_end_as_at_the_start() {
    let mut world = World::with_mysql();
    let mut sizes = Vec::new();
    for round in 0..40u64 {
        for n in 0..250 {
            world.files.push(table(MYSQL, 1_000_000 + round * 250 + n, &[(1, 100_000)]));
        }
        for n in 0..25 {
            let number = round * 25 + n;
            world.files.push(row(
                MYSQL,
                number,
                &format!("/var/lib/mysql/binlog.{number:06}"),
                Role::Binlog,
                Op::Fdatasync,
                stats(&[(1, 50_000)]),
            ));
        }
        sizes.push(world.tick().len());
        // Dropped and purged: idle rows are folded after a while.
        while world.files.len() > 400 {
            world.fold(0);
        }
    }
    let all = world.tick();
    assert_eq!(syncs(&all, &["role=\"tablespace\""]), 10_000.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["role=\"tablespace\""]), 10_000.0);
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["path=\"/var/lib/mysql/binlog.*\""]), 1_000.0);
    // Of the first 250 tables, all that have a series of their own are there; then nothing is added.
    assert_eq!(sizes[1], *sizes.last().unwrap(), "{sizes:?}");
    assert!(sizes[0] < 1_000 && sizes[1] <= sizes[0] + 4, "{sizes:?}");
}

#[test]
fn without_file_metrics_there_are_none() {
    let mut world = World::new(Options { paths: None, ..Options::default() });
    world.servers.push(server(MYSQL, "mysqld", "MySQL 9.7.4", 3306));
    world.files.push(table(MYSQL, 1, &[(1, 100_000)]));
    let all = world.tick();
    assert_eq!(syncs(&all, &["role=\"tablespace\""]), 1.0);
    assert!(!all.keys().any(|series| series.starts_with("fsynctop_file_sync")), "{all:#?}");
}

#[test]
fn what_turns_out_not_to_be_lost_takes_no_counter_down() {
    let mut world = World::with_mysql();
    world.lost = Lost { preempted: 7, names: 3, ..Lost::default() };
    world.tick();
    world.lost = Lost { preempted: 5, names: 0, unwatched: 4, ..Lost::default() };
    let all = world.tick();
    assert_eq!(all["fsynctop_lost_total{kind=\"unwatched\"}"], 4.0);
    assert_eq!(all["fsynctop_lost_total{kind=\"preempted\"}"], 7.0);
    assert_eq!(all["fsynctop_files_without_name"], 0.0);
    world.lost.preempted = 8;
    assert_eq!(world.tick()["fsynctop_lost_total{kind=\"preempted\"}"], 8.0);
}

#[test]
fn syncs_of_nobody_in_particular_are_counted_too() {
    let mut world = World::with_mysql();
    let nobody = ServerId { pid: 0, start_ns: 0 };
    world.files.push(FileRow { target: Target::Unattributed, ..table(nobody, 1, &[(3, 100_000)]) });
    let all = world.tick();
    assert_eq!(syncs(&all, &["server=\"unknown\""]), 3.0);
    assert!(!all.contains_key("fsynctop_server_up{server=\"unknown\"}"));
}

fn failure(server: ServerId, op: Op, errno: i32, n: u64) -> FileRow {
    let stats = Stats { count: n, errors: [(errno, n)].into(), ..Stats::default() };
    if server == ServerId::NONE {
        let (target, info) = (Target::Filesystem(7 << 20), Arc::new(FileInfo::nameless(Role::Other)));
        return FileRow { server, target, op, info, stats };
    }
    FileRow { op, stats, ..redo(server, 1, &[]) }
}

/// A world in which every family has something to say, names as an attacker would choose them included.
/// Of the redo log; of no server, a device's.
fn hostile_world() -> World {
    let mut world = World::with_mysql();
    world.servers[0].socket = Some("/run/\"my\nsql\\\x1b[2J.sock".into());
    world.servers[0].container = Some("docker 0123456789ab".into());
    world.servers[0].mount = Some("/mnt/\"\x1b\n".into());
    let mut failed = redo(MYSQL, 1, &[(5, 80_000)]);
    failed.stats.errors.insert(libc::EIO, 2);
    failed.stats.errors.insert(0, 1);
    failed.stats.errors.insert(4_000, 1);
    world.files.push(failed);
    world.files.push(row(
        MYSQL,
        2,
        "/d/\"} 1\n# TYPE evil\\\u{202e}.ibd",
        Role::Tablespace,
        Op::Fsync,
        stats(&[(1, 1_000)]),
    ));
    let bytes = std::os::unix::ffi::OsStringExt::from_vec(b"/d/\xff\xfe.ibd".to_vec());
    let mut odd = table(MYSQL, 3, &[(1, 1_000)]);
    Arc::make_mut(&mut odd.info).path = Some(std::ffi::OsString::into(bytes));
    world.files.push(odd);
    let mut written = FileRow { op: Op::DsyncWrite, ..redo(MYSQL, 4, &[(1, 1_000)]) };
    written.stats.bytes = 512;
    world.files.push(written);
    world.files.push(FileRow { op: Op::Write, ..redo(MYSQL, 4, &[(1, 1_000)]) });
    Arc::make_mut(&mut world.setup).ops.extend([Op::DsyncWrite, Op::Write]);
    world.failures.push(failure(MYSQL, Op::Write, libc::ENOSPC, 3));
    world.neighbours.push(neighbour("/dev/vda", "a\"}\n\\", &[(1, 1_000)]));
    world.in_flight.push(in_flight(Role::Redo, "/d/a", Duration::from_millis(1_500)));
    world
}

#[test]
fn hostile_names_are_escaped_and_promtool_has_no_complaint() {
    let mut world = hostile_world();
    let all = world.tick();
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["path=\"/d/\\\\xff\\\\xfe.ibd\""]), 1.0);
    assert_eq!(sum(&all, "fsynctop_sync_errors_total", &["errno=\"EIO\"", "role=\"redo\""]), 2.0);
    assert_eq!(sum(&all, "fsynctop_sync_errors_total", &["errno=\"other\""]), 2.0);
    let text = world.text();
    assert!(text.lines().all(|line| !line.contains(char::is_control)), "{text}");
    assert!(!text.contains('\u{202e}'));
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("promtool, which tools/dependencies installs");
    std::io::Write::write_all(&mut promtool.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}\n{text}"
    );
}

#[test]
fn what_is_exported_is_what_the_table_says() {
    let mut world = hostile_world();
    world.tick();
    let text = world.text();
    for family in families::ALL {
        let kind = format!("# TYPE {} {}\n", family.name, family.kind.name());
        assert!(text.contains(&kind), "{kind}{text}");
        assert!(text.contains(&format!("# HELP {} {}\n", family.name, family.help)), "{}", family.name);
        let end = if family.kind == Kind::Histogram { "_sum" } else { "" };
        let name = format!("{}{end}", family.name);
        let line = text.lines().find(|line| line.split(['{', ' ']).next() == Some(&name)).unwrap();
        let labels: Vec<&str> = match line.split_once('{') {
            None => Vec::new(),
            Some((_, rest)) => {
                rest.split("=\"").map(|part| part.rsplit([',', '{', '"']).next().unwrap()).collect()
            }
        };
        assert_eq!(
            labels.iter().filter(|label| family.labels.contains(label)).count(),
            family.labels.len(),
            "{line}"
        );
    }
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(text.contains(&format!("\nfsynctop_exporter_samples {samples}\n")), "{samples}");
    let types = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert_eq!(types, families::ALL.len());
}

#[test]
fn the_page_of_the_metrics_is_made_of_the_table() {
    assert_expected("docs/metrics.md", &super::page::page());
}
