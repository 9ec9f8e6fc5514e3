//! The ways to make data durable, and which of them are watched. Statements about a measurement cover only
//! those. Also what is known of a server that makes its syncs needless, or void.

use std::path::Path;

use super::{Durability, Op, Server, StorageStack, Via};

/// The note of a server whose redo log's open descriptors all have O_DSYNC.
pub(crate) const REDO_BY_WRITES: &str = "The redo log is written through O_DSYNC descriptors: each of its writes is durable \
                                         (dsync_write), and no sync follows.";
/// The same of PostgreSQL's write-ahead log.
pub(crate) const WAL_BY_WRITES: &str = "The write-ahead log is written through O_DSYNC descriptors: each of its writes is \
                                        durable (dsync_write), and no sync follows.";
/// The note of a server with that library.
pub(crate) const SYNCS_DO_NOTHING: &str =
    "libeatmydata is loaded: the server's syncs do nothing, and none reaches the kernel.";

/// The note of a server whose system calls enter the kernel by another table.
pub(crate) const SYNCS_OF_32_BITS: &str = "This is a 32-bit program, and its system calls are not among those that are watched: on ext4, XFS, btrfs and \
     f2fs they are counted where they reach the filesystem, without a latency, and elsewhere they are not seen.";

/// Whether each write of the redo log was seen to be durable, by its descriptors.
pub(crate) fn redo_is_durable_by_writes(server: &Server) -> bool {
    server.notes.iter().any(|note| note == REDO_BY_WRITES)
}

/// The same of PostgreSQL's write-ahead log.
pub(crate) fn wal_is_durable_by_writes(server: &Server) -> bool {
    server.notes.iter().any(|note| note == WAL_BY_WRITES)
}

/// Whether a library was seen that turns the server's syncs into nothing.
pub(crate) fn syncs_do_nothing(server: &Server) -> bool {
    server.notes.iter().any(|note| note == SYNCS_DO_NOTHING)
}

impl Server {
    /// Those of its data directory and its logs.
    pub fn data_storage(&self) -> impl Iterator<Item = &StorageStack> {
        self.storage.iter().filter(|stack| stack.is_for_data)
    }

    /// Whether a sync of a file on this mount makes anything durable; where the mount is not known, of any of
    /// its logs and of its data directory.
    pub fn durability_of(&self, mount: Option<&Path>) -> Durability {
        if syncs_do_nothing(self) {
            return Durability::No(
                "libeatmydata is loaded, which turns the server's syncs into nothing".into(),
            );
        }
        let lies_there =
            |stack: &&StorageStack| mount.map_or(stack.is_for_data, |mount| stack.mount == mount);
        let mut stacks = self.storage.iter().filter(lies_there);
        match stacks.next() {
            Some(first) => {
                stacks.fold(first.durability.clone(), |sum, next| sum.and(next.durability.clone()))
            }
            None => Durability::Unknown("what its files lie on was not seen".into()),
        }
    }

    /// The same of all of its logs and of its data directory.
    pub fn durability(&self) -> Durability {
        self.durability_of(None)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The name in JSON.
    pub name: &'static str,
    /// The name in a list of several.
    pub called: &'static str,
    /// A description, for finding out whether a server uses it.
    pub what: &'static str,
    /// The operation by which it is watched.
    watched_by: Op,
    counted: Counted,
}

/// Where a way is counted even if it is not watched ([`super::Net`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Where it reaches the filesystem's own sync of a file, on filesystems that show that.
    Below,
    /// Where it enters the kernel.
    AtEntry,
    Nowhere,
}

impl Way {
    /// The option by which it is watched, if that is all it takes. Requests are watched for the operations
    /// that are, where the kernel allows it.
    pub fn option(&self) -> Option<&'static str> {
        match self.watched_by {
            Op::DsyncWrite => Some("--writes"),
            op if op.via() == Via::Call => Some("--ops"),
            _ => None,
        }
    }

    /// A request of its own, which a server counts as a sync. A durable write is none.
    pub fn is_sync(&self) -> bool {
        self.watched_by != Op::DsyncWrite
    }
}

const fn write(name: &'static str, called: &'static str, what: &'static str) -> Way {
    Way { name, called, what, watched_by: Op::DsyncWrite, counted: Counted::Below }
}

const fn call(op: Op, what: &'static str) -> Way {
    let counted = match op {
        Op::Fsync | Op::Fdatasync | Op::Msync => Counted::Below,
        Op::Syncfs | Op::Sync => Counted::AtEntry,
        _ => Counted::Nowhere,
    };
    Way { name: op.name(), called: op.name(), what, watched_by: op, counted }
}

/// The ways that a server most likely uses come first.
pub(crate) const WAYS: [Way; 10] = [
    call(Op::Fsync, "fsync(2)"),
    call(Op::Fdatasync, "fdatasync(2)"),
    Way {
        name: "io_uring",
        called: "io_uring",
        what: "IORING_OP_FSYNC, IORING_OP_SYNC_FILE_RANGE and durable writes in a ring (Linux 6.0 or later)",
        watched_by: Op::IoUringFsync,
        counted: Counted::Below,
    },
    Way {
        name: "libaio",
        called: "libaio",
        what: "IOCB_CMD_FSYNC, IOCB_CMD_FDSYNC and durable writes by io_submit(2) (Linux 5.17 or later)",
        watched_by: Op::AioFsync,
        counted: Counted::Below,
    },
    write(
        "o_dsync",
        "O_DSYNC writes",
        "writes that are durable when they return: through descriptors with O_DSYNC or O_SYNC (innodb_flush_method=O_DSYNC), \
         to files with chattr +S, on filesystems mounted with -o sync",
    ),
    write("rwf_dsync", "RWF_DSYNC writes", "pwritev2(2) with RWF_DSYNC or RWF_SYNC"),
    call(Op::Msync, "msync(2)"),
    call(Op::SyncFileRange, "sync_file_range(2)"),
    call(Op::Syncfs, "syncfs(2)"),
    call(Op::Sync, "sync(2)"),
];

/// The ways by which data may have been made durable unseen while only these calls are watched.
pub fn not_watched(watched: &[Op]) -> impl Iterator<Item = &'static Way> {
    WAYS.iter().filter(|way| !watched.contains(&way.watched_by))
}

/// Those of them that [`super::Lost::unwatched`] counts.
pub fn counted_only(watched: &[Op]) -> impl Iterator<Item = &'static Way> {
    not_watched(watched).filter(|way| way.counted != Counted::Nowhere)
}

/// Those that it counts only on filesystems that show it.
pub(crate) fn counted_below(watched: &[Op]) -> impl Iterator<Item = &'static Way> {
    not_watched(watched).filter(|way| way.counted == Counted::Below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServerId;

    #[test]
    fn every_call_is_a_way_and_is_left_out_only_where_it_is_watched() {
        for op in Op::SYNCS.into_iter().chain([Op::DsyncWrite, Op::IoUringFsync, Op::AioFsync]) {
            let ways = if op == Op::DsyncWrite { 2 } else { 1 };
            assert_eq!(WAYS.iter().filter(|way| way.watched_by == op).count(), ways, "{op:?}");
            let without: Vec<Op> = Op::ALL.into_iter().filter(|other| *other != op).collect();
            assert_eq!(not_watched(&without).filter(|way| way.watched_by == op).count(), ways);
        }
        assert_eq!(not_watched(&Op::ALL).count(), 0);
        let syncs: Vec<_> = not_watched(&Op::SYNCS).filter(|way| way.is_sync()).map(|way| way.name).collect();
        assert_eq!(syncs, ["io_uring", "libaio"]);
        let default: Vec<_> = not_watched(&[Op::Fsync, Op::Fdatasync]).map(|way| way.name).collect();
        assert_eq!(default[4..], ["msync", "sync_file_range", "syncfs", "sync"]);
        let counted: Vec<_> = counted_only(&[Op::Fsync, Op::Fdatasync]).map(|way| way.name).collect();
        assert_eq!(counted, ["io_uring", "libaio", "o_dsync", "rwf_dsync", "msync", "syncfs", "sync"]);
        let below: Vec<_> = counted_below(&[Op::Fsync, Op::Fdatasync]).map(|way| way.name).collect();
        assert_eq!(below, counted[..5]);
    }
    #[test]
    fn a_file_is_as_durable_as_its_mount_and_a_server_as_the_worst_of_them() {
        let no = || Durability::No("tmpfs keeps files in memory only".into());
        let unknown = || Durability::Unknown("what nfs4 makes durable is not seen".into());
        let stack = |mount: &str, durability| StorageStack {
            mount: mount.into(),
            layers: Vec::new(),
            durability,
            is_for_data: true,
        };
        let mut server = Server::new(ServerId { pid: 7, start_ns: 1 }, "mysqld".into());
        assert_eq!(server.durability().name(), "unknown", "nobody has looked");
        server.storage = vec![stack("/a", Durability::Yes)];
        assert_eq!(server.durability(), Durability::Yes);
        assert_eq!(server.durability_of(Some(Path::new("/b"))).name(), "unknown", "nobody has looked there");
        server.storage.push(stack("/b", unknown()));
        assert_eq!(server.durability(), unknown());
        server.storage.push(stack("/c", no()));
        server.storage.push(stack("/d", Durability::Yes));
        assert_eq!(server.durability(), no());
        assert_eq!(server.durability_of(Some(Path::new("/a"))), Durability::Yes);
        assert_eq!(server.durability_of(Some(Path::new("/b"))), unknown());
        // What else it has open decides about itself alone.
        server.storage.retain(|stack| stack.mount == Path::new("/a"));
        server.storage.push(StorageStack { is_for_data: false, ..stack("/tmp", no()) });
        assert_eq!(
            (server.durability(), server.durability_of(Some(Path::new("/tmp")))),
            (Durability::Yes, no())
        );
        server.notes = vec![SYNCS_DO_NOTHING.into()];
        assert_eq!(server.durability_of(Some(Path::new("/a"))).name(), "no");
        let json = serde_json::to_string(&no()).unwrap();
        assert_eq!(json, r#"{"durable":"no","because":"tmpfs keeps files in memory only"}"#);
    }
}
