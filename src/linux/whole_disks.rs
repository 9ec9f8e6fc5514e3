//! The whole disks below a device: requests go to whole disks, while filesystems are on partitions, volumes,
//! arrays, and on files of other filesystems by loop devices.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::linux::mountinfo::{self, Mount, format_device, parse_device};
use crate::linux::proc_file;

/// More than any stack of volumes, arrays and loop devices has.
const MAX_LAYERS: usize = 8;
/// Members of an array.
const MAX_MEMBERS: usize = 64;

/// A device that receives requests itself is included as well. `sys`: /sys; `mounts`: where the files of loop
/// devices are looked up, by their paths alone, which blocks nowhere.
pub(crate) fn below(sys: &Path, mounts: &[Mount], device: u32) -> BTreeSet<u32> {
    let mut disks = BTreeSet::new();
    add(sys, mounts, device, &mut disks, MAX_LAYERS);
    disks
}

fn add(sys: &Path, mounts: &[Mount], device: u32, disks: &mut BTreeSet<u32>, layers: usize) {
    let place = sys.join("dev/block").join(format_device(device));
    let number = |place: &Path| {
        let text = proc_file::read(&place.join("dev")).ok()?;
        parse_device(std::str::from_utf8(&text).ok()?.trim_end())
    };
    // The link points to …/sda/sda1, whose parent is the disk's directory.
    let whole = match place.join("partition").exists() {
        true => place.canonicalize().ok().and_then(|own| number(own.parent()?)),
        false => None,
    };
    // One that leads to itself is none that sysfs has.
    let new = disks.insert(whole.unwrap_or(device));
    if layers == 0 || !new {
        return;
    }
    if let Some(whole) = whole {
        disks.remove(&whole);
        return add(sys, mounts, whole, disks, layers - 1);
    }
    if let Ok(file) = proc_file::read(&place.join("loop/backing_file")) {
        let file = file.strip_suffix(b"\n").unwrap_or(&file);
        if let Some(mount) = mountinfo::covering(mounts, Path::new(OsStr::from_bytes(file))) {
            add(sys, mounts, mount.device, disks, layers - 1);
        }
        return;
    }
    let members = std::fs::read_dir(place.join("slaves")).into_iter().flatten().flatten().take(MAX_MEMBERS);
    for device in members.filter_map(|member| number(&member.path())) {
        add(sys, mounts, device, disks, layers - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn partitions_volumes_and_loop_devices_lead_to_the_disks_below() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        let devices = [
            ("sda", "8:0"),
            ("sda/sda1", "8:1"),
            ("sda/sda2", "8:2"),
            ("sdb", "8:16"),
            ("sdb/sdb2", "8:18"),
            ("dm-0", "253:0"),
            ("loop0", "7:0"),
            ("loop1", "7:1"),
        ];
        for (name, number) in devices {
            create_dir_all(sys.join("block").join(name)).unwrap();
            write(sys.join("block").join(name).join("dev"), format!("{number}\n")).unwrap();
            create_dir_all(sys.join("dev/block")).unwrap();
            symlink(sys.join("block").join(name), sys.join("dev/block").join(number)).unwrap();
        }
        for partition in ["sda/sda1", "sda/sda2", "sdb/sdb2"] {
            write(sys.join("block").join(partition).join("partition"), "1\n").unwrap();
        }
        create_dir_all(sys.join("block/dm-0/slaves")).unwrap();
        symlink(sys.join("block/sda/sda1"), sys.join("block/dm-0/slaves/sda1")).unwrap();
        symlink(sys.join("block/sdb/sdb2"), sys.join("block/dm-0/slaves/sdb2")).unwrap();
        for (name, file) in [("loop0", "/srv/images/one.img"), ("loop1", "/nested/two.img")] {
            create_dir_all(sys.join("block").join(name).join("loop")).unwrap();
            write(sys.join("block").join(name).join("loop/backing_file"), format!("{file}\n")).unwrap();
        }
        let mounts = mountinfo::parse(
            b"1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 253:0 / /srv rw - xfs /dev/dm-0 rw\n3 1 7:0 / /nested rw - ext4 /dev/loop0 rw\n",
        );
        let below = |major: u32, minor: u32| -> Vec<u32> {
            below(sys, &mounts, major << 20 | minor).into_iter().collect()
        };
        let (sda, sdb, dm0, loop0, loop1) = (8 << 20, 8 << 20 | 16, 253 << 20, 7 << 20, 7 << 20 | 1);
        assert_eq!((below(8, 1), below(8, 2), below(8, 0)), (vec![sda], vec![sda], vec![sda]));
        assert_eq!(below(253, 0), [sda, sdb, dm0]);
        assert_eq!(below(7, 0), [loop0, sda, sdb, dm0]);
        assert_eq!(below(7, 1), [loop0, loop1, sda, sdb, dm0]);
        assert_eq!(super::below(sys, &[], loop0), [loop0].into(), "where its file is looked up nowhere");
        assert_eq!(below(0, 42), [42], "of no block device");
    }
}
