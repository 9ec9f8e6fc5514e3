//! What PostgreSQL tells without a connection. Its server is a process with children, which have its log
//! open; the postmaster itself listens.

use std::path::{Path, PathBuf};

use super::configuration::is_on;
use super::{settings, version};
use crate::linux::rooted::Root;
use crate::model::{Server, durability};
use crate::server::what::adapter::{Adapter, Process};
use crate::server::what::known_by::{SMALL_FILE, ToldPort};
use crate::server::what::product::{Version, VersionFinder};
use crate::server::what::settings::{Bounds, Settings};
use crate::server::who::processes;

/// Where no other port is given (DEF_PGPORT).
pub(in crate::server) const DEFAULT_PORT: u16 = 5432;

pub(in crate::server) struct Postgres;

impl Adapter for Postgres {
    fn profiles(&self) -> &'static [&'static str] {
        &["postgres"]
    }

    fn products(&self) -> &'static [&'static str] {
        &[version::PRODUCT]
    }

    fn version_finder(&self) -> Option<Box<dyn VersionFinder>> {
        Some(Box::<version::Finder>::default())
    }

    fn settings(&self, process: &Process<'_>, bounds: &Bounds<'_>) -> Settings {
        settings::of_server(process.proc_root, process.pid, bounds)
    }

    fn version_of_datadir(&self, root: &Root, datadir: &Path) -> Option<Version> {
        version::of_directory(root, datadir)
    }

    fn works_in_children(&self) -> bool {
        true
    }

    /// A segment, whose name is a timeline and a place (XLogFileName), and no file that is being made. Its
    /// directory may be a link to another filesystem.
    fn is_log_in_use(&self, path: &Path, _: &dyn Fn() -> bool) -> bool {
        let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
        name.len() == 24 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'))
    }

    fn complete(
        &self,
        process: &Process<'_>,
        server: &mut Server,
        listening: Vec<PathBuf>,
        settings: &Settings,
    ) -> ToldPort {
        let pid = processes::own_pid(process.proc_root, process.pid);
        let lock = LockFile::read(process.root, server.datadir.as_deref(), pid);
        server.socket = socket(listening, settings, &lock);
        told_port(settings, &lock, server.version.is_some())
    }

    fn log_by_writes(&self) -> Option<&'static str> {
        Some(durability::WAL_BY_WRITES)
    }

    fn notes(&self, settings: &Settings) -> Vec<String> {
        let is_off = |name: &str| settings.get(name).and_then(is_on) == Some(false);
        let fsync = "fsync=off is set: the server leaves syncs out, and a crash of the host can lose or corrupt data.";
        let pages = "full_page_writes=off is set: after a crash of the host, a page that was half written stays so and \
                     can corrupt data, unless the storage writes each page of 8 kB whole or not at all.";
        let dangers = [("fsync", fsync), ("full_page_writes", pages)];
        dangers.into_iter().filter(|(name, _)| is_off(name)).map(|(_, text)| text.to_owned()).collect()
    }
}

/// What the server writes into its data directory once it holds it (pidfile.h).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LockFile {
    port: Option<u16>,
    /// The first directory with a socket.
    sockets: Option<PathBuf>,
}

impl LockFile {
    /// Of the server whose process has that number in its own namespace; else the file is a dead server's.
    pub fn read(root: Option<&Root>, datadir: Option<&Path>, pid: u32) -> LockFile {
        let file = || root?.read(&datadir?.join("postmaster.pid"), SMALL_FILE).ok();
        file().and_then(|file| LockFile::parse(&String::from_utf8_lossy(&file), pid)).unwrap_or_default()
    }

    fn parse(text: &str, pid: u32) -> Option<LockFile> {
        let lines: Vec<&str> = text.lines().take(5).map(str::trim).collect();
        if lines.first()?.parse() != Ok(pid) {
            return None;
        }
        let line = |number: usize| lines.get(number).copied().filter(|line| !line.is_empty());
        Some(LockFile {
            port: line(3).and_then(|line| line.parse().ok()),
            sockets: line(4).filter(|line| line.starts_with('/')).map(PathBuf::from),
        })
    }
}

/// `is_database`: it is known to be one by its executable or its data directory.
fn told_port(settings: &Settings, lock: &LockFile, is_database: bool) -> ToldPort {
    let told = lock.port.or_else(|| settings.port()).filter(|&port| port != 0);
    let none = settings.text("listen_addresses").is_some_and(|list| list.trim().is_empty());
    ToldPort { clients: told.or(is_database.then_some(DEFAULT_PORT)), none }
}

/// The socket that clients use: one that it really listens on before one that it was told.
fn socket(listening: Vec<PathBuf>, settings: &Settings, lock: &LockFile) -> Option<PathBuf> {
    if let Some(real) = listening.into_iter().next() {
        return Some(settings.resolved(&real).unwrap_or(real));
    }
    let told = || {
        let first = settings.text("unix_socket_directories")?.split(',').next()?.trim();
        settings.resolved(Path::new(Some(first).filter(|first| first.starts_with('/'))?))
    };
    let directory = lock.sockets.clone().or_else(told)?;
    let port = lock.port.or_else(|| settings.port()).unwrap_or(DEFAULT_PORT);
    Some(directory.join(format!(".s.PGSQL.{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&'static str, &'static str)]) -> Settings {
        Settings::from_pairs(Path::new("/d"), pairs.iter().copied())
    }

    const LOCK: &str = "41\n/d\n1790000000\n5433\n/run/postgresql\nlocalhost\n  1234 5\nready   \n";

    #[test]
    fn a_lock_file_is_the_server_s_own_or_says_nothing() {
        let lock = LockFile::parse(LOCK, 41).unwrap();
        assert_eq!(lock, LockFile { port: Some(5433), sockets: Some("/run/postgresql".into()) });
        assert_eq!(LockFile::parse(LOCK, 42), None);
        assert_eq!(LockFile::parse("", 41), None);
        assert_eq!(LockFile::parse("41\n/d\n", 41), Some(LockFile::default()), "it has only just begun");
        assert_eq!(LockFile::parse("41\n\n\n99999999\nrelative\n", 41), Some(LockFile::default()));
    }

    #[test]
    fn the_port_is_what_the_lock_file_says_before_what_was_told() {
        let lock = LockFile::parse(LOCK, 41).unwrap();
        let none = LockFile::default();
        let port = |settings: &Settings, lock| told_port(settings, lock, true).clients;
        assert_eq!(port(&settings(&[("port", "5499")]), &lock), Some(5433));
        assert_eq!(port(&settings(&[("port", "5499")]), &none), Some(5499));
        assert_eq!(port(&settings(&[]), &none), Some(5432));
        assert_eq!(told_port(&settings(&[]), &none, false), ToldPort::default());
        assert!(told_port(&settings(&[("listen_addresses", "")]), &none, true).none);
    }

    #[test]
    fn the_socket_is_one_that_it_listens_on_before_one_that_it_was_told() {
        let lock = LockFile::parse(LOCK, 41).unwrap();
        let of = |listening: &[&str], pairs, lock| {
            socket(listening.iter().map(PathBuf::from).collect(), &settings(pairs), lock)
        };
        let none = LockFile::default();
        assert_eq!(of(&["./.s.PGSQL.1"], &[], &lock).unwrap(), Path::new("/d/.s.PGSQL.1"));
        assert_eq!(of(&[], &[], &lock).unwrap(), Path::new("/run/postgresql/.s.PGSQL.5433"));
        let told = [("unix_socket_directories", "/run/a, /run/b"), ("port", "5434")];
        assert_eq!(of(&[], &told, &none).unwrap(), Path::new("/run/a/.s.PGSQL.5434"));
        assert_eq!(of(&[], &[("unix_socket_directories", "@abstract")], &none), None);
        assert_eq!(of(&[], &[], &none), None);
    }

    #[test]
    fn only_segments_are_the_log_in_use() {
        for (path, expected) in [
            ("/d/pg_wal/000000010000000000000001", true),
            ("/d/pg_wal/0000000100000000000000AF", true),
            ("/d/pg_wal/xlogtemp.4711", false),
            ("/d/pg_wal/00000002.history", false),
            ("/wal/main/000000010000000000000001", true),
            ("/d/pg_wal/archive_status/000000010000000000000001.ready", false),
            ("/d/base/5/16384", false),
        ] {
            assert_eq!(Postgres.is_log_in_use(Path::new(path), &|| false), expected, "{path}");
        }
    }

    #[test]
    fn what_makes_a_crash_dangerous_is_noted() {
        assert!(Postgres.notes(&settings(&[("fsync", "on"), ("wal_sync_method", "open_sync")])).is_empty());
        let all = Postgres.notes(&settings(&[("fsync", "of"), ("full_page_writes", "no")]));
        assert!(
            all.len() == 2
                && all[0].starts_with("fsync=off is set")
                && all[1].starts_with("full_page_writes=off"),
            "{all:?}"
        );
    }
}
