//! Needs root: the syncs of processes that are not traced, by device and name.

use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::common::disk::Mounted;
use crate::common::faults::{FaultFs, Series, fsynctop, output, row, tool};
use crate::common::{needs, rows, wait_until};
use fsynctop::engine::rules::Rules;
use fsynctop::sampler::Sampler;
use serde_json::Value;

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

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_neighbours_are_counted_exactly_and_many_of_them_share_a_row() {
    needs(&[]);
    let mount = FaultFs::mount("ok");
    let (load, target) = (mount.path().join("load"), mount.path().join("target"));
    std::fs::create_dir_all(&load).unwrap();
    std::fs::create_dir_all(&target).unwrap();
    let last_cpu = std::thread::available_parallelism().unwrap().get() - 1;
    let load_on = |cpu: usize, comm: &str, syncs: u32| {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.min(last_cpu).to_string()]).arg(tool("syncgen")).arg(&load);
        command.args(["--op", "syncfs", "--comm", comm, "--syncs", &syncs.to_string()]);
        assert!(output(&mut command).status.success());
    };
    let measure = |format: &str, neighbours: &dyn Fn()| {
        let (began, done) = (target.join("began"), target.join("done"));
        let _ = std::fs::remove_file(&began);
        let _ = std::fs::remove_file(&done);
        let results = target.join("measured");
        let script = r#""$1" "$2" --op syncfs --syncs 40 >/dev/null; : >"$2/began"
            while [ ! -e "$2/done" ]; do sleep 0.05; done"#;
        let mut command = fsynctop();
        command.args(["once", "--ops", "syncfs", "--output", format, "--output-file"]).arg(&results);
        command.args(["--", "sh", "-c", script, "sh"]).arg(tool("syncgen")).arg(&target);
        let series = Series::start(&mut command);
        wait_until("the target to sync", || began.exists());
        neighbours();
        std::fs::write(done, "").unwrap();
        assert_eq!(series.line(), None);
        std::fs::read_to_string(results).unwrap()
    };

    let two = || {
        load_on(0, "neighbour-a", 20);
        load_on(1, "neighbour-a", 10);
        load_on(1, "neighbour-b", 7);
    };
    let json: Value = serde_json::from_str(&measure("json", &two)).unwrap();
    assert_eq!(row(&json["files"], &[("target", "filesystem")])["count"], 40);
    assert_eq!(row(&json["neighbours"], &[("comm", "neighbour-a")])["count"], 30);
    assert_eq!(row(&json["neighbours"], &[("comm", "neighbour-b")])["count"], 7);
    let table = measure("table", &two);
    let also = table.lines().find(|line| line.starts_with("also on ")).unwrap_or_else(|| panic!("{table}"));
    let (a, b) = (also.find("neighbour-a").unwrap(), also.find("neighbour-b").unwrap());
    assert!(a < b, "the busiest first: {also}");

    // Some find no row; none has a part of its syncs in its own row and the rest in that of the others. A
    // neighbour that moves between processors takes one of the 192 rows, not one for each.
    let many = || {
        for n in 0..300 {
            load_on(0, &format!("crowd-{n}"), 2);
            load_on(1, &format!("crowd-{n}"), 1);
        }
    };
    let json: Value = serde_json::from_str(&measure("json", &many)).unwrap();
    let rows = json["neighbours"].as_array().unwrap();
    let count = |row: &Value| row["count"].as_u64().unwrap();
    assert_eq!(rows.iter().map(count).sum::<u64>(), 900, "{rows:?}");
    let (others, apart): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["comm"] == "other");
    assert!(apart.len() > 150 && others.len() == 1, "{rows:?}");
    assert!(apart.iter().all(|row| count(row) == 3), "{rows:?}");
}
