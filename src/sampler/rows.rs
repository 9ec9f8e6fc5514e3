//! The rows of a snapshot, out of the books.

use std::sync::Arc;
use std::time::Instant;

use super::Sampler;
use super::ledger::Subject;
use crate::host::kernel::parse_version;
use crate::linux::mounts;
use crate::model::histogram::Histogram;
use crate::model::{
    AttachMode, FileInfo, FileRow, Lost, NeighbourRow, Op, Role, ServerId, Stats, Target, ThreadRow,
};
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
                    if !op.makes_durable() && is_made_up(&info) {
                        continue;
                    }
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
                Subject::Neighbour { device, comm } => neighbours.push((*device, comm.clone(), stats)),
            }
        }
        let unwatched = self
            .unwatched
            .by_neighbour()
            .map(|((device, comm), untimed)| (*device, comm.clone(), Stats { untimed, ..Stats::default() }));
        neighbours.extend(unwatched);
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
        let neighbours = self.neighbours(neighbours);
        Rows { files, failures, writes, threads, neighbours }
    }

    /// One row for each device and command.
    fn neighbours(&mut self, mut all: Vec<(u32, String, Stats)>) -> Vec<NeighbourRow> {
        // Nobody waits for what is made durable there; the self-test of another fsynctop is.
        all.retain(|(device, ..)| !self.devices.is_memory(*device));
        all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let mut rows: Vec<NeighbourRow> = Vec::with_capacity(all.len());
        for (device_number, comm, stats) in all {
            match rows.last_mut().filter(|row| row.device_number == device_number && row.comm == comm) {
                Some(row) => row.stats.merge(&stats),
                None => rows.push(NeighbourRow {
                    device_number,
                    device: self.devices.name(device_number),
                    mount: self.devices.mount_point(device_number),
                    comm,
                    stats,
                }),
            }
        }
        rows
    }

    /// Whether the kernel says how often it skipped the entry of a call: of tracepoints since 6.7. In the
    /// other modes no call ends that has not begun but for that.
    fn knows_skipped_entries(&self) -> bool {
        let counts = |kernel: &str| parse_version(kernel).is_some_and(|version| version >= (6, 7));
        self.setup.mode == AttachMode::Tracepoint && counts(&self.setup.kernel)
    }

    pub(super) fn lost(&self, files: &[FileRow], taken: Instant) -> Lost {
        let counters = self.probe.counters();
        let of = |wanted: fn(&FileRow) -> bool| files.iter().filter(move |row| wanted(row));
        let unattributed = of(|row| row.target == Target::Unattributed).map(|row| row.stats.count).sum();
        // Not all that have none have lost it.
        let nameless = of(|row| matches!(row.target, Target::File(_)) && row.info.path.is_none()).count();
        let (preempted, answered) = lone_ends(&counters, self.knows_skipped_entries());
        Lost {
            preempted,
            answered,
            files: unattributed,
            events: counters.latencies_dropped,
            names: counters.names_dropped.min(nameless as u64),
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

/// A file of the kernel's own making: nothing of it is stored, and nothing can be lost.
pub(super) fn is_made_up(info: &FileInfo) -> bool {
    info.filesystem.as_deref().is_some_and(mounts::stores_nothing)
}

/// Of a row of writes, those that failed.
fn failures(row: &FileRow) -> Option<FileRow> {
    let (count, errors) = (row.stats.error_count(), row.stats.errors.clone());
    (count > 0).then(|| FileRow { stats: Stats { count, errors, ..Stats::default() }, ..row.clone() })
}

/// Traced calls of which the kernel skipped a program, and those that were answered before it ran them. An
/// exit without an entry is one of the former only as often as the kernel says that it skipped an entry; the
/// others had none, because a seccomp filter or a tracer answered the call (the exit is traced all the same),
/// or because they began before the probes did. Where the kernel does not say (`knows_skipped` is false), an
/// entry was skipped if the thread had entered before. A skipped exit shows when its thread enters again;
/// until then it is not known whose it was, and it is counted as skipped.
fn lone_ends(counters: &Counters, knows_skipped: bool) -> (u64, u64) {
    let certain = if knows_skipped { 0 } else { counters.exits_of_skipped_entries };
    let lone = counters.exits_of_skipped_entries + counters.exits_without_entry;
    let entries = certain + (lone - certain).min(counters.entries_skipped.saturating_sub(certain));
    let attributed = counters.entries_without_exit + counters.neighbour_entries_without_exit;
    let exits = counters.entries_without_exit + counters.exits_skipped.saturating_sub(attributed);
    (entries + exits, if knows_skipped { lone - entries } else { 0 })
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
        let preempted = |counters: &Counters| {
            assert_eq!(lone_ends(counters, true).0, lone_ends(counters, false).0);
            lone_ends(counters, true).0
        };
        assert_eq!(preempted(&before), 0);
        let skipped = Counters { entries_skipped: 2, exits_skipped: 5, ..before };
        assert_eq!(preempted(&skipped), 7);
        // Two of the exits turned out to be a neighbour's, one was traced, two are still open.
        let shown = Counters { entries_without_exit: 1, neighbour_entries_without_exit: 2, ..skipped };
        assert_eq!(preempted(&shown), 5);
    }

    #[test]
    fn a_call_that_a_filter_answered_is_lost_only_where_the_kernel_skipped_an_entry() {
        let answered =
            Counters { exits_of_skipped_entries: 90, exits_without_entry: 10, ..Counters::default() };
        assert_eq!(lone_ends(&answered, true), (0, 100));
        assert_eq!(lone_ends(&Counters { entries_skipped: 3, ..answered }, true), (3, 97));
        assert_eq!(lone_ends(&Counters { entries_skipped: 200, ..answered }, true), (100, 0));
        assert_eq!(lone_ends(&answered, false), (90, 0), "nothing is denied where the kernel does not count");
    }
}
