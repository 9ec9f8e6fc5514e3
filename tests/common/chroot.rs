//! Programs in a root tree of their own (tools/*-root.sh), with a disk of their own below it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::disk::Mounted;

/// Mounts the devices, and /proc where there is a place for it, in a namespace that ends with the program, as
/// its segment of shared memory does, which a server that is killed leaves behind. It dies with the test.
const ENTER: &str = r#"
root=$1 user=$2; shift 2
for device in null zero random urandom; do mount --bind /dev/$device "$root/dev/$device"; done
[ ! -d "$root/proc" ] || mount -t proc proc "$root/proc"
exec setpriv --reuid $user --regid $user --clear-groups --inh-caps +sys_chroot --ambient-caps +sys_chroot --pdeathsig KILL \
  chroot "$root" "$@"
"#;

pub struct Chroot {
    // In this order they go.
    _disk: Disk,
    directory: TempDir,
    root: PathBuf,
    user: u32,
}

/// A filesystem of its own, for as long as this is kept.
pub struct Disk {
    // In this order they go.
    _bound: Mounted,
    _image: Mounted,
    point: PathBuf,
}

impl Disk {
    /// Where it is, as this machine sees it.
    pub fn path(&self) -> &Path {
        &self.point
    }
}

impl Chroot {
    /// `tool`: the script that unpacks the tree, and says where; with its arguments. `filesystem`: ext4 or
    /// xfs, of so many megabytes, owned by a user, of whom the programs are.
    pub fn on(tool: &str, user: u32, filesystem: &str, megabytes: u64) -> Chroot {
        let mut words = tool.split(' ');
        let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(words.next().unwrap());
        let output = Command::new(&tool).args(words).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{} failed, as it says above", tool.display());
        let root = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let directory = TempDir::with_prefix_in("fsynctop-", root.join("tmp")).unwrap();
        let disk = disk_at(&directory.path().join("disk"), user, filesystem, megabytes);
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), permissions).unwrap();
        own(directory.path(), user);
        Chroot { _disk: disk, directory, root, user }
    }

    /// Another disk beside the first. What is started before does not see it.
    pub fn another_disk(&self, name: &str, filesystem: &str, megabytes: u64) -> Disk {
        disk_at(&self.directory().join(name), self.user, filesystem, megabytes)
    }

    /// A new directory of the user's, not on a disk.
    pub fn make_directory(&self, name: &str) -> PathBuf {
        let path = self.directory().join(name);
        std::fs::create_dir(&path).unwrap();
        own(&path, self.user);
        path
    }

    /// A directory of their own, not on the disk, as this machine sees it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The disk, as this machine sees it.
    pub fn disk(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    /// A path of this machine as the programs see it.
    pub fn inside(&self, path: &Path) -> PathBuf {
        Path::new("/").join(path.strip_prefix(&self.root).unwrap())
    }

    /// A program that stays, with the number of the process that it is started as.
    pub fn enter(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--ipc", "--propagation", "slave", "bash", "-euc", ENTER, "enter"]);
        command.arg(&self.root).arg(self.user.to_string()).arg(program).args(arguments);
        command.stdin(Stdio::null()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    /// A program that ends by itself.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={0}:{0}", self.user)).arg(&self.root).arg(program).args(arguments);
        command.stdin(Stdio::null());
        command
    }
}

fn disk_at(point: &Path, user: u32, filesystem: &str, megabytes: u64) -> Disk {
    std::fs::create_dir(point).unwrap();
    let image = Mounted::image(filesystem, megabytes);
    let bound = Mounted::on(&["--bind", image.path().to_str().unwrap()], point);
    own(point, user);
    Disk { _bound: bound, _image: image, point: point.to_owned() }
}

fn own(path: &Path, user: u32) {
    std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
}
