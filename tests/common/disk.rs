//! Filesystems to test on: images on loop devices, and any other mount; unmounted when the test ends, however
//! that is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something mounted, and the directory that it is mounted on.
pub struct Mounted {
    point: PathBuf,
    /// The image, and the directory if it is ours.
    _files: Vec<tempfile::TempDir>,
}

/// Runs a command that must succeed.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {stderr}");
}

impl Mounted {
    /// `mount ARGUMENTS DIRECTORY`, on a new directory.
    pub fn new(arguments: &[&str]) -> Mounted {
        let directory = tempfile::tempdir().unwrap();
        let mut mounted = Mounted::on(arguments, directory.path());
        mounted._files.push(directory);
        mounted
    }

    /// On a directory that is there.
    pub fn on(arguments: &[&str], point: &Path) -> Mounted {
        let arguments = arguments.iter().map(OsStr::new).chain([point.as_os_str()]);
        run("mount", &arguments.collect::<Vec<_>>());
        Mounted { point: point.canonicalize().unwrap(), _files: Vec::new() }
    }

    pub fn tmpfs() -> Mounted {
        Mounted::new(&["-t", "tmpfs", "fsynctop-test"])
    }

    /// A new filesystem (ext4, xfs, btrfs) on a loop device of its own.
    pub fn image(filesystem: &str, megabytes: u64) -> Mounted {
        Mounted::image_with(filesystem, megabytes, &[])
    }

    /// The same, with options for mkfs.
    pub fn image_with(filesystem: &str, megabytes: u64, options: &[&str]) -> Mounted {
        // Not in /tmp, which is memory on many systems: a loop device's flush would cost nothing there.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut mounted = Mounted::image_in(directory.path(), filesystem, megabytes, options);
        mounted._files.push(directory);
        mounted
    }

    /// The same, of an image in a directory that is there.
    pub fn image_in(directory: &Path, filesystem: &str, megabytes: u64, options: &[&str]) -> Mounted {
        let image = directory.join("image");
        std::fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        // ext4 would otherwise go on initialising itself after the mount, and its device would be busy with
        // that.
        let at_once: &[&str] = match filesystem {
            "ext4" => &["-E", "lazy_itable_init=0,lazy_journal_init=0"],
            _ => &[],
        };
        let options = at_once.iter().chain(options).map(OsStr::new);
        let arguments: Vec<_> =
            [OsStr::new("-q")].into_iter().chain(options).chain([image.as_os_str()]).collect();
        run(&format!("mkfs.{filesystem}"), &arguments);
        Mounted::new(&["-o", "loop", image.to_str().unwrap()])
    }

    /// An overlay whose upper layer lies on `upper`.
    pub fn overlay(upper: &Path) -> Mounted {
        let layers = ["lower", "upper", "work"].map(|name| upper.join(name));
        layers.iter().for_each(|layer| std::fs::create_dir_all(layer).unwrap());
        let [lower, upper, work] = layers.map(|layer| layer.display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        Mounted::new(&["-t", "overlay", "-o", &options, "fsynctop-test"])
    }

    pub fn path(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily if need be: a failed test may have left a process with open files.
        let unmount = |options: &[&str]| {
            Command::new("umount")
                .args(options)
                .arg(&self.point)
                .output()
                .is_ok_and(|out| out.status.success())
        };
        if !unmount(&[]) && !unmount(&["-l"]) {
            eprintln!("cannot unmount {}", self.point.display());
        }
    }
}

/// A filesystem that is frozen takes no write until it is thawed.
pub struct Frozen<'a>(&'a Path);

impl Frozen<'_> {
    pub fn freeze(path: &Path) -> Frozen<'_> {
        run("fsfreeze", &["-f".as_ref(), path.as_os_str()]);
        Frozen(path)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        run("fsfreeze", &["-u".as_ref(), self.0.as_os_str()]);
    }
}
