//! What a path lies on, as far as durability goes: its filesystem with the options in force, its device, and
//! whether that device has a cache that a power cut empties.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::linux::mountinfo::{self, Mount, format_device};
use crate::linux::mounts;
use crate::linux::rooted::Root;

/// A device's write cache as the kernel sees it (/sys/block/*/queue/write_cache).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// There is one that a power cut may empty: the kernel sends it flushes.
    Volatile,
    /// There is none, or the device says that it keeps what it has, or somebody told the kernel so: no
    /// flushes are sent.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Storage {
    pub filesystem: String,
    /// "/dev/vda1", or what else is mounted; of an overlay, what its upper layer lies on.
    pub device: String,
    /// The kernel's name of the block device ("vda1"); None where there is none.
    pub kernel_device: Option<String>,
    /// Options in force, of the mount and of the filesystem, sorted.
    pub options: Vec<String>,
    pub write_cache: Option<WriteCache>,
}

impl Storage {
    /// Storage of a path in this process's own root. The path has no symlinks.
    pub fn of(real_path: &Path) -> io::Result<Storage> {
        let mounts = mountinfo::of_process(Path::new("/proc"), std::process::id()).collect::<Vec<_>>();
        Storage::covering(&mounts, real_path)
    }

    /// Storage of a path as another process sees it. Reads its root: not for a hot path.
    pub fn seen_by(pid: u32, path: &Path) -> io::Result<Storage> {
        let real = Root::of_process(Path::new("/proc"), pid)?.canonical(path);
        let mounts = mountinfo::of_process(Path::new("/proc"), pid).collect::<Vec<_>>();
        Storage::covering(&mounts, real.as_deref().unwrap_or(path))
    }

    fn covering(mounts: &[Mount], path: &Path) -> io::Result<Storage> {
        let mount = mountinfo::covering(mounts, path).ok_or(io::ErrorKind::NotFound)?;
        // An overlay has no device: what is written goes to its upper layer's, by that one's options.
        let below =
            (mount.filesystem == "overlay").then(|| mounts::upper_mount(&mounts::own(), mount)).flatten();
        let holder = below.as_ref().unwrap_or(mount);
        let kernel_device = kernel_device(holder);
        Ok(Storage {
            filesystem: mount.filesystem.clone(),
            write_cache: kernel_device.as_deref().and_then(|device| write_cache(Path::new("/sys"), device)),
            kernel_device,
            device: holder.source.to_string_lossy().into_owned(),
            options: options([mount, holder]),
        })
    }

    /// The option that takes the flushes out of the filesystem's syncs, if there is one.
    pub(crate) fn without_flushes(&self) -> Option<&str> {
        let takes_them_out = |option: &&String| matches!(option.as_str(), "nobarrier" | "barrier=0");
        self.options.iter().find(takes_them_out).map(String::as_str)
    }
}

fn options(mounts: [&Mount; 2]) -> Vec<String> {
    let all = mounts.into_iter().flat_map(|mount| &mount.options);
    let mut all: Vec<String> = all.map(|option| option.to_string_lossy().into_owned()).collect();
    all.sort();
    all.dedup();
    all
}

/// By the filesystem's own device number, or, where that stands for no device (btrfs), by what is mounted.
fn kernel_device(mount: &Mount) -> Option<String> {
    let name_of = |number: &str| {
        let link = std::fs::read_link(format!("/sys/dev/block/{number}")).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    };
    name_of(&format_device(mount.device)).or_else(|| {
        let source = Path::new(&mount.source);
        let number = std::fs::metadata(source).ok().filter(|_| source.starts_with("/dev"))?.rdev();
        name_of(&format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
    })
}

/// A partition has its disk's.
fn write_cache(sys: &Path, device: &str) -> Option<WriteCache> {
    let own = sys.join("class/block").join(device);
    let real = own.canonicalize().ok()?;
    let text = [real.join("queue/write_cache"), real.parent()?.join("queue/write_cache")]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok())?;
    match text.trim() {
        "write back" => Some(WriteCache::Volatile),
        "write through" => Some(WriteCache::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_write_cache_of_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/vda");
        for (path, text) in [("queue/write_cache", "write back\n"), ("vda1/partition", "1\n")] {
            let path = disk.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(sys.path().join("class/block")).unwrap();
        for (name, target) in [("vda", "vda"), ("vda1", "vda/vda1")] {
            let link = sys.path().join("class/block").join(name);
            std::os::unix::fs::symlink(Path::new("../../devices").join(target), link).unwrap();
        }
        assert_eq!(write_cache(sys.path(), "vda"), Some(WriteCache::Volatile));
        assert_eq!(write_cache(sys.path(), "vda1"), Some(WriteCache::Volatile));
        assert_eq!(write_cache(sys.path(), "vdb"), None);
        std::fs::write(disk.join("queue/write_cache"), "write through\n").unwrap();
        assert_eq!(write_cache(sys.path(), "vda1"), Some(WriteCache::None));
    }

    #[test]
    fn what_a_path_lies_on_is_the_same_whoever_looks() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let real = directory.path().canonicalize().unwrap();
        let storage = Storage::of(&real).unwrap();
        assert_eq!(Storage::seen_by(std::process::id(), &real).unwrap(), storage);
        assert!(storage.options.contains(&"rw".to_owned()), "{storage:?}");
        assert_eq!(storage.without_flushes(), None);
        let options = vec!["nobarrier".to_owned(), "rw".to_owned()];
        assert_eq!(Storage { options, ..storage }.without_flushes(), Some("nobarrier"));
    }
}
