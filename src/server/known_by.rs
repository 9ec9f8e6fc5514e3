//! What identifies a server across restarts: its data directory, the port and the name that people use, its
//! own ids.

use std::path::Path;

use crate::linux::rooted::Root;
use crate::model::Server;
use crate::server::settings::Settings;

/// Maximum size of `auto.cnf` and `/etc/hostname`, which hold a line or two.
const SMALL_FILE: u64 = 4_096;
/// Where no other port is given; include/my_global.h and the servers' builds.
const DEFAULT_PORT: u16 = 3306;
/// A name as DNS has it.
const MAX_HOSTNAME: usize = 253;

/// Completes what a server is known by. Reads files of its root and of its data directory, so it can wait
/// where their file systems do.
pub fn read(proc_root: &Path, server: &mut Server, settings: &Settings) {
    let is_database = server.version.is_some();
    server.known_by.port = port(&server.ports, server.known_by.listens, is_database, settings);
    server.known_by.server_id = settings.number("server_id").filter(|_| is_database);
    let Ok(root) = Root::of_process(proc_root, server.id.pid) else { return };
    if let Some(datadir) = &server.datadir {
        server.known_by.datadir = root
            .look_up(datadir, rustix::fs::OFlags::DIRECTORY)
            .and_then(|directory| Ok(rustix::fs::fstat(&directory)?))
            .ok()
            .map(|stat| (stat.st_dev, stat.st_ino));
        server.known_by.uuid =
            root.read(&datadir.join("auto.cnf"), SMALL_FILE).ok().and_then(|file| uuid(&file));
    }
    if server.container.is_some() {
        server.known_by.hostname =
            root.read(Path::new("/etc/hostname"), SMALL_FILE).ok().and_then(|file| hostname(&file));
    }
}

/// The port that clients use. A server may listen on others as well, for the X protocol and for
/// administrators.
fn port(listening: &[u16], listens: bool, is_database: bool, settings: &Settings) -> Option<u16> {
    let told = settings.port().filter(|&port| port != 0).or(is_database.then_some(DEFAULT_PORT));
    match (listening, told) {
        ([], _) if listens || settings.flag("skip_networking") == Some(true) => None,
        ([], told) => told,
        (ports, Some(told)) if ports.contains(&told) => Some(told),
        (ports, _) => ports.first().copied(),
    }
}

fn uuid(auto_cnf: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(auto_cnf).ok()?;
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        matches!(name.trim(), "server-uuid" | "server_uuid").then(|| value.trim())
    })?;
    let is_uuid = value.len() == 36 && value.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_uuid.then(|| value.to_owned())
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
        let told = |pairs: &[(&'static str, &'static str)]| {
            Settings::from_pairs(Path::new("/d"), pairs.iter().copied())
        };
        let (none, other) = (told(&[]), told(&[("port", "3307")]));
        // The X protocol's and the administrators' port lie above, but need not.
        assert_eq!(port(&[3306, 33060], true, true, &none), Some(3306));
        assert_eq!(port(&[3300, 3307, 33060], true, true, &other), Some(3307));
        assert_eq!(port(&[4000, 4001], true, true, &other), Some(4000), "the option file was changed since");
        // It has only begun, or recovers.
        assert_eq!(port(&[], false, true, &other), Some(3307));
        assert_eq!(port(&[], false, true, &none), Some(3306));
        assert_eq!(port(&[], false, true, &told(&[("skip_networking", "1")])), None);
        // It listens on its socket only.
        assert_eq!(port(&[], true, true, &none), None);
        assert_eq!(port(&[], false, false, &none), None);
    }

    #[test]
    fn ids_and_names_are_taken_only_if_they_are_some() {
        let id = "6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11";
        assert_eq!(uuid(format!("[auto]\nserver-uuid={id}\n").as_bytes()).as_deref(), Some(id));
        assert_eq!(uuid(b"[auto]\nserver-uuid=\"><script>\n"), None);
        assert_eq!(uuid(b"\xff"), None);
        assert_eq!(hostname(b"mysql-0\n").as_deref(), Some("mysql-0"));
        for bad in [&b""[..], b"\n", b"a b", b"\x1b[2J", "bücher".as_bytes()] {
            assert_eq!(hostname(bad), None);
        }
    }

    #[test]
    fn a_data_directory_is_known_by_its_inode() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let id = "6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11";
        std::fs::write(directory.path().join("auto.cnf"), format!("[auto]\nserver-uuid={id}\n")).unwrap();
        let me = crate::server::processes::find(Path::new("/proc"), std::process::id()).unwrap();
        let mut server = Server::new(me.id(), me.comm);
        server.datadir = Some(directory.path().to_owned());
        read(Path::new("/proc"), &mut server, &Settings::default());
        let truth = std::fs::metadata(directory.path()).unwrap();
        assert_eq!(server.known_by.datadir, Some((truth.dev(), truth.ino())));
        assert_eq!(server.known_by.uuid.as_deref(), Some(id));
        assert_eq!(server.known_by.hostname, None, "it runs in no container");
    }
}
