//! Recordings in real folders: what was written is read, and of what was damaged it is said what is missing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::folder::Tier;
use super::frame::scan;
use super::reader::{Missing, Recording, Window};
use super::segment::Segment;
use super::writer::{LEAST_LIMIT, LIMIT, Writer};
use crate::model::fixture::{MYSQL, busy, hostile, quiet, row, stats, two_servers, with_files};
use crate::model::{Interval, Op, Role};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// The interval of a second that begins so many seconds after the first one.
fn at(second: u64, mut m: Interval) -> Interval {
    m.span.start += seconds(second);
    m.span.end = m.span.start + SECOND;
    m.span.duration = SECOND;
    m.span.monotonic = Duration::from_secs(1_000 + second);
    (m.span.sequence, m.span.parts) = (second, 1);
    m
}

fn small(second: u64) -> Interval {
    let latencies = [(1 + second % 7, 100_000 + 1_000 * (second % 97))];
    let redo = row(MYSQL, 1, "/d/#ib_redo7", Role::Redo, Op::Fdatasync, stats(&latencies));
    at(second, with_files(quiet(), vec![redo], Vec::new()))
}

/// So much of it that a recording of the least size is full after an hour or two.
fn large(second: u64) -> Interval {
    let file = |n: u64| {
        let latencies: Vec<(u64, u64)> =
            (0..20).map(|i| (1 + (second * n + i) % 50, 3_u64.pow(10) * (i + n + 1))).collect();
        row(MYSQL, n, &format!("/d/shop/table_{n}.ibd"), Role::Tablespace, Op::Fsync, stats(&latencies))
    };
    at(second, with_files(quiet(), (0..40).map(file).collect::<Vec<_>>(), Vec::new()))
}

fn record(path: &Path, intervals: impl IntoIterator<Item = Interval>) -> u64 {
    let mut writer = Writer::open(path, LIMIT).unwrap();
    let intervals: Vec<_> = intervals.into_iter().collect();
    intervals.iter().for_each(|m| writer.push(m).unwrap());
    writer.finish().unwrap();
    assert_eq!(writer.written().lost, 0);
    intervals.iter().map(|m| m.total().count).fold(0, u64::saturating_add)
}

fn all(path: &Path) -> Vec<Interval> {
    let (history, is_all) = Recording::open(path).unwrap().history(Window::ALL).unwrap();
    assert!(is_all);
    history.moments().collect()
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn size(path: &Path) -> u64 {
    files(path).iter().map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn what_was_recorded_is_read_as_it_was_also_before_the_recording_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(directory.path(), LIMIT).unwrap();
    let kinds: [fn() -> Interval; 3] = [quiet, busy, two_servers];
    let recorded: Vec<Interval> = (0..25).map(|n| at(n, kinds[n as usize % 3]())).collect();
    for m in &recorded {
        writer.push(m).unwrap();
    }
    let expected: Vec<Interval> = recorded.iter().map(|m| super::limit::limited(m, 500)).collect();
    assert_eq!(all(directory.path()), expected);
    writer.finish().unwrap();
    assert_eq!(all(directory.path()), expected);
    assert_eq!(Recording::open(directory.path()).unwrap().missing(), []);
    assert!(files(directory.path()).iter().all(|file| !file.to_string_lossy().contains("plain")));
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), [at(0, hostile())]);
    assert_eq!(all(directory.path()), [super::limit::limited(&at(0, hostile()), 500)]);
}

#[test]
fn a_window_has_the_intervals_that_lie_in_it() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), (0..700).map(small));
    let begin = quiet().span.start;
    let of = |from: u64, to: u64| {
        let window = Window::Span { from: Some(begin + seconds(from)), to: Some(begin + seconds(to)) };
        let (history, _) = Recording::open(directory.path()).unwrap().history(window).unwrap();
        history.moments().map(|m| m.span.sequence).collect::<Vec<_>>()
    };
    assert_eq!(of(0, 3), [0, 1, 2]);
    // Over the end of a segment.
    assert_eq!(of(598, 603), [598, 599, 600, 601, 602]);
    assert_eq!(of(700, 800), [] as [u64; 0]);
}

#[test]
fn a_recorder_that_is_killed_loses_nothing_that_it_had_written_and_another_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(directory.path(), LIMIT).unwrap();
    (0..15).for_each(|n| writer.push(&small(n)).unwrap());
    let killed = tempfile::tempdir().unwrap();
    for file in files(directory.path()) {
        std::fs::copy(&file, killed.path().join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(all(killed.path()).len(), 15);
    record(killed.path(), (20..30).map(small));
    let sequences: Vec<u64> = all(killed.path()).iter().map(|m| m.span.sequence).collect();
    assert_eq!(sequences, (0..15).chain(20..30).collect::<Vec<_>>());
    let missing = Recording::open(killed.path()).unwrap().missing();
    let begin = quiet().span.start;
    assert_eq!(missing, [Missing::Gap { from: begin + seconds(15), to: begin + seconds(20) }]);
    // What had only begun of the coarser intervals is written by the next one.
    let total: u64 = all(killed.path()).iter().map(|m| m.total().count).sum();
    for tier in ["all-", "10s-"] {
        for file in files(killed.path()) {
            if file.file_name().unwrap().to_string_lossy().starts_with(tier) {
                std::fs::remove_file(file).unwrap();
            }
        }
        assert_eq!(all(killed.path()).iter().map(|m| m.total().count).sum::<u64>(), total, "without {tier}");
    }
    // Killed while it compressed: both files are there, and either may be the one that is whole.
    for length in [0, 100, u64::MAX] {
        let both = tempfile::tempdir().unwrap();
        record(both.path(), (0..15).map(small));
        let compact = both.path().join("all-00000000.fst");
        let file = std::fs::OpenOptions::new().write(true).open(&compact).unwrap();
        file.set_len(length.min(file.metadata().unwrap().len())).unwrap();
        std::fs::copy(
            directory.path().join("all-00000000-plain.fst"),
            both.path().join("all-00000000-plain.fst"),
        )
        .unwrap();
        assert_eq!(all(both.path()).len(), 15, "{length}");
        drop(Writer::open(both.path(), LIMIT).unwrap());
        assert_eq!(all(both.path()).len(), 15, "{length}");
        assert_eq!(files(both.path()).len(), 3, "{length}");
    }
}

const RECORDER: &str = "FSYNCTOP_TEST_RECORDER";

/// Of a minute each: a segment is complete after ten of them.
fn minute(number: u64) -> Interval {
    let mut m = small(60 * number);
    m.span.duration = seconds(60);
    m.span.end = m.span.start + seconds(60);
    m.span.monotonic = seconds(1_000 + 60 * number);
    m.span.sequence = number;
    m
}

/// This test is also the program that it kills: one that records as fast as it can, and says what it has
/// written.
#[test]
fn a_hundred_kills_at_any_moment_cost_nothing_that_was_written() {
    if let Some(path) = std::env::var_os(RECORDER) {
        let mut writer = Writer::open(path.as_ref(), LIMIT).unwrap();
        for number in 0.. {
            writer.push(&minute(number)).unwrap();
            println!("written {number}");
        }
    }
    let name = "recording::recording_tests::a_hundred_kills_at_any_moment_cost_nothing_that_was_written";
    let mut most = 0;
    for kill in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let mut recorder = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(RECORDER, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(recorder.stdout.take().unwrap()).lines();
        let number = |line: &str| line.strip_prefix("written ").map(|number| number.parse::<u64>().unwrap());
        let mut last = None;
        // At another moment each time, from the first interval to the end of the fourth segment.
        while last.is_none_or(|last| last < kill * 2 / 5) {
            last = number(&said.next().unwrap().unwrap()).or(last);
        }
        std::thread::sleep(Duration::from_micros(kill * 37 % 1_000));
        recorder.kill().unwrap();
        let rest = said.map_while(Result::ok).filter_map(|line| number(&line)).last();
        recorder.wait().unwrap();
        let last = rest.or(last).unwrap();
        let sequences: Vec<u64> = all(directory.path()).iter().map(|m| m.span.sequence).collect();
        let there = sequences.len() as u64;
        assert_eq!(sequences, (0..there).collect::<Vec<_>>(), "kill {kill}");
        assert!(there > last, "{there} intervals, though {last} had been written at kill {kill}");
        most = most.max(there);
    }
    assert!(most > 30, "no kill came behind the end of a segment: {most}");
}

/// What any byte of the file costs: its own intervals, and no other's.
#[test]
fn a_damaged_byte_costs_what_it_hits_and_is_told() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), (0..30).map(small));
    let path = directory.path().join("all-00000000.fst");
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() <= 8 << 10, "{} bytes", whole.len());
    let expected = all(directory.path());
    let frames = scan(&whole).0.len();
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (left, damages) = scan(&flipped);
        assert!(left.len() == frames - 1 && !damages.is_empty(), "bit {bit}");
        // Of each byte another bit.
        if bit % 9 > 0 {
            continue;
        }
        let segment = Segment::read(flipped);
        let left: Vec<Interval> = (0..segment.len()).map(|at| segment.interval(at, None).unwrap()).collect();
        assert!(left.len() == 30 || left.len() == 20, "bit {bit}: {}", left.len());
        assert!(left.iter().all(|m| expected.contains(m)), "bit {bit}");
    }
    for byte in (0..whole.len()).step_by(97) {
        let mut flipped = whole.clone();
        flipped[byte] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        let missing = Recording::open(directory.path()).unwrap().missing();
        assert!(missing.iter().any(|one| matches!(one, Missing::Damaged { .. })), "byte {byte}: {missing:?}");
    }
    for length in 0..whole.len() {
        let segment = Segment::read(whole[..length].to_vec());
        let left = (0..segment.len()).filter_map(|at| segment.interval(at, None));
        assert!(left.into_iter().all(|m| expected.contains(&m)), "{length} bytes");
    }
}

#[test]
fn a_segment_that_is_gone_is_told_and_costs_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let total = record(directory.path(), (0..1_900).map(small));
    let path = directory.path().join("all-00000001.fst");
    std::fs::remove_file(path).unwrap();
    let recording = Recording::open(directory.path()).unwrap();
    let missing = recording.missing();
    assert_eq!(missing, [Missing::Segments { tier: Tier::All, first: 1, last: 1 }]);
    // Of its time there is less detail, and nothing else is.
    let moments = all(directory.path());
    assert_eq!(moments.len(), 1_300 + 60);
    assert!(moments.windows(2).all(|pair| pair[0].span.end <= pair[1].span.start), "out of order");
    assert_eq!(moments.iter().map(|m| m.total().count).sum::<u64>(), total);
}

#[test]
fn the_limit_holds_at_every_instant_and_the_past_gets_coarser_before_it_goes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(directory.path(), 0).unwrap();
    let mut counts: Vec<u64> = Vec::new();
    for second in 0..4_000 {
        let mut m = large(second);
        // Of five seconds each: five hours and more in all.
        m.span.start = quiet().span.start + seconds(5 * second);
        m.span.end = m.span.start + seconds(5);
        m.span.duration = seconds(5);
        m.span.monotonic = seconds(1_000 + 5 * (second + 1));
        counts.push(m.total().count);
        writer.push(&m).unwrap();
        if second % 10 == 0 {
            let size = size(directory.path());
            assert!(size <= LEAST_LIMIT, "{size} bytes after {second} s");
        }
    }
    writer.finish().unwrap();
    assert_eq!(writer.written().lost, 0);
    assert!(size(directory.path()) <= LEAST_LIMIT);
    let recording = Recording::open(directory.path()).unwrap();
    let since = |tier| recording.since(tier).unwrap().duration_since(quiet().span.start).unwrap().as_secs();
    let [fine, ten, minute] = Tier::ALL.map(since);
    assert!(minute < ten && ten < fine, "{minute} {ten} {fine}");
    // Each time is there once, in its finest detail, and nothing of it is lost.
    let moments = all(directory.path());
    let mut end: Option<SystemTime> = None;
    for m in &moments {
        assert!(end.is_none_or(|end| end == m.span.start), "{:?}", m.span);
        end = Some(m.span.end);
    }
    let first = minute as usize / 5;
    assert_eq!(moments.iter().map(|m| m.total().count).sum::<u64>(), counts[first..].iter().sum::<u64>());
    let redone = moments.iter().map(|m| m.span.duration).sum::<Duration>();
    assert_eq!(redone, seconds(20_000 - minute));
}

/// The finer tier's own intervals, merged.
#[test]
fn a_merged_interval_is_what_its_parts_are_together() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), (0..120).map(|n| at(n, if n % 3 == 0 { busy() } else { two_servers() })));
    let fine = all(directory.path());
    for file in files(directory.path()) {
        if file.file_name().unwrap().to_string_lossy().starts_with("all-") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let ten = all(directory.path());
    assert_eq!(ten.len(), 12);
    for (merged, parts) in ten.iter().zip(fine.chunks(10)) {
        let together = parts.iter().cloned().reduce(|mut sum, next| {
            sum.append(next);
            sum
        });
        let together = together.unwrap();
        assert_eq!((merged.span, merged.total()), (together.span, together.total()));
        assert_eq!((&merged.roles, &merged.files), (&together.roles, &together.files));
    }
}

#[test]
fn an_interval_too_short_or_too_long_for_a_tier_is_in_it_as_well() {
    let directory = tempfile::tempdir().unwrap();
    // From one to the next there are 7 s, 70 s in all.
    let long = |n: u64| {
        let mut m = small(n * 7);
        m.span.duration = seconds(7);
        m.span.start = m.span.end - seconds(7);
        m
    };
    let total = record(directory.path(), (1..11).map(long));
    for tier in ["all-", "10s-"] {
        assert_eq!(
            all(directory.path()).iter().map(|m| m.total().count).sum::<u64>(),
            total,
            "before {tier}"
        );
        for file in files(directory.path()) {
            if file.file_name().unwrap().to_string_lossy().starts_with(tier) {
                std::fs::remove_file(file).unwrap();
            }
        }
    }
    assert_eq!(all(directory.path()).iter().map(|m| m.total().count).sum::<u64>(), total);
}

/// Whatever the interval is, and however late one of them is.
#[test]
fn no_time_is_lost_between_two_details() {
    for length in [3_000, 700, 1_000] {
        let directory = tempfile::tempdir().unwrap();
        let mut begin = Duration::ZERO;
        let interval = |n: u64| {
            // One in nine is late, and the next one early.
            let late = [400, 0, 0, 0, 0, 0, 0, 0, 0][n as usize % 9];
            let early = [0, 400, 0, 0, 0, 0, 0, 0, 0][n as usize % 9];
            let mut m = small(n);
            m.span.duration = Duration::from_millis(length + late - early);
            m.span.start = quiet().span.start + begin;
            m.span.end = m.span.start + m.span.duration;
            begin += m.span.duration;
            m.span.monotonic = seconds(1_000) + begin;
            m
        };
        let total = record(directory.path(), (0..2_500).map(interval));
        let all_of = || all(directory.path()).iter().map(|m| m.total().count).sum::<u64>();
        assert_eq!(all_of(), total);
        let mut removed = 0;
        // The oldest go first, the finest of all before.
        for tier in ["all-", "10s-"] {
            let of_tier = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().starts_with(tier);
            for file in files(directory.path()).into_iter().filter(of_tier) {
                std::fs::remove_file(file).unwrap();
                removed += 1;
                assert_eq!(all_of(), total, "{length} ms, without {removed} segments");
            }
        }
        assert!(removed >= 4, "{removed}");
    }
}

#[test]
fn a_recording_from_a_stranger_is_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let mut m = at(0, busy());
    let escape = "\u{1b}]0;x\u{7}\u{9b}31m";
    std::sync::Arc::make_mut(&mut m.setup).note = Some(escape.into());
    std::sync::Arc::make_mut(&mut m.setup).host = escape.into();
    let server = std::sync::Arc::make_mut(&mut m.servers[0]);
    server.name = escape.into();
    let engine = std::sync::Arc::make_mut(server.engine.as_mut().unwrap());
    engine.title = escape.into();
    engine.words.who = escape.into();
    record(directory.path(), [m.clone()]);
    let read = all(directory.path()).remove(0);
    let (setup, server) = (&read.setup, &read.servers[0]);
    let engine = server.engine.as_ref().unwrap();
    for text in [setup.note.as_ref().unwrap(), &setup.host, &*server.name, &engine.title, &engine.words.who] {
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
    }
    // Figures beyond anything cost the interval, and end nothing.
    let directory = tempfile::tempdir().unwrap();
    m.roles[0].stats.count = u64::MAX;
    record(directory.path(), [m, at(1, busy())]);
    let (history, _) = Recording::open(directory.path()).unwrap().history(Window::ALL).unwrap();
    assert_eq!(history.moments().count(), 1);
}
