//! The system calls that are left to each of the exporter's processes once it is at work. All others fail
//! with ENOSYS, as on a kernel that lacks them, so that libraries take the older way where they have one.
//!
//! What is not listed cannot be reached by another number either: calls of other architectures end the
//! process, and those of x32 have numbers of their own that are not in the lists.

use std::collections::BTreeMap;

use rustix::process::getpid;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::linux::open_files;

/// A system call by its name and its number on this architecture.
type Call = (&'static str, i64);

macro_rules! calls {
    ($($constant:ident)*) => { &[$((stringify!($constant), libc::$constant)),*] };
}

/// What any program of several threads with descriptors does.
const COMMON: &[Call] = calls! {
    SYS_brk SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_close SYS_dup SYS_dup3
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_exit SYS_exit_group
    SYS_fstat SYS_futex SYS_getcpu SYS_getegid SYS_geteuid SYS_getgid SYS_getpeername SYS_getpid
    SYS_getrandom SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid SYS_lseek
    SYS_madvise SYS_mmap SYS_mprotect SYS_mremap SYS_munmap SYS_nanosleep SYS_pipe2 SYS_ppoll SYS_read
    SYS_readv SYS_recvfrom SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_rt_sigreturn SYS_sched_getaffinity SYS_sched_yield SYS_set_robust_list SYS_sigaltstack SYS_sysinfo
    SYS_uname SYS_write SYS_writev
};

/// The same by the numbers that only older architectures have.
#[cfg(target_arch = "x86_64")]
const COMMON_OLD: &[Call] = calls! { SYS_dup2 SYS_epoll_create SYS_epoll_wait SYS_pipe SYS_poll SYS_time };
#[cfg(not(target_arch = "x86_64"))]
const COMMON_OLD: &[Call] = &[];

/// Clients.
const WEB: &[Call] = calls! { SYS_accept4 };

/// Files of its folder, which Landlock keeps it to.
const RECORDER: &[Call] = calls! {
    SYS_fstatfs SYS_getdents64 SYS_newfstatat SYS_openat SYS_statx SYS_unlinkat
};

/// Files of /proc and of servers, to read; the mapped rows; the sync calls with which tracing tests itself.
/// What openat2 opens for cannot be told by a filter: it is how paths are kept inside a server's root.
const PROBER: &[Call] = calls! {
    SYS_capget SYS_faccessat SYS_faccessat2 SYS_fdatasync SYS_fstatfs SYS_fsync SYS_ftruncate SYS_getcwd
    SYS_getdents64 SYS_getrlimit SYS_getrusage SYS_membarrier SYS_memfd_create SYS_msync SYS_newfstatat
    SYS_openat2 SYS_pidfd_open SYS_pread64 SYS_readlinkat SYS_statfs SYS_statx SYS_sync SYS_sync_file_range SYS_syncfs
    SYS_wait4 SYS_waitid
};
#[cfg(target_arch = "x86_64")]
const PROBER_OLD: &[Call] = calls! { SYS_access SYS_getdents SYS_lstat SYS_readlink SYS_stat };
#[cfg(not(target_arch = "x86_64"))]
const PROBER_OLD: &[Call] = &[];

/// Commands of bpf(): those on maps and programs that are open already (include/uapi/linux/bpf.h). The last
/// three attach the program that lists syncs in flight, which is loaded already, to the threads of a process,
/// and read what it lists.
const BPF_COMMANDS: [u64; 12] = [
    libbpf_sys::BPF_MAP_LOOKUP_ELEM as u64,
    libbpf_sys::BPF_MAP_UPDATE_ELEM as u64,
    libbpf_sys::BPF_MAP_DELETE_ELEM as u64,
    libbpf_sys::BPF_MAP_GET_NEXT_KEY as u64,
    libbpf_sys::BPF_MAP_LOOKUP_AND_DELETE_ELEM as u64,
    libbpf_sys::BPF_MAP_LOOKUP_BATCH as u64,
    libbpf_sys::BPF_MAP_LOOKUP_AND_DELETE_BATCH as u64,
    libbpf_sys::BPF_PROG_TEST_RUN as u64,
    libbpf_sys::BPF_OBJ_GET_INFO_BY_FD as u64,
    libbpf_sys::BPF_LINK_CREATE as u64,
    libbpf_sys::BPF_LINK_DETACH as u64,
    libbpf_sys::BPF_ITER_CREATE as u64,
];

/// Whether it is a terminal, and whether a descriptor blocks: nothing that changes what it stands for.
#[allow(clippy::unnecessary_cast)] // the constants' type differs from one C library to another
const IOCTLS: [u64; 3] = [libc::TCGETS as u64, libc::FIONBIO as u64, libc::FIOCLEX as u64];

/// Which process a filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Reads what the probes count, and /proc; describes servers.
    Prober,
    /// Speaks HTTP, and hands out the history.
    Web,
    /// Writes the recording.
    Recorder,
}

impl Process {
    pub const ALL: [Process; 3] = [Process::Prober, Process::Web, Process::Recorder];
}

#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    #[error("there is no filter for this kind of processor")]
    Architecture,
    #[error("the filter of system calls: {0}")]
    Filter(#[from] BackendError),
    #[error("the kernel does not take the filter of system calls: {0}")]
    Kernel(#[from] seccompiler::Error),
}

/// Leaves this process's threads, also those that run already, no other calls than these.
pub fn apply(process: Process) -> Result<(), SeccompError> {
    Ok(seccompiler::apply_filter_all_threads(&filter(process)?)?)
}

/// The same for the calling thread alone, and those that it starts.
pub fn apply_to_thread(process: Process) -> Result<(), SeccompError> {
    Ok(seccompiler::apply_filter(&filter(process)?)?)
}

/// All names, as a profile of a container runtime would list them.
pub fn names(process: Process) -> Vec<&'static str> {
    let mut names: Vec<_> = free(process).map(|(name, _)| name).collect();
    names.extend(conditional(process).into_iter().map(|(name, ..)| name));
    names.iter_mut().for_each(|name| *name = name.trim_start_matches("SYS_"));
    names.sort_unstable();
    names
}

/// Calls with any arguments.
fn free(process: Process) -> impl Iterator<Item = Call> {
    let own: [&[Call]; 2] = match process {
        Process::Prober => [PROBER, PROBER_OLD],
        Process::Web => [WEB, &[]],
        Process::Recorder => [RECORDER, &[]],
    };
    [COMMON, COMMON_OLD].into_iter().chain(own).flatten().copied()
}

/// What an argument, counted from 0, must be.
#[derive(Clone, Copy)]
enum Must {
    /// This number, of 32 bits.
    Be(u8, u64),
    /// Without any of these bits.
    Lack(u8, u64),
    /// With these bits.
    Have(u8, u64),
    /// No address.
    BeNull(u8),
}

impl Must {
    fn condition(self) -> Result<SeccompCondition, BackendError> {
        use SeccompCmpArgLen::{Dword, Qword};
        match self {
            Must::Be(argument, value) => SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value),
            Must::Lack(argument, bits) => {
                SeccompCondition::new(argument, Qword, SeccompCmpOp::MaskedEq(bits), 0)
            }
            Must::Have(argument, bits) => {
                SeccompCondition::new(argument, Qword, SeccompCmpOp::MaskedEq(bits), bits)
            }
            Must::BeNull(argument) => SeccompCondition::new(argument, Qword, SeccompCmpOp::Eq, 0),
        }
    }
}

/// A call that is allowed where one of these lists holds as a whole.
type Conditional = (&'static str, i64, Vec<Vec<Must>>);

fn one_of(argument: u8, values: &[u64]) -> Vec<Vec<Must>> {
    values.iter().map(|&value| vec![Must::Be(argument, value)]).collect()
}

/// Each combination that is written out is needed; those that are not would reach something: a signal by
/// fcntl, an address by sendto, another process's limits.
fn conditional(process: Process) -> Vec<Conditional> {
    let own = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
    let descriptor = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];
    let mut fcntl = one_of(1, &descriptor.map(|command| command as u64));
    fcntl.push(vec![Must::Be(1, libc::F_SETFL as u64), Must::Lack(2, libc::O_ASYNC as u64)]);
    // Time limits, by their old and new names (include/uapi/asm-generic/socket.h), and Nagle's algorithm.
    let socket = |name| vec![Must::Be(1, libc::SOL_SOCKET as u64), Must::Be(2, name)];
    let mut options: Vec<_> = [20, 21, 66, 67].map(socket).to_vec();
    options.push(vec![Must::Be(1, libc::IPPROTO_TCP as u64), Must::Be(2, libc::TCP_NODELAY as u64)]);
    let mut all = vec![
        // A thread, and no process: clone3 takes its flags from memory, where a filter cannot look, so it is
        // not listed and the C library falls back to clone.
        ("SYS_clone", libc::SYS_clone, vec![vec![Must::Have(0, libc::CLONE_THREAD as u64)]]),
        ("SYS_fcntl", libc::SYS_fcntl, fcntl),
        ("SYS_ioctl", libc::SYS_ioctl, one_of(1, &IOCTLS)),
        ("SYS_prctl", libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u64])),
        ("SYS_sendto", libc::SYS_sendto, vec![vec![Must::BeNull(4)]]),
        ("SYS_setsockopt", libc::SYS_setsockopt, options),
        // Of a connection's own direction: the other one would make a listener a socket that can connect.
        ("SYS_shutdown", libc::SYS_shutdown, one_of(1, &[libc::SHUT_WR as u64])),
        // Ending itself, after a panic in a destructor.
        ("SYS_tgkill", libc::SYS_tgkill, one_of(0, &[own])),
    ];
    if process == Process::Prober {
        let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
        all.push(("SYS_bpf", libc::SYS_bpf, one_of(0, &BPF_COMMANDS)));
        all.push(("SYS_openat", libc::SYS_openat, vec![vec![Must::Lack(2, writes)]]));
        #[cfg(target_arch = "x86_64")]
        all.push(("SYS_open", libc::SYS_open, vec![vec![Must::Lack(1, writes)]]));
        // The writes with which tracing tests itself: the first argument is a descriptor that is not open.
        let writes = calls! {
            SYS_copy_file_range SYS_fallocate SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_sendfile SYS_splice
        };
        all.extend(writes.iter().map(|&(name, number)| (name, number, one_of(0, &[u64::from(u32::MAX)]))));
        // Whether two threads share their descriptors, and nothing else of them.
        all.push(("SYS_kcmp", libc::SYS_kcmp, one_of(2, &[open_files::KCMP_FILES as u64])));
        // Its own limits, to read.
        all.push(("SYS_prlimit64", libc::SYS_prlimit64, vec![vec![Must::Be(0, 0), Must::BeNull(2)]]));
    }
    all
}

fn filter(process: Process) -> Result<BpfProgram, SeccompError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        free(process).map(|(_, number)| (number, vec![])).collect();
    for (_, number, alternatives) in conditional(process) {
        let alternatives = alternatives
            .into_iter()
            .map(|all| SeccompRule::new(all.into_iter().map(Must::condition).collect::<Result<_, _>>()?));
        rules.insert(number, alternatives.collect::<Result<_, _>>()?);
    }
    let architecture = std::env::consts::ARCH.try_into().map_err(|_| SeccompError::Architecture)?;
    let (refused, allowed) = (SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow);
    Ok(SeccompFilter::new(rules, refused, allowed, architecture)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;

    /// Each in a process of its own would be no different: a filter is a thread's.
    fn in_thread<T: Send + 'static>(process: Process, task: impl FnOnce() -> T + Send + 'static) -> T {
        let confined = move || {
            apply_to_thread(process).unwrap();
            task()
        };
        std::thread::spawn(confined).join().unwrap()
    }

    #[test]
    fn the_web_process_opens_nothing_and_none_a_socket() {
        let open = || std::fs::File::open("/proc/self/stat").is_ok();
        assert_eq!(Process::ALL.map(|process| in_thread(process, open)), [true, false, true]);
        let network = || std::net::TcpListener::bind("127.0.0.1:0").is_ok();
        assert_eq!(Process::ALL.map(|process| in_thread(process, network)), [false; 3]);
        let local = || std::os::unix::net::UnixDatagram::unbound().is_ok();
        assert_eq!(Process::ALL.map(|process| in_thread(process, local)), [false; 3]);
    }

    #[test]
    fn all_start_threads_and_none_a_process() {
        for process in Process::ALL {
            let thread = || std::thread::Builder::new().spawn(|| 7).unwrap().join().unwrap();
            assert_eq!(in_thread(process, thread), 7, "{process:?}");
            let child = || std::process::Command::new("/bin/true").status().is_ok();
            assert!(!in_thread(process, child), "{process:?}");
        }
    }

    #[test]
    fn the_prober_and_a_container_can_make_each_call_with_which_tracing_tests_itself() {
        let profile = include_str!("../../../examples/kubernetes/fsynctop-seccomp.json");
        let conditional = conditional(Process::Prober);
        let conditional = conditional.iter().map(|&(name, number, _)| (name, number));
        let allowed: BTreeMap<i64, &str> =
            free(Process::Prober).chain(conditional).map(|(name, number)| (number, name)).collect();
        for call in Op::ALL.into_iter().flat_map(Op::calls) {
            let name = allowed.get(&call.native).unwrap_or_else(|| panic!("{} is not allowed", call.name));
            let name = name.trim_start_matches("SYS_");
            assert!(profile.contains(&format!("\"{name}\"")), "the profile lacks {name}");
        }
    }

    #[test]
    fn the_lists_name_each_call_once() {
        for process in Process::ALL {
            let names = names(process);
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }

    /// What starting takes beside that: the programs, their hooks, the sockets, the second process, and what
    /// is given up.
    const START: [&str; 43] = [
        "accept",
        "accept4",
        "arch_prctl",
        "bind",
        "bpf",
        "capset",
        "chdir",
        "chmod",
        "clone",
        "clone3",
        "close_range",
        "connect",
        "execve",
        "fchmod",
        "fchmodat",
        "fchown",
        "flock",
        "getppid",
        "landlock_add_rule",
        "landlock_create_ruleset",
        "landlock_restrict_self",
        "listen",
        "memfd_create",
        "mkdir",
        "mkdirat",
        "perf_event_open",
        "prctl",
        "recvmsg",
        "sched_setaffinity",
        "seccomp",
        "sendmsg",
        "set_tid_address",
        "setgid",
        "setgroups",
        "setresgid",
        "setresuid",
        "setuid",
        "socket",
        "socketpair",
        "umask",
        "unlink",
        "unlinkat",
        "vfork",
    ];

    #[cfg(target_arch = "x86_64")] // which has all the numbers that the others have
    #[test]
    fn the_containers_profile_allows_what_all_processes_and_their_start_need_and_nothing_else() {
        let profile: serde_json::Value =
            serde_json::from_str(include_str!("../../../examples/kubernetes/fsynctop-seccomp.json")).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        let rules = profile["syscalls"].as_array().unwrap();
        assert!(rules.iter().all(|rule| rule["action"] == "SCMP_ACT_ALLOW"));
        let found: Vec<_> = rules.iter().flat_map(|rule| rule["names"].as_array().unwrap()).collect();
        let mut wanted: Vec<_> = Process::ALL.into_iter().flat_map(names).collect();
        wanted.extend(START);
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(found, wanted);
    }
}
