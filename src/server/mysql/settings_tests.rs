//! Settings out of fixture directories that stand for a server's root.

use super::*;
use crate::server::mysql::version;
use std::os::unix::fs::symlink;

struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        for (path, contents) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, contents).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("var/lib/mysql")).unwrap();
        std::fs::write(dir.path().join("var/lib/mysql/ibdata1"), "").unwrap();
        Fixture(dir)
    }

    fn read(&self, version: Option<&Version>, command_line: &[&str]) -> Settings {
        let process = Launch {
            command_line: command_line.iter().map(Into::into).collect(),
            environment: [("HOME".into(), "/home/db".into())].into(),
            working_directory: Some("/var/lib/mysql".into()),
        };
        read(&process, version, Some(&Root::at(self.0.path()).unwrap()), &Bounds::NONE)
    }
}

fn mysql() -> Version {
    Version { product: version::MYSQL, number: "9.7.4".into() }
}

fn mariadb() -> Version {
    Version { product: version::MARIADB, number: "10.11.14".into() }
}

const LAYERED: &[(&str, &str)] = &[
    ("etc/my.cnf", "[mysqld]\nport=1\nsocket=/first.sock\n[client]\nport=99\n"),
    (
        "etc/mysql/my.cnf",
        "[server]\nport=2\n!includedir /etc/mysql/conf.d/\n!include /etc/one.cnf\n[mysqld]\nlog-error=e\n",
    ),
    ("etc/mysql/conf.d/b.cnf", "[mysqld-9.7]\nsync-binlog=7\n[mysqld-8.0]\nsync-binlog=8\n"),
    (
        "etc/mysql/conf.d/a.cnf",
        "[mariadb]\nsync_binlog=5\n[mariadbd-10.11]\nport=6\n[mysqld]\nsync_binlog=0\n",
    ),
    ("etc/mysql/conf.d/ignored.txt", "[mysqld]\nport=77\n"),
    ("etc/one.cnf", "[mysqld]\nloose-innodb_flush_method=O_DSYNC\n!include /etc/one.cnf\n"),
    ("home/db/.my.cnf", "[mysqld]\nserver_id=9\nunknown=1\n"),
    ("etc/extra.cnf", "[mysqld]\nport=44\n"),
];

#[test]
fn option_files_are_layered_and_each_server_reads_its_own_groups() {
    let fixture = Fixture::new(LAYERED);
    let settings = fixture.read(Some(&mysql()), &["mysqld"]);
    assert_eq!(settings.port(), Some(2));
    assert_eq!(settings.number("sync_binlog"), Some(7));
    assert_eq!(settings.text("innodb_flush_method"), Some("O_DSYNC"));
    assert_eq!(settings.path("socket").unwrap(), Path::new("/first.sock"));
    assert_eq!(settings.number("server_id"), Some(9));
    assert_eq!(settings.get("unknown"), None, "nobody asks for it");
    assert_eq!(settings.datadir(), Some(Path::new("/var/lib/mysql")));

    let settings = fixture.read(Some(&mariadb()), &["mariadbd"]);
    assert_eq!(settings.port(), Some(6));
    assert_eq!(settings.number("sync_binlog"), Some(0), "[mysqld] comes after [mariadb] in that file");
}

#[test]
fn the_command_line_wins_over_option_files_and_chooses_them() {
    let fixture = Fixture::new(LAYERED);
    let read = |line: &[&str]| fixture.read(Some(&mysql()), line);
    assert_eq!(read(&["mysqld", "--port=5"]).port(), Some(5));
    assert_eq!(read(&["mysqld", "--no-defaults"]).port(), None);
    assert_eq!(read(&["mysqld", "--defaults-file=/etc/extra.cnf"]).port(), Some(44));
    assert_eq!(read(&["mysqld", "--defaults-file=/etc/extra.cnf"]).number("sync_binlog"), None);
    let extra = read(&["mysqld", "--defaults-extra-file=/etc/extra.cnf"]);
    assert_eq!((extra.port(), extra.number("sync_binlog")), (Some(44), Some(7)));
}

#[test]
fn a_group_suffix_adds_groups() {
    let fixture =
        Fixture::new(&[("etc/my.cnf", "[mysqld]\nport=1\n[mysqld@two]\nport=2\n[mysqld@three]\nport=3\n")]);
    let settings = fixture.read(Some(&mysql()), &["mysqld", "--defaults-group-suffix=@two"]);
    assert_eq!(settings.port(), Some(2));
}

#[test]
fn relative_values_are_relative_to_the_data_directory() {
    let fixture = Fixture::new(&[(
        "etc/my.cnf",
        "[mysqld]\ndatadir=/data/db\nsocket=mysql.sock\nlog_bin=../logs/foo\ninnodb_log_group_home_dir=./\n\
         innodb_data_file_path=ibdata1:12M;./more/ibdata2:1G:autoextend\ntmpdir=/t1:/t2\n",
    )]);
    let settings = fixture.read(None, &["mysqld"]);
    assert_eq!(settings.path("log_bin").unwrap(), Path::new("/data/logs/foo"));
    assert_eq!(settings.path("socket").unwrap(), Path::new("/data/db/mysql.sock"));
    assert_eq!(settings.paths("innodb_log_group_home_dir"), [Path::new("/data/db")]);
    assert_eq!(
        settings.file_list("innodb_data_file_path"),
        [Path::new("/data/db/ibdata1"), Path::new("/data/db/more/ibdata2")]
    );
    assert_eq!(settings.paths("tmpdir"), [Path::new("/t1"), Path::new("/t2")]);
}

#[test]
fn symlinked_directories_are_known_by_both_names() {
    let fixture =
        Fixture::new(&[("mnt/big/keep", ""), ("etc/alternatives/my.cnf", "[mysqld]\nlog_bin=/logs/foo\n")]);
    symlink("/mnt/big", fixture.0.path().join("logs")).unwrap();
    symlink("/etc/alternatives/my.cnf", fixture.0.path().join("etc/my.cnf")).unwrap();
    let settings = fixture.read(None, &["mysqld"]);
    assert_eq!(settings.paths("log_bin"), [Path::new("/logs/foo"), Path::new("/mnt/big/foo")]);
}

#[test]
fn persisted_variables_win_unless_they_are_switched_off() {
    let fixture = Fixture::new(&[(
        "var/lib/mysql/mysqld-auto.cnf",
        r#"{"Version":2,"mysql_dynamic_variables":{"sync_binlog":{"Value":"0"}}}"#,
    )]);
    assert_eq!(fixture.read(None, &["mysqld", "--sync-binlog=1"]).number("sync_binlog"), Some(0));
    let off = fixture.read(None, &["mysqld", "--sync-binlog=1", "--persisted-globals-load=OFF"]);
    assert_eq!(off.number("sync_binlog"), Some(1));
}

#[test]
fn the_working_directory_counts_once_it_holds_data() {
    let fixture = Fixture::new(&[]);
    assert_eq!(fixture.read(None, &["mysqld"]).datadir(), Some(Path::new("/var/lib/mysql")));
    std::fs::remove_file(fixture.0.path().join("var/lib/mysql/ibdata1")).unwrap();
    assert_eq!(fixture.read(None, &["mysqld"]).datadir(), None);
}

#[test]
fn values_have_types() {
    let settings = Settings::from_pairs(
        Path::new("/d"),
        [
            ("a", "4G"),
            ("b", "12"),
            ("c", "x"),
            ("d", "on"),
            ("e", "0"),
            ("f", ""),
            ("log_bin", "ON"),
            ("g", "99999999T"),
        ],
    );
    assert_eq!(settings.number("a"), Some(4 << 30));
    assert_eq!(settings.number("b"), Some(12));
    assert_eq!((settings.number("c"), settings.number("g"), settings.number("none")), (None, None, None));
    assert_eq!(
        (settings.flag("d"), settings.flag("e"), settings.flag("f")),
        (Some(true), Some(false), Some(true))
    );
    assert_eq!(settings.flag("c"), None);
    assert_eq!(settings.path("log_bin"), None, "a switch names no file");
}
