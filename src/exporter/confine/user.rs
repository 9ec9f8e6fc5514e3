//! The user that the exporter becomes when it was started as root.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::linux::passwd;
use crate::linux::rooted::Root;

/// "nobody" on every distribution, and the number that the kernel itself shows for users it cannot map.
const NOBODY: u32 = 65_534;

/// Never root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl Default for User {
    fn default() -> User {
        User { uid: NOBODY, gid: NOBODY }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a number of a user, or USER:GROUP, as in 65534:65534; neither can be 0")]
pub struct UserError;

impl FromStr for User {
    type Err = UserError;

    fn from_str(text: &str) -> Result<User, UserError> {
        let number = |text: &str| match text.parse::<u32>() {
            // The last number means "leave it as it is" to the kernel.
            Ok(0 | u32::MAX) | Err(_) => Err(UserError),
            Ok(number) => Ok(number),
        };
        let (uid, gid) = text.split_once(':').unwrap_or((text, text));
        Ok(User { uid: number(uid)?, gid: number(gid)? })
    }
}

/// What a package makes, or whoever installs fsynctop without one.
const OWN_NAME: &str = "fsynctop";
/// Bytes of /etc/passwd in which it is looked for.
const PASSWD_BYTES: u64 = 1 << 20;

impl User {
    /// The user called fsynctop, if this host has one: nobody else is that one.
    pub fn own() -> Option<User> {
        User::named(OWN_NAME, &passwd::read(&Root::at(Path::new("/")).ok()?, PASSWD_BYTES)?)
    }

    fn named(name: &str, passwd: &str) -> Option<User> {
        let entry = passwd::entries(passwd).find(|entry| entry.name == name)?;
        format!("{}:{}", entry.uid, entry.gid).parse().ok()
    }

    /// Makes the calling thread this user's, if it is root's; threads that it starts from now on are, too.
    /// Its capabilities stay permitted and are no longer in effect.
    pub fn replace_root(self) -> rustix::io::Result<()> {
        if !geteuid().is_root() {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_keep_capabilities(true)?;
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_given_by_number_and_is_never_root() {
        assert_eq!("998".parse(), Ok(User { uid: 998, gid: 998 }));
        assert_eq!("998:997".parse(), Ok(User { uid: 998, gid: 997 }));
        for bad in ["0", "0:5", "5:0", "", "nobody", "5:", ":5", "-1", "4294967295", "4294967296", "1:2:3"] {
            assert_eq!(bad.parse::<User>(), Err(UserError), "{bad}");
        }
        assert_eq!(User::default().to_string(), "65534:65534");
    }

    #[test]
    fn a_user_of_its_own_is_found_by_its_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\nfsynctop:x:997:996::/:/sbin/nologin\nbad\nzero:x:0:0::/:\n";
        assert_eq!(User::named("fsynctop", passwd), Some(User { uid: 997, gid: 996 }));
        assert_eq!(
            [User::named("fsync", passwd), User::named("bad", passwd), User::named("zero", passwd)],
            [None; 3]
        );
    }
}
