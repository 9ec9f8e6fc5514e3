//! Grows the descriptor table while the process is single-threaded.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use rustix::stdio::stderr;

/// As many as the kernel allows a process to have unless it asks for more.
const ROOM: u64 = 1024;

/// Lets the kernel make the table of descriptors as large as it is going to be. It begins with 64, and when a
/// process of several threads needs more, the kernel waits until no processor reads the old table any more
/// (`expand_fdtable` in fs/file.c): tens of milliseconds, which would fall on some moment where one counts,
/// as when a server has come that may be gone before it is described. To be called while there is one thread
/// only; what fails stays as it is.
pub fn make_room() {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(ROOM);
    if let Ok(last) = i32::try_from(most.min(ROOM).saturating_sub(1)) {
        let _ = fcntl_dupfd_cloexec(stderr(), last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_and_no_descriptor_more_is_open() {
        let own = || procfs::process::Process::myself().unwrap();
        make_room();
        let most = getrlimit(Resource::Nofile).current.unwrap_or(ROOM);
        assert!(u64::from(own().status().unwrap().fdsize) >= most.min(ROOM));
        assert!(own().fd().unwrap().flatten().all(|open| open.fd < 512));
    }
}
