//! Counts the commits of a filesystem's journal: ext4's jbd2 and XFS's log report them.

use std::path::{Path, PathBuf};

/// The file that reports a filesystem's count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Journal {
    /// /proc/fs/jbd2/DEVICE-8/info.
    Jbd2(PathBuf),
    /// /sys/fs/xfs/DEVICE/stats/stats.
    Xfs(PathBuf),
}

impl Journal {
    /// The journal of the filesystem on a block device, given by its kernel name ("vda1").
    pub fn of(device: &str) -> Option<Journal> {
        Journal::below(Path::new("/"), device)
    }

    fn below(root: &Path, device: &str) -> Option<Journal> {
        let xfs = root.join(format!("sys/fs/xfs/{device}/stats/stats"));
        if xfs.exists() {
            return Some(Journal::Xfs(xfs));
        }
        // The number after the device is the inode of an internal journal.
        let is_its = |name: &str| {
            name == device || name.strip_prefix(device).is_some_and(|rest| rest.starts_with('-'))
        };
        let entries = std::fs::read_dir(root.join("proc/fs/jbd2")).ok()?.flatten();
        let mut journals = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_its));
        Some(Journal::Jbd2(journals.next()?.path().join("info")))
    }

    /// Commits so far.
    pub fn commits(&self) -> Option<u64> {
        match self {
            // "18832 transactions (18827 requested), each up to 1365 blocks"
            Journal::Jbd2(path) => {
                std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
            }
            // "log WRITES BLOCKS NOICLOGS FORCES SLEEPS": a log write is XFS's commit to disk.
            Journal::Xfs(path) => {
                let text = std::fs::read_to_string(path).ok()?;
                text.lines().find_map(|line| line.strip_prefix("log "))?.split(' ').next()?.parse().ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_journals_are_found_by_the_device_and_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/fs/jbd2/vda1-8/info", "18832 transactions (18827 requested), each up to 1365 blocks\n");
        write("proc/fs/jbd2/vda-8/info", "7 transactions (0 requested)\n");
        write("sys/fs/xfs/dm-3/stats/stats", "extent_alloc 1 2 3 4\nlog 99 200 0 5 6\n");
        let commits = |device| Journal::below(root.path(), device).and_then(|journal| journal.commits());
        assert_eq!((commits("vda1"), commits("vda"), commits("dm-3")), (Some(18832), Some(7), Some(99)));
        assert_eq!(commits("vdb"), None);
    }
}
