//! Bounds what the allocator keeps of memory that was freed.

/// The size from which allocations are mappings of their own, which go back to the kernel when they are
/// freed. It is glibc's own, which would rise with the first large one that is freed, to 32 MB at most, and
/// with it what stays at the end of the heap, to twice as much.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// One heap for all threads; else there would be up to eight for each processor of the host, and what one
/// thread allocates and another frees would stay in each. To be called while there is one thread only.
pub fn limit() {
    // SAFETY: they set parameters of the allocator, and take no memory of ours.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives back what loading the programs took for a moment, wherever it lies in the heap: some fifteen
/// megabytes, which an idle exporter would keep for good.
pub(super) fn give_back() {
    // SAFETY: it touches only memory that the allocator knows to be free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
