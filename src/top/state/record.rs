//! What was measured, here and by an exporter, and which moment of that one looks at.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::live::Published;
use crate::model::{Interval, Snapshot};
use crate::recording::{History, Troubles};
use crate::render::row::Key;
use crate::top::event::{Earlier, Standing};
use crate::top::past::{Past, Tick};

const MINUTE: Duration = Duration::from_secs(60);

/// The figures of an interval or of several together.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub m: Arc<Interval>,
    /// The number of the interval at whose end they are.
    pub tick: u32,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub past: Past,
    /// The snapshot since which figures since the start count.
    base: Option<Arc<Snapshot>>,
    pub latest: Option<Arc<Snapshot>>,
    /// The time since when figures are its own.
    first_taken: Option<SystemTime>,
    /// The last interval.
    newest: Option<Figures>,
    /// The interval at which it is paused. None: live.
    pub paused: Option<Paused>,
    /// The verdicts of the exporter on this host, if there is one.
    pub standing: Standing,
    /// What went wrong since the view began, whatever is counted anew.
    pub session: Troubles,
    is_recording: bool,
}

/// A look at what was.
#[derive(Clone, Debug)]
pub(crate) struct Paused {
    pub tick: u32,
    /// What was on the screen when the pause began: with all its rows, where only the most important are
    /// kept.
    frozen: Figures,
    /// The last snapshot before the pause.
    until: Option<Arc<Snapshot>>,
}

impl Record {
    /// See [`Past::new`].
    pub(super) fn new(hang_after: Duration, slow_from: Duration) -> Record {
        Record {
            past: Past::new(hang_after, slow_from),
            base: None,
            latest: None,
            first_taken: None,
            newest: None,
            paused: None,
            standing: Standing::default(),
            session: Troubles::new(hang_after),
            is_recording: false,
        }
    }

    /// What is shown is a recording, paused at a moment of it.
    pub(super) fn replay(&mut self, recording: &History, at: Option<SystemTime>) {
        let (hang_after, slow_from) = (self.past.incidents.hang_after(), self.past.log.slow_from());
        self.past = Past::of_recording(recording, hang_after, slow_from);
        recording.moments().for_each(|moment| self.session.record(&moment));
        self.is_recording = true;
        let Some(last) = self.past.newest() else { return };
        let m = self.past.at(last.number);
        self.newest = m.map(|m| Figures { m: Arc::new(m), tick: last.number });
        self.pause();
        let at = at.and_then(|at| self.past.at_moment(at));
        if let (Some(at), Some(paused)) = (at, &mut self.paused) {
            paused.tick = at.number;
        }
    }

    /// Adds an interval. `selected`: a row that is remembered however little it does.
    pub(super) fn take(&mut self, published: Published, selected: Option<&Key>) {
        let Published { snapshot, interval, .. } = published;
        self.first_taken.get_or_insert(snapshot.taken_wall);
        let base = self.base.get_or_insert_with(|| snapshot.clone()).clone();
        // The first of a session has no figures yet, but servers and what hangs.
        let m = match self.latest.replace(snapshot.clone()) {
            Some(_) => interval,
            None => Arc::new(Interval::between(&base, &snapshot)),
        };
        self.session.record(&m);
        if !m.span.duration.is_zero() {
            self.past.record(&m, selected);
        }
        let tick = self.past.newest().map_or(0, |tick| tick.number);
        self.newest = Some(Figures { m, tick });
    }

    /// Puts what another program remembers before what was seen here, which began at `now` at the latest.
    pub(super) fn remember(&mut self, earlier: &Earlier, now: SystemTime) {
        let more = self.past.begin_with(earlier, self.first_taken.unwrap_or(now));
        if let Some(newest) = &mut self.newest {
            newest.tick += more;
        }
        if let Some(paused) = &mut self.paused {
            paused.tick += more;
            paused.frozen.tick += more;
        }
    }

    /// Another session of tracing begins, whose counts begin anew. Returns whether there were any before.
    pub(super) fn begin_session(&mut self) -> bool {
        if self.latest.take().is_some() {
            self.session.leave_gap();
            self.past.incidents.leave_gap();
        }
        self.base.take().is_some()
    }

    /// Counts from now on, live: what is paused was before.
    pub(super) fn count_from_now(&mut self) {
        self.base = self.latest.clone();
        self.paused = None;
    }

    /// Pauses at the newest interval, unless it is paused already.
    pub(super) fn pause(&mut self) {
        if let (None, Some(newest)) = (&self.paused, &self.newest) {
            let (tick, frozen) = (newest.tick, newest.clone());
            self.paused = Some(Paused { tick, frozen, until: self.latest.clone() });
        }
    }

    /// Pauses at the interval that ended then. False: it is not kept any more.
    pub(super) fn pause_at(&mut self, end: SystemTime) -> bool {
        let Some(tick) = self.past.ending_at(end) else { return false };
        self.pause();
        self.paused.iter_mut().for_each(|paused| paused.tick = tick.number);
        true
    }

    /// The interval at which it is paused.
    pub(crate) fn paused_at(&self) -> Option<Tick> {
        self.past.tick(self.paused.as_ref()?.tick)
    }

    /// Steps through what is kept, paused. Returns what is to be said about its ends.
    pub(super) fn step(&mut self, step: i64) -> Option<&'static str> {
        self.pause();
        let (oldest, newest) = (self.past.oldest()?, self.past.newest()?);
        let paused = self.paused.as_mut()?;
        let wanted = i64::from(paused.tick) + step;
        let tick = wanted.clamp(i64::from(oldest.number), i64::from(newest.number));
        paused.tick = tick as u32;
        match wanted.cmp(&tick) {
            Ordering::Greater if self.is_recording => Some("this is the end of the recording"),
            Ordering::Greater => Some("this is the newest; Space goes on"),
            Ordering::Equal => None,
            Ordering::Less if self.past.is_short_of_memory() => {
                Some("this is the oldest that there was memory for")
            }
            Ordering::Less => Some("this is the oldest that is kept"),
        }
    }

    /// How many intervals a minute is from here: at least one.
    pub(super) fn steps_of_a_minute(&self, forward: bool) -> Option<i64> {
        let newest = self.past.newest()?.number;
        let live = || self.newest.as_ref().map(|newest| newest.tick);
        let here = self.past.tick(self.paused.as_ref().map(|paused| paused.tick).or_else(live)?)?.number;
        let mut covered = Duration::ZERO;
        let within = |tick: &Tick| {
            let more = covered < MINUTE;
            covered += tick.duration;
            more
        };
        let steps = match forward {
            true => (here + 1..=newest).filter_map(|n| self.past.tick(n)).take_while(within).count(),
            false => self.past.until(here).copied().take_while(within).count(),
        };
        Some(steps.max(1) as i64)
    }

    /// The figures at the time that one looks at: of one interval, or `cumulative`, of all since the start.
    pub(super) fn figures(&self, cumulative: bool) -> Option<Figures> {
        let of = |tick, m| Figures { m: Arc::new(m), tick };
        match (&self.paused, cumulative) {
            (None, false) => self.newest.clone(),
            (None, true) => {
                let (base, latest) = (self.base.as_ref()?, self.latest.as_ref()?);
                let tick = self.newest.as_ref().map_or(0, |newest| newest.tick);
                Some(of(tick, Interval::between(base, latest)))
            }
            (Some(paused), false) if paused.tick == paused.frozen.tick => Some(paused.frozen.clone()),
            (Some(paused), false) => self.past.at(paused.tick).map(|m| of(paused.tick, m)),
            (Some(paused), true) if paused.tick == paused.frozen.tick && paused.until.is_some() => {
                let (base, until) = (self.base.as_ref()?, paused.until.as_ref()?);
                // Attached again while it was paused: the counts began anew.
                if until.taken < base.taken {
                    return None;
                }
                Some(of(paused.tick, Interval::between(base, until)))
            }
            (Some(paused), true) => {
                let from = match self.is_recording {
                    true => SystemTime::UNIX_EPOCH,
                    false => self.base.as_ref()?.taken_wall,
                };
                self.past.sum(from, paused.tick).map(|m| of(paused.tick, m))
            }
        }
    }

    /// Everything since the start, or since figures were last begun anew; if nothing was counted since, what
    /// was seen last.
    pub fn summary(&self) -> Option<Interval> {
        if self.is_recording {
            return self.past.newest().and_then(|last| self.past.sum(SystemTime::UNIX_EPOCH, last.number));
        }
        match (&self.base, &self.latest) {
            (Some(base), Some(latest)) if latest.taken > base.taken => Some(Interval::between(base, latest)),
            _ => self.newest.as_ref().map(|newest| (*newest.m).clone()),
        }
    }
}
