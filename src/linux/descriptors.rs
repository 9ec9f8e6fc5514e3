//! How many descriptors this process may have, and that nobody else gets them.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::stdio::stderr;

/// As many as the kernel allows a process to have unless it asks for more.
const ROOM: u64 = 1024;
/// One for each of thousands of servers, and as many for all else.
const MORE: u64 = 32_768;

/// As many as there may be open at a time.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lets the kernel make the table of descriptors as large as it is going to be. It begins with 64, and when a
/// process of several threads needs more, the kernel waits until no processor reads the old table any more
/// (`expand_fdtable` in fs/file.c): tens of milliseconds, which would fall on some moment where one counts,
/// as when a server has come that may be gone before it is described. To be called while there is one thread
/// only; what fails stays as it is.
pub fn make_room() {
    if let Ok(last) = i32::try_from(limit().min(ROOM).saturating_sub(1)) {
        let _ = fcntl_dupfd_cloexec(stderr(), last);
    }
}

/// For what runs for long and executes nothing that would inherit it: lets this process have more descriptors
/// than it was started with, as far as its hard limit goes. What fails stays as it is.
pub(crate) fn allow_more() {
    let limit = getrlimit(Resource::Nofile);
    let more = limit.maximum.unwrap_or(MORE).min(MORE);
    if limit.current.is_some_and(|current| current < more) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(more), ..limit });
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
        assert!(u64::from(own().status().unwrap().fdsize) >= limit().min(ROOM));
        assert!(own().fd().unwrap().flatten().all(|open| open.fd < 512));
    }
}
