//! A number in a file that other processes map into their memory.

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

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins at a page, holds eight bytes, lives as long as self, and is used through atomics.
        unsafe { AtomicU64::from_ptr(self.0.as_mut_ptr().cast()) }
    }
}
