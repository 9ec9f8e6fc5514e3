//! The combined filters, and the processes that match them now.

use std::path::Path;

use super::filter::TargetFilter;
use super::processes::{self, ThreadGroup};
use crate::model::Server;

const PROC: &str = "/proc";

/// Processes that any of some filters selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection(Vec<TargetFilter>);

impl Selection {
    /// Without a filter, the servers.
    pub fn new(filters: Vec<TargetFilter>) -> Selection {
        Selection(if filters.is_empty() { vec![TargetFilter::default()] } else { filters })
    }

    /// A process and all that it will start.
    pub fn tree(pid: u32) -> Selection {
        Selection(vec![TargetFilter::Tree(pid)])
    }

    pub(crate) fn filters(&self) -> &[TargetFilter] {
        &self.0
    }

    /// Whether it selects a server that another program has traced, dead or alive. `alive`: those that it
    /// selects now.
    pub fn takes(&self, server: &Server, alive: &[ThreadGroup]) -> bool {
        let is_now = || alive.iter().any(|process| processes::same_server(process.id(), server.id));
        self.0.iter().any(|filter| match filter {
            TargetFilter::All => true,
            TargetFilter::Comms(_) | TargetFilter::Servers(_) => {
                filter.names().contains(server.comm.as_bytes())
            }
            TargetFilter::Pids(_)
            | TargetFilter::Cgroups(_)
            | TargetFilter::Members { .. }
            | TargetFilter::Tree(_) => false,
        }) || is_now()
    }

    pub fn describe(&self) -> String {
        self.0.iter().map(TargetFilter::describe).collect::<Vec<_>>().join(" or ")
    }

    /// The same without an article: "mysqld or mariadbd".
    pub fn name(&self) -> String {
        let description = self.describe();
        description.strip_prefix("a ").map_or_else(|| description.clone(), str::to_owned)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.contains(&TargetFilter::All)
    }

    /// The processes that are selected now, but for this one. Reads a file of each process of the host.
    pub fn processes(&self) -> Vec<ThreadGroup> {
        let mut found: Vec<_> =
            self.0.iter().flat_map(|filter| processes::list(Path::new(PROC), filter)).collect();
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        let me = std::process::id();
        found.retain(|process| process.pid != me);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServerId;

    #[test]
    fn a_server_that_another_program_traced_is_selected_by_its_name_or_while_it_lives() {
        let own = processes::find(Path::new(PROC), std::process::id()).unwrap();
        let server = |comm: &str, id| Server::new(id, comm.to_owned());
        let gone = ServerId { pid: own.pid, start_ns: 1 };
        let by_name = Selection::new(Vec::new());
        assert!(by_name.takes(&server("mariadbd", gone), &[]));
        assert!(!by_name.takes(&server("syncgen", gone), &[]));
        let by_pid = Selection::new(vec![TargetFilter::Pids(vec![own.pid])]);
        let alive = [own.clone()];
        assert!(by_pid.takes(&server("postgres", own.id()), &alive));
        assert!(!by_pid.takes(&server("postgres", gone), &alive), "another process that had its number");
        assert!(Selection::new(vec![TargetFilter::All]).takes(&server("postgres", gone), &[]));
    }
}
