//! Syncs outside of the watched calls, by server.

use std::collections::BTreeMap;

use super::Sampler;
use crate::model::ServerId;
use crate::server::processes::cut_to_tick;

/// What is known of them.
#[derive(Default)]
pub(super) struct Unwatched {
    /// How many there were when the processes were last read.
    read_at: u64,
    /// (thread group, its start, syncs)
    processes: Vec<(u32, u64, u64)>,
}

fn server(&(pid, start_ns, _): &(u32, u64, u64)) -> ServerId {
    cut_to_tick(ServerId { pid, start_ns })
}

impl Sampler {
    /// Reads the processes, if there is anything new. One that only does what is not watched is a server,
    /// too.
    pub(super) fn read_unwatched(&mut self) -> std::io::Result<()> {
        let total = self.probe.unwatched_count();
        if total == self.unwatched.read_at {
            return Ok(());
        }
        let processes = self.probe.unwatched().map_err(std::io::Error::other)?;
        processes.iter().for_each(|process| self.expect_server(server(process)));
        self.unwatched = Unwatched { read_at: total, processes };
        Ok(())
    }

    /// By server, in their order.
    pub(super) fn unwatched_by_server(&self) -> Vec<(ServerId, u64)> {
        let mut by_server: BTreeMap<ServerId, u64> = BTreeMap::new();
        for process in &self.unwatched.processes {
            *by_server.entry(server(process)).or_default() += process.2;
        }
        by_server.into_iter().collect()
    }

    /// These servers are remembered no longer.
    pub(super) fn forget_unwatched(&mut self, is_gone: impl Fn(ServerId) -> bool) {
        let processes = std::mem::take(&mut self.unwatched.processes);
        let (gone, kept): (Vec<_>, Vec<_>) =
            processes.into_iter().partition(|process| is_gone(server(process)));
        self.unwatched.processes = kept;
        let gone: Vec<(u32, u64)> = gone.into_iter().map(|(pid, start, _)| (pid, start)).collect();
        if !gone.is_empty() {
            self.probe.forget_unwatched(&gone);
        }
    }
}
