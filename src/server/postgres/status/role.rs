//! The role that the method "peer" lets in: it is called like the user of the operating system, as the server
//! itself looks that up.

use std::path::Path;

use crate::linux::passwd;
use crate::linux::rooted::Root;
use crate::server::who::processes;

/// Bytes of /etc/passwd: a thousand users.
const LIMIT: u64 = 64 << 10;
/// NAMEDATALEN with its end.
const LONGEST: usize = 63;

/// Of the user whose process the server is. None: the server's root does not tell.
/// Reads a file of that root, so it may wait.
pub(super) fn of_owner(pid: u32) -> Option<String> {
    let proc_root = Path::new("/proc");
    let root = Root::of_process(proc_root, pid).ok()?;
    named(&passwd::read(&root, LIMIT)?, processes::owner(proc_root, pid)?)
}

fn named(passwd: &str, user: u32) -> Option<String> {
    let is_name = |name: &str| !name.is_empty() && name.len() <= LONGEST && !name.contains(char::is_control);
    let found = passwd::entries(passwd).find(|entry| entry.uid == user && is_name(entry.name));
    found.map(|entry| entry.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_called_as_the_server_s_own_root_says() {
        let passwd = "root:x:0:0::/:/bin/sh\n\nbroken\npostgres:x:26:26::/:/bin/sh\n\x07:x:27:27::/:\nlate:x:26:1::/:\n";
        assert_eq!(named(passwd, 26).as_deref(), Some("postgres"));
        assert_eq!(named(passwd, 27), None);
        assert_eq!(named(passwd, 28), None);
    }
}
