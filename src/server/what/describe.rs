//! What a server is, without a connection to it: everything comes from /proc and the files of its own root.
//! It reads the process's memory map and its file systems, so it can wait where those are stuck, and it takes
//! some milliseconds the first time: once per server, on a thread of its own, never on a hot path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::linux::cpu_time::of_this_thread;
use crate::linux::open_files::DescriptorInfo;
use crate::linux::rooted::Root;
use crate::linux::storage::Storage;
use crate::linux::{mounts, open_files, proc_file};
use crate::model::{KnownBy, Server, ServerId, StorageStack, durability};
use crate::server::adapters;
use crate::server::what::adapter::Process;
use crate::server::what::open_log::OpenLog;
use crate::server::what::roles::Roles;
use crate::server::what::settings::{Bounds, Settings};
use crate::server::what::{container, known_by, version};
use crate::server::who::{instances, listening, main_class, processes, proof};
use crate::text::escape;

/// How many of a server's descriptors are looked at: it opens its sockets and its redo log early.
const DESCRIPTOR_LIMIT: usize = 4096;
/// Processes of one server whose descriptors are looked at. Those that write the log all the time are begun
/// first.
const MAX_PROCESSES: usize = 64;
/// How much of a memory map is searched: 65,530 mappings at most, where vm.max_map_count is as it comes.
const MAPS_LIMIT: u64 = 16 << 20;

/// Mounts of files that a server has open for writing: of so many it is looked what they lie on, among as
/// many of the files that are no logs.
const MAX_MOUNTS: usize = 16;
const MAX_OTHERS: usize = 256;
/// Settings that name a directory in which a log lies.
const LOG_DIRECTORIES: [&str; 2] = ["innodb_log_group_home_dir", "wal_dir"];
/// Settings that name a log's files, without the suffix that the server appends.
const LOG_FILES: [&str; 1] = ["log_bin"];
/// Directories of logs below the data directory, any of which may be a link or a mount of its own.
const LOGS_IN_DATADIR: [&str; 4] = ["pg_wal", "member/wal", "appendonlydir", "#innodb_redo"];
/// /proc/PID/status, `Seccomp` (include/uapi/linux/seccomp.h).
const SECCOMP_MODE_FILTER: u32 = 2;

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
    let root = Root::of_process(proc_root, pid).ok();
    let version = version::of_process(proc_root, pid, &over);
    server.engine = roles
        .engine(&server.comm, version.as_ref().map(ToString::to_string).as_deref())
        .or_else(|| main_class::engine_of(proc_root, &roles.engines(), pid, &server.comm));
    let adapter = adapters::of_process(version.as_ref(), server.engine.as_deref());
    let process = Process {
        proc_root,
        pid,
        root: root.as_ref(),
        version: version.as_ref(),
        datadir: server.engine.as_ref().map(|engine| engine.datadir).unwrap_or_default(),
    };
    let settings = adapter.settings(&process, &Bounds { also: roles.settings(), over: &over });
    server.datadir = settings.datadir().map(Path::to_owned);
    let by_datadir = || adapter.version_of_datadir(root.as_ref()?, server.datadir.as_deref()?);
    server.version = version.clone().or_else(by_datadir).map(|version| version.to_string());
    server.engine = server.engine.or_else(|| roles.engine(&server.comm, server.version.as_deref()));
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
    server.seccomp_filters = seccomp_filters(proc_root, pid);
    let engine = server.engine.clone();
    let mut open = OpenDescriptors::default();
    let is_log =
        |path: &Path| adapter.is_log_in_use(path, &|| roles.is_redo(path, engine.as_deref(), &settings));
    let members = || instances::members(proc_root, &roles.engines(), &[pid]);
    let others = if adapter.works_in_children() { members() } else { Vec::new() };
    let others = others.into_iter().filter(|&other| other != pid).take(MAX_PROCESSES);
    for pid in std::iter::once(pid).chain(others) {
        open.read(proc_root, pid, &is_log, &over);
    }
    server.storage = stacks(pid, server.datadir.as_deref(), &settings, &over);
    add_others(proc_root, &open.mounts, &mut server.storage);
    server.ports = listening::tcp_ports(proc_root, pid, &open.sockets);
    let sockets = listening::unix_paths(proc_root, pid, &open.sockets);
    server.known_by = KnownBy {
        described: true,
        listens: !server.ports.is_empty() || !sockets.is_empty(),
        owner: processes::owner(proc_root, pid),
        ..KnownBy::default()
    };
    let listens_on_socket = !sockets.is_empty();
    let told = adapter.complete(&process, &mut server, sockets, &settings);
    known_by::read(root.as_ref(), &mut server, told);
    proof::complete(proc_root, &mut server, listens_on_socket);
    let by_writes = adapter.log_by_writes().filter(|_| open.log.is_durable_by_writes());
    let eatmydata = is_mapped(proc_root, pid, b"libeatmydata", &over).then_some(durability::SYNCS_DO_NOTHING);
    server.notes = by_writes.into_iter().chain(eatmydata).map(str::to_owned).collect();
    server.notes.extend(adapter.notes(&settings));
    if processes::is_32_bit(proc_root, pid) {
        server.notes.push(durability::SYNCS_OF_32_BITS.to_owned());
    }
    if let Some(engine) = &server.engine {
        let setting = |name: &str| settings.number(&name.replace('-', "_"));
        server.thresholds = engine.thresholds.iter().map(|threshold| threshold.told(setting)).collect();
    }
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
    parts.extend(server.product().map(str::to_owned));
    parts.extend(server.datadir.as_ref().map(|path| escape(path.as_os_str().as_encoded_bytes())));
    parts.extend(server.container.as_ref().map(|name| format!("container {}", escape(name.as_bytes()))));
    if let (Some(filesystem), Some(device)) = (&server.filesystem, &server.device) {
        parts.push(format!("{filesystem} on {}", escape(device.as_bytes())));
    }
    parts.join(", ")
}

/// Facts from a server's open descriptors.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct OpenDescriptors {
    sockets: BTreeSet<u64>,
    pub log: OpenLog,
    /// Mounts of files that can be written, each with a process that sees it.
    mounts: BTreeMap<i32, u32>,
}

impl OpenDescriptors {
    /// Adds those of a process.
    pub fn read(
        &mut self,
        proc_root: &Path,
        pid: u32,
        is_log: &dyn Fn(&Path) -> bool,
        over: &dyn Fn() -> bool,
    ) {
        let mut others = 0;
        for (number, fd) in open_files::descriptors(proc_root, pid).take(DESCRIPTOR_LIMIT).enumerate() {
            if number % 64 == 63 && over() {
                break;
            }
            let Ok(link) = std::fs::read_link(proc_root.join(format!("{pid}/fd/{fd}"))) else { continue };
            if let Some(socket) = listening::socket_of_link(&link) {
                self.sockets.insert(socket);
            } else if link.is_absolute() {
                let is_log = is_log(&link);
                others += usize::from(!is_log);
                if !is_log && (others > MAX_OTHERS || self.mounts.len() == MAX_MOUNTS) {
                    continue;
                }
                let Some(info) = DescriptorInfo::read(proc_root, pid, fd) else { continue };
                let Some(flags) = info.flags else { continue };
                if is_log {
                    self.log.add(flags);
                }
                let mount =
                    info.mount_id.filter(|_| open_files::writes(flags) && self.mounts.len() < MAX_MOUNTS);
                self.mounts.extend(mount.map(|mount| (mount, pid)));
            }
        }
    }
}

/// What the data directory and the logs lie on, each mount once.
fn stacks(
    pid: u32,
    datadir: Option<&Path>,
    settings: &Settings,
    over: &dyn Fn() -> bool,
) -> Vec<StorageStack> {
    let below = |datadir: &Path| LOGS_IN_DATADIR.map(|log| datadir.join(log));
    let directories = LOG_DIRECTORIES.iter().filter_map(|name| settings.path(name));
    let parents = LOG_FILES.iter().filter_map(|name| Some(settings.path(name)?.parent()?.to_owned()));
    let places = datadir.into_iter().flat_map(below).chain(directories).chain(parents);
    let mut stacks: Vec<StorageStack> = Vec::new();
    for place in datadir.map(Path::to_owned).into_iter().chain(places) {
        if over() {
            // What was not looked at is not known.
            stacks.clear();
            break;
        }
        let storage = Storage::seen_by(pid, &place).map(|storage| storage.stack(true));
        stacks.extend(storage.ok().filter(|stack| !stacks.contains(stack)));
    }
    stacks
}

/// Mounts of other files that are open for writing: an engine of which no settings are known has its logs
/// there.
fn add_others(proc_root: &Path, mounts: &BTreeMap<i32, u32>, stacks: &mut Vec<StorageStack>) {
    for (&mount, &pid) in mounts {
        let Some(mount) = mounts::mount_of(proc_root, pid, mount) else { continue };
        if stacks.iter().all(|stack| stack.mount != mount.mount_point) {
            stacks.push(Storage::of_mount(&mount).stack(false));
        }
    }
}

/// How many seccomp filters a process has: those of its first thread. Kernels before 5.9 say only that there
/// are some.
fn seccomp_filters(proc_root: &Path, pid: u32) -> u32 {
    let status = proc_file::read(&proc_root.join(format!("{pid}/status"))).unwrap_or_default();
    let field = |name: &[u8]| {
        let value = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(name))?;
        std::str::from_utf8(value).ok()?.trim().parse::<u32>().ok()
    };
    match field(b"Seccomp:") {
        Some(SECCOMP_MODE_FILTER) => field(b"Seccomp_filters:").unwrap_or(1),
        _ => 0,
    }
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
    use super::*;
    use crate::linux::child::Sleeper;
    use std::sync::Arc;

    use crate::model::{Datadir, Engine};

    struct NoRoles;

    impl Roles for NoRoles {
        fn settings(&self) -> &BTreeSet<String> {
            const { &BTreeSet::new() }
        }

        fn is_redo(&self, _: &Path, _: Option<&Engine>, _: &Settings) -> bool {
            false
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

    /// Every process is of this engine.
    struct Of(Engine);

    impl Roles for Of {
        fn engine(&self, _: &str, _: Option<&str>) -> Option<Arc<Engine>> {
            Some(Arc::new(self.0.clone()))
        }

        fn settings(&self) -> &BTreeSet<String> {
            const { &BTreeSet::new() }
        }

        fn is_redo(&self, _: &Path, _: Option<&Engine>, _: &Settings) -> bool {
            false
        }
    }

    #[test]
    fn of_another_engine_the_profile_says_whether_it_works_in_its_data_directory() {
        // This program itself has versions of servers in its text.
        let directory = tempfile::tempdir().unwrap();
        let works_in = directory.path().canonicalize().unwrap();
        let child = Sleeper::of(std::process::Command::new("sleep").current_dir(&works_in));
        let id = processes::find(Path::new("/proc"), child.id()).unwrap().id();
        let postgres = crate::model::fixture::engine("postgres").unwrap();
        for (name, datadir, expected) in [
            ("redis", Datadir::WorkingDirectory, Some(works_in.clone())),
            ("etcd", Datadir::Settings, None),
            // It is told by what lies in the directory.
            ("postgres", Datadir::WorkingDirectory, None),
        ] {
            let engine = Engine { name: name.into(), datadir, ..(*postgres).clone() };
            let (server, settings) = describe(Path::new("/proc"), id, &Of(engine));
            assert_eq!((server.datadir, server.version), (expected.clone(), None), "{name}");
            let relative = settings.resolved(Path::new("dump.rdb"));
            assert_eq!(relative, expected.map(|directory| directory.join("dump.rdb")), "{name}");
        }
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
        let mut open = OpenDescriptors::default();
        open.read(Path::new("/proc"), id.pid, &|_| false, &|| false);
        assert!(listening::unix_paths(Path::new("/proc"), id.pid, &open.sockets).contains(&path));
    }
}
