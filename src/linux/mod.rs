//! What the kernel offers to every program, made safe to use: files of /proc and of other processes' roots, mounts and
//! what lies under them, processor time, and threads for work that may block.

pub mod cpu_time;
pub mod deadline;
pub mod descriptors;
pub mod mountinfo;
pub mod mounts;
pub mod open_files;
pub mod pool;
pub mod priority;
pub mod proc_file;
pub mod processors;
pub mod rooted;
pub mod storage;
