//! Settings out of fixture directories that stand for a server's root.

use super::*;

const DATA: &str = "/var/lib/postgresql/15/main";

struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        fixture.write(&format!("{DATA}/PG_VERSION"), "15\n");
        fixture.write(&format!("{DATA}/global/pg_control"), "");
        files.iter().for_each(|(path, contents)| fixture.write(path, contents));
        fixture
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }

    fn read_in(&self, directory: &str, environment: &[(&str, &str)], line: &[&str]) -> Settings {
        let launch = Launch {
            command_line: line.iter().map(Into::into).collect(),
            environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            working_directory: Some(directory.into()),
        };
        read(&launch, Some(&Root::at(self.0.path()).unwrap()), &Bounds::NONE)
    }

    fn read(&self, line: &[&str]) -> Settings {
        self.read_in(DATA, &[], line)
    }
}

fn debian(more: &str) -> Fixture {
    let main = format!(
        "data_directory = '{DATA}'\nport = 5433\nfsync = on\nwal_sync_method = fsync\ncommit_delay = 1\n\
         include_dir = 'conf.d'\ninclude_if_exists = 'missing.conf'\n{more}"
    );
    Fixture::new(&[
        ("/etc/postgresql/15/main/postgresql.conf", &main),
        ("/etc/postgresql/15/main/conf.d/b.conf", "commit_delay = 3\n"),
        ("/etc/postgresql/15/main/conf.d/a.conf", "commit_delay = 2\nsynchronous_commit = off\n"),
        ("/etc/postgresql/15/main/conf.d/.hidden.conf", "commit_delay = 4\n"),
        ("/etc/postgresql/15/main/conf.d/other.txt", "commit_delay = 5\n"),
        (&format!("{DATA}/postgresql.auto.conf"), "wal_sync_method = 'open_datasync'\nunheard_of = 1\n"),
    ])
}

const DEBIAN: [&str; 5] =
    ["postgres", "-D", DATA, "-c", "config_file=/etc/postgresql/15/main/postgresql.conf"];

#[test]
fn files_are_layered_and_the_command_line_wins() {
    let fixture = debian("");
    let settings = fixture.read(&DEBIAN);
    assert_eq!(settings.datadir(), Some(Path::new(DATA)));
    assert_eq!((settings.port(), settings.text("commit_delay")), (Some(5433), Some("3")));
    assert_eq!(settings.text("synchronous_commit"), Some("off"));
    assert_eq!(settings.text("wal_sync_method"), Some("open_datasync"), "ALTER SYSTEM");
    assert_eq!(settings.get("unheard_of"), None, "nobody asks for it");
    let with = |more: &[&'static str]| fixture.read(&[&DEBIAN[..], more].concat());
    assert_eq!(with(&["-F"]).text("fsync"), Some("off"));
    assert_eq!(with(&["--wal-sync-method=fdatasync"]).text("wal_sync_method"), Some("fdatasync"));
    assert_eq!(with(&["-p", "6000"]).port(), Some(6000));
    // The last one that is given of each.
    assert_eq!(with(&["-c", "port=1", "-c", "PORT=2"]).port(), Some(2));
}

#[test]
fn what_is_nowhere_else_comes_from_the_environment_and_the_working_directory() {
    let fixture = Fixture::new(&[(&format!("{DATA}/postgresql.conf"), "fsync = no\n")]);
    let by_directory = fixture.read(&["postgres: 15/main: walwriter "]);
    assert_eq!((by_directory.text("fsync"), by_directory.datadir()), (Some("no"), Some(Path::new(DATA))));
    let environment = [("PGDATA", DATA), ("PGPORT", "7000")];
    let by_environment = fixture.read_in("/", &environment, &["postgres"]);
    assert_eq!(by_environment.datadir(), Some(Path::new(DATA)), "it has only just begun");
    assert_eq!((by_environment.port(), by_environment.text("fsync")), (Some(7000), Some("no")));
    fixture.write(&format!("{DATA}/postgresql.auto.conf"), "port = 7001\n");
    assert_eq!(fixture.read_in("/", &environment, &["postgres"]).port(), Some(7001));
    assert_eq!(fixture.read_in("/", &[], &["postgres"]).datadir(), None);
}

#[test]
fn a_configuration_directory_of_its_own_is_no_data_directory() {
    let fixture =
        Fixture::new(&[("/etc/pg/postgresql.conf", &format!("data_directory = '{DATA}'\nport = 9\n"))]);
    for directory in [DATA, "/"] {
        let settings = fixture.read_in(directory, &[], &["postgres", "-D", "/etc/pg"]);
        assert_eq!((settings.datadir(), settings.port()), (Some(Path::new(DATA)), Some(9)), "{directory}");
    }
}

#[test]
fn files_that_include_themselves_and_each_other_are_read_once_and_no_deeper_than_the_server_does() {
    let fixture = debian("include 'postgresql.conf'\ninclude_dir '.'\ninclude '0.conf'\n");
    let all: String = (0..30).map(|number| format!("include '{number}.conf'\n")).collect();
    for number in 0..30 {
        fixture.write(&format!("/etc/postgresql/15/main/{number}.conf"), &all);
    }
    assert_eq!(fixture.read(&DEBIAN).port(), Some(5433));
    let fixture = Fixture::new(&[(&format!("{DATA}/postgresql.conf"), "include 'deep0.conf'\n")]);
    for depth in 0..12 {
        let next = format!("commit_siblings = {depth}\ninclude 'deep{}.conf'\n", depth + 1);
        fixture.write(&format!("{DATA}/deep{depth}.conf"), &next);
    }
    assert_eq!(fixture.read(&["postgres", "-D", DATA]).text("commit_siblings"), Some("9"));
}

#[test]
fn paths_are_relative_to_the_data_directory() {
    let fixture = Fixture::new(&[(&format!("{DATA}/postgresql.conf"), "log_directory = 'log'\n")]);
    let settings = fixture.read(&["postgres", "-D", DATA]);
    assert_eq!(settings.paths("log_directory"), [Path::new(DATA).join("log")]);
}
