//! docs/engines.md, made from the profiles: `FSYNCTOP_UPDATE_EXPECTED=1 cargo test --lib
//! the_page_of_the_engines` writes it, and a test fails where it differs.

use std::fmt::Write as _;
use std::path::Path;

use super::engines::{Engines, MOST_OF_A_USER};
use super::profile::{COMM_LENGTH, LONGEST_CLASS, LONGEST_NAME, MOST_COMMANDS, Profile};
use super::rule::MOST_RULES;
use super::source::LARGEST;
use crate::model::fixture::assert_expected;
use crate::model::{Datadir, Processes, Role};

const EXAMPLE: &str = include_str!("../../examples/profile.toml");

const HEAD: &str = "\
# Engines

What fsynctop knows of a database engine is in a profile: a file of data that says how its servers are recognised, what \
its files are, which of them commits wait for, and what its own makers say about them. This page is made from the \
profiles (`src/engine/profiles/`); `FSYNCTOP_UPDATE_EXPECTED=1 cargo test --workspace --lib the_page_of_the_engines` \
writes it, and a test fails where it differs.

Servers of every engine that has a process of its own are found by default; `--engine postgres,etcd` takes those of some. \
A process is an engine's by the name of its main thread, which any process can give itself, or by that of its executable, as far as it ran when fsynctop began (a link, `pg15`, to `postgres`). Where the executable tells a \
product, as those of MySQL and MariaDB do, that decides \
by which rules its files get their roles. `--engine` selects by these names alone: a MariaDB that runs as `mysqld`, as those \
before 10.5 do, is found by `--engine mysql`.

Every Java program runs as `java`. Such an engine is known by its main class, a word of the command line that is as easy to \
forge, and by default those of its servers are found that ran when fsynctop began. `--comm java` traces one that is started \
later, and beside it every other Java program, each under what it is.

";

const HOW_TO: &str = "\
## A profile of your own

`--profile FILE` (or `profile` in [fsynctop.toml](configuration.md)) reads a profile of your own, and may be given up to \
MOST_PROFILES times. Its servers are then found by default as well. An engine that has the name of one above takes its place. A \
mistake is reported with the file's name and line, and nothing is traced until it is corrected. A file has at most \
MOST_KB KB and MOST_RULES rules. An example, [`examples/profile.toml`](../examples/profile.toml):

```toml
";

const KEYS: &str = "\
```

| key | |
|---|---|
| `name` | (required) what `--engine` and JSON call it: up to LONGEST_NAME lower-case letters, digits and underscores |
| `title` | (required) what sentences call it |
| `about` | a sentence or two. Like `[[setting]]`, `[[counter]]` and `[[other]]`, it only feeds this page: nothing acts on it, nor on yours |
| `commands` | what the main threads of its servers are called, as /proc/PID/comm has it: up to MOST_COMMANDS names of up to COMM_LENGTH bytes. Without any, and without `main_classes`, it is a library, and its rules hold in every process that is no other engine's |
| `main_classes` | of servers that run as `java`: the classes they are started with, up to MOST_COMMANDS names of up to LONGEST_CLASS bytes, one of which is a word of their command line |
| `processes` | `\"alone\"` (the default): each process is a server. `\"children\"`: a process is one server with those of its children that run the same executable. `\"children_in_datadir\"`: the same, and all of them work in the data directory, by which one that has lost its parent is still known |
| `datadir` | `\"working_directory\"`: the server makes its data directory its working directory |
| `serial` | the logs that commits wait for, in the order of a commit, each synced one call at a time: roles among SERIAL_ROLES |
| `[words]` | of those logs: `who` waits (`\"Every commit\"`), what they do when a log is saturated (`queue`: `\"commits queue for it\"`), why a server that works may sync nothing (`unsynced`, behind \"the server\") |
| `[calibrate]` | what `calibrate --for` asks of a filesystem: `method` (`fsync`, `fdatasync`, `o_dsync`, `o_sync`, `o_direct`), `pattern` (`overwritten`, `appended`), `p99_seconds` (left out where nobody gives a limit: then there is no verdict), what is said of it (`says`) and `source` |
| `rules_of` | engines whose rules hold as well, after its own: one that is compatible with Redis says `[\"redis\"]`. `\"innodb\"` has those of MySQL and MariaDB |
| `[[rule]]` | which role a file has, in the [conditions](roles.md#custom-rules) of `--roles`; the [roles](roles.md) are the same for all engines. `guess = false`: only of servers that are known to be this engine's, for names that other programs use as well |
| `[[threshold]]` | how long the syncs of a role may take: `role`, `quantile` (0.99; 1 is the longest), `seconds`, `says`, `source`; `syncs = 2` and `of` (`\"commits\"`) where the limit is of what two syncs make, one after the other; and `setting`, the name of a setting of the server in milliseconds that comes before `seconds` where the server was given it (settings of etcd, MySQL, MariaDB and PostgreSQL are read). Where it is exceeded, the views say so |
| `[[setting]]` | what durability hangs on: `name`, `durable` (the values with which nothing acknowledged is lost), `otherwise`, `source` |
| `[[counter]]` | where the engine counts itself: `counts`, `at`, `versions`, `source` |
| `[[other]]` | a file that has no role, and what it is: `name`, `what` |

Which rules are tried for a file: your own (`--roles`), then, if the server's engine is known, those of that engine \
alone, its own before those it shares. Of any other process (`--pid`, `--comm`, `--all`) the rules of all engines are \
tried: your profiles' first, then InnoDB's, PostgreSQL's, etcd's, Redis', Kafka's, ZooKeeper's, RocksDB's and SQLite's, but for those with \
`guess = false`.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

fn summary(page: &mut String, profile: &Profile) {
    let engine = &profile.engine;
    let processes = match (!engine.has_processes(), engine.processes) {
        (true, _) => "part of any program",
        (false, Processes::Alone) => "a process",
        (false, Processes::Children | Processes::ChildrenInDatadir) => "a process with its children",
    };
    let _ = writeln!(
        page,
        "| {} | `{}` | {} | {processes} | {} |",
        engine.title,
        engine.name,
        names(engine.commands.iter().chain(&engine.main_classes).map(String::as_str)),
        names(engine.serial.iter().map(|role| role.name())),
    );
}

fn section(page: &mut String, profile: &Profile) {
    let engine = &profile.engine;
    let _ = writeln!(page, "## {}\n\n{}\n", engine.title, profile.about);
    let _ = writeln!(page, "Roles: {}.\n", names(engine.roles.iter().map(|role| role.name())));
    let words = &engine.words;
    let logs: Vec<&str> = engine.serial.iter().map(|role| role.in_a_sentence()).collect();
    let _ = writeln!(page, "{} waits for {}.\n", words.who, logs.join(", then for "));
    if engine.datadir == Datadir::WorkingDirectory {
        let _ = writeln!(page, "Its working directory is its data directory.\n");
    }
    for threshold in &engine.thresholds {
        let what = match &threshold.of {
            Some(of) => format!("{} syncs (the {of}) of", threshold.syncs),
            None => "a sync of".to_owned(),
        };
        let _ = writeln!(
            page,
            "**How long {what} `{}` may take**: {} ([source]({})).\n",
            threshold.role.name(),
            threshold.says,
            threshold.source
        );
    }
    if let Some(standard) = &profile.calibrate {
        let what = match standard.p99_seconds {
            Some(seconds) => ("holds", format!("against {} ms", seconds * 1e3)),
            None => ("tells", "without a verdict".to_owned()),
        };
        let _ = writeln!(
            page,
            "**`calibrate --for {}`** {} the p99 of {} of {} blocks {}: {} ([source]({})).\n",
            engine.name,
            what.0,
            standard.method.name(),
            standard.pattern.name(),
            what.1,
            standard.says,
            standard.source
        );
    }
    if !profile.settings.is_empty() {
        let _ = writeln!(page, "| setting | durable | otherwise |\n|---|---|---|");
        for setting in &profile.settings {
            let _ = writeln!(
                page,
                "| [`{}`]({}) | {} | {} |",
                cell(&setting.name),
                setting.source,
                cell(&setting.durable),
                cell(&setting.otherwise)
            );
        }
        page.push('\n');
    }
    if !profile.counters.is_empty() {
        let _ = writeln!(page, "| it counts itself | where | versions |\n|---|---|---|");
        for counter in &profile.counters {
            let versions = counter.versions.as_deref().unwrap_or("all");
            let (counts, at) = (cell(&counter.counts), cell(&counter.at));
            let _ = writeln!(page, "| {counts} | [`{at}`]({}) | {versions} |", counter.source);
        }
        page.push('\n');
    }
    if !profile.others.is_empty() {
        let _ = writeln!(page, "Files that were seen to be synced and are `other`:\n");
        let _ = writeln!(page, "| file | what it is |\n|---|---|");
        for other in &profile.others {
            let _ = writeln!(page, "| `{}` | {} |", cell(&other.name), cell(&other.what));
        }
        page.push('\n');
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| engine | name | found by | one server is | commits wait for |\n|---|---|---|---|---|\n");
    let engines = Engines::builtin();
    engines.profiles().iter().for_each(|profile| summary(&mut page, profile));
    page.push('\n');
    engines.profiles().iter().for_each(|profile| section(&mut page, profile));
    let limits = [
        ("SERIAL_ROLES", names(Role::SERIAL.iter().map(|role| role.name()))),
        ("MOST_PROFILES", MOST_OF_A_USER.to_string()),
        ("MOST_KB", (LARGEST >> 10).to_string()),
        ("MOST_RULES", MOST_RULES.to_string()),
        ("LONGEST_NAME", LONGEST_NAME.to_string()),
        ("MOST_COMMANDS", MOST_COMMANDS.to_string()),
        ("LONGEST_CLASS", LONGEST_CLASS.to_string()),
        ("COMM_LENGTH", COMM_LENGTH.to_string()),
    ];
    let how_to = format!("{HOW_TO}{EXAMPLE}{KEYS}");
    page + &limits.iter().fold(how_to, |text, (name, value)| text.replace(name, value))
}

#[test]
fn the_page_of_the_engines_is_up_to_date() {
    assert_expected("docs/engines.md", &page());
}

#[test]
fn the_example_is_a_profile_that_can_be_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/profile.toml");
    let engines = Engines::with_user_files(&[path]).unwrap();
    let engine = engines.by_command("kvrocks").unwrap();
    assert_eq!((&*engine.title, &*engine.serial), ("Kvrocks", &[Role::Wal][..]));
    assert!(engine.has(Role::Sst), "by the rules of RocksDB");
}

/// What a reader of the page needs of each engine that comes with the program.
#[test]
fn every_profile_says_what_it_is_about_and_has_a_source_for_what_others_say() {
    for profile in Engines::builtin().profiles() {
        let name = &profile.engine.name;
        assert!(profile.about.ends_with('.') && !profile.engine.serial.is_empty(), "{name}");
        assert!(!profile.settings.is_empty(), "{name}");
        let sources = profile.settings.iter().map(|setting| &setting.source);
        let sources = sources.chain(profile.counters.iter().map(|counter| &counter.source));
        for source in sources.chain(profile.engine.thresholds.iter().map(|threshold| &threshold.source)) {
            assert!(source.starts_with("https://"), "{name}: {source}");
        }
        for threshold in &profile.engine.thresholds {
            assert!(profile.engine.has(threshold.role), "{name}");
        }
    }
}
