//! The load itself: threads that stay, so that what a tracer keeps for a thread stays too.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use io_uring::{IoUring, opcode, types};
use nix::sched::{CloneFlags, unshare};
use rustix::process::getppid;
use rustix::thread::{CpuSet, sched_setaffinity, set_name};

use crate::aio;
use crate::load::{Call, Done, Files, Round};
use crate::stats::median;

/// Calls between two looks at the clock, so that the clock costs next to nothing.
const BATCH: usize = 64;
/// What is written at a time, and how long a file gets.
const BLOCK: u64 = 4096;
const LONGEST: u64 = 32 << 20;
/// With a rate, calls come in bursts: this often at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

struct Job {
    round: Round,
    number: usize,
    start: Arc<Barrier>,
    results: Sender<Result<Part>>,
}

/// What one thread did.
struct Part {
    calls: u64,
    seconds: f64,
    batches_ns: Vec<u32>,
    /// Calls in each of these.
    batch: usize,
}

/// Answers requests on standard input until it ends. `disk`: the second directory. `split`: each thread has a
/// table of descriptors of its own.
pub fn serve(name: &str, directory: &Path, disk: Option<&Path>, split: bool) -> Result<()> {
    let c_name = std::ffi::CString::new(name)?;
    set_name(&c_name).context("cannot set the name of the process")?;
    let places = Places { memory: directory.join(name), disk: disk.map(|disk| disk.join(name)) };
    for place in std::iter::once(&places.memory).chain(&places.disk) {
        std::fs::create_dir_all(place).context("cannot make the directory of the files")?;
    }
    let mut load = Threads { workers: Vec::new(), places, split };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(name)?)?;
    for line in std::io::stdin().lock().lines() {
        let done = load.run(serde_json::from_str(&line?)?)?;
        writeln!(out, "{}", serde_json::to_string(&done)?)?;
    }
    Ok(())
}

struct Threads {
    workers: Vec<Sender<Job>>,
    places: Places,
    split: bool,
}

/// Where files are made.
#[derive(Clone)]
struct Places {
    memory: PathBuf,
    disk: Option<PathBuf>,
}

impl Threads {
    fn run(&mut self, round: Round) -> Result<Done> {
        while self.workers.len() < round.threads {
            let (sender, jobs) = channel();
            let (places, split) = (self.places.clone(), self.split);
            // Without a name of its own, so that it has the process's, as bpftrace's filter wants it.
            let work = move || Worker::default().work(&jobs, &places, split);
            thread::Builder::new().spawn(work).context("cannot start a thread")?;
            self.workers.push(sender);
        }
        let (results, parts) = channel();
        let start = Arc::new(Barrier::new(round.threads));
        for (number, worker) in self.workers[..round.threads].iter().enumerate() {
            let job = Job { round, number, start: start.clone(), results: results.clone() };
            worker.send(job).map_err(|_| anyhow!("a thread has ended"))?;
        }
        drop(results);
        let (mut calls, mut seconds, mut batches) = (0, 0.0f64, Vec::new());
        for part in parts {
            let part = part?;
            calls += part.calls;
            seconds = seconds.max(part.seconds);
            batches.extend(part.batches_ns.iter().map(|&ns| f64::from(ns) / part.batch as f64));
        }
        let ns_per_call = if batches.is_empty() { 0.0 } else { median(&mut batches) };
        Ok(Done { calls, seconds, ns_per_call })
    }
}

/// A thread, with the files that it has open.
#[derive(Default)]
struct Worker {
    kind: Kind,
    first: usize,
    files: Vec<File>,
    ring: Option<IoUring>,
}

/// What is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    InMemory,
    OnDisk,
    /// In memory, with O_DSYNC.
    Durable,
    Null,
}

impl Kind {
    fn of(call: Call) -> Kind {
        match call {
            Call::FsyncOnDisk => Kind::OnDisk,
            Call::DurableWrite | Call::AioDurableWrite => Kind::Durable,
            Call::NullWrite => Kind::Null,
            _ => Kind::InMemory,
        }
    }

    fn open(self, places: &Places, number: usize) -> Result<File> {
        let (directory, flags) = match self {
            Kind::InMemory => (&places.memory, 0),
            Kind::Durable => (&places.memory, libc::O_DSYNC),
            Kind::OnDisk => (places.disk.as_ref().context("no directory on a disk")?, 0),
            Kind::Null => return Ok(File::create("/dev/null")?),
        };
        let path = directory.join(format!("sync-{number}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(flags);
        options.open(&path).with_context(|| format!("cannot create {}", path.display()))
    }
}

impl Worker {
    fn work(mut self, jobs: &Receiver<Job>, places: &Places, split: bool) {
        let mut prepared = if split { unshare(CloneFlags::CLONE_FILES).map_err(Into::into) } else { Ok(()) };
        for Job { round, number, start, results } in jobs {
            prepared = prepared.and_then(|()| {
                pin(number % round.cpus)?;
                self.open(Kind::of(round.call), files_of(&round, number), places)
            });
            start.wait();
            let part = match &prepared {
                Err(error) => Err(anyhow!("{error:#}")),
                Ok(()) => self.round(&round).context("a call failed"),
            };
            // The other side has gone only if another thread failed.
            let _ = results.send(part);
        }
    }

    /// Exactly these are open afterwards, or more behind them.
    fn open(&mut self, kind: Kind, wanted: Range<usize>, places: &Places) -> Result<()> {
        if (self.kind, self.first) != (kind, wanted.start) && !wanted.is_empty() {
            self.files.clear();
            (self.kind, self.first) = (kind, wanted.start);
        }
        for number in self.first + self.files.len()..wanted.end {
            self.files.push(kind.open(places, number)?);
        }
        Ok(())
    }

    fn round(&mut self, round: &Round) -> Result<Part> {
        let files = &self.files[..files_of(round, 0).len()];
        match round.rate {
            None => match round.call {
                Call::Append => Ok(append(round, files)?),
                Call::Switch => Ok(switch(round)?),
                Call::FirstOfThread => Ok(first_of_threads(round, &files[0])?),
                Call::FirstOfProcess => Ok(first_of_processes(round, &files[0])?),
                Call::RingFsync | Call::RingNop => {
                    if self.ring.is_none() {
                        self.ring = Some(IoUring::new(BATCH as u32).context("cannot make a ring")?);
                    }
                    let ring = self.ring.as_mut().context("a ring")?;
                    in_ring(round, ring, files.first())
                }
                Call::AioDurableWrite => {
                    let context = aio::Context::new().context("cannot make a context of libaio")?;
                    Ok(by_libaio(round, &context, files)?)
                }
                _ => Ok(as_fast_as_possible(round, files)?),
            },
            Some(rate) => Ok(at_a_rate(round, files, rate / round.threads as f64)?),
        }
    }
}

/// By their numbers.
fn files_of(round: &Round, thread: usize) -> Range<usize> {
    match round.files {
        _ if matches!(round.call, Call::Getppid | Call::Switch | Call::RingNop) => 0..0,
        Files::Own => thread..thread + 1,
        Files::Shared(files) => 0..files,
        Files::Split(files) => {
            let part = files / round.threads;
            thread * part..(thread + 1) * part
        }
    }
}

fn pin(cpu: usize) -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).with_context(|| format!("cannot run on processor {cpu}"))
}

fn as_fast_as_possible(round: &Round, files: &[File]) -> std::io::Result<Part> {
    let mut turn = files.iter().cycle();
    in_batches(round, || match round.call {
        Call::Fsync | Call::FsyncOnDisk => {
            turn.by_ref().take(BATCH).try_for_each(|file| Ok(rustix::fs::fsync(file)?))
        }
        Call::Fdatasync => turn.by_ref().take(BATCH).try_for_each(|file| Ok(rustix::fs::fdatasync(file)?)),
        Call::Write | Call::DurableWrite => {
            turn.by_ref().take(BATCH).try_for_each(|file| file.write_all_at(&[1; BLOCK as usize], 0))
        }
        Call::NullWrite => turn.by_ref().take(BATCH).try_for_each(|mut file| file.write_all(&[1])),
        _ => {
            for _ in 0..BATCH {
                std::hint::black_box(getppid());
            }
            Ok(())
        }
    })
}

/// A batch is submitted by one call, which waits for all of it.
#[expect(unsafe_code, reason = "the kernel reads memory that a request names; these name none")]
fn in_ring(round: &Round, ring: &mut IoUring, file: Option<&File>) -> Result<Part> {
    let request = match (round.call, file) {
        (Call::RingFsync, Some(file)) => opcode::Fsync::new(types::Fd(file.as_raw_fd())).build(),
        _ => opcode::Nop::new().build(),
    };
    let mut failed = 0;
    let part = in_batches(round, || {
        for _ in 0..BATCH {
            // SAFETY: it has no buffers, and the file is open until it has ended, which is waited for below.
            unsafe { ring.submission().push(&request) }.map_err(std::io::Error::other)?;
        }
        ring.submit_and_wait(BATCH)?;
        failed += ring.completion().filter(|entry| entry.result() < 0).count();
        Ok(())
    })?;
    ensure!(failed == 0, "{failed} requests failed");
    Ok(part)
}

fn by_libaio(round: &Round, context: &aio::Context, files: &[File]) -> std::io::Result<Part> {
    let mut turn = files.iter().cycle();
    in_batches(round, || {
        turn.by_ref().take(BATCH).try_for_each(|file| context.write(file, &[1; BLOCK as usize]))
    })
}

/// Files that grow, up to a limit, and begin anew.
fn append(round: &Round, files: &[File]) -> std::io::Result<Part> {
    let mut turn = files.iter().cycle();
    let mut at = 0;
    files.iter().try_for_each(|file| file.set_len(0))?;
    in_batches(round, || {
        if at >= LONGEST {
            at = 0;
            files.iter().try_for_each(|file| file.set_len(0))?;
        }
        turn.by_ref().take(BATCH).try_for_each(|file| {
            file.write_all_at(&[1; BLOCK as usize], at)?;
            at += BLOCK;
            Ok(rustix::fs::fdatasync(file)?)
        })
    })
}

/// The other thread runs on the same processor, which it inherits: there is a switch for each byte.
fn switch(round: &Round) -> std::io::Result<Part> {
    let (mut heard, mut say) = std::io::pipe()?;
    let (mut answer, mut answered) = std::io::pipe()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while heard.read_exact(&mut byte).is_ok() && answered.write_all(&byte).is_ok() {}
        });
        let part = in_batches(round, || {
            let mut byte = [0];
            (0..BATCH / 2).try_for_each(|_| {
                say.write_all(&byte)?;
                answer.read_exact(&mut byte)
            })
        });
        drop(say); // by which it ends
        part
    })
}

/// Two readings of the clock are in it, which others do not pay for each call.
#[expect(unsafe_code, reason = "two system calls by one function, which nothing else makes")]
fn timed_fsync(file: &File) -> std::io::Result<u32> {
    let mut took = Duration::ZERO;
    // A new process has none of the pages that it is about to use: another call by the same way has them all.
    for number in [libc::SYS_getppid, libc::SYS_fsync] {
        let began = Instant::now();
        // SAFETY: the file is open, and neither of the two touches memory.
        let result = unsafe { libc::syscall(number, file.as_raw_fd()) };
        took = began.elapsed();
        if result < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX))
}

fn first_of_threads(round: &Round, file: &File) -> std::io::Result<Part> {
    one_by_one(round, || {
        let timed = thread::scope(|scope| scope.spawn(|| timed_fsync(file)).join());
        timed.map_err(|_| std::io::Error::other("a thread panicked"))?
    })
}

#[expect(unsafe_code, reason = "no library has a fork that is safe in a process of several threads")]
fn first_of_processes(round: &Round, file: &File) -> std::io::Result<Part> {
    let (mut heard, mut say) = std::io::pipe()?;
    one_by_one(round, || {
        // SAFETY: the new process makes three system calls and reads the clock: it takes no lock that another
        // thread may have held, has no memory to give back, and ends without going through what is to be done
        // at an exit.
        let process = unsafe { libc::fork() };
        if process == 0 {
            let said = timed_fsync(file).and_then(|ns| say.write_all(&ns.to_ne_bytes()));
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(said.is_err())) }
        }
        let process = rustix::process::Pid::from_raw(process).ok_or_else(std::io::Error::last_os_error)?;
        let ended = rustix::process::waitpid(Some(process), rustix::process::WaitOptions::empty())?;
        if ended.and_then(|(_, status)| status.exit_status()) != Some(0) {
            return Err(std::io::Error::other("a process could not sync"));
        }
        let mut ns = [0; 4];
        heard.read_exact(&mut ns)?;
        Ok(u32::from_ne_bytes(ns))
    })
}

/// `call` says how long it took.
fn one_by_one(round: &Round, mut call: impl FnMut() -> std::io::Result<u32>) -> std::io::Result<Part> {
    let mut batches_ns = Vec::new();
    let began = Instant::now();
    while batches_ns.is_empty() || began.elapsed() < round.duration {
        batches_ns.push(call()?);
    }
    let calls = batches_ns.len() as u64;
    Ok(Part { calls, seconds: began.elapsed().as_secs_f64(), batches_ns, batch: 1 })
}

/// `batch` makes so many calls as [`BATCH`] says.
fn in_batches(round: &Round, mut batch: impl FnMut() -> std::io::Result<()>) -> std::io::Result<Part> {
    let mut batches_ns = Vec::with_capacity(1 << 16);
    let began = Instant::now();
    let mut last = began;
    loop {
        batch()?;
        let now = Instant::now();
        batches_ns.push(u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX));
        last = now;
        if now - began >= round.duration {
            break;
        }
    }
    let calls = (batches_ns.len() * BATCH) as u64;
    Ok(Part { calls, seconds: began.elapsed().as_secs_f64(), batches_ns, batch: BATCH })
}

fn at_a_rate(round: &Round, files: &[File], rate: f64) -> std::io::Result<Part> {
    let pause = Duration::from_secs_f64(1.0 / rate).max(SHORTEST_PAUSE);
    let mut turn = files.iter().cycle();
    let mut calls = 0;
    let began = Instant::now();
    while began.elapsed() < round.duration {
        let due = (began.elapsed().as_secs_f64() * rate) as u64;
        for file in turn.by_ref().take(due.saturating_sub(calls) as usize) {
            match round.call {
                Call::Getppid => {
                    let _ = getppid();
                }
                Call::Fsync => rustix::fs::fsync(file)?,
                Call::Fdatasync => rustix::fs::fdatasync(file)?,
                _ => return Err(ErrorKind::Unsupported.into()),
            }
        }
        calls = calls.max(due);
        thread::sleep(pause);
    }
    Ok(Part { calls, seconds: began.elapsed().as_secs_f64(), batches_ns: Vec::new(), batch: BATCH })
}
