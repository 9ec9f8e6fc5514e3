//! What a file lies on, from its filesystem down to the disks, and whether a sync of it can make anything
//! durable: each layer is read, and what cannot be read makes the answer unknown. docs/storage.md lists what
//! is looked at. It looks up paths: on a thread that may hang.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::linux::PROC;
use crate::linux::mountinfo::{self, Mount, format_device};
use crate::linux::{mounts, proc_file};
use crate::model::Durability;

/// Filesystems and devices that are looked at; an array of many disks has one of each.
const MAX_LAYERS: usize = 64;
/// An overlay or a loop device may lie on another one; the kernel allows loop devices to be stacked deeply.
const MAX_DEPTH: usize = 12;
/// Members of an array or of a filesystem of several devices.
const MAX_MEMBERS: usize = 32;
/// Filesystems that keep files in the page cache and nowhere else.
const IN_MEMORY: [&str; 5] = ["tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs"];
/// Block devices that are memory of this host (drivers/block: brd, zram, null_blk).
const MEMORY_DEVICES: [&str; 3] = ["ram", "zram", "nullb"];
/// Block devices whose writes go to another host or to a program, which do what they like with a flush.
const REMOTE_DEVICES: [&str; 4] = ["nbd", "rbd", "ublkb", "drbd"];

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

/// Where what is not in sysfs is looked up; the tests have another place.
pub(super) struct Host<'a> {
    pub sys: &'a Path,
    /// The mount that a path lies on which an overlay was mounted with or a loop device attached to.
    pub mount_of: &'a dyn Fn(Asked<'_>) -> Option<Mount>,
}

pub(super) enum Asked<'a> {
    /// The upper directory of this overlay.
    Upper(&'a Mount, &'a Path),
    /// The file of a loop device.
    Backing(&'a Path),
}

/// The layers from the top, and the answer.
pub(super) fn below(mount: &Mount, host: &Host<'_>) -> (Vec<String>, Durability) {
    let mut walk = Walk { host, layers: Vec::new() };
    let durability = walk.filesystem(mount, 0);
    (walk.layers, durability)
}

/// The same on this host.
pub(super) fn of_mount(mount: &Mount) -> (Vec<String>, Durability) {
    below(mount, &Host { sys: Path::new("/sys"), mount_of: &find })
}

/// The option that takes the flushes out of a filesystem's syncs, if there is one.
pub(super) fn without_flushes<'a>(mut options: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    options
        .find(|option| matches!(*option, "nobarrier" | "barrier=0" | "barrier=none" | "fsync_mode=nobarrier"))
}

/// A device, and whether what lies on it has to send flushes.
struct Device {
    durability: Durability,
    /// None: not known.
    cache: Option<WriteCache>,
}

struct Walk<'a> {
    host: &'a Host<'a>,
    layers: Vec<String>,
}

impl Walk<'_> {
    /// False: there are too many.
    fn enter(&mut self, layer: &str, depth: usize) -> bool {
        let fits = depth < MAX_DEPTH && self.layers.len() < MAX_LAYERS;
        if fits {
            self.layers.push(layer.to_owned());
        }
        fits
    }

    fn filesystem(&mut self, mount: &Mount, depth: usize) -> Durability {
        let name = mount.filesystem.as_str();
        if !self.enter(name, depth) {
            return too_deep();
        }
        if IN_MEMORY.contains(&name) {
            return Durability::No(format!("{name} keeps files in memory only"));
        }
        if name == "overlay" {
            return self.overlay(mount, depth);
        }
        let devices = devices_of(self.host.sys, mount);
        if name.starts_with("fuse") || devices.is_empty() {
            let why =
                format!("no block device was found under {name}, so what a sync does there is not known");
            return Durability::Unknown(why);
        }
        let Device { durability, cache } = self.devices(&devices, depth + 1);
        let options: Vec<_> = mount.options.iter().map(|option| option.to_string_lossy()).collect();
        match (without_flushes(options.iter().map(AsRef::as_ref)), cache) {
            // No device below has a cache that would have to be flushed.
            (None, _) | (Some(_), Some(WriteCache::None)) => durability,
            (Some(option), Some(WriteCache::Volatile)) => {
                let on = self.layers.last().map_or("", String::as_str);
                Durability::No(format!(
                    "{name} is mounted with {option}, so a sync does not flush the cache of {on}"
                ))
                .and(durability)
            }
            (Some(option), None) => {
                let why = format!(
                    "{name} is mounted with {option}, and whether a cache below needs flushes is not known"
                );
                Durability::Unknown(why).and(durability)
            }
        }
    }

    /// An overlay has no device: what is written goes to its upper layer.
    fn overlay(&mut self, mount: &Mount, depth: usize) -> Durability {
        if let Some(option) =
            mount.options.iter().find(|&option| option == "volatile" || option == "fsync=volatile")
        {
            return Durability::No(format!(
                "the overlay is mounted with {}, so its syncs do nothing",
                option.display()
            ));
        }
        let Some(upper) = mount.option("upperdir") else {
            return Durability::Unknown("the overlay has no upper layer to write to".into());
        };
        match (self.host.mount_of)(Asked::Upper(mount, Path::new(upper))) {
            Some(below) => self.filesystem(&below, depth + 1),
            None => Durability::Unknown("what the overlay's upper layer lies on was not found".into()),
        }
    }

    fn devices(&mut self, devices: &[String], depth: usize) -> Device {
        let mut sum = Device { durability: Durability::Yes, cache: Some(WriteCache::None) };
        for device in devices {
            let one = self.device(device, depth);
            sum.durability = sum.durability.and(one.durability);
            sum.cache = match (sum.cache, one.cache) {
                (Some(WriteCache::Volatile), _) | (_, Some(WriteCache::Volatile)) => {
                    Some(WriteCache::Volatile)
                }
                (Some(WriteCache::None), Some(WriteCache::None)) => Some(WriteCache::None),
                _ => None,
            };
        }
        sum
    }

    fn device(&mut self, name: &str, depth: usize) -> Device {
        let unknown = |why: String| Device { durability: Durability::Unknown(why), cache: None };
        if !self.enter(name, depth) {
            return Device { durability: too_deep(), cache: None };
        }
        if is_one_of(name, &MEMORY_DEVICES) {
            let durability = Durability::No(format!("{name} is in memory"));
            return Device { durability, cache: Some(WriteCache::None) };
        }
        if is_one_of(name, &REMOTE_DEVICES) {
            return unknown(format!("what {name} makes durable is up to a program or another host"));
        }
        let Some(place) = disk_of(self.host.sys, name) else {
            return unknown(format!("{name} is not in sysfs"));
        };
        let own = write_cache(&place);
        let below = match place.join("loop/backing_file") {
            backing if backing.exists() => self.backing(name, &backing, depth),
            _ => match members(&place) {
                members if members.is_empty() => return leaf(name, &place, own),
                members => self.devices(&members, depth + 1),
            },
        };
        let durability = match (own, below.cache) {
            (Some(WriteCache::None), Some(WriteCache::Volatile)) => Durability::No(format!(
                "{name} passes no flushes on (queue/write_cache is \"write through\")"
            )),
            (Some(WriteCache::Volatile), _) | (_, Some(WriteCache::None)) => Durability::Yes,
            _ => Durability::Unknown(format!("whether {name} passes flushes on is not known")),
        };
        Device { durability: below.durability.and(durability), cache: below.cache }
    }

    /// A loop device writes to its file's pages: nothing of it is durable without a sync of that file.
    fn backing(&mut self, name: &str, backing: &Path, depth: usize) -> Device {
        let file = proc_file::read(backing).ok();
        let file = file.as_deref().map(|path| path.strip_suffix(b"\n").unwrap_or(path));
        let file =
            file.map(|path| Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path)));
        let durability = match file.and_then(|file| (self.host.mount_of)(Asked::Backing(file))) {
            Some(mount) => self.filesystem(&mount, depth + 1),
            None => Durability::Unknown(format!("what the file of {name} lies on was not found")),
        };
        Device { durability, cache: Some(WriteCache::Volatile) }
    }
}

fn too_deep() -> Durability {
    Durability::Unknown("it lies on more layers than are looked at".into())
}

/// "ram0", and not "rampart".
fn is_one_of(name: &str, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| {
        name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// A disk: nothing is known of what is below.
fn leaf(name: &str, place: &Path, own: Option<WriteCache>) -> Device {
    let durability = match own {
        None => Durability::Unknown(format!("whether {name} has a volatile write cache is not known")),
        Some(WriteCache::None) if has_unflushed_cache(place) => Durability::No(format!(
            "{name} has a volatile write cache, and its flushes are switched off (queue/write_cache)"
        )),
        Some(_) => Durability::Yes,
    };
    Device { durability, cache: own }
}

/// Whether a device that the kernel sends no flushes says itself that it has a volatile cache: virtio's
/// `cache_type` (drivers/block/virtio_blk.c), and that of SCSI disks (drivers/scsi/sd.c). Others do not tell.
fn has_unflushed_cache(place: &Path) -> bool {
    let of_scsi = std::fs::read_dir(place.join("device/scsi_disk")).into_iter().flatten().flatten();
    let files = of_scsi.take(MAX_MEMBERS).map(|entry| entry.path().join("cache_type"));
    let says_so = |file: PathBuf| proc_file::read(&file).is_ok_and(|text| text.trim_ascii() == b"write back");
    std::iter::once(place.join("cache_type")).chain(files).any(says_so)
}

/// The directory of a whole disk in sysfs; that of a partition's disk.
fn disk_of(sys: &Path, name: &str) -> Option<PathBuf> {
    let place = sys.join("class/block").join(name).canonicalize().ok()?;
    if place.join("partition").exists() { place.parent().map(Path::to_owned) } else { Some(place) }
}

/// What a volume or an array is made of.
fn members(place: &Path) -> Vec<String> {
    names(&place.join("slaves"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_MEMBERS);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn write_cache(place: &Path) -> Option<WriteCache> {
    match proc_file::read(&place.join("queue/write_cache")).ok()?.trim_ascii() {
        b"write back" => Some(WriteCache::Volatile),
        b"write through" => Some(WriteCache::None),
        _ => None,
    }
}

/// As the kernel sees the cache of a device; a partition has its disk's.
pub(super) fn write_cache_of(sys: &Path, device: &str) -> Option<WriteCache> {
    write_cache(&disk_of(sys, device)?)
}

/// The devices of a filesystem: btrfs may have several, XFS a second one for its log.
fn devices_of(sys: &Path, mount: &Mount) -> Vec<String> {
    let Some(first) = kernel_device(sys, mount) else { return Vec::new() };
    let mut devices = vec![first];
    match mount.filesystem.as_str() {
        "btrfs" => {
            let filesystems = names(&sys.join("fs/btrfs"));
            let members = |id: &String| names(&sys.join("fs/btrfs").join(id).join("devices"));
            let all = filesystems.iter().map(members).find(|members| members.contains(&devices[0]));
            devices = all.unwrap_or(devices);
        }
        "xfs" => devices.extend(mount.option("logdev").and_then(|log| device_at(sys, Path::new(log)))),
        _ => {}
    }
    devices
}

/// By the filesystem's own device number, or, where that stands for no device (btrfs), by what is mounted.
pub(super) fn kernel_device(sys: &Path, mount: &Mount) -> Option<String> {
    device_name(sys, &format_device(mount.device)).or_else(|| device_at(sys, Path::new(&mount.source)))
}

fn device_at(sys: &Path, node: &Path) -> Option<String> {
    let number = std::fs::metadata(node).ok().filter(|_| node.starts_with("/dev"))?.rdev();
    device_name(sys, &format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

fn device_name(sys: &Path, number: &str) -> Option<String> {
    let link = std::fs::read_link(sys.join("dev/block").join(number)).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// An overlay's options name paths of whoever mounted it, as a rule on the host: they are looked up where
/// the overlay itself is seen to be mounted, in our own mounts or in those of the first process.
fn find(asked: Asked<'_>) -> Option<Mount> {
    let proc = Path::new(PROC);
    let own = std::process::id();
    match asked {
        Asked::Upper(overlay, path) => {
            let knows =
                |&pid: &u32| mountinfo::of_process(proc, pid).any(|mount| mount.device == overlay.device);
            let pid = [own, 1].into_iter().find(knows)?;
            mounts::mount_of_path(proc, pid, path.is_absolute().then_some(path)?)
        }
        // The kernel shows it from our own root.
        Asked::Backing(path) => {
            let deleted = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(Path::new);
            let path = match deleted {
                Some(gone) => gone.parent()?,
                None => path,
            };
            mounts::mount_of_path(proc, own, path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sysfs of these disks, each with its files.
    struct Sys(tempfile::TempDir);

    impl Sys {
        fn new() -> Sys {
            Sys(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn device(&self, place: &str, number: &str, files: &[(&str, &str)]) -> &Sys {
            let own = self.path().join("devices").join(place);
            let name = own.file_name().unwrap();
            for (file, text) in files {
                let file = own.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            for (directory, link) in [("class/block", name.to_str().unwrap()), ("dev/block", number)] {
                std::fs::create_dir_all(self.path().join(directory)).unwrap();
                std::os::unix::fs::symlink(&own, self.path().join(directory).join(link)).unwrap();
            }
            self
        }
    }

    const VOLATILE: (&str, &str) = ("queue/write_cache", "write back\n");
    const NO_CACHE: (&str, &str) = ("queue/write_cache", "write through\n");

    fn mount(line: &str) -> Mount {
        mountinfo::parse(format!("27 1 {line}\n").as_bytes()).remove(0)
    }

    fn look(sys: &Sys, top: &str, next: Option<&str>) -> (String, Durability) {
        let next = next.map(mount);
        let host = Host { sys: sys.path(), mount_of: &|_| next.clone() };
        let (layers, durability) = below(&mount(top), &host);
        (layers.join(" "), durability)
    }

    fn answers(sys: &Sys, top: &str, next: Option<&str>) -> (String, &'static str) {
        let (layers, durability) = look(sys, top, next);
        (layers, durability.name())
    }

    const ON_VDA: &str = "254:0 / / rw - ext4 /dev/vda rw";

    #[test]
    fn a_disk_is_durable_where_flushes_reach_it_or_none_are_needed() {
        let sys = Sys::new();
        sys.device("vda", "254:0", &[VOLATILE]).device("vda/vda1", "254:1", &[("partition", "1")]);
        sys.device("vdb", "254:16", &[NO_CACHE]).device("vdc", "254:32", &[]);
        assert_eq!(answers(&sys, ON_VDA, None), ("ext4 vda".into(), "yes"));
        assert_eq!(answers(&sys, "254:1 / / rw - xfs /dev/vda1 rw", None), ("xfs vda1".into(), "yes"));
        for option in ["nobarrier", "barrier=0", "fsync_mode=nobarrier"] {
            let without = |number| format!("{number} / / rw - ext4 x rw,{option}");
            let (_, durability) = look(&sys, &without("254:1"), None);
            assert_eq!(durability.name(), "no");
            assert!(durability.because().unwrap().contains(option), "{durability:?}");
            assert_eq!(answers(&sys, &without("254:16"), None).1, "yes", "it needs no flushes");
            assert_eq!(answers(&sys, &without("254:32"), None).1, "unknown");
        }
        assert_eq!(answers(&sys, "254:32 / / rw - ext4 x rw", None).1, "unknown", "its cache is not known");
    }

    #[test]
    fn a_device_whose_flushes_are_switched_off_is_not_durable() {
        let sys = Sys::new();
        sys.device("vda", "254:0", &[NO_CACHE, ("cache_type", "write back\n")]);
        sys.device("vdb", "254:16", &[NO_CACHE, ("cache_type", "write through\n")]);
        sys.device("sda", "8:0", &[NO_CACHE, ("device/scsi_disk/0:0:0:0/cache_type", "write back\n")]);
        sys.device("dm-0", "253:0", &[NO_CACHE, ("slaves/sdb", "")]).device("sdb", "8:16", &[VOLATILE]);
        let of = |number| answers(&sys, &format!("{number} / / rw - ext4 x rw"), None);
        assert_eq!((of("254:0").1, of("254:16").1, of("8:0").1), ("no", "yes", "no"));
        assert_eq!(of("253:0"), ("ext4 dm-0 sdb".into(), "no"), "they end in the volume");
    }

    #[test]
    fn of_an_array_the_worst_member_counts() {
        let sys = Sys::new();
        sys.device("md0", "9:0", &[VOLATILE, ("slaves/sda", ""), ("slaves/sdb", "")]);
        sys.device("sda", "8:0", &[VOLATILE]).device("sdb", "8:16", &[NO_CACHE]);
        let on_md = "9:0 / / rw - ext4 x rw";
        assert_eq!(answers(&sys, on_md, None), ("ext4 md0 sda sdb".into(), "yes"));
        std::fs::write(sys.path().join("devices/sdb/cache_type"), "write back\n").unwrap();
        assert_eq!(answers(&sys, on_md, None).1, "no");
        let of_two = "fs/btrfs/an-id/devices";
        for device in ["sda", "sdb"] {
            std::fs::create_dir_all(sys.path().join(of_two).join(device)).unwrap();
        }
        let btrfs = "8:0 / / rw - btrfs /dev/sda rw";
        assert_eq!(answers(&sys, btrfs, None), ("btrfs sda sdb".into(), "no"));
    }

    #[test]
    fn memory_is_not_durable_wherever_it_is_in_the_stack() {
        let sys = Sys::new();
        sys.device("vda", "254:0", &[VOLATILE]).device("zram0", "252:0", &[NO_CACHE]);
        sys.device("loop0", "7:0", &[VOLATILE, ("loop/backing_file", "/img\n")]);
        let tmpfs = "0:40 / /t rw - tmpfs none rw";
        let overlay = "0:41 / /m rw - overlay o rw,lowerdir=/l,upperdir=/u,workdir=/w";
        let on_loop = "7:0 / / rw - ext4 /dev/loop0 rw";
        assert_eq!(answers(&sys, tmpfs, None), ("tmpfs".into(), "no"));
        assert_eq!(answers(&sys, overlay, Some(tmpfs)), ("overlay tmpfs".into(), "no"));
        assert_eq!(answers(&sys, overlay, Some(ON_VDA)), ("overlay ext4 vda".into(), "yes"));
        assert_eq!(answers(&sys, on_loop, Some(tmpfs)), ("ext4 loop0 tmpfs".into(), "no"));
        assert_eq!(answers(&sys, on_loop, Some(ON_VDA)), ("ext4 loop0 ext4 vda".into(), "yes"));
        assert_eq!(answers(&sys, "252:0 / / rw - ext4 x rw", None), ("ext4 zram0".into(), "no"));
        let without = "254:0 / / rw - ext4 /dev/vda rw,nobarrier";
        assert_eq!(answers(&sys, on_loop, Some(without)).1, "no");
        assert_eq!(answers(&sys, overlay, Some(without)).1, "no");
        // A loop device's pages are a cache, whatever disk they go to.
        assert_eq!(answers(&sys, "7:0 / / rw - ext4 x rw,nobarrier", Some(ON_VDA)).1, "no");
        for option in ["volatile", "fsync=volatile"] {
            let (_, durability) = look(&sys, &format!("{overlay},{option}"), Some(ON_VDA));
            assert!(matches!(&durability, Durability::No(why) if why.contains(option)), "{durability:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let sys = Sys::new();
        sys.device("loop0", "7:0", &[VOLATILE, ("loop/backing_file", "/img\n")]);
        sys.device("nbd0", "43:0", &[VOLATILE]);
        let overlay = "0:41 / /m rw - overlay o rw,lowerdir=/l,upperdir=/u,workdir=/w";
        for (top, next) in [
            ("0:50 / / rw - nfs4 server:/export rw", None),
            ("0:50 / / rw - fuse.sshfs host: rw", None),
            ("43:0 / / rw - ext4 /dev/nbd0 rw", None),
            ("254:9 / / rw - ext4 /dev/none rw", None),
            (overlay, None),
            ("0:41 / /m rw - overlay o rw,lowerdir=/l", Some("0:40 / /t rw - tmpfs none rw")),
            // Stacks without an end.
            (overlay, Some(overlay)),
            ("7:0 / / rw - ext4 /dev/loop0 rw", Some("7:0 / / rw - ext4 /dev/loop0 rw")),
        ] {
            let (layers, durability) = look(&sys, top, next);
            assert!(matches!(durability, Durability::Unknown(_)), "{top}: {layers}, {durability:?}");
            assert!(layers.split(' ').count() <= MAX_LAYERS);
        }
    }

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
        assert_eq!(write_cache_of(sys.path(), "vda"), Some(WriteCache::Volatile));
        assert_eq!(write_cache_of(sys.path(), "vda1"), Some(WriteCache::Volatile));
        assert_eq!(write_cache_of(sys.path(), "vdb"), None);
        std::fs::write(disk.join("queue/write_cache"), "write through\n").unwrap();
        assert_eq!(write_cache_of(sys.path(), "vda1"), Some(WriteCache::None));
    }
}
