//! The phases of a sync, and the states of a committer.

use serde::{Deserialize, Serialize};

/// Level one: what a thread in a sync does or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    DataPages,
    JournalCommit,
    JournalSpace,
    LogForce,
    MetadataBuffer,
    MetadataWrite,
    DeviceFlush,
    DeviceQueue,
    Lock,
    Memory,
    RemoteFilesystem,
    RunQueue,
    OnCpu,
    Other,
}

impl Phase {
    pub const ALL: [Phase; 14] = [
        Phase::DataPages,
        Phase::JournalCommit,
        Phase::JournalSpace,
        Phase::LogForce,
        Phase::MetadataBuffer,
        Phase::MetadataWrite,
        Phase::DeviceFlush,
        Phase::DeviceQueue,
        Phase::Lock,
        Phase::Memory,
        Phase::RemoteFilesystem,
        Phase::RunQueue,
        Phase::OnCpu,
        Phase::Other,
    ];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::DataPages => "data_pages",
            Phase::JournalCommit => "journal_commit",
            Phase::JournalSpace => "journal_space",
            Phase::LogForce => "log_force",
            Phase::MetadataBuffer => "metadata_buffer",
            Phase::MetadataWrite => "metadata_write",
            Phase::DeviceFlush => "device_flush",
            Phase::DeviceQueue => "device_queue",
            Phase::Lock => "lock",
            Phase::Memory => "memory",
            Phase::RemoteFilesystem => "remote_filesystem",
            Phase::RunQueue => "run_queue",
            Phase::OnCpu => "on_cpu",
            Phase::Other => "other",
        }
    }

    /// In tables.
    pub fn title(self) -> &'static str {
        match self {
            Phase::DataPages => "data pages being written",
            Phase::JournalCommit => "journal commit",
            Phase::JournalSpace => "room in the journal",
            Phase::LogForce => "filesystem log force",
            Phase::MetadataBuffer => "metadata buffer held by a commit",
            Phase::MetadataWrite => "metadata being read or written",
            Phase::DeviceFlush => "device cache flush",
            Phase::DeviceQueue => "room in the device's queue",
            Phase::Lock => "lock",
            Phase::Memory => "memory",
            Phase::RemoteFilesystem => "FUSE or network filesystem",
            Phase::RunQueue => "run queue (no processor free)",
            Phase::OnCpu => "on CPU",
            Phase::Other => "other",
        }
    }

    /// True if a committer works while the sync waits, so that there is a second level.
    pub fn has_committer(self) -> bool {
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
    pub const ALL: [Committer; crate::probe::COMMITTER_STATES + 1] = [
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
    fn names_are_those_of_the_serialised_form_and_all_are_listed_in_order() {
        for (i, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
            assert_eq!(phase as usize, i);
        }
        for (i, state) in Committer::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, i);
        }
    }
}
