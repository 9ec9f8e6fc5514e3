//! A judge that is fed as the sampling goes, and is told which of the files that keep a server failing are
//! still open. That is looked up on a thread of its own: whoever feeds it waits for nothing.

use std::sync::Arc;
use std::time::Duration;

use super::{Published, State};
use crate::engine::engines::Engines;
use crate::files::still_open::StillOpen;
use crate::model::ServerId;
use crate::verdict::remembered::Remembered;
use crate::verdict::{Judge, Thresholds, Tracing, Verdicts};

pub(crate) struct Judging {
    judge: Judge,
    interval: Duration,
    files: StillOpen<()>,
}

impl Judging {
    /// `interval`: from one snapshot to the next, as it is asked for.
    pub fn new(thresholds: Thresholds, interval: Duration, engines: Arc<Engines>) -> Judging {
        Judging { judge: Judge::new(thresholds), interval, files: StillOpen::new("verdict", engines) }
    }

    /// Goes on with failures that another process has seen. To be called before the first snapshot.
    pub fn restore(&mut self, remembered: Remembered) {
        self.judge.restore(remembered);
    }

    /// The failures that are not over.
    pub fn remembered(&self) -> Remembered {
        self.judge.remembered()
    }

    /// Given all that is published, and nothing where only the state has changed.
    pub fn follow(&mut self, published: Option<&Published>, state: &State) -> Arc<Verdicts> {
        for ((server, file), ()) in self.files.closed() {
            self.judge.closed(server, file);
        }
        if let Some(Published { snapshot, interval, .. }) = published {
            self.judge.enter(snapshot, interval);
        }
        let verdicts = self.judge.verdicts(&tracing(state, self.interval));
        self.files.look_for(self.judge.failed_files().into_iter().map(|file| (file, ())));
        verdicts
    }

    /// Processor time that was used to find out whether files are open.
    pub fn spent(&self) -> Duration {
        self.files.spent()
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
