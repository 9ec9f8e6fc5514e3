//! Whether the server at the other end of a connection is the one that is traced.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::bounded::Bounded;
use super::connection::Failure;
use super::find::{Target, listens_at};
use super::protection::takes;
use super::transport::Transport;
use crate::linux::clock::boot_time;
use crate::linux::rooted::Root;
use crate::model::Server;
use crate::server::who::listening::tcp_addresses;

/// Who answers, as far as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The process that listens on a local socket.
    Process(u32),
    /// Whoever listens at this address. `is_here`: it is one of this host's.
    Address { address: SocketAddr, is_here: bool },
}

impl Origin {
    /// The other end of a new connection. Nothing has been sent yet.
    pub(crate) fn of(transport: &Transport, target: &Target) -> Result<Origin, Failure> {
        if transport.is_socket() {
            return listener(transport.bounded(), target).map(Origin::Process);
        }
        let [ours, theirs] = transport.bounded().addresses()?;
        let ip = theirs.ip().to_canonical();
        // The kernel gives a connection to one of this host's addresses that one as its own, or another of
        // them.
        let is_here = ip.is_loopback() || ours.ip().to_canonical() == ip;
        Ok(Origin::Address { address: theirs, is_here })
    }

    /// Whether one of these processes listens at that address of this host, now.
    pub(crate) fn is_any_of(self, pids: &[u32]) -> bool {
        match self {
            Origin::Process(pid) => pids.contains(&pid),
            Origin::Address { address, is_here } => {
                let theirs = |&pid: &u32| tcp_addresses(Path::new("/proc"), pid);
                is_here && pids.iter().flat_map(theirs).any(|theirs| takes(&theirs, address))
            }
        }
    }

    /// Whether the traced server is seen to listen there (None: it is in a network namespace of its own), and
    /// the place in words.
    pub(crate) fn is_of(self, server: &Server) -> (Option<bool>, String) {
        match self {
            Origin::Process(other) => {
                (Some(other == server.id.pid), format!("the socket of process {other}"))
            }
            Origin::Address { address, is_here } => {
                (listens_at(server, address).map(|listens| listens && is_here), address.to_string())
            }
        }
    }
}

/// When the traced server was started, by this host's clock.
pub(crate) fn started(server: &Server) -> SystemTime {
    boot_time() + Duration::from_nanos(server.id.start_ns)
}

/// Whether two paths lead to one directory. Either may be written with a symlink, which is one of the
/// server's own root.
pub(crate) fn same_directory(server: &Server, theirs: &Path, ours: &Path) -> bool {
    let plain = |path: &Path| -> PathBuf { path.components().collect() };
    let root = Root::of_process(Path::new("/proc"), server.id.pid).ok();
    let real = |path: &Path| root.as_ref()?.canonical(path);
    let theirs_real = real(theirs);
    plain(theirs) == plain(ours) || theirs_real.is_some() && theirs_real == real(ours)
}

/// The traced server that listens at the other end of a local socket, as the kernel says: SO_PEERCRED is of
/// the process that called listen(2), which of PostgreSQL's is the postmaster. Nothing has been sent yet.
pub(crate) fn listener(stream: &Bounded, target: &Target) -> Result<u32, Failure> {
    let peer = stream.peer()?;
    if let Some(pid) = target.servers.iter().copied().find(|&pid| i64::from(pid) == i64::from(peer)) {
        return Ok(pid);
    }
    let who = if peer > 0 { format!("process {peer}") } else { "a process of another PID namespace".into() };
    Err(Failure::Broken(format!(
        "{who} listens there, which is none of the servers that are traced, so nothing is sent to it"
    )))
}
