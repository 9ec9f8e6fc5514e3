//! Where fsynctop.toml is looked for, and whether what is there can be trusted: fsynctop mostly runs as root.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::options::FileError;
use crate::linux::rooted::Root;

pub const SYSTEM: &str = "/etc/fsynctop/fsynctop.toml";
const OWN: &str = "fsynctop/fsynctop.toml";

/// What a person writes is a few lines.
const MAX_BYTES: u64 = 64 << 10;
/// Of /etc/passwd, in which one line is looked for.
const PASSWD_BYTES: u64 = 1 << 20;

/// Whose a file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(pub u32);

/// The user's own file; None where no home is known. A directory that belongs to somebody else, as sudo may
/// leave it in HOME, is not this user's: their home in /etc/passwd is.
pub(super) fn own(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    own_of(user, variable, &owner_of, || home_in(&passwd()?, user))
}

fn own_of(
    user: u32,
    variable: impl Fn(&str) -> Option<OsString>,
    owner_of: &dyn Fn(&Path) -> Option<u32>,
    home_by_passwd: impl Fn() -> Option<PathBuf>,
) -> Option<PathBuf> {
    let given = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let is_own = |directory: &PathBuf| owner_of(directory).is_none_or(|owner| owner == user);
    let configuration = given("XDG_CONFIG_HOME").filter(is_own);
    let home = || given("HOME").filter(is_own).or_else(home_by_passwd);
    configuration.or_else(|| Some(home()?.join(".config"))).map(|directory| directory.join(OWN))
}

/// None: nothing is there.
fn owner_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|found| found.uid())
}

fn passwd() -> Option<String> {
    let bytes = Root::at(Path::new("/")).ok()?.read(Path::new("etc/passwd"), PASSWD_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let user = user.to_string();
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let home = fields.into_iter().find(|fields| fields.get(2) == Some(&user.as_str()))?;
    home.get(5).map(PathBuf::from).filter(|home| home.is_absolute())
}

/// The text of a file that only its owner can have written; None if there is none. It is looked at before it
/// is opened.
pub(super) fn read(path: &Path, owner: Owner) -> Result<Option<String>, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let refused = |why: String| FileError::Refused { path: path.to_owned(), why };
    let root = Root::at(Path::new("/")).map_err(unreadable)?;
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let file = match root.open_file(&absolute, OFlags::empty()) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(refused(format!("it is {error}")));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let found = file.metadata().map_err(unreadable)?;
    if found.uid() != owner.0 && found.uid() != 0 {
        let wanted = if owner.0 == 0 { "root".to_owned() } else { format!("root or user {}", owner.0) };
        return Err(refused(format!("it belongs to user {} and must belong to {wanted}", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        let why = "others than its owner may write to it";
        return Err(refused(format!("{why} (mode {mode:03o}); chmod go-w takes that away")));
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(refused(format!("it is longer than {} kB", MAX_BYTES >> 10)));
    }
    String::from_utf8(text).map(Some).map_err(|_| refused("it is not in UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    const ALICE: u32 = 1000;

    /// Of root or Alice, whose home is /home/alice; root's is /root.
    fn own_with(user: u32, variables: &[(&str, &str)]) -> Option<PathBuf> {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        let owner_of = |path: &Path| match path.starts_with("/home/alice") {
            _ if path.starts_with("/none") => None,
            true => Some(ALICE),
            false => Some(0),
        };
        let passwd = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken\n";
        own_of(user, variable, &owner_of, || home_in(passwd, user))
    }

    #[test]
    fn the_users_own_file_is_where_the_desktop_has_it() {
        let home = ("HOME", "/home/alice");
        let expected = Some(PathBuf::from("/home/alice/.config/fsynctop/fsynctop.toml"));
        assert_eq!(own_with(ALICE, &[home]), expected);
        assert_eq!(own_with(ALICE, &[]), expected, "from /etc/passwd");
        assert_eq!(own_with(ALICE, &[home, ("XDG_CONFIG_HOME", "relative")]), expected);
        let elsewhere = own_with(ALICE, &[home, ("XDG_CONFIG_HOME", "/home/alice/c")]);
        assert_eq!(elsewhere, Some("/home/alice/c/fsynctop/fsynctop.toml".into()));
        assert_eq!(own_with(7, &[]), None);
    }

    #[test]
    fn what_sudo_leaves_of_another_user_is_not_roots_own() {
        let alices = [("HOME", "/home/alice"), ("XDG_CONFIG_HOME", "/home/alice/.config")];
        assert_eq!(own_with(0, &alices), Some("/root/.config/fsynctop/fsynctop.toml".into()));
        assert_eq!(own_with(0, &[("HOME", "/none")]), Some("/none/.config/fsynctop/fsynctop.toml".into()));
    }

    #[test]
    fn only_what_its_owner_alone_can_have_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsynctop.toml");
        let me = Owner(rustix::process::geteuid().as_raw());
        assert_eq!(read(&path, me).unwrap(), None);
        assert_eq!(read(&path.join("below"), me).unwrap(), None);
        fs::write(&path, "all = true\n").unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path, me).map_err(|error| error.to_string())
        };
        assert_eq!(with_mode(0o644), Ok(Some("all = true\n".to_owned())));
        for mode in [0o664, 0o646, 0o777] {
            let error = with_mode(mode).unwrap_err();
            assert!(
                error.contains("fsynctop.toml is not used: others") && error.contains("chmod go-w"),
                "{error}"
            );
        }
        with_mode(0o600).unwrap();
        let error = read(directory.path(), me).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        fs::write(&path, "#".repeat(MAX_BYTES as usize + 1)).unwrap();
        assert!(read(&path, me).unwrap_err().to_string().contains("longer than 64 kB"));
        fs::write(&path, b"a = '\xff'").unwrap();
        assert!(read(&path, me).unwrap_err().to_string().contains("UTF-8"));
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(read(&fifo, me).unwrap_err().to_string().contains("not a regular file"));
        let device = read(Path::new("/dev/zero"), Owner(0)).unwrap_err().to_string();
        assert!(device.contains("not a regular file"), "{device}");
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsynctop.toml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let me = rustix::process::geteuid().as_raw();
        let strangers = Owner(me + 1);
        if me != 0 {
            assert!(read(&path, strangers).unwrap_err().to_string().contains("belongs to user"));
        } else if std::os::unix::fs::chown(&path, Some(ALICE), None).is_ok() {
            let error = read(&path, Owner(0)).unwrap_err().to_string();
            assert!(error.contains("belongs to user 1000 and must belong to root"), "{error}");
        }
    }
}
