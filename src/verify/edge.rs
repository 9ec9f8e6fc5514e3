//! One end of the window. The server's counters and ours cannot be read at the same instant, so the
//! server's are read before and after: ours lie between the two, and are equal to them if nothing moved.

use std::time::{Duration, Instant};

use crate::model::{InFlight, ServerId, Snapshot};
use crate::sampler::Sampler;
use crate::server::mysql::durable_writes::DurableWrites;
use crate::server::mysql::status::Connection;
use crate::server::mysql::status::reading::Reading;
use crate::server::status::Scope;
use crate::server::status::StatusError;

/// How long to wait for a quiet moment.
const QUIET_TIMEOUT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub(crate) enum EdgeError {
    #[error(transparent)]
    Status(#[from] StatusError),
    #[error("cannot read the probes' figures: {0}")]
    Sampler(#[from] std::io::Error),
}

/// Our figures, between two readings of the server's.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub before: Reading,
    pub snapshot: Snapshot,
    pub after: Reading,
    /// Nothing moved shortly afterwards either: no thread is between its sync and the counting of it.
    pub is_quiet: bool,
}

impl Edge {
    /// Waits for a quiet moment; after the timeout, the edge with the least movement. `settings`: a reading
    /// with variables. `scope`: what is compared.
    pub fn find(
        sampler: &mut Sampler,
        connection: &mut Connection,
        settings: &Reading,
        scope: Scope,
        server: ServerId,
    ) -> Result<Edge, EdgeError> {
        let end = Instant::now() + QUIET_TIMEOUT;
        let mut best: Option<Edge> = None;
        loop {
            let edge = Edge::read(sampler, connection, settings, scope)?;
            if best.as_ref().is_none_or(|best| edge.width(server) < best.width(server)) {
                best = Some(edge);
            }
            match best.take_if(|best| best.width(server) == 0 || Instant::now() >= end) {
                Some(best) => return best.confirm_quiet(sampler, connection, scope, server),
                None => sampler.wait(PAUSE)?,
            }
        }
    }

    /// Checks whether the server is really idle, or was merely quiet for a moment.
    fn confirm_quiet(
        self,
        sampler: &mut Sampler,
        connection: &mut Connection,
        scope: Scope,
        server: ServerId,
    ) -> Result<Edge, EdgeError> {
        if self.width(server) > 0 {
            return Ok(self);
        }
        sampler.wait(PAUSE)?;
        let later = connection.read(scope)?.with_variables_of(&self.after);
        Ok(Edge { is_quiet: moved(&self.after, &later) == 0, ..self })
    }

    fn read(
        sampler: &mut Sampler,
        connection: &mut Connection,
        settings: &Reading,
        scope: Scope,
    ) -> Result<Edge, EdgeError> {
        let before = connection.read(scope)?.with_variables_of(settings);
        let snapshot = sampler.snapshot()?;
        let after = connection.read(scope)?.with_variables_of(settings);
        Ok(Edge { before, snapshot, after, is_quiet: false })
    }

    /// The number of syncs that may lie on either side of this edge.
    fn width(&self, server: ServerId) -> u64 {
        moved(&self.before, &self.after).saturating_add(self.in_flight(server))
    }

    /// Syncs that had started but not finished, the larger count of both sides.
    pub fn in_flight(&self, server: ServerId) -> u64 {
        let is_one = |sync: &&InFlight| sync.server == server && sync.op.makes_durable();
        let traced = self.snapshot.in_flight.iter().filter(is_one).count() as u64;
        traced.max(self.before.pending_syncs()).max(self.after.pending_syncs())
    }
}

/// By how much the counters of what is compared grew from one reading to the next.
fn moved(from: &Reading, to: &Reading) -> u64 {
    let writes = DurableWrites::by_settings(to).redo.map(|_| "innodb_log_writes");
    let numbers: u64 =
        ["innodb_data_fsyncs", "binlog_group_commits", "binlog_cache_use", "aria_transaction_log_syncs"]
            .into_iter()
            .chain(writes)
            .filter_map(|name| to.number(name)?.checked_sub(from.number(name)?))
            .sum();
    let sum = |reading: &Reading| reading.binlog_files.iter().flat_map(|files| files.values()).sum::<u64>();
    let written = |reading: &Reading| reading.written.iter().flat_map(|kinds| kinds.values()).sum::<u64>();
    numbers + sum(to).abs_diff(sum(from)) + written(to).abs_diff(written(from))
}
