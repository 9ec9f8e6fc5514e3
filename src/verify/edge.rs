//! One end of the window. The server's counters and ours cannot be read at the same instant, so the
//! server's are read before and after: ours lie between the two, and are equal to them if nothing moved.

use std::time::{Duration, Instant};

use super::row::Verification;
use crate::model::{InFlight, Server, ServerId, Snapshot};
use crate::sampler::Sampler;
use crate::server::asking::connection::{Client, Connection};
use crate::server::asking::{Counted, Scope, StatusError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum EdgeError {
    #[error(transparent)]
    Status(#[from] StatusError),
    #[error("cannot read the probes' figures: {0}")]
    Sampler(#[from] std::io::Error),
}

/// A server's counters at one moment.
pub(crate) trait Counts: Clone {
    /// How long to wait for a quiet moment, and between two looks.
    const PATIENCE: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_millis(20);
    /// What is waited for at both ends, where that may take long.
    const WAITS_FOR: Option<&str> = None;
    /// How long figures are kept, of a time that may be long enough ago when patience ends.
    const EARLY: Duration = Duration::ZERO;

    /// Compares a server's figures between two edges.
    fn compare(server: &Server, first: &Edge<Self>, last: &Edge<Self>) -> Verification;
    /// These counters, with the settings of another reading, which asked for them.
    fn with_settings_of(self, other: &Self) -> Self;
    /// By how much the counters of what is compared grew from one reading to the next.
    fn moved(from: &Self, to: &Self) -> u64;
    /// Transactions that it committed meanwhile. None: it does not count them.
    fn transactions(_from: &Self, _to: &Self) -> Option<Counted> {
        None
    }
    /// Counters were set back, or stopped counting, between one reading and the next.
    fn is_reset(_from: &Self, _to: &Self) -> bool {
        false
    }
    /// Syncs that the server says it is in.
    fn pending_syncs(&self) -> u64;
    /// All that happened before has been counted.
    fn is_settled(&self) -> bool {
        true
    }
}

/// Syncs and durable writes in flight. A recording has one line for all of a role, with the call of the
/// oldest: any of the others may be one of these.
pub(super) fn durable_in_flight(in_flight: &[InFlight], server: ServerId) -> u64 {
    let is_one = |sync: &&InFlight| sync.server == server && (sync.op.makes_durable() || sync.count > 1);
    in_flight.iter().filter(is_one).map(|sync| sync.count).fold(0, u64::saturating_add)
}

/// Compares them, and says what was committed meanwhile.
pub(crate) fn compared<R: Counts>(server: &Server, first: &Edge<R>, last: &Edge<R>) -> Verification {
    let verification = R::compare(server, first, last);
    let is_sound = verification.interrupted.is_none();
    let transactions = if is_sound { R::transactions(&first.after, &last.after) } else { None };
    Verification { transactions, ..verification }
}

/// Our figures, between two readings of the server's.
#[derive(Clone, Debug)]
pub(crate) struct Edge<R> {
    pub before: R,
    pub snapshot: Snapshot,
    pub after: R,
    /// Nothing moved shortly afterwards either: no thread is between its sync and the counting of it.
    pub is_quiet: bool,
    /// Our figures of the time in which a quiet moment was waited for, the earliest first.
    pub earlier: Vec<Snapshot>,
}

impl<R: Counts> Edge<R> {
    /// Waits for a quiet moment; after the timeout, the edge with the least movement. `settings`: a reading
    /// with settings. `scope`: what is compared.
    pub fn find<C: Client<Reading = R>>(
        sampler: &mut Sampler,
        connection: &mut Connection<C>,
        settings: &R,
        scope: Scope,
        server: ServerId,
    ) -> Result<Edge<R>, EdgeError> {
        let begin = Instant::now();
        let end = begin + R::PATIENCE;
        let mut best: Option<Edge<R>> = None;
        let mut earlier = Vec::new();
        loop {
            let edge = Edge::read(sampler, connection, settings, scope)?;
            let is_settled = edge.after.is_settled();
            if !is_settled && begin.elapsed() <= R::EARLY {
                earlier.push(edge.snapshot.clone());
            }
            // Of those that are not settled the last one is best: most is known of what was before it.
            let is_better = |best: &Edge<R>| {
                !best.after.is_settled() || is_settled && edge.width(server) < best.width(server)
            };
            if best.as_ref().is_none_or(is_better) {
                best = Some(edge);
            }
            let is_found = |best: &mut Edge<R>| best.after.is_settled() && best.width(server) == 0;
            match best.take_if(|best| is_found(best) || Instant::now() >= end) {
                Some(best) => {
                    let best = Edge { earlier, ..best };
                    return best.confirm_quiet(sampler, connection, settings, scope, server);
                }
                None => sampler.wait(R::PAUSE)?,
            }
        }
    }

    /// Checks whether the server is really idle, or was merely quiet for a moment.
    fn confirm_quiet<C: Client<Reading = R>>(
        self,
        sampler: &mut Sampler,
        connection: &mut Connection<C>,
        settings: &R,
        scope: Scope,
        server: ServerId,
    ) -> Result<Edge<R>, EdgeError> {
        if self.width(server) > 0 || !self.after.is_settled() {
            return Ok(self);
        }
        sampler.wait(R::PAUSE)?;
        let later = Edge::read(sampler, connection, settings, scope)?;
        let stood_still = R::moved(&self.after, &later.after) == 0;
        // What begins one sync after the other and then counts both may be in the second one.
        let is_quiet = stood_still && later.in_flight(server) == 0 && later.after.is_settled();
        Ok(Edge { is_quiet, ..self })
    }

    fn read<C: Client<Reading = R>>(
        sampler: &mut Sampler,
        connection: &mut Connection<C>,
        settings: &R,
        scope: Scope,
    ) -> Result<Edge<R>, EdgeError> {
        let before = connection.read(scope)?.with_settings_of(settings);
        let snapshot = sampler.snapshot()?;
        let after = connection.read(scope)?.with_settings_of(settings);
        Ok(Edge { before, snapshot, after, is_quiet: false, earlier: Vec::new() })
    }

    /// The number of syncs that may lie on either side of this edge.
    fn width(&self, server: ServerId) -> u64 {
        R::moved(&self.before, &self.after).saturating_add(self.in_flight(server))
    }

    /// Syncs that had started but not finished, the larger count of both sides.
    pub fn in_flight(&self, server: ServerId) -> u64 {
        let traced = durable_in_flight(&self.snapshot.in_flight, server);
        traced.max(self.before.pending_syncs()).max(self.after.pending_syncs())
    }
}
