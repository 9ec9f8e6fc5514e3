//! Runs one case: threads that repeatedly write a block and make it durable.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::scratch::Scratch;
use crate::linux::lock;
use crate::model::histogram::{Histogram, bucket_of};
use crate::sync_cost::plan::{Case, Method, Pattern};
use crate::sync_cost::{CalibrateError, Figures, Outcome, Place};

/// Maximum total size of all files.
const MAX_BYTES: u64 = 64 << 20;
/// The size of one write: a block of a redo log, or a small group of binary-log events.
pub(super) const BLOCK: usize = 4096;
/// The part of the file that is overwritten in turn.
const OVERWRITTEN: u64 = 64 * BLOCK as u64;
/// Uncounted writes at the start: they allocate blocks and warm up the device.
const WARM_UP: u64 = 3;

/// Runs the case. There are no figures if the filesystem does not support the method.
pub fn run(place: &Place, case: Case, each: Duration, stop: &AtomicBool) -> Result<Outcome, CalibrateError> {
    let files = if case.file_each { case.threads } else { 1 };
    let scratches: Result<Vec<Scratch>, _> = (0..files).map(|_| Scratch::create(&place.directory)).collect();
    let scratches = scratches?;
    let mut opened = Vec::new();
    for scratch in &scratches {
        match scratch.open_for(case.method) {
            Ok(file) => opened.push(file),
            // tmpfs and some FUSE filesystems do not support O_DIRECT.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let refused = Some(format!("{} is not supported here", case.method.name()));
                return Ok(Outcome { case, figures: None, refused });
            }
            Err(error) => return Err(CalibrateError::io(scratch.path(), "open it")(error)),
        }
    }
    let path = scratches[0].path();
    let lanes: Vec<Lane> =
        opened.into_iter().map(|file| Lane::new(file, case, MAX_BYTES / u64::from(files))).collect();
    for lane in &lanes {
        lane.prepare().map_err(CalibrateError::io(path, "write to it"))?;
    }
    let journal = place.kernel_device.as_deref().and_then(Journal::of);
    let commits = || journal.as_ref().and_then(Journal::commits);
    let before = commits();
    let sum = run_threads(case, &lanes, each, stop).map_err(CalibrateError::io(path, "write to it"))?;
    let journal_commits = before.zip(commits()).map(|(before, after)| after.saturating_sub(before));
    Ok(Outcome { case, figures: figures(&sum, journal_commits), refused: None })
}

/// The latencies of the threads, and the time in which they ran: it ends with their last write, whenever the
/// thread that started them gets a processor.
#[derive(Default)]
struct Sum {
    histogram: Histogram,
    sum_ns: u64,
    max_ns: u64,
    ran: Option<(Instant, Instant)>,
}

impl Sum {
    fn took(&self) -> Duration {
        self.ran.map_or(Duration::ZERO, |(began, ended)| ended.duration_since(began))
    }

    fn add(&mut self, other: &Sum) {
        self.histogram.merge(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.ran = match (self.ran, other.ran) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
    }
}

fn figures(sum: &Sum, journal_commits: Option<u64>) -> Option<Figures> {
    let syncs = sum.histogram.count();
    let seconds = |ns: u64| ns as f64 / 1e9;
    // The exact maximum limits the estimate from a bucket's midpoint.
    let quantile = |q| sum.histogram.quantile(q).map(|ns| seconds(ns.min(sum.max_ns)));
    Some(Figures {
        syncs,
        syncs_per_second: syncs as f64 / sum.took().as_secs_f64().max(1e-9),
        mean_seconds: seconds(sum.sum_ns.checked_div(syncs)?),
        p50_seconds: quantile(0.5)?,
        p99_seconds: quantile(0.99)?,
        max_seconds: seconds(sum.max_ns),
        journal_commits,
    })
}

/// One file, and the position of its next write.
struct Lane {
    file: File,
    case: Case,
    next: AtomicU64,
    /// Number of blocks that may be written.
    blocks: u64,
}

impl Lane {
    fn new(file: File, case: Case, bytes: u64) -> Lane {
        let blocks = match case.pattern {
            Pattern::Overwritten => bytes.min(OVERWRITTEN) / BLOCK as u64,
            Pattern::Appended => bytes / BLOCK as u64,
        };
        Lane { file, case, next: AtomicU64::new(0), blocks }
    }

    fn prepare(&self) -> std::io::Result<()> {
        let buffer = Buffer::default();
        let blocks = if self.case.pattern == Pattern::Overwritten { self.blocks } else { 0 };
        for block in 0..blocks {
            self.file.write_all_at(buffer.block(), block * BLOCK as u64)?;
        }
        self.file.sync_all()?;
        for _ in 0..WARM_UP {
            self.write_and_sync(&buffer)?;
        }
        Ok(())
    }

    /// False: the file has reached its maximum size.
    fn write_and_sync(&self, buffer: &Buffer) -> std::io::Result<bool> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let block = match self.case.pattern {
            Pattern::Overwritten => number % self.blocks,
            Pattern::Appended if number >= self.blocks => return Ok(false),
            Pattern::Appended => number,
        };
        self.file.write_all_at(buffer.block(), block * BLOCK as u64)?;
        match self.case.method {
            Method::Fsync => self.file.sync_all()?,
            Method::Fdatasync | Method::ODirect => self.file.sync_data()?,
            Method::ODsync | Method::OSync => {}
        }
        Ok(true)
    }
}

/// A block in memory, aligned for O_DIRECT.
struct Buffer {
    bytes: Vec<u8>,
    at: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        let bytes = vec![0x5a; 2 * BLOCK];
        let at = bytes.as_ptr().align_offset(BLOCK);
        Buffer { bytes, at }
    }
}

impl Buffer {
    fn block(&self) -> &[u8] {
        &self.bytes[self.at..self.at + BLOCK]
    }
}

/// Runs all threads from the same moment on, until the time is over, a file is full, or `stop` is set.
fn run_threads(case: Case, lanes: &[Lane], each: Duration, stop: &AtomicBool) -> std::io::Result<Sum> {
    // Locked for writing until all threads exist.
    let gate = RwLock::new(());
    let over = AtomicBool::new(false);
    let results: Mutex<Vec<std::io::Result<Sum>>> = Mutex::default();
    std::thread::scope(|scope| -> std::io::Result<()> {
        let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
        for number in 0..case.threads as usize {
            let lane = &lanes[number % lanes.len()];
            let (gate, over, results) = (&gate, &over, &results);
            let task = move || {
                drop(gate.read());
                let result = repeat(lane, over, stop);
                // A full file ends the case for all threads: the figures are those of all of them at work.
                over.store(true, Ordering::Relaxed);
                lock(results).push(result);
            };
            let thread = std::thread::Builder::new().name("calibrate".into());
            if let Err(error) = thread.spawn_scoped(scope, task) {
                over.store(true, Ordering::Relaxed); // for the threads still at the gate
                return Err(error);
            }
        }
        drop(closed);
        let began = Instant::now();
        while began.elapsed() < each && !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2).min(each));
        }
        over.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    let mut sum = Sum::default();
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        sum.add(&result?);
    }
    Ok(sum)
}

fn repeat(lane: &Lane, over: &AtomicBool, stop: &AtomicBool) -> std::io::Result<Sum> {
    let buffer = Buffer::default();
    let mut sum = Sum::default();
    while !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        if !lane.write_and_sync(&buffer)? {
            break;
        }
        let ended = Instant::now();
        let ns = u64::try_from(ended.duration_since(began).as_nanos()).unwrap_or(u64::MAX);
        sum.histogram.add(bucket_of(ns), 1);
        sum.sum_ns += ns;
        sum.max_ns = sum.max_ns.max(ns);
        sum.ran = Some((sum.ran.map_or(began, |(first, _)| first), ended));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(case: Case) -> (Outcome, u64) {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = Place::inspect(directory.path()).unwrap();
        // On a crowded disk a sync takes longer than a moment, which then has none.
        let mut outcomes = [50, 500, 5_000]
            .into_iter()
            .map(|time| run(&place, case, Duration::from_millis(time), &AtomicBool::new(false)).unwrap());
        let outcome = outcomes.find(|outcome| outcome.figures.is_some()).expect("a sync within seconds");
        (outcome, std::fs::read_dir(directory.path()).unwrap().count() as u64)
    }

    #[test]
    fn each_method_is_measured_and_nothing_stays() {
        for method in Method::ALL {
            for pattern in Pattern::ALL {
                let (outcome, left) = measured(Case::alone(method, pattern));
                let figures = outcome.figures.unwrap();
                assert!(figures.syncs > 0 && figures.p50_seconds <= figures.max_seconds, "{figures:?}");
                assert_eq!(left, 0);
            }
        }
        for file_each in [false, true] {
            let case = Case { threads: 4, file_each, ..Case::alone(Method::Fdatasync, Pattern::Appended) };
            let (outcome, left) = measured(case);
            assert!(outcome.figures.unwrap().syncs > 0 && left == 0);
        }
    }

    /// In memory a file is full before the thread that started the others runs again.
    #[test]
    fn no_more_is_done_in_a_second_than_the_threads_can_do_one_after_the_other() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let place = Place::inspect(directory.path()).unwrap();
        for file_each in [false, true] {
            let case = Case { threads: 64, file_each, ..Case::alone(Method::Fdatasync, Pattern::Appended) };
            let outcome = run(&place, case, Duration::from_millis(300), &AtomicBool::new(false)).unwrap();
            let figures = outcome.figures.unwrap();
            let most = f64::from(case.threads) / figures.mean_seconds;
            assert!(figures.syncs_per_second <= 1.001 * most, "{figures:?}");
        }
    }

    #[test]
    fn a_file_never_grows_beyond_its_part() {
        let case = Case::alone(Method::Fdatasync, Pattern::Appended);
        let file = tempfile::tempfile().unwrap();
        let lane = Lane::new(file, case, 5 * BLOCK as u64 + 7);
        let buffer = Buffer::default();
        let written = (0..20).filter(|_| lane.write_and_sync(&buffer).unwrap()).count();
        assert_eq!((written, lane.file.metadata().unwrap().len()), (5, 5 * BLOCK as u64));
        let case = Case::alone(Method::Fdatasync, Pattern::Overwritten);
        let lane = Lane::new(tempfile::tempfile().unwrap(), case, MAX_BYTES);
        lane.prepare().unwrap();
        assert!((0..200).all(|_| lane.write_and_sync(&buffer).unwrap()));
        assert_eq!(lane.file.metadata().unwrap().len(), OVERWRITTEN);
    }
}
