//! Filters for the traced processes, validated before anything is loaded: a typo is an error, not an empty
//! trace.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::engines::Engines;
use crate::linux::mountinfo::{self, Mount};
use crate::linux::rooted;
use crate::model::{Engine, ServerId};
use crate::server::who::instances::Instances;
use crate::server::who::processes;

/// The kernel keeps so much of a name (TASK_COMM_LEN without its NUL).
pub(crate) const COMM_LENGTH: usize = 15;

/// The name of a thread group's leader, as the kernel keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm(Vec<u8>);

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Of version 2, as bpf_get_current_cgroup_id and bpf_get_current_ancestor_cgroup_id give it.
    pub id: u64,
    /// Of its ancestors the root is level 0.
    pub level: u32,
    pub directory: PathBuf,
}

/// Which thread groups are traced.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetFilter {
    /// Those whose leader has one of these names.
    Comms(Vec<Comm>),
    /// The servers of these engines: those whose leader has one of their names.
    Servers(Vec<Arc<Engine>>),
    Pids(Vec<u32>),
    /// Servers of engines that the names of their processes do not tell: those that ran when they were looked
    /// for.
    Running {
        engines: Vec<Arc<Engine>>,
        servers: Vec<ServerId>,
    },
    /// Those in one of these control groups or below.
    Cgroups(Vec<Cgroup>),
    /// Those that were in a control group of version 1, or below, when it was looked at, and all their
    /// descendants: the kernel side can compare control groups of version 2 only.
    Members {
        directory: PathBuf,
        pids: Vec<u32>,
    },
    /// A process and all its descendants.
    Tree(u32),
    All,
}

/// Why a filter cannot be meant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FilterError {
    #[error("a process name cannot be empty")]
    EmptyComm,
    #[error(
        "the process name {name:?} is too long: the kernel keeps {COMM_LENGTH} bytes, so ask for {kept:?}"
    )]
    LongComm { name: String, kept: String },
    #[error("the process name {0:?} contains a NUL byte, which no name can")]
    NulInComm(String),
    #[error("there is no process {0}")]
    NoProcess(u32),
    #[error("{pid} is a thread of the process {leader}: trace that one")]
    NotALeader { pid: u32, leader: u32 },
    #[error("no control groups are mounted here: select by --pid or --comm")]
    NoCgroups,
    #[error("there is no control group {}", .0.display())]
    NoCgroup(PathBuf),
    #[error(
        "no process is in the control group {}: it is of version 1, of which only those can be traced that are in it \
         from the start. Select by --pid or --comm",
        .0.display()
    )]
    EmptyCgroup(PathBuf),
}

impl Comm {
    pub fn new(name: &str) -> Result<Comm, FilterError> {
        if name.is_empty() {
            return Err(FilterError::EmptyComm);
        }
        if name.contains('\0') {
            return Err(FilterError::NulInComm(name.to_owned()));
        }
        if name.len() > COMM_LENGTH {
            let kept = String::from_utf8_lossy(&name.as_bytes()[..COMM_LENGTH]).into_owned();
            return Err(FilterError::LongComm { name: name.to_owned(), kept });
        }
        Ok(Comm(name.as_bytes().to_vec()))
    }

    /// One to fifteen bytes, without a NUL.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Default for TargetFilter {
    /// The servers: of every engine that comes with the program and is told by its command.
    fn default() -> Self {
        TargetFilter::Servers(Engines::builtin().with_processes().cloned().collect())
    }
}

impl TargetFilter {
    /// The names by which it selects, each once.
    pub fn names(&self) -> BTreeSet<&[u8]> {
        match self {
            TargetFilter::Comms(comms) => comms.iter().map(Comm::bytes).collect(),
            TargetFilter::Servers(engines) => {
                engines.iter().flat_map(|engine| &engine.commands).map(String::as_bytes).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    pub fn comms(names: &[String]) -> Result<TargetFilter, FilterError> {
        Ok(TargetFilter::Comms(names.iter().map(|name| Comm::new(name)).collect::<Result<_, _>>()?))
    }

    /// The servers of these processes. All must be alive, and leaders: a thread's number would match nothing.
    pub fn pids(proc_root: &Path, engines: &Engines, pids: &[u32]) -> Result<TargetFilter, FilterError> {
        for &pid in pids {
            match processes::of_thread(proc_root, pid) {
                Some(leader) if leader == pid => {}
                Some(leader) => return Err(FilterError::NotALeader { pid, leader }),
                None => return Err(FilterError::NoProcess(pid)),
            }
        }
        let mut instances = Instances::new(proc_root, engines);
        Ok(TargetFilter::Pids(pids.iter().map(|&pid| instances.first_of(pid)).collect()))
    }

    /// A path of the file system, or as /proc/PID/cgroup shows it. Of version 2, unless only a hierarchy of
    /// version 1 has it.
    pub fn cgroup(proc_root: &Path, path: &Path) -> Result<TargetFilter, FilterError> {
        let mounts = mountinfo::of_process(proc_root, std::process::id());
        let (unified, others): (Vec<Mount>, Vec<Mount>) = mounts
            .filter(|mount| mount.filesystem.starts_with("cgroup"))
            .partition(|mount| mount.filesystem == "cgroup2");
        if unified.is_empty() && others.is_empty() {
            return Err(FilterError::NoCgroups);
        }
        if let Some(found) = unified.first().and_then(|mount| cgroup(mount, path)) {
            return Ok(TargetFilter::Cgroups(vec![found]));
        }
        // A group has the same path in several hierarchies, and need not have members in each.
        let mut found = None;
        for group in others.iter().filter_map(|mount| cgroup(mount, path)) {
            let pids = processes::members(&group.directory);
            let directory = group.directory;
            match pids.is_empty() {
                false => return Ok(TargetFilter::Members { directory, pids }),
                true => found = found.or(Some(directory)),
            }
        }
        Err(found.map_or_else(|| FilterError::NoCgroup(path.to_owned()), FilterError::EmptyCgroup))
    }

    /// What was looked for, for messages: "a process called dd or cp", "a server of MySQL, PostgreSQL or
    /// etcd".
    pub fn describe(&self) -> String {
        /// "a, b or c"
        fn list(items: impl Iterator<Item = String>) -> String {
            let items: Vec<String> = items.collect();
            match items.split_last() {
                Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
                _ => items.concat(),
            }
        }
        match self {
            TargetFilter::Comms(comms) => {
                let names = comms.iter().map(|comm| comm.0.escape_ascii().to_string());
                format!("a process called {}", list(names))
            }
            TargetFilter::Servers(engines) => {
                format!("a server of {}", list(engines.iter().map(|engine| engine.title.clone())))
            }
            TargetFilter::Pids(pids) => format!("process {}", list(pids.iter().map(u32::to_string))),
            TargetFilter::Running { servers, .. } => {
                format!("process {}", list(servers.iter().map(|server| server.pid.to_string())))
            }
            TargetFilter::Cgroups(cgroups) => {
                let paths = cgroups
                    .iter()
                    .map(|cgroup| cgroup.directory.as_os_str().as_bytes().escape_ascii().to_string());
                format!("a process in the control group {}", list(paths))
            }
            TargetFilter::Members { directory, .. } => {
                let path = directory.as_os_str().as_bytes().escape_ascii();
                format!("a process that was in the control group {path} from the start")
            }
            TargetFilter::Tree(pid) => format!("process {pid} or a descendant of it"),
            TargetFilter::All => "any process".to_owned(),
        }
    }
}

fn cgroup(mount: &Mount, path: &Path) -> Option<Cgroup> {
    let below = path.strip_prefix(&mount.mount_point).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let directory = mount.mount_point.join(below).canonicalize().ok()?;
    let below = directory.strip_prefix(&mount.mount_point).ok()?;
    let attributes = rooted::attributes_of(&directory).ok()?;
    if !attributes.is_directory || attributes.device != mount.device {
        return None;
    }
    // Of a mount inside a cgroup namespace, the levels above it count, too; "/" is where the hierarchy
    // begins.
    let above =
        mount.root.components().filter(|part| matches!(part, std::path::Component::Normal(_))).count();
    let level = (above + below.components().count()) as u32;
    Some(Cgroup { id: attributes.inode, level, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_process_can_have_are_refused_with_the_cure() {
        let message = |name: &str| Comm::new(name).unwrap_err().to_string();
        assert_eq!(message(""), "a process name cannot be empty");
        assert!(message("a\0b").contains("NUL"));
        assert_eq!(
            message("my-long-database-server"),
            "the process name \"my-long-database-server\" is too long: the kernel keeps 15 bytes, so ask for \
             \"my-long-databas\""
        );
        assert_eq!(Comm::new("fifteen-bytes-x").unwrap().bytes(), b"fifteen-bytes-x");
        assert!(TargetFilter::comms(&["mysqld".into(), String::new()]).is_err());
    }

    #[test]
    fn the_default_is_the_servers_of_every_engine() {
        let servers = TargetFilter::default();
        let names = ["mysqld", "mysqld-debug", "mariadbd", "postgres", "postmaster", "edb-postgres", "etcd"];
        for name in names.iter().chain(&["redis-server", "valkey-server"]) {
            assert!(servers.names().contains(name.as_bytes()), "{name}");
        }
        assert_eq!(
            servers.describe(),
            "a server of MySQL, MariaDB, PostgreSQL, etcd, Redis, Valkey, Kafka or ZooKeeper"
        );
        let two = TargetFilter::comms(&["mysqld".into(), "mariadbd".into()]).unwrap();
        assert_eq!(two.describe(), "a process called mysqld or mariadbd");
    }

    #[test]
    fn pids_must_be_leaders_and_alive() {
        let pids = |pid| TargetFilter::pids(Path::new("/proc"), &Engines::builtin(), &[pid]);
        assert_eq!(pids(std::process::id()).unwrap(), TargetFilter::Pids(vec![std::process::id()]));
        assert_eq!(pids(0x7fff_fff0), Err(FilterError::NoProcess(0x7fff_fff0)));
        let tid = rustix::fs::readlinkat(rustix::fs::CWD, "/proc/thread-self", Vec::new()).unwrap();
        let tid: u32 = tid.to_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        assert_eq!(pids(tid), Err(FilterError::NotALeader { pid: tid, leader: std::process::id() }));
    }

    #[test]
    fn a_control_group_is_found_by_either_spelling_and_not_outside_the_hierarchy() {
        let dir = tempfile::tempdir().unwrap();
        let mount_point = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(mount_point.join("system.slice/mysql.service")).unwrap();
        std::fs::write(mount_point.join("file"), "").unwrap();
        std::os::unix::fs::symlink("/usr", mount_point.join("out")).unwrap();
        let attributes = rooted::attributes_of(&mount_point.join("system.slice/mysql.service")).unwrap();
        let mount = Mount {
            id: 1,
            device: attributes.device,
            root: "/".into(),
            mount_point: mount_point.clone(),
            filesystem: "cgroup2".into(),
            source: "cgroup2".into(),
            options: Vec::new(),
        };
        let absolute = mount_point.join("system.slice/mysql.service");
        for path in
            [&absolute, Path::new("/system.slice/mysql.service"), Path::new("system.slice/mysql.service/")]
        {
            let found = cgroup(&mount, path).unwrap();
            assert_eq!((found.id, found.level, &found.directory), (attributes.inode, 2, &absolute));
        }
        assert_eq!(cgroup(&mount, Path::new("/")).unwrap().level, 0);
        for path in ["nothing", "file", "..", "out", "../../usr"] {
            assert_eq!(cgroup(&mount, Path::new(path)), None, "{path}");
        }
    }
}
