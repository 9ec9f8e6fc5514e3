//! Needs root and tmux: the live view takes a terminal over, and gives it back whichever way it ends.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::faults::{FaultFs, fsynctop, output, signal, stderr, stdout, tool};
use crate::common::terminal::{TMUX, Terminal};
use crate::common::{Running, needs, wait_until};
use fsynctop::top::terminal::{Screen, giving_back};

/// A process that syncs all the time, which no other test's fsynctop is asked for.
fn syncing(directory: &std::path::Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(tool("syncgen"));
    command.arg(directory).args(["--seconds", "600"]).args(arguments).stdout(Stdio::null());
    Running(command.spawn().unwrap())
}

fn view_of(columns: u16, rows: u16, target: &Running) -> Terminal {
    let terminal = Terminal::fsynctop(columns, rows, &["--pid", &target.0.id().to_string()]);
    terminal.until_shown("syncs/s");
    terminal
}

fn has_ended(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// How often a thread of this name was given a processor.
fn switches(pid: u32, name: &str) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mine = threads.filter(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    let counts = mine.map(|thread| {
        let schedstat = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        schedstat.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    });
    counts.sum()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_every_way_out_restores_the_terminal() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &[]);
    for key in ["q", "C-c", "F10"] {
        let terminal = view_of(80, 24, &target);
        assert_eq!(terminal.fact("alternate_on"), "1");
        assert_eq!(terminal.fact("mouse_any_flag"), "1");
        terminal.keys(&[key]);
        terminal.assert_restored(0);
        // What was seen stays.
        terminal.until_shown("fdatasync");
        terminal.until_shown("total");
    }
    for (name, status) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        let terminal = view_of(80, 24, &target);
        let began = Instant::now();
        signal(terminal.pid(), name);
        terminal.assert_restored(status);
        assert!(began.elapsed() < Duration::from_secs(20), "{name}: {:?}", began.elapsed());
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_takes_leave_with_the_failures_of_the_whole_session_whatever_was_counted_anew() {
    needs(&[TMUX, "/dev/fuse"]);
    let script = r#"
import os, sys, time
good, bad, go = sys.argv[1:]
good, bad = os.open(good, os.O_RDWR), os.open(bad, os.O_RDWR)
failed = 0
while True:
    os.fdatasync(good)
    while os.path.exists(go) and failed < 297:
        failed += 1
        try: os.fsync(bad)
        except OSError: pass
    time.sleep(0.02)
"#;
    for (anew, said) in [("0", "counting from"), ("T", "attached again"), ("", "")] {
        let mount = FaultFs::mount("fail EIO on bad");
        let [good, bad, go] = ["good", "bad", "go"].map(|name| mount.path().join(name));
        for file in [&good, &bad] {
            std::fs::write(file, "x").unwrap();
        }
        let mut command = Command::new("python3");
        let target = Running(command.args(["-c", script]).args([&good, &bad, &go]).spawn().unwrap());
        let terminal = view_of(160, 50, &target);
        terminal.until("figures", |screen| screen.contains(" in flight"));
        std::fs::write(&go, "").unwrap();
        terminal.until_shown("297 failed");
        if !anew.is_empty() {
            terminal.keys(&[anew]);
            terminal.until_shown(said);
            // An interval or two of the new counts, in which nothing fails.
            std::thread::sleep(Duration::from_millis(2500));
        }
        terminal.keys(&["q"]);
        terminal.assert_restored(0);
        let screen = terminal.until_shown("total");
        let failed = format!("297 syncs failed: 297 EIO on {} (other fsync), the last by ", bad.display());
        assert!(screen.contains(&failed), "{anew:?}: {screen}");
        assert!(screen.contains("EIO: the page cache can no longer be trusted"), "{anew:?}: {screen}");
        assert!(!screen.to_lowercase().contains("nothing failed"), "{anew:?}: {screen}");
        assert_eq!(screen.contains("attached again once"), anew == "T", "{screen}");
    }
}

/// Tells the process that the test starts what it is for.
const PANICS: &str = "FSYNCTOP_TEST_PANICS";

/// What the test after this one runs in a terminal, in a process of its own.
fn panic_in_a_terminal_that_was_taken_over() {
    let mut screen = Screen::open().expect("it runs in a terminal");
    giving_back(|| {
        screen.take_over().unwrap();
        let other = std::thread::spawn(|| panic!("said by another thread"));
        assert!(other.join().is_err());
    });
    giving_back(|| {
        screen.take_over().unwrap();
        std::fs::write("taken", "").unwrap();
        while !std::path::Path::new("go").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("said by the view");
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_a_panic_restores_the_terminal_and_can_be_read() {
    if std::env::var_os(PANICS).is_some() {
        return panic_in_a_terminal_that_was_taken_over();
    }
    needs(&[TMUX]);
    let assignment = format!("{PANICS}=1");
    let program = std::env::current_exe().unwrap();
    let thread = std::thread::current();
    let name = thread.name().unwrap();
    let arguments =
        [&assignment, program.to_str().unwrap(), "--include-ignored", "--exact", name, "--nocapture"];
    let terminal = Terminal::program(100, 24, "env", &arguments);
    wait_until("the terminal to be taken over", || terminal.directory().join("taken").exists());
    terminal.until("the other screen", |_| terminal.fact("alternate_on") == "1");
    std::fs::write(terminal.directory().join("go"), "").unwrap();
    terminal.assert_restored(101);
    let screen = terminal.screen();
    assert!(screen.contains("said by the view") && screen.contains("said by another thread"), "{screen}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_ends_by_a_signal_while_something_stands_before_the_table() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &[]);
    for (keys, shows) in [(&["?"][..], "What is shown"), (&["/", "a"], "rows that contain: a")] {
        let terminal = view_of(80, 24, &target);
        terminal.keys(keys);
        terminal.until_shown(shows);
        signal(terminal.pid(), "TERM");
        terminal.assert_restored(143);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_what_cannot_be_attached_is_said_on_a_terminal_that_is_as_before() {
    needs(&[TMUX]);
    // Refused before anything is shown, and while "Attaching" is.
    let terminal = Terminal::fsynctop(100, 24, &["--pid", "4194305"]);
    terminal.assert_restored(3);
    terminal.until_shown("4194305");
    let terminal = Terminal::fsynctop(100, 24, &["--roles", "/no/such/file"]);
    terminal.assert_restored(2);
    terminal.until_shown("/no/such/file");
    let script = r#"stty -a >before; setpriv --bounding-set -all --inh-caps -all "$1" --all
        echo "ended with $?"; stty -a >after; exec sleep 1000"#;
    let terminal = Terminal::new(100, 24, &["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_fsynctop")]);
    terminal.assert_restored(1);
    terminal.until_shown("cannot trace");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_ends_when_its_terminal_is_closed() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &[]);
    let terminal = view_of(80, 24, &target);
    let pid = terminal.pid();
    drop(terminal);
    wait_until("fsynctop to end with its terminal", || has_ended(pid));

    // Also where the signal that tells of it is ignored.
    let script = r#"trap '' HUP; echo $$ >pid; exec "$1" --pid "$2""#;
    let number = target.0.id().to_string();
    let program = env!("CARGO_BIN_EXE_fsynctop");
    let terminal = Terminal::new(80, 24, &["sh", "-c", script, "sh", program, &number]);
    terminal.until_shown("syncs/s");
    let pid = terminal.pid();
    drop(terminal);
    wait_until("fsynctop to end although the signal is ignored", || has_ended(pid));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_can_be_suspended_and_goes_on() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &[]);
    let terminal = Terminal::new(80, 24, &["bash", "--norc", "-i"]);
    let command = format!("{} --pid {}", env!("CARGO_BIN_EXE_fsynctop"), target.0.id());
    terminal.keys(&[&command, "Enter"]);
    terminal.until_shown("syncs/s");
    for by_signal in [false, true] {
        if by_signal {
            // Of the job in the foreground, by its name in the shell.
            let found = output(Command::new("pgrep").args(["-nf", &format!("^{command}")]));
            signal(stdout(&found).trim().parse().unwrap(), "TSTP");
        } else {
            terminal.keys(&["C-z"]);
        }
        terminal.until_shown("Stopped");
        assert_eq!(terminal.fact("alternate_on"), "0");
        assert_eq!(terminal.fact("cursor_flag"), "1");
        terminal.keys(&["echo the shell is $((6*7))", "Enter"]);
        terminal.until_shown("the shell is 42");
        terminal.keys(&["clear; fg", "Enter"]);
        terminal.until("the view again", |screen| {
            screen.contains("syncs/s") && screen.contains("q quit") && !screen.contains("Stopped")
        });
        assert_eq!(terminal.fact("alternate_on"), "1");
        terminal.keys(&["f"]);
        terminal.until_shown("[file]");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_survives_every_size_and_says_when_it_is_too_small() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &[]);
    let terminal = view_of(80, 24, &target);
    terminal.resize(20, 5);
    terminal.until_shown("20x5 is too small");
    terminal.resize(200, 60);
    let large = terminal.until_shown("Incidents, failed syncs");
    assert!(large.lines().any(|line| line.chars().count() > 150), "{large}");
    for (columns, rows) in [(1, 1), (40, 10), (500, 12), (41, 150), (3, 40)] {
        terminal.resize(columns, rows);
        std::thread::sleep(Duration::from_millis(150));
    }
    terminal.resize(80, 24);
    terminal.until("the view again", |screen| {
        screen.lines().next().is_some_and(|line| line.starts_with("syncgen")) && screen.contains("q quit")
    });
    terminal.keys(&["q"]);
    terminal.assert_restored(0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_a_terminal_that_reads_nothing_stalls_no_sampling_and_no_end() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &["--files", "40"]);
    let terminal = view_of(200, 60, &target);
    // So much is drawn anew all the time that what the kernel holds for a terminal is full at once.
    terminal.keys(&["f", "-", "-", "-"]);
    terminal.until_shown("refresh 0.1 s");
    let (pid, reader) = (terminal.pid(), terminal.reader());
    signal(reader, "STOP");
    std::thread::sleep(Duration::from_secs(3));
    let before = switches(pid, "sampler");
    std::thread::sleep(Duration::from_secs(3));
    let after = switches(pid, "sampler");
    signal(reader, "CONT");
    assert!(after >= before + 15, "the sampler went on: {before} and {after}");
    // What comes then is what is now, not what was missed.
    let now = || output(Command::new("date").args(["-u", "+%H:%M:%S"]));
    terminal.within(Duration::from_secs(5), "the time of day", |screen| {
        screen.contains(&format!("{} UTC", stdout(&now()).trim()))
    });

    signal(reader, "STOP");
    std::thread::sleep(Duration::from_secs(2));
    let began = Instant::now();
    signal(pid, "TERM");
    let deadline = began + Duration::from_secs(20);
    while !has_ended(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = began.elapsed();
    signal(reader, "CONT");
    assert!(took < Duration::from_secs(10), "{took:?}");
    terminal.assert_restored(143);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_without_a_terminal_measures_once_and_says_so() {
    needs(&[]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &[]);
    let pid = target.0.id().to_string();
    for arguments in [&["--pid", &pid][..], &["top", "--pid", &pid, "--by", "file"]] {
        let output = output(fsynctop().args(arguments));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(
            stderr(&output),
            "fsynctop: there is no terminal for the live view: doing what `fsynctop once` does\n"
        );
        let text = stdout(&output);
        assert!(text.starts_with(&format!("syncgen {pid}")) && text.contains("\ntotal "), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
    // Asked for, it says nothing about it.
    let output = output(fsynctop().args(["once", "-d", "1", "--pid", &pid]));
    assert_eq!(stderr(&output), "");
}
