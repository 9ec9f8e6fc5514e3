//! Whether an option file, which says where a password goes and as whom, can be changed by nobody but root
//! and us. It is asked of what was opened, since a path may lead elsewhere a moment later.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, fstat};

/// What to change, if somebody else could change the open file or directory.
pub fn check(open: impl AsFd) -> io::Result<()> {
    let stat = fstat(open)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    untrusted(stat.st_mode, stat.st_uid, stat.st_gid, user, group)
        .map_or(Ok(()), |reason| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)))
}

/// Root, and the user who runs this, with `user` and `group`, may own it; so may their groups write it.
fn untrusted(mode: u32, owner: u32, of_group: u32, user: u32, group: u32) -> Option<String> {
    let mode = Mode::from_raw_mode(mode);
    if owner != 0 && owner != user {
        return Some(format!(
            "it belongs to user {owner}, who can change it, so it is not trusted: chown it to root"
        ));
    }
    if mode.contains(Mode::WOTH) {
        return Some("everyone can write it, so it is not trusted: chmod o-w".into());
    }
    let is_owners_group = of_group == 0 || owner == user && of_group == group;
    if mode.contains(Mode::WGRP) && !is_owners_group {
        return Some(format!("group {of_group} can write it, so it is not trusted: chmod g-w"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_we_may_be_able_to_change_it() {
        let trusted = |mode, owner, of_group| untrusted(mode, owner, of_group, 1000, 100).is_none();
        assert!(trusted(0o644, 0, 0) && trusted(0o664, 0, 0) && trusted(0o640, 0, 27));
        assert!(trusted(0o600, 1000, 1000) && trusted(0o664, 1000, 100) && trusted(0o664, 1000, 0));
        assert!(!trusted(0o664, 0, 27) && !trusted(0o664, 1000, 27) && !trusted(0o664, 0, 100));
        assert!(!trusted(0o600, 27, 0) && !trusted(0o646, 0, 0) && !trusted(0o602, 1000, 100));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let error = check(std::fs::File::open("/dev/null").unwrap()).unwrap_err();
        assert!(error.to_string().contains("not a regular file"));
    }
}
