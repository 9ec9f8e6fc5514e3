//! Servers that were started by a name that no profile has: known by what their executables are called.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::filter::COMM_LENGTH;
use super::owner;
use super::processes::{self, ThreadGroup};
use crate::engine::engines::Engines;
use crate::model::Engine;

const DELETED: &str = " (deleted)";
/// In the names of processes that may be an engine's, or have one inside, though neither their own name nor
/// their executable's says so for certain. k3s keeps its state in etcd or in SQLite.
const LIKE: [&str; 8] = ["mysql", "maria", "postgres", "postmaster", "etcd", "redis", "valkey", "k3s"];
/// And in those of their clients and helpers.
const UNLIKE: [&str; 10] =
    ["cli", "dump", "exporter", "bench", "check", "admin", "ctl", "safe", "backup", "sentinel"];

/// An engine's name, and what some of its processes are called though its profile does not say so.
type Alias = (String, String);

/// A process, and the engine whose executable it runs.
type Running = (u32, Option<Arc<Engine>>);

/// What this host's servers are called: looked at once, so that all of this process goes by the same names.
static ALIASES: LazyLock<Vec<Alias>> = LazyLock::new(|| aliases(Path::new("/proc"), &Engines::builtin()));

/// Adds the names under which the engines' executables run here now, as long as there are fewer than `most`
/// in all.
pub(crate) fn add_names(engines: &mut Arc<Engines>, most: usize) {
    for (engine, name) in ALIASES.iter() {
        let names: usize = engines.with_processes().map(|engine| engine.commands.len()).sum();
        if names < most && engines.by_command(name).is_none() {
            Arc::make_mut(engines).add_command(engine, name);
        }
    }
}

/// A name counts only where each process that has it runs that engine: who calls a server `bash` makes no
/// servers of the shells. It is no harder to forge than the name of a process, and no easier. Where services
/// have the name, no other process keeps it from them.
fn aliases(proc_root: &Path, engines: &Engines) -> Vec<Alias> {
    let mut by_name: BTreeMap<String, Vec<Running>> = BTreeMap::new();
    for pid in processes::all_pids(proc_root) {
        let Some(name) = processes::comm(proc_root, pid) else { continue };
        if engines.by_command(&name).is_none() {
            let engine = of_executable(proc_root, pid).and_then(|program| engines.by_command(&program));
            by_name.entry(name).or_default().push((pid, engine));
        }
    }
    let agreed = |processes: &[&Running]| {
        let (_, engine) = processes.first()?;
        processes.iter().all(|(_, other)| other == engine).then(|| engine.clone())?
    };
    let alias = |(name, processes): (String, Vec<Running>)| {
        // Of nearly all names nobody runs an engine.
        processes.iter().find(|(_, engine)| engine.is_some())?;
        let is_of_system = |pid: u32| owner::of_process(proc_root, pid).is_system();
        let services = || processes.iter().filter(|(pid, _)| is_of_system(*pid)).collect::<Vec<_>>();
        let engine = agreed(&processes.iter().collect::<Vec<_>>()).or_else(|| agreed(&services()))?;
        Some((engine.name.clone(), name))
    };
    by_name.into_iter().filter_map(alias).collect()
}

/// What the executable of a process is called, cut as the kernel cuts the names of processes. The link is
/// read, not followed: nothing waits for a filesystem.
fn of_executable(proc_root: &Path, pid: u32) -> Option<String> {
    let link = std::fs::read_link(proc_root.join(format!("{pid}/exe"))).ok()?;
    let name = link.file_name()?.to_str()?;
    let name = name.strip_suffix(DELETED).unwrap_or(name);
    name.get(..COMM_LENGTH.min(name.len())).map(str::to_owned)
}

/// Processes that may be servers, by their names or their executables', for whoever found none; of one and
/// its children, the one.
pub(crate) fn look_alikes(proc_root: &Path) -> Vec<ThreadGroup> {
    let alike = |name: &str| {
        let name = name.to_ascii_lowercase();
        LIKE.iter().any(|part| name.contains(part)) && !UNLIKE.iter().any(|part| name.contains(part))
    };
    let own = std::process::id();
    let is_one = |&pid: &u32| {
        let names = [processes::comm(proc_root, pid), of_executable(proc_root, pid)];
        pid != own && names.into_iter().flatten().any(|name| alike(&name))
    };
    let found = processes::all_pids(proc_root).filter(is_one);
    let found: Vec<_> = found.filter_map(|pid| processes::read(proc_root, pid)).collect();
    let is_child = |parent: i32| found.iter().any(|(process, _)| u32::try_from(parent) == Ok(process.pid));
    let firsts = found.iter().filter(|(_, stat)| !is_child(stat.ppid));
    firsts.map(|(process, _)| process.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const USER: u32 = 4711;

    /// A /proc with these processes, from 1 on: their names and executables. All are children of the third.
    /// Those in /home are a user's.
    fn proc_of(processes: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (number, (name, program)) in processes.iter().enumerate() {
            let directory = root.path().join((number + 1).to_string());
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
            let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
            let rest: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').skip(2).collect();
            let (pid, parent) = (number + 1, if number + 1 == 3 { 0 } else { 3 });
            let stat = format!("{pid} ({name}) S {parent} {}", rest.join(" "));
            std::fs::write(directory.join("stat"), stat).unwrap();
            symlink(program, directory.join("exe")).unwrap();
            let uid = if program.starts_with("/home") { USER } else { 0 };
            std::fs::write(directory.join("status"), format!("Name:\t{name}\nUid:\t{uid}\t{uid}\n")).unwrap();
        }
        root
    }

    #[test]
    fn a_name_is_an_engines_where_all_who_have_it_run_its_executable() {
        let root = proc_of(&[
            ("pg15", "/opt/pg/bin/postgres"),
            ("pg15", "/opt/pg/bin/postgres (deleted)"),
            ("db", "/nix/store/x/bin/.mariadbd-wrapped"),
            ("bash", "/tmp/postgres"),
            ("bash", "/usr/bin/bash"),
            ("zsh", "/usr/bin/zsh"),
            ("zsh", "/tmp/postgres"),
            ("postgres", "/usr/lib/postgresql/15/bin/postgres"),
            // Whoever wants a service not to be found.
            ("db", "/home/u/sleep"),
            ("own", "/home/u/mariadbd"),
            ("own2", "/home/u/mariadbd"),
            ("own2", "/home/u/sleep"),
        ]);
        let found = aliases(root.path(), &Engines::builtin());
        let expected = [("mariadb", "db"), ("mariadb", "own"), ("postgres", "pg15")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_looks_like_a_server_is_named_and_its_clients_are_not() {
        let root = proc_of(&[
            ("k3s-server", "/var/lib/rancher/k3s/data/x/bin/k3s"),
            ("server", "/opt/percona/mysqld-8.4"),
            ("redis-cli", "/usr/bin/redis-cli"),
            ("mysqld_safe", "/usr/bin/dash"),
            ("bash", "/usr/bin/bash"),
        ]);
        let names = |root: &tempfile::TempDir| -> Vec<String> {
            look_alikes(root.path()).into_iter().map(|process| process.comm).collect()
        };
        assert_eq!(names(&root), ["k3s-server", "server"]);
        let family =
            proc_of(&[("init", "/sbin/init"), ("pg-15", "/opt/postgres-15"), ("pg", "/opt/postgres-15")]);
        assert_eq!(names(&family), ["pg"]);
    }
}
