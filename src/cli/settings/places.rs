//! Where fsynctop.toml is looked for, and whether what is there can be trusted: fsynctop mostly runs as root.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::options::FileError;
use crate::linux::own_file::{self, OwnFileError};
use crate::linux::passwd;
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
    own_of(user, variable, &owner_of, || {
        let root = Root::at(Path::new("/")).ok()?;
        home_in(&passwd::read(&root, PASSWD_BYTES)?, user)
    })
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

fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let entry = passwd::entries(passwd).find(|entry| entry.uid == user)?;
    Some(PathBuf::from(entry.home)).filter(|home| home.is_absolute())
}

/// The text of a file that only its owner can have written; None if there is none. It is looked at before it
/// is opened.
pub(super) fn read(path: &Path, owner: Owner) -> Result<Option<String>, FileError> {
    own_file::read(path, owner.0, MAX_BYTES).map_err(|error| match error {
        OwnFileError::Unreadable(source) => FileError::Unreadable { path: path.to_owned(), source },
        OwnFileError::Refused(why) => FileError::Refused { path: path.to_owned(), why },
    })
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
