//! What the exporter's processes can no longer do: which user each is, and which system calls, files and
//! sockets are left to it. docs/security.md says the same in words, and `tests/root/beside/apart.rs` tries it
//! from inside.

pub mod landlock;
pub mod seccomp;
mod user;

pub use user::{User, UserError};
