//! Needs root: the sampler on a thread of its own, as long-running views use it.

use std::io;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::disk::Mounted;
use crate::common::rows;
use crate::common::{Running, built, needs, wait_until};
use fsynctop::engine::engines::Engines;
use fsynctop::engine::rules::Rules;
use fsynctop::live::{Live, Options, Published, State};
use fsynctop::model::Snapshot;
use fsynctop::probe::ProbeConfig;
use fsynctop::recording::{self, History};
use fsynctop::sampler::{AttachError, Sampler};
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::selection::Selection;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn config(pid: u32) -> ProbeConfig {
    rows::of_pid(pid)
}

fn live(pid: u32, interval: Duration) -> Result<Live, StartError> {
    let make = move || Ok(Sampler::start(&config(pid), Rules::builtin(), "test".into())?);
    Live::start(
        make,
        Selection::new(Engines::builtin(), vec![TargetFilter::Pids(vec![pid])]),
        Options { interval, max_cpu: None, ..Options::default() },
    )
}

/// syncgen, which waits for a word before it syncs, and stays when it has.
struct Load {
    process: Running,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _memory: Mounted,
}

impl Load {
    fn start(arguments: &[&str]) -> Load {
        let memory = Mounted::tmpfs();
        let mut child = Command::new(built("syncgen"))
            .arg(memory.path())
            .args(["--wait", "--hold"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{line}");
        Load { process: Running(child), input, output, _memory: memory }
    }

    fn pid(&self) -> u32 {
        self.process.0.id()
    }

    fn go(&mut self) {
        self.input.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// How many syncs it made, when it has made them.
    fn calls(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        said["calls"].as_u64().unwrap()
    }
}

fn count(snapshot: &Snapshot) -> u64 {
    snapshot.files.iter().map(|row| row.stats.count).sum()
}

fn bpf_descriptors() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("bpf")))
        .count()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_live_regular_snapshots_go_on_whatever_is_asked_for_in_between() {
    needs(&[]);
    let before = bpf_descriptors();
    let mut load = Load::start(&["--seconds", "3", "--threads", "2", "--files", "3"]);
    let interval = Duration::from_millis(200);
    let live = live(load.pid(), interval).unwrap();
    let first = live.latest();
    let mut stream = live.stream();
    assert_eq!(count(&first), 0);
    assert!(first.servers.iter().any(|server| server.id.pid == load.pid()), "{:?}", first.servers);
    load.go();

    let mut history = History::new(recording::Options::default());
    let end = Instant::now() + Duration::from_secs(5);
    let (calls, ticks) = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while Instant::now() < end {
                    let asked = Instant::now();
                    let snapshot = live.fresh(Duration::from_millis(30), Duration::from_secs(5)).unwrap();
                    assert!(snapshot.taken + Duration::from_millis(30) >= asked);
                    std::thread::sleep(Duration::from_millis(15));
                }
            });
        }
        let mut earlier = stream.next(Duration::from_secs(5)).unwrap().snapshot;
        assert!(Arc::ptr_eq(&earlier, &first));
        let mut ticks = Vec::new();
        while Instant::now() < end {
            let Published { snapshot, interval, .. } = stream.next(Duration::from_secs(5)).unwrap();
            assert!(count(&snapshot) >= count(&earlier));
            ticks.push(interval.span.duration);
            history.push(&interval);
            earlier = snapshot;
        }
        (load.calls(), ticks)
    });
    // A busy machine may be late; being early would mean that a snapshot asked for was taken for a regular
    // one.
    let mean = ticks.iter().sum::<Duration>() / ticks.len() as u32;
    assert!(mean >= interval.mul_f64(0.9), "{ticks:?}");
    assert!(ticks.len() > 1, "{ticks:?}");

    let last = live.stop().unwrap();
    assert_eq!((count(&last), last.lost.preempted), (calls, 0));
    assert_eq!(live.state(), State::Stopped);
    assert!(Arc::ptr_eq(&live.stop().unwrap(), &last));
    history.push(&stream.next(Duration::from_secs(60)).unwrap().interval);
    assert!(stream.next(Duration::from_secs(60)).is_none(), "there will be no more");
    assert!(live.fresh(Duration::ZERO, Duration::from_secs(60)).is_none());
    let remembered = history.last(Duration::MAX).unwrap();
    assert_eq!(remembered.total().count, calls);
    assert_eq!(bpf_descriptors(), before);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_live_callers_at_the_same_time_share_one_snapshot() {
    needs(&[]);
    let load = Load::start(&[]);
    let live = live(load.pid(), Duration::from_secs(3_600)).unwrap();
    let begin = live.latest().taken;
    const FRESH: Duration = Duration::from_millis(200);
    wait_until("the first snapshot to be too old", || begin.elapsed() > FRESH);
    let barrier = std::sync::Barrier::new(50);
    let ask = || {
        barrier.wait();
        live.fresh(FRESH, Duration::from_secs(10)).unwrap().taken
    };
    let mut taken: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..50).map(|_| scope.spawn(ask)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    taken.sort();
    taken.dedup();
    assert!(taken[0] > begin);
    // On a machine that is late, some callers come when the first of these snapshots is too old for them.
    assert!(taken.is_sorted_by(|one, next| *next - *one > FRESH), "not shared while fresh: {taken:?}");
    // Nobody waits for the next look at the ring, which is a tenth of a second after the one before.
    let waits = (0..20).map(|_| {
        let asked = Instant::now();
        live.fresh(Duration::ZERO, Duration::from_secs(10)).unwrap();
        asked.elapsed()
    });
    let shortest = waits.min().unwrap();
    assert!(shortest < Duration::from_millis(50), "{shortest:?}");
    // The regular one is an hour away, unless it is asked for sooner.
    let mut stream = live.stream();
    assert!(stream.next(Duration::from_secs(10)).is_some(), "the first");
    assert!(stream.next(Duration::from_millis(300)).is_none());
    live.set_interval(Duration::from_millis(50));
    assert!(stream.next(Duration::from_secs(10)).is_some());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_live_dropping_it_detaches() {
    needs(&[]);
    let before = bpf_descriptors();
    let load = Load::start(&[]);
    let live = live(load.pid(), Duration::from_secs(1)).unwrap();
    assert!(bpf_descriptors() > before);
    drop(live);
    assert_eq!(bpf_descriptors(), before);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_live_what_cannot_start_says_why() {
    needs(&[]);
    let make = || Err(StartError::Io(io::Error::other("no way")));
    let error =
        Live::start(make, Selection::new(Engines::builtin(), Vec::new()), Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "no way");
    wait_until("its threads to end", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| matches!(name.trim_end(), "sampler" | "find-servers")).count() == 0
    });
}

/// An exporter's other threads may sync, and one process may have several probes.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_live_other_threads_syncs_are_not_taken_for_the_self_test() {
    needs(&[]);
    let ended = AtomicBool::new(false);
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                // SAFETY: refused: no such descriptor is open.
                #[expect(unsafe_code, reason = "no safe binding takes a descriptor that is not open")]
                unsafe {
                    libc::fsync(-1)
                };
                made.fetch_add(1, Ordering::Relaxed);
            }
        });
        let tested = || -> Result<u64, String> {
            let mut sampler =
                Sampler::start(&config(1), Rules::builtin(), "test".into()).map_err(|e| e.to_string())?;
            let before = made.load(Ordering::Relaxed);
            (0..1000).try_for_each(|_| sampler.self_test())?;
            // Not on the thread that attached, either.
            std::thread::scope(|scope| scope.spawn(|| sampler.self_test()).join().unwrap())?;
            Ok(made.load(Ordering::Relaxed) - before)
        };
        let result = tested();
        ended.store(true, Ordering::Relaxed);
        let meanwhile = result.unwrap();
        assert!(meanwhile > 1000, "the other thread made only {meanwhile} calls meanwhile");
    });
}
