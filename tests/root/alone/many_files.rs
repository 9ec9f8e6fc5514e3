//! Needs root: more files than there is room for. Totals stay exact, no file gets another one's syncs, and
//! memory stays bounded.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, remove_file};
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use crate::common::disk::Mounted;
use crate::common::measured::{self, Measured, count, path_of};
use crate::common::traced::{Live, Traced};
use crate::common::wait_until;

const SMALL: [&str; 4] = ["--max-files", "2048", "--max-histograms", "256"];
/// Bounded, whatever the number of files: of a debug build, whose program text alone takes 17 MB.
const MOST_MEMORY_KB: u64 = 64_000;
/// For twenty thousand files, so 50 bytes for each at most.
const GROWTH_KB: u64 = 1_000;

fn create(path: &Path) -> File {
    OpenOptions::new().write(true).create_new(true).open(path).unwrap()
}

/// The most resident memory that a process ever had.
fn peak_memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs the workload, which goes on with its next files at each word: as soon as all that it synced has been
/// read, so at any speed of the machine. The intervals, and the peak memory after each.
fn measure(test: &Traced, dir: &Path, options: &[&str]) -> (Vec<Measured>, Vec<u64>) {
    let mut live = Live::start("0.1", options, &test.command(dir));
    let pid = live.pid();
    let (mut intervals, mut peaks, mut synced, mut read) = (Vec::<Measured>::new(), Vec::new(), 0, 0);
    live.tell("go");
    wait_until("the workload", || {
        let interval = live.next().expect("the workload runs");
        read += interval.total();
        intervals.push(interval);
        peaks.push(peak_memory_kb(pid));
        let done = std::fs::read_to_string(dir.join("done")).ok().and_then(|text| text.parse().ok());
        if done.is_some_and(|done: u64| done > synced && done == read) {
            synced = read;
            live.tell("go");
        }
        dir.join("end").exists()
    });
    let (left, success) = live.end();
    assert!(success);
    intervals.extend(left);
    (intervals, peaks)
}

/// Syncs as many files at each word, says how many in all, and stays until standard input ends.
fn work(dir: &Path, files: usize, at_once: usize, sync: impl Fn(&Path)) {
    let mut lines = std::io::stdin().lock().lines();
    for first in (0..files).step_by(at_once) {
        lines.next();
        let end = files.min(first + at_once);
        (first..end).for_each(|i| sync(&dir.join(format!("t_{i:06}.ibd"))));
        // In one step: a reader finds the whole number.
        std::fs::write(dir.join("counted"), end.to_string()).unwrap();
        std::fs::rename(dir.join("counted"), dir.join("done")).unwrap();
    }
    File::create(dir.join("end")).unwrap();
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

/// New files whose names are learnt through a map this small. With more at once names are lost, and counted
/// as lost: what_comes_faster_than_it_can_be_named_is_counted_all_the_same.
const AT_ONCE: usize = 1_000;

/// Twenty times as many files as the map holds. Whatever was kept for each file that has gone would show:
/// memory must not grow once the map has been filled several times.
fn through_a_small_map(file: fn(&Path)) {
    let test = Traced::begin(|dir| work(dir, 40_000, AT_ONCE, file));
    let memory = Mounted::tmpfs();
    let (intervals, peaks) = measure(&test, memory.path(), &SMALL);
    println!("peaks {peaks:?} kB");
    check(&intervals, 40_000);
    let (middle, last) = (peaks[peaks.len() / 2], *peaks.last().expect("one at least"));
    assert!(last < MOST_MEMORY_KB && last - middle < GROWTH_KB, "{peaks:?} kB");
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
    let test = Traced::begin(|dir| work(dir, 60_000, AT_ONCE, staying));
    let memory = Mounted::tmpfs();
    let (intervals, peaks) = measure(&test, memory.path(), &[]);
    println!("peaks {peaks:?} kB");
    check(&intervals, 60_000);
    let rows: usize = intervals.iter().map(|interval| interval.files().len()).sum();
    assert_eq!(rows, 60_000, "each file has a row of its own");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_comes_faster_than_it_can_be_named_is_counted_all_the_same() {
    let test = Traced::begin(|dir| {
        work(dir, 200_000, 200_000, short_lived);
    });
    let memory = Mounted::tmpfs();
    let (intervals, peaks) = measure(&test, memory.path(), &SMALL);
    let memory_kb = *peaks.last().expect("one at least");
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
        File::create(dir.join("end")).unwrap();
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
