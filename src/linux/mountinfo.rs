//! /proc/PID/mountinfo as raw bytes: a mount point may hold any byte, escaped by the kernel as `\ooo`.
//! Its device numbers are the superblock's own, also on btrfs and overlayfs where `stat` differs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::linux::proc_file;

/// Of a mountinfo file, so many bytes are read: some ten thousand mounts. A process may give itself 100,000
/// (fs.mount-max), with paths as long as it likes.
const LIMIT: u64 = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub id: i32,
    /// (major << 20) | minor, as [`crate::model::FileId::device`].
    pub device: u32,
    /// Which directory of the filesystem is mounted.
    pub root: PathBuf,
    /// As seen from the root of the process whose mountinfo this is.
    pub mount_point: PathBuf,
    pub filesystem: String,
    /// "/dev/vda1", "tmpfs", "server:/export".
    pub source: OsString,
    /// Options in force, the mount's before the filesystem's: "rw", "noatime", "upperdir=/a".
    pub options: Vec<OsString>,
}

impl Mount {
    /// The value of an option: "/a" of "upperdir=/a".
    pub fn option(&self, name: &str) -> Option<&OsStr> {
        self.options.iter().find_map(|option| {
            let value = option.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value))
        })
    }
}

/// All mounts of a mountinfo file; lines that are none are skipped.
pub fn parse(contents: &[u8]) -> Vec<Mount> {
    contents.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let id = number(fields.next()?)?;
    let _parent = fields.next()?;
    let device = parse_device(std::str::from_utf8(fields.next()?).ok()?)?;
    let root = PathBuf::from(unescape(fields.next()?));
    let mount_point = PathBuf::from(unescape(fields.next()?));
    let of_mount = fields.next()?;
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    let of_filesystem = fields.next().unwrap_or_default();
    // The kernel escapes a comma inside a value.
    let options = [of_mount, of_filesystem].into_iter().flat_map(|options| options.split(|&b| b == b','));
    let options = options.filter(|option| !option.is_empty()).map(unescape).collect();
    Some(Mount { id, device, root, mount_point, filesystem, source, options })
}

fn number(field: &[u8]) -> Option<i32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// "254:1" as (major << 20) | minor.
pub(crate) fn parse_device(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.trim_end().parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// (major << 20) | minor as "254:1".
pub fn format_device(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}

fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// The mounts of a process, as far as its own root reaches them, one by one as they are read: whoever looks
/// for one need not keep the others. None if the process has gone.
pub fn of_process(proc_root: &Path, pid: u32) -> impl Iterator<Item = Mount> + use<> {
    of_thread(&proc_root.join(pid.to_string()))
}

/// The same of a thread, or of a process, by its directory in /proc. A process whose first thread has ended
/// has none of its own.
pub(crate) fn of_thread(directory: &Path) -> impl Iterator<Item = Mount> + use<> {
    let lines = proc_file::lines(&directory.join("mountinfo"), LIMIT).into_iter().flatten();
    lines.filter_map(|line| parse_line(&line))
}

/// The mount a path lies on: the one with the longest mount point, the last of those mounted over each other.
pub(crate) fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] = b"\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 27 0:42 /@data /srv/my\\040data\\134x rw shared:2 master:9 - btrfs /dev/vdb1 rw,space_cache
33 27 0:43 / /srv/\xff rw - tmpfs none rw
nonsense
34 27 0:44 / /srv/\xff ro - overlay overlay rw,lowerdir=/a,upperdir=/u\\054v - b
";

    #[test]
    fn mounts_are_read_with_escapes_raw_bytes_and_optional_fields() {
        let mounts = parse(SAMPLE);
        assert_eq!(mounts.len(), 4);
        assert_eq!((mounts[0].id, mounts[0].device), (27, 254 << 20));
        assert_eq!(mounts[1].mount_point, Path::new("/srv/my data\\x"));
        assert_eq!(mounts[1].root, Path::new("/@data"));
        assert_eq!((mounts[1].device, mounts[1].source.as_bytes()), (42, &b"/dev/vdb1"[..]));
        assert_eq!(mounts[2].mount_point.as_os_str().as_bytes(), b"/srv/\xff");
        assert_eq!(mounts[0].options, ["rw", "relatime", "rw", "discard"]);
        assert_eq!((mounts[3].filesystem.as_str(), mounts[3].options.len()), ("overlay", 4));
        assert_eq!(mounts[3].option("upperdir"), Some(OsStr::new("/u,v")));
        assert_eq!((mounts[3].option("upper"), mounts[3].option("ro")), (None, None));
    }

    #[test]
    fn the_longest_and_then_the_last_mount_covers_a_path() {
        let mounts = parse(SAMPLE);
        let covering = |bytes: &[u8]| {
            super::covering(&mounts, Path::new(std::ffi::OsStr::from_bytes(bytes))).map(|mount| mount.id)
        };
        assert_eq!(covering(b"/srv/\xff/file"), Some(34));
        assert_eq!(covering(b"/srv/\xff\xff/file"), Some(27));
        assert_eq!(covering(b"relative"), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_in_a_mountinfo_makes_a_panic_or_more_of_it(contents: Vec<u8>, line in "[0-9]{1,3} [0-9 :/a\\\\-]{0,60}") {
            let lines = |bytes: &[u8]| bytes.split(|&b| b == b'\n').count();
            proptest::prop_assert!(parse(&contents).len() <= lines(&contents));
            proptest::prop_assert!(parse(line.as_bytes()).len() <= 1);
        }

        /// Escaped as the kernel does it (fs/proc_namespace.c: mangle), any path comes back.
        #[test]
        fn every_mount_point_survives_its_escapes(path in proptest::collection::vec(1u8.., 0..60)) {
            let mut line = b"27 1 8:1 / /".to_vec();
            for &byte in &path {
                match byte {
                    b' ' | b'\t' | b'\n' | b'\\' => line.extend(format!("\\{byte:03o}").bytes()),
                    _ => line.push(byte),
                }
            }
            line.extend(b" rw - ext4 /dev/sda1 rw");
            let mounts = parse(&line);
            proptest::prop_assert_eq!(mounts[0].mount_point.as_os_str().as_bytes(), [b"/", &path[..]].concat());
        }
    }

    #[test]
    fn device_numbers_go_both_ways() {
        assert_eq!(parse_device("259:3\n"), Some(259 << 20 | 3));
        assert_eq!(format_device(259 << 20 | 3), "259:3");
        assert_eq!(parse_device("259"), None);
        assert_eq!(parse_device("4096:0"), None);
    }
}
