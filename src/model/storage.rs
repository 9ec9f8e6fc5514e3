//! What files lie on, all the way down, and whether a sync of them can make anything durable.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Server, durability};

/// Whether a sync makes durable what it covers. The reasons are parts of sentences; what others chose in them
/// is raw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "durable", content = "because", rename_all = "lowercase")]
pub enum Durability {
    /// All of it was read, and every layer passes a sync on to the next.
    Yes,
    No(String),
    /// Some of it could not be read.
    Unknown(String),
}

impl Durability {
    /// In JSON and in labels.
    pub fn name(&self) -> &'static str {
        match self {
            Durability::Yes => "yes",
            Durability::No(_) => "no",
            Durability::Unknown(_) => "unknown",
        }
    }

    pub fn because(&self) -> Option<&str> {
        match self {
            Durability::Yes => None,
            Durability::No(why) | Durability::Unknown(why) => Some(why),
        }
    }

    /// Of what lies on both.
    #[must_use]
    pub(crate) fn and(self, other: Durability) -> Durability {
        let severity = |one: &Durability| match one {
            Durability::Yes => 0,
            Durability::Unknown(_) => 1,
            Durability::No(_) => 2,
        };
        if severity(&other) > severity(&self) { other } else { self }
    }
}

/// A filesystem of a server, and what it lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageStack {
    /// As the server sees it; raw bytes.
    pub mount: PathBuf,
    /// Filesystems and devices, from the top: "overlay", "ext4", "loop0", "xfs", "vda".
    pub layers: Vec<String>,
    pub durability: Durability,
    /// Its data directory or one of its logs lies there; else only other files that it has open.
    pub is_for_data: bool,
}

impl Server {
    /// Those of its data directory and its logs.
    pub fn data_storage(&self) -> impl Iterator<Item = &StorageStack> {
        self.storage.iter().filter(|stack| stack.is_for_data)
    }

    /// Whether a sync of a file on this mount makes anything durable; where the mount is not known, of any of
    /// its logs and of its data directory.
    pub fn durability_of(&self, mount: Option<&Path>) -> Durability {
        if durability::syncs_do_nothing(self) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServerId;

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
        server.notes = vec![durability::SYNCS_DO_NOTHING.into()];
        assert_eq!(server.durability_of(Some(Path::new("/a"))).name(), "no");
        let json = serde_json::to_string(&no()).unwrap();
        assert_eq!(json, r#"{"durable":"no","because":"tmpfs keeps files in memory only"}"#);
    }
}
