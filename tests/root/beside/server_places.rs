//! Needs root, MariaDB as installed, a MySQL in a root tree of its own, loop devices and cgroup2: servers in
//! a chroot, in namespaces, in control groups and on filesystems of their own are traced as exactly and named
//! as well.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::disk::Mounted;
use crate::common::exact::{assert_exact, measure, of_op, of_server, on_each, until_quiet};
use crate::common::measured::{Measured, number, path_of, text};
use crate::common::server::{Counters, Database, Home, Kind};
use crate::common::tracing::Tracing;
use crate::common::{needs, wait_until};
use fsynctop::linux::mountinfo;

/// Everything that is known of the server is right, and each path leads to the file inside the server's own
/// root.
fn assert_described(measured: &Measured, database: &Database) {
    let [server] = measured.0["servers"].as_array().unwrap().as_slice() else { panic!("one server") };
    assert_eq!(number(server, "pid"), u64::from(database.pid));
    let product = database.kind.product().to_owned();
    assert_eq!((text(server, "server"), text(server, "version")), (product, database.version.clone()));
    assert_eq!(Path::new(&text(server, "datadir")), database.datadir);
    assert_eq!(server["alive"], true);
    assert!(measured.files().len() >= 2, "{}", measured.0["files"]);
    for row in measured.files() {
        let path = path_of(row).unwrap();
        assert!(path.starts_with(&database.datadir), "{row}");
        assert_eq!((&row["device"], &row["filesystem"]), (&server["device"], &server["filesystem"]));
        if row["open"] == true && row["role"] != "redo" {
            let seen = format!("/proc/{}/root{}", database.pid, path.display());
            let file = std::fs::metadata(&seen).unwrap_or_else(|error| panic!("{seen}: {error}"));
            assert_eq!(file.ino(), number(row, "inode"), "{row}");
        }
    }
}

fn assert_traced(database: &mut Database, options: &[&str], connections: u32, rows: u32) -> Measured {
    let (measured, counted) = measure(database, options, |database| database.insert(connections, rows));
    assert_exact(&measured, &counted);
    assert_eq!(of_op(&measured, "binlog", database.kind.log_op()), counted.binlog);
    assert_described(&measured, database);
    measured
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn servers_on_ext4_and_xfs_of_their_own_are_traced_exactly() {
    on_each(|kind| {
        for filesystem in ["ext4", "xfs"] {
            let disk = Mounted::image(filesystem, 1024);
            let mut database = Database::start_on(kind, Some(disk.path()), &[]);
            database.prepare();
            let measured = assert_traced(&mut database, &[], 16, 300);
            let server = &measured.0["servers"][0];
            assert_eq!(server["filesystem"], filesystem);
            let mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
            let mount = mounts.into_iter().find(|mount| mount.mount_point == disk.path()).unwrap();
            assert_eq!(server["device"].as_str(), mount.source.to_str());
            for row in measured.files() {
                assert_eq!(text(row, "device_number"), mountinfo::format_device(mount.device));
            }
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn servers_in_pid_and_mount_namespaces_are_traced_exactly() {
    on_each(|kind| {
        // MySQL is in a chroot besides.
        let home = Home::new(kind);
        let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
        let mut database = home.start(&unshare, &[]);
        let own = std::fs::read_to_string(format!("/proc/{}/status", database.pid)).unwrap();
        let numbers = own.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
        assert_eq!(numbers.split_whitespace().last(), Some("1"), "the first of its own namespace");
        database.prepare();
        let measured = assert_traced(&mut database, &["--by", "thread"], 4, 250);
        for row in measured.threads() {
            let name =
                std::fs::read_to_string(format!("/proc/{}/comm", number(row, "tid"))).unwrap_or_default();
            // Threads of connections have ended.
            assert!(name.is_empty() || name.trim_end() == text(row, "thread"), "{name} {row}");
        }
    });
}

/// Two nested control groups, removed at the end.
struct Groups(PathBuf);

impl Groups {
    fn new() -> Groups {
        let mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
        let mount =
            mounts.into_iter().find(|mount| mount.filesystem == "cgroup2").expect("cgroup2 is mounted");
        let groups = Groups(mount.mount_point.join(format!("fsynctop-servers-{}", std::process::id())));
        std::fs::create_dir_all(groups.below()).unwrap();
        groups
    }

    fn below(&self) -> PathBuf {
        self.0.join("below")
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.below());
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn start_in(home: &Home, group: &Path) -> Database {
    let group = group.to_str().unwrap();
    let wrapper = ["sh", "-c", "echo $$ >\"$0/cgroup.procs\"; exec \"$@\"", group];
    let database = home.start(&wrapper, &[]);
    database.prepare();
    database
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn servers_of_a_control_group_and_of_those_below_it_are_traced_exactly() {
    needs(&[]);
    let groups = Groups::new();
    let path = groups.0.to_str().unwrap().to_owned();
    let homes = [(); 3].map(|()| Home::new(Kind::MariaDb));
    let mut inside = [start_in(&homes[0], &groups.0), start_in(&homes[1], &groups.below())];
    let outside = homes[2].start(&[], &[]);
    outside.prepare();

    let (measured, counted) = until_quiet(|| {
        let before = inside.each_mut().map(Database::quiet_counters);
        let tracing = Tracing::begin(&["--cgroup", &path, "--output", "json"]);
        if inside.each_mut().map(Database::counters) != before {
            return None;
        }
        inside[0].insert(2, 100);
        inside[1].insert(3, 100);
        outside.insert(1, 20);
        let quiet = inside.each_mut().map(Database::quiet_counters);
        let mut measured = tracing.measured();
        let after = inside.each_mut().map(Database::counters);
        let counted: Vec<Counters> =
            after.iter().zip(&before).map(|(after, before)| after.since(before)).collect();
        (after == quiet).then(|| (measured.remove(0), counted))
    });
    assert_eq!(measured.0["servers"].as_array().map(Vec::len), Some(2), "{}", measured.0["servers"]);
    for (database, counted) in inside.iter().zip(&counted) {
        let part = of_server(&measured, database.pid);
        assert_exact(&part, counted);
        assert_eq!(of_op(&part, "binlog", "fdatasync"), counted.binlog);
        assert_described(&part, database);
    }
    let neighbour = |row: &&Value| row["comm"] == outside.comm();
    let syncs: u64 = measured.0["neighbours"]
        .as_array()
        .unwrap()
        .iter()
        .filter(neighbour)
        .map(|n| number(n, "count"))
        .sum();
    assert!(syncs >= 40, "{}", measured.0["neighbours"]);

    // Of the lower group there is one server, and the table is about it alone.
    let tracing = Tracing::begin(&["--cgroup", groups.below().to_str().unwrap()]);
    inside[0].insert(1, 10);
    inside[1].insert(1, 50);
    let table = tracing.end();
    let Database { pid, version, socket, datadir, .. } = &inside[1];
    let header = table.lines().next().unwrap();
    let header = table.lines().take_while(|line| !line.is_empty()).fold(header.to_owned(), |header, line| {
        if header == line { header } else { format!("{header} {}", line.trim_start()) }
    });
    let begin = format!(
        "{} is ok · {} {pid} · MariaDB {version} · socket {} · {} · {} on {} · ",
        socket.display(),
        inside[1].comm(),
        socket.display(),
        datadir.display(),
        text(&measured.0["servers"][0], "filesystem"),
        text(&measured.0["servers"][0], "device"),
    );
    assert!(header.starts_with(&begin), "{begin}: {table}");
    let binlog = table.lines().find(|line| line.starts_with("binlog ")).unwrap();
    assert_eq!(binlog.split_whitespace().nth(2), Some("50"), "{table}");
    assert!(table.contains(crate::common::ALL_WELL), "{table}");

    drop(inside);
    wait_until("the control groups to be empty", || {
        let members = |group: &Path| std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        members(&groups.0).is_empty() && members(&groups.below()).is_empty()
    });
}
