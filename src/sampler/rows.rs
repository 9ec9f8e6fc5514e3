//! The rows of a snapshot, out of the books.

use std::sync::Arc;
use std::time::Instant;

use super::Sampler;
use super::ledger::Subject;
use crate::model::histogram::Histogram;
use crate::model::{FileInfo, FileRow, Lost, NeighbourRow, Op, Role, ServerId, Stats, Target, ThreadRow};
use crate::probe::Counters;

pub(super) struct Rows {
    pub files: Vec<FileRow>,
    pub failures: Vec<FileRow>,
    pub writes: Vec<FileRow>,
    pub threads: Vec<ThreadRow>,
    pub neighbours: Vec<NeighbourRow>,
}

impl Sampler {
    pub(super) fn rows(&mut self) -> Rows {
        let (mut files, mut threads, mut neighbours) = (Vec::new(), Vec::new(), Vec::new());
        for account in self.ledger.accounts() {
            let stats = account.stats.clone();
            match &account.subject {
                Subject::File { server, target, op } => {
                    let info = match target {
                        Target::File(file) => self.names.info(&(*server, *file)).clone(),
                        Target::Filesystem(device) => Arc::new(FileInfo {
                            device: Some(self.devices.name(*device).into()),
                            ..FileInfo::nameless(Role::Other)
                        }),
                        Target::Gone(role) => {
                            Arc::new(FileInfo { open: false, unlinked: true, ..FileInfo::nameless(*role) })
                        }
                        _ => Arc::new(FileInfo::nameless(Role::Other)),
                    };
                    account.shown_as.set(Some(info.role));
                    files.push(FileRow { server: *server, target: *target, op: *op, info, stats });
                }
                // Rows of threads are about syncs.
                Subject::Thread { op, .. } if !op.makes_durable() => {}
                Subject::Thread { server, tid, start, op } => {
                    let name =
                        self.servers.thread_name(*server, *tid, *start, self.ledger.has_changed(account));
                    threads.push(ThreadRow {
                        server: *server,
                        tid: *tid,
                        start: *start,
                        name,
                        op: *op,
                        stats,
                    });
                }
                Subject::Neighbour { device, comm } => neighbours.push(NeighbourRow {
                    device_number: *device,
                    device: self.devices.name(*device),
                    mount: self.devices.mount_point(*device),
                    comm: comm.clone(),
                    stats,
                }),
            }
        }
        for (server, role, op, histogram) in self.ledger.shared() {
            files.push(shared_row(server, role, op, histogram));
        }
        let (mut files, mut writes): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|row| row.op.makes_durable());
        files.sort_by_key(|row| (row.server, row.target, row.op));
        writes.sort_by_key(|row| (row.server, row.target, row.op));
        let mut failures: Vec<_> = writes.iter().filter_map(failures).collect();
        failures.extend(self.writeback_rows());
        failures.sort_by_key(|row| (row.server, row.target, row.op));
        if !self.probe.attached().ops().contains(&Op::Write) {
            writes.clear(); // they hold nothing else
        }
        threads.sort_by_key(|row| (row.server, row.tid, row.start, row.op));
        neighbours.sort_by(|a, b| (a.device_number, &a.comm).cmp(&(b.device_number, &b.comm)));
        Rows { files, failures, writes, threads, neighbours }
    }

    pub(super) fn lost(&self, files: &[FileRow], taken: Instant) -> Lost {
        let counters = self.probe.counters();
        let of = |wanted: fn(&FileRow) -> bool| files.iter().filter(move |row| wanted(row));
        let unattributed = of(|row| row.target == Target::Unattributed).map(|row| row.stats.count).sum();
        let nameless = of(|row| matches!(row.target, Target::File(_)) && row.info.path.is_none()).count();
        Lost {
            preempted: preempted(&counters),
            files: unattributed,
            events: counters.latencies_dropped,
            names: nameless as u64,
            errors: counters.errors_dropped,
            threads: counters.no_call_state,
            processes: counters.processes_dropped,
            unwatched: counters.unwatched,
            neighbours_unwatched: counters.neighbours_unwatched,
            unreported: counters.unreported,
            writeback_errors: counters.writeback_errors_dropped,
            paused: self.paused(taken),
        }
    }
}

/// Of a row of writes, those that failed.
fn failures(row: &FileRow) -> Option<FileRow> {
    let (count, errors) = (row.stats.error_count(), row.stats.errors.clone());
    (count > 0).then(|| FileRow { stats: Stats { count, errors, ..Stats::default() }, ..row.clone() })
}

/// Traced calls of which the kernel skipped a program. An exit without an entry is one if its thread had
/// entered before. Of a thread that never had, it is one only if the kernel says that an entry was skipped;
/// else the call began before the probes did. A skipped exit shows when its thread enters again; until then
/// it is not known whose it was, and it is counted here.
fn preempted(counters: &Counters) -> u64 {
    let certain = counters.exits_of_skipped_entries;
    let entries =
        certain + counters.exits_without_entry.min(counters.entries_skipped.saturating_sub(certain));
    let attributed = counters.entries_without_exit + counters.neighbour_entries_without_exit;
    entries + counters.entries_without_exit + counters.exits_skipped.saturating_sub(attributed)
}

/// The latencies that the cold files of a role share: they belong to the role, and their counts stand in the
/// files' own rows.
fn shared_row(server: ServerId, role: Role, op: Op, histogram: &Histogram) -> FileRow {
    let stats = Stats { histogram: histogram.clone(), ..Stats::default() };
    FileRow { server, target: Target::Shared(role), op, info: Arc::new(FileInfo::nameless(role)), stats }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_began_before_the_probes_is_not_lost() {
        let before = Counters { exits_without_entry: 3, ..Counters::default() };
        assert_eq!(preempted(&before), 0);
        let skipped = Counters { entries_skipped: 2, exits_skipped: 5, ..before };
        assert_eq!(preempted(&skipped), 7);
        // Two of the exits turned out to be a neighbour's, one was traced, two are still open.
        let shown = Counters { entries_without_exit: 1, neighbour_entries_without_exit: 2, ..skipped };
        assert_eq!(preempted(&shown), 5);
    }
}
