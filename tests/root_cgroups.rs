//! Needs root and a mounted cgroup2: a control group is found, and the processes in it and below it.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Running, needs, wait_until};
use fsynctop::linux::mountinfo;
use fsynctop::server::filter::TargetFilter;
use fsynctop::server::processes;

/// Two nested control groups, removed at the end.
struct Groups(PathBuf);

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.0.join("below"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "needs root"]
fn processes_of_a_control_group_are_found_with_those_below_it() {
    needs(&[]);
    let mounts = mountinfo::of_process(Path::new("/proc"), std::process::id());
    let mount = mounts.into_iter().find(|mount| mount.filesystem == "cgroup2").expect("cgroup2 is mounted");
    let name = format!("fsynctop-test-{}", std::process::id());
    let groups = Groups(mount.mount_point.join(&name));
    std::fs::create_dir_all(groups.0.join("below")).expect("control groups can be made");
    let sleeper = Running(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = sleeper.0.id();
    std::fs::write(groups.0.join("below/cgroup.procs"), pid.to_string()).unwrap();
    // The same group by its path in the file system and by the one that /proc/PID/cgroup shows.
    let shown = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let shown = shown.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    assert_eq!(shown, format!("/{name}/below"));
    for path in [groups.0.clone(), PathBuf::from(&name), PathBuf::from(shown)] {
        let filter = TargetFilter::cgroups(Path::new("/proc"), std::slice::from_ref(&path)).unwrap();
        let found = processes::list(Path::new("/proc"), &filter);
        assert_eq!(found.iter().map(|group| group.pid).collect::<Vec<_>>(), [pid], "{path:?}");
    }
    assert!(TargetFilter::cgroups(Path::new("/proc"), &["no/such/group".into()]).is_err());
    drop(sleeper);
    wait_until("the control group to be empty", || {
        std::fs::read_to_string(groups.0.join("below/cgroup.procs")).is_ok_and(|members| members.is_empty())
    });
}
