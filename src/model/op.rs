//! The system calls that make data durable: one line for each, with its names and numbers. Their order is
//! that of `enum op` in `bpf/operations.h`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

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

/// A call's numbers: of the architecture that this is built for, of 32-bit x86 and of 32-bit Arm processes
/// (arch/x86/entry/syscalls/syscall_32.tbl, arch/arm64/tools/syscall_32.tbl).
#[derive(Clone, Copy)]
struct Numbers {
    native: i64,
    i386: i64,
    arm: i64,
}

macro_rules! ops {
    ($($op:ident $name:tt, $scope:ident, $native:ident, i386 $i386:literal, arm $arm:literal;)*) => {
        /// A system call that makes data durable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
        pub enum Op {
            $(#[serde(rename = $name)] #[value(name = $name)] $op,)*
        }

        impl Op {
            pub const ALL: [Op; [$($name),*].len()] = [$(Op::$op),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Op::$op => $name,)*
                }
            }

            pub const fn scope(self) -> Scope {
                match self {
                    $(Op::$op => Scope::$scope,)*
                }
            }

            const fn numbers(self) -> Numbers {
                match self {
                    $(Op::$op => Numbers { native: libc::$native, i386: $i386, arm: $arm },)*
                }
            }
        }
    };
}

ops! {
    Fsync "fsync", File, SYS_fsync, i386 118, arm 118;
    Fdatasync "fdatasync", File, SYS_fdatasync, i386 148, arm 148;
    SyncFileRange "sync_file_range", File, SYS_sync_file_range, i386 314, arm 341;
    Msync "msync", Unnamed, SYS_msync, i386 144, arm 144;
    Syncfs "syncfs", Filesystem, SYS_syncfs, i386 344, arm 373;
    Sync "sync", Unnamed, SYS_sync, i386 36, arm 36;
}

impl Op {
    /// In a process of the architecture that this is built for.
    pub(crate) fn number(self) -> i64 {
        self.numbers().native
    }

    /// By its number in a process of the architecture that this is built for.
    pub(crate) fn of_number(number: u64) -> Option<Op> {
        Op::ALL.into_iter().find(|op| u64::try_from(op.numbers().native) == Ok(number))
    }

    /// By its number in a 32-bit process.
    pub(crate) fn of_compat_number(number: u64) -> Option<Op> {
        let compat = |op: &Op| {
            let numbers = op.numbers();
            if cfg!(target_arch = "aarch64") { numbers.arm } else { numbers.i386 }
        };
        Op::ALL.into_iter().find(|op| u64::try_from(compat(op)) == Ok(number))
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
        for op in Op::ALL {
            let numbers = op.numbers();
            assert_eq!(Op::of_number(numbers.native as u64), Some(op));
            for other in Op::ALL.into_iter().filter(|other| *other != op).map(Op::numbers) {
                assert!(other.i386 != numbers.i386 && other.arm != numbers.arm, "{op:?}");
            }
        }
    }
}
