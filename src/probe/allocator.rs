//! Keeps the process small: what a snapshot needs for a moment goes back to the kernel.

/// Allocations from this size on are mappings of their own, which go back at once when they are freed. The
/// same as glibc begins with, but it would raise it with the first large one that is freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// One heap for all threads, before there are any: each would get one of its own otherwise, and what one
/// thread allocates and another frees would stay there.
pub fn limit_arenas() {
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
