//! Servers whose processes are all called `java`: known by the class that each was started with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::processes;
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::linux::blocking::Threads;
use crate::model::Engine;
use crate::server::what::launch::Launch;

/// What the launcher of every Java program calls its process.
pub(crate) const LAUNCHER: &str = "java";

/// A process that keeps its command line from being read is passed over.
static THREADS: Threads = Threads::new("main-class", 8);
const TIMEOUT: Duration = Duration::from_millis(250);

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

/// The processes that are servers of these engines now.
pub(crate) fn running(engines: &Arc<Engines>, of: &[Arc<Engine>]) -> Vec<u32> {
    if of.iter().all(|engine| engine.main_classes.is_empty()) {
        return Vec::new();
    }
    let proc_root = Path::new(PROC);
    let is_java = |&pid: &u32| processes::comm(proc_root, pid).is_some_and(|comm| comm == LAUNCHER);
    let pids: Vec<u32> = processes::all_pids(proc_root).filter(is_java).collect();
    let engines = engines.clone();
    let (found, _) = THREADS.for_each(pids, TIMEOUT, move |&pid, emit| {
        emit(engine_of(Path::new(PROC), &engines, pid, LAUNCHER).map(|engine| (pid, engine)));
    });
    let is_asked = |engine: &Arc<Engine>| of.iter().any(|one| one.name == engine.name);
    found.into_iter().filter(|(_, engine)| is_asked(engine)).map(|(pid, _)| pid).collect()
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
