//! Servers of several processes, as PostgreSQL is, out of /proc: the first of those that run a program, with
//! all that it forked. What the kernel side finds at a process' first sync (`bpf/instance.h`) is found here
//! in the same way.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::processes::{self, ThreadGroup};
use crate::engine::engines::Engines;
use crate::linux::proc_file;
use crate::model::Processes;

/// As many as the kernel side looks at.
const ANCESTORS: usize = 8;
/// Of one server: more than PostgreSQL may have connections with the largest of settings that are in use.
const MAX_MEMBERS: usize = 20_000;
/// It still runs the program of the process that forked it (include/linux/sched.h: PF_FORKNOEXEC).
const PF_FORKNOEXEC: u32 = 0x0000_0040;

/// A process as far as it tells whose it is.
struct Seen {
    process: ThreadGroup,
    parent: u32,
    /// The link to its program. It is read, not followed: nothing waits for a filesystem.
    program: Option<PathBuf>,
    processes: Processes,
    was_forked: bool,
}

/// Finds the server of one process after the other; each process is read once.
pub(crate) struct Instances<'a> {
    proc_root: &'a Path,
    engines: &'a Engines,
    seen: HashMap<u32, Option<Seen>>,
}

impl<'a> Instances<'a> {
    pub fn new(proc_root: &'a Path, engines: &'a Engines) -> Instances<'a> {
        Instances { proc_root, engines, seen: HashMap::new() }
    }

    /// The first process of the server that a process belongs to: itself, where it is no server of several.
    pub fn first_of(&mut self, pid: u32) -> u32 {
        let Some(own) = self.see(pid).filter(|own| own.processes.are_several()) else { return pid };
        let Some(program) = own.program.clone() else { return pid };
        let (mut first, mut parent) = (pid, own.parent);
        for _ in 0..ANCESTORS {
            match self.see(parent) {
                Some(above) if above.program.as_ref() == Some(&program) => {
                    (first, parent) = (parent, above.parent);
                }
                _ => break,
            }
        }
        first
    }

    /// The servers of these processes, ascending. One that has lost the server that forked it is none.
    pub fn servers_of(&mut self, pids: impl IntoIterator<Item = u32>) -> Vec<ThreadGroup> {
        let firsts: BTreeSet<u32> = pids.into_iter().map(|pid| self.first_of(pid)).collect();
        let server = |pid| self.see(pid).filter(|seen| !seen.is_lost()).map(|seen| seen.process.clone());
        firsts.into_iter().filter_map(server).collect()
    }

    fn see(&mut self, pid: u32) -> Option<&Seen> {
        let (proc_root, engines) = (self.proc_root, self.engines);
        let read = || {
            let (process, stat) = processes::read(proc_root, pid)?;
            let processes = processes_of(engines, &process.comm);
            let link = || std::fs::read_link(proc_root.join(format!("{pid}/exe"))).ok();
            let program = processes.are_several().then(link).flatten();
            let parent = u32::try_from(stat.ppid).unwrap_or(0);
            let was_forked = stat.flags & PF_FORKNOEXEC != 0;
            Some(Seen { process, parent, program, processes, was_forked })
        };
        self.seen.entry(pid).or_insert_with(read).as_ref()
    }
}

impl Seen {
    fn is_lost(&self) -> bool {
        self.was_forked && self.processes == Processes::ChildrenInDatadir
    }
}

fn processes_of(engines: &Engines, comm: &str) -> Processes {
    engines.by_command(comm).map_or(Processes::Alone, |engine| engine.processes)
}

/// Whether a server is one of several processes; of one that has gone, or that is not known, it cannot be
/// told.
pub(crate) fn may_have_children(proc_root: &Path, engines: &Engines, pid: u32) -> bool {
    processes::comm(proc_root, pid).is_none_or(|comm| processes_of(engines, &comm).are_several())
}

/// All processes of the servers whose first processes these are; of most servers, these alone. Where the
/// kernel lists a thread's children (CONFIG_PROC_CHILDREN), no other process of the host is read.
pub(crate) fn members(proc_root: &Path, engines: &Engines, servers: &[u32]) -> Vec<u32> {
    let mut instances = Instances::new(proc_root, engines);
    let mut members: BTreeSet<u32> = servers.iter().copied().collect();
    let mut several = |&pid: &u32| instances.see(pid).is_some_and(|seen| seen.processes.are_several());
    let several: Vec<u32> = servers.iter().copied().filter(&mut several).collect();
    let listed: Option<Vec<Vec<u32>>> = several.iter().map(|&pid| descendants(proc_root, pid)).collect();
    let candidates = match listed {
        Some(listed) => listed.concat(),
        None => processes::all_pids(proc_root).collect(),
    };
    for pid in candidates {
        // Most are told by their names.
        if processes::comm(proc_root, pid).is_some_and(|comm| processes_of(engines, &comm).are_several())
            && several.contains(&instances.first_of(pid))
        {
            members.insert(pid);
        }
    }
    members.into_iter().collect()
}

/// What a process forked, and what that forked, as far as a server is looked for among its ancestors. None:
/// the kernel does not list it. One that is forked while its parent's list is read may be missing.
fn descendants(proc_root: &Path, pid: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    let mut parents = vec![pid];
    for _ in 0..ANCESTORS {
        let mut children = Vec::new();
        for parent in parents {
            children.extend(children_of(proc_root, parent)?);
        }
        children.truncate(MAX_MEMBERS.saturating_sub(all.len()));
        all.extend(&children);
        parents = children;
    }
    Some(all)
}

/// The children of all threads of a process; of one that has gone, none. None: the kernel does not list them.
fn children_of(proc_root: &Path, pid: u32) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    let threads = std::fs::read_dir(proc_root.join(format!("{pid}/task"))).into_iter().flatten().flatten();
    for thread in threads {
        match proc_file::read(&thread.path().join("children")) {
            Ok(list) => {
                let list = String::from_utf8_lossy(&list);
                children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            Err(error) if error.kind() == ErrorKind::NotFound && thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::PROC;
    use crate::linux::child::Sleeper;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A shell under the name of PostgreSQL, in a directory of its own.
    struct Shell {
        child: Child,
        said: BufReader<std::process::ChildStdout>,
        _directory: tempfile::TempDir,
    }

    impl Shell {
        fn start(script: &str) -> Shell {
            let directory = tempfile::tempdir().unwrap();
            let program = directory.path().join("postgres");
            std::fs::copy("/bin/bash", &program).unwrap();
            let mut command = Command::new(&program);
            command.args(["-c", script]).current_dir(directory.path()).stdout(Stdio::piped());
            // Another test may be starting a program and have this one's file open still.
            let mut child = loop {
                match command.spawn() {
                    Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => std::thread::yield_now(),
                    result => break result.unwrap(),
                }
            };
            let said = BufReader::new(child.stdout.take().unwrap());
            Shell { child, said, _directory: directory }
        }

        fn pid(&self) -> u32 {
            self.child.id()
        }

        fn next_pid(&mut self) -> u32 {
            let mut line = String::new();
            self.said.read_line(&mut line).unwrap();
            line.trim().parse().unwrap()
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn first_of(pid: u32) -> u32 {
        Instances::new(Path::new(PROC), &Engines::builtin()).first_of(pid)
    }

    fn servers_of(pids: &[u32]) -> Vec<u32> {
        let engines = Engines::builtin();
        let servers = Instances::new(Path::new(PROC), &engines).servers_of(pids.iter().copied());
        servers.iter().map(|server| server.pid).collect()
    }

    /// Waits without another program until the first shell is gone.
    const WAITS: &str = "exec 3<> <(:); while read -t 0.1 -u 3; [ -d /proc/$$ ]; do :; done";

    #[test]
    fn what_a_server_forked_is_the_server_and_what_executes_another_program_is_not() {
        let script = format!("(echo $BASHPID; ( echo $BASHPID; {WAITS} ); :) & sleep 60 & echo $!; wait");
        let mut server = Shell::start(&script);
        let mut others = [server.next_pid(), server.next_pid(), server.next_pid()];
        let comm = |pid: u32| processes::comm(Path::new(PROC), pid).unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !others.iter().any(|&pid| comm(pid) == "sleep") {
            assert!(std::time::Instant::now() < end);
        }
        others.sort_by_key(|&pid| comm(pid) == "sleep");
        let [child, grandchild, sleep] = others;
        assert_eq!([child, grandchild, sleep].map(first_of), [server.pid(), server.pid(), sleep]);
        assert_eq!(servers_of(&[sleep, grandchild, child]), {
            let mut both = [server.pid(), sleep];
            both.sort();
            both
        });
        let members = members(Path::new(PROC), &Engines::builtin(), &[server.pid()]);
        assert!([server.pid(), child, grandchild].iter().all(|pid| members.contains(pid)), "{members:?}");
        assert!(!members.contains(&sleep) && !members.contains(&std::process::id()));
        Command::new("kill").arg(sleep.to_string()).status().unwrap();
    }

    #[test]
    fn a_server_that_another_one_starts_is_its_own() {
        let inner = Shell::start("read -t 0.01; :");
        let program = inner._directory.path().join("postgres");
        let script = format!("{} -c 'echo $$; {WAITS}' & wait", program.display());
        let mut outer = Shell::start(&script);
        let started = outer.next_pid();
        assert_eq!(first_of(started), started);
        outer.child.kill().unwrap();
        Command::new("kill").arg(started.to_string()).status().unwrap();
    }

    #[test]
    fn who_has_lost_its_server_is_none() {
        let mut server =
            Shell::start("(echo $BASHPID; exec 3<> <(:); while :; do read -t 0.1 -u 3; done) & wait");
        let child = server.next_pid();
        assert_eq!(servers_of(&[child]), [server.pid()]);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while first_of(child) != child {
            assert!(std::time::Instant::now() < end);
        }
        assert_eq!(servers_of(&[child]), [0; 0]);
        Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
    }

    #[test]
    fn the_children_of_a_process_are_listed_and_of_one_that_has_gone_there_are_none() {
        let child = Sleeper::start();
        let (own, pid) = (std::process::id(), child.id());
        assert!(descendants(Path::new(PROC), own).unwrap().contains(&pid));
        drop(child);
        assert!(!descendants(Path::new(PROC), own).unwrap().contains(&pid));
        assert_eq!(descendants(Path::new(PROC), 1 << 30), Some(Vec::new()));
        // A kernel that lists none: a thread without that file.
        let proc_root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(proc_root.path().join("7/task/7")).unwrap();
        assert_eq!(descendants(proc_root.path(), 7), None);
    }

    #[test]
    fn of_a_server_that_is_one_process_no_other_is_looked_for() {
        let (own, engines) = (std::process::id(), Engines::builtin());
        assert_eq!((first_of(own), members(Path::new(PROC), &engines, &[own])), (own, vec![own]));
        assert_eq!(first_of(1 << 30), 1 << 30);
        let may_have_children = |pid| may_have_children(Path::new(PROC), &engines, pid);
        assert!(!may_have_children(own) && may_have_children(1 << 30));
    }
}
