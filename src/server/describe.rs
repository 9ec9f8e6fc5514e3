//! What a server is, without a connection to it: everything comes from /proc and the files of its own root.
//! It reads the process's memory map and its file systems, so it can wait where those are stuck, and it takes
//! some milliseconds the first time: once per server, on a thread of its own, never on a hot path.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::linux::cpu_time::of_this_thread;
use crate::linux::{mounts, open_files, proc_file};
use crate::model::{Engine, KnownBy, Server, ServerId, durability};
use crate::server::settings::{Bounds, Settings};
use crate::server::{container, known_by, listening, processes, version};
use crate::text::escape;

/// How many of a server's descriptors are looked at: it opens its sockets and its redo log early.
const DESCRIPTOR_LIMIT: usize = 4096;
/// How much of a memory map is searched: 65,530 mappings at most, where vm.max_map_count is as it comes.
const MAPS_LIMIT: u64 = 16 << 20;

/// What describing a server has to know of the roles of files, which stand above it.
pub trait Roles: Send + Sync {
    /// The engine of a process by its command, and by its version where that is known.
    fn engine(&self, _command: &str, _version: Option<&str>) -> Option<Arc<Engine>> {
        None
    }
    /// The names of the settings that decide roles.
    fn settings(&self) -> &BTreeSet<String>;
    /// Whether an open file is of the redo log, as far as its name and the settings tell.
    fn is_redo(&self, path: &Path, settings: &Settings) -> bool;
}

/// How long a description may take, and how much processor time: the process chooses how much there is to
/// read. What is found until then counts.
const MAX_TIME: Duration = Duration::from_secs(3);
const MAX_CPU_TIME: Duration = Duration::from_secs(1);

/// The time a description has left.
struct Limit<'a> {
    proc_root: &'a Path,
    id: ServerId,
    started: Instant,
    cpu: Duration,
}

impl Limit<'_> {
    /// Too much, or the process has gone.
    fn is_over(&self) -> bool {
        self.started.elapsed() >= MAX_TIME
            || of_this_thread().saturating_sub(self.cpu) >= MAX_CPU_TIME
            || !processes::is_alive(self.proc_root, self.id)
    }
}

/// A server and what it was told. A part that cannot be read is left out; of one that has gone, only the
/// identity is left. A server that has only just begun has no data directory and listens nowhere yet:
/// describe it again later. However much there is to read, it takes no longer than [`MAX_TIME`], where the
/// kernel does not keep it waiting.
pub fn describe(proc_root: &Path, id: ServerId, roles: &dyn Roles) -> (Server, Settings) {
    let pid = id.pid;
    let mut server = Server::new(id, String::new());
    server.alive = processes::is_alive(proc_root, id);
    if !server.alive {
        return (server, Settings::default());
    }
    server.comm = processes::find(proc_root, pid).map(|group| group.comm).unwrap_or_default();
    let limit = Limit { proc_root, id, started: Instant::now(), cpu: of_this_thread() };
    let over = || limit.is_over();
    let version = version::of_process(proc_root, pid, &over);
    let bounds = Bounds { also: roles.settings(), over: &over };
    let settings = Settings::of_server(proc_root, pid, version.as_ref(), &bounds);
    server.version = version.map(|version| version.to_string());
    server.engine = roles.engine(&server.comm, server.version.as_deref());
    server.datadir = settings.datadir().map(Path::to_owned);
    server.container = proc_file::read(&proc_root.join(format!("{pid}/cgroup")))
        .ok()
        .and_then(|text| container::of_cgroups(&text));
    let mount = server.datadir.as_deref().and_then(|datadir| mounts::mount_of_path(proc_root, pid, datadir));
    if let Some(mount) = mount {
        // An overlay's own number is no device's.
        let own = if mount.filesystem == "overlay" { mounts::own() } else { Vec::new() };
        let holder = mounts::upper_mount(&own, &mount).unwrap_or_else(|| mount.clone());
        server.device = Some(mounts::device_name([&holder], holder.device));
        server.mount = Some(holder.mount_point);
        server.filesystem = Some(mount.filesystem);
    }
    let open = OpenDescriptors::read(proc_root, pid, roles, &settings, &over);
    server.ports = listening::tcp_ports(proc_root, pid, &open.sockets);
    let sockets = listening::unix_paths(proc_root, pid, &open.sockets);
    server.known_by = KnownBy {
        described: true,
        listens: !server.ports.is_empty() || !sockets.is_empty(),
        owner: processes::owner(proc_root, pid),
        ..KnownBy::default()
    };
    server.socket = socket_path(sockets, &settings);
    known_by::read(proc_root, &mut server, &settings);
    server.notes = notes(&open, is_mapped(proc_root, pid, b"libeatmydata", &over), &settings);
    // The pid may have been reused while all this was read.
    server.alive = processes::is_alive(proc_root, id);
    if server.alive && over() {
        server.notes.push(format!(
            "Describing this server took too long ({} s, or {} s of a processor) and was cut off: some of its settings \
             may be missing, and with them the roles of some files.",
            MAX_TIME.as_secs(),
            MAX_CPU_TIME.as_secs()
        ));
    }
    (server, settings)
}

/// One line: which server it is. What it chose itself is escaped; one that has no name, or ended before its
/// name was read, is a process.
pub fn in_words(server: &Server) -> String {
    let name = Some(escape(server.comm.trim().as_bytes())).filter(|name| !name.is_empty());
    let mut parts = vec![format!("{} {}", name.as_deref().unwrap_or("process"), server.id.pid)];
    parts.extend(server.version.clone());
    parts.extend(server.datadir.as_ref().map(|path| escape(path.as_os_str().as_encoded_bytes())));
    parts.extend(server.container.as_ref().map(|name| format!("container {}", escape(name.as_bytes()))));
    if let (Some(filesystem), Some(device)) = (&server.filesystem, &server.device) {
        parts.push(format!("{filesystem} on {}", escape(device.as_bytes())));
    }
    parts.join(", ")
}

/// Facts from a server's open descriptors.
#[derive(Debug, Default, PartialEq, Eq)]
struct OpenDescriptors {
    sockets: BTreeSet<u64>,
    /// Open files of the redo log, and how many of them are opened so that each write is durable.
    redo: usize,
    redo_durable: usize,
}

impl OpenDescriptors {
    fn read(
        proc_root: &Path,
        pid: u32,
        roles: &dyn Roles,
        settings: &Settings,
        over: &dyn Fn() -> bool,
    ) -> OpenDescriptors {
        let mut open = OpenDescriptors::default();
        for (number, fd) in open_files::descriptors(proc_root, pid).take(DESCRIPTOR_LIMIT).enumerate() {
            if number % 64 == 63 && over() {
                break;
            }
            let Ok(link) = std::fs::read_link(proc_root.join(format!("{pid}/fd/{fd}"))) else { continue };
            if let Some(socket) = listening::socket_of_link(&link) {
                open.sockets.insert(socket);
            } else if link.is_absolute() && roles.is_redo(&link, settings) && !is_being_made(&link) {
                let Some(flags) = open_files::flags(proc_root, pid, fd) else { continue };
                open.redo += 1;
                open.redo_durable += usize::from(open_files::writes_are_durable(flags));
            }
        }
        open
    }
}

/// MySQL makes its next redo files as `#ib_redoN_tmp`, through descriptors that are never durable.
fn is_being_made(redo: &Path) -> bool {
    redo.as_os_str().as_encoded_bytes().ends_with(b"_tmp")
}

/// The socket that clients use: one that it really listens on before one that it was told.
fn socket_path(listening: Vec<PathBuf>, settings: &Settings) -> Option<PathBuf> {
    let is_x_protocol = |path: &PathBuf| path.file_name().is_some_and(|name| name == "mysqlx.sock");
    let real = listening.into_iter().find(|path| !is_x_protocol(path));
    // It was bound by the name that the server was told, which may be relative.
    real.map(|path| settings.resolved(&path).unwrap_or(path)).or_else(|| settings.socket())
}

fn notes(open: &OpenDescriptors, eatmydata: bool, settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if open.redo > 0 && open.redo == open.redo_durable {
        notes.push(durability::REDO_BY_WRITES.to_owned());
    }
    if eatmydata {
        notes.push(durability::SYNCS_DO_NOTHING.to_owned());
    }
    let nosync = settings.innodb_flush_method().is_some_and(|method| method.eq_ignore_ascii_case("nosync"));
    if nosync || settings.flag("debug_no_sync") == Some(true) {
        let setting = if nosync { "innodb_flush_method=nosync" } else { "debug_no_sync" };
        notes.push(format!("{setting} is set: the server leaves syncs out, and a crash can lose data."));
    }
    notes
}

/// True if a library of that name is mapped into the process.
fn is_mapped(proc_root: &Path, pid: u32, library: &[u8], over: &dyn Fn() -> bool) -> bool {
    let Ok(lines) = proc_file::lines(&proc_root.join(format!("{pid}/maps")), MAPS_LIMIT) else {
        return false;
    };
    let mut lines = lines.enumerate().take_while(|(number, _)| number % 256 != 255 || !over());
    lines.any(|(_, line)| {
        let name = line.rsplit(|&b| b == b'/').next().unwrap_or_default();
        line.contains(&b'/') && name.starts_with(library)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    struct NoRoles;

    impl Roles for NoRoles {
        fn settings(&self) -> &BTreeSet<String> {
            const { &BTreeSet::new() }
        }

        fn is_redo(&self, _: &Path, _: &Settings) -> bool {
            false
        }
    }

    /// All files in it.
    struct RedoIn(PathBuf);

    impl Roles for RedoIn {
        fn settings(&self) -> &BTreeSet<String> {
            const { &BTreeSet::new() }
        }

        fn is_redo(&self, path: &Path, _: &Settings) -> bool {
            path.starts_with(&self.0)
        }
    }

    #[test]
    fn a_process_that_is_no_server_is_described_as_far_as_it_goes() {
        let id = processes::find(Path::new("/proc"), std::process::id()).unwrap().id();
        let (server, _) = describe(Path::new("/proc"), id, &NoRoles);
        assert!(server.alive && !server.comm.is_empty());
        assert_eq!((server.datadir, server.notes), (None, vec![]));
        let gone = ServerId { start_ns: id.start_ns + 1_000_000_000, ..id };
        let (server, settings) = describe(Path::new("/proc"), gone, &NoRoles);
        assert_eq!((server.alive, server.comm.as_str(), settings), (false, "", Settings::default()));
    }

    #[test]
    fn a_server_without_a_name_has_one_in_words() {
        for comm in ["", " "] {
            let server = Server::new(ServerId { pid: 7, start_ns: 1 }, comm.into());
            assert_eq!(in_words(&server), "process 7");
        }
    }

    #[test]
    fn a_listening_port_and_socket_are_found_by_their_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db.sock");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let id = processes::find(Path::new("/proc"), std::process::id()).unwrap().id();
        let (server, _) = describe(Path::new("/proc"), id, &NoRoles);
        assert!(server.ports.contains(&tcp.local_addr().unwrap().port()), "{server:?}");
        // Other tests of this process may listen, too.
        let open =
            OpenDescriptors::read(Path::new("/proc"), id.pid, &NoRoles, &Settings::default(), &|| false);
        assert!(listening::unix_paths(Path::new("/proc"), id.pid, &open.sockets).contains(&path));
    }

    #[test]
    fn redo_files_that_are_being_made_tell_nothing_of_those_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str, flags| {
            let mut options = std::fs::File::options();
            options.create(true).write(true).custom_flags(flags).open(directory.path().join(name)).unwrap()
        };
        let of = || {
            let roles = RedoIn(directory.path().to_owned());
            let settings = Settings::default();
            let read =
                OpenDescriptors::read(Path::new("/proc"), std::process::id(), &roles, &settings, &|| false);
            (read.redo, read.redo_durable)
        };
        let _used = open("#ib_redo7", libc::O_DSYNC);
        let _made = open("#ib_redo8_tmp", 0);
        assert_eq!(of(), (1, 1));
        let _plain = open("#ib_redo9", 0);
        assert_eq!(of(), (2, 1));
    }

    #[test]
    fn the_redo_log_is_noted_only_if_all_of_it_is_durable_by_its_descriptors() {
        let none = Settings::default();
        let open = |redo, redo_durable| OpenDescriptors { redo, redo_durable, ..OpenDescriptors::default() };
        assert!(notes(&open(0, 0), false, &none).is_empty());
        assert!(notes(&open(2, 1), false, &none).is_empty());
        assert!(notes(&open(2, 2), false, &none)[0].starts_with("The redo log is written through O_DSYNC"));
        assert!(notes(&open(0, 0), true, &none)[0].starts_with("libeatmydata is loaded: "));
        let configured = Settings::from_pairs(Path::new("/d"), [("innodb_flush_method", "O_DSYNC")]);
        assert!(notes(&open(1, 0), false, &configured).is_empty(), "the configuration alone proves nothing");
        let nosync = Settings::from_pairs(Path::new("/d"), [("innodb_flush_method", "nosync")]);
        assert_eq!(notes(&open(1, 0), false, &nosync).len(), 1);
    }

    #[test]
    fn the_socket_of_clients_is_not_the_one_of_the_x_protocol() {
        let settings = Settings::from_pairs(Path::new("/d"), [("socket", "/told.sock")]);
        let path =
            |paths: &[&str]| socket_path(paths.iter().map(PathBuf::from).collect(), &settings).unwrap();
        assert_eq!(path(&["/run/mysqlx.sock", "/run/mysqld.sock"]), Path::new("/run/mysqld.sock"));
        assert_eq!(path(&["rel.sock"]), Path::new("/d/rel.sock"));
        // As text: two paths are equal whether or not a "." stands in one.
        assert_eq!(path(&["./rel.sock"]).to_str(), Some("/d/rel.sock"));
        assert_eq!(path(&["../run/rel.sock"]), Path::new("/run/rel.sock"));
        assert_eq!(path(&[]), Path::new("/told.sock"));
        let relative = Settings::from_pairs(Path::new("/d"), [("socket", "./mysql.sock")]);
        assert_eq!(socket_path(vec![], &relative).unwrap(), Path::new("/d/mysql.sock"));
    }
}
