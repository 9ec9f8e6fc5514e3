//! Which engine a process is, and profiles of the user's own.

use super::*;
use crate::engine::rules::Rules;
use crate::model::{Processes, Role, fixture};

fn with(profiles: &[&str]) -> Result<Arc<Engines>, String> {
    let directory = tempfile::tempdir().unwrap();
    let write = |(number, text): (usize, &&str)| {
        let path = directory.path().join(format!("{number}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let paths: Vec<_> = profiles.iter().enumerate().map(write).collect();
    let without_directory = |error: FileError| {
        let message = error.to_string();
        message.replace(&format!("{}/", directory.path().display()), "")
    };
    Engines::with_user_files(&paths).map_err(without_directory)
}

fn complaint(text: &str) -> String {
    with(&[text]).unwrap_err()
}

#[test]
fn an_engine_is_known_by_its_command_and_better_by_its_version() {
    let engines = Engines::builtin();
    let name = |engine: Option<Arc<Engine>>| engine.map(|engine| engine.name.clone());
    for (command, version, expected) in [
        ("mysqld", None, Some("mysql")),
        ("mysqld", Some("MariaDB 10.3.39"), Some("mariadb")),
        ("mariadbd", None, Some("mariadb")),
        ("my-own-mysqld", Some("MySQL 9.7.4"), Some("mysql")),
        ("postgres", None, Some("postgres")),
        ("postmaster", None, Some("postgres")),
        ("edb-postgres", None, Some("postgres")),
        (".postgres-wrapp", None, Some("postgres")),
        (".mariadbd-wrapp", None, Some("mariadb")),
        ("mysqld-debug", None, Some("mysql")),
        ("etcd", None, Some("etcd")),
        ("redis-server", Some("Redis 7.0.15"), Some("redis")),
        ("valkey-server", None, Some("valkey")),
        ("sqlite3", None, None),
        ("java", None, None),
        ("", None, None),
        ("postgres ", None, None),
    ] {
        assert_eq!(name(engines.of_server(command, version)).as_deref(), expected, "{command} {version:?}");
    }
    assert_eq!(engines.by_name("postgres").unwrap().processes, Processes::ChildrenInDatadir);
    assert_eq!(engines.by_name("postgres").unwrap().serial, [Role::Wal]);
    assert!(engines.by_name("sqlite").unwrap().commands.is_empty());
    let most = crate::probe::record::COMM_PATTERNS;
    let names: usize = engines.with_processes().map(|engine| engine.commands.len()).sum();
    assert!(names <= most, "the kernel side can watch for {most} names");
}

/// Rooms below this one cannot read profiles, so their tests have engines of their own.
#[test]
fn the_engines_of_the_fixtures_are_those_of_the_profiles() {
    for command in ["mysqld", "mariadbd", "postgres"] {
        assert_eq!(fixture::engine(command), Engines::builtin().by_command(command));
    }
}

#[test]
fn the_rules_of_an_engine_hold_for_its_servers_alone() {
    let rules = Rules::builtin();
    let engines = rules.engines().clone();
    let number = |engine: Option<&str>, role: Role| {
        let engine = engine.and_then(|name| engines.by_name(name));
        let is_about = rules.about(engine.as_deref());
        rules.rules.iter().filter(|rule| rule.role == role && is_about(rule)).count()
    };
    for engine in ["mysql", "mariadb"] {
        assert!(number(Some(engine), Role::Redo) > 2 && number(Some(engine), Role::EngineData) > 3);
        assert_eq!((number(Some(engine), Role::Wal), number(Some(engine), Role::Sst)), (0, 0));
    }
    for engine in ["postgres", "etcd", "redis", "valkey", "kafka", "zookeeper", "rocksdb", "sqlite"] {
        assert_eq!(number(Some(engine), Role::Redo), 0, "{engine}");
    }
    assert_eq!(number(Some("valkey"), Role::Aof), number(Some("redis"), Role::Aof));
    assert!(number(None, Role::Redo) > 2 && number(None, Role::Wal) > 3 && number(None, Role::Database) > 0);
    assert_eq!((number(Some("postgres"), Role::Log), number(None, Role::Log)), (1, 0), "too general");
}

const MINE: &str = "name = \"mine\"\ntitle = \"Mine\"\ncommands = [\"mined\"]\nserial = [\"wal\"]\n\
                    [[rule]]\nrole = \"wal\"\nname = 'mine\\.log'\n";

#[test]
fn a_profile_of_the_users_own_is_found_by_default() {
    let engines = with(&[MINE]).unwrap();
    let engine = engines.by_command("mined").unwrap();
    assert_eq!((&*engine.name, &*engine.roles), ("mine", &[Role::Wal][..]));
    assert_eq!(engines.with_processes().next().unwrap().commands, ["mined"]);
    assert_eq!(engine.words.waits(), "Every durable write waits for this log.");
    assert!(Engines::builtin().by_command("mined").is_none());
}

#[test]
fn a_profile_of_the_users_own_takes_the_place_of_one_by_its_name_and_may_go_by_its_rules() {
    let forked = "name = \"postgres\"\ntitle = \"Fork\"\ncommands = [\"postgres\", \"forkd\"]\nrules_of = [\"postgres\"]\n";
    let engines = with(&[forked]).unwrap();
    let engine = engines.by_command("postgres").unwrap();
    assert_eq!((&*engine.title, engine.serial.len()), ("Fork", 0));
    assert!(engine.has(Role::CommitStatus));
    assert_eq!(engines.profiles().len(), Engines::builtin().profiles().len());
    let rules = Rules::of_engines(engines.clone(), None).unwrap();
    assert_eq!(rules.rules.len(), Rules::builtin().rules.len());
    let is_about = rules.about(Some(&engine));
    assert!(rules.rules.iter().any(|rule| rule.role == Role::Control && is_about(rule)));
    // Without them, they are gone.
    let bare = with(&["name = \"postgres\"\ntitle = \"Fork\"\n"]).unwrap();
    let rules = Rules::of_engines(bare, None).unwrap();
    assert!(!rules.rules.iter().any(|rule| rule.role == Role::Control));
    // Valkey goes by Redis' rules, whatever becomes of Redis; and who goes by Valkey's goes by those.
    let engines = with(&[
        "name = \"redis\"\ntitle = \"R\"\n",
        "name = \"third\"\ntitle = \"T\"\nrules_of = [\"valkey\"]\n",
    ]);
    let rules = Rules::of_engines(engines.unwrap(), None).unwrap();
    for (name, expected) in [("redis", false), ("valkey", true), ("third", true)] {
        let engine = rules.engines().by_name(name).unwrap();
        let is_about = rules.about(Some(&engine));
        let has = rules.rules.iter().any(|rule| rule.role == Role::Aof && is_about(rule));
        assert_eq!(has, expected, "{name}");
    }
}

#[test]
fn a_mistake_in_a_profile_is_named_with_its_line() {
    let rules = "[[rule]]\nrole = \"wal\"\nname = 'x'\n";
    for (text, start) in [
        ("title = \"x\"\n", "0.toml:1: missing field `name`"),
        ("\nname = \"Big\"\ntitle = \"x\"\n", "0.toml:2: an engine's name has"),
        ("name = \"innodb\"\ntitle = \"x\"\n", "0.toml:1: there are rules called \"innodb\""),
        ("name = \"x\"\ntitle = \"a\\u0007\"\n", "0.toml:2: a title has"),
        ("name = \"x\"\ntitle = \"x\"\ncolour = 1\n", "0.toml:3: unknown field `colour`"),
        (
            "name = \"x\"\ntitle = \"x\"\ncommands = [\n\"sixteen-bytes-xx\"]\n",
            "0.toml:4: a command is what the kernel keeps",
        ),
        (
            "name = \"x\"\ntitle = \"x\"\ncommands = [\"a\", \"b\", \"c\", \"d\",\n\"e\"]\n",
            "0.toml:4: an engine has at most 4 commands",
        ),
        (
            "name = \"x\"\ntitle = \"x\"\nmain_classes = [\n\"libs/Main.jar\"]\n",
            "0.toml:4: a main class is a name with its packages",
        ),
        (
            "name = \"x\"\ntitle = \"x\"\nrules_of = [\"nobody\"]\n",
            "0.toml:3: there are no rules of \"nobody\"",
        ),
        (
            "name = \"x\"\ntitle = \"x\"\nserial = [\"wal\"]\n",
            "0.toml:3: `serial` names logs that a rule leads to",
        ),
        (
            &format!("name = \"x\"\ntitle = \"x\"\nserial = [\"data\"]\n{}", rules.replace("wal", "data")),
            "0.toml:3: `serial` names logs",
        ),
        (
            &format!("name = \"x\"\ntitle = \"x\"\n{rules}engine = \"x\"\n"),
            "0.toml:6: a profile's rules are about",
        ),
        (
            &format!("name = \"x\"\ntitle = \"x\"\n{rules}path = '('\n"),
            "0.toml:6: the pattern \"(\" cannot be used",
        ),
        (
            "name = \"x\"\ntitle = \"x\"\n[calibrate]\nmethod = \"fsync\"\npattern = \"appended\"\np99_seconds = nan\n\
             says = \"x\"\nsource = \"x\"\n",
            "0.toml:1: `p99_seconds` of [calibrate]",
        ),
        ("name = \"x\"\ntitle = \"x\"\nprocesses = \"many\"\n", "0.toml:3: unknown variant `many`"),
    ] {
        let message = complaint(text);
        assert!(message.starts_with(start), "{message:?} should start with {start:?}");
    }
    let message = Engines::with_user_files(&["/no/such/profile.toml"]).unwrap_err().to_string();
    assert!(message.starts_with("cannot read the profile /no/such/profile.toml: "), "{message}");
}

#[test]
fn profiles_have_limits() {
    let large = format!("name = \"x\"\ntitle = \"x\"\n{}", "# padding\n".repeat(30_000));
    assert!(
        complaint(&large).ends_with("0.toml is not used: it is longer than 256 kB"),
        "{}",
        complaint(&large)
    );
    let rules = "[[rule]]\nrole = \"wal\"\nname = 'x'\n".repeat(513);
    let many = complaint(&format!("name = \"x\"\ntitle = \"x\"\n{rules}"));
    assert_eq!(many, format!("0.toml:{}: there are more than 512 rules", 3 + 512 * 3));
    let named = |number: usize| format!("name = \"x{number}\"\ntitle = \"x\"\n");
    let texts: Vec<String> = (0..17).map(named).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert!(with(&texts[..16]).is_ok());
    assert_eq!(with(&texts).unwrap_err(), "16.toml:1: at most 16 profiles can be read");
}

#[test]
fn an_engine_is_called_by_its_name_or_by_its_title() {
    let called = |word: &str| Engines::builtin().called(word).map(|engine| engine.name.clone());
    for word in ["postgres", "postgresql", "PostgreSQL"] {
        assert_eq!(called(word).as_deref(), Some("postgres"), "{word}");
    }
    assert_eq!(called("MariaDB").as_deref(), Some("mariadb"));
    for none in ["", "mysqld", "oracle"] {
        assert_eq!(called(none), None, "{none}");
    }
}
