//! What identifies a server across restarts, of whichever engine: its data directory, the port and the name
//! that people use.

use std::path::Path;

use rustix::fs::{FileType, Stat};

use crate::linux::rooted::Root;
use crate::model::Server;

/// Maximum size of `/etc/hostname` and its like, which hold a line or two.
pub(in crate::server) const SMALL_FILE: u64 = 4_096;
/// A name as DNS has it.
const MAX_HOSTNAME: usize = 253;

/// What a server's settings say of its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToldPort {
    /// That for clients: as it is set, or as the engine has it by default.
    pub clients: Option<u16>,
    /// It is to listen on no port at all.
    pub none: bool,
}

/// Completes what a server is known by. Reads files of its root and of its data directory, so it can wait
/// where their file systems do.
pub(in crate::server) fn read(root: Option<&Root>, server: &mut Server, told: ToldPort) {
    server.known_by.port = port(&server.ports, server.known_by.listens, told);
    let Some(root) = root else { return };
    if let Some(datadir) = &server.datadir {
        let directory = root
            .look_up(datadir, rustix::fs::OFlags::DIRECTORY)
            .and_then(|directory| Ok(rustix::fs::fstat(&directory)?))
            .ok();
        server.known_by.datadir = directory.map(|stat| (stat.st_dev, stat.st_ino));
        // root owns whatever it likes.
        let owns = |stat: &Stat| server.known_by.owner.is_some_and(|uid| uid == 0 || uid == stat.st_uid);
        server.known_by.proof.datadir = directory.as_ref().is_some_and(owns);
    }
    if let Some(socket) = &server.socket {
        let file = root.look_up(socket, rustix::fs::OFlags::empty());
        let stat = file.and_then(|file| Ok(rustix::fs::fstat(&file)?)).ok();
        let is_own = |stat: &Stat| {
            let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
            is_socket && server.known_by.owner.is_some_and(|uid| uid == 0 || uid == stat.st_uid)
        };
        server.known_by.proof.socket = stat.as_ref().is_some_and(is_own);
    }
    if server.container.is_some() {
        server.known_by.hostname =
            root.read(Path::new("/etc/hostname"), SMALL_FILE).ok().and_then(|file| hostname(&file));
    }
}

/// The port that clients use. A server may listen on others as well, for the X protocol and for
/// administrators.
fn port(listening: &[u16], listens: bool, told: ToldPort) -> Option<u16> {
    match (listening, told.clients) {
        ([], _) if listens || told.none => None,
        ([], clients) => clients,
        (ports, Some(clients)) if ports.contains(&clients) => Some(clients),
        (ports, _) => ports.first().copied(),
    }
}

fn hostname(file: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(file).ok()?.lines().next()?.trim();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let fits = !name.is_empty() && name.len() <= MAX_HOSTNAME && name.bytes().all(is_name);
    fits.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_the_one_that_clients_use() {
        let told = |clients| ToldPort { clients, none: false };
        let (default, other) = (told(Some(3306)), told(Some(3307)));
        // The X protocol's and the administrators' port lie above, but need not.
        assert_eq!(port(&[3306, 33060], true, default), Some(3306));
        assert_eq!(port(&[3300, 3307, 33060], true, other), Some(3307));
        assert_eq!(port(&[4000, 4001], true, other), Some(4000), "the option file was changed since");
        // It has only begun, or recovers.
        assert_eq!(port(&[], false, other), Some(3307));
        assert_eq!(port(&[], false, ToldPort { none: true, ..default }), None);
        // It listens on its socket only.
        assert_eq!(port(&[], true, default), None);
        assert_eq!(port(&[], false, told(None)), None);
    }

    #[test]
    fn a_name_is_taken_only_if_it_is_one() {
        assert_eq!(hostname(b"mysql-0\n").as_deref(), Some("mysql-0"));
        for bad in [&b""[..], b"\n", b"a b", b"\x1b[2J", "bücher".as_bytes()] {
            assert_eq!(hostname(bad), None);
        }
    }

    #[test]
    fn a_data_directory_is_known_by_its_inode() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let me = crate::server::who::processes::find(Path::new("/proc"), std::process::id()).unwrap();
        let mut server = Server::new(me.id(), me.comm);
        server.datadir = Some(directory.path().to_owned());
        read(Some(&Root::at(Path::new("/")).unwrap()), &mut server, ToldPort::default());
        let truth = std::fs::metadata(directory.path()).unwrap();
        assert_eq!(server.known_by.datadir, Some((truth.dev(), truth.ino())));
        assert_eq!(server.known_by.hostname, None, "it runs in no container");
    }
}
