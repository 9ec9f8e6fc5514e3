//! The key of a row: an operation, a kind, and the arm that goes with the kind.

use std::hash::{Hash, Hasher};

pub(crate) use super::contract::types::{
    file_identity as FileIdentity, identity as Identity, neighbour_identity as NeighbourIdentity,
    thread_identity as ThreadIdentity,
};
use super::contract::{record, types};

type Arm = types::__anon_identity_1;

/// What a row is of, by its kind.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    File(FileIdentity),
    Thread(ThreadIdentity),
    Neighbour(NeighbourIdentity),
}

impl Identity {
    pub fn new(kind: u8, op: u8, tgid: u32, of: Of) -> Identity {
        let of = match of {
            Of::File(file) => Arm { file },
            Of::Thread(thread) => Arm { thread },
            Of::Neighbour(neighbour) => Arm { neighbour },
        };
        Identity { op, kind, flags: 0, tgid, of }
    }

    pub fn of(&self) -> Of {
        // SAFETY: every arm is integers only, so any bits are a value of it.
        unsafe {
            match self.kind {
                record::KIND_THREAD => Of::Thread(self.of.thread),
                record::KIND_NEIGHBOUR => Of::Neighbour(self.of.neighbour),
                _ => Of::File(self.of.file),
            }
        }
    }

    /// As the key of a map.
    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: 32 bytes of integers, laid out without padding (asserted in bpf/record.h).
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Identity>()) }
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_what_its_kind_says() {
        let thread = ThreadIdentity { leader_start: 1, reserved: 0, tid: 7, start: 9 };
        let id = Identity::new(record::KIND_THREAD, 0, 3, Of::Thread(thread));
        assert!(matches!(id.of(), Of::Thread(ThreadIdentity { leader_start: 1, tid: 7, start: 9, .. })));
        let neighbour = NeighbourIdentity { comm_low: 1, comm_high: 2, device: 3, reserved: 0 };
        let id = Identity::new(record::KIND_NEIGHBOUR, 0, 0, Of::Neighbour(neighbour));
        assert!(matches!(id.of(), Of::Neighbour(NeighbourIdentity { comm_high: 2, device: 3, .. })));
        let file = FileIdentity { leader_start: 1, inode: 2, device: 3, generation: 4 };
        let same = |kind| Identity::new(kind, 0, 3, Of::File(file));
        assert!(matches!(same(record::KIND_FILE).of(), Of::File(FileIdentity { inode: 2, .. })));
        assert!(same(record::KIND_FILE) != same(record::KIND_FILESYSTEM));
    }
}
