//! Needs root, and a real Redis and Valkey: `fsynctop verify` agrees with what they count themselves, and
//! `explain` says what of their settings' promises is kept.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::common::chroot::Chroot;
use crate::common::explained::Explained;
use crate::common::needs;
use crate::common::redis::{Client, REDIS, Redis};
use crate::common::verified::{exact, parse, row, verify_while};

const SAVED: &str = "RDB files";
const BASES: &str = "append-only file, bases";
const BYTES: &str = "append-only file, bytes";
const SYNCS: &str = "append-only file, syncs";

fn tree(tool: &str) -> Chroot {
    needs(&[]);
    Chroot::on(tool, 0, "ext4", 768)
}

fn redis_tree() -> Chroot {
    tree(crate::common::etcd::TOOL)
}

fn verify(redis: &Redis, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "--output", "json", "--pid", &redis.pid().to_string()]).args(options);
    command.env_remove("REDISCLI_AUTH");
    command
}

/// A window with that in its midst.
fn window(redis: &mut Redis, options: &[&str], load: impl FnOnce(&mut Redis)) -> Value {
    let output = window_of(redis, options, load);
    let value = parse(&output);
    assert!(output.status.success(), "{value:#}");
    value
}

fn window_of(redis: &mut Redis, options: &[&str], load: impl FnOnce(&mut Redis)) -> Output {
    verify_while(&mut verify(redis, options), || load(redis))
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Larger than what is pushed to the disk at once (4 MB), a child's file is still synced once.
fn files_of_children_are_counted(tree: &Chroot, program: &str, version: &str) {
    let mut redis = Redis::start(tree, program, &["--rdbcompression", "no"]);
    for n in 0..16 {
        let set = format!("redis.call('SET','large{n}:'..n,string.rep('x',10000))");
        redis.ask(&format!("EVAL \"for n=1,100 do {set} end\" 0"));
    }
    let value = window(&mut redis, &[], |redis| {
        redis.set(200);
        redis.write_by_child("BGSAVE");
        redis.write_by_child("BGREWRITEAOF");
        redis.write_by_child("BGSAVE");
        assert_eq!(redis.ask("SAVE"), "+OK");
    });
    assert_eq!([SAVED, BASES].map(|what| exact(&value, what)), [3, 1], "{value:#}");
    // The increment that is closed is synced once more.
    assert_eq!(row(&value, SYNCS)["traced"], 201, "{value:#}");
    let size = std::fs::metadata(tree.disk().join("redis/dump.rdb")).unwrap().len();
    assert!(size > 3 * (4 << 20), "{size} bytes are pushed at once");
    assert!(value["server"]["version"].as_str().unwrap().starts_with(version), "{value:#}");
    // With save points, FLUSHALL saves a file that it does not count: nothing is left that could be compared.
    assert_eq!(redis.ask("CONFIG SET save \"3600 1000000\""), "+OK");
    let output = window_of(&mut redis, &[], |redis| assert_eq!(redis.ask("FLUSHALL"), "+OK"));
    let value = parse(&output);
    assert_eq!(output.status.code(), Some(6), "{value:#}");
    assert_eq!(
        (&row(&value, SAVED)["kind"], &row(&value, SAVED)["traced"]),
        (&"approximate".into(), &1.into()),
        "{value:#}"
    );
    // Of one that has nothing to do, too.
    let value = window(&mut redis, &[], |_| ());
    assert_eq!([SAVED, BASES].map(|what| exact(&value, what)), [0, 0], "{value:#}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_agrees_with_what_redis_counts() {
    files_of_children_are_counted(&redis_tree(), REDIS, "Redis 7.");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_agrees_with_what_valkey_counts() {
    files_of_children_are_counted(&tree("valkey-root.sh"), "/usr/bin/valkey-server", "Valkey 8.");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_of_redis_agrees_to_the_byte() {
    let tree = redis_tree();
    let mut redis = Redis::start(&tree, REDIS, &["--appendfsync", "everysec"]);
    let size = |redis: &mut Redis| redis.info("aof_current_size").parse::<u64>().unwrap();
    let before = size(&mut redis);
    let value = window(&mut redis, &["--writes", "all"], |redis| redis.set(500));
    let grown = size(&mut redis) - before;
    assert!(grown > 10_000);
    assert_eq!(exact(&value, BYTES), grown, "{value:#}");
    // With another base, its size says nothing of what was appended.
    let value = window(&mut redis, &["--writes", "all"], |redis| {
        redis.set(100);
        redis.write_by_child("BGREWRITEAOF");
        redis.set(100);
    });
    assert!(row(&value, BYTES)["note"].as_str().unwrap().starts_with("a new base was written"), "{value:#}");
    assert_eq!(exact(&value, BASES), 1);
    // Of a server that hardly rests, the count is a range that holds what was traced.
    let ends = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::connect(&redis.socket);
            while !ends.load(Ordering::Relaxed) {
                client.set(20);
            }
        });
        let output = verify(&redis, &["-d", "3", "--writes", "all"]).output().unwrap();
        ends.store(true, Ordering::Relaxed);
        output
    });
    let value = parse(&output);
    assert!(output.status.success(), "{value:#}");
    // At an end it may have been quiet for a moment, by chance: then the range is one number.
    let line = row(&value, BYTES);
    assert_eq!((&line["kind"], &line["verdict"]), (&"exact".into(), &"agrees".into()), "{value:#}");
    assert!(line["traced"].as_u64() > Some(10_000), "it was busy: {value:#}");
}

/// By a password, a port, and an account that may not read settings.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_reaches_a_redis_that_asks_who_it_is() {
    let tree = redis_tree();
    let port = crate::common::throwaway::free_port().to_string();
    let mut redis = Redis::start(&tree, REDIS, &["--port", &port]);
    assert_eq!(redis.ask("ACL SETUSER watcher on >half +info"), "+OK");
    assert_eq!(redis.ask("CONFIG SET requirepass whole"), "+OK");
    let socket = redis.socket.display().to_string();
    let run = |password: Option<&str>, options: &[&str]| {
        let mut command = verify(&redis, &[&["-d", "1"], options].concat());
        command.envs(password.map(|password| ("REDISCLI_AUTH", password))).output().unwrap()
    };
    let refused = |output: Output, says: &str| {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(message(&output).contains(says), "no {says:?} in {}", message(&output));
    };
    refused(run(None, &[]), "NOAUTH Authentication required; give a place");
    refused(run(Some("whole"), &[]), "it is not sent to a place that was merely found");
    refused(run(Some("wrong"), &["--socket", &socket]), "WRONGPASS");
    for place in [["--socket", &socket], ["--port", &port]] {
        let output = run(Some("whole"), &place);
        assert!(output.status.success(), "{output:?}");
        let value = parse(&output);
        assert_eq!((exact(&value, SAVED), &value["refused"]), (0, &serde_json::json!([])));
        let output = run(Some("half"), &[&place[..], &["--user", "watcher"]].concat());
        assert!(output.status.success(), "{output:?}");
        let said = parse(&output)["refused"][0].as_str().unwrap().to_owned();
        assert!(said.starts_with("CONFIG GET: NOPERM"), "{said}");
    }
}

/// How the settings stand, by what each begins with.
fn standings(redis: &Redis, mut load: impl FnMut() + Send) -> Vec<(String, String)> {
    let ended = AtomicBool::new(false);
    let value = std::thread::scope(|scope| {
        // When the window begins is not known.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                load();
            }
        });
        let explained = Explained::of(redis.pid(), 4, &[]);
        ended.store(true, Ordering::Relaxed);
        explained.0
    });
    assert!(value.get("factors").is_none(), "{value:#}");
    let audit = value["audit"].as_array().unwrap();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    audit.iter().map(|finding| (text(finding, "setting"), text(finding, "standing"))).collect()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_explain_says_what_of_redis_promises_is_kept() {
    let tree = redis_tree();
    let mut redis = Redis::start(&tree, REDIS, &[]);
    let standing = |all: &[(String, String)], setting: &str| {
        let found = all.iter().find(|(name, _)| name.starts_with(setting));
        found.unwrap_or_else(|| panic!("no {setting} in {all:?}")).1.clone()
    };
    let all = standings(&redis, || Client::connect(&redis.socket).set(200));
    assert_eq!(standing(&all, "appendfsync=always"), "consistent");
    assert!(all.iter().any(|(name, _)| name.starts_with("ext4 on ")), "{all:?}");
    for (name, value) in [("appendfsync", "everysec"), ("no-appendfsync-on-rewrite", "yes")] {
        assert_eq!(redis.ask(&format!("CONFIG SET {name} {value}")), "+OK");
    }
    let all = standings(&redis, || Client::connect(&redis.socket).set(200));
    assert_eq!(standing(&all, "appendfsync=everysec"), "usual");
    assert_eq!(standing(&all, "no-appendfsync-on-rewrite=yes"), "weak");
    assert_eq!(redis.ask("CONFIG SET appendonly no"), "+OK");
    let all = standings(&redis, || std::thread::sleep(Duration::from_millis(10)));
    assert_eq!(standing(&all, "appendonly=no"), "weak");
    assert!(!all.iter().any(|(name, _)| name.contains("appendfsync")), "{all:?}");
}
