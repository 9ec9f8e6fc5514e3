//! What a path lies on, as far as durability goes: its filesystem with the options in force, its device, and
//! whether that device has a cache that a power cut empties.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::linux::PROC;
use crate::linux::mountinfo::{self, Mount};
use crate::linux::rooted::Root;
use crate::linux::{mounts, open_files, stack};
use crate::model::{Durability, StorageStack};

pub use super::stack::WriteCache;

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
    /// Where it is mounted, as whoever was asked about sees it.
    pub mount: PathBuf,
    /// Filesystems and devices, from the top.
    pub layers: Vec<String>,
    pub durability: Durability,
}

impl Storage {
    /// Storage of a path in this process's own root. The path has no symlinks.
    pub fn of(real_path: &Path) -> io::Result<Storage> {
        Storage::seen_by(std::process::id(), real_path)
    }

    /// Storage of a path as another process sees it. Reads its root: not for a hot path.
    pub fn seen_by(pid: u32, path: &Path) -> io::Result<Storage> {
        let proc = Path::new(PROC);
        let directory_of = |id: u32| Root::of_process(proc, id).map(|root| (id, root));
        // A process whose first thread has ended has its root by another.
        let of_another = || open_files::tables(proc, pid).into_iter().find_map(|tid| directory_of(tid).ok());
        let (id, root) = directory_of(pid).or_else(|error| of_another().ok_or(error))?;
        let mount = mounts::mount_of_path(proc, id, path).or_else(|| {
            let real = root.canonical(path);
            let mounts = mountinfo::of_process(proc, id).collect::<Vec<_>>();
            mountinfo::covering(&mounts, real.as_deref().unwrap_or(path)).cloned()
        });
        Ok(Storage::of_mount(&mount.ok_or(io::ErrorKind::NotFound)?))
    }

    pub(crate) fn of_mount(mount: &Mount) -> Storage {
        // An overlay has no device: what is written goes to its upper layer's, by that one's options.
        let below =
            (mount.filesystem == "overlay").then(|| mounts::upper_mount(&mounts::own(), mount)).flatten();
        let holder = below.as_ref().unwrap_or(mount);
        let sys = Path::new("/sys");
        let kernel_device = stack::kernel_device(sys, holder);
        let (layers, durability) = stack::of_mount(mount);
        Storage {
            filesystem: mount.filesystem.clone(),
            write_cache: kernel_device.as_deref().and_then(|device| stack::write_cache_of(sys, device)),
            kernel_device,
            device: holder.source.to_string_lossy().into_owned(),
            options: options([mount, holder]),
            mount: mount.mount_point.clone(),
            layers,
            durability,
        }
    }

    /// Of what could not be looked at.
    pub(crate) fn unseen() -> Storage {
        Storage {
            filesystem: "a filesystem".into(),
            device: "a device that was not seen".into(),
            kernel_device: None,
            options: Vec::new(),
            write_cache: None,
            mount: PathBuf::new(),
            layers: Vec::new(),
            durability: Durability::Unknown("what the files lie on could not be looked at".into()),
        }
    }

    /// What is told of a server's storage.
    pub(crate) fn stack(self, is_for_data: bool) -> StorageStack {
        StorageStack { mount: self.mount, layers: self.layers, durability: self.durability, is_for_data }
    }

    /// The option that takes the flushes out of the filesystem's syncs, if there is one.
    pub(crate) fn without_flushes(&self) -> Option<&str> {
        stack::without_flushes(self.options.iter().map(String::as_str))
    }
}

fn options(mounts: [&Mount; 2]) -> Vec<String> {
    let all = mounts.into_iter().flat_map(|mount| &mount.options);
    let mut all: Vec<String> = all.map(|option| option.to_string_lossy().into_owned()).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
impl Storage {
    /// An ext4 on /dev/vda.
    pub(crate) fn example(
        options: &[&str],
        write_cache: Option<WriteCache>,
        durability: Durability,
    ) -> Storage {
        Storage {
            filesystem: "ext4".into(),
            device: "/dev/vda".into(),
            kernel_device: Some("vda".into()),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            write_cache,
            mount: "/".into(),
            layers: vec!["ext4".into(), "vda".into()],
            durability,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
