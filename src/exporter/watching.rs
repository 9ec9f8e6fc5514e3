//! Watches whether the tracing works and its thread is alive, and tells the log and systemd.

use std::time::{Duration, Instant};

use super::server_log::ServerLog;
use super::{log, notify, privileges};
use crate::live::{Live, State};
use crate::model::Snapshot;
use crate::server::who::naming::{GivenName, Unmatched};

/// A snapshot may be late by this much, however short the intervals.
const LATE: Duration = Duration::from_secs(15);

pub(crate) struct Watching {
    state: State,
    /// From one snapshot to the next, as it is now.
    interval: Duration,
    is_late: bool,
    servers: ServerLog,
    names: Unmatched,
    status: String,
}

impl Watching {
    pub fn begin(live: &Live, interval: Duration, names: Vec<GivenName>) -> Watching {
        let snapshot = live.latest();
        log::info(format_args!(
            "attached by {}; rights kept: {}",
            snapshot.setup.mode.name(),
            privileges::in_words()
        ));
        for (mode, why) in &snapshot.setup.not_chosen {
            log::info(format_args!("not by {}: {why}", mode.name()));
        }
        let mut watching = Watching {
            state: State::Running,
            interval,
            is_late: false,
            servers: ServerLog::new(Instant::now()),
            names: Unmatched::begin(names, Instant::now()),
            status: String::new(),
        };
        watching.update(live);
        watching
    }

    /// To be called each second.
    pub fn update(&mut self, live: &Live) {
        let (snapshot, state) = (live.latest(), live.state());
        for (level, text) in self.servers.update(&snapshot.servers, Instant::now()) {
            log::write(level, &text);
        }
        for sentence in self.names.tell(&snapshot.servers, Instant::now()) {
            log::warning(sentence);
        }
        if state != self.state {
            self.changed(&state);
        }
        let interval = match state {
            State::Degraded { interval } => interval,
            _ => self.interval,
        };
        self.late(state.is_tracing() && snapshot.taken.elapsed() > 3 * interval + LATE);
        self.state = state;
        self.report_status(&snapshot);
    }

    /// Snapshots come, or are not to come.
    pub(crate) fn is_well(&self) -> bool {
        !self.is_late
    }

    fn changed(&self, state: &State) {
        match state {
            State::Running => log::info("snapshots come as often as asked for again"),
            State::Degraded { interval } => log::warning(format_args!(
                "a snapshot each {} only: tracing took more processor time than it may",
                crate::text::interval(*interval)
            )),
            State::Paused { why } => log::error(why),
            State::Failed { why } => log::error(format_args!("tracing has failed: {why}")),
            State::Stopped => {}
        }
    }

    fn late(&mut self, is_late: bool) {
        match (self.is_late, is_late) {
            (false, true) => log::error("no snapshot is made any more: the sampler's thread hangs"),
            (true, false) => log::info("snapshots are made again"),
            _ => {}
        }
        self.is_late = is_late;
    }

    fn report_status(&mut self, snapshot: &Snapshot) {
        let servers = match self.servers.running() {
            0 => "no server runs".to_owned(),
            1 => "one server".to_owned(),
            n => format!("{n} servers"),
        };
        let status = match &self.state {
            State::Running => format!("tracing by {}: {servers}", snapshot.setup.mode.name()),
            State::Degraded { .. } => {
                format!("tracing by {}, less often than asked for: {servers}", snapshot.setup.mode.name())
            }
            State::Paused { why } => why.clone(),
            State::Failed { why } => format!("not tracing: {why}"),
            State::Stopped => "ending".to_owned(),
        };
        if status != self.status {
            notify::status(&status);
            self.status = status;
        }
    }
}
