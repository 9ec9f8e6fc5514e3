//! What servers move to and from storage, out of /proc/PID/io. It is read by a thread of its own: a process
//! that executes another program keeps whoever reads this file waiting (`exec_update_lock`,
//! do_io_accounting in fs/proc/base.c) until its old memory is gone.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::linux::PROC;
use crate::linux::blocking::Mailbox;
use crate::linux::cpu_time::{Allowance, of_this_thread};
use crate::linux::proc_file;
use crate::model::{Server, ServerId, ServerIo};
use crate::server::who::shares::fairly;

/// Servers that are asked about; of more, each owner's part.
const MAX_SERVERS: usize = 64;
/// Processes of one server; of a server that has more, nothing is known.
const MAX_PROCESSES: usize = 256;
/// Processes that are read at a time, of all servers: each takes some microseconds.
const MAX_TOGETHER: usize = 512;
/// Of a processor: who starts many servers, or has snapshots taken often, gets their figures less often.
const CPU_SHARE: f64 = 0.01;
const CPU_BURST: Duration = Duration::from_millis(100);
/// How long figures hold of which no later ones came.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Answers that may be missing one after the other, before none is waited for.
const MAX_MISSED: u32 = 3;
/// How long a snapshot waits for the answer to the question that it asked when it began.
const PATIENCE: Duration = Duration::from_millis(20);

/// A server, and whether it is one of several processes.
type Question = Vec<(ServerId, bool)>;

pub(super) struct ServersIo {
    thread: Option<Mailbox<(u64, Question)>>,
    answers: Receiver<(u64, Vec<ServerIo>)>,
    number: u64,
    asked: HashSet<ServerId>,
    known: HashMap<ServerId, Known>,
    /// Questions in a row to which no answer came in time.
    unanswered: u32,
    /// Processor time that the thread has used, in nanoseconds.
    spent: Arc<AtomicU64>,
}

/// The highest figures of a server so far, and when they were read last.
struct Known {
    highest: ServerIo,
    read: Instant,
}

impl ServersIo {
    pub fn start() -> ServersIo {
        let (outbox, answers) = channel();
        let spent = Arc::new(AtomicU64::new(0));
        let own = spent.clone();
        let mut allowance = Allowance::new(CPU_SHARE, CPU_BURST);
        let answer = move |(number, question): (u64, Question)| {
            let before = of_this_thread();
            let question = if allowance.has_room(Instant::now()) { question } else { Question::new() };
            let mut left = MAX_TOGETHER;
            let read = question.iter().filter_map(|&(server, has_children)| {
                let io = read(Path::new(PROC), server.pid, has_children, &mut left)?;
                Some(ServerIo { server, ..io })
            });
            // Nobody may be waiting any more.
            drop(outbox.send((number, read.collect())));
            allowance.spend(of_this_thread().saturating_sub(before));
            own.store(allowance.spent().as_nanos() as u64, Ordering::Relaxed);
        };
        // Without a thread nothing is known.
        let thread = Mailbox::start("server-io", answer).ok();
        let (asked, known) = (HashSet::new(), HashMap::new());
        ServersIo { thread, answers, number: 0, asked, known, unanswered: 0, spent }
    }

    /// Processor time that was used.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// Of those databases that live.
    pub fn ask(&mut self, servers: &[Arc<Server>]) {
        let databases = servers.iter().filter(|server| server.alive && server.is_database());
        let databases = fairly(databases.collect(), MAX_SERVERS, |server| server.known_by.whose);
        let has_children =
            |server: &Server| server.engine.as_ref().is_some_and(|engine| engine.processes.are_several());
        let question: Question =
            databases.into_iter().map(|server| (server.id, has_children(server))).collect();
        self.asked = question.iter().map(|(server, _)| *server).collect();
        self.known.retain(|server, _| self.asked.contains(server));
        self.number += 1;
        if let Some(thread) = self.thread.as_ref().filter(|_| !question.is_empty()) {
            thread.ask((self.number, question));
        }
    }

    /// The answer to the last question. What it lacks is as it was known before: then the next interval has
    /// what moved in this one.
    pub fn take(&mut self) -> Vec<ServerIo> {
        if self.asked.is_empty() {
            return Vec::new();
        }
        let patience = if self.unanswered < MAX_MISSED { PATIENCE } else { Duration::ZERO };
        let end = Instant::now() + patience;
        let answer = loop {
            match self.answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((number, read)) if number == self.number => break Some(read),
                Ok(_) => {}
                Err(_) => break None,
            }
        };
        self.unanswered = if answer.is_some() { 0 } else { self.unanswered.saturating_add(1) };
        self.known_with(answer.unwrap_or_default(), Instant::now())
    }

    fn known_with(&mut self, read: Vec<ServerIo>, now: Instant) -> Vec<ServerIo> {
        for io in read {
            let known = self.known.entry(io.server).or_insert(Known { highest: io, read: now });
            known.read = now;
            known.highest = never_less(known.highest, io);
        }
        self.known.retain(|_, known| now.saturating_duration_since(known.read) <= KEPT_FOR);
        self.known.values().map(|known| known.highest).collect()
    }
}

/// The figures of a process that ended become its parent's once that has heard of it (wait_task_zombie in
/// kernel/exit.c); for a moment they are nobody's.
fn never_less(highest: ServerIo, io: ServerIo) -> ServerIo {
    ServerIo {
        server: io.server,
        read_bytes: highest.read_bytes.max(io.read_bytes),
        written_bytes: highest.written_bytes.max(io.written_bytes),
        cancelled_bytes: highest.cancelled_bytes.max(io.cancelled_bytes),
    }
}

/// The parent comes first: what ends in between is missing for a moment rather than counted twice. None: it
/// is not known, or there are more processes than are `left` to be read.
fn read(proc_root: &Path, pid: u32, has_children: bool, left: &mut usize) -> Option<ServerIo> {
    *left = left.checked_sub(1)?;
    let mut sum = of_process(&proc_root.join(pid.to_string())).ok()??;
    if has_children {
        let list = proc_file::read(&proc_root.join(format!("{pid}/task/{pid}/children"))).ok()?;
        let children: Vec<&str> = std::str::from_utf8(&list).ok()?.split_ascii_whitespace().collect();
        if children.len() > MAX_PROCESSES {
            return None;
        }
        *left = left.checked_sub(children.len())?;
        for child in children {
            let io = match of_process(&PathBuf::from_iter([proc_root, Path::new(child)])) {
                Ok(io) => io?,
                // One that has ended meanwhile is its parent's.
                Err(error) if is_gone(&error) => continue,
                Err(_) => return None,
            };
            sum.read_bytes += io.read_bytes;
            sum.written_bytes += io.written_bytes;
            sum.cancelled_bytes += io.cancelled_bytes;
        }
    }
    Some(sum)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// An error: it has gone, this process may not read it, or the kernel does not account for it
/// (CONFIG_TASK_IO_ACCOUNTING). None: it reads otherwise than known.
fn of_process(process: &Path) -> io::Result<Option<ServerIo>> {
    let text = proc_file::read_once::<512>(&process.join("io"))?;
    let figure = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(": ")?.parse::<u64>().ok();
        std::str::from_utf8(&text).ok()?.lines().find_map(value)
    };
    let io = || {
        Some(ServerIo {
            server: ServerId::NONE,
            read_bytes: figure("read_bytes")?,
            written_bytes: figure("write_bytes")?,
            cancelled_bytes: figure("cancelled_write_bytes")?,
        })
    };
    Ok(io())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_writes_is_in_its_figures() {
        use std::io::Write;
        let own = || read(Path::new(PROC), std::process::id(), false, &mut MAX_TOGETHER.clone());
        // A kernel without these figures has nothing to hold them against.
        let Some(before) = own() else { return };
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&[1; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        let after = own().unwrap();
        assert!(after.written_bytes >= before.written_bytes + (3 << 20), "{before:?} {after:?}");
    }

    #[test]
    fn children_count_and_nothing_is_less_than_before() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, written: u64| {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir_all(folder.join(format!("task/{pid}"))).unwrap();
            let text = format!("rchar: 9\nread_bytes: 5\nwrite_bytes: {written}\ncancelled_write_bytes: 1\n");
            std::fs::write(folder.join("io"), text).unwrap();
        };
        process(7, 100);
        process(8, 30);
        std::fs::write(proc.path().join("7/task/7/children"), "8 9 ").unwrap();
        let read = |has_children| {
            let io = read(proc.path(), 7, has_children, &mut MAX_TOGETHER.clone());
            io.map(|io| io.written_bytes)
        };
        assert_eq!((read(false), read(true)), (Some(100), Some(130)));
        let too_many: String = (0..=MAX_PROCESSES).map(|pid| format!("{pid} ")).collect();
        std::fs::write(proc.path().join("7/task/7/children"), too_many).unwrap();
        assert_eq!(read(true), None);

        let few = super::read(proc.path(), 7, true, &mut 2);
        assert_eq!(few, None, "of a server of which not all can be read");
    }

    #[test]
    fn figures_never_fall_and_what_is_missing_for_long_is_not_known() {
        let mut all = ServersIo::start();
        let server = ServerId { pid: 7, start_ns: 0 };
        let io = |written_bytes| ServerIo { server, read_bytes: 0, written_bytes, cancelled_bytes: 0 };
        let begin = Instant::now();
        let mut written = |read: Vec<ServerIo>, second| {
            let now = begin + Duration::from_secs(second);
            all.known_with(read, now).first().map(|io| io.written_bytes)
        };
        let seen = [130, 100, 131].map(|bytes| written(vec![io(bytes)], 0));
        assert_eq!(seen, [Some(130), Some(130), Some(131)]);
        assert_eq!([1, 10, 11].map(|second| written(Vec::new(), second)), [Some(131), Some(131), None]);
        assert_eq!(written(vec![io(500)], 12), Some(500), "from there on it is known again");
    }
}
