//! Needs root and a mounted cgroup2: a control group is found, and the processes in it and below it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::disk::Mounted;
use crate::common::measured::{Measured, number, text};
use crate::common::{Running, built, needs, sleeper, wait_until};
use fsynctop::engine::engines::Engines;
use fsynctop::linux::mountinfo;
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::selection;

/// A hierarchy of version 1, which any kernel has beside that of version 2, if it was built with either: of
/// no controller, and of a name.
fn old_hierarchy() -> Mounted {
    let options = format!("none,name=fsynctop-{}", std::process::id());
    Mounted::new(&["-t", "cgroup", "-o", &options, "none"])
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_processes_of_a_control_group_of_version_1_are_traced_with_what_they_start() {
    needs(&[]);
    let hierarchy = old_hierarchy();
    let groups = Groups(hierarchy.path().join(format!("fsynctop-test-{}", std::process::id())));
    std::fs::create_dir_all(groups.0.join("below")).unwrap();
    let once = |path: &Path, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
        command.args(["once", "-d", "2", "--cgroup"]).arg(path).args(options).output().unwrap()
    };
    let empty = once(&groups.0, &[]);
    let said = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert_eq!(empty.status.code(), Some(3), "{said}");
    assert!(said.contains("version 1") && said.contains("--comm"), "{said}");
    // A shell in the group starts who syncs.
    let disk = Mounted::tmpfs();
    let script = "read _; while :; do \"$0\" \"$1\" --syncs 5; done";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(built("syncgen")).arg(disk.path());
    let mut shell = Running(shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    std::fs::write(groups.0.join("below/cgroup.procs"), shell.0.id().to_string()).unwrap();
    shell.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    let relative = groups.0.strip_prefix(hierarchy.path()).unwrap();
    for path in [&groups.0, relative] {
        let output = once(path, &["--output", "json"]);
        assert!(output.status.success(), "{output:?}");
        let measured = Measured::parse(&String::from_utf8_lossy(&output.stdout));
        let servers = measured.0["servers"].as_array().unwrap();
        assert!(servers.iter().any(|server| number(server, "pid") == u64::from(shell.0.id())), "{servers:?}");
        assert!(servers.iter().any(|server| text(server, "comm") == "syncgen"), "{servers:?}");
        assert!(measured.total() > 5);
    }
    drop(shell);
    wait_until("the control group to be empty", || {
        std::fs::read_to_string(groups.0.join("below/cgroup.procs")).is_ok_and(|members| members.is_empty())
    });
}

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
    let sleeper = sleeper();
    let pid = sleeper.0.id();
    std::fs::write(groups.0.join("below/cgroup.procs"), pid.to_string()).unwrap();
    // The same group by its path in the file system and by the one that /proc/PID/cgroup shows.
    let shown = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let shown = shown.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    assert_eq!(shown, format!("/{name}/below"));
    for path in [groups.0.clone(), PathBuf::from(&name), PathBuf::from(shown)] {
        let filter = TargetFilter::cgroup(Path::new("/proc"), &path).unwrap();
        let found = selection::list(Path::new("/proc"), &Engines::builtin(), &filter);
        assert_eq!(found.iter().map(|group| group.pid).collect::<Vec<_>>(), [pid], "{path:?}");
    }
    assert!(TargetFilter::cgroup(Path::new("/proc"), Path::new("no/such/group")).is_err());
    drop(sleeper);
    wait_until("the control group to be empty", || {
        std::fs::read_to_string(groups.0.join("below/cgroup.procs")).is_ok_and(|members| members.is_empty())
    });
}
