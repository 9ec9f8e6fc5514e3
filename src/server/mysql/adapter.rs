//! What MySQL and MariaDB tell without a connection.

use std::path::{Path, PathBuf};

use super::{doublewrite, settings, version};
use crate::linux::rooted::Root;
use crate::model::{Engine, FilePart, Role, Server, durability};
use crate::server::what::adapter::{Adapter, Process};
use crate::server::what::known_by::{SMALL_FILE, ToldPort};
use crate::server::what::product::VersionFinder;
use crate::server::what::settings::{Bounds, Settings};

/// Where no other port is given; include/my_global.h and the servers' builds.
pub(in crate::server) const DEFAULT_PORT: u16 = 3306;

pub(in crate::server) struct MySql;

impl Adapter for MySql {
    fn profiles(&self) -> &'static [&'static str] {
        &["mysql", "mariadb"]
    }

    fn products(&self) -> &'static [&'static str] {
        &[version::MYSQL, version::MARIADB]
    }

    fn version_finder(&self) -> Option<Box<dyn VersionFinder>> {
        Some(Box::<version::Finder>::default())
    }

    /// Also of a profile of the user's own that goes by InnoDB's rules.
    fn counts_for(&self, engine: &Engine) -> bool {
        engine.has(Role::Redo)
    }

    fn settings(&self, process: &Process<'_>, bounds: &Bounds<'_>) -> Settings {
        settings::of_server(process.proc_root, process.pid, process.version, bounds)
    }

    fn is_log_in_use(&self, path: &Path, is_redo: &dyn Fn() -> bool) -> bool {
        is_redo() && !is_being_made(path)
    }

    fn complete(
        &self,
        process: &Process<'_>,
        server: &mut Server,
        listening: Vec<PathBuf>,
        settings: &Settings,
    ) -> ToldPort {
        server.socket = socket(listening, settings);
        identify(process.root, server, settings);
        told_port(settings, server.version.is_some())
    }

    fn may_have_part_of_file(&self, server: &Server) -> bool {
        server.version.as_deref().is_some_and(doublewrite::is_in_tablespace)
    }

    fn part_of_file(&self, proc_root: &Path, server: &Server, settings: &Settings) -> Option<FilePart> {
        doublewrite::of_server(proc_root, server.id.pid, settings)
    }

    fn log_by_writes(&self) -> Option<&'static str> {
        Some(durability::REDO_BY_WRITES)
    }

    fn notes(&self, settings: &Settings) -> Vec<String> {
        let nosync =
            settings.text("innodb_flush_method").is_some_and(|method| method.eq_ignore_ascii_case("nosync"));
        if !nosync && settings.flag("debug_no_sync") != Some(true) {
            return Vec::new();
        }
        let setting = if nosync { "innodb_flush_method=nosync" } else { "debug_no_sync" };
        vec![format!("{setting} is set: the server leaves syncs out, and a crash can lose data.")]
    }
}

/// `is_database`: it is known to be one by its executable.
fn told_port(settings: &Settings, is_database: bool) -> ToldPort {
    let told = settings.port().filter(|&port| port != 0).or(is_database.then_some(DEFAULT_PORT));
    ToldPort { clients: told, none: settings.flag("skip_networking") == Some(true) }
}

/// The ids that it gives itself.
fn identify(root: Option<&Root>, server: &mut Server, settings: &Settings) {
    server.known_by.server_id = settings.number("server_id").filter(|_| server.version.is_some());
    let file = || root?.read(&server.datadir.as_ref()?.join("auto.cnf"), SMALL_FILE).ok();
    server.known_by.uuid = file().and_then(|file| uuid(&file));
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

/// MySQL makes its next redo files as `#ib_redoN_tmp`, through descriptors that are never durable.
fn is_being_made(redo: &Path) -> bool {
    redo.as_os_str().as_encoded_bytes().ends_with(b"_tmp")
}

/// The socket that clients use: one that it really listens on before one that it was told.
fn socket(listening: Vec<PathBuf>, settings: &Settings) -> Option<PathBuf> {
    let is_x_protocol = |path: &PathBuf| path.file_name().is_some_and(|name| name == "mysqlx.sock");
    let real = listening.into_iter().find(|path| !is_x_protocol(path));
    // It was bound by the name that the server was told, which may be relative.
    real.map(|path| settings.resolved(&path).unwrap_or(path)).or_else(|| settings.path("socket"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;
    use crate::server::what::describe::OpenDescriptors;

    #[test]
    fn redo_files_that_are_being_made_tell_nothing_of_those_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str, flags| {
            let mut options = std::fs::File::options();
            options.create(true).write(true).custom_flags(flags).open(directory.path().join(name)).unwrap()
        };
        let of = || {
            let is_log = |path: &Path| MySql.is_log_in_use(path, &|| path.starts_with(directory.path()));
            let mut open = OpenDescriptors::default();
            open.read(Path::new("/proc"), std::process::id(), &is_log, &|| false);
            (open.log.files, open.log.durable)
        };
        let _used = open("#ib_redo7", libc::O_DSYNC);
        let _made = open("#ib_redo8_tmp", 0);
        assert_eq!(of(), (1, 1));
        let _plain = open("#ib_redo9", 0);
        assert_eq!(of(), (2, 1));
    }

    #[test]
    fn settings_that_leave_syncs_out_are_noted() {
        let notes = |name, value| MySql.notes(&Settings::from_pairs(Path::new("/d"), [(name, value)]));
        assert!(notes("innodb_flush_method", "O_DSYNC").is_empty(), "the configuration alone proves nothing");
        assert!(notes("innodb_flush_method", "nosync")[0].starts_with("innodb_flush_method=nosync is set"));
        assert!(notes("debug_no_sync", "1")[0].starts_with("debug_no_sync is set"));
    }

    #[test]
    fn the_socket_of_clients_is_not_the_one_of_the_x_protocol() {
        let settings = Settings::from_pairs(Path::new("/d"), [("socket", "/told.sock")]);
        let path = |paths: &[&str]| socket(paths.iter().map(PathBuf::from).collect(), &settings).unwrap();
        assert_eq!(path(&["/run/mysqlx.sock", "/run/mysqld.sock"]), Path::new("/run/mysqld.sock"));
        assert_eq!(path(&["rel.sock"]), Path::new("/d/rel.sock"));
        // As text: two paths are equal whether or not a "." stands in one.
        assert_eq!(path(&["./rel.sock"]).to_str(), Some("/d/rel.sock"));
        assert_eq!(path(&["../run/rel.sock"]), Path::new("/run/rel.sock"));
        assert_eq!(path(&[]), Path::new("/told.sock"));
        let relative = Settings::from_pairs(Path::new("/d"), [("socket", "./mysql.sock")]);
        assert_eq!(socket(vec![], &relative).unwrap(), Path::new("/d/mysql.sock"));
    }

    #[test]
    fn ports_and_ids_are_as_the_server_was_told() {
        let of = |pairs: &[(&'static str, &'static str)], is_database| {
            told_port(&Settings::from_pairs(Path::new("/d"), pairs.iter().copied()), is_database)
        };
        assert_eq!(of(&[], true), ToldPort { clients: Some(3306), none: false });
        assert_eq!(of(&[], false), ToldPort::default());
        assert_eq!(of(&[("port", "3307")], true).clients, Some(3307));
        assert!(of(&[("skip_networking", "1")], true).none);
        let id = "6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11";
        assert_eq!(uuid(format!("[auto]\nserver-uuid={id}\n").as_bytes()).as_deref(), Some(id));
        assert_eq!(uuid(b"[auto]\nserver-uuid=\"><script>\n"), None);
        assert_eq!(uuid(b"\xff"), None);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("auto.cnf"), format!("[auto]\nserver-uuid={id}\n")).unwrap();
        let mut server = Server::new(crate::model::ServerId { pid: 7, start_ns: 1 }, "mysqld".into());
        server.datadir = Some(directory.path().to_owned());
        identify(Some(&Root::at(Path::new("/")).unwrap()), &mut server, &Settings::default());
        assert_eq!(server.known_by.uuid.as_deref(), Some(id));
    }
}
