//! Sets of engines, by their places in the list of all.

/// An engine's place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member(pub(super) u8);

/// Several engines, as bits by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(pub(super) u64);

impl Members {
    pub fn of(member: Member) -> Members {
        Members(1 << member.0)
    }

    pub(super) fn with(self, others: Members) -> Members {
        Members(self.0 | others.0)
    }

    pub fn has(self, member: Member) -> bool {
        self.0 & (1 << member.0) != 0
    }
}
