//! The server's own settings without a connection to it: command line, option files, persisted variables.
//! They are what the server was *told*; a variable changed at run time, or a file edited since, is not seen
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::proc_file;
use crate::linux::rooted::Root;
use crate::server::option_file;
use crate::server::option_reader::{Check, Reader};
use crate::server::version::{Flavour, Version};

/// Maximum size of mysqld-auto.cnf, which has some hundred bytes for each variable.
const PERSISTED_LIMIT: u64 = 256 << 10;
/// Maximum size of /proc/PID/cmdline and environ, whose length the process chooses.
const STRINGS_LIMIT: u64 = 256 << 10;
/// Arguments that are looked at; a server has some dozens.
const MAX_ARGUMENTS: usize = 2_048;
/// Parts of a value that is a list of paths.
const MAX_PARTS: usize = 64;

/// Settings whose value is a path: their symlinks are followed once, since the kernel names files without
/// symlinks.
const PATHS: &[&str] = &[
    "datadir",
    "log_bin",
    "log_bin_index",
    "relay_log",
    "relay_log_index",
    "innodb_log_group_home_dir",
    "innodb_doublewrite_dir",
    "innodb_parallel_doublewrite_path",
    "innodb_undo_directory",
    "innodb_data_home_dir",
    "innodb_tmpdir",
    "innodb_temp_tablespaces_dir",
    "tmpdir",
    "replica_load_tmpdir",
    "slave_load_tmpdir",
    "audit_log_file",
    "server_audit_file_path",
    "aria_log_dir_path",
    "rocksdb_wal_dir",
    "rocksdb_datadir",
    "tokudb_log_dir",
    "tokudb_data_dir",
    "master_info_file",
    "relay_log_info_file",
    "binlog_directory",
];

/// Settings beside the paths that fsynctop asks for. Others are not kept, but for those that the rules name:
/// there is no end to the names that an option file may have.
const OTHERS: &[&str] = &[
    // a server's
    "debug_no_sync",
    "innodb_data_file_path",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "persisted_globals_load",
    "port",
    "server_id",
    "skip_networking",
    "socket",
    "sync_binlog",
    // a client's
    "host",
    "password",
    "ssl",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_mode",
    "ssl_verify_server_cert",
    "user",
];

fn is_asked_for(name: &str) -> bool {
    PATHS.contains(&name) || OTHERS.contains(&name)
}

/// The variables of a server's environment that decide which option files it reads.
const ENVIRONMENT: &[&str] = &["HOME", "MARIADB_HOME", "MYSQL_GROUP_SUFFIX", "MYSQL_HOME", "PWD"];

/// Configured settings by name: lower case, underscores, no "loose_".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, OsString>,
    /// What a relative value is relative to: the data directory, which is the server's working directory.
    base: Option<PathBuf>,
    /// Configured path → the same without symlinks, where the two differ.
    real: BTreeMap<PathBuf, PathBuf>,
}

/// Bounds of reading a server's settings.
pub struct Bounds<'a> {
    /// Settings that are kept beside those that fsynctop itself asks for: those of the rules.
    pub also: &'a BTreeSet<String>,
    /// True: reading is to end, because it has taken too long or because the process has.
    pub over: &'a dyn Fn() -> bool,
}

#[cfg(test)]
impl Bounds<'_> {
    pub(crate) const NONE: Bounds<'static> = Bounds { also: &BTreeSet::new(), over: &|| false };
}

/// What of a process decides its settings. Read by [`Process::read`], or made up by a test.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub command_line: Vec<OsString>,
    pub environment: BTreeMap<OsString, OsString>,
    /// Inside its own root. A server's is its data directory once it has started.
    pub working_directory: Option<PathBuf>,
}

impl Process {
    /// None: it has gone, or has no memory any more. May wait for the process's memory lock: not for a hot
    /// path.
    pub fn read(proc_root: &Path, pid: u32) -> Option<Process> {
        let directory = proc_root.join(pid.to_string());
        let strings = |file: &str| {
            let mut bytes = proc_file::read_start(&directory.join(file), STRINGS_LIMIT).unwrap_or_default();
            // Each string ends with a NUL, but for one that was cut off, which means something else without
            // its rest, and for that of a process that has written over its own.
            if bytes.len() as u64 == STRINGS_LIMIT || bytes.ends_with(b"\0") {
                bytes.truncate(bytes.iter().rposition(|&b| b == 0).unwrap_or(0));
            }
            bytes
        };
        let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let command_line: Vec<_> =
            strings("cmdline").split(|&b| b == 0).take(MAX_ARGUMENTS).map(word).collect();
        if command_line.first().is_none_or(|program| program.is_empty()) {
            return None;
        }
        let environment = strings("environ")
            .split(|&b| b == 0)
            .filter_map(|entry| {
                let (name, value) = entry.split_at(entry.iter().position(|&b| b == b'=')?);
                let name = ENVIRONMENT.iter().find(|wanted| wanted.as_bytes() == name)?;
                Some((name.into(), word(&value[1..])))
            })
            .collect();
        let root = std::fs::read_link(directory.join("root")).ok();
        let cwd = std::fs::read_link(directory.join("cwd")).ok();
        let working_directory =
            root.zip(cwd).and_then(|(root, cwd)| crate::linux::rooted::strip_root(&cwd, &root));
        Some(Process { command_line, environment, working_directory })
    }

    fn variable(&self, name: &str) -> Option<&Path> {
        self.environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(Path::new)
    }
}

impl Settings {
    /// Of a running server. Empty if nothing of it can be read. Reads files of the server's root, so it can
    /// block where their filesystem does: not for a hot path.
    pub fn of_server(proc_root: &Path, pid: u32, version: Option<&Version>, bounds: &Bounds<'_>) -> Settings {
        let Some(process) = Process::read(proc_root, pid) else { return Settings::default() };
        let root = Root::of_process(proc_root, pid).ok();
        Settings::read(&process, version, root.as_ref(), bounds)
    }

    /// From a command line and the files below `root`.
    pub fn read(
        process: &Process,
        version: Option<&Version>,
        root: Option<&Root>,
        bounds: &Bounds<'_>,
    ) -> Settings {
        let arguments = option_file::arguments(&process.command_line);
        let groups = groups(version, &arguments, process);
        let start_directory = process.variable("PWD").or(process.working_directory.as_deref());
        let mut settings = Settings::default();
        let wanted = |name: &str| is_asked_for(name) || bounds.also.contains(name);
        let mut set = |name: &[u8], value: Option<&[u8]>| {
            option_file::set(&mut settings.values, &wanted, name, value);
        };
        if let Some(root) = root {
            let mut reader = Reader::new(root, &groups, bounds.over, &mut set);
            for file in option_files(version, &arguments, process) {
                reader.read(&start_directory.map_or(file.clone(), |start| start.join(&file)));
            }
        }
        for (name, value) in &arguments {
            set(name, value.as_deref());
        }
        settings.base = match settings.get("datadir").filter(|value| !value.is_empty()) {
            Some(datadir) => Some(normalize(&start_directory.unwrap_or(Path::new("/")).join(datadir))),
            None => process.working_directory.clone().filter(|cwd| is_data_directory(root, cwd)),
        };
        if let Some(root) = root {
            settings.read_persisted(root, &wanted);
            settings.follow_symlinks(root, bounds);
        }
        settings
    }

    /// What some groups of one option file and of those that it includes say: a client's. Relative values
    /// stay so. Each of these files, and each directory of them, must pass the check once it is open; else
    /// the path of the first that does not, and why.
    pub(crate) fn of_groups(
        root: &Root,
        file: &Path,
        groups: &[&str],
        check: Check<'_>,
    ) -> Result<Settings, (PathBuf, io::Error)> {
        let groups: Vec<_> = groups.iter().map(|group| group.as_bytes().to_vec()).collect();
        let mut settings = Settings::default();
        let mut set = |name: &[u8], value: Option<&[u8]>| {
            option_file::set(&mut settings.values, &is_asked_for, name, value);
        };
        let mut reader = Reader::new(root, &groups, &|| false, &mut set).checked(check);
        reader.read(file);
        reader.failed().map_or(Ok(settings), Err)
    }

    /// From option text alone, with its values relative to `datadir`; what tests and other tools need.
    pub fn from_pairs<'a>(datadir: &Path, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Settings {
        let mut values = BTreeMap::new();
        for (name, value) in pairs {
            option_file::set(&mut values, &|_| true, name.as_bytes(), Some(value.as_bytes()));
        }
        Settings { values, base: Some(datadir.to_owned()), real: BTreeMap::new() }
    }

    /// MySQL applies SET PERSIST after the command line, unless it is told not to.
    fn read_persisted(&mut self, root: &Root, wanted: &dyn Fn(&str) -> bool) {
        if self.flag("persisted_globals_load") == Some(false) {
            return;
        }
        let Some(base) = &self.base else { return };
        let Ok(json) = root.read(&base.join("mysqld-auto.cnf"), PERSISTED_LIMIT) else { return };
        for (name, value) in option_file::persisted(&json) {
            option_file::set(&mut self.values, wanted, name.as_bytes(), Some(value.as_bytes()));
        }
    }

    fn follow_symlinks(&mut self, root: &Root, bounds: &Bounds<'_>) {
        let mut real = BTreeMap::new();
        let paths = PATHS.iter().flat_map(|name| self.configured(name));
        for path in paths.take_while(|_| !(bounds.over)()) {
            let followed = root.canonical(&path).or_else(|| {
                // Of a log's base name only the directory exists.
                Some(root.canonical(path.parent()?)?.join(path.file_name()?))
            });
            if let Some(followed) = followed.filter(|followed| *followed != path) {
                real.insert(path, followed);
            }
        }
        self.real = real;
    }

    /// The value as it was given; None if the setting was never given.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.values.get(name).map(OsString::as_os_str)
    }

    /// A value that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str()
    }

    /// A number, with the suffixes that servers take: K, M, G, T.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?.trim();
        let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
            b'K' => (&text[..text.len() - 1], 10),
            b'M' => (&text[..text.len() - 1], 20),
            b'G' => (&text[..text.len() - 1], 30),
            b'T' => (&text[..text.len() - 1], 40),
            _ => (text, 0),
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << shift)
    }

    /// ON or OFF; an option without a value is ON.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.text(name)?.to_ascii_uppercase().as_str() {
            "" | "1" | "ON" | "TRUE" | "YES" => Some(true),
            "0" | "OFF" | "FALSE" | "NO" => Some(false),
            _ => None,
        }
    }

    /// The data directory, as the server was told or, where it was not, as it works in. None: not told, and
    /// the server has only just begun; ask again later.
    pub fn datadir(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    pub fn socket(&self) -> Option<PathBuf> {
        self.configured("socket").into_iter().next()
    }

    pub fn port(&self) -> Option<u16> {
        self.number("port").and_then(|port| port.try_into().ok())
    }

    /// The binary log's base name, without what the server appends (".000001").
    pub fn log_bin(&self) -> Option<PathBuf> {
        self.configured("log_bin").into_iter().next()
    }

    /// None: not set, so the server's default holds, which is 1 for MySQL (5.7 on) and 0 for MariaDB.
    pub fn sync_binlog(&self) -> Option<u64> {
        self.number("sync_binlog")
    }

    pub fn innodb_flush_log_at_trx_commit(&self) -> Option<u64> {
        self.number("innodb_flush_log_at_trx_commit")
    }

    pub fn innodb_flush_method(&self) -> Option<&str> {
        self.text("innodb_flush_method")
    }

    /// Every path that a setting names, absolute, with and without its symlinks. Several for a list.
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        let mut paths = self.configured(name);
        let followed: Vec<_> = paths.iter().filter_map(|path| self.real.get(path).cloned()).collect();
        paths.extend(followed);
        paths
    }

    /// The files of a list such as `innodb_data_file_path = ibdata1:12M;/big/ibdata2:1G:autoextend`.
    pub(crate) fn file_list(&self, name: &str) -> Vec<PathBuf> {
        let Some(value) = self.get(name) else { return Vec::new() };
        let homes = match self.paths("innodb_data_home_dir") {
            homes if homes.is_empty() => self.paths("datadir"),
            homes => homes,
        };
        let files = value.as_bytes().split(|&b| b == b';').take(MAX_PARTS).map(|file| {
            let end = file.iter().position(|&b| b == b':').unwrap_or(file.len());
            Path::new(OsStr::from_bytes(file[..end].trim_ascii()))
        });
        let files = files.filter(|file| !file.as_os_str().is_empty());
        files.flat_map(|file| homes.iter().map(move |home| normalize(&home.join(file)))).collect()
    }

    /// A path as the server takes it: a relative one in its data directory. None: that is not known.
    pub(crate) fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let absolute = match &self.base {
            Some(base) => base.join(path),
            None => path.is_absolute().then(|| path.to_owned())?,
        };
        Some(normalize(&absolute))
    }

    fn configured(&self, name: &str) -> Vec<PathBuf> {
        if name == "datadir" {
            return self.base.iter().cloned().collect();
        }
        let Some(value) = self.get(name) else { return Vec::new() };
        if matches!(value.as_bytes(), b"" | b"ON" | b"OFF") {
            return Vec::new();
        }
        // tmpdir may be a list; its parts beside the whole, in which a ':' could also be part of the name.
        let bytes = value.as_bytes();
        let parts = name
            .ends_with("tmpdir")
            .then(|| bytes.split(|&b| b == b':').take(MAX_PARTS))
            .into_iter()
            .flatten();
        let whole = (!name.ends_with("tmpdir") || !bytes.contains(&b':')).then_some(bytes);
        parts
            .chain(whole)
            .filter(|part| !part.is_empty())
            .filter_map(|part| self.resolved(Path::new(OsStr::from_bytes(part))))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

/// A server that has only just begun still works in the directory that it was started in.
fn is_data_directory(root: Option<&Root>, directory: &Path) -> bool {
    let holds =
        |name: &str| root.is_some_and(|root| root.look_up(&directory.join(name), OFlags::empty()).is_ok());
    ["ibdata1", "mysql.ibd", "aria_log_control", "mysql/user.frm"].iter().any(|name| holds(name))
}

/// Without "." and, as far as the text tells, "..".
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

type Arguments = [(Vec<u8>, Option<Vec<u8>>)];

fn argument<'a>(arguments: &'a Arguments, wanted: &str) -> Option<&'a [u8]> {
    let found = |name: &[u8]| name.iter().map(|&b| if b == b'_' { b'-' } else { b }).eq(wanted.bytes());
    let (_, value) = arguments.iter().find(|(name, _)| found(name))?;
    Some(value.as_deref().unwrap_or_default())
}

/// The option files that the server read, in its order (mysys/my_default.c: init_default_directories).
fn option_files(version: Option<&Version>, arguments: &Arguments, process: &Process) -> Vec<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    if argument(arguments, "no-defaults").is_some() {
        return Vec::new();
    }
    if let Some(only) = argument(arguments, "defaults-file") {
        return vec![path(only)];
    }
    let mut files: Vec<PathBuf> =
        ["/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf"].map(PathBuf::from).to_vec();
    let mariadb = version.is_none_or(|version| version.flavour == Flavour::MariaDb);
    let home = mariadb.then(|| process.variable("MARIADB_HOME")).flatten();
    files.extend(home.or_else(|| process.variable("MYSQL_HOME")).map(|home| home.join("my.cnf")));
    files.extend(argument(arguments, "defaults-extra-file").map(path));
    files.extend(process.variable("HOME").map(|home| home.join(".my.cnf")));
    files
}

/// The groups of option files that this server reads. Of a server of unknown version, all that any would.
fn groups(version: Option<&Version>, arguments: &Arguments, process: &Process) -> Vec<Vec<u8>> {
    let mut names: Vec<String> = vec!["mysqld".into(), "server".into()];
    if let Some(version) = version {
        names.push(format!("mysqld-{}", version.series()));
    }
    if version.is_none_or(|version| version.flavour == Flavour::MariaDb) {
        names.extend(["mariadb", "mariadbd", "galera"].map(String::from));
        if let Some(version) = version {
            names.extend(["mariadb", "mariadbd"].map(|group| format!("{group}-{}", version.series())));
        }
    }
    let mut groups: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
    let suffix = argument(arguments, "defaults-group-suffix")
        .or_else(|| Some(process.variable("MYSQL_GROUP_SUFFIX")?.as_os_str().as_bytes()));
    if let Some(suffix) = suffix.filter(|suffix| !suffix.is_empty()) {
        let with_suffix: Vec<_> = groups.iter().map(|group| [group, suffix].concat()).collect();
        groups.extend(with_suffix);
    }
    groups
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
