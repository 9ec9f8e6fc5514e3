//! Keeps the process small: what a snapshot needs for a moment goes back to the kernel, and so does the code that only
//! the start needed.

use procfs::process::{MMPermissions, MMapPath};

/// Allocations from this size on are mappings of their own, which go back at once when they are freed. The same as
/// glibc begins with, but it would raise it with the first large one that is freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// One heap for all threads, before there are any: each would get one of its own otherwise, and what one thread
/// allocates and another frees would stay there.
pub fn be_frugal() {
    // SAFETY: they set parameters of the allocator, and take no memory of ours.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}

/// Gives back what is free, wherever it lies: after loading, which takes megabytes for a moment.
pub fn trim() {
    // SAFETY: it touches only memory that the allocator knows to be free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets go of code and constants, the program's own and its libraries': what is still used comes back from the page
/// cache as it is reached, a cheap fault for each stretch. Most of it has served to load the programs and to read the
/// options, and is never used again.
pub fn let_go_of_code() {
    let Ok(maps) = procfs::process::Process::myself().and_then(|own| own.smaps()) else { return };
    for map in maps {
        let MMapPath::Path(_) = map.pathname else { continue };
        // Relocated constants can be read only, too, but are no longer what the file holds: they are pages of its own.
        let is_unchanged = map.extension.map.get("Anonymous") == Some(&0)
            && map.perms.contains(MMPermissions::PRIVATE | MMPermissions::READ)
            && !map.perms.contains(MMPermissions::WRITE);
        if !is_unchanged {
            continue;
        }
        let (begin, end) = map.address;
        let begin = std::ptr::with_exposed_provenance_mut::<libc::c_void>(begin as usize);
        // SAFETY: an unchanged mapping of a file: its pages can be had again from there at any moment.
        unsafe { libc::madvise(begin, (end - map.address.0) as usize, libc::MADV_DONTNEED) };
    }
}
