//! Parsing of the files under /proc/PID that a look at a thread reads. All of them can be read while the
//! process is stuck: none takes its memory map's lock.
//!
//! Never read here: cmdline, environ, maps, smaps, map_files (they take `mmap_lock`, which a thread that
//! hangs in a page fault holds). Never done here: `stat` or `open` through /proc/PID/fd/N, which would go to
//! the very filesystem that hangs; `readlink` does not.

use std::time::Duration;

use crate::linux::proc_file::PF_KTHREAD;

/// The fields of /proc/TID/stat that a scan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// 'D', 'S', ...
    pub state: char,
    /// In clock ticks since boot; together with the tid it identifies a thread.
    pub start_ticks: u64,
    /// The CPU it last ran on.
    pub cpu: u32,
}

/// From field 3 on, the state. The thread's name may hold anything, parentheses and invalid UTF-8 too, so
/// fields count from the last ')'.
fn fields_of_stat(content: &[u8]) -> Option<Vec<&str>> {
    let end_of_name = content.iter().rposition(|&b| b == b')')?;
    Some(std::str::from_utf8(&content[end_of_name + 1..]).ok()?.split_ascii_whitespace().collect())
}

/// From stat: it makes no system calls.
pub(crate) fn is_kernel_thread(stat: &[u8]) -> bool {
    let flags = fields_of_stat(stat).and_then(|fields| fields.get(9 - 3)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

pub(crate) fn parse_stat(content: &[u8]) -> Option<Stat> {
    let fields = fields_of_stat(content)?;
    Some(Stat {
        state: fields.first()?.chars().next()?,
        start_ticks: fields.get(22 - 3)?.parse().ok()?,
        cpu: fields.get(39 - 3)?.parse().ok()?,
    })
}

/// How much a thread has run: equal at two looks means that it has not run in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// From schedstat, in nanoseconds of CPU time.
    pub ran_ns: Option<u64>,
    /// From status: voluntary and involuntary context switches together.
    pub switches: Option<u64>,
}

impl Progress {
    /// None when the kernel tells neither.
    pub fn parse(schedstat: Option<&[u8]>, status: Option<&[u8]>) -> Option<Progress> {
        let ran_ns = schedstat.and_then(|content| {
            std::str::from_utf8(content).ok()?.split_ascii_whitespace().next()?.parse().ok()
        });
        let switches = status.and_then(|content| {
            let counter = |name| value_of(content, name)?.parse::<u64>().ok();
            Some(counter(b"voluntary_ctxt_switches")? + counter(b"nonvoluntary_ctxt_switches")?)
        });
        (ran_ns.is_some() || switches.is_some()).then_some(Progress { ran_ns, switches })
    }
}

/// The value of "name: value", as in status, fdinfo and sched.
pub(crate) fn value_of<'a>(content: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let line = content.split(|&b| b == b'\n').find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_ascii_start();
        rest.strip_prefix(b":")
    })?;
    std::str::from_utf8(line).ok().map(str::trim)
}

/// When the thread last ran, from /proc/TID/sched: on the clock of the CPU that it ran on, which differs from
/// CPU to CPU (see [`super::clock`]).
pub(crate) fn parse_last_ran(sched: &[u8]) -> Option<Duration> {
    let (milliseconds, fraction) = value_of(sched, b"se.exec_start")?.split_once('.')?;
    let (milliseconds, nanoseconds) = (milliseconds.parse::<u64>().ok()?, fraction.parse::<u64>().ok()?);
    // six digits; 0 is what the kernel leaves there before a thread's first run
    let at = Duration::from_millis(milliseconds) + Duration::from_nanos(nanoseconds);
    (fraction.len() == 6 && !at.is_zero()).then_some(at)
}

/// The functions of /proc/TID/stack, innermost first, without addresses and offsets.
pub(crate) fn parse_stack(content: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(content)
        .lines()
        .filter_map(|line| {
            let symbol = line.split_once("] ").map_or(line, |(_address, symbol)| symbol);
            let name = symbol.split(['+', ' ']).next()?.trim();
            (!name.is_empty()).then(|| name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_call_itself_anything() {
        let content = b"28495 (a) D 1 (\xff)) D 28493 28493 28493 0 -1 4194304 866 0 0 0 0 1 0 0 20 0 1 0 102325 \
            14184448 2032 18446744073709551615 4321280 7148169 140721709297824 0 0 0 0 16781318 0 1 0 0 17 3 0 0";
        assert_eq!(parse_stat(content), Some(Stat { state: 'D', start_ticks: 102_325, cpu: 3 }));
        assert_eq!(parse_stat(b"1 (short) S 1 2"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn progress_is_known_when_either_file_is() {
        let status = b"Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t1\n".as_slice();
        let both = Progress::parse(Some(b"15195766 334506 13\n"), Some(status));
        assert_eq!(both, Some(Progress { ran_ns: Some(15_195_766), switches: Some(13) }));
        assert_eq!(Progress::parse(None, Some(status)).unwrap().switches, Some(13));
        assert_eq!(Progress::parse(None, Some(b"Name:\tx\n")), None);
    }

    #[test]
    fn the_last_run_is_in_milliseconds_with_six_digits() {
        let sched = b"python3 (28495, #threads: 1)\n-----\nse.exec_start      :       1024163.630799\n\
            se.vruntime      :             7.361534\n";
        assert_eq!(parse_last_ran(sched), Some(Duration::from_nanos(1_024_163_630_799)));
        assert_eq!(parse_last_ran(b"se.exec_start : 0.000000\n"), None);
        assert_eq!(parse_last_ran(b"nothing"), None);
    }

    #[test]
    fn a_stack_is_its_symbols() {
        let stack =
            b"[<0>] jbd2_log_wait_commit+0x1a/0x90 [jbd2]\n[<ffffffff8123>] ext4_sync_file+0xa0/0x2d0\n\
            [<0>] 0xffffffffffffffff\n";
        assert_eq!(parse_stack(stack), ["jbd2_log_wait_commit", "ext4_sync_file", "0xffffffffffffffff"]);
        assert!(parse_stack(b"").is_empty());
    }
}
