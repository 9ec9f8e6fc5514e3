//! The settings that a PostgreSQL server was given, weakest first: environment, postgresql.conf and what it
//! includes, postgresql.auto.conf (ALTER SYSTEM), command line (guc.h: GucSource).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::configuration::{self, Line};
use crate::linux::rooted::Root;
use crate::server::what::launch::Launch;
use crate::server::what::settings::{Bounds, Settings, normalize};
use crate::server::what::settings_files::SettingsFiles;

/// CONF_FILE_MAX_DEPTH in guc.h: the files that a server is told of are at depth 0.
const INCLUDE_DEPTH: u32 = 10;
/// Lines between two looks at whether reading is to end.
const LINES_AT_A_TIME: usize = 1_024;
/// Lists of directories are the longest values that matter; a path has 4,096 bytes at most.
const MAX_VALUE: usize = 8_192;

/// Settings whose value is a path.
const PATHS: &[&str] = &["datadir", "log_directory", "stats_temp_directory"];
/// Settings beside the paths that fsynctop asks for. Others are not kept, but for those that the rules name:
/// there is no end to the names that a file may have.
const OTHERS: &[&str] = &[
    "commit_delay",
    "commit_siblings",
    "config_file",
    "data_directory",
    "data_sync_retry",
    "fsync",
    "full_page_writes",
    "listen_addresses",
    "port",
    "synchronous_commit",
    "unix_socket_directories",
    "wal_sync_method",
];

/// PGDATA is the data directory where there is no -D, and PGPORT the weakest port.
const ENVIRONMENT: &[&str] = &["PGDATA", "PGPORT", "PWD"];

/// Of a running server; empty if nothing of it can be read. Reads files of the server's root, so it can block
/// where their filesystem does: not for a hot path.
pub(in crate::server) fn of_server(proc_root: &Path, pid: u32, bounds: &Bounds<'_>) -> Settings {
    let Some(launch) = Launch::read(proc_root, pid, ENVIRONMENT) else { return Settings::default() };
    let root = Root::of_process(proc_root, pid).ok();
    read(&launch, root.as_ref(), bounds)
}

/// From a command line and the files below `root`.
pub(super) fn read(launch: &Launch, root: Option<&Root>, bounds: &Bounds<'_>) -> Settings {
    let mut settings = Settings::default();
    let wanted = |name: &str| PATHS.contains(&name) || OTHERS.contains(&name) || bounds.also.contains(name);
    let mut set = |name: &str, value: &[u8]| {
        if wanted(name) && value.len() <= MAX_VALUE {
            settings.values.insert(name.to_owned(), OsString::from_vec(value.to_vec()));
        }
    };
    let arguments = configuration::arguments(&launch.command_line);
    let argument = |wanted: &str| {
        let found = arguments.iter().rev().find(|(name, _)| name == wanted);
        found.map(|(_, value)| Path::new(OsStr::from_bytes(value)))
    };
    let start = launch.variable("PWD").or(launch.working_directory.as_deref()).unwrap_or(Path::new("/"));
    // A backend has its title in the place of its command line; but all processes work in the data directory.
    let told = argument("-D").or_else(|| launch.variable("PGDATA")).map(|path| normalize(&start.join(path)));
    let works_in = launch.working_directory.as_deref().filter(|cwd| is_data_directory(root, cwd));
    if let Some(port) = launch.variable("PGPORT") {
        set("port", port.as_os_str().as_bytes());
    }
    if let Some(root) = root {
        let mut reader = Reader { files: SettingsFiles::new(root, bounds.over), set: &mut set };
        let main = match argument("config_file") {
            Some(file) => Some(start.join(file)),
            None => told.as_deref().or(works_in).map(|directory| directory.join("postgresql.conf")),
        };
        main.iter().for_each(|main| reader.file(main, 0));
        // The file of ALTER SYSTEM lies in the data directory, wherever the first one lies.
        let datadir = works_in.or(told.as_deref());
        datadir.iter().for_each(|datadir| reader.file(&datadir.join("postgresql.auto.conf"), 0));
    }
    for (name, value) in &arguments {
        set(name, value);
    }
    // Of a server that has only just begun, as it was told.
    let configured = || Some(normalize(&start.join(settings.get("data_directory")?)));
    settings.base = works_in.map(Path::to_owned).or_else(configured).or(told);
    if let Some(root) = root {
        settings.follow_symlinks(PATHS, root, bounds);
    }
    settings
}

/// Where a server's processes work from early on: what no other directory has.
pub(in crate::server) fn is_data_directory(root: Option<&Root>, directory: &Path) -> bool {
    let holds =
        |name: &str| root.is_some_and(|root| root.look_up(&directory.join(name), OFlags::empty()).is_ok());
    ["PG_VERSION", "global/pg_control"].iter().all(|name| holds(name))
}

/// Hands the settings of files over, in the order in which the server takes them.
struct Reader<'a> {
    files: SettingsFiles<'a>,
    set: &'a mut dyn FnMut(&str, &[u8]),
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: u32) {
        let Some(contents) = self.files.contents(path) else { return };
        for (number, line) in configuration::parse(&contents).enumerate() {
            if number % LINES_AT_A_TIME == LINES_AT_A_TIME - 1 && self.files.is_over() {
                return;
            }
            match line {
                Line::Setting { name, value } => (self.set)(&name, &value),
                _ if depth == INCLUDE_DEPTH => {}
                Line::Include(file) | Line::IncludeIfExists(file) => {
                    self.file(&beside(path, &file), depth + 1);
                }
                Line::IncludeDirectory(name) => self.directory(&beside(path, &name), depth + 1),
            }
        }
    }

    /// Those that end in .conf and are not hidden, in the order of their bytes (GetConfFilesInDir).
    fn directory(&mut self, directory: &Path, depth: u32) {
        let mut names = self.files.names(directory);
        names.retain(|name| name.as_bytes().ends_with(b".conf") && !name.as_bytes().starts_with(b"."));
        names.sort();
        for name in names {
            self.file(&directory.join(name), depth);
        }
    }
}

/// An included path; a relative one is taken from beside the file that names it (AbsoluteConfigLocation).
fn beside(from: &Path, name: &[u8]) -> PathBuf {
    from.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(name))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
