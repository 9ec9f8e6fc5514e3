//! What one thread does: sync after sync on its targets, counting each.

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use memmap2::MmapRaw;

use crate::call::{self, Op};
use crate::count::{Count, new_histogram};

/// Every file's first page exists before the load begins, so that msync has something to map.
pub const FILE_BYTES: usize = 4096;

pub struct Target {
    pub path: PathBuf,
    /// As stat has it at the start: a filesystem that has failed tells no more.
    pub device: u64,
    pub inode: u64,
    file: File,
    mapping: Option<MmapRaw>,
    /// Where the next write goes if it appends.
    end: AtomicU64,
}

impl Target {
    /// `durable`: each write is durable when it returns, the first page's as well.
    pub fn create(path: PathBuf, mapped: bool, durable: bool) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.custom_flags(if durable { libc::O_DSYNC } else { 0 });
        let file = options.open(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.write_all_at(&[b's'; FILE_BYTES], 0)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let mapping = mapped.then(|| call::map(file.as_raw_fd(), FILE_BYTES)).transpose();
        let mapping = mapping.with_context(|| format!("cannot map {}", path.display()))?;
        let metadata = file.metadata().with_context(|| format!("cannot stat {}", path.display()))?;
        Ok(Target {
            device: metadata.dev(),
            inode: metadata.ino(),
            path,
            file,
            mapping,
            end: AtomicU64::new(FILE_BYTES as u64),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The files take turns.
    Shared,
    /// Each sync has a file of its own, which is unlinked and closed at once.
    UnlinkAfter,
    /// Two files take turns on one descriptor number.
    Reopen,
    /// No descriptor is open.
    BadFd,
}

pub struct Plan {
    pub mode: Mode,
    pub ops: Vec<Op>,
    pub directory: PathBuf,
    pub targets: Vec<Target>,
    /// Per thread; without it, until `stop`.
    pub syncs: Option<u64>,
    /// Bytes written before each sync.
    pub write_bytes: usize,
    /// Each write goes behind the one before it, so that the file grows; else to the file's beginning.
    pub append: bool,
    /// A write that fails does not end the load: it is counted, and the sync that follows is made.
    pub keep_going: bool,
    pub measure_latency: bool,
    pub stop: AtomicBool,
}

/// One thread's counts: `counts[file][operation]`, in the plan's order; one row where files are not told
/// apart.
pub struct Outcome {
    pub counts: Vec<Vec<Count>>,
    pub latency: Vec<Histogram<u64>>,
    pub files_created: u64,
    /// That succeeded, on files that stay.
    pub writes: u64,
    pub failed_writes: u64,
}

impl Plan {
    /// `pause`: what to wait for, once so many syncs are made.
    pub fn run(&self, thread: usize, pause: Option<(u64, &dyn Fn())>) -> Result<Outcome> {
        let rows = self.targets.len().max(1);
        let latencies = if self.measure_latency { self.ops.len() } else { 0 };
        let mut outcome = Outcome {
            counts: vec![vec![Count::default(); self.ops.len()]; rows],
            latency: (0..latencies).map(|_| new_histogram()).collect(),
            files_created: 0,
            writes: 0,
            failed_writes: 0,
        };
        let data = vec![b'd'; self.write_bytes];
        let mut descriptor = None;
        let mut done = 0;
        while self.syncs.is_none_or(|syncs| done < syncs) && !self.stop.load(Ordering::Relaxed) {
            if let Some((_, wait)) = pause.filter(|(after, _)| *after == done) {
                wait();
            }
            // Every operation meets every file: the operation advances once the files have had their turn.
            let turn = thread as u64 + done;
            let row = (turn % rows as u64) as usize;
            let op_index = ((done / rows as u64) % self.ops.len() as u64) as usize;
            match self.mode {
                Mode::BadFd => self.sync(&mut outcome, row, op_index, -1, None),
                Mode::Shared => {
                    let target = &self.targets[row];
                    let place = match self.append {
                        true => target.end.fetch_add(data.len() as u64, Ordering::Relaxed),
                        false => 0,
                    };
                    match write(&target.file, &data, place, &target.path) {
                        Err(_) if self.keep_going => outcome.failed_writes += 1,
                        written => {
                            written?;
                            outcome.writes += u64::from(!data.is_empty());
                        }
                    }
                    self.sync(&mut outcome, row, op_index, target.file.as_raw_fd(), target.mapping.as_ref());
                }
                Mode::Reopen => {
                    let path = &self.targets[row].path;
                    let file = OpenOptions::new().read(true).write(true).open(path);
                    let file = file.with_context(|| format!("cannot reopen {}", path.display()))?;
                    let number = *descriptor.get_or_insert(file.as_raw_fd());
                    ensure!(file.as_raw_fd() == number, "descriptor {number} became {}", file.as_raw_fd());
                    write(&file, &data, 0, path)?;
                    self.sync(&mut outcome, row, op_index, number, None);
                }
                Mode::UnlinkAfter => {
                    let path = self.directory.join(format!("short-lived-{thread}-{done}"));
                    let mapped = self.ops[op_index] == Op::Msync;
                    let target = Target::create(path, mapped, false)?;
                    outcome.files_created += 1;
                    self.sync(&mut outcome, row, op_index, target.file.as_raw_fd(), target.mapping.as_ref());
                    remove_file(&target.path)
                        .with_context(|| format!("cannot unlink {}", target.path.display()))?;
                }
            }
            done += 1;
        }
        Ok(outcome)
    }

    fn sync(&self, outcome: &mut Outcome, row: usize, op: usize, fd: i32, mapping: Option<&MmapRaw>) {
        let began = self.measure_latency.then(Instant::now);
        let result = call::sync(self.ops[op], fd, mapping);
        if let Some(began) = began {
            outcome.latency[op].saturating_record(began.elapsed().as_nanos() as u64);
        }
        outcome.counts[row][op].record(&result);
    }
}

fn write(file: &File, data: &[u8], place: u64, path: &Path) -> Result<()> {
    let written = if data.is_empty() { Ok(()) } else { file.write_all_at(data, place) };
    written.map_err(|error: io::Error| {
        anyhow::Error::new(error).context(format!("cannot write {}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(mode: Mode, files: usize) -> (Plan, PathBuf) {
        let name = format!("syncgen-test-{}-{mode:?}-{files}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let create =
            |number| Target::create(directory.join(format!("sync-{number}")), false, false).expect("a file");
        let plan = Plan {
            mode,
            ops: vec![Op::Fsync, Op::Fdatasync],
            directory: directory.clone(),
            targets: (0..files).map(create).collect(),
            syncs: Some(12),
            write_bytes: 1,
            append: false,
            keep_going: false,
            measure_latency: true,
            stop: AtomicBool::new(false),
        };
        (plan, directory)
    }

    fn calls(outcome: &Outcome) -> Vec<Vec<u64>> {
        outcome.counts.iter().map(|row| row.iter().map(|count| count.calls).collect()).collect()
    }

    #[test]
    fn every_file_gets_its_exact_share_of_each_operation() {
        let (plan, directory) = plan(Mode::Shared, 2);
        let outcome = plan.run(1, None).expect("a temporary directory can be synced");
        assert_eq!(calls(&outcome), [[3, 3], [3, 3]]);
        assert_eq!(outcome.latency[0].len() + outcome.latency[1].len(), 12);
        std::fs::remove_dir_all(directory).expect("it is ours");
    }

    #[test]
    fn appended_files_grow_by_each_write_and_overwritten_ones_do_not() {
        let (plan, directory) = plan(Mode::Shared, 3);
        let outcome = plan.run(0, None).expect("a temporary directory can be synced");
        assert_eq!(outcome.writes, 12);
        let lengths = |plan: &Plan| -> u64 {
            plan.targets.iter().map(|target| target.file.metadata().expect("it is open").len()).sum()
        };
        assert_eq!(lengths(&plan), 3 * FILE_BYTES as u64);
        let plan = Plan { append: true, ..plan };
        plan.run(0, None).expect("a temporary directory can be synced");
        assert_eq!(lengths(&plan), 3 * FILE_BYTES as u64 + 12);
        std::fs::remove_dir_all(directory).expect("it is ours");
    }

    #[test]
    fn a_write_that_fails_ends_the_load_unless_it_is_to_be_kept_going() {
        let (mut plan, directory) = plan(Mode::Shared, 1);
        plan.targets[0].file = File::open(&plan.targets[0].path).expect("it was just created");
        assert!(plan.run(0, None).is_err());
        let plan = Plan { keep_going: true, ..plan };
        let outcome = plan.run(0, None).expect("a temporary directory can be synced");
        assert_eq!((outcome.failed_writes, calls(&outcome)), (12, vec![vec![6, 6]]));
        std::fs::remove_dir_all(directory).expect("it is ours");
    }

    #[test]
    fn short_lived_files_leave_nothing_and_bad_descriptors_all_fail() {
        let (plan, directory) = plan(Mode::UnlinkAfter, 0);
        let outcome = plan.run(0, None).expect("a temporary directory can be synced");
        assert_eq!((outcome.files_created, calls(&outcome)), (12, vec![vec![6, 6]]));
        assert_eq!(std::fs::read_dir(&directory).expect("it is ours").count(), 0);
        std::fs::remove_dir(&directory).expect("it is empty");
        let plan = Plan { mode: Mode::BadFd, ..plan };
        let outcome = plan.run(0, None).expect("nothing is opened");
        assert_eq!(outcome.counts[0][0].errors.get("EBADF"), Some(&6));
    }
}
