//! Needs root: paths of processes in a chroot, in another mount namespace and in another PID namespace.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Running, id_of, needs, wait_until};
use fsynctop::engine::engines::Engines;
use fsynctop::files::resolve::{self, Existence, Resolved};
use fsynctop::model::FileId;
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::selection;

const PROC: &str = "/proc";

/// A `sleep` that holds descriptor 9, started by a script in new namespaces.
struct Sleeper {
    _running: Running,
    pid: u32,
    id: FileId,
}

fn start(unshare: &[&str], script: &str, directory: &Path) -> Sleeper {
    let command =
        Command::new("unshare").args(unshare).args(["sh", "-euc", script, "sh"]).arg(directory).spawn();
    let running = Running(command.unwrap());
    let mut pid = 0;
    wait_until("the process to sleep with its file open", || {
        let tree = selection::list(Path::new(PROC), &Engines::builtin(), &TargetFilter::Tree(running.0.id()));
        let sleeper = tree.iter().find(|group| group.comm == "sleep");
        pid = sleeper.map_or(0, |group| group.pid);
        pid != 0
    });
    let id = id_of(&PathBuf::from(format!("/proc/{pid}/fd/9")));
    Sleeper { _running: running, pid, id }
}

impl Sleeper {
    fn resolve(&self) -> Resolved {
        resolve::resolve(Path::new(PROC), self.pid, 9, self.id).expect("the descriptor verifies")
    }

    /// The path leads to the very file inside the process's root, and that is noticed.
    fn check(&self, path: &str) {
        let resolved = self.resolve();
        assert_eq!(resolved.path, Path::new(path));
        assert_eq!(resolved.is_directory, Some(false));
        assert_eq!(
            resolve::still_exists(Path::new(PROC), self.pid, &resolved.path, self.id),
            Existence::Same
        );
        assert_eq!(
            resolve::first_bytes(Path::new(PROC), self.pid, &resolved.path, self.id).unwrap(),
            b"first"
        );
        let until = Instant::now() + Duration::from_secs(10);
        let open = resolve::find_open_descriptors(Path::new(PROC), self.pid, &[self.id], until);
        assert_eq!(open, [(self.id, 9)]);
    }
}

/// A root tree that shares the host's programs, in "$1".
const TREE: &str = r#"
    mkdir -p "$1/usr" "$1/data"; mount --rbind /usr "$1/usr"
    for d in bin lib lib64; do ln -s usr/$d "$1/$d"; done
"#;
const SLEEP: &str = "printf first >/data/file; exec 9<>/data/file; exec sleep 600";

#[test]
#[ignore = "needs root"]
fn a_path_in_a_chroot_that_is_no_mount_point_is_the_one_inside() {
    needs(&[]);
    let dir = tempfile::tempdir().unwrap();
    let sleeper = start(&["-m"], &format!("{TREE} exec chroot \"$1\" sh -c '{SLEEP}'"), dir.path());
    sleeper.check("/data/file");
    // Its mount is listed nowhere that can be read, and only the device is known.
    assert_ne!(sleeper.resolve().device, "");
    let by_name = resolve::from_dentry(
        Path::new(PROC),
        sleeper.pid,
        -1,
        &[b"file".to_vec(), b"data".to_vec()],
        true,
        sleeper.id,
    );
    assert_eq!(by_name.unwrap().path, Path::new("/data/file"));
    std::fs::remove_file(dir.path().join("data/file")).unwrap();
    let gone = sleeper.resolve();
    assert_eq!((gone.path.as_path(), gone.deleted), (Path::new("/data/file"), true));
}

#[test]
#[ignore = "needs root"]
fn a_path_in_a_mount_namespace_with_a_root_of_its_own_is_the_one_inside() {
    needs(&[]);
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs none \"$1\"; {TREE} mkdir \"$1/old\"; cd \"$1\"; pivot_root . old; exec chroot . sh -c '{SLEEP}'"
    );
    let sleeper = start(&["-m"], &script, dir.path());
    sleeper.check("/data/file");
    let resolved = sleeper.resolve();
    assert_eq!(resolved.filesystem.as_deref(), Some("tmpfs"));
    assert_eq!(resolved.mount.as_deref(), Some(Path::new("/")));
}

#[test]
#[ignore = "needs root"]
fn a_private_mount_and_a_private_pid_namespace_do_not_hide_a_file() {
    needs(&[]);
    let dir = tempfile::tempdir().unwrap();
    let script =
        r#"mount -t tmpfs -o size=1m none "$1"; printf first >"$1/a b"; exec 9<>"$1/a b"; sleep 600 & wait"#;
    let sleeper = start(&["-m", "-p", "-f", "--kill-child"], script, dir.path());
    let path = dir.path().join("a b");
    sleeper.check(path.to_str().unwrap());
    let resolved = sleeper.resolve();
    assert_eq!(resolved.mount.as_deref(), Some(dir.path()));
    assert!(!path.exists(), "the mount is private: this process does not see the file");
    // By the kernel's name of it, below the root of its mount.
    let mount_id = std::fs::read_to_string(format!("/proc/{}/fdinfo/9", sleeper.pid)).unwrap();
    let mount_id =
        mount_id.lines().find_map(|line| line.strip_prefix("mnt_id:")).unwrap().trim().parse().unwrap();
    let by_name =
        resolve::from_dentry(Path::new(PROC), sleeper.pid, mount_id, &[b"a b".to_vec()], true, sleeper.id)
            .unwrap();
    assert_eq!(by_name, Resolved { is_directory: None, ..resolved });
}

#[test]
#[ignore = "needs root"]
fn files_on_overlayfs_verify_by_the_kernels_own_numbers() {
    needs(&[]);
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs none "$1"; cd "$1"; mkdir lower upper work merged
        printf first >lower/file
        mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
        exec 9<>merged/file; exec sleep 600"#;
    let mut sleeper = start(&["-m"], script, dir.path());
    // The superblock's number is what mountinfo shows, the inode's what fdinfo shows.
    let read = |file: &str| std::fs::read(format!("/proc/{}/{file}", sleeper.pid)).unwrap();
    let mounts = fsynctop::linux::mountinfo::parse(&read("mountinfo"));
    let overlay =
        mounts.iter().find(|mount| mount.mount_point.as_os_str().as_bytes().ends_with(b"/merged")).unwrap();
    let info = String::from_utf8(read("fdinfo/9")).unwrap();
    let inode = info.lines().find_map(|line| line.strip_prefix("ino:")?.trim().parse().ok());
    let inode = inode.expect("fdinfo has inodes (Linux 5.14)");
    sleeper.id = FileId { device: overlay.device, inode, generation: 0, weak: true, part: false };
    sleeper.check(dir.path().join("merged/file").to_str().unwrap());
    assert_eq!(sleeper.resolve().filesystem.as_deref(), Some("overlay"));
}
