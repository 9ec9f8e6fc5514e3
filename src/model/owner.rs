//! Whose a process is, and what the kernel confirms of what it says of itself.

use serde::{Deserialize, Serialize};

/// Who answers for a process, where something is shared out among those who may start processes. Derived by
/// `server::who::owner`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// root or a system user outside of containers: a service, by the number of its user.
    System(u32),
    /// All that runs in one container, or in one pod, by the inode of its control group: in there, each may
    /// be root.
    Container(u64),
    /// A user, with all that are subordinate to them (/etc/subuid): they may become each of those.
    User(u32),
    /// The process has gone, or cannot be looked at.
    #[default]
    Unknown,
}

impl Owner {
    /// True for what an administrator of the host has set up: a service, or a container of an engine that
    /// belongs to root.
    pub fn is_system(self) -> bool {
        matches!(self, Owner::System(_) | Owner::Container(_))
    }
}

/// Which of a server's claims the kernel confirms. A claim is what the process chose to say: on its command
/// line, in an option file, by its working directory. Derived by `server::who::proof`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// It listens on [`KnownBy::port`](super::KnownBy::port) with a socket of its own, in a network that root
    /// made.
    pub port: bool,
    /// Its user owns the data directory, which is where root's processes see it.
    pub datadir: bool,
    /// It listens on its unix socket, which is where root's processes see it.
    pub socket: bool,
}

#[cfg(test)]
impl Proof {
    pub(crate) const FULL: Proof = Proof { port: true, datadir: true, socket: true };
}
