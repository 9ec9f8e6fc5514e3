//! The phases of a sync, and the states of a committer.

use serde::{Deserialize, Serialize};

/// One line for each: a new phase is a line here, a rule in rules.toml, and a line in docs/explain.md.
macro_rules! phases {
    ($($phase:ident $name:literal, $title:literal;)*) => {
        /// Level one: what a thread in a sync does or waits for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Phase {
            $(#[serde(rename = $name)] $phase,)*
        }

        impl Phase {
            pub const ALL: [Phase; [$($name),*].len()] = [$(Phase::$phase),*];

            /// In JSON and in rules.toml.
            pub fn name(self) -> &'static str {
                match self {
                    $(Phase::$phase => $name,)*
                }
            }

            /// In tables.
            pub fn title(self) -> &'static str {
                match self {
                    $(Phase::$phase => $title,)*
                }
            }
        }
    };
}

phases! {
    DataPages "data_pages", "data pages being written";
    JournalCommit "journal_commit", "journal commit";
    JournalSpace "journal_space", "room in the journal";
    LogForce "log_force", "filesystem log force";
    MetadataBuffer "metadata_buffer", "metadata buffer held by a commit";
    MetadataWrite "metadata_write", "metadata being read or written";
    DeviceFlush "device_flush", "device cache flush";
    DeviceQueue "device_queue", "room in the device's queue";
    Lock "lock", "lock";
    Memory "memory", "memory";
    RemoteFilesystem "remote_filesystem", "FUSE or network filesystem";
    RunQueue "run_queue", "run queue (no processor free)";
    OnCpu "on_cpu", "on CPU";
    Other "other", "other";
}

impl Phase {
    /// True if a committer works while the sync waits, so that there is a second level.
    pub(crate) fn has_committer(self) -> bool {
        matches!(self, Phase::JournalCommit | Phase::LogForce | Phase::MetadataBuffer)
    }
}

/// Level two: what the filesystem's committer did during the wait. In the order of `enum committer`
/// (bpf/waiting.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Committer {
    Checkpoint,
    OpenHandles,
    Data,
    Flush,
    LogBlocks,
    OnCpu,
    Idle,
    Queued,
    /// Time that the committer's clock did not cover.
    Other,
}

impl Committer {
    pub const ALL: [Committer; 9] = [
        Committer::Checkpoint,
        Committer::OpenHandles,
        Committer::Data,
        Committer::Flush,
        Committer::LogBlocks,
        Committer::OnCpu,
        Committer::Idle,
        Committer::Queued,
        Committer::Other,
    ];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Committer::Checkpoint => "checkpoint",
            Committer::OpenHandles => "open_handles",
            Committer::Data => "data_pages",
            Committer::Flush => "device_flush",
            Committer::LogBlocks => "log_blocks",
            Committer::OnCpu => "committer_on_cpu",
            Committer::Idle => "committer_idle",
            Committer::Queued => "committer_run_queue",
            Committer::Other => "other",
        }
    }

    /// In tables.
    pub fn title(self) -> &'static str {
        match self {
            Committer::Checkpoint => "checkpoint",
            Committer::OpenHandles => "writers still in the transaction",
            Committer::Data => "data pages being written",
            Committer::Flush => "device cache flush",
            Committer::LogBlocks => "log blocks being written",
            Committer::OnCpu => "committer on CPU",
            Committer::Idle => "committer idle",
            Committer::Queued => "committer not running (no processor free)",
            Committer::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committers_states_are_listed_in_order() {
        for (i, state) in Committer::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, i);
        }
    }

    #[test]
    fn the_documentation_explains_every_phase() {
        let page = include_str!("../../docs/explain.md");
        for phase in Phase::ALL {
            let title = phase.title().split(" (").next().unwrap();
            let row = format!("\n| {title} | `{}` |", phase.name());
            assert!(page.contains(&row), "docs/explain.md has no row {row:?}");
        }
    }
}
