//! Servers whose processes are all called `java`: known by the class that each was started with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::owner;
use super::processes::{self, ThreadGroup};
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::linux::blocking::Threads;
use crate::model::{Engine, Owner, ServerId};
use crate::server::what::launch::Launch;

/// What the launcher of every Java program calls its process.
pub(crate) const LAUNCHER: &str = "java";

/// Of one owner so many Java processes are asked. Others are counted, as are those that do not answer.
const MOST_OF_ONE: usize = 256;
/// Reading a command line takes microseconds. A process that keeps its own from being read is passed over.
static THREADS: Threads = Threads::new("main-class", 64);
const TIMEOUT: Duration = Duration::from_millis(50);
/// For all of them together, services first.
const DEADLINE: Duration = Duration::from_secs(2);

/// The engine of such a process. May wait for the process's memory lock.
pub(in crate::server) fn engine_of(
    proc_root: &Path,
    engines: &Engines,
    pid: u32,
    comm: &str,
) -> Option<Arc<Engine>> {
    if comm != LAUNCHER {
        return None;
    }
    engines.by_main_class(&Launch::read(proc_root, pid, &[])?.command_line)
}

/// The processes that are servers of these engines now, and how many Java processes were not asked or did not
/// answer.
pub(crate) fn running(engines: &Arc<Engines>, of: &[Arc<Engine>]) -> (Vec<ServerId>, usize) {
    if of.iter().all(|engine| engine.main_classes.is_empty()) {
        return (Vec::new(), 0);
    }
    let proc_root = Path::new(PROC);
    let is_java = |&pid: &u32| processes::comm(proc_root, pid).is_some_and(|comm| comm == LAUNCHER);
    let mut by_owner: BTreeMap<Owner, Vec<u32>> = BTreeMap::new();
    for pid in processes::all_pids(proc_root).filter(is_java) {
        by_owner.entry(owner::of_process(proc_root, pid)).or_default().push(pid);
    }
    let end = Instant::now() + DEADLINE;
    let (mut running, mut unknown) = (Vec::new(), 0);
    // After some that hang, no other of a list is asked: each owner has its own.
    for mut pids in by_owner.into_values() {
        unknown += pids.len().saturating_sub(MOST_OF_ONE);
        pids.truncate(MOST_OF_ONE);
        if Instant::now() > end {
            unknown += pids.len();
            continue;
        }
        let engines = engines.clone();
        let (answers, silent) = THREADS.for_each(pids, TIMEOUT, move |&pid, emit| {
            let proc_root = Path::new(PROC);
            let process = (Instant::now() <= end).then(|| processes::find(proc_root, pid)).flatten();
            let asked = |process: ThreadGroup| (process.id(), engine_of(proc_root, &engines, pid, LAUNCHER));
            emit(Some(process.map(asked)));
        });
        unknown += silent + answers.iter().filter(|answer| answer.is_none()).count();
        let is_asked = |engine: &Arc<Engine>| of.iter().any(|one| one.name == engine.name);
        let found = answers.into_iter().flatten().filter(|(_, engine)| engine.as_ref().is_some_and(is_asked));
        running.extend(found.map(|(server, _)| server));
    }
    (running, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_java_process_is_an_engines_by_its_main_class_and_no_other_process_is() {
        let proc_root = tempfile::tempdir().unwrap();
        let engine = |comm: &str, command_line: &[&str]| {
            std::fs::create_dir_all(proc_root.path().join("7")).unwrap();
            let words = command_line.iter().map(|word| format!("{word}\0")).collect::<String>();
            std::fs::write(proc_root.path().join("7/cmdline"), words).unwrap();
            let engine = engine_of(proc_root.path(), &Engines::builtin(), 7, comm);
            engine.map(|engine| engine.name.clone())
        };
        let kafka = ["/opt/java/bin/java", "-Xmx1G", "-cp", "/k/libs/*", "kafka.Kafka", "server.properties"];
        assert_eq!(engine("java", &kafka).as_deref(), Some("kafka"));
        assert_eq!(engine("mysqld", &kafka), None);
        let quorum = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
        let standalone = "org.apache.zookeeper.server.ZooKeeperServerMain";
        for class in [quorum, standalone] {
            assert_eq!(engine("java", &["java", class, "zoo.cfg"]).as_deref(), Some("zookeeper"));
        }
        // Clients and tools of theirs, and programs that merely have them on their path.
        for other in ["org.apache.zookeeper.ZooKeeperMain", "kafka.Kafka2", "/libs/kafka.Kafka.jar"] {
            assert_eq!(engine("java", &["java", "-cp", "/k/libs/zookeeper-3.9.4.jar", other]), None);
        }
        assert_eq!(engine("java", &["kafka.Kafka"]), None, "a program's name is no argument");
        assert_eq!(engine("java", &[]), None);
    }
}
