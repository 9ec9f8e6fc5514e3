//! The verdicts of one moment. Immutable: whoever asks later is told how old they are, and is not given what
//! is too old.

use std::time::{Duration, Instant, SystemTime};

use super::{Because, State};
use crate::model::{Durability, Server, ServerId, durability};

/// Beyond three intervals: what a snapshot of thousands of files takes on a host that is busy.
const GRACE: Duration = Duration::from_secs(2);

/// What the tracing does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// Snapshots come one interval apart.
    Running { interval: Duration },
    /// Nothing is counted now.
    Not { why: String },
}

/// Of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub server: ServerId,
    pub state: State,
    /// When it was first found to be in this state, without a break.
    pub since: Instant,
    pub since_wall: SystemTime,
    pub because: Option<Because>,
    /// Of what it lies on. None: nobody has looked.
    pub storage: Option<Durability>,
}

/// Whether what a server syncs is durable at all, as far as anybody has looked.
pub(super) fn storage_of(server: &Server) -> Option<Durability> {
    let is_known = server.data_storage().next().is_some() || durability::syncs_do_nothing(server);
    is_known.then(|| server.durability())
}

/// Of all servers that were there.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// When the snapshot was taken that they follow from.
    pub made: Instant,
    pub made_wall: SystemTime,
    /// For so long they say something.
    pub valid_for: Duration,
    pub tracing: Tracing,
    /// In the order of their numbers.
    pub servers: Vec<Verdict>,
}

impl Verdicts {
    pub(super) fn valid_for(tracing: &Tracing) -> Duration {
        match tracing {
            Tracing::Running { interval } => interval.saturating_mul(3).saturating_add(GRACE),
            Tracing::Not { .. } => GRACE,
        }
    }

    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.made)
    }

    /// They are too old: of no server is known how it stands.
    pub fn is_stale(&self, now: Instant) -> bool {
        self.age(now) > self.valid_for
    }

    /// As they are to be told now.
    pub fn at(&self, now: Instant) -> Vec<Verdict> {
        self.servers.iter().map(|verdict| self.told(verdict, now)).collect()
    }

    /// That of one server; None if there is no such server.
    pub fn of(&self, server: ServerId, now: Instant) -> Option<Verdict> {
        let verdict = self.servers.iter().find(|verdict| verdict.server == server)?;
        Some(self.told(verdict, now))
    }

    /// Unknown if there is no server.
    pub fn worst(&self, now: Instant) -> State {
        if self.is_stale(now) {
            return State::Unknown;
        }
        self.servers.iter().map(|verdict| verdict.state).max().unwrap_or(State::Unknown)
    }

    fn told(&self, verdict: &Verdict, now: Instant) -> Verdict {
        // What was unknown before has been for longer.
        if !self.is_stale(now) || verdict.state == State::Unknown {
            return verdict.clone();
        }
        let why = match &self.tracing {
            Tracing::Running { .. } => "the last look at it is too old".to_owned(),
            Tracing::Not { why } => why.clone(),
        };
        let wall = self.made_wall.checked_add(self.valid_for).unwrap_or(self.made_wall);
        Verdict {
            server: verdict.server,
            state: State::Unknown,
            since: self.made.checked_add(self.valid_for).unwrap_or(self.made),
            since_wall: wall,
            because: Some(Because::unknown(why)),
            storage: verdict.storage.clone(),
        }
    }
}
