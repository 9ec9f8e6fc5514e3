//! Confirms names through /proc. A file system that hangs may hold the thread that does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::engine::engines::Engines;
use crate::files::resolve::{self, Existence, Resolved};
use crate::linux::cpu_time::of_this_thread;
use crate::linux::{PROC, mounts};
use crate::model::{FileId, ServerId};
use crate::server::who::instances::{Instances, members};

pub(crate) type FileKey = (ServerId, FileId);

pub struct Request {
    pub key: FileKey,
    /// As in `Named`.
    pub holder: u32,
    pub fd: i32,
    pub mount_id: i32,
    /// As in `Named`.
    pub components: Option<Box<[u8]>>,
    pub complete: bool,
    /// Where it was found before.
    pub known: Option<PathBuf>,
    /// The name leaves the role open: the first bytes are wanted.
    pub first_bytes: bool,
}

pub struct Answer {
    pub key: FileKey,
    pub mount_id: i32,
    pub resolved: Option<Resolved>,
    pub first_bytes: Option<Vec<u8>>,
    pub unlinked: bool,
    /// Processor time that it took to find this out.
    pub used: Duration,
}

impl Request {
    /// What the file was called at its last sync, as the kernel sent it or as it was confirmed; None where it
    /// is not known, and for the root of a mount.
    fn file_name(&self) -> Option<OsString> {
        match &self.components {
            Some(components) => split(components).into_iter().next().map(OsString::from_vec),
            None => self.known.as_deref().and_then(Path::file_name).map(OsStr::to_owned),
        }
    }
}

fn split(components: &[u8]) -> Vec<Vec<u8>> {
    components.split(|&b| b == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

/// A file that a server has open, with what `confirm` says of it.
pub(crate) struct FoundOpen {
    pub fd: i32,
    pub answer: Answer,
}

/// Those of the files that a server has open, with their names. May block.
pub(crate) fn find_open(
    engines: &Engines,
    server: ServerId,
    wanted: &[FileId],
    until: Instant,
) -> Vec<FoundOpen> {
    let mut all: Vec<FoundOpen> = Vec::new();
    for holder in members(Path::new(PROC), engines, &[server.pid]) {
        let is_found = |id: &FileId| all.iter().any(|found| found.answer.key.1 == *id);
        let wanted: Vec<FileId> = wanted.iter().filter(|id| !is_found(id)).copied().collect();
        if wanted.is_empty() {
            break;
        }
        for (file, fd) in resolve::find_open_descriptors(Path::new(PROC), holder, &wanted, until) {
            let (key, mount_id, first_bytes) = ((server, file), -1, true);
            let (components, complete, known) = (None, false, None);
            let request = Request { key, holder, fd, mount_id, components, complete, known, first_bytes };
            all.push(FoundOpen { fd, answer: confirm(engines, &request) });
        }
    }
    all
}

/// The process whose descriptor a request is about: the server's own, or that of another process that is,
/// still, of the same server.
fn holder(proc_root: &Path, engines: &Engines, request: &Request) -> u32 {
    let server = request.key.0.pid;
    let is_its = || Instances::new(proc_root, engines).first_of(request.holder) == server;
    if request.holder != server && is_its() { request.holder } else { server }
}

/// Confirms a name. May block.
pub(crate) fn confirm(engines: &Engines, request: &Request) -> Answer {
    let proc_root = Path::new(PROC);
    let before = of_this_thread();
    let (server, file) = request.key;
    let mut unlinked = false;
    // Number and descriptor can both be another file's by now, which no reader of /proc can tell from a
    // rename. With the next sync after a rename the kernel sends the new name.
    let name = request.file_name();
    let is_it = |found: &Resolved| name.is_none() || found.path.file_name() == name.as_deref();
    let by_descriptor =
        resolve::resolve(proc_root, holder(proc_root, engines, request), request.fd, file).filter(is_it);
    let resolved = by_descriptor.or_else(|| {
        // Closed: a path that was confirmed before stays, and only its end is noticed.
        match &request.known {
            Some(path) => {
                let found = resolve::still_exists(proc_root, server.pid, path, file);
                unlinked = found == Existence::Unlinked;
                None
            }
            None if request.mount_id < 0 => None,
            None => {
                let components = split(request.components.as_deref().unwrap_or_default());
                let (mount, complete) = (request.mount_id, request.complete);
                resolve::from_dentry(proc_root, server.pid, mount, &components, complete, file)
            }
        }
    });
    let first_bytes = request
        .first_bytes
        .then_some(())
        .and(resolved.as_ref())
        .filter(|found| !found.filesystem.as_deref().is_some_and(mounts::may_never_answer))
        .and_then(|found| resolve::first_bytes(proc_root, server.pid, &found.path, file));
    let used = of_this_thread().saturating_sub(before);
    Answer { key: request.key, mount_id: request.mount_id, resolved, first_bytes, unlinked, used }
}
