//! The subject of an account, from the identity of its row.

use crate::model::{FileId, OTHER_NEIGHBOURS, Op, ServerId, Target};
use crate::probe::{FileIdentity, Identity, NeighbourIdentity, Of, operation, record};
use crate::server::who::processes::cut_to_tick;

/// The subject of an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
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
        let (op, part) = operation(id.op.into())?;
        // As /proc shows it, so that a server has the same identity wherever it comes from.
        let server = |start_ns| cut_to_tick(ServerId { pid: id.tgid, start_ns });
        Some(match id.of() {
            Of::Thread(thread) => {
                let (server, tid, start) = (server(thread.leader_start), thread.tid, thread.start);
                Subject::Thread { server, tid, start, op }
            }
            Of::Neighbour(neighbour) => {
                Subject::Neighbour { device: neighbour.device, comm: comm_of(&neighbour) }
            }
            Of::File(file) => {
                let target = match id.kind {
                    record::KIND_FILE => Target::File(file_id(id, &file, part)),
                    record::KIND_FILESYSTEM => Target::Filesystem(file.device),
                    record::KIND_NO_FILE => Target::NoFile,
                    record::KIND_BAD_DESCRIPTOR => Target::BadDescriptor,
                    _ => return None,
                };
                Subject::File { server: server(file.leader_start), target, op }
            }
        })
    }
}

fn file_id(id: &Identity, file: &FileIdentity, part: bool) -> FileId {
    let FileIdentity { device, inode, generation, .. } = *file;
    FileId { device, inode, generation, weak: id.flags & record::IDENTITY_WEAK != 0, part }
}

/// The leader's name of a neighbour.
pub(crate) fn comm_of(neighbour: &NeighbourIdentity) -> String {
    let words = [neighbour.comm_low, neighbour.comm_high];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All neighbours that are not kept apart.
pub(crate) fn other_neighbours() -> Subject {
    Subject::Neighbour { device: 0, comm: OTHER_NEIGHBOURS.into() }
}

pub(crate) fn reserved(slot: u32) -> Option<Subject> {
    match slot {
        record::NEIGHBOUR_OVERFLOW_SLOT => Some(other_neighbours()),
        slot if slot < record::FIRST_SHARED_SLOT => {
            let (op, _) = operation(slot)?;
            Some(Subject::File { server: ServerId::NONE, target: Target::Unattributed, op })
        }
        _ => None,
    }
}
