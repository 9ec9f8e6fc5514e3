//! Finds the threads that are inside a sync call or a durable write right now, or that hang in any other
//! write to a file, and for how long at least, by looking twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::clock;
use super::syscalls::{self, SyncCall};
use super::thread_files::{
    Progress, Stat, is_kernel_thread, parse_last_ran, parse_stack, parse_stat, value_of,
};
use super::waits::{Wait, waits_for};
use crate::linux::blocking::Threads;
use crate::linux::inode_flags;
use crate::linux::mountinfo::{self, Mount};
use crate::linux::mounts;
use crate::linux::proc_file;
use crate::model::{InFlight, Op, Role, ServerId};

/// How often to look, how far apart, and how long a process may take to answer.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// At least one. After one look alone, an age is known only where the kernel has /proc/TID/sched.
    pub count: u32,
    pub apart: Duration,
    /// How long a process may go without yielding a result, and how long reading the clocks may take. A
    /// process that is silent for longer is skipped and counted.
    pub deadline: Duration,
    /// Only writes that are not durable: of all else the caller knows already.
    pub plain_writes_only: bool,
}

impl Default for Looks {
    fn default() -> Self {
        Looks {
            count: 2,
            apart: Duration::from_millis(200),
            deadline: Duration::from_millis(500),
            plain_writes_only: false,
        }
    }
}

impl Looks {
    /// A single look, for the moment at which tracing begins.
    pub fn once() -> Self {
        Looks { count: 1, ..Looks::default() }
    }
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Threads that were in a sync or in a durable write at the last look, or that hung in another write
    /// ([`MIN_HANG`]), the longest known first.
    pub syncs: Vec<StuckSync>,
    /// Threads that were in a sync at the first look and not at the last: nothing is wrong with them.
    pub finished: usize,
    /// Threads whose system call could not be read, for lack of privileges or of kernel support.
    pub unreadable: usize,
    /// Processes whose threads could not even be listed, for lack of privileges.
    pub closed: usize,
    /// The processes with such threads, and of that kind, by number.
    pub unexamined: Vec<Unexamined>,
    /// Processes of others may run that /proc does not show (hidepid).
    pub hidden: bool,
    /// Processes that blocked the reader and were skipped.
    pub blocked: usize,
    /// Time between the first and the last look.
    pub watched: Duration,
}

impl Scan {
    /// Nothing that was to be looked at was left out.
    pub fn is_complete(&self) -> bool {
        self.unreadable == 0 && self.closed == 0 && self.blocked == 0 && !self.hidden
    }
}

/// A process that could not be looked at, or not at all of its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexamined {
    pub pid: u32,
    /// The name of its thread group's leader, if that may be read; escape it.
    pub comm: String,
    /// What its executable is called, where that may be read.
    pub program: Option<String>,
}

/// From this age on a write that is not durable hangs: it has neither ended nor run for so long. What merely
/// waits for the limit of dirty memory runs again within 200 ms (balance_dirty_pages).
pub const MIN_HANG: Duration = Duration::from_secs(1);

/// The verdict on a thread over all looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The same call in all looks: the thread has not run in between.
    Unmoved,
    /// In a call of the same kind and arguments in all looks, but it ran in between: one slow call, or
    /// several.
    Moving,
    /// There was only one look.
    SeenOnce,
}

/// Where an age comes from. Each is a lower bound: /proc does not show when a call started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeFrom {
    /// The thread has been blocked for so long: the time since it last ran.
    Blocked,
    /// The thread has not run since the first scan.
    Watched,
}

/// A thread inside a sync call, or a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckSync {
    pub pid: u32,
    pub tid: u32,
    /// The thread's own name, which it chooses itself; escape it before it reaches a terminal.
    pub thread: String,
    /// The name of the thread group's leader; escape it too.
    pub comm: String,
    pub op: Op,
    pub fd: Option<i32>,
    /// Where the descriptor's link points now, inside the process's own root; " (deleted)" at the end is the
    /// kernel's.
    pub path: Option<PathBuf>,
    pub mount: Option<Mount>,
    /// As the scheduler has it: D cannot be interrupted, S can.
    pub state: char,
    /// The kernel's functions, innermost first; empty when they may not be read (CAP_SYS_ADMIN).
    pub stack: Vec<String>,
    /// The innermost of them that is no scheduler's; known with fewer privileges than the stack.
    pub wait_channel: Option<String>,
    pub standing: Standing,
    /// At least so old; None when only one look was taken and the kernel does not tell.
    pub age: Option<(Duration, AgeFrom)>,
}

impl StuckSync {
    /// As every view shows a sync in flight. An age that is not known is zero, and a minimum like all others.
    pub fn in_flight(&self, server: ServerId, role: Role) -> InFlight {
        InFlight {
            server,
            tid: self.tid,
            thread: self.thread.clone(),
            op: self.op,
            role,
            path: self.path.clone(),
            age: self.age.map_or(Duration::ZERO, |(age, _)| age),
            age_is_minimum: true,
            count: 1,
            waits_for: waits_for(&self.stack, self.wait_channel.as_deref()).map(|wait| wait.what),
        }
    }
}

/// Threads that read of processes what may block. Several scans run at the same time, each with one thread
/// and those that hang.
static READERS: Threads = Threads::new("reader", 64);

/// Which processes to look at.
#[derive(Clone, Debug)]
pub enum Processes {
    All,
    These(Vec<u32>),
}

/// Looks at all threads of these processes, then again at those that were in a sync. Takes no longer than the
/// looks and a few deadlines, whatever the processes are stuck in. Fails only if `proc_root` cannot be
/// listed.
pub fn scan(proc_root: &Path, processes: &Processes, looks: &Looks) -> io::Result<Scan> {
    scan_with(proc_root, processes, looks, &|cpus| clock::read(proc_root, cpus, looks.deadline))
}

type Clocks<'a> = &'a dyn Fn(&BTreeSet<u32>) -> BTreeMap<u32, Duration>;

fn scan_with(
    proc_root: &Path,
    processes: &Processes,
    looks: &Looks,
    read_clocks: Clocks,
) -> io::Result<Scan> {
    let pids = match processes {
        Processes::All => numbers_in(proc_root)?,
        Processes::These(pids) => pids.clone(),
    };
    // Each PID namespace has a process with this number, for as long as it is one.
    let hidden = matches!(processes, Processes::All) && !pids.contains(&1);
    let root = proc_root.to_path_buf();
    let (seen, mut blocked) = READERS.for_each(pids, looks.deadline, move |&pid, emit| {
        match numbers_in(&root.join(format!("{pid}/task"))) {
            Ok(tids) => tids.into_iter().for_each(|tid| emit(look(&root, pid, tid))),
            Err(error) => emit((!has_gone(&error)).then_some(Look::Closed(pid))),
        }
    });
    let first_look = Instant::now();
    let of_kind = |kind: fn(&&Look) -> bool| seen.iter().filter(kind).count();
    let unreadable = of_kind(|look| matches!(look, Look::Unreadable(_)));
    let closed = of_kind(|look| matches!(look, Look::Closed(_)));
    let unexamined = unexamined(proc_root, &seen);
    let mut candidates: Vec<Candidate> = seen
        .into_iter()
        .filter_map(|look| match look {
            Look::InSync(seen) => Some(Candidate { seen, standing: Standing::SeenOnce }),
            Look::Unreadable(_) | Look::Closed(_) => None,
        })
        .filter(|candidate| !looks.plain_writes_only || candidate.is_plain_write())
        .collect();
    // Threads of which it was seen. Of those that a later look could not read it is not known.
    let mut finished = 0;

    for _ in 1..looks.count {
        if candidates.is_empty() {
            break;
        }
        thread::sleep(looks.apart);
        let root = proc_root.to_path_buf();
        let (still, hung) = READERS.for_each(by_process(candidates), looks.deadline, move |group, emit| {
            group.iter().for_each(|candidate| emit(Some((candidate.counts(), candidate.look_again(&root)))));
        });
        finished += still.iter().filter(|(counts, candidate)| *counts && candidate.is_none()).count();
        candidates = still.into_iter().filter_map(|(_, candidate)| candidate).collect();
        blocked += hung;
    }
    // the clocks come before what is measured by them, else a thread that has run since would seem blocked
    let watched = first_look.elapsed();
    let clocks = read_clocks(&candidates.iter().map(|candidate| candidate.seen.stat.cpu).collect());
    let root = proc_root.to_path_buf();
    let (described, hung) = READERS.for_each(by_process(candidates), looks.deadline, move |group, emit| {
        let describe = |candidate: &Candidate| candidate.describe(&root, &clocks, watched);
        group.iter().for_each(|candidate| emit(Some((candidate.counts(), describe(candidate)))));
    });
    finished += described.iter().filter(|(counts, sync)| *counts && sync.is_none()).count();
    let described = described.into_iter().filter_map(|(_, sync)| sync);
    let mut syncs: Vec<StuckSync> = described.filter(StuckSync::is_worth_telling).collect();
    syncs.sort_by_key(|sync| (std::cmp::Reverse(sync.age.map(|(age, _)| age)), sync.tid));
    Ok(Scan { syncs, finished, unreadable, closed, unexamined, hidden, blocked: blocked + hung, watched })
}

/// The processes of which something could not be looked at.
fn unexamined(proc_root: &Path, seen: &[Look]) -> Vec<Unexamined> {
    let pids: BTreeSet<u32> = seen
        .iter()
        .filter_map(|look| match look {
            Look::Unreadable(pid) | Look::Closed(pid) => Some(*pid),
            Look::InSync(_) => None,
        })
        .collect();
    let named = |pid: u32| {
        let process = proc_root.join(pid.to_string());
        let program = fs::read_link(process.join("exe")).ok();
        let program = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Unexamined { pid, comm: name(&process.join("comm")), program }
    };
    pids.into_iter().map(named).collect()
}

enum Look {
    InSync(Seen),
    /// A thread of this process.
    Unreadable(u32),
    /// A process.
    Closed(u32),
}

fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// A thread in a sync or a write at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    pid: u32,
    tid: u32,
    stat: Stat,
    call: SyncCall,
    progress: Option<Progress>,
}

/// One look at a thread; None when it is in no sync and no write, or gone.
fn look(proc_root: &Path, pid: u32, tid: u32) -> Option<Look> {
    let thread = proc_root.join(format!("{pid}/task/{tid}"));
    let line = match proc_file::read(&thread.join("syscall")) {
        Ok(line) => line,
        // a thread that has gone is no loss; one that is there and keeps its call from us is
        Err(_) => {
            let stat = proc_file::read(&thread.join("stat")).ok()?;
            return (!is_kernel_thread(&stat)).then_some(Look::Unreadable(pid));
        }
    };
    let line = std::str::from_utf8(&line).ok()?;
    let call = syscalls::parse(line).or_else(|| write_to_file(&thread, line))?;
    let stat = parse_stat(&proc_file::read(&thread.join("stat")).ok()?)?;
    let progress = Progress::parse(
        proc_file::read(&thread.join("schedstat")).ok().as_deref(),
        proc_file::read(&thread.join("status")).ok().as_deref(),
    );
    Some(Look::InSync(Seen { pid, tid, stat, call, progress }))
}

/// A write to what may be a regular file, which shows as a path. Whether it really is one is not asked of its
/// filesystem, which may hang.
///
/// `thread`: its directory in /proc. Its descriptors may be its own, or outlive the thread group's leader.
fn write_to_file(thread: &Path, line: &str) -> Option<SyncCall> {
    let write = syscalls::parse_write(line)?;
    let link = fs::read_link(thread.join(format!("fd/{}", write.fd))).ok()?;
    if !link.is_absolute() {
        return None;
    }
    let is_durable = write.is_durable || {
        let fdinfo = proc_file::read_once::<512>(&thread.join(format!("fdinfo/{}", write.fd))).ok()?;
        u32::from_str_radix(value_of(&fdinfo, b"flags")?, 8).ok()? & libc::O_DSYNC as u32 != 0
    };
    let op = if is_durable { Op::DsyncWrite } else { Op::Write };
    Some(SyncCall { op, arguments: write.arguments })
}

impl StuckSync {
    /// Every sync is; a write that is not durable if it hangs, and not for a reader at the other end of a
    /// pipe or a terminal.
    fn is_worth_telling(&self) -> bool {
        let frames = self.stack.iter().chain(&self.wait_channel);
        let waits_for_reader = frames.into_iter().any(|frame| {
            let name = frame.trim_start_matches("anon_");
            ["pipe_", "fifo_", "tty_", "n_tty_", "do_tty_"].iter().any(|prefix| name.starts_with(prefix))
        });
        let is_no_file = |filesystem: &str| filesystem == "devtmpfs" || mounts::stores_nothing(filesystem);
        let is_file = !self.mount.as_ref().is_some_and(|mount| is_no_file(&mount.filesystem));
        let is_write = matches!(self.op, Op::Write | Op::DsyncWrite);
        let hangs = self.op.makes_durable() || self.age.is_some_and(|(age, _)| age >= MIN_HANG);
        !is_write || (hangs && is_file && !waits_for_reader)
    }
}

#[derive(Clone, Debug)]
struct Candidate {
    seen: Seen,
    standing: Standing,
}

impl Candidate {
    fn is_plain_write(&self) -> bool {
        self.seen.call.op == Op::Write
    }

    /// Among those that finished. Of a write that ended in time there is nothing to say.
    fn counts(&self) -> bool {
        !self.is_plain_write()
    }

    /// None when the thread is no longer in that call: it finished, and perhaps began another.
    fn look_again(&self, proc_root: &Path) -> Option<Candidate> {
        let before = &self.seen;
        let Some(Look::InSync(now)) = look(proc_root, before.pid, before.tid) else { return None };
        if (now.stat.start_ticks, now.call) != (before.stat.start_ticks, before.call) {
            return None;
        }
        let unmoved = now.progress.is_some() && now.progress == before.progress;
        let standing = match self.standing {
            Standing::Moving => Standing::Moving,
            _ if unmoved => Standing::Unmoved,
            _ => Standing::Moving,
        };
        Some(Candidate { seen: now, standing })
    }

    /// Everything else that there is to know; None when the call ended meanwhile, so that what was read may
    /// not belong to it.
    fn describe(
        &self,
        proc_root: &Path,
        clocks: &BTreeMap<u32, Duration>,
        watched: Duration,
    ) -> Option<StuckSync> {
        let Seen { pid, tid, stat, call, .. } = self.seen;
        let process = proc_root.join(pid.to_string());
        let thread = process.join(format!("task/{tid}"));
        let fd = call.fd();
        let path = fd.and_then(|fd| fs::read_link(thread.join(format!("fd/{fd}"))).ok());
        let mount = fd.and_then(|fd| mount_of(&thread, fd));
        let stack = stack(&thread);
        let last_ran =
            proc_file::read(&thread.join("sched")).ok().and_then(|content| parse_last_ran(&content));
        // A mount makes all of its writes durable (-o sync), or an inode does (chattr +S).
        let is_synchronous = || {
            mount.as_ref().zip(fd).is_some_and(|(mount, fd)| {
                mount.options.iter().any(|option| option == "sync")
                    || inode_flags::is_synchronous(&thread.join(format!("fd/{fd}")), &mount.filesystem)
            })
        };
        let op = if call.op == Op::Write && is_synchronous() { Op::DsyncWrite } else { call.op };
        let sync = StuckSync {
            pid,
            tid,
            thread: name(&thread.join("comm")),
            comm: name(&process.join("comm")),
            op,
            fd,
            path,
            mount,
            state: stat.state,
            stack,
            wait_channel: wait_channel(&thread),
            standing: self.standing,
            age: None,
        };
        let now = self.look_again(proc_root)?;
        let standing = if self.standing == Standing::SeenOnce { self.standing } else { now.standing };
        // if it ran meanwhile, `last_ran` may be of an earlier call
        let unmoved_since = now.seen == self.seen && self.seen.progress.is_some();
        let blocked = clocks
            .get(&stat.cpu)
            .filter(|_| unmoved_since)
            .and_then(|clock| clock.checked_sub(last_ran?))
            .map(|age| (age, AgeFrom::Blocked));
        let unmoved = (standing == Standing::Unmoved).then_some((watched, AgeFrom::Watched));
        let age = blocked.into_iter().chain(unmoved).max_by_key(|(age, _)| *age);
        Some(StuckSync { standing, age, ..sync })
    }
}

/// The kernel's own number of the descriptor's mount, looked up in the thread's own list of mounts.
fn mount_of(thread: &Path, fd: i32) -> Option<Mount> {
    // Epoll and inotify descriptors list everything that they watch; the mount stands in front.
    let fdinfo = proc_file::read_once::<512>(&thread.join(format!("fdinfo/{fd}"))).ok()?;
    let id: i32 = value_of(&fdinfo, b"mnt_id")?.parse().ok()?;
    mountinfo::of_thread(thread).find(|mount| mount.id == id)
}

fn name(comm: &Path) -> String {
    let content = proc_file::read_once::<64>(comm).unwrap_or_default();
    let line = content.strip_suffix(b"\n").unwrap_or(&content);
    String::from_utf8_lossy(line).into_owned()
}

/// What a thread waits for. Without CAP_SYS_ADMIN, as far as its wait channel tells.
pub(crate) fn wait_of(proc_root: &Path, tid: u32) -> Option<Wait> {
    let thread = proc_root.join(tid.to_string());
    waits_for(&stack(&thread), wait_channel(&thread).as_deref())
}

/// Empty where it may not be read.
fn stack(thread: &Path) -> Vec<String> {
    proc_file::read(&thread.join("stack")).map(|content| parse_stack(&content)).unwrap_or_default()
}

fn wait_channel(thread: &Path) -> Option<String> {
    let content = proc_file::read(&thread.join("wchan")).ok()?;
    let content = String::from_utf8_lossy(&content);
    Some(content.trim()).filter(|symbol| !symbol.is_empty() && *symbol != "0").map(str::to_owned)
}

/// The entries of a directory of /proc that are numbers, ascending.
fn numbers_in(directory: &Path) -> io::Result<Vec<u32>> {
    let mut numbers: Vec<u32> = fs::read_dir(directory)?
        .filter_map(|entry| std::str::from_utf8(entry.ok()?.file_name().as_bytes()).ok()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// One group for each process, so that a process that blocks costs one deadline.
fn by_process(candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut groups: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        groups.entry(candidate.seen.pid).or_default().push(candidate);
    }
    groups.into_values().collect()
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
