//! The combined filters, and the processes that match them now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::filter::TargetFilter;
use super::instances::Instances;
use super::processes::{self, ThreadGroup};
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::linux::proc_file::PF_KTHREAD;
use crate::model::{Engine, Server, ServerId};

/// Processes that any of some filters selects.
#[derive(Clone, Debug)]
pub struct Selection {
    filters: Vec<TargetFilter>,
    engines: Arc<Engines>,
}

impl Selection {
    /// Without a filter, the servers. `engines`: some have servers of several processes.
    pub fn new(engines: Arc<Engines>, mut filters: Vec<TargetFilter>) -> Selection {
        if filters.is_empty() {
            filters.push(TargetFilter::default());
        }
        Selection { filters, engines }
    }

    pub(crate) fn filters(&self) -> &[TargetFilter] {
        &self.filters
    }

    pub(crate) fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    /// Whether it selects a server that another program has traced, dead or alive. `alive`: those that it
    /// selects now.
    pub fn takes(&self, server: &Server, alive: &[ThreadGroup]) -> bool {
        let is_now = || alive.iter().any(|process| processes::same_server(process.id(), server.id));
        self.filters.iter().any(|filter| match filter {
            TargetFilter::All => true,
            TargetFilter::Comms(_) | TargetFilter::Servers(_) => {
                filter.names().contains(server.comm.as_bytes())
            }
            TargetFilter::Running { engines, .. } => {
                let is_its = |engine: &Arc<Engine>| engines.iter().any(|one| one.name == engine.name);
                server.engine.as_ref().is_some_and(is_its)
            }
            TargetFilter::Pids(_)
            | TargetFilter::Cgroups(_)
            | TargetFilter::Members { .. }
            | TargetFilter::Tree(_) => false,
        }) || is_now()
    }

    pub fn describe(&self) -> String {
        self.filters.iter().map(TargetFilter::describe).collect::<Vec<_>>().join(" or ")
    }

    /// The same without an article: "mysqld or mariadbd".
    pub fn name(&self) -> String {
        let description = self.describe();
        description.strip_prefix("a ").map_or_else(|| description.clone(), str::to_owned)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.filters.contains(&TargetFilter::All)
    }

    /// The processes that are selected now, but for this one. Reads a file of each process of the host.
    pub fn processes(&self) -> Vec<ThreadGroup> {
        let list = |filter| list(Path::new(PROC), &self.engines, filter);
        let mut found: Vec<_> = self.filters.iter().flat_map(list).collect();
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        let me = std::process::id();
        found.retain(|process| process.pid != me);
        found
    }
}

/// The servers, and other thread groups, that the filter selects, ascending by pid: of a server of several
/// processes, the first.
pub fn list(proc_root: &Path, engines: &Engines, filter: &TargetFilter) -> Vec<ThreadGroup> {
    let mut instances = Instances::new(proc_root, engines);
    match filter {
        TargetFilter::Pids(pids) => instances.servers_of(pids.iter().copied()),
        TargetFilter::Running { servers, .. } => {
            // A number that is used again is another's.
            let alive = |server: &&ServerId| processes::is_alive(proc_root, **server);
            instances.servers_of(servers.iter().filter(alive).map(|server| server.pid))
        }
        TargetFilter::Comms(_) | TargetFilter::Servers(_) => {
            let names = filter.names();
            let has_one = |&pid: &u32| {
                processes::comm_bytes(proc_root, pid).is_some_and(|comm| names.contains(&comm[..]))
            };
            instances.servers_of(processes::all_pids(proc_root).filter(has_one))
        }
        TargetFilter::Cgroups(cgroups) => {
            instances.servers_of(cgroups.iter().flat_map(|cgroup| processes::members(&cgroup.directory)))
        }
        TargetFilter::Tree(root) => instances.servers_of(trees(proc_root, std::slice::from_ref(root))),
        TargetFilter::Members { pids, .. } => instances.servers_of(trees(proc_root, pids)),
        TargetFilter::All => {
            let makes_calls = |pid: &u32| {
                processes::read(proc_root, *pid).is_some_and(|(_, stat)| stat.flags & PF_KTHREAD == 0)
            };
            instances.servers_of(processes::all_pids(proc_root).filter(makes_calls))
        }
    }
}

/// These processes and all their descendants.
fn trees(proc_root: &Path, roots: &[u32]) -> Vec<u32> {
    let parent = |pid: u32| u32::try_from(processes::read(proc_root, pid)?.1.ppid).ok();
    let parents: BTreeMap<u32, u32> =
        processes::all_pids(proc_root).filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let roots: BTreeSet<u32> = roots.iter().copied().collect();
    let descends = |&pid: &u32| {
        // A chain cannot be longer than there are processes, but one that changes under the walk might loop.
        let mut ancestors =
            std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(parents.len());
        ancestors.any(|ancestor| roots.contains(&ancestor))
    };
    parents.keys().copied().filter(descends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::child::Sleeper;
    use crate::server::who::filter::{Cgroup, Comm};

    fn pids(filter: &TargetFilter) -> Vec<u32> {
        list(Path::new(PROC), &Engines::builtin(), filter).iter().map(|group| group.pid).collect()
    }

    #[test]
    fn a_server_that_another_program_traced_is_selected_by_its_name_or_while_it_lives() {
        let own = processes::find(Path::new(PROC), std::process::id()).unwrap();
        let server = |comm: &str, id| Server::new(id, comm.to_owned());
        let gone = ServerId { pid: own.pid, start_ns: 1 };
        let selection = |filters| Selection::new(Engines::builtin(), filters);
        let by_name = selection(Vec::new());
        assert!(by_name.takes(&server("mariadbd", gone), &[]));
        assert!(!by_name.takes(&server("syncgen", gone), &[]));
        let by_pid = selection(vec![TargetFilter::Pids(vec![own.pid])]);
        let alive = [own.clone()];
        assert!(by_pid.takes(&server("postgres", own.id()), &alive));
        assert!(!by_pid.takes(&server("postgres", gone), &alive), "another process that had its number");
        assert!(selection(vec![TargetFilter::All]).takes(&server("postgres", gone), &[]));
    }

    #[test]
    fn this_process_is_found_by_each_filter() {
        let me = std::process::id();
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(pids(&TargetFilter::Pids(vec![me, me])), [me]);
        assert!(pids(&TargetFilter::Comms(vec![Comm::new(comm.trim_end()).unwrap()])).contains(&me));
        assert!(!pids(&TargetFilter::Comms(vec![Comm::new("no-such-name").unwrap()])).contains(&me));
        assert!(pids(&TargetFilter::All).contains(&me));
        let all = list(Path::new(PROC), &Engines::builtin(), &TargetFilter::All);
        assert!(all.iter().all(|group| group.comm != "kthreadd"), "kernel threads make no system calls");
    }

    #[test]
    fn descendants_are_found_and_siblings_are_not() {
        let child = Sleeper::start();
        let me = std::process::id();
        let tree = pids(&TargetFilter::Tree(me));
        assert!(tree.contains(&me) && tree.contains(&child.id()));
        assert_eq!(pids(&TargetFilter::Tree(child.id())), [child.id()]);
    }

    #[test]
    fn members_of_a_control_group_include_those_below_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("cgroup.procs"), "0\n").unwrap();
        std::fs::write(dir.path().join("a/b/cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        let cgroup = Cgroup { id: 1, level: 1, directory: dir.path().into() };
        assert_eq!(pids(&TargetFilter::Cgroups(vec![cgroup])), [std::process::id()]);
    }
}
