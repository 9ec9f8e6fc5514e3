//! Keeps the process small: what a snapshot needs for a moment goes back to the kernel, and so does the code that only
//! the start needed.

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
    // SAFETY: an unchanged mapping of a file, which stays where it is meanwhile: its pages can be had again from there at
    // any moment. (A debugger's breakpoints are changes, and are gone.)
    for_each_read_only_segment(&mut |begin, length| unsafe {
        libc::madvise(begin, length, libc::MADV_DONTNEED);
    });
}

type Visit<'a> = &'a mut dyn FnMut(*mut libc::c_void, usize);

/// Calls it for each part of the program and its libraries that was never written to: relocated constants are in those that
/// can be, at first. Under the loader's lock, so that none is unloaded. What /proc/self/maps says is no substitute: by the
/// time that it is read, another thread may have memory of its own in the place of a file that was mapped there.
fn for_each_read_only_segment(mut visit: Visit) {
    // SAFETY: the function has the type that is asked for, and what it is given lives until this returns.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), std::ptr::from_mut(&mut visit).cast()) };
}

unsafe extern "C" fn visit_object(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    visit: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: as dl_iterate_phdr(3) and the function above pass them.
    let (object, visit) = unsafe { (&*object, &mut *visit.cast::<Visit>()) };
    // SAFETY: the kernel's own object has a name as all others have; the program's own may be missing.
    let is_kernels = !object.dlpi_name.is_null()
        && unsafe { std::ffi::CStr::from_ptr(object.dlpi_name) }.to_bytes().starts_with(b"linux-vdso");
    if is_kernels || object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: so many headers stand there.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let page = rustix::param::page_size();
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let begin = (object.dlpi_addr + header.p_vaddr) as usize;
        let end = (begin + header.p_memsz as usize).next_multiple_of(page);
        let begin = begin - begin % page;
        visit(std::ptr::with_exposed_provenance_mut(begin), end - begin);
    }
    0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use procfs::process::{MMPermissions, MMapPath, Process};

    use super::*;

    #[test]
    fn what_is_let_go_of_is_unchanged_and_a_files() {
        let mut segments = Vec::new();
        for_each_read_only_segment(&mut |begin, length| segments.push((begin.addr() as u64, length as u64)));
        let maps = Process::myself().unwrap().smaps().unwrap();
        let of = |address| maps.iter().find(|map| map.address.0 <= address && address < map.address.1);
        let own = std::env::current_exe().unwrap();
        let mut own_bytes = 0;
        for &(begin, length) in &segments {
            let map = of(begin).unwrap_or_else(|| panic!("{begin:x} is not mapped"));
            assert!(begin + length <= map.address.1, "{map:?}");
            assert!(!map.perms.contains(MMPermissions::WRITE) && map.perms.contains(MMPermissions::PRIVATE));
            assert_eq!(map.extension.map.get("Anonymous"), Some(&0), "{map:?}");
            let MMapPath::Path(path) = &map.pathname else { panic!("{map:?}") };
            own_bytes += if *path == own { length } else { 0 };
        }
        let is_code = |&(begin, length): &(u64, u64)| {
            let here = let_go_of_code as fn() as usize as u64;
            (begin..begin + length).contains(&here)
        };
        assert!(segments.iter().any(is_code), "{segments:x?}");
        assert!(own_bytes > 1 << 20, "{own_bytes}");
        let_go_of_code();
    }

    #[test]
    fn memory_in_the_place_of_a_file_that_was_mapped_stays_as_it_is() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let lets_go = scope.spawn(|| {
                // Not for ever, should the other one fail.
                let end = Instant::now() + Duration::from_secs(60);
                while !done.load(Ordering::Relaxed) && Instant::now() < end {
                    let_go_of_code();
                }
            });
            for round in 0..400 {
                // SAFETY: nobody reads it.
                let mapped =
                    unsafe { memmap2::MmapOptions::new().len(1 << 20).map_copy_read_only(&file) }.unwrap();
                std::thread::sleep(Duration::from_millis(1));
                drop(mapped);
                let mut memory = memmap2::MmapMut::map_anon(1 << 20).unwrap();
                memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
                std::thread::sleep(Duration::from_millis(2));
                assert!(memory.iter().step_by(4096).all(|&byte| byte == 1), "round {round}");
            }
            done.store(true, Ordering::Relaxed);
            lets_go.join().unwrap();
        });
    }
}
