//! Thread groups out of /proc, and whether one is still the one that the kernel side saw.

use std::collections::BTreeSet;
use std::path::Path;

use crate::linux::proc_file;
use crate::model::ServerId;

/// Of a kernel thread's name with its workqueue, and the end of the line (fs/proc/array.c: proc_task_name).
const COMM_BYTES: usize = 65;
/// Maximum depth of nested control groups.
const CGROUP_DEPTH: u32 = 64;
/// Of a list of members, so many bytes are read: more processes than a host can have (4,194,304,
/// PID_MAX_LIMIT).
const MEMBERS_LIMIT: u64 = 32 << 20;

/// A thread group as /proc shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadGroup {
    pub pid: u32,
    /// The leader's name; invalid UTF-8 is replaced.
    pub comm: String,
    /// Since boot, in clock ticks: see [`same_start`].
    pub start_ticks: u64,
}

impl ThreadGroup {
    /// An identity for what only user space has seen: the start is cut to a clock tick (10 ms), so compare it
    /// to one of the kernel side by pid and [`start_tick`], not by `==`.
    pub fn id(&self) -> ServerId {
        ServerId { pid: self.pid, start_ns: self.start_ticks.saturating_mul(ns_per_tick()) }
    }
}

/// The number that a process has in the innermost of its PID namespaces.
pub(crate) fn own_pid(proc_root: &Path, pid: u32) -> u32 {
    let status = proc_file::read(&proc_root.join(format!("{pid}/status"))).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.and_then(|ids| ids.split_whitespace().next_back()?.parse().ok()).unwrap_or(pid)
}

/// Why a process that /proc does not show may be there nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    #[error("/proc is not mounted here, or is that of another PID namespace")]
    Everything,
    #[error(
        "/proc does not show the processes of other users: it is mounted with hidepid, or a security module \
         is in the way"
    )]
    Others,
}

/// None: /proc shows all processes. Each PID namespace has a process 1, whose name everybody may read.
pub(crate) fn unseen(proc_root: &Path) -> Option<Unseen> {
    let shows =
        |process: &str| proc_file::read_once::<COMM_BYTES>(&proc_root.join(process).join("comm")).is_ok();
    match (shows("self"), shows("1")) {
        (false, _) => Some(Unseen::Everything),
        (true, false) => Some(Unseen::Others),
        (true, true) => None,
    }
}

/// The name of a thread group's leader; invalid UTF-8 is replaced.
pub(in crate::server) fn comm(proc_root: &Path, pid: u32) -> Option<String> {
    Some(String::from_utf8_lossy(&comm_bytes(proc_root, pid)?).into_owned())
}

/// The same as the kernel keeps it.
pub(super) fn comm_bytes(proc_root: &Path, pid: u32) -> Option<Vec<u8>> {
    let mut comm = proc_file::read_once::<COMM_BYTES>(&proc_root.join(format!("{pid}/comm"))).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

/// The process of a thread. None: it has gone.
pub(crate) fn of_thread(proc_root: &Path, tid: u32) -> Option<u32> {
    // /proc/TID can be opened for any thread, though only leaders are listed.
    let status = proc_file::read(&proc_root.join(format!("{tid}/status"))).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// One thread group. None: it has gone.
pub fn find(proc_root: &Path, pid: u32) -> Option<ThreadGroup> {
    Some(read(proc_root, pid)?.0)
}

/// In the auxiliary vector of a process (include/uapi/linux/auxvec.h): the real user who executed its
/// program, and whether that lent them more rights than they had.
const AT_UID: u64 = 11;
const AT_SECURE: u64 = 23;

/// The user whose process it is: what /proc/PID belongs to would be root, where a server has given up root's
/// rights. Who runs a program that becomes root, as sudo does, may run it under any name: it is theirs.
pub(crate) fn owner(proc_root: &Path, pid: u32) -> Option<u32> {
    match real_user(proc_root, pid)? {
        0 => Some(lent_to(proc_root, pid).unwrap_or(0)),
        // A process can change its own vector (PR_SET_MM_MAP): what it says there makes nobody another user.
        uid => Some(uid),
    }
}

/// Who was lent root's rights by the program that a process of root's runs.
fn lent_to(proc_root: &Path, pid: u32) -> Option<u32> {
    let vector = proc_file::read_once::<1024>(&proc_root.join(format!("{pid}/auxv"))).ok()?;
    let word = |bytes: &[u8]| match bytes.len() {
        4 => bytes.try_into().ok().map(u32::from_ne_bytes).map(u64::from),
        _ => bytes.try_into().ok().map(u64::from_ne_bytes),
    };
    let size = if is_of_32_bits(&vector) { 4 } else { 8 };
    // Kinds and values in turn.
    let words: Vec<u64> = vector.chunks_exact(size).filter_map(word).collect();
    let value = |kind: u64| words.chunks_exact(2).find(|pair| pair[0] == kind).map(|pair| pair[1]);
    let user = value(AT_UID).filter(|_| value(AT_SECURE) == Some(1))?;
    u32::try_from(user).ok().filter(|&user| user != 0)
}

fn real_user(proc_root: &Path, pid: u32) -> Option<u32> {
    let status = proc_file::read_once::<1024>(&proc_root.join(format!("{pid}/status"))).ok()?;
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// True if the pid still belongs to this server.
pub(crate) fn is_alive(proc_root: &Path, id: ServerId) -> bool {
    let still = read(proc_root, id.pid).filter(|(group, _)| same_start(id.start_ns, group.start_ticks));
    // A zombie waits for its parent; it does nothing more.
    still.is_some_and(|(_, stat)| !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1)
}

/// Whether a process of this 64-bit kernel runs a 32-bit program: its auxiliary vector has entries of half
/// the size, so that the first eight bytes are a type and its value, where a type alone is less than 2^32
/// (create_elf_tables in fs/binfmt_elf.c).
pub(crate) fn is_32_bit(proc_root: &Path, pid: u32) -> bool {
    proc_file::read_once::<8>(&proc_root.join(format!("{pid}/auxv"))).is_ok_and(|start| is_of_32_bits(&start))
}

fn is_of_32_bits(vector: &[u8]) -> bool {
    let first = vector.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    cfg!(target_pointer_width = "64") && first.is_some_and(|first| first > u64::from(u32::MAX))
}

/// Whether a start time of the kernel (`start_boottime`, nanoseconds) and one of /proc/PID/stat (field 22,
/// clock ticks) are the same: the kernel divides, fs/proc/array.c.
pub(crate) fn same_start(start_ns: u64, ticks: u64) -> bool {
    start_tick(start_ns) == ticks
}

/// A start time of the kernel in clock ticks, as /proc has it.
pub(crate) fn start_tick(start_ns: u64) -> u64 {
    start_ns / ns_per_tick()
}

/// Two identities of one process, either of which may be cut to a clock tick.
pub(crate) fn same_server(a: ServerId, b: ServerId) -> bool {
    cut_to_tick(a) == cut_to_tick(b)
}

/// The part that all identities of one process share.
pub(crate) fn cut_to_tick(id: ServerId) -> ServerId {
    ServerId { start_ns: id.start_ns / ns_per_tick() * ns_per_tick(), ..id }
}

fn ns_per_tick() -> u64 {
    1_000_000_000 / procfs::ticks_per_second().clamp(1, 1_000_000_000)
}

pub(super) fn read(proc_root: &Path, pid: u32) -> Option<(ThreadGroup, procfs::process::Stat)> {
    let process = procfs::process::Process::new_with_root(proc_root.join(pid.to_string())).ok()?;
    let stat = process.stat().ok()?;
    Some((ThreadGroup { pid, comm: stat.comm.clone(), start_ticks: stat.starttime }, stat))
}

pub(super) fn all_pids(proc_root: &Path) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(proc_root).into_iter().flatten();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.collect::<BTreeSet<u32>>().into_iter()
}

/// The processes in a control group and in those below it, of either version.
pub(super) fn members(directory: &Path) -> Vec<u32> {
    let mut pids = BTreeSet::new();
    collect_members(directory, CGROUP_DEPTH, &mut pids);
    pids.into_iter().collect()
}

/// The kernel lists the members in our own PID namespace's numbers; 0 is one that has none there.
fn collect_members(directory: &Path, depth: u32, pids: &mut BTreeSet<u32>) {
    let members = proc_file::lines(&directory.join("cgroup.procs"), MEMBERS_LIMIT).into_iter().flatten();
    let pids_of = |line: Vec<u8>| std::str::from_utf8(&line).ok()?.parse::<u32>().ok();
    pids.extend(members.filter_map(pids_of).filter(|&pid| pid != 0));
    if depth == 0 {
        return;
    }
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_members(&entry.path(), depth - 1, pids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_of_a_program_is_known_by_its_auxiliary_vector() {
        let proc_root = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc_root.path().join("7")).unwrap();
        let is_32_bit = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            std::fs::write(proc_root.path().join("7/auxv"), bytes).unwrap();
            super::is_32_bit(proc_root.path(), 7)
        };
        assert!(is_32_bit(&[32, 0xf7f1_c560, 33, 0xf7f1_c000]));
        assert!(!is_32_bit(&[33, 0, 0xf7f1_c000, 0x7ffd]));
        assert!(!is_32_bit(&[]) && !is_32_bit(&[32]));
        assert!(!super::is_32_bit(Path::new("/proc"), std::process::id()));
    }

    #[test]
    fn the_owner_of_a_process_is_its_user() {
        let proc_root = Path::new("/proc");
        assert_eq!(owner(proc_root, std::process::id()), Some(rustix::process::getuid().as_raw()));
        assert_eq!(owner(proc_root, 1 << 30), None);
    }

    /// `words`: of the auxiliary vector of this user's process, each of so many bytes.
    fn owner_with(user: u32, words: &[u32], bytes: usize) -> Option<u32> {
        let proc_root = tempfile::tempdir().unwrap();
        let process = proc_root.path().join("7");
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("status"), format!("Name:\tmysqld\nUid:\t{user}\t0\t0\t0\n")).unwrap();
        let word = |&word: &u32| match bytes {
            8 => u64::from(word).to_ne_bytes().to_vec(),
            _ => word.to_ne_bytes().to_vec(),
        };
        std::fs::write(process.join("auxv"), words.iter().flat_map(word).collect::<Vec<u8>>()).unwrap();
        owner(proc_root.path(), 7)
    }

    #[test]
    fn who_runs_a_program_that_becomes_root_is_its_owner() {
        let [uid, secure] = [AT_UID, AT_SECURE].map(|kind| kind as u32);
        for bytes in [8, 4] {
            let of = |words: &[u32]| owner_with(0, words, bytes);
            assert_eq!(of(&[33, 7, uid, 1001, 12, 0, secure, 1, 0, 0]), Some(1001), "sudo, {bytes} bytes");
            assert_eq!(of(&[33, 7, uid, 1001, 12, 0, secure, 0, 0, 0]), Some(0), "root from the start");
            assert_eq!(of(&[33, 7, uid, 0, secure, 1, 0, 0]), Some(0), "executed by root");
            let says = [33, 7, uid, 999, secure, 1, 0, 0];
            assert_eq!(owner_with(1001, &says, bytes), Some(1001), "what a process says itself");
            assert_eq!(of(&[]), Some(0));
        }
    }

    #[test]
    fn a_proc_that_does_not_show_everything_is_told_from_one_that_does() {
        assert_eq!(unseen(Path::new("/proc")), None, "the tests need a /proc that shows all processes");
        assert_eq!(unseen(Path::new("/no/such/directory")), Some(Unseen::Everything));
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(unseen(dir.path()), Some(Unseen::Everything));
        std::fs::create_dir(dir.path().join("self")).unwrap();
        std::fs::write(dir.path().join("self/comm"), "me\n").unwrap();
        assert_eq!(unseen(dir.path()), Some(Unseen::Others));
        // As with hidepid=1, which shows the directory and nothing in it.
        std::fs::create_dir(dir.path().join("1")).unwrap();
        assert_eq!(unseen(dir.path()), Some(Unseen::Others));
        std::fs::write(dir.path().join("1/comm"), "init\n").unwrap();
        assert_eq!(unseen(dir.path()), None);
    }

    #[test]
    fn a_reused_pid_is_another_server() {
        let me = find(Path::new("/proc"), std::process::id()).unwrap();
        let alive = |start_ns| is_alive(Path::new("/proc"), ServerId { start_ns, ..me.id() });
        let start_ns = me.id().start_ns;
        assert!(alive(start_ns) && alive(start_ns + 9_999_999));
        assert!(!alive(start_ns + 10_000_000) && !alive(start_ns - 1));
        assert!(same_start(start_ns + 1, me.start_ticks));
        assert_eq!(start_tick(me.id().start_ns + 5), me.start_ticks);
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = find(Path::new("/proc"), child.id()).unwrap().id();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while is_alive(Path::new("/proc"), id) {
            assert!(std::time::Instant::now() < deadline, "the child should have ended");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(Path::new("/proc"), id));
    }

    #[test]
    fn a_process_has_a_number_of_its_own() {
        assert_eq!(own_pid(Path::new("/proc"), std::process::id()), std::process::id());
    }
}
