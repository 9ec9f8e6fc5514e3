//! Where the doublewrite buffer lies, if it is inside of the system tablespace: MariaDB's always is, MySQL
//! has files of its own for it since 8.0.20. The tablespace's sixth page says it
//! (storage/innobase/include/trx0sys.h), which is never encrypted.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::version::{MARIADB, MYSQL};
use crate::linux::open_files::DescriptorInfo;
use crate::linux::rooted::{self, Root};
use crate::linux::{PROC, mounts};
use crate::model::FilePart;
use crate::server::what::settings::Settings;

/// The flags of the tablespace, in its first page.
const FLAGS_AT: u64 = 54;
/// MariaDB's format since 10.5 says the size of a page elsewhere among them.
const FULL_CRC32: u32 = 1 << 4;
const PAGE: u64 = 5;
const PAGE_NUMBER_AT: u64 = 4;
/// From the end of the page; behind the head of its segment.
const FROM_END: u64 = 200 - 10;
const MAGIC: u32 = 536_853_855;
/// Each of the two blocks is one extent: so many bytes, and so many pages, at least.
const EXTENT: u64 = 1 << 20;
const EXTENT_PAGES: u64 = 64;
/// They are made with the file, at its beginning. What is said to lie behind this is not believed: no write
/// before it need be looked at.
const MAX_END: u64 = 1 << 30;

/// Whether this server, "MariaDB 10.11.14", has its doublewrite buffer in the system tablespace.
pub(crate) fn is_in_tablespace(version: &str) -> bool {
    let Some((product, number)) = version.split_once(' ') else { return false };
    let numbers = number.split(['.', '-']).map_while(|part| part.parse::<u32>().ok()).take(3);
    product == MARIADB || product == MYSQL && numbers.lt([8, 0, 20])
}

/// None: that could not be read. It may wait for the disk on which the file lies.
pub(super) fn of_server(proc_root: &Path, pid: u32, settings: &Settings) -> Option<FilePart> {
    let file = open(&Root::of_process(proc_root, pid).ok()?, &path(settings)?)?;
    let info = DescriptorInfo::read(Path::new(PROC), std::process::id(), file.as_raw_fd())?;
    let mount = mounts::mount_of(proc_root, pid, info.mount_id?)?;
    if mounts::may_never_answer(&mount.filesystem) {
        return None;
    }
    let places = places(&file)?;
    Some(FilePart { device: mount.device, inode: rooted::kernel_inode(&file).ok()?, places })
}

/// The first file of the system tablespace.
fn path(settings: &Settings) -> Option<PathBuf> {
    let listed = settings.file_list("innodb_data_file_path").into_iter().next();
    let home = || settings.path("innodb_data_home_dir").or_else(|| settings.datadir().map(Path::to_owned));
    listed.or_else(|| {
        let value = settings.get("innodb_data_file_path").map_or(&b"ibdata1"[..], |value| value.as_bytes());
        let name = value.split(|&b| b == b':' || b == b';').next()?.trim_ascii();
        (!name.is_empty()).then_some(home()?.join(Path::new(std::ffi::OsStr::from_bytes(name))))
    })
}

fn open(root: &Root, path: &Path) -> Option<File> {
    // Only the owner of a file or CAP_FOWNER may leave its access time alone.
    root.open_file(path, OFlags::NOATIME).or_else(|_| root.open_file(path, OFlags::empty())).ok()
}

fn places(file: &File) -> Option<[(u64, u64); 2]> {
    let number = |at: u64| {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let length = file.metadata().ok()?.len();
    let page_size = page_size(number(FLAGS_AT)?)?;
    let at = (PAGE + 1) * page_size - FROM_END;
    let [magic, one, other] = [number(at)?, number(at + 4)?, number(at + 8)?];
    // All of it stands there twice.
    let again = [number(at + 12)?, number(at + 16)?, number(at + 20)?];
    if magic != MAGIC
        || again != [magic, one, other]
        || u64::from(number(PAGE * page_size + PAGE_NUMBER_AT)?) != PAGE
    {
        return None;
    }
    let place = |page: u32| {
        let begin = u64::from(page) * page_size;
        (begin, begin + EXTENT.max(EXTENT_PAGES * page_size))
    };
    let [one, other] = [place(one), place(other)];
    let is_behind = |place: (u64, u64)| place.0 > PAGE * page_size && place.1 <= length.min(MAX_END);
    let are_apart = one.1 <= other.0 || other.1 <= one.0;
    (is_behind(one) && is_behind(other) && are_apart).then_some([one, other])
}

/// As fil_space_t::logical_size of MariaDB has it; MySQL has the second form only.
fn page_size(flags: u32) -> Option<u64> {
    let shift = if flags & FULL_CRC32 != 0 { flags & 0xf } else { flags >> 6 & 0xf };
    match shift {
        0 if flags & FULL_CRC32 == 0 => Some(16 << 10),
        3..=7 => Some(512 << shift),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_whether_it_is_inside() {
        for inside in ["MariaDB 10.11.14", "MariaDB 12.3.1", "MySQL 5.6.51", "MySQL 8.0.19", "MySQL 8.0.2-rc"]
        {
            assert!(is_in_tablespace(inside), "{inside}");
        }
        for outside in ["MySQL 8.0.20", "MySQL 8.0.36-28", "MySQL 9.7.4", "PostgreSQL 9.6", "MySQL"] {
            assert!(!is_in_tablespace(outside), "{outside}");
        }
    }

    #[test]
    fn the_first_file_is_the_one_that_the_server_was_told() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            path(&Settings::from_pairs(Path::new("/d"), pairs.iter().copied())).unwrap()
        };
        assert_eq!(of(&[]), Path::new("/d/ibdata1"));
        assert_eq!(of(&[("innodb_data_file_path", "sys:12M;two:1M:autoextend")]), Path::new("/d/sys"));
        assert_eq!(of(&[("innodb_data_home_dir", "/h"), ("datadir", "/d")]), Path::new("/h/ibdata1"));
        let both = [("innodb_data_home_dir", "/h"), ("innodb_data_file_path", "a/sys:12M")];
        assert_eq!(of(&both), Path::new("/h/a/sys"));
        assert_eq!(of(&[("innodb_data_file_path", "/x/sys:12M")]), Path::new("/x/sys"));
    }

    /// A system tablespace of 12 MB.
    struct Tablespace(File, u64);

    impl Tablespace {
        fn new(flags: u32, page_size: u64) -> Tablespace {
            let file = tempfile::tempfile().unwrap();
            file.set_len(12 << 20).unwrap();
            let new = Tablespace(file, page_size);
            new.put(FLAGS_AT, &[flags]);
            new.put(PAGE * page_size + PAGE_NUMBER_AT, &[PAGE as u32]);
            new
        }

        fn put(&self, at: u64, numbers: &[u32]) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            self.0.write_all_at(&bytes, at).unwrap();
        }

        fn with_blocks(self, one: u32, other: u32) -> Tablespace {
            self.put((PAGE + 1) * self.1 - 190, &[MAGIC, one, other, MAGIC, one, other]);
            self
        }

        fn places(&self) -> Option<[(u64, u64); 2]> {
            places(&self.0)
        }
    }

    #[test]
    fn two_extents_are_found_in_pages_of_each_size_and_format() {
        for (ssize, page_size, extent) in
            [(3, 4 << 10, 1 << 20), (4, 8 << 10, 1 << 20), (5, 16 << 10, 1 << 20), (6, 32 << 10, 2 << 20)]
        {
            let first = (extent / page_size) as u32;
            for flags in [FULL_CRC32 | ssize, ssize << 6] {
                let places = Tablespace::new(flags, page_size).with_blocks(first, 2 * first).places();
                assert_eq!(places, Some([(extent, 2 * extent), (2 * extent, 3 * extent)]), "{page_size}");
            }
        }
        let places = Tablespace::new(0, 16 << 10).with_blocks(128, 64).places();
        assert_eq!(places, Some([(2 << 20, 3 << 20), (1 << 20, 2 << 20)]));
        let large = Tablespace::new(FULL_CRC32 | 7, 64 << 10).with_blocks(64, 128);
        assert_eq!(large.places(), Some([(4 << 20, 8 << 20), (8 << 20, 12 << 20)]));
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let new = || Tablespace::new(FULL_CRC32 | 5, 16 << 10);
        assert!(new().with_blocks(64, 128).places().is_some());
        assert_eq!(new().places(), None, "there is none");
        for (one, other) in [(64, 64), (64, 127), (5, 128), (0, 128), (64, u32::MAX), (64, 705)] {
            assert_eq!(new().with_blocks(one, other).places(), None, "{one} {other}");
        }
        let differs = new().with_blocks(64, 128);
        differs.put(6 * (16 << 10) - 190 + 16, &[65]);
        assert_eq!(differs.places(), None, "the repetition says otherwise");
        let another = new().with_blocks(64, 128);
        another.put(PAGE * (16 << 10) + PAGE_NUMBER_AT, &[7]);
        assert_eq!(another.places(), None, "that is another page");
        let short = new().with_blocks(64, 128);
        for length in [0, 57, 6 * (16 << 10) - 1, (3 << 20) - 1] {
            short.0.set_len(length).unwrap();
            assert_eq!(short.places(), None, "{length} bytes");
        }
        for flags in [FULL_CRC32, FULL_CRC32 | 8, 1 << 6, u32::MAX] {
            assert_eq!(Tablespace::new(flags, 16 << 10).with_blocks(64, 128).places(), None, "{flags:x}");
        }
    }
}
