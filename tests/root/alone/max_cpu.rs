//! Needs root: fsynctop keeps to the processor time that it may use, and says so. The limits are far below
//! the usual one, and averaged over seconds, so that they are exceeded for real in a short time.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::disk::Mounted;
use crate::common::faults::{FaultFs, Hung};
use crate::common::measured::{Measured, number};
use crate::common::rows;
use crate::common::{Running, built, needs, sleeper, wait_until};
use fsynctop::engine::engines::Engines;
use fsynctop::engine::rules::Rules;
use fsynctop::live::{Live, Options, State};
use fsynctop::model::{Op, Snapshot};
use fsynctop::probe::ProbeConfig;
use fsynctop::sampler::Sampler;
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::selection::Selection;
use serde_json::Value;

/// More than the tool can read every hundredth of a second within the limits below, also where other work
/// leaves it little time; at long intervals they are nothing.
const FILES: &str = "300";

fn syncgen(directory: &Path, seconds: &str) -> Command {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--files", FILES, "--seconds", seconds]);
    command
}

fn fsynctop(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["once", "--output", "json", "-i", "0.01"]).args(options);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn measured(output: &Output) -> Vec<Measured> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.starts_with("{\"schema\"")).map(Measured::parse).collect()
}

fn note(measured: &Measured) -> &str {
    measured.0["note"].as_str().unwrap_or_default()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_max_cpu_intervals_get_longer_until_it_fits_and_no_sync_is_missed() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let load = syncgen(memory.path(), "25");
    let mut command = fsynctop(&["--max-cpu", "5%/6s", "--"]);
    let output = command.arg(load.get_program()).args(load.get_args()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("instead of 0.01 s: with shorter ones, fsynctop used "), "{said}");
    assert!(said.contains(" of a processor, and it may use 5 % (--max-cpu)"), "{said}");
    assert!(!said.contains("tracing is paused"), "{said}");

    let intervals = measured(&output);
    assert_eq!(note(&intervals[0]), "");
    let last = intervals.last().unwrap();
    assert!(note(last).starts_with("intervals are "), "{}", last.0["note"]);
    // All of them together are what was done, however they were cut.
    let text = String::from_utf8_lossy(&output.stdout);
    let truth = text.lines().find(|line| line.starts_with("{\"pid\"")).expect("what syncgen says");
    let truth: Value = serde_json::from_str(truth).unwrap();
    assert_eq!(intervals.iter().map(Measured::total).sum::<u64>(), number(&truth, "calls"));
    intervals.iter().for_each(Measured::assert_nothing_lost);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_max_cpu_what_does_not_fit_pauses_the_tracing_and_says_so() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let mut load = Running(syncgen(memory.path(), "60").stdout(Stdio::null()).spawn().unwrap());
    let pid = load.0.id().to_string();
    let output = fsynctop(&["--max-cpu", "0.01%/2s", "--pid", &pid, "-d", "30"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = stderr(&output);
    let pause = said.lines().find(|line| line.starts_with("fsynctop: tracing is paused: ")).expect("a pause");
    assert!(pause.contains("even with intervals of 1.00 s"), "{said}");
    assert!(pause.ends_with("and it may use 0.01 % (--max-cpu)"), "{said}");
    let intervals = measured(&output);
    assert!(intervals.iter().map(Measured::total).sum::<u64>() > 0, "what was measured until then");
    // It may have gone on since: what is asked for is an interval of which nothing was traced. Tracing goes
    // on at the end of an interval, a little before it is read or after: then there are some syncs in it.
    let seconds = |interval: &Measured, of: &Value| of.as_f64().unwrap_or_else(|| panic!("{}", interval.0));
    let untraced = |interval: &&Measured| {
        let paused = seconds(interval, &interval.0["lost"]["paused_seconds"]);
        let length = seconds(interval, &interval.0["duration_seconds"]);
        assert!(paused <= length + 0.01, "paused for {paused} s of {length}");
        paused + 0.01 > length && interval.total() == 0
    };
    let in_pause = intervals.iter().find(untraced).unwrap_or_else(|| panic!("no pause: {said}"));
    let note = format!("fsynctop: {}", note(in_pause));
    assert!(said.lines().any(|line| line == note), "{note}\n{said}");
    assert!(load.0.try_wait().unwrap().is_none(), "the load had nothing to do with it");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_max_cpu_a_command_goes_on_while_tracing_is_paused() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let load = syncgen(memory.path(), "15");
    let mut command = fsynctop(&["--max-cpu", "0.01%/1s", "--", "sh", "-c", "\"$@\"; exit 7", "sh"]);
    let began = Instant::now();
    let output = command.arg(load.get_program()).args(load.get_args()).output().unwrap();
    assert!(began.elapsed() >= Duration::from_secs(15), "the command ran to its end");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(stderr(&output).contains("fsynctop: tracing is paused: "), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let truth = text.lines().find(|line| line.starts_with("{\"pid\"")).expect("what syncgen says");
    let truth: Value = serde_json::from_str(truth).unwrap();
    let total = measured(&output).iter().map(Measured::total).sum::<u64>();
    assert!(total > 0 && total < number(&truth, "calls"), "{total} of {truth}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_max_cpu_a_view_sees_the_pause_and_that_tracing_goes_on_by_itself() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let load = Running(syncgen(memory.path(), "100").stdout(Stdio::null()).spawn().unwrap());
    let pid = load.0.id();
    let config = ProbeConfig { ops: vec![Op::Fdatasync], ..rows::of_pid(pid) };
    let make =
        move || Sampler::start(&config, Rules::builtin(), "test".into()).map_err(std::io::Error::other);
    let options = Options {
        interval: Duration::from_millis(500),
        max_cpu: Some("10%/2s".parse().unwrap()),
        ..Options::default()
    };
    let selection = Selection::new(Engines::builtin(), vec![TargetFilter::Pids(vec![pid])]);
    let live = Live::start(make, selection, options).unwrap();
    assert_eq!(live.state(), State::Running);

    // What else this process does counts as the tool's own work: half a processor more than it may use.
    let (mut degraded, mut before) = (Vec::new(), live.latest());
    let end = Instant::now() + Duration::from_secs(60);
    let why = loop {
        match live.state() {
            State::Running => {}
            State::Degraded { interval } => degraded.push(interval),
            State::Paused { why } => break why,
            other => panic!("{other:?}"),
        }
        assert!(Instant::now() < end, "it goes on and on: {degraded:?}");
        before = live.latest();
        let spun = Instant::now();
        while spun.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
    };
    // On a busy machine its share falls in between, and it is degraded anew.
    assert!(degraded.iter().all(|interval| *interval > Duration::from_millis(500)), "{degraded:?}");
    assert!(!degraded.is_empty());
    assert!(why.starts_with("tracing is paused: "), "{why}");
    let counted = |snapshot: &Snapshot| snapshot.files.iter().map(|row| row.stats.count).sum::<u64>();
    let at_pause = live.latest();
    assert_eq!(at_pause.setup.note.as_deref(), Some(&*why));
    assert!(counted(&at_pause) >= counted(&before) && counted(&before) > 0);
    assert!(live.fresh(Duration::ZERO, Duration::from_secs(60)).is_none(), "nothing is counted in a pause");
    let programs = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let is_bpf = |to: PathBuf| to.to_string_lossy().contains("bpf-prog");
        descriptors.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(is_bpf)).count()
    };
    let loaded = programs();
    assert!(loaded > 0, "the programs stay loaded");

    // Nothing more to do: in a window or two there is room again.
    let mut stream = live.stream();
    let mut next = |earlier: &Snapshot| loop {
        let later = stream.next(Duration::from_secs(60)).expect("tracing goes on by itself").snapshot;
        if later.taken > earlier.taken {
            break later;
        }
    };
    let resumed = next(&at_pause);
    assert!(live.state().is_tracing(), "{:?}", live.state());
    assert_eq!(programs(), loaded);
    let paused = resumed.lost.paused;
    let between = resumed.taken - at_pause.taken;
    assert!(paused > Duration::from_secs(1) && paused <= between + Duration::from_millis(10), "{paused:?}");
    // Those in flight at the pause, and those of the moment since it ended; seconds of the load would be many
    // more.
    let since = counted(&resumed) - counted(&at_pause);
    assert!(
        since * 20 < counted(&at_pause),
        "{since} in a pause of {paused:?}, {} before",
        counted(&at_pause)
    );
    let later = next(&resumed);
    assert!(counted(&later) > counted(&resumed));
    assert_eq!(later.lost.paused, paused);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_max_cpu_a_sync_that_hangs_since_a_pause_is_in_flight_after_it() {
    needs(&["/dev/fuse"]);
    let mount = FaultFs::mount("delay 1ms");
    let file = mount.path().join("ib_logfile0");
    std::fs::write(&file, "redo").unwrap();
    let script = "import os, sys\nfd = os.open(sys.argv[1], os.O_RDWR)\nwhile True: os.fdatasync(fd)";
    let child = Command::new("/usr/bin/python3").args(["-c", script]).arg(&file).spawn().unwrap();
    let running = Hung::new(&mount, Running(child));
    let pid = running.pid();
    let config = ProbeConfig { ops: vec![Op::Fdatasync], ..rows::of_pid(pid) };
    let mut sampler = Sampler::start(&config, Rules::builtin(), "test".into()).unwrap();
    // The same thread has been seen before.
    wait_until("its first syncs", || sampler.snapshot().unwrap().files.iter().any(|row| row.stats.count > 2));

    sampler.pause();
    mount.control("hang on ib_logfile0");
    mount.wait_for_hanging(1);
    assert!(sampler.snapshot().unwrap().in_flight.is_empty(), "it began in the pause");
    sampler.go_on();
    let mut found = Vec::new();
    wait_until("the sync that hangs", || {
        found = sampler.snapshot().unwrap().in_flight;
        !found.is_empty()
    });
    assert_eq!((found.len(), found[0].server.pid, found[0].op), (1, pid, Op::Fdatasync));
    assert!(found[0].age_is_minimum);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_max_cpu_attaching_does_not_count() {
    needs(&[]);
    let sleeper = sleeper();
    let pid = sleeper.0.id().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        // The first interval is over a second before the two end that do not count, for a busy machine may be
        // late: at its end the process is described, and to see what it listens on is to have the kernel walk
        // the table of all connections. After them, four intervals may use several times what they take, also
        // where another virtual machine makes this one's processor three times as slow.
        .args(["once", "--output", "json", "-i", "1", "-n", "6"])
        .args(["--max-cpu", "1.2%/12s", "--pid", &pid])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Processor time when the first interval is over: nearly all of it is attaching.
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let ticks =
        |field: usize| stat.rsplit(") ").next().unwrap().split(' ').nth(field - 3).unwrap().parse::<u64>();
    let used = (ticks(14).unwrap() + ticks(15).unwrap()) * 1_000 / procfs_ticks();
    println!(
        "attaching and the first interval: {used} ms of processor time; the limit allows 144 ms in 12 s"
    );
    assert!(used > 144, "it costs so little ({used} ms) that this shows nothing");
    let lines = output.lines().map(Result::unwrap).collect::<Vec<_>>();
    assert!(child.wait().unwrap().success());
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| note(&Measured::parse(line)).is_empty()), "{lines:?}");
}

fn procfs_ticks() -> u64 {
    procfs::ticks_per_second()
}
