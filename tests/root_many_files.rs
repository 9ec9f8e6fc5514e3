//! Needs root: more files than there is room for. Totals stay exact, no file gets another one's syncs, and
//! memory stays bounded.

mod common;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, remove_file};
use std::io::BufRead;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::disk::Mounted;
use common::measured::{self, Measured, count, path_of};
use common::traced::{Live, Traced};
use common::wait_until;

const SMALL: [&str; 4] = ["--max-files", "2048", "--max-histograms", "256"];
/// Bounded, whatever the number of files: of a debug build, whose program text alone takes 17 MB.
const MOST_MEMORY_KB: u64 = 64_000;

fn create(path: &Path) -> File {
    OpenOptions::new().write(true).create_new(true).open(path).unwrap()
}

/// The most resident memory that a process ever had.
fn peak_memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// One at a time: each of them keeps both the workload and the reader busy.
static TURN: Mutex<()> = Mutex::new(());

/// Runs the workload once it is told to, until it says by a file that it is done; the intervals, and the peak
/// memory.
fn measure(test: &Traced, dir: &Path, options: &[&str]) -> (Vec<Measured>, u64) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut live = Live::start("2", options, &test.command(dir));
    let pid = live.pid();
    live.tell("go");
    let mut intervals = Vec::new();
    wait_until("the workload", || {
        intervals.push(live.next().expect("the workload runs"));
        dir.join("done").exists()
    });
    let memory = peak_memory_kb(pid);
    let (left, success) = live.end();
    assert!(success);
    intervals.extend(left);
    (intervals, memory)
}

/// Waits for the word, syncs files one after the other, says that it is done, and stays until standard input
/// ends. `pace`: files a second at most.
fn work(dir: &Path, files: usize, pace: u32, sync: impl Fn(&Path)) {
    let mut lines = std::io::stdin().lock().lines();
    lines.next();
    let began = Instant::now();
    for i in 0..files {
        sync(&dir.join(format!("t_{i:06}.ibd")));
        if i % 100 == 99 {
            let due = Duration::from_secs(i as u64 + 1) / pace;
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
    }
    File::create(dir.join("done")).unwrap();
    while lines.next().is_some() {}
}

fn short_lived(path: &Path) {
    create(path).sync_all().unwrap();
    remove_file(path).unwrap();
}

fn staying(path: &Path) {
    create(path).sync_data().unwrap();
}

fn sum(intervals: &[Measured], of: impl Fn(&Measured) -> u64) -> u64 {
    intervals.iter().map(of).sum()
}

/// Each sync was counted in its role, and nothing was lost.
fn check(intervals: &[Measured], files: usize) {
    assert_eq!(sum(intervals, Measured::total), files as u64);
    intervals.iter().for_each(Measured::assert_nothing_lost);
    assert_eq!(sum(intervals, |interval| interval.of_role("tablespace")), files as u64);
}

/// New files a second at which each name is learnt through a map this small. Faster, names are lost, and
/// counted as lost: the last test.
const PACE: u32 = 5_000;

/// The 200,000 files of the test of this name, by a map that holds a hundredth of them.
fn through_a_small_map(file: fn(&Path)) {
    let test = Traced::begin(|dir| work(dir, 200_000, PACE, file));
    let memory = Mounted::tmpfs();
    let (intervals, memory_kb) = measure(&test, memory.path(), &SMALL);
    println!("peak {memory_kb} kB");
    check(&intervals, 200_000);
    assert!(memory_kb < MOST_MEMORY_KB, "{memory_kb} kB");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn short_lived_files_through_a_small_map_are_counted_exactly() {
    through_a_small_map(short_lived);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn files_that_stay_are_counted_exactly_through_a_small_map() {
    through_a_small_map(staying);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn sixty_thousand_files_fit_as_they_are() {
    let test = Traced::begin(|dir| work(dir, 60_000, PACE, staying));
    let memory = Mounted::tmpfs();
    let (intervals, memory_kb) = measure(&test, memory.path(), &[]);
    println!("peak {memory_kb} kB");
    check(&intervals, 60_000);
    let rows: usize = intervals.iter().map(|interval| interval.files().len()).sum();
    assert_eq!(rows, 60_000, "each file has a row of its own");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_comes_faster_than_it_can_be_named_is_counted_all_the_same() {
    let test = Traced::begin(|dir| {
        work(dir, 200_000, u32::MAX, short_lived);
    });
    let memory = Mounted::tmpfs();
    let (intervals, memory_kb) = measure(&test, memory.path(), &SMALL);
    let lost = sum(&intervals, |interval| interval.lost("files"));
    println!("peak {memory_kb} kB, {lost} without their file");
    assert_eq!(sum(&intervals, Measured::total), 200_000);
    let unattributed = |interval: &Measured| {
        measured::sum(interval.files().iter().filter(|row| row["target"] == "unattributed"))
    };
    assert_eq!(sum(&intervals, unattributed), lost, "what lost its file is said");
    for what in ["preempted", "threads"] {
        assert_eq!(sum(&intervals, |interval| interval.lost(what)), 0, "{what}");
    }
    // Of each round of events it keeps what it may still need.
    assert!(memory_kb < 2 * MOST_MEMORY_KB, "{memory_kb} kB");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn rows_are_made_room_for_also_while_nobody_asks_for_a_snapshot() {
    let test = Traced::begin(|dir| {
        for i in 0..40 {
            create(&dir.join(format!("{i}.ibd"))).sync_all().unwrap();
            std::thread::sleep(Duration::from_millis(30));
        }
        // Each would be two events, if it had no row: more than the ring takes.
        let last = create(&dir.join("last.ibd"));
        last.sync_all().unwrap();
        // Time for a busy machine to see that.
        std::thread::sleep(Duration::from_millis(300));
        (0..299_999).for_each(|_| last.sync_all().unwrap());
    });
    let memory = Mounted::tmpfs();
    let measured = test.measure(memory.path(), &["--max-files", "16", "--max-histograms", "4"]);
    measured.assert_nothing_lost();
    assert_eq!(measured.total(), 40 + 300_000);
    assert_eq!(count(measured.only(&memory.path().join("last.ibd"))), 300_000);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn slots_that_serve_one_file_after_another_mix_no_files() {
    let test = Traced::begin(|dir| {
        let mut lines = std::io::stdin().lock().lines();
        lines.next();
        for i in 0..400_usize {
            let file = create(&dir.join(format!("{i}.ibd")));
            (0..1 + i % 7).for_each(|_| file.sync_all().unwrap());
            // Long enough for rows to be retired in between.
            std::thread::sleep(Duration::from_millis(5));
        }
        File::create(dir.join("done")).unwrap();
        while lines.next().is_some() {}
    });
    let memory = Mounted::tmpfs();
    let (intervals, _) = measure(&test, memory.path(), &["--max-files", "16", "--max-histograms", "4"]);
    let mut counts = BTreeMap::new();
    for row in intervals.iter().flat_map(Measured::files) {
        *counts.entry(path_of(row).expect("a name")).or_default() += count(row);
    }
    let expected = (0..400_u64).map(|i| (memory.path().join(format!("{i}.ibd")), 1 + i % 7));
    assert_eq!(counts, expected.collect());
    assert_eq!(sum(&intervals, Measured::total), counts.values().sum::<u64>());
    assert_eq!(sum(&intervals, |interval| interval.lost("files")), 0);
}
