//! Measurements for the tests of rendering: realistic figures of servers, and names that an attacker would
//! choose. Also comparison with expected texts in files.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::model::histogram::{Histogram, bucket_of};
use crate::model::*;

pub(crate) const MYSQL: ServerId = ServerId { pid: 31_960, start_ns: 8_123_450_000_000 };
pub(crate) const MARIADB: ServerId = ServerId { pid: 40_112, start_ns: 9_000_000_000_000 };
pub(crate) const DEVICE: u32 = 253 << 20;

/// Compares a text with a file of the repository; if FSYNCTOP_UPDATE_EXPECTED is set, writes the file
/// instead.
pub(crate) fn assert_expected(file: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("FSYNCTOP_UPDATE_EXPECTED").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{file} differs; if the new text is right, set FSYNCTOP_UPDATE_EXPECTED=1 and look at the diff. Now:\n{actual}"
    );
}

/// Syncs given as (count, nanoseconds each).
pub fn stats(latencies: &[(u64, u64)]) -> Stats {
    let mut histogram = Histogram::default();
    latencies.iter().for_each(|&(n, ns)| histogram.add(bucket_of(ns), n));
    Stats {
        count: latencies.iter().map(|(n, _)| n).sum(),
        sum_ns: latencies.iter().map(|(n, ns)| n * ns).sum(),
        max: Max { ns: latencies.iter().map(|&(_, ns)| ns).max().unwrap_or(0), exact: true },
        histogram,
        ..Stats::default()
    }
}

/// Syncs spread over a plausible distribution with these quantiles, in microseconds.
pub fn spread(count: u64, [min, p50, p99, max]: [f64; 4]) -> Stats {
    let knots = [(0.0, min), (0.5, p50), (0.99, p99), (1.0, max)];
    let at = |q: f64| {
        let (low, high) = knots.windows(2).map(|w| (w[0], w[1])).find(|(_, high)| q <= high.0).unwrap();
        let share = (q - low.0) / (high.0 - low.0);
        ((low.1.ln() * (1.0 - share) + high.1.ln() * share).exp() * 1e3).round() as u64
    };
    let last = count.saturating_sub(1).max(1) as f64;
    stats(&(0..count).map(|n| (1, at(n as f64 / last))).collect::<Vec<_>>())
}

pub fn file(inode: u64) -> Target {
    Target::File(FileId { device: DEVICE, inode, generation: 1_234_567, weak: false, part: false })
}

pub fn row(server: ServerId, inode: u64, path: &str, role: Role, op: Op, stats: Stats) -> FileRow {
    let info = FileInfo {
        path: Some(path.into()),
        role,
        device: Some("/dev/vda".into()),
        below: None,
        mount: Some(Path::new("/").into()),
        filesystem: Some("ext4".into()),
        open: true,
        unlinked: false,
    };
    FileRow { server, target: file(inode), op, info: Arc::new(info), stats }
}

/// One whose syncs were counted and not timed; device "" is any.
pub fn untimed_neighbour(device: &str, comm: &str, untimed: u64) -> NeighbourRow {
    let mut row = neighbour(device, comm, &[]);
    row.stats.untimed = untimed;
    if device.is_empty() {
        row.device_number = 0;
    }
    row
}

pub fn neighbour(device: &str, comm: &str, latencies: &[(u64, u64)]) -> NeighbourRow {
    let device_number = if device == "/dev/vda" { DEVICE } else { 8 << 20 | 16 };
    NeighbourRow {
        device_number,
        device: device.into(),
        mount: None,
        comm: comm.into(),
        stats: stats(latencies),
    }
}

/// As the profiles say, which this room cannot read; a test of theirs compares.
pub fn engine(comm: &str) -> Option<Arc<Engine>> {
    let innodb = |name: &str, title: &str| {
        let is_its = |role: &Role| (*role as usize) <= Role::EngineData as usize;
        Engine {
            name: name.into(),
            title: title.into(),
            commands: Vec::new(),
            main_classes: Vec::new(),
            processes: Processes::Alone,
            datadir: Datadir::Settings,
            serial: vec![Role::Redo, Role::Binlog],
            roles: Role::ALL.into_iter().filter(is_its).collect(),
            words: Words::of_any(Some(Role::Redo)),
            thresholds: Vec::new(),
        }
    };
    let mut engine = match comm {
        "mysqld" => innodb("mysql", "MySQL"),
        "mariadbd" => innodb("mariadb", "MariaDB"),
        "postgres" => {
            let is_its = |role: &Role| (Role::Wal..=Role::Log).contains(role) || *role == Role::Temporary;
            let unsynced = Some("does not sync (fsync=off)".to_owned());
            Engine {
                processes: Processes::ChildrenInDatadir,
                datadir: Datadir::WorkingDirectory,
                serial: vec![Role::Wal],
                roles: Role::ALL.into_iter().filter(is_its).collect(),
                words: Words { unsynced, ..Words::of_any(Some(Role::Redo)) },
                ..innodb("postgres", "PostgreSQL")
            }
        }
        _ => return None,
    };
    let others: &[&str] = match comm {
        "mysqld" => &["mysqld-debug"],
        "mariadbd" => &[".mariadbd-wrapp"],
        _ => &["postmaster", "edb-postgres", ".postgres-wrapp"],
    };
    engine.commands = std::iter::once(comm).chain(others.iter().copied()).map(str::to_owned).collect();
    Some(Arc::new(engine))
}

/// The server of a measurement, as PostgreSQL.
pub fn of_postgres(mut m: Interval) -> Interval {
    let mysql = Arc::make_mut(&mut m.servers[0]);
    let port = mysql.ports[0];
    *mysql = server(mysql.id, "postgres", "PostgreSQL 15.14", port);
    m
}

pub fn server(id: ServerId, comm: &str, version: &str, port: u16) -> Server {
    Server {
        id,
        name: port.to_string().into(),
        comm: comm.into(),
        engine: engine(comm),
        version: Some(version.into()),
        datadir: Some("/var/lib/mysql".into()),
        socket: None,
        ports: vec![port],
        container: None,
        device: Some("/dev/vda".into()),
        mount: None,
        filesystem: Some("ext4".into()),
        storage: vec![StorageStack {
            mount: "/".into(),
            layers: vec!["ext4".into(), "vda".into()],
            durability: Durability::Yes,
            is_for_data: true,
        }],
        seccomp_filters: 0,
        notes: Vec::new(),
        thresholds: Vec::new(),
        doublewrite_apart_since: None,
        alive: true,
        known_by: KnownBy {
            described: true,
            listens: true,
            port: Some(port),
            owner: Some(999),
            whose: Owner::System(999),
            proof: Proof::FULL,
            ..KnownBy::default()
        },
    }
}

/// Run by this user, outside of containers.
pub fn owned(server: Server, uid: u32) -> Server {
    let whose = if uid < 1000 { Owner::System(uid) } else { Owner::User(uid) };
    Server { known_by: KnownBy { owner: Some(uid), whose, ..server.known_by.clone() }, ..server }
}

pub fn thread(server: ServerId, tid: u32, name: &str, count: u64, sum_ns: u64) -> ThreadRow {
    let max = Max { ns: 3_100_000, exact: true };
    ThreadRow {
        server,
        tid,
        start: 0,
        name: name.into(),
        op: Op::Fdatasync,
        stats: Stats { count, sum_ns, max, ..Stats::default() },
    }
}

pub fn in_flight(role: Role, path: &str, age: Duration) -> InFlight {
    InFlight {
        server: MYSQL,
        tid: 31_999,
        thread: "ib_log_flush".into(),
        op: Op::Fdatasync,
        role,
        path: Some(path.into()),
        age,
        age_is_minimum: false,
        count: 1,
        waits_for: None,
    }
}

/// A host where these operations are watched.
pub fn setup(ops: &[Op]) -> Arc<Setup> {
    Arc::new(Setup {
        mode: AttachMode::Fentry,
        not_chosen: Vec::new(),
        kernel: "6.12.0-1-amd64".into(),
        host: "db1".into(),
        ops: ops.to_vec(),
        of_anybody: false,
        by_thread: true,
        net: Net {
            filesystems: vec!["ext4".into(), "xfs".into()],
            syncs_of_all: true,
            refused: None,
            writeback: true,
            writeback_refused: None,
        },
        note: None,
    })
}

/// An interval in which nothing happened and nothing was lost.
pub fn quiet() -> Interval {
    let start = SystemTime::UNIX_EPOCH + Duration::from_millis(1_779_962_581_250);
    let duration = Duration::from_millis(1_368);
    let span = Span { start, end: start + duration, duration, monotonic: duration, sequence: 1, parts: 1 };
    Interval {
        span,
        servers: vec![Arc::new(server(MYSQL, "mysqld", "MySQL 9.7.4", 3306))].into(),
        ..Interval::empty(setup(&[Op::Fsync, Op::Fdatasync]))
    }
}

/// The same figures of another time.
pub fn lasting(duration: Duration, mut m: Interval) -> Interval {
    m.span.duration = duration;
    m
}

/// A MySQL server with 16 connections of 1,000 autocommit inserts each.
pub fn busy() -> Interval {
    let (redo, binlog) = ([87.0, 200.0, 675.0, 1_700.0], [110.0, 253.0, 698.0, 3_100.0]);
    let of = |inode, path: &str, role, op, stats| {
        row(MYSQL, inode, &format!("/var/lib/mysql/{path}"), role, op, stats)
    };
    let files = vec![
        of(41, "#innodb_redo/#ib_redo5", Role::Redo, Op::Fdatasync, spread(2_100, redo)),
        of(42, "#innodb_redo/#ib_redo6", Role::Redo, Op::Fdatasync, spread(1_137, redo)),
        of(50, "binlog.000003", Role::Binlog, Op::Fdatasync, spread(2_980, binlog)),
        of(
            60,
            "#ib_16384_0.dblwr",
            Role::Doublewrite,
            Op::Fdatasync,
            spread(14, [120.0, 230.0, 900.0, 1_300.0]),
        ),
        of(
            70,
            "shop/products.ibd",
            Role::Tablespace,
            Op::Fdatasync,
            spread(13, [200.0, 450.0, 900.0, 1_400.0]),
        ),
        of(80, "#innodb_redo", Role::Directory, Op::Fsync, spread(4, [90.0, 150.0, 300.0, 400.0])),
    ];
    let threads = vec![
        thread(MYSQL, 31_999, "ib_log_flush", 1_744, 600_000_000),
        thread(MYSQL, 32_004, "connection", 2_250, 520_000_000),
        thread(MYSQL, 32_005, "connection", 2_250, 519_000_000),
        thread(MYSQL, 31_980, "ib_pg_flush_co", 4, 2_000_000),
    ];
    with_files(quiet(), files, threads)
}

pub(crate) fn with_files(
    m: Interval,
    files: impl Into<Table<FileRow>>,
    threads: impl Into<Table<ThreadRow>>,
) -> Interval {
    let files = files.into();
    Interval { roles: roles_of(&files), files, threads: threads.into(), ..m }
}

/// The MySQL server of [`busy`] and a MariaDB server with its default sync_binlog=0, on one device.
pub(crate) fn two_servers() -> Interval {
    let mut m = busy();
    m.servers.push(Arc::new(server(MARIADB, "mariadbd", "MariaDB 11.8.3", 3307)));
    let path = "/srv/mariadb/ib_logfile0";
    m.files.push(row(MARIADB, 90, path, Role::Redo, Op::Fdatasync, spread(410, [60.0, 87.0, 210.0, 500.0])));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    with_files(m, files, threads)
}

/// Names chosen to break the terminal, the JSON, the CSV or the reader.
pub fn hostile() -> Interval {
    let mut m = busy();
    let raw = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    let mut files = vec![
        row(MYSQL, 1, "", Role::Tablespace, Op::Fsync, stats(&[(120, 250_000)])),
        row(MYSQL, 2, "/d/gpj.\u{202e}dbi.\u{9b}31m", Role::Other, Op::Fsync, stats(&[(1, 900_000)])),
        row(MYSQL, 3, "=HYPERLINK(\"x\"),\\n", Role::Other, Op::Fsync, stats(&[(1, 800_000)])),
        row(MYSQL, 4, "/gone", Role::Redo, Op::Fdatasync, stats(&[(1, 700_000)])),
    ];
    let edit = |row: &mut FileRow, edit: &dyn Fn(&mut FileInfo)| edit(Arc::make_mut(&mut row.info));
    edit(&mut files[0], &|info| info.path = Some(raw(b"/d/a\nb\x1b]0;owned\x07\xff\xc3.ibd")));
    edit(&mut files[1], &|info| info.device = Some("host:/\u{1b}[2J".into()));
    edit(&mut files[3], &|info| (info.open, info.unlinked) = (false, true));
    for (target, stats) in [
        (Target::BadDescriptor, Stats { errors: [(libc::EBADF, 2)].into(), ..stats(&[(2, 300)]) }),
        (Target::Unattributed, stats(&[(3, 200_000)])),
        (Target::Gone(Role::Other), stats(&[(9, 100_000)])),
    ] {
        let mut row = row(MYSQL, 0, "", Role::Other, Op::Fsync, stats);
        row.target = target;
        edit(&mut row, &|info| {
            (info.path, info.device, info.mount, info.filesystem, info.open) = (None, None, None, None, false)
        });
        files.push(row);
    }
    files[0].stats.errors = [(libc::EIO, 1), (libc::ENOSPC, 2)].into();
    m = with_files(
        m,
        files,
        vec![thread(MYSQL, 7, "=cmd|'/C calc'!", 1, 1_000), thread(MYSQL, 8, "\r\u{1b}c", 1, 1_000)],
    );
    let mut evil = server(MYSQL, "my\nsqld\u{1b}[5m", "MySQL 9.7.4", 3306);
    evil.datadir = Some(raw(b"/d\xfe\n"));
    evil.container = Some("web\u{1b}]8;;x\u{7}\u{2066}".into());
    evil.notes = vec!["A note\u{1b}[0m.".into()];
    m.servers = vec![Arc::new(evil)].into();
    let mut stuck = in_flight(Role::Tablespace, "", Duration::from_secs(12));
    stuck.path = Some(raw(b"/d/a\nb\xff"));
    stuck.thread = "x\u{1b}[1m\n".into();
    m.in_flight = vec![stuck];
    m.neighbours = vec![neighbour("/dev/vda", "xtra\n\u{1b}[31m", &[(56, 20_000_000)])].into();
    m
}
