//! Which filesystems have a second level, and the whole disks under them: requests go to whole disks, while
//! filesystems are on partitions, volumes and arrays.

use std::collections::BTreeSet;
use std::path::Path;

use crate::linux::mountinfo::{Mount, format_device, parse_device};
use crate::probe::{MAX_FILESYSTEMS, WatchedFilesystem};

/// More than any stack of volumes and arrays has.
const MAX_LAYERS: usize = 8;

/// The mounted filesystems with a jbd2 journal or an XFS log. `sys`: /sys.
pub fn watched(sys: &Path, mounts: impl Iterator<Item = Mount>) -> Vec<WatchedFilesystem> {
    let mut seen = BTreeSet::new();
    let mut filesystems = Vec::new();
    for mount in mounts {
        let by_device = match mount.filesystem.as_str() {
            "ext4" | "ext3" | "ocfs2" => false,
            "xfs" => true,
            _ => continue,
        };
        if filesystems.len() < MAX_FILESYSTEMS && seen.insert(mount.device) {
            let mut disks = BTreeSet::new();
            whole_disks(sys, mount.device, &mut disks, MAX_LAYERS);
            let disks = disks.into_iter().collect();
            filesystems.push(WatchedFilesystem { device: mount.device, disks, by_device });
        }
    }
    filesystems
}

/// Resolves partitions to their disk, and volumes and arrays to their members. A device that receives
/// requests itself is included as well.
fn whole_disks(sys: &Path, device: u32, disks: &mut BTreeSet<u32>, layers: usize) {
    let place = sys.join("dev/block").join(format_device(device));
    let number = |place: &Path| {
        std::fs::read_to_string(place.join("dev")).ok().and_then(|text| parse_device(text.trim_end()))
    };
    // The link points to …/sda/sda1, whose parent is the disk's directory.
    let whole = match place.join("partition").exists() {
        true => place.canonicalize().ok().and_then(|own| number(own.parent()?)),
        false => None,
    };
    if let Some(whole) = whole {
        return whole_disks(sys, whole, disks, layers);
    }
    disks.insert(device);
    let below = std::fs::read_dir(place.join("slaves")).into_iter().flatten().flatten();
    for entry in below.filter(|_| layers > 0) {
        if let Some(device) = number(&entry.path()) {
            whole_disks(sys, device, disks, layers - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    fn mount(device: u32, filesystem: &str) -> Mount {
        Mount {
            id: 1,
            device,
            root: "/".into(),
            mount_point: "/".into(),
            filesystem: filesystem.into(),
            source: "x".into(),
            options: Vec::new(),
        }
    }

    #[test]
    fn partitions_and_volumes_lead_to_the_disks_below() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        for (name, number) in
            [("sda", "8:0"), ("sda/sda1", "8:1"), ("sdb", "8:16"), ("sdb/sdb2", "8:18"), ("dm-0", "253:0")]
        {
            create_dir_all(sys.join("block").join(name)).unwrap();
            write(sys.join("block").join(name).join("dev"), format!("{number}\n")).unwrap();
            create_dir_all(sys.join("dev/block")).unwrap();
            symlink(sys.join("block").join(name), sys.join("dev/block").join(number)).unwrap();
        }
        write(sys.join("block/sda/sda1/partition"), "1\n").unwrap();
        write(sys.join("block/sdb/sdb2/partition"), "2\n").unwrap();
        create_dir_all(sys.join("block/dm-0/slaves")).unwrap();
        symlink(sys.join("block/sda/sda1"), sys.join("block/dm-0/slaves/sda1")).unwrap();
        symlink(sys.join("block/sdb/sdb2"), sys.join("block/dm-0/slaves/sdb2")).unwrap();
        let (sda, sda1, sdb, dm0) = (8 << 20, 8 << 20 | 1, 8 << 20 | 16, 253 << 20);
        let mounts = [mount(sda1, "ext4"), mount(dm0, "xfs"), mount(sda1, "ext4"), mount(5, "tmpfs")];
        let expected = [
            WatchedFilesystem { device: sda1, disks: vec![sda], by_device: false },
            WatchedFilesystem { device: dm0, disks: vec![sda, sdb, dm0], by_device: true },
        ];
        assert_eq!(watched(sys, mounts.into_iter()), expected);
    }
}
