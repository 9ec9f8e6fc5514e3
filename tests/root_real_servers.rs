//! Needs root, and real servers: MariaDB as installed, and a MySQL in a root tree of its own (FSYNCTOP_MYSQL_ROOT).
//! What is found out about them from outside, without a connection.

mod common;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{Running, can_run, id_of, wait_until};
use fsynctop::files::classify::Candidate;
use fsynctop::files::resolve;
use fsynctop::files::rules::Rules;
use fsynctop::files::settings::Settings;
use fsynctop::snapshot::{Role, Server};
use fsynctop::target::describe::describe;
use fsynctop::target::filter::TargetFilter;
use fsynctop::target::processes;

const PROC: &str = "/proc";
const DSYNC_NOTE: &str = "The redo log is written through O_DSYNC descriptors";

fn describe_running(running: &Running) -> (Server, Settings) {
    let servers = processes::list(Path::new(PROC), &TargetFilter::default());
    let group =
        servers.iter().find(|group| group.pid == running.0.id()).expect("the default filter finds it");
    describe(Path::new(PROC), group.id(), &Rules::builtin())
}

/// Every regular file that the server has open below `datadir` or in `/logs…`: path inside its root → role.
fn open_files(pid: u32, settings: &Settings) -> BTreeMap<PathBuf, Role> {
    let mut files = BTreeMap::new();
    for fd in resolve::descriptors(Path::new(PROC), pid) {
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
        let candidate = Candidate { path: &resolved.path, is_directory, settings, first_bytes: &first_bytes };
        let role = Rules::builtin().classify(&candidate);
        files.insert(resolved.path.clone(), role);
    }
    files
}

fn mariadbd(dir: &Path, options: &str) -> Running {
    let data = dir.join("data");
    let installed = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--user=root", "--skip-test-db", "--auth-root-authentication-method=normal"])
        .arg(format!("--datadir={}", data.display()))
        .stdout(Stdio::null())
        .status();
    assert!(installed.unwrap().success());
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
    let server = Command::new("mariadbd")
        .arg(format!("--defaults-file={}", dir.join("my.cnf").display()))
        .stderr(std::fs::File::create(dir.join("err")).unwrap())
        .spawn();
    let running = Running(server.unwrap());
    wait_until("mariadbd to listen", || UnixStream::connect(dir.join("db.sock")).is_ok());
    running
}

#[test]
fn mariadb_is_described_from_outside_and_its_files_have_their_roles() {
    if !can_run(
        "mariadb_is_described_from_outside_and_its_files_have_their_roles",
        &["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db"],
    ) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // A port that was free a moment ago, on the loopback only.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let running =
        mariadbd(dir.path(), &format!("port={port}\nbind-address=127.0.0.1\ninnodb_flush_method=O_DSYNC"));
    let began = Instant::now();
    let (server, settings) = describe_running(&running);
    eprintln!("described in {:?}: {server:#?}", began.elapsed());
    let printed = Command::new("mariadbd").arg("--version").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let number = server.version.as_deref().and_then(|version| version.strip_prefix("MariaDB ")).unwrap();
    assert!(printed.contains(&format!("Ver {number}-MariaDB")), "{number} in {printed}");
    assert_eq!(server.comm, "mariadbd");
    assert_eq!(server.datadir.unwrap(), dir.path().join("data"));
    assert_eq!(server.socket.unwrap(), dir.path().join("db.sock"));
    assert_eq!(server.ports, [port]);
    assert!(server.device.is_some() && server.filesystem.is_some());
    assert!(server.notes.iter().any(|note| note.starts_with(DSYNC_NOTE)), "{:?}", server.notes);
    assert_eq!(settings.innodb_flush_method(), Some("O_DSYNC"));

    let files = open_files(running.0.id(), &settings);
    let role = |path: &str| files.get(&dir.path().join(path)).copied();
    assert_eq!(role("data/ib_logfile0"), Some(Role::Redo), "{files:#?}");
    assert_eq!(role("data/ibdata1"), Some(Role::SystemTablespace));
    assert_eq!(role("data/ibtmp1"), Some(Role::Temporary));
    assert_eq!(role("data/aria_log_control"), Some(Role::EngineLog));
    assert_eq!(role("data/aria_log.00000001"), Some(Role::EngineLog));
    // log_bin names it through a symlink; the kernel does not.
    assert_eq!(role("real-logs/foo.000001"), Some(Role::Binlog));
    assert_eq!(role("real-logs/foo.index"), Some(Role::BinlogIndex));
    for (path, role) in &files {
        assert!(*role != Role::Other || path.ends_with("err"), "{path:?} has no role");
    }
}

#[test]
fn a_redo_log_without_durable_descriptors_is_not_noted() {
    if !can_run(
        "a_redo_log_without_durable_descriptors_is_not_noted",
        &["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db"],
    ) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let running = mariadbd(dir.path(), "skip-networking\nsync_binlog=1");
    let (server, settings) = describe_running(&running);
    assert_eq!((server.notes, server.ports), (vec![], vec![]));
    assert_eq!(settings.sync_binlog(), Some(1));
}

/// A MySQL data directory inside the root tree, removed at the end.
struct ChrootData {
    root: PathBuf,
    name: String,
}

impl Drop for ChrootData {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.root.join("tmp").join(&self.name));
    }
}

#[test]
fn mysql_in_a_chroot_is_described_and_its_files_have_their_roles() {
    let root = std::env::var("FSYNCTOP_MYSQL_ROOT").unwrap_or("/var/cache/fsynctop/mysql".into());
    let mysqld = format!("{root}/usr/sbin/mysqld");
    if !can_run("mysql_in_a_chroot_is_described_and_its_files_have_their_roles", &[&mysqld]) {
        return;
    }
    let data =
        ChrootData { root: root.clone().into(), name: format!("fsynctop-test-{}", std::process::id()) };
    let inside = PathBuf::from("/tmp").join(&data.name);
    std::fs::create_dir(data.root.join("tmp").join(&data.name)).unwrap();
    let command = |log: &str| {
        let mut command = Command::new("chroot");
        command.arg(&root).args(["/usr/sbin/mysqld", "--no-defaults", "--user=root", "--loose-mysqlx=OFF"]);
        command.arg(format!("--datadir={}/data", inside.display()));
        let log = std::fs::File::create(data.root.join("tmp").join(&data.name).join(log)).unwrap();
        command.stderr(log.try_clone().unwrap()).stdout(log);
        command
    };
    assert!(command("init.log").arg("--initialize-insecure").status().unwrap().success());
    let persisted = r#"{"Version":2,"mysql_dynamic_variables":{"max_connections":{"Value":"77",
        "Metadata":{"Timestamp":1,"User":"root","Host":"localhost"}}}}"#;
    std::fs::write(data.root.join("tmp").join(&data.name).join("data/mysqld-auto.cnf"), persisted).unwrap();
    let server = command("run.log")
        .arg(format!("--socket={}/db.sock", inside.display()))
        .arg(format!("--pid-file={}/pid", inside.display()))
        .args(["--skip-networking", "--secure-file-priv=NULL", "--server-id=1", "--log-bin=../binary.x"])
        .spawn();
    let running = Running(server.unwrap());
    let socket = data.root.join("tmp").join(&data.name).join("db.sock");
    wait_until("mysqld to listen", || UnixStream::connect(&socket).is_ok());

    let began = Instant::now();
    let (server, settings) = describe_running(&running);
    eprintln!("described in {:?}: {server:#?}", began.elapsed());
    let printed =
        Command::new("chroot").arg(&root).args(["/usr/sbin/mysqld", "--no-defaults", "--version"]).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    let number = server.version.as_deref().and_then(|version| version.strip_prefix("MySQL ")).unwrap();
    assert!(printed.contains(&format!("Ver {number}")), "{number} in {printed}");
    assert_eq!((server.comm.as_str(), server.ports), ("mysqld", vec![]));
    assert_eq!(server.datadir.unwrap(), inside.join("data"));
    assert_eq!(server.socket.unwrap(), inside.join("db.sock"));
    assert!(server.device.is_some() && server.filesystem.is_some());
    assert_eq!(server.notes, Vec::<String>::new());
    assert_eq!(settings.number("max_connections"), Some(77));

    let files = open_files(running.0.id(), &settings);
    let role = |path: &str| files.get(&inside.join("data").join(path)).copied();
    assert_eq!(role("ibdata1"), Some(Role::SystemTablespace), "{files:#?}");
    assert_eq!(role("mysql.ibd"), Some(Role::Dictionary));
    assert_eq!(role("undo_001"), Some(Role::Undo));
    assert_eq!(role("ibtmp1"), Some(Role::Temporary));
    assert!(files.values().any(|role| *role == Role::Redo));
    assert!(files.values().any(|role| *role == Role::Doublewrite));
    assert_eq!(files.get(&inside.join("binary.000001")), Some(&Role::Binlog));
    for (path, role) in &files {
        assert!(*role != Role::Other || path.ends_with("run.log"), "{path:?} has no role");
    }
}
