//! What devices are called, for the rows that know no more than a number.

use std::collections::HashMap;
use std::path::Path;

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
}
