//! What block devices did: /proc/diskstats (Documentation/admin-guide/iostats.rst in the kernel's tree).

use std::collections::BTreeMap;

use crate::model::DiskBytes;

/// The unit of the kernel's figures, whatever a device's own sectors are.
const SECTOR: u64 = 512;

/// What each block device has read and written since it is there, by its number as superblocks have it,
/// without those that did neither. Empty where it cannot be read.
pub(crate) fn bytes() -> BTreeMap<u32, DiskBytes> {
    let bytes = |disk: procfs::DiskStat| {
        let bytes = DiskBytes { read: disk.sectors_read * SECTOR, written: disk.sectors_written * SECTOR };
        let is_used = bytes != DiskBytes::default();
        is_used.then_some((number(disk.major, disk.minor)?, bytes))
    };
    procfs::diskstats().unwrap_or_default().into_iter().filter_map(bytes).collect()
}

/// MKDEV in include/linux/kdev_t.h.
fn number(major: i32, minor: i32) -> Option<u32> {
    Some(u32::try_from(major).ok()? << 20 | u32::try_from(minor).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_arrives_at_the_device_of_the_file() {
        use std::os::unix::fs::MetadataExt;
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        let device = file.metadata().unwrap().dev();
        let number = number(rustix::fs::major(device) as i32, rustix::fs::minor(device) as i32).unwrap();
        let before = bytes();
        // Where that is no device of its own (btrfs, an overlay), there is nothing to hold it against.
        let Some(before) = before.get(&number) else { return };
        std::io::Write::write_all(&mut file, &[1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(bytes()[&number].written >= before.written + (1 << 20));
    }
}
