//! What devices are called and where they are mounted, for the rows that know no more than a number.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::linux::{mountinfo, mounts};

/// Names by device number, each looked up once.
#[derive(Default)]
pub(crate) struct Devices {
    names: HashMap<u32, String>,
}

impl Devices {
    pub fn name(&mut self, device: u32) -> String {
        let look_up = || {
            let mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
            mounts::device_name(mounts, device)
        };
        self.names.entry(device).or_insert_with(look_up).clone()
    }

    /// The mount point and the filesystem of a device, as this process sees them. Reads no filesystem.
    pub(crate) fn mount(device: u32) -> Option<(PathBuf, String)> {
        let mut mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
        let mount = mounts.find(|mount| mount.device == device)?;
        Some((mount.mount_point, mount.filesystem))
    }
}
