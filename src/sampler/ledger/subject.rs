//! What an account is about, out of the kernel's identities.

use crate::model::{FileId, OTHER_NEIGHBOURS, Op, ServerId, Target};
use crate::probe::{Identity, record};
use crate::server::processes::cut_to_tick;

/// The subject of an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    File {
        server: ServerId,
        target: Target,
        op: Op,
    },
    /// `start`: of the thread, as the kernel side keeps it, so that a reused id is another thread.
    Thread {
        server: ServerId,
        tid: u32,
        start: u32,
        op: Op,
    },
    Neighbour {
        device: u32,
        comm: String,
    },
}

impl Subject {
    /// None for a row that this side does not know.
    pub fn of(id: &Identity) -> Option<Subject> {
        let op = *Op::ALL.get(usize::from(id.op))?;
        // As /proc shows it, so that a server has one identity from the first that is heard of it.
        let server = cut_to_tick(ServerId { pid: id.tgid, start_ns: id.owner });
        let file = |target| Subject::File { server, target, op };
        Some(match id.kind {
            record::KIND_FILE => file(Target::File(file_id(id))),
            record::KIND_FILESYSTEM => file(Target::Filesystem(id.device)),
            record::KIND_NO_FILE => file(Target::NoFile),
            record::KIND_BAD_DESCRIPTOR => file(Target::BadDescriptor),
            record::KIND_THREAD => {
                Subject::Thread { server, tid: id.object as u32, start: id.generation, op }
            }
            record::KIND_NEIGHBOUR => Subject::Neighbour { device: id.device, comm: comm_of(id) },
            _ => return None,
        })
    }
}

pub fn file_id(id: &Identity) -> FileId {
    FileId {
        device: id.device,
        inode: id.object,
        generation: id.generation,
        weak: id.flags & record::IDENTITY_WEAK != 0,
    }
}

/// The leader's name of a neighbour.
fn comm_of(id: &Identity) -> String {
    let bytes: Vec<u8> =
        [id.owner, id.object].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All neighbours that are not kept apart.
pub fn other_neighbours() -> Subject {
    Subject::Neighbour { device: 0, comm: OTHER_NEIGHBOURS.into() }
}

pub fn reserved(slot: u32) -> Option<Subject> {
    match slot {
        record::NEIGHBOUR_OVERFLOW_SLOT => Some(other_neighbours()),
        slot if slot < record::FIRST_SHARED_SLOT => {
            let op = *Op::ALL.get(slot as usize)?;
            Some(Subject::File { server: ServerId::NONE, target: Target::Unattributed, op })
        }
        _ => None,
    }
}
