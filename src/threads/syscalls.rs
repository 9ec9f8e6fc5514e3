//! What /proc/TID/syscall says: which system call a thread that is not running is in, and with which
//! arguments.
//!
//! The file holds "running", "-1 SP PC" (blocked outside of a system call) or "NR A0 A1 A2 A3 A4 A5 SP PC". A
//! process of the other word size uses another numbering, and the line does not say so: on x86-64 call 162 is
//! `sync`, but `nanosleep` to a 32-bit process. The stack pointer tells them apart: only a 32-bit process has
//! its stack below 4 GiB (and x32, which marks its numbers with bit 30).

use crate::model::{Op, Scope};

/// A sync call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncCall {
    pub op: Op,
    pub arguments: [u64; 6],
}

impl SyncCall {
    /// The descriptor that is synced; `sync` and `msync` have none.
    pub fn fd(&self) -> Option<i32> {
        (self.op.scope() != Scope::Unnamed).then_some(self.arguments[0] as i32)
    }
}

const X32_BIT: u64 = 1 << 30;

/// The numbering that a line's process uses.
#[derive(Clone, Copy)]
enum Numbering {
    Native,
    Compat,
}

/// The number of the call in a line, by which numbering, and its arguments.
fn split(line: &str) -> Option<(u64, Numbering, [u64; 6])> {
    let mut words = line.split_ascii_whitespace();
    // "running" and "-1" end here
    let number: u64 = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = hexadecimal(words.next()?)?;
    }
    let stack_pointer = hexadecimal(words.next()?)?;
    Some(if cfg!(target_arch = "x86_64") && number & X32_BIT != 0 {
        (number & !X32_BIT, Numbering::Native, arguments)
    } else if stack_pointer >> 32 == 0 {
        (number, Numbering::Compat, arguments)
    } else {
        (number, Numbering::Native, arguments)
    })
}

/// The sync call in a line of /proc/TID/syscall; None for everything else.
pub fn parse(line: &str) -> Option<SyncCall> {
    let (number, numbering, arguments) = split(line)?;
    let op = match numbering {
        Numbering::Native => Op::of_number(number),
        Numbering::Compat => Op::of_compat_number(number),
    }?;
    Some(SyncCall { op, arguments })
}

/// A write that a thread is in, of whatever it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteCall {
    pub fd: i32,
    /// By its own flags (RWF_DSYNC, RWF_SYNC); its descriptor may have others.
    pub is_durable: bool,
    pub arguments: [u64; 6],
}

/// RWF_DSYNC and RWF_SYNC (include/uapi/linux/fs.h).
const RWF_DURABLE: u64 = 0x2 | 0x4;

/// The write in a line of /proc/TID/syscall; None for everything else.
pub(crate) fn parse_write(line: &str) -> Option<WriteCall> {
    let (number, numbering, arguments) = split(line)?;
    let name = match numbering {
        Numbering::Native => Op::DsyncWrite.call_of_number(number),
        Numbering::Compat => Op::DsyncWrite.call_of_compat_number(number),
    }?;
    let is_durable = name == "pwritev2" && arguments[5] & RWF_DURABLE != 0;
    Some(WriteCall { fd: arguments[0] as i32, is_durable, arguments })
}

/// Whether the line's thread is in a call by which the operation is made. One that writes need not be
/// durable.
pub fn may_be(line: &str, op: Op) -> bool {
    split(line).is_some_and(|(number, numbering, _)| match numbering {
        Numbering::Native => op.has_number(number),
        Numbering::Compat => op.has_compat_number(number),
    })
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: i64, first: u64) -> String {
        format!("{number} {first:#x} 0x0 0x0 0x7f338e5154f8 0x0 0x0 0x7ffc537eaa98 0x7f338e605ce0\n")
    }

    #[test]
    fn each_sync_call_is_known_by_its_number() {
        let numbers: [_; Op::SYNCS.len()] = [
            (libc::SYS_fsync, Op::Fsync),
            (libc::SYS_fdatasync, Op::Fdatasync),
            (libc::SYS_sync_file_range, Op::SyncFileRange),
            (libc::SYS_msync, Op::Msync),
            (libc::SYS_syncfs, Op::Syncfs),
            (libc::SYS_sync, Op::Sync),
        ];
        for (number, op) in numbers {
            let call = parse(&line(number, 7)).unwrap();
            assert_eq!(call.op, op);
            assert_eq!(call.fd(), (!matches!(op, Op::Msync | Op::Sync)).then_some(7));
        }
        assert_eq!(parse(&line(libc::SYS_read, 7)), None);
    }

    #[test]
    fn a_write_may_be_a_durable_one_and_is_no_sync_call() {
        for number in [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_pwritev2] {
            let line = line(number, 7);
            assert!(may_be(&line, Op::DsyncWrite) && !may_be(&line, Op::Fsync), "{line}");
            assert_eq!(parse(&line), None);
            let write = parse_write(&line).unwrap();
            assert_eq!((write.fd, write.is_durable), (7, false));
        }
        let flags = |number: i64, flags: u64| {
            let line = format!("{number} 0x7 0x1 0x1 0x0 0x0 {flags:#x} 0x7ffc537eaa98 0x7f338e605ce0");
            parse_write(&line).unwrap().is_durable
        };
        assert!(flags(libc::SYS_pwritev2, 2) && flags(libc::SYS_pwritev2, 4) && flags(libc::SYS_pwritev2, 6));
        // RWF_HIPRI is none of them; what the sixth register holds in a call of four arguments says nothing.
        assert!(!flags(libc::SYS_pwritev2, 1) && !flags(libc::SYS_pwrite64, 2));
        assert_eq!(parse_write(&line(libc::SYS_fsync, 7)), None);
        assert!(may_be("4 0x5 0x0 0x0 0x0 0x0 0x0 0xffd3a1c0 0xf7f4b559", Op::DsyncWrite));
        assert!(may_be(&line(libc::SYS_fsync, 7), Op::Fsync));
        assert!(!may_be(&line(libc::SYS_fsync, 7), Op::DsyncWrite) && !may_be("running", Op::Fsync));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_line_as_the_kernel_wrote_it() {
        let text = "75 0x3 0x0 0x0 0x7f338e5154f8 0x0 0x0 0x7ffc537eaa98 0x7f338e605ce0\n";
        let call = parse(text).unwrap();
        assert_eq!((call.op, call.fd()), (Op::Fdatasync, Some(3)));
    }

    #[test]
    fn a_thread_outside_of_a_call_or_running_is_in_none() {
        for text in ["running\n", "-1 0x7ffc537eaa98 0x7f338e605ce0\n", "", "\n", "75", "75 0x3 0x0", "x y z"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_negative_descriptor_stays_negative() {
        assert_eq!(parse(&line(libc::SYS_fsync, 0xffff_ffff)).unwrap().fd(), Some(-1));
    }

    #[test]
    fn a_32_bit_process_is_read_by_its_own_numbers() {
        let compat = |n: u64| parse(&format!("{n} 0x5 0x0 0x0 0x0 0x0 0x0 0xffd3a1c0 0xf7f4b559"));
        assert_eq!(compat(118).unwrap().op, Op::Fsync);
        assert_eq!(compat(148).unwrap().op, Op::Fdatasync);
        assert_eq!(compat(if cfg!(target_arch = "aarch64") { 373 } else { 344 }).unwrap().op, Op::Syncfs);
        assert_eq!(compat(162), None, "nanosleep, which is sync on x86-64");
        assert_eq!(compat(74), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn an_x32_process_is_read_by_the_native_numbers() {
        let text = format!("{} 0x5 0x0 0x0 0x0 0x0 0x0 0xffd3a1c0 0xf7f4b559", X32_BIT | 74);
        assert_eq!(parse(&text).unwrap().op, Op::Fsync);
    }
}
