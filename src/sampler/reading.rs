//! Takes in what the kernel side has sent, and reads the rows that changed.

use std::time::Instant;

use super::ledger::{self, Reading, Subject};
use super::{SOME, Sampler};
use crate::model::{FileId, Role, Target};
use crate::probe::record::{FIRST_FILE_SLOT, NO_SLOT};
use crate::probe::{Event, Row};

impl Sampler {
    /// Takes in what the programs have sent, a part at a time, so that it never fills the memory; not for
    /// ever, where it comes as fast as it is taken in. True if there may be more.
    pub(super) fn take_events(&mut self, rounds: usize) -> std::io::Result<bool> {
        for round in 0..rounds {
            let events = self.probe.take_events()?;
            if events.is_empty() {
                return Ok(false);
            }
            self.learn(events);
            self.took_events = Instant::now();
            self.probe.refill().map_err(std::io::Error::other)?;
            if round % SOME == SOME - 1 {
                self.fold();
            }
        }
        Ok(true)
    }

    fn learn(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::File(event) => {
                    if let Some(Subject::File { server, target: Target::File(file), .. }) =
                        Subject::of(&event.id)
                    {
                        self.expect_server(server);
                        self.notice_filling((server, file), &event);
                        self.names.learn((server, file), &event);
                        if file.part {
                            // What is unsynced is of the whole file, which may never be written otherwise.
                            self.names.learn((server, FileId { part: false, ..file }), &event);
                        }
                    }
                }
                Event::Sync(event) if event.slot == NO_SLOT => {
                    if let Some(Subject::File { server, .. }) = Subject::of(&event.id) {
                        self.expect_server(server);
                    }
                    self.ledger.count_event(&event.id, event.latency_ns, event.result);
                }
                Event::Sync(event) => {
                    self.has_unread_rows |= !self.ledger.has_read(event.slot, event.sequence);
                    self.ledger.enter_latency(&event.id, event.latency_ns);
                }
            }
        }
    }

    /// Reads the rows that changed. A row's histogram is read only then, and the errors only if some row had
    /// one. The kernel side adds to a row first, to the errors next, to the histogram last: read in the
    /// opposite order, nothing is missing from a row whose syncs have all ended.
    pub(super) fn read_rows(&mut self) -> std::io::Result<()> {
        self.ledger.begin_tick();
        self.names.begin_tick();
        self.taken_when_read = self.probe.rows_allocated();
        self.has_unread_rows = false;
        let mut failed = Vec::new();
        for slot in self.probe.slots_in_use() {
            let row = self.probe.row(slot)?;
            if self.ledger.look(slot, &row) != Reading::Changed {
                continue;
            }
            if !self.ledger.has_read(slot, row.sequence)
                && let Some(Subject::File { server, .. }) = Subject::of(&row.id)
            {
                self.shares.learn(server, row.share);
            }
            let is_cold = !self.probe.has_histogram(slot);
            let histogram = if is_cold { &[] } else { self.probe.histogram(slot, &row)? };
            self.ledger.enter(slot, &row, ledger::stats_of(&row, histogram), is_cold);
            if row.errors > 0 {
                failed.push((slot, row.sequence, row.errors));
            }
            self.attend(slot, &row);
        }
        if !failed.is_empty() {
            let errors = self.probe.errors(&failed)?;
            for (slot, sequence, failed) in failed {
                let by_errno = errors.get(&(slot, sequence)).map(Vec::as_slice);
                self.ledger.enter_errors(slot, ledger::errors_of(failed, by_errno));
            }
        }
        for slot in self.ledger.shared_slots() {
            self.ledger.enter_shared(slot, self.probe.shared_histogram(slot)?);
        }
        Ok(())
    }

    /// What a changed row asks for beside counting: a server to describe, a name, a shared histogram.
    fn attend(&mut self, slot: u32, row: &Row) {
        let subject = Subject::of(&row.id);
        if let Some(Subject::Thread { server, tid, start, .. }) = subject {
            self.servers.learn_thread(server, tid, start, [row.name, row.more]);
        }
        let Some(Subject::File { server, target, op }) = subject else { return };
        if slot < FIRST_FILE_SLOT {
            return;
        }
        self.expect_server(server);
        let mut role = Role::Other;
        if let Target::File(file) = target {
            role = self.names.attend((server, file), row.fd);
        }
        if !self.probe.has_histogram(slot)
            && row.shared_histogram == 0
            && let Some(shared) = self.ledger.shared_slot(server, role, op)
        {
            // A row that cannot be written is a row that goes on sending events.
            let _ = self.probe.share_histogram(slot, shared);
        }
    }
}
