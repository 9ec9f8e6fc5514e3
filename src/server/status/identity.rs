//! Whether the server at the other end of a connection is the one that is traced.

use std::path::{Path, PathBuf};

use super::bounded::Bounded;
use super::connection::Failure;
use super::find::Target;
use crate::linux::rooted::Root;
use crate::model::Server;

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
