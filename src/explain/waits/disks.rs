//! Which filesystems have a second level, and the whole disks under them: requests go to whole disks, while
//! filesystems are on partitions, volumes and arrays.

use std::collections::BTreeSet;
use std::path::Path;

use crate::linux::mountinfo::Mount;
use crate::linux::whole_disks;
use crate::probe::{MAX_FILESYSTEMS, WatchedFilesystem};

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
            // A loop device's own requests are flushes of its file, which its disk has for others as well.
            let disks = whole_disks::below(sys, &[], mount.device).into_iter().collect();
            filesystems.push(WatchedFilesystem { device: mount.device, disks, by_device });
        }
    }
    filesystems
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
    fn each_filesystem_is_watched_once_with_the_disks_below() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        create_dir_all(sys.join("block/sda/sda1")).unwrap();
        create_dir_all(sys.join("dev/block")).unwrap();
        for (name, number) in [("sda", "8:0"), ("sda/sda1", "8:1")] {
            write(sys.join("block").join(name).join("dev"), format!("{number}\n")).unwrap();
            symlink(sys.join("block").join(name), sys.join("dev/block").join(number)).unwrap();
        }
        write(sys.join("block/sda/sda1/partition"), "1\n").unwrap();
        let (sda, sda1, dm0) = (8 << 20, 8 << 20 | 1, 253 << 20);
        let mounts = [mount(sda1, "ext4"), mount(dm0, "xfs"), mount(sda1, "ext4"), mount(5, "tmpfs")];
        let expected = [
            WatchedFilesystem { device: sda1, disks: vec![sda], by_device: false },
            WatchedFilesystem { device: dm0, disks: vec![dm0], by_device: true },
        ];
        assert_eq!(watched(sys, mounts.into_iter()), expected);
    }
}
