//! What makes data durable: one line for each operation, with its name and the system calls that it is made
//! by. Their order is that of `enum op` in `bpf/operations.h`.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Deserialize, Deserializer, Serialize};

/// What a call makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The file of a descriptor.
    File,
    /// The filesystem of a descriptor.
    Filesystem,
    /// Neither is named: no descriptor is an argument.
    Unnamed,
}

/// How an operation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// By a system call of its own.
    Call,
    /// In a ring of io_uring.
    IoUring,
    /// By libaio: io_submit(2). It ends when the program is given the event.
    Aio,
    /// By nobody: the kernel does it when it sees fit.
    Kernel,
}

impl Via {
    pub const fn name(self) -> &'static str {
        match self {
            Via::Call => "call",
            Via::IoUring => "io_uring",
            Via::Aio => "aio",
            Via::Kernel => "kernel",
        }
    }
}

/// A system call and its numbers: of the architecture that this is built for, of 32-bit x86 and of 32-bit Arm
/// processes (arch/x86/entry/syscalls/syscall_32.tbl, arch/arm64/tools/syscall_32.tbl).
#[derive(Clone, Copy, Debug)]
pub struct SystemCall {
    pub name: &'static str,
    pub native: i64,
    i386: i64,
    arm: i64,
}

macro_rules! ops {
    ($($op:ident $name:tt = $what:literal by $via:ident, $scope:ident:
        $($call:literal $native:ident i386 $i386:literal arm $arm:literal),*;)*) => {
        /// What a row counts: a way to make data durable, or to fail at it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Op {
            $(#[serde(rename = $name)] $op,)*
        }

        impl Op {
            pub const ALL: [Op; [$($name),*].len()] = [$(Op::$op),*];

            /// No two have the same.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Op::$op => $name,)*
                }
            }

            /// The same, whichever way it is asked for.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Op::$op => $what,)*
                }
            }

            pub const fn via(self) -> Via {
                match self {
                    $(Op::$op => Via::$via,)*
                }
            }

            pub const fn scope(self) -> Scope {
                match self {
                    $(Op::$op => Scope::$scope,)*
                }
            }

            /// The system calls that it is made by.
            pub const fn calls(self) -> &'static [SystemCall] {
                match self {
                    $(Op::$op => &[$(
                        SystemCall { name: $call, native: libc::$native, i386: $i386, arm: $arm }
                    ),*],)*
                }
            }
        }
    };
}

ops! {
    Fsync "fsync" = "fsync" by Call, File: "fsync" SYS_fsync i386 118 arm 118;
    Fdatasync "fdatasync" = "fdatasync" by Call, File: "fdatasync" SYS_fdatasync i386 148 arm 148;
    SyncFileRange "sync_file_range" = "sync_file_range" by Call, File: "sync_file_range" SYS_sync_file_range i386 314 arm 341;
    Msync "msync" = "msync" by Call, Unnamed: "msync" SYS_msync i386 144 arm 144;
    Syncfs "syncfs" = "syncfs" by Call, Filesystem: "syncfs" SYS_syncfs i386 344 arm 373;
    Sync "sync" = "sync" by Call, Unnamed: "sync" SYS_sync i386 36 arm 36;
    // A write that is durable when it returns.
    DsyncWrite "dsync_write" = "dsync_write" by Call, File:
        "write" SYS_write i386 4 arm 4,
        "pwrite64" SYS_pwrite64 i386 181 arm 181,
        "writev" SYS_writev i386 146 arm 146,
        "pwritev" SYS_pwritev i386 334 arm 362,
        "pwritev2" SYS_pwritev2 i386 379 arm 393;
    // Any other write, by the calls of the one before and by these. Unless all are asked for, only those of
    // the former that fail are counted.
    Write "write" = "write" by Call, File:
        "sendfile64" SYS_sendfile i386 239 arm 239,
        "splice" SYS_splice i386 313 arm 340,
        "copy_file_range" SYS_copy_file_range i386 377 arm 391;
    IoUringFsync "io_uring fsync" = "fsync" by IoUring, File:;
    IoUringFdatasync "io_uring fdatasync" = "fdatasync" by IoUring, File:;
    IoUringSyncFileRange "io_uring sync_file_range" = "sync_file_range" by IoUring, File:;
    IoUringDsyncWrite "io_uring dsync_write" = "dsync_write" by IoUring, File:;
    IoUringWrite "io_uring write" = "write" by IoUring, File:;
    AioFsync "aio fsync" = "fsync" by Aio, File:;
    AioFdatasync "aio fdatasync" = "fdatasync" by Aio, File:;
    AioDsyncWrite "aio dsync_write" = "dsync_write" by Aio, File:;
    AioWrite "aio write" = "write" by Aio, File:;
    // Of what a write left in the page cache. Only failures are counted: changes of the file's writeback
    // error.
    Writeback "writeback" = "writeback" by Kernel, File:;
    // Room for what is written later.
    Fallocate "fallocate" = "fallocate" by Call, File: "fallocate" SYS_fallocate i386 324 arm 352;
}

impl Op {
    /// Those that `--ops` selects from: each is a system call of its own.
    pub const SYNCS: [Op; 6] = [Op::Fsync, Op::Fdatasync, Op::SyncFileRange, Op::Msync, Op::Syncfs, Op::Sync];

    /// The same asked for in another way than by a call; None where there is no such request.
    pub(crate) fn asked_for_by(self, via: Via) -> Option<Op> {
        if self.via() != Via::Call {
            return None;
        }
        Op::ALL.into_iter().find(|op| op.via() == via && op.what() == self.what())
    }

    /// `an fsync`, `a write`: as it is said.
    pub(crate) fn in_a_sentence(self) -> String {
        let article = if self.what().starts_with(['f', 'm']) { "an" } else { "a" };
        format!("{article} {}", self.what())
    }

    /// It writes as well: a row has bytes.
    pub(crate) fn writes(self) -> bool {
        matches!(self.what(), "dsync_write" | "write")
    }

    /// Its success makes what was written of one file durable, its size included, and flushes the device's
    /// cache or bypasses it: what a log is made durable by.
    pub fn makes_file_durable(self) -> bool {
        matches!(self.what(), "fsync" | "fdatasync" | "dsync_write")
    }

    /// Its success makes data durable. The others are apart in a snapshot, so that no sum of syncs counts
    /// them.
    pub const fn makes_durable(self) -> bool {
        !matches!(self, Op::Write | Op::IoUringWrite | Op::AioWrite | Op::Fallocate | Op::Writeback)
    }

    /// The sync call with this number in a process of the architecture that this is built for.
    pub(crate) fn of_number(number: u64) -> Option<Op> {
        Op::SYNCS.into_iter().find(|op| op.has_number(number))
    }

    /// The sync call with this number in a 32-bit process.
    pub(crate) fn of_compat_number(number: u64) -> Option<Op> {
        Op::SYNCS.into_iter().find(|op| op.has_compat_number(number))
    }

    /// One of its calls has this number in a process of the architecture that this is built for.
    pub(crate) fn has_number(self, number: u64) -> bool {
        self.call_of_number(number).is_some()
    }

    /// The same in a 32-bit process.
    pub(crate) fn has_compat_number(self, number: u64) -> bool {
        self.call_of_compat_number(number).is_some()
    }

    /// The name of that call.
    pub(crate) fn call_of_number(self, number: u64) -> Option<&'static str> {
        let call = self.calls().iter().find(|call| u64::try_from(call.native) == Ok(number));
        call.map(|call| call.name)
    }

    pub(crate) fn call_of_compat_number(self, number: u64) -> Option<&'static str> {
        let compat = |call: &SystemCall| if cfg!(target_arch = "aarch64") { call.arm } else { call.i386 };
        self.calls().iter().find(|call| u64::try_from(compat(call)) == Ok(number)).map(|call| call.name)
    }
}

/// Of their names, those that are known here.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Op>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let of = |name: &String| Op::ALL.into_iter().find(|op| op.name() == name);
    Ok(names.iter().filter_map(of).collect())
}

impl ValueEnum for Op {
    fn value_variants<'a>() -> &'a [Op] {
        &Op::SYNCS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_name_in_json_and_in_tables() {
        for op in Op::ALL {
            assert_eq!(serde_json::to_value(op).unwrap(), op.name());
            assert_eq!(serde_json::from_value::<Op>(op.name().into()).unwrap(), op);
        }
    }

    #[test]
    fn no_two_calls_have_the_same_number() {
        let all: Vec<&SystemCall> = Op::ALL.iter().flat_map(|op| op.calls()).collect();
        let different = |number: fn(&SystemCall) -> i64| {
            let numbers: std::collections::BTreeSet<i64> = all.iter().map(|call| number(call)).collect();
            numbers.len()
        };
        assert_eq!(different(|call| call.native), all.len());
        assert_eq!(different(|call| call.i386), all.len());
        assert_eq!(different(|call| call.arm), all.len());
        for op in Op::SYNCS {
            assert_eq!(Op::of_number(op.calls()[0].native as u64), Some(op));
        }
        assert_eq!(Op::of_number(libc::SYS_pwrite64 as u64), None, "most writes are not durable");
        assert!(Op::DsyncWrite.has_number(libc::SYS_pwrite64 as u64));
        assert!(!Op::Fsync.has_number(libc::SYS_pwrite64 as u64));
    }
}
