//! Files that say what fsynctop is to do. It mostly runs as root, so what is in them must be root's or the
//! user's own: each is looked at before it is opened, since to open what is no file can hang or do something.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{OFlags, Stat, fstat};

use super::rooted::Root;

/// Whoever may write to it may replace nobody's files there but their own.
const STICKY: u32 = 0o1000;
/// The group and all others.
const OTHERS_WRITE: u32 = 0o022;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnFileError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// Why it is not trusted, as a clause about it.
    #[error("{0}")]
    Refused(String),
}

/// The text of a regular file that only root or this user can have written, at most `limit` bytes; None if
/// there is none.
pub(crate) fn read(path: &Path, user: u32, limit: u64) -> Result<Option<String>, OwnFileError> {
    let root = Root::at(Path::new("/"))?;
    let absolute = std::path::absolute(path)?;
    let file = match root.open_file(&absolute, OFlags::empty()) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(OwnFileError::Refused(format!("it is {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?;
    refuse_strangers("it", found.uid(), found.mode(), user)?;
    if let Some(directory) = absolute.parent() {
        let stat: Stat = fstat(root.look_up(directory, OFlags::DIRECTORY)?).map_err(io::Error::from)?;
        let is_sticky = stat.st_mode & STICKY != 0;
        let mode = if is_sticky { stat.st_mode & !OTHERS_WRITE } else { stat.st_mode };
        refuse_strangers("its directory", stat.st_uid, mode, user)?;
    }
    let mut text = Vec::new();
    file.take(limit + 1).read_to_end(&mut text)?;
    if text.len() as u64 > limit {
        return Err(OwnFileError::Refused(format!("it is longer than {} kB", limit >> 10)));
    }
    let not_text = |_| OwnFileError::Refused("it is not in UTF-8".to_owned());
    String::from_utf8(text).map(Some).map_err(not_text)
}

/// `what`: the file, or its directory, in which another one can be put in its place.
fn refuse_strangers(what: &str, owner: u32, mode: u32, user: u32) -> Result<(), OwnFileError> {
    if owner != user && owner != 0 {
        let wanted = if user == 0 { "root".to_owned() } else { format!("root or user {user}") };
        let why = format!("{what} belongs to user {owner} and must belong to {wanted}");
        return Err(OwnFileError::Refused(why));
    }
    if mode & OTHERS_WRITE != 0 {
        let mode = mode & 0o7777;
        let why = format!("others than its owner may write to {what}");
        return Err(OwnFileError::Refused(format!("{why} (mode {mode:03o}); chmod go-w takes that away")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    const ALICE: u32 = 1000;
    const LIMIT: u64 = 64 << 10;

    fn error(path: &Path, user: u32) -> String {
        read(path, user, LIMIT).unwrap_err().to_string()
    }

    #[test]
    fn only_what_its_owner_alone_can_have_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsynctop.toml");
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(read(&path, me, LIMIT).unwrap(), None);
        assert_eq!(read(&path.join("below"), me, LIMIT).unwrap(), None);
        fs::write(&path, "all = true\n").unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path, me, LIMIT).map_err(|error| error.to_string())
        };
        assert_eq!(with_mode(0o644), Ok(Some("all = true\n".to_owned())));
        for mode in [0o664, 0o646, 0o777] {
            let error = with_mode(mode).unwrap_err();
            assert!(error.starts_with("others than its owner") && error.contains("chmod go-w"), "{error}");
        }
        with_mode(0o600).unwrap();
        assert!(error(directory.path(), me).contains("not a regular file"));
        fs::write(&path, "x".repeat(LIMIT as usize + 1)).unwrap();
        assert!(error(&path, me).contains("longer than 64 kB"));
        fs::write(&path, b"a = '\xff'").unwrap();
        assert!(error(&path, me).contains("UTF-8"));
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(error(&fifo, me).contains("not a regular file"), "nobody waits for who writes into it");
        assert!(error(Path::new("/dev/zero"), 0).contains("not a regular file"));
    }

    #[test]
    fn a_file_is_refused_where_others_can_put_another_one_in_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules.toml");
        let me = rustix::process::geteuid().as_raw();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let set = |mode| fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        set(0o777);
        assert!(error(&path, me).contains("may write to its directory"));
        set(0o1777);
        assert_eq!(read(&path, me, LIMIT).unwrap().as_deref(), Some(""), "as in /tmp");
        set(0o755);
        if me == 0 {
            chown(directory.path(), Some(ALICE), None).unwrap();
            assert!(error(&path, 0).contains("its directory belongs to user 1000"));
            chown(&path, Some(ALICE), None).unwrap();
            assert!(error(&path, 0).contains("it belongs to user 1000 and must belong to root"));
            assert_eq!(read(&path, ALICE, LIMIT).unwrap().as_deref(), Some(""));
        }
    }
}
