//! What devices are called and where they are mounted, for the rows that know no more than a number.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::linux::{mountinfo, mounts};

/// Filesystems are mounted and unmounted while devices keep their names.
const MOUNTS_MAX_AGE: Duration = Duration::from_secs(60);

/// Names by device number, each looked up once.
#[derive(Default)]
pub(crate) struct Devices {
    names: HashMap<u32, String>,
    /// Mount points, and when they were read.
    mounts: Option<(Instant, HashMap<u32, Arc<Path>>)>,
}

impl Devices {
    pub fn name(&mut self, device: u32) -> String {
        let look_up = || {
            let mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
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

    /// The mount point and the filesystem of a device, as this process sees them. Reads no filesystem.
    pub(crate) fn mount(device: u32) -> Option<(PathBuf, String)> {
        let mut mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
        let mount = mounts.find(|mount| mount.device == device)?;
        Some((mount.mount_point, mount.filesystem))
    }
}

/// Of each device, a mount of the whole rather than of a part of it: containers have single files of the
/// host's mounted over theirs.
fn mount_points() -> HashMap<u32, Arc<Path>> {
    let mut points: HashMap<u32, (bool, PathBuf)> = HashMap::new();
    for mount in mountinfo::of_process(Path::new("/proc"), std::process::id()) {
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
