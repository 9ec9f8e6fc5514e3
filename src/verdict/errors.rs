//! Which failures mean that data may not be durable, and which only that a program asked for something
//! impossible.

use crate::model::{Consequence, Errors, FileRow, Op, Role, ServerId, Target};

/// How a call fails that was wrong, was interrupted, or is to be made again: nothing of a file is lost by it
/// (fsync(2), write(2), fallocate(2)).
const OF_THE_CALLER: [i32; 19] = [
    libc::EPERM,
    libc::EINTR,
    libc::EBADF,
    libc::EAGAIN,
    libc::EACCES,
    libc::EFAULT,
    libc::ENOTDIR,
    libc::EISDIR,
    libc::EINVAL,
    libc::ETXTBSY,
    libc::EFBIG,
    libc::ESPIPE,
    libc::EPIPE,
    libc::ENOSYS,
    libc::EOVERFLOW,
    libc::EOPNOTSUPP,
    libc::ECANCELED,
    libc::EDESTADDRREQ,
    libc::ENAMETOOLONG,
];

/// Whether what was to be durable may not be. All others are: besides EIO, ENOSPC, EDQUOT and EROFS a kernel
/// knows a dozen ways to say that a device or a server of files has gone (block/blk-core.c, `blk_errors`),
/// and 0, where the number is not known.
pub fn is_failure_of_durability(errno: i32) -> bool {
    !OF_THE_CALLER.contains(&errno)
}

/// Whether a failure of this operation on a file of this role can cost committed data.
fn matters(role: Role, op: Op) -> bool {
    match role.loss() {
        Consequence::Counts => true,
        Consequence::IfSynced => op.makes_durable() || op == Op::Writeback,
        Consequence::Harmless => false,
    }
}

/// The failures of a row that count; None if there are none.
pub(super) fn of_row(row: &FileRow) -> Option<Errors> {
    let is_somebodys = row.server != ServerId::NONE && row.server != ServerId::ENDED;
    if !is_somebodys || row.target == Target::BadDescriptor || !matters(row.info.role, row.op) {
        return None;
    }
    let errors: Errors = row
        .stats
        .errors
        .iter()
        .filter(|&(&errno, &n)| n > 0 && is_failure_of_durability(errno))
        .map(|(&errno, &n)| (errno, n))
        .collect();
    (!errors.is_empty()).then_some(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_fails_counts_and_a_call_that_was_wrong_does_not() {
        let of_devices = [
            0,
            libc::EIO,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EROFS,
            libc::ENXIO,
            libc::ENODEV,
            libc::ETIMEDOUT,
            libc::ENOLINK,
            libc::EREMOTEIO,
            libc::ENODATA,
            libc::EILSEQ,
            libc::ESTALE,
            libc::EUCLEAN,
            libc::ENOTCONN,
            libc::ENOMEM,
        ];
        assert!(of_devices.into_iter().all(is_failure_of_durability));
        for errno in [libc::EFAULT, libc::EBADF, libc::EINVAL, libc::EINTR, libc::EFBIG, libc::EOPNOTSUPP] {
            assert!(!is_failure_of_durability(errno), "{errno}");
        }
    }

    #[test]
    fn what_a_full_directory_of_temporary_files_does_is_no_matter_of_durability() {
        assert!(!matters(Role::Temporary, Op::Fsync));
        assert!(!matters(Role::Other, Op::Write), "an error log");
        assert!(matters(Role::Other, Op::Fdatasync));
        assert!(matters(Role::Tablespace, Op::Write) && matters(Role::Redo, Op::Fallocate));
    }

    #[test]
    fn the_page_of_verdicts_says_what_is_no_failure() {
        let page = include_str!("../../docs/verdicts.md");
        let errnos = OF_THE_CALLER.map(crate::text::errno).join(", ");
        assert!(page.contains(&format!("is to be made again: {errnos} (")), "{errnos}");
        let quoted = |matters: &dyn Fn(Role) -> bool| {
            let roles = Role::ALL.into_iter().filter(|&role| !matters(role));
            roles.map(|role| format!("`{}`", role.name())).collect::<Vec<_>>()
        };
        let never = quoted(&|role| matters(role, Op::Fsync));
        let (last, others) = never.split_last().unwrap();
        let expected = format!("Not those of files of the roles {} and {last} (", others.join(", "));
        assert!(page.contains(&expected), "{expected}");
        let mut unwritten = quoted(&|role| matters(role, Op::Write));
        unwritten.retain(|role| !never.contains(role));
        let expected = format!("Of {}, syncs and writeback count", unwritten.join(" and "));
        assert!(page.contains(&expected), "{expected}");
    }
}
