//! What block devices did: /proc/diskstats (Documentation/admin-guide/iostats.rst in the kernel's tree).

use std::collections::BTreeMap;

/// The unit of the kernel's figures, whatever a device's own sectors are.
const SECTOR: u64 = 512;

/// Bytes written to each block device since it is there, by its number as superblocks have it; without those
/// that nothing was written to. Empty where it cannot be read.
pub(crate) fn written() -> BTreeMap<u32, u64> {
    let all = procfs::diskstats().unwrap_or_default();
    let written = all.into_iter().filter(|device| device.sectors_written > 0);
    written
        .filter_map(|device| Some((number(device.major, device.minor)?, device.sectors_written * SECTOR)))
        .collect()
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
        let before = written();
        // Where that is no device of its own (btrfs, an overlay), there is nothing to hold it against.
        let Some(before) = before.get(&number) else { return };
        std::io::Write::write_all(&mut file, &[1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(written()[&number] >= before + (1 << 20));
    }
}
