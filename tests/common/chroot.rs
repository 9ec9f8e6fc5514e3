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
    _bound: Mounted,
    _disk: Mounted,
    directory: TempDir,
    root: PathBuf,
    user: u32,
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
        let point = directory.path().join("disk");
        std::fs::create_dir(&point).unwrap();
        let disk = Mounted::image(filesystem, megabytes);
        let bound = Mounted::on(&["--bind", disk.path().to_str().unwrap()], &point);
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), permissions).unwrap();
        for path in [directory.path(), &point] {
            std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        }
        Chroot { _bound: bound, _disk: disk, directory, root, user }
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
