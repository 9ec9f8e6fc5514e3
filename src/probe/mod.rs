//! The only room that touches the kernel side: loads and attaches the programs of `bpf/`, and reads what they
//! sum up. Everything it returns is plain data; decisions are made elsewhere.

#![allow(unsafe_code, reason = "memory that the kernel writes to is read in place")]

mod aio;
pub mod allocator;
mod array;
mod attach;
mod buckets;
mod build_info;
mod choice;
mod config;
mod contract;
mod counters;
mod events;
mod features;
mod globals;
mod identity;
mod in_flight;
mod libbpf_log;
pub mod min_core_btf;
mod net;
mod owned_slots;
mod parts;
mod programs;
mod requests;
mod ring;
mod self_test;
mod shares;
mod slots;
mod sync;
mod timer;
mod unsynced;
mod wait;

pub use attach::{AttachError, Attached, Failure};
pub use build_info::{BuildInfo, build_info};
pub use config::{Capacity, CommPattern, InstancePattern, ProbeConfig, Targets};
pub use contract::{OBJECT, OBJECT_TYPES, Row, record};
pub use counters::Counters;
pub use events::{Event, FileEvent, SyncEvent};
pub use identity::Of;
#[cfg(test)]
pub(crate) use identity::ThreadIdentity;
pub(crate) use identity::{FileIdentity, Identity, NeighbourIdentity};
pub use in_flight::{Calls, RunningCall};
pub use parts::operation;
pub use programs::AttachedProgram;
pub use sync::Probe;
pub use timer::{LogSamples, TimerProbe, TimerSamples};
pub use wait::{
    JournalCounts, SlotTime, SlotWait, WAIT_OBJECT, WAIT_OBJECT_TYPES, WaitError, WaitPlan, WaitProbe, Waits,
    WatchedFilesystem, Writer,
};

pub(crate) use features::{WaitStorage, may_use_open_maps};
pub(crate) use libbpf_log::take_libbpf_log;
pub(crate) use requests::Requests;
pub(crate) use timer::{LOGS, SLOTS_OF_LOG};
pub(crate) use unsynced::UnsyncedFile;
#[cfg(test)]
pub(crate) use wait::COMMITTER_STATES;
pub(crate) use wait::{CLOCKS, MAX_FILESYSTEMS};
