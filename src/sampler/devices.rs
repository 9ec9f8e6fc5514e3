//! What devices are called and where they are mounted, for the rows that know no more than a number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::linux::PROC;
use crate::linux::{mountinfo, mounts, rooted, whole_disks};
use crate::model::WholeDisks;

/// Filesystems are mounted and unmounted while devices keep their names.
const MOUNTS_MAX_AGE: Duration = Duration::from_secs(60);

/// Names by device number, each looked up once.
#[derive(Default)]
pub(crate) struct Devices {
    names: HashMap<u32, String>,
    /// Mount points, and when they were read.
    mounts: Option<(Instant, HashMap<u32, Arc<Path>>)>,
    memory: Option<Option<u32>>,
    /// The disks below block devices, and since when they are looked up.
    disks: Option<(Instant, BTreeMap<u32, BTreeSet<u32>>)>,
    whole_disks: WholeDisks,
}

fn number_of_memory() -> Option<u32> {
    let file = memfd_create(c"fsynctop", MemfdFlags::CLOEXEC).ok()?;
    Some(rooted::attributes(&file).ok()?.device)
}

/// Whether it is a block device's number; all others have major number 0 (set_anon_super in fs/super.c).
fn is_block_device(device: u32) -> bool {
    device >> 20 != 0
}

impl Devices {
    pub fn name(&mut self, device: u32) -> String {
        let look_up = || {
            let mounts = mountinfo::of_process(Path::new(PROC), std::process::id());
            mounts::device_name(mounts, device)
        };
        self.names.entry(device).or_insert_with(look_up).clone()
    }

    /// A device's mount point as this process sees it, a minute old at most.
    pub fn mount_point(&mut self, device: u32) -> Option<Arc<Path>> {
        let (read, mounts) = self.mounts.get_or_insert_with(|| (Instant::now(), mount_points()));
        if read.elapsed() > MOUNTS_MAX_AGE {
            (*read, *mounts) = (Instant::now(), mount_points());
        }
        mounts.get(&device).cloned()
    }

    /// The whole disks below each of these devices; below a loop device those of its file, too. Each is
    /// looked up once in [`MOUNTS_MAX_AGE`].
    pub fn whole_disks(&mut self, devices: impl Iterator<Item = u32>) -> WholeDisks {
        let (since, disks) = self.disks.get_or_insert_with(|| (Instant::now(), BTreeMap::new()));
        if since.elapsed() > MOUNTS_MAX_AGE {
            (*since, *disks) = (Instant::now(), BTreeMap::new());
        }
        let is_new = |device: &u32| is_block_device(*device) && !disks.contains_key(device);
        let new: BTreeSet<u32> = devices.filter(is_new).collect();
        if !new.is_empty() {
            let mounts: Vec<_> = mountinfo::of_process(Path::new(PROC), std::process::id()).collect();
            let below = |device| (device, whole_disks::below(Path::new("/sys"), &mounts, device));
            disks.extend(new.into_iter().map(below));
            self.whole_disks = disks.clone().into();
        }
        self.whole_disks.clone()
    }

    /// Whether it is the kernel's own filesystem of files that are in memory and in no directory
    /// (memfd_create, shmem_init in mm/shmem.c): no disk is below it.
    pub fn is_memory(&mut self, device: u32) -> bool {
        *self.memory.get_or_insert_with(number_of_memory) == Some(device)
    }

    /// The mount point and the filesystem of a device, as this process sees them. Reads no filesystem.
    pub(crate) fn mount(device: u32) -> Option<(PathBuf, String)> {
        let mut mounts = mountinfo::of_process(Path::new(PROC), std::process::id());
        let mount = mounts.find(|mount| mount.device == device)?;
        Some((mount.mount_point, mount.filesystem))
    }
}

/// Of each device, a mount of the whole rather than of a part of it: containers have single files of the
/// host's mounted over theirs.
fn mount_points() -> HashMap<u32, Arc<Path>> {
    let mut points: HashMap<u32, (bool, PathBuf)> = HashMap::new();
    for mount in mountinfo::of_process(Path::new(PROC), std::process::id()) {
        let is_part = mount.root != Path::new("/");
        match points.get_mut(&mount.device) {
            Some(known) if known.0 && !is_part => *known = (is_part, mount.mount_point),
            Some(_) => {}
            None => {
                points.insert(mount.device, (is_part, mount.mount_point));
            }
        }
    }
    points.into_iter().map(|(device, (_, point))| (device, point.into())).collect()
}
