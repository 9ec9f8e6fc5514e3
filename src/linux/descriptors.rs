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

/// From now on no descriptor is handed to a program that this process executes but the first three, whoever
/// has left others open to it. What fails stays as it is (before 5.11).
pub(crate) fn keep_to_itself() {
    #[expect(unsafe_code, reason = "there is no safe binding")]
    // SAFETY: it sets a flag of descriptors and closes none.
    unsafe {
        libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_open_to_children_is_so_no_more() {
        let (file, _other) = std::io::pipe().unwrap();
        let flags = || rustix::io::fcntl_getfd(&file).unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        keep_to_itself();
        assert_eq!(flags(), rustix::io::FdFlags::CLOEXEC);
    }

    #[test]
    fn there_is_room_and_no_descriptor_more_is_open() {
        let own = || procfs::process::Process::myself().unwrap();
        make_room();
        let most = getrlimit(Resource::Nofile).current.unwrap_or(ROOM);
        assert!(u64::from(own().status().unwrap().fdsize) >= most.min(ROOM));
        assert!(own().fd().unwrap().flatten().all(|open| open.fd < 512));
    }
}
