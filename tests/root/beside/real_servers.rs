//! Needs root, and real servers: MariaDB as installed, and a MySQL in a root tree of its own.
//! What is found out about them from outside, without a connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::common::exact::on_each;
use crate::common::server::{Home, Kind};
use crate::common::throwaway::Throwaway;
use crate::common::{id_of, needs};
use fsynctop::engine::rules::Rules;
use fsynctop::files::classify::Candidate;
use fsynctop::files::resolve;
use fsynctop::linux::open_files;
use fsynctop::model::{Role, Server};
use fsynctop::server::what::describe::describe;
use fsynctop::server::what::settings::Settings;
use fsynctop::server::who::processes;

const PROC: &str = "/proc";
const DSYNC_NOTE: &str = "The redo log is written through O_DSYNC descriptors";

fn describe_running(running: &Throwaway) -> (Server, Settings) {
    let group = processes::find(Path::new(PROC), running.pid()).unwrap();
    describe(Path::new(PROC), group.id(), &Rules::builtin())
}

/// Every regular file that the server has open below `datadir` or in `/logs…`: path inside its root → role.
fn open_files(pid: u32, settings: &Settings) -> BTreeMap<PathBuf, Role> {
    let mut files = BTreeMap::new();
    for fd in open_files::descriptors(Path::new(PROC), pid) {
        let link = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        if !std::fs::metadata(&link).is_ok_and(|file| file.is_file()) {
            continue;
        }
        let id = id_of(&link);
        let Some(resolved) = resolve::resolve(Path::new(PROC), pid, fd, id) else {
            continue; // a memfd or a file of a mount that nobody lists
        };
        let first_bytes = || resolve::first_bytes(Path::new(PROC), pid, &resolved.path, id);
        let is_directory = resolved.is_directory == Some(true);
        let rules = Rules::builtin();
        let process = processes::find(Path::new(PROC), pid);
        let engine = process.and_then(|process| rules.engines().by_command(&process.comm));
        let (path, engine) = (&*resolved.path, engine.as_deref());
        let role =
            rules.classify(&Candidate { path, is_directory, engine, settings, first_bytes: &first_bytes });
        files.insert(resolved.path.clone(), role);
    }
    files
}

/// MariaDB with an option file and its binary log behind a symlink.
fn mariadbd(home: &Home, options: &str) -> Throwaway {
    let dir = home.path();
    std::fs::create_dir_all(dir.join("real-logs")).unwrap();
    std::os::unix::fs::symlink(dir.join("real-logs"), dir.join("logs")).unwrap();
    std::fs::create_dir_all(dir.join("conf.d")).unwrap();
    std::fs::write(dir.join("conf.d/logs.cnf"), format!("[mariadbd]\nlog-bin={}/logs/foo\n", dir.display()))
        .unwrap();
    let options = format!(
        "[mysqld]\nuser=root\ndatadir={0}/data\nsocket={0}/db.sock\npid-file={0}/pid\n{options}\n!includedir {0}/conf.d\n",
        dir.display()
    );
    std::fs::write(dir.join("my.cnf"), options).unwrap();
    home.spawn(&[], &[format!("--defaults-file={}", dir.join("my.cnf").display())])
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn mariadb_is_described_from_outside_and_its_files_have_their_roles() {
    needs(&[]);
    let home = Home::new(Kind::MariaDb);
    let dir = home.path();
    // A port that was free a moment ago, on the loopback only.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let running =
        mariadbd(&home, &format!("port={port}\nbind-address=127.0.0.1\ninnodb_flush_method=O_DSYNC"));
    let began = Instant::now();
    let (server, settings) = describe_running(&running);
    eprintln!("described in {:?}: {server:#?}", began.elapsed());
    assert_eq!(server.version, Some(format!("MariaDB {}", home.version())));
    assert_eq!(server.comm, home.comm);
    assert_eq!(server.datadir.unwrap(), dir.join("data"));
    assert_eq!(server.socket.unwrap(), dir.join("db.sock"));
    assert_eq!(server.ports, [port]);
    assert!(server.device.is_some() && server.filesystem.is_some());
    assert!(server.notes.iter().any(|note| note.starts_with(DSYNC_NOTE)), "{:?}", server.notes);
    assert_eq!(settings.text("innodb_flush_method"), Some("O_DSYNC"));

    let files = open_files(running.pid(), &settings);
    let role = |path: &str| files.get(&dir.join(path)).copied();
    assert_eq!(role("data/ib_logfile0"), Some(Role::Redo), "{files:#?}");
    assert_eq!(role("data/ibdata1"), Some(Role::SystemTablespace));
    assert_eq!(role("data/ibtmp1"), Some(Role::Temporary));
    assert_eq!(role("data/aria_log_control"), Some(Role::EngineLog));
    assert_eq!(role("data/aria_log.00000001"), Some(Role::EngineLog));
    // log_bin names it through a symlink; the kernel does not.
    assert_eq!(role("real-logs/foo.000001"), Some(Role::Binlog));
    assert_eq!(role("real-logs/foo.index"), Some(Role::BinlogIndex));
    for (path, role) in &files {
        assert!(*role != Role::Other || path.ends_with("error.log"), "{path:?} has no role");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_redo_log_without_durable_descriptors_is_not_noted() {
    needs(&[]);
    let home = Home::new(Kind::MariaDb);
    let running = mariadbd(&home, "skip-networking\nsync_binlog=1");
    let (server, settings) = describe_running(&running);
    assert_eq!((server.notes, server.ports), (vec![], vec![]));
    assert_eq!(settings.number("sync_binlog"), Some(1));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn mysql_in_a_chroot_is_described_and_its_files_have_their_roles() {
    needs(&[]);
    let home = Home::new(Kind::MySql);
    let inside = home.inside();
    let persisted = r#"{"Version":2,"mysql_dynamic_variables":{"sync_binlog":{"Value":"77",
        "Metadata":{"Timestamp":1,"User":"root","Host":"localhost"}}}}"#;
    std::fs::write(home.path().join("data/mysqld-auto.cnf"), persisted).unwrap();
    let options = [
        "--no-defaults".to_owned(),
        "--user=root".into(),
        "--basedir=/usr".into(),
        "--mysqlx=OFF".into(),
        "--skip-networking".into(),
        "--secure-file-priv=NULL".into(),
        "--server-id=1".into(),
        "--log-bin=../binary.x".into(),
        format!("--datadir={}/data", inside.display()),
        format!("--socket={}/db.sock", inside.display()),
        format!("--pid-file={}/pid", inside.display()),
    ];
    let running = home.spawn(&[], &options);

    let began = Instant::now();
    let (server, settings) = describe_running(&running);
    eprintln!("described in {:?}: {server:#?}", began.elapsed());
    assert_eq!(server.version, Some(format!("MySQL {}", home.version())));
    assert_eq!((&server.comm, server.ports), (&home.comm, vec![]));
    assert_eq!(server.datadir.unwrap(), inside.join("data"));
    assert_eq!(server.socket.unwrap(), inside.join("db.sock"));
    assert!(server.device.is_some() && server.filesystem.is_some());
    assert_eq!(server.notes, Vec::<String>::new());
    assert_eq!(settings.number("sync_binlog"), Some(77));

    let files = open_files(running.pid(), &settings);
    let role = |path: &str| files.get(&inside.join("data").join(path)).copied();
    assert_eq!(role("ibdata1"), Some(Role::SystemTablespace), "{files:#?}");
    assert_eq!(role("mysql.ibd"), Some(Role::Dictionary));
    assert_eq!(role("undo_001"), Some(Role::Undo));
    assert_eq!(role("ibtmp1"), Some(Role::Temporary));
    assert!(files.values().any(|role| *role == Role::Redo));
    assert!(files.values().any(|role| *role == Role::Doublewrite));
    assert_eq!(files.get(&inside.join("binary.000001")), Some(&Role::Binlog));
    for (path, role) in &files {
        assert!(*role != Role::Other || path.ends_with("error.log"), "{path:?} has no role");
    }
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn each_server_is_described_and_its_files_have_their_roles() {
    on_each(|kind| {
        let home = Home::new(kind);
        let inside = home.inside();
        let database = home.start(&[], &["--log-bin=../binary.x", "--innodb-flush-method=O_DSYNC"]);
        // Newer ones close it again.
        database.execute(&["CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB"]);

        let group = processes::find(Path::new(PROC), database.pid).unwrap();
        let (server, settings) = describe(Path::new(PROC), group.id(), &Rules::builtin());
        assert_eq!(server.version, Some(format!("{} {}", kind.product(), home.version())));
        assert_eq!((&server.comm, server.ports), (&home.comm, vec![]));
        assert_eq!(server.datadir.unwrap(), inside.join("data"));
        assert_eq!(server.socket.unwrap(), inside.join("db.sock"));
        assert!(server.device.is_some() && server.filesystem.is_some());
        assert!(server.notes.iter().any(|note| note.starts_with(DSYNC_NOTE)), "{:?}", server.notes);

        let files = open_files(database.pid, &settings);
        let data = inside.join("data");
        let own = match kind {
            Kind::MariaDb => &[("ib_logfile0", Role::Redo), ("aria_log_control", Role::EngineLog)][..],
            Kind::MySql => &[("undo_001", Role::Undo), ("mysql.ibd", Role::Dictionary)],
            Kind::MySql56 => &[
                ("ib_logfile0", Role::Redo),
                ("ib_logfile1", Role::Redo),
                ("mysql/user.MYD", Role::EngineData),
                ("shop/t.ibd", Role::Tablespace),
            ],
        };
        for (path, role) in [("ibdata1", Role::SystemTablespace)].iter().chain(own) {
            assert_eq!(files.get(&data.join(path)), Some(role), "{path}: {files:#?}");
        }
        assert_eq!(files.get(&inside.join("binary.000001")), Some(&Role::Binlog), "{files:#?}");
        for (path, role) in &files {
            assert!(*role != Role::Other || path.ends_with("error.log"), "{path:?} has no role");
        }
    });
}
