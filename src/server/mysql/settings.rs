//! The settings that MySQL and MariaDB were given: command line, option files, persisted variables.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::option_file;
use super::option_reader::Reader;
use super::version::MARIADB;
use crate::linux::rooted::Root;
use crate::server::what::launch::Launch;
use crate::server::what::product::Version;
use crate::server::what::settings::{Bounds, Settings, normalize};
use crate::server::what::settings_files::Check;

/// Maximum size of mysqld-auto.cnf, which has some hundred bytes for each variable.
const PERSISTED_LIMIT: u64 = 256 << 10;

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

/// Of a running server. Empty if nothing of it can be read. Reads files of the server's root, so it can block
/// where their filesystem does: not for a hot path.
pub fn of_server(proc_root: &Path, pid: u32, version: Option<&Version>, bounds: &Bounds<'_>) -> Settings {
    let Some(process) = Launch::read(proc_root, pid, ENVIRONMENT) else { return Settings::default() };
    let root = Root::of_process(proc_root, pid).ok();
    read(&process, version, root.as_ref(), bounds)
}

/// From a command line and the files below `root`.
pub fn read(
    process: &Launch,
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
        read_persisted(&mut settings, root, &wanted);
        settings.follow_symlinks(PATHS, root, bounds);
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

/// MySQL applies SET PERSIST after the command line, unless it is told not to.
fn read_persisted(settings: &mut Settings, root: &Root, wanted: &dyn Fn(&str) -> bool) {
    if settings.flag("persisted_globals_load") == Some(false) {
        return;
    }
    let Some(base) = &settings.base else { return };
    let Ok(json) = root.read(&base.join("mysqld-auto.cnf"), PERSISTED_LIMIT) else { return };
    for (name, value) in option_file::persisted(&json) {
        option_file::set(&mut settings.values, wanted, name.as_bytes(), Some(value.as_bytes()));
    }
}

/// A server that has only just begun still works in the directory that it was started in.
fn is_data_directory(root: Option<&Root>, directory: &Path) -> bool {
    let holds =
        |name: &str| root.is_some_and(|root| root.look_up(&directory.join(name), OFlags::empty()).is_ok());
    ["ibdata1", "mysql.ibd", "aria_log_control", "mysql/user.frm"].iter().any(|name| holds(name))
}

type Arguments = [(Vec<u8>, Option<Vec<u8>>)];

fn argument<'a>(arguments: &'a Arguments, wanted: &str) -> Option<&'a [u8]> {
    let found = |name: &[u8]| name.iter().map(|&b| if b == b'_' { b'-' } else { b }).eq(wanted.bytes());
    let (_, value) = arguments.iter().find(|(name, _)| found(name))?;
    Some(value.as_deref().unwrap_or_default())
}

/// The option files that the server read, in its order (mysys/my_default.c: init_default_directories).
fn option_files(version: Option<&Version>, arguments: &Arguments, process: &Launch) -> Vec<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    if argument(arguments, "no-defaults").is_some() {
        return Vec::new();
    }
    if let Some(only) = argument(arguments, "defaults-file") {
        return vec![path(only)];
    }
    let mut files: Vec<PathBuf> =
        ["/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf"].map(PathBuf::from).to_vec();
    let mariadb = version.is_none_or(|version| version.product == MARIADB);
    let home = mariadb.then(|| process.variable("MARIADB_HOME")).flatten();
    files.extend(home.or_else(|| process.variable("MYSQL_HOME")).map(|home| home.join("my.cnf")));
    files.extend(argument(arguments, "defaults-extra-file").map(path));
    files.extend(process.variable("HOME").map(|home| home.join(".my.cnf")));
    files
}

/// The groups of option files that this server reads. Of a server of unknown version, all that any would.
fn groups(version: Option<&Version>, arguments: &Arguments, process: &Launch) -> Vec<Vec<u8>> {
    let mut names: Vec<String> = vec!["mysqld".into(), "server".into()];
    if let Some(version) = version {
        names.push(format!("mysqld-{}", version.series()));
    }
    if version.is_none_or(|version| version.product == MARIADB) {
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
