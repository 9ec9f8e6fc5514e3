//! How the ends of requests come about, which says what their latency includes.

use serde::{Deserialize, Serialize};

use super::{Op, Via};

/// In which ways requests of a row have ended; those of rings, because libaio has one way only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// A worker, an interrupt or a thread of the ring's own posts the completion.
    pub posted: bool,
    /// The program's own call does, when it waits for it or looks for it: in rings with
    /// `IORING_SETUP_DEFER_TASKRUN`, or with `IORING_SETUP_IOPOLL` and without `IORING_SETUP_SQPOLL`.
    pub reaped: bool,
}

impl Completions {
    pub(crate) fn merge(&mut self, other: Completions) {
        self.posted |= other.posted;
        self.reaped |= other.reaped;
    }

    /// The latency of the operation's requests is that to the completion, or to the call by which the program
    /// took it. None: there are no requests, or nothing is known of their rings.
    pub fn name(self, op: Op) -> Option<&'static str> {
        match (op.via(), self.posted, self.reaped) {
            (Via::Aio, ..) => Some("reaped"),
            (Via::IoUring, true, true) => Some("mixed"),
            (Via::IoUring, true, false) => Some("posted"),
            (Via::IoUring, false, true) => Some("reaped"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_both_kinds_in_one_row_are_mixed_and_calls_have_no_completion() {
        let (posted, reaped) =
            (Completions { posted: true, reaped: false }, Completions { posted: false, reaped: true });
        let mut both = posted;
        both.merge(reaped);
        let names = |op| [posted, reaped, both, Completions::default()].map(|some| some.name(op));
        assert_eq!(names(Op::IoUringFsync), [Some("posted"), Some("reaped"), Some("mixed"), None]);
        assert_eq!(names(Op::AioFsync), [Some("reaped"); 4]);
        assert_eq!(names(Op::Fsync), [None; 4]);
    }
}
