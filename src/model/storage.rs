//! What files lie on, all the way down, and whether a sync of them can make anything durable.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageStack {
    /// As the server sees it; raw bytes.
    #[serde(with = "super::paths::text")]
    pub mount: PathBuf,
    /// Filesystems and devices, from the top: "overlay", "ext4", "loop0", "xfs", "vda".
    pub layers: Vec<String>,
    #[serde(flatten)]
    pub durability: Durability,
    /// Its data directory or one of its logs lies there; else only other files that it has open.
    pub is_for_data: bool,
}
