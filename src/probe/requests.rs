//! Whether requests, of rings or of libaio, are watched. Nothing else depends on them: a kernel that has no
//! such hooks, or refuses them, is traced without.

use crate::model::{Op, Via};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    NotAskedFor,
    Attached,
    /// Why not.
    Refused(String),
}

impl Requests {
    /// `can`: why this kernel cannot, if so.
    pub(super) fn wanted(via: Via, ops: &[Op], can: Result<(), &str>) -> Requests {
        match (ops_for(via, ops).next(), can) {
            (None, _) => Requests::NotAskedFor,
            (Some(_), Ok(())) => Requests::Attached,
            (Some(_), Err(why)) => Requests::Refused(why.to_owned()),
        }
    }

    pub(super) fn are_watched(&self) -> bool {
        *self == Requests::Attached
    }
}

/// The operations by requests that go with those by calls.
pub(super) fn ops_for(via: Via, ops: &[Op]) -> impl Iterator<Item = Op> + use<'_> {
    ops.iter().filter_map(move |op| op.asked_for_by(via))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_watched_for_what_is_watched_elsewhere() {
        let ops = |via, ops: &[Op]| ops_for(via, ops).map(Op::name).collect::<Vec<_>>();
        assert_eq!(ops(Via::IoUring, &[Op::Fsync, Op::Sync]), ["io_uring fsync"]);
        assert_eq!(ops(Via::Aio, &[Op::Fsync, Op::SyncFileRange]), ["aio fsync"]);
        assert_eq!(ops(Via::Aio, &[Op::DsyncWrite]), ["aio dsync_write"]);
        assert_eq!(ops(Via::IoUring, &[Op::Msync, Op::IoUringFsync]), [""; 0]);
        assert_eq!(Requests::wanted(Via::Aio, &[Op::Msync], Err("it is old")), Requests::NotAskedFor);
        let refused = Requests::wanted(Via::Aio, &[Op::Fsync], Err("it is old"));
        assert!(!refused.are_watched() && refused == Requests::Refused("it is old".into()));
    }
}
