//! What servers move to and from storage, out of /proc/PID/io. It is read by a thread of its own: a process
//! that executes another program keeps whoever reads this file waiting (`exec_update_lock`,
//! do_io_accounting in fs/proc/base.c) until its old memory is gone.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::linux::PROC;
use crate::linux::blocking::Mailbox;
use crate::linux::proc_file;
use crate::model::{Server, ServerId, ServerIo};

/// Servers that are asked about; of more, the first ones.
const MAX_SERVERS: usize = 128;
/// Processes of one server; of a server that has more, nothing is known.
const MAX_PROCESSES: usize = 256;
/// How long a snapshot waits for the answer to the question that it asked when it began.
const PATIENCE: Duration = Duration::from_millis(20);

/// A server, and whether it is one of several processes.
type Question = Vec<(ServerId, bool)>;

pub(super) struct ServersIo {
    thread: Option<Mailbox<(u64, Question)>>,
    answers: Receiver<(u64, Vec<ServerIo>)>,
    number: u64,
    is_asked: bool,
    highest: HashMap<ServerId, ServerIo>,
}

impl ServersIo {
    pub fn start() -> ServersIo {
        let (outbox, answers) = channel();
        let answer = move |(number, question): (u64, Question)| {
            let read = question.iter().filter_map(|&(server, has_children)| {
                read(Path::new(PROC), server.pid, has_children).map(|io| ServerIo { server, ..io })
            });
            // Nobody may be waiting any more.
            drop(outbox.send((number, read.collect())));
        };
        // Without a thread nothing is known.
        let thread = Mailbox::start("server-io", answer).ok();
        ServersIo { thread, answers, number: 0, is_asked: false, highest: HashMap::new() }
    }

    /// Of those databases that live.
    pub fn ask(&mut self, servers: &[Arc<Server>]) {
        let databases = servers.iter().filter(|server| server.alive && server.is_database());
        let question: Question = (databases.take(MAX_SERVERS))
            .map(|server| {
                let engine = server.engine.as_ref();
                (server.id, engine.is_some_and(|engine| engine.processes.are_several()))
            })
            .collect();
        let asked: HashSet<ServerId> = question.iter().map(|(server, _)| *server).collect();
        self.highest.retain(|server, _| asked.contains(server));
        self.number += 1;
        self.is_asked = !question.is_empty();
        if let Some(thread) = self.thread.as_ref().filter(|_| self.is_asked) {
            thread.ask((self.number, question));
        }
    }

    /// The answer to the last question. Where it does not come in time, what was known before: then the next
    /// interval has what moved in this one.
    pub fn take(&mut self) -> Vec<ServerIo> {
        if !self.is_asked {
            return Vec::new();
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match self.answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((number, read)) if number == self.number => {
                    return read.into_iter().map(|io| self.never_less(io)).collect();
                }
                Ok(_) => {}
                Err(_) => return self.highest.values().copied().collect(),
            }
        }
    }

    /// The figures of a process that ended become its parent's once that has heard of it (wait_task_zombie in
    /// kernel/exit.c); for a moment they are nobody's.
    fn never_less(&mut self, io: ServerIo) -> ServerIo {
        let highest = self.highest.entry(io.server).or_insert(io);
        highest.read_bytes = highest.read_bytes.max(io.read_bytes);
        highest.written_bytes = highest.written_bytes.max(io.written_bytes);
        highest.cancelled_bytes = highest.cancelled_bytes.max(io.cancelled_bytes);
        *highest
    }
}

/// The parent comes first: what ends in between is missing for a moment rather than counted twice.
fn read(proc_root: &Path, pid: u32, has_children: bool) -> Option<ServerIo> {
    let mut sum = of_process(&proc_root.join(pid.to_string()))?;
    if has_children {
        let list = proc_file::read(&proc_root.join(format!("{pid}/task/{pid}/children"))).ok()?;
        let children: Vec<&str> = std::str::from_utf8(&list).ok()?.split_ascii_whitespace().collect();
        if children.len() > MAX_PROCESSES {
            return None;
        }
        for child in children {
            // One that has ended meanwhile is its parent's.
            let Some(io) = of_process(&PathBuf::from_iter([proc_root, Path::new(child)])) else { continue };
            sum.read_bytes += io.read_bytes;
            sum.written_bytes += io.written_bytes;
            sum.cancelled_bytes += io.cancelled_bytes;
        }
    }
    Some(sum)
}

/// None: it has gone, this process may not read it, or the kernel does not account for it
/// (CONFIG_TASK_IO_ACCOUNTING).
fn of_process(process: &Path) -> Option<ServerIo> {
    let text = proc_file::read_once::<512>(&process.join("io")).ok()?;
    let text = std::str::from_utf8(&text).ok()?;
    let figure = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(": ")?.parse::<u64>().ok();
        text.lines().find_map(value)
    };
    Some(ServerIo {
        server: ServerId::NONE,
        read_bytes: figure("read_bytes")?,
        written_bytes: figure("write_bytes")?,
        cancelled_bytes: figure("cancelled_write_bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_writes_is_in_its_figures() {
        use std::io::Write;
        let own = || read(Path::new(PROC), std::process::id(), false);
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
        let read = |has_children| read(proc.path(), 7, has_children).map(|io| io.written_bytes);
        assert_eq!((read(false), read(true)), (Some(100), Some(130)));
        let too_many: String = (0..=MAX_PROCESSES).map(|pid| format!("{pid} ")).collect();
        std::fs::write(proc.path().join("7/task/7/children"), too_many).unwrap();
        assert_eq!(read(true), None);

        let mut all = ServersIo::start();
        let server = ServerId { pid: 7, start_ns: 0 };
        let io = |written_bytes| ServerIo { server, read_bytes: 0, written_bytes, cancelled_bytes: 0 };
        let seen = [130, 100, 131].map(|written| all.never_less(io(written)).written_bytes);
        assert_eq!(seen, [130, 130, 131]);
    }
}
