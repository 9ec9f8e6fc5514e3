//! Needs root: what runs for long. Processes come and go by the thousand; what is remembered of them stays
//! bounded, and nothing that they did is lost or counted twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::disk::Mounted;
use crate::common::measured::{Measured, count, number};
use crate::common::rows;
use crate::common::traced::measure;
use crate::common::{Running, built, needs, wait_until};
use fsynctop::engine::engines::Engines;
use fsynctop::engine::rules::Rules;
use fsynctop::live::{Live, Options};
use fsynctop::model::{Op, ServerId, Snapshot};
use fsynctop::probe::ProbeConfig;
use fsynctop::sampler::{Retention, Sampler};
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::selection::Selection;

const PROCESSES: u64 = 2_500;
/// As many of those that ended are told apart at most.
const TOLD_APART: usize = 1_024;

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_long_runs_thousands_of_processes_are_counted_and_only_the_latest_told_apart() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    // One fdatasync each, half of them on files of their own, no more than some hundred in an interval,
    // however quick the machine is; then rest, in which all of them are seen to have ended.
    let script = format!(
        r#"cd "$1"; echo >shared
        for i in $(seq {}); do
            echo >"$i"; sync -d "$i"; sync -d shared
            case $i in *00) sleep 0.5;; esac
        done
        sleep 3"#,
        PROCESSES / 2
    );
    let command = ["sh", "-euc", &script, "sh", memory.path().to_str().unwrap()];
    let run = measure(&["-i", "0.5", "--by", "thread", "--max-cpu", "off"], &command);
    assert!(run.output.status.success(), "{:?}", run.output);
    run.measured.iter().for_each(Measured::assert_nothing_lost);
    assert_eq!(run.measured.iter().map(Measured::total).sum::<u64>(), PROCESSES);
    let threads = |measured: &Measured| measured.threads().iter().map(count).sum::<u64>();
    assert_eq!(run.measured.iter().map(threads).sum::<u64>(), PROCESSES);
    // No interval shows the syncs of an earlier one again: a process has one sync in its life.
    let mut by_pid: BTreeMap<u64, u64> = BTreeMap::new();
    for interval in &run.measured {
        for row in interval.roles() {
            *by_pid.entry(number(row, "pid")).or_default() += count(row);
        }
    }
    let forgotten = by_pid.remove(&0).unwrap_or(0);
    assert_eq!(by_pid.values().filter(|&&n| n != 1).count(), 0, "{by_pid:?}");
    println!("{} processes told apart, {forgotten} syncs of others", by_pid.len());
    let last = run.measured.last().unwrap().0["servers"].as_array().unwrap().len();
    assert!(last <= TOLD_APART, "{last} are still told apart");
    let most = run.measured.iter().map(|interval| interval.0["servers"].as_array().unwrap().len()).max();
    // Those that were not yet seen to have ended come on top: on a busy machine, many.
    assert!(most.unwrap() <= TOLD_APART + PROCESSES as usize / 2, "{most:?}");
}

const COMM: &str = "long-runs";

fn live(retention: Retention) -> Live {
    let config = ProbeConfig { ops: vec![Op::Fdatasync], ..rows::of_comm(COMM) };
    let make =
        move || Sampler::start(&config, Rules::builtin(), "test".into()).map_err(std::io::Error::other);
    let options = Options { interval: Duration::from_millis(100), max_cpu: None, retention };
    let selection =
        Selection::new(Engines::builtin(), vec![TargetFilter::comms(&[COMM.to_owned()]).unwrap()]);
    Live::start(make, selection, options).unwrap()
}

/// A process that has made so many syncs, and stays.
fn process(directory: &Path, syncs: u64) -> Running {
    let mut child = Command::new(built("syncgen"))
        .arg(directory)
        .args(["--comm", COMM, "--hold", "--syncs", &syncs.to_string(), "--files", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert!(line.contains(&format!("\"calls\":{syncs}")), "{line}");
    Running(child)
}

fn total(snapshot: &Snapshot) -> u64 {
    snapshot.files.iter().map(|row| row.stats.count).sum()
}

fn of(snapshot: &Snapshot, server: ServerId) -> u64 {
    snapshot.files.iter().filter(|row| row.server == server).map(|row| row.stats.count).sum()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_long_runs_servers_that_ended_are_forgotten_and_their_syncs_are_not() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let live = live(Retention { most: 128, length: Some(Duration::from_secs(1)) });
    let mut stream = live.stream();
    let mut earlier = live.latest();
    let mut counted: BTreeMap<ServerId, u64> = BTreeMap::new();
    let mut look = |done: &dyn Fn(&Snapshot) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let published = stream.next(Duration::from_secs(10)).expect("another snapshot");
            let later = published.snapshot;
            assert!(total(&later) >= total(&earlier), "a total went backwards");
            for row in &published.interval.roles {
                *counted.entry(row.server).or_default() += row.stats.count;
            }
            earlier = later;
            if done(&earlier) {
                break earlier.clone();
            }
            assert!(Instant::now() < end, "waited in vain: {:?}", earlier.servers);
        }
    };
    // A server that is killed and started again, and again.
    let mut expected = 0;
    for life in 1..=5 {
        let running = process(memory.path(), 100 * life);
        expected += 100 * life;
        look(&|snapshot| total(snapshot) == expected);
        drop(running);
    }
    let stays = process(memory.path(), 7);
    let id =
        |snapshot: &Snapshot| snapshot.servers.iter().find(|server| server.id.pid == stays.0.id()).cloned();
    let last = look(&|snapshot| snapshot.servers.len() == 2 && total(snapshot) == expected + 7);
    assert_eq!(of(&last, ServerId::ENDED), expected);
    assert_eq!(of(&last, id(&last).expect("it lives").id), 7);
    assert!(id(&last).unwrap().alive);
    // Each life was counted once, as what it was, and nothing of it again when it was forgotten.
    let mut counts: Vec<u64> = counted.values().copied().collect();
    counts.sort();
    assert_eq!(counts, [7, 100, 200, 300, 400, 500]);
    assert!(!counted.contains_key(&ServerId::ENDED));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_long_runs_the_threads_that_describe_processes_stay_few() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let script = r#"cd "$1"; echo >a; for i in $(seq 300); do (sync -d a; exec sleep 3) & done; wait"#;
    let mut child = Running(
        Command::new(env!("CARGO_BIN_EXE_fsynctop"))
            .args([
                "once",
                "-i",
                "0.2",
                "--max-cpu",
                "off",
                "--output",
                "json",
                "--",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .arg(memory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let tasks = format!("/proc/{}/task", child.0.id());
    let mut most = 0;
    wait_until("the command to end", || {
        let threads = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        // In the end there is one for each hook, for as long as it takes to detach.
        most = most.max(names.filter(|name| name != "detach\n").count());
        child.0.try_wait().unwrap().is_some()
    });
    println!("{most} threads at most");
    // The first one, the sampler, the finder, up to 8 for names, 4 for descriptions, 2 for earlier syncs.
    assert!((3..=17).contains(&most), "{most} threads");
}
