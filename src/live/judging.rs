//! A judge that is fed as the sampling goes, and is told which of the files that keep a server failing are
//! still open. That is looked up on a thread of its own: whoever feeds it waits for nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::State;
use crate::files::resolve::may_have_open;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::model::{FileId, ServerId, Snapshot};
use crate::verdict::{Judge, Thresholds, Tracing, Verdicts};

/// One search at a time; a thread more may hang. The judge keeps a few files of each server.
const SEARCHES: Share = Share { threads: 1, with_abandoned: 2, queue: 64 };
const LOOK_AGAIN: Duration = Duration::from_secs(2);
const SEARCH_TIME: Duration = Duration::from_millis(200);
const SEARCH_TIMEOUT: Duration = Duration::from_secs(1);

type File = (ServerId, FileId);

pub(crate) struct Judging {
    judge: Judge,
    interval: Duration,
    searches: Pool<(), File, (File, bool)>,
    searched: Instant,
}

impl Judging {
    /// `interval`: from one snapshot to the next, as it is asked for.
    pub fn new(thresholds: Thresholds, interval: Duration) -> Judging {
        let limits = Limits::for_one_owner(SEARCHES, SEARCH_TIMEOUT);
        let search = |&(server, file): &File| {
            let until = Instant::now() + SEARCH_TIME;
            Some(((server, file), may_have_open(Path::new("/proc"), server.pid, file, until)))
        };
        Judging {
            judge: Judge::new(thresholds),
            interval,
            searches: Pool::new("verdict", limits, search),
            searched: Instant::now(),
        }
    }

    /// Given every snapshot, and the latest one again where the state has changed.
    pub fn follow(&mut self, snapshot: &Snapshot, state: &State) -> Arc<Verdicts> {
        while let Some(((server, file), is_open)) = self.searches.poll() {
            if !is_open {
                self.judge.closed(server, file);
            }
        }
        let verdicts = self.judge.update(snapshot, &tracing(state, self.interval));
        if self.searched.elapsed() >= LOOK_AGAIN && self.searches.pending() == 0 {
            self.searched = Instant::now();
            for file in self.judge.failed_files() {
                // What finds no room is looked for the next time.
                self.searches.submit((), file);
            }
        }
        verdicts
    }

    /// An operator knows of the failures of a server. Returns of how many files.
    pub fn acknowledge(&mut self, server: ServerId) -> usize {
        self.judge.acknowledge(server)
    }
}

fn tracing(state: &State, interval: Duration) -> Tracing {
    match state {
        State::Running => Tracing::Running { interval },
        State::Degraded { interval } => Tracing::Running { interval: *interval },
        State::Paused { why } => Tracing::Not { why: why.clone() },
        State::Failed { why } => Tracing::Not { why: format!("tracing failed: {why}") },
        State::Stopped => Tracing::Not { why: "tracing has ended".into() },
    }
}
