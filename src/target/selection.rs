//! What selects the processes that are traced, and those that are selected now.

use std::path::Path;

use super::filter::TargetFilter;
use super::processes::{self, ThreadGroup};

const PROC: &str = "/proc";

/// Processes that any of some filters selects.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    pub fn filters(&self) -> &[TargetFilter] {
        &self.0
    }

    pub fn describe(&self) -> String {
        self.0.iter().map(TargetFilter::describe).collect::<Vec<_>>().join(" or ")
    }

    pub fn is_everything(&self) -> bool {
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
