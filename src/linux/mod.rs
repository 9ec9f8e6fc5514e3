//! What the kernel offers to every program, made safe to use: files of /proc and of other processes' roots,
//! mounts and what lies under them, processor time, and threads for work that may block.

pub(crate) mod blocking;
#[cfg(test)]
pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod cpu_time;
pub mod descriptors;
pub(crate) mod disk_statistics;
pub(crate) mod effective_user;
pub(crate) mod ends;
pub mod executable_memory;
pub(crate) mod inode_flags;
mod lock;
pub mod mountinfo;
pub(crate) mod mounts;
pub mod open_files;
pub(crate) mod own_file;
pub(crate) mod passwd;
pub(crate) mod priority;
pub(crate) mod proc_file;
pub(crate) mod processors;
pub(crate) mod rooted;
mod stack;
pub mod storage;
pub(crate) mod whole_disks;

pub(crate) use lock::lock;

/// Where the process filesystem is mounted.
pub(crate) const PROC: &str = "/proc";
