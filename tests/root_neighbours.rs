//! Needs root: the syncs of processes that are not traced, by device and name.

mod common;

use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use common::disk::Mounted;
use common::{needs, rows};
use fsynctop::engine::rules::Rules;
use fsynctop::sampler::Sampler;

const COMM: &str = "wanderer";
/// More than there are rows for: each is used by a neighbour of the same name on one device after another.
const DEVICES: u64 = 250;

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_neighbours_of_one_name_on_many_devices_are_not_taken_for_each_other() {
    needs(&[]);
    let mounts: Vec<Mounted> = (0..DEVICES).map(|_| Mounted::tmpfs()).collect();
    let config = rows::of_comm("nobody-at-all");
    let mut sampler = Sampler::start(&config, Rules::builtin(), "test".into()).unwrap();
    let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
    for round in 0..2 {
        for (n, mount) in mounts.iter().enumerate() {
            let syncs = 1 + (n as u64 + round) % 5;
            let path: PathBuf = mount.path().join("d");
            std::fs::create_dir_all(&path).unwrap();
            let mut load = rows::syncgen(&path, COMM, 1, syncs);
            assert!(load.0.wait().unwrap().success());
            let device = std::fs::metadata(&path).unwrap().st_dev();
            // As the kernel has it: the minor number in twenty bits.
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            *expected.entry(major << 20 | minor).or_default() += syncs;
            // Rows are taken out of use, and handed out again, when snapshots are taken.
            if n % 10 == 9 {
                for _ in 0..3 {
                    sampler.wait(Duration::from_millis(20)).unwrap();
                    sampler.snapshot().unwrap();
                }
            }
        }
    }
    let snapshot = sampler.finish().unwrap();
    let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
    for row in snapshot.neighbours.iter().filter(|row| row.comm == COMM) {
        *counted.entry(row.device_number).or_default() += row.stats.count;
    }
    assert_eq!(counted, expected);
}
