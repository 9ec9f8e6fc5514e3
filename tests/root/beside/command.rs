//! Needs root: `-- COMMAND` with all that it starts, nothing beside it, its exit status; and the choice by
//! name.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::disk::Mounted;
use crate::common::measured::{Measured, count, counts, number, sum, text};
use crate::common::traced::{Run, Traced, measure};
use crate::common::{Running, built, needs, wait_until};

fn shell(options: &[&str], script: &str, directory: &Path) -> Run {
    measure(options, &["sh", "-euc", script, "sh", directory.to_str().unwrap()])
}

fn traced_shell(script: &str, directory: &Path) -> Measured {
    let run = shell(&[], script, directory);
    assert!(run.output.status.success(), "{:?}", run.output);
    let measured = run.measured.into_iter().next().expect("one measurement");
    measured.assert_nothing_lost();
    measured
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_exit_status_of_the_command_is_passed_on() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let script = memory.path().join("not-to-be-run");
    std::fs::write(&script, "").unwrap();
    let status = |command: &[&str]| {
        let run = measure(&[], command);
        assert_eq!(run.measured.len(), 1, "a measurement is written however the command ends");
        run.output.status.code()
    };
    assert_eq!(status(&["true"]), Some(0));
    assert_eq!(status(&["sh", "-c", "exit 3"]), Some(3));
    assert_eq!(status(&["sh", "-c", "exit 255"]), Some(255));
    assert_eq!(status(&["/nonexistent/program"]), Some(127));
    assert_eq!(status(&[script.to_str().unwrap()]), Some(126));
    assert_eq!(status(&["sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]), Some(143));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn whatever_a_command_starts_is_counted() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    // `sync FILE` makes one fsync, `sync -d FILE` one fdatasync.
    let script = r#"cd "$1"; echo >a; echo >b
        for i in $(seq 60); do sync a & done; wait
        for i in $(seq 20); do (sync b; sync -d b) & done; wait
        exec env sh -c 'exec sh -c "sync a; exec sync b"'"#;
    let measured = traced_shell(script, memory.path());
    assert_eq!((measured.total(), measured.roles().len()), (102, 102));
    let of = |name: &str, op: &str| {
        sum(measured.at(&memory.path().join(name)).into_iter().filter(|row| row["op"] == op))
    };
    assert_eq!([of("a", "fsync"), of("b", "fsync"), of("b", "fdatasync")], [61, 21, 20]);
    assert!(measured.files().iter().all(|row| count(row) == 1), "each process has rows of its own");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_daemon_that_left_its_parents_is_counted() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let script = r#"cd "$1"; echo >a
        (setsid sh -c '(for i in 1 2 3 4 5; do sync a; done; echo >done) &' &)
        while [ ! -e done ]; do sleep 0.05; done"#;
    let measured = traced_shell(script, memory.path());
    assert_eq!(measured.total(), 5);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn who_is_no_descendant_is_not_counted() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let other = Command::new(built("syncgen"))
        .arg(memory.path())
        .args(["--seconds", "600", "--comm", "a-neighbour"])
        .stdout(Stdio::null())
        .spawn();
    let _other = Running(other.unwrap());
    wait_until("the other process to sync", || memory.path().join("sync-0").exists());
    let measured = traced_shell(r#"for i in 1 2 3 4; do sync "$1/sync-0"; sleep 0.1; done"#, memory.path());
    assert_eq!((measured.total(), measured.files().len()), (4, 4));
    let neighbours = measured.0["neighbours"].as_array().unwrap();
    let neighbour = neighbours.iter().find(|row| row["comm"] == "a-neighbour").expect("a neighbour");
    assert!(count(neighbour) > 0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_leaders_name_decides_and_never_the_threads() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let (program, directory) = (built("syncgen"), memory.path().to_str().unwrap());
    // Its threads are called sync-0, sync-1, …
    let command =
        [program.to_str().unwrap(), directory, "--comm", "leader name 1", "--threads", "3", "--syncs", "70"];
    let with = |name: &str| {
        let run = measure(&["--by", "thread", "--comm", name], &command);
        assert!(run.output.status.success(), "{:?}", run.output);
        run.measured.into_iter().next().expect("one measurement")
    };
    let measured = with("leader name 1");
    measured.assert_nothing_lost();
    assert_eq!((measured.total(), sum(measured.threads())), (210, 210));
    for thread in measured.threads() {
        assert_eq!(number(thread, "count"), 70);
    }
    for name in ["sync-0", "sync-", "leader name", "leader name 11"] {
        assert_eq!(with(name).total(), 0, "{name}");
    }
    assert_eq!(with("other,leader name 1").total(), 210);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_process_is_traced_for_as_long_as_it_has_the_name() {
    let test = Traced::begin(|dir| {
        let file = std::fs::File::create(dir.join("file")).unwrap();
        // /proc/self is the leader; this thread has another name all the while.
        for (name, times) in [("before-it", 10), ("while-it-has", 20), ("after-it", 40), ("while-it-has", 80)]
        {
            std::fs::write("/proc/self/comm", name).unwrap();
            (0..times).for_each(|_| file.sync_all().unwrap());
        }
    });
    let memory = Mounted::tmpfs();
    let measured = test.measure(memory.path(), &["--comm", "while-it-has"]);
    measured.assert_nothing_lost();
    assert_eq!(measured.by_path(memory.path()), counts([("file", "fsync", 100)]));
    assert_eq!(text(measured.only(&memory.path().join("file")), "role"), "other");
}
