//! How many rows were committed so far, in a file that other processes map into their memory.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use memmap2::MmapRaw;

pub struct Tally(MmapRaw);

impl Tally {
    /// From zero on, whatever the file held.
    pub fn create(path: &Path) -> Result<Tally> {
        let open = || -> std::io::Result<MmapRaw> {
            // Not truncated: another process may have mapped it already.
            let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            file.set_len(size_of::<u64>() as u64)?;
            MmapRaw::map_raw(&file)
        };
        let tally =
            open().map(Tally).with_context(|| format!("cannot keep a tally in {}", path.display()))?;
        tally.number().store(0, Ordering::Relaxed);
        Ok(tally)
    }

    pub fn add_one(&self) {
        self.number().fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> u64 {
        self.number().load(Ordering::Relaxed)
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins at a page, holds eight bytes, lives as long as self, and is used through
        // atomics.
        #[expect(unsafe_code, reason = "no safe binding shares an atomic with another process")]
        unsafe {
            AtomicU64::from_ptr(self.0.as_mut_ptr().cast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_the_file_sees_what_was_counted_since_it_was_made() {
        let path = std::env::temp_dir().join(format!("insert-load-tally-{}", std::process::id()));
        let read = || u64::from_ne_bytes(std::fs::read(&path).unwrap().try_into().unwrap());
        std::fs::write(&path, 41_u64.to_ne_bytes()).unwrap();
        let watching = Tally::create(&path).unwrap();
        assert_eq!((read(), watching.read()), (0, 0));
        watching.add_one();
        let tally = Tally::create(&path).unwrap();
        assert_eq!((read(), watching.read()), (0, 0));
        (0..3).for_each(|_| tally.add_one());
        assert_eq!((read(), watching.read()), (3, 3));
        std::fs::remove_file(&path).unwrap();
        let nowhere = Tally::create(Path::new("/nowhere/tally")).err().expect("no such directory");
        assert!(format!("{nowhere:#}").contains("/nowhere/tally: No such file"), "{nowhere:#}");
    }
}
