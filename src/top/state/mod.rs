//! What the view shows, and how that changes: a function of what happened, without a clock, a file or a
//! terminal.

mod actions;
#[cfg(test)]
mod key_tests;
mod placed;
mod select;
mod shown;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::cells::Units;
use super::event::{Earlier, Effect, Event, Waiting};
use super::filter::Filter;
use super::keys::Press;
use super::overlay::Overlay;
use super::palette::Colors;
use super::past::Past;
use super::rows::Scope;
use super::view::{Sort, View};
use crate::history::Troubles;
use crate::live::{self, Published};
use crate::model::{InFlight, Interval, Lost, Snapshot};
use crate::render::Style;
use crate::render::rows::Row;
use crate::verdict::OfServer;
use select::Selection;
use shown::Shown;

pub use shown::Read;

/// How long the status line keeps a message.
const MESSAGE: Duration = Duration::from_secs(8);
/// Where stuck syncs wait is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Threads that are looked at.
const MOST_LOOKED_AT: usize = 16;

/// What does not change while it runs.
#[derive(Clone, Debug)]
pub struct Options {
    pub unicode: bool,
    pub colors: Colors,
    /// A sync in flight for at least this long is stuck.
    pub stuck_after: Duration,
    /// What is traced once it is there: "a process called mysqld or mariadbd".
    pub waits_for: String,
    /// From one snapshot to the next.
    pub interval: Duration,
    pub view: View,
    pub mouse: bool,
}

/// What the small graphs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Graph {
    P99,
    Max,
    Rate,
}

/// The filter while it is typed.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub text: String,
    pub is_regex: bool,
    /// As it was before.
    before: Filter,
}

/// What belongs to a grouping.
#[derive(Clone, Debug)]
pub struct Table {
    pub sort: Sort,
    pub selection: Selection,
}

#[derive(Debug)]
pub struct State {
    pub options: Options,
    pub style: Style,
    /// Columns and rows.
    pub size: (u16, u16),
    pub now: Instant,
    pub now_wall: SystemTime,
    pub view: View,
    tables: [Table; View::ALL.len()],
    pub scope: Scope,
    pub filter: Filter,
    pub edit: Option<Edit>,
    pub overlay: Option<Overlay>,
    /// Lines of the overlay above the screen.
    pub overlay_offset: usize,
    pub units: Units,
    pub graph: Graph,
    /// Intervals in a column of the picture.
    pub each: u32,
    pub details: bool,
    pub cumulative: bool,
    pub interval: Duration,
    pub mouse: bool,
    pub sampling: live::State,
    pub past: Past,
    /// False until the probes are attached for the first time.
    pub attached: bool,
    /// Since when it counts in [`State::cumulative`].
    base: Option<Arc<Snapshot>>,
    latest: Option<Arc<Snapshot>>,
    /// Since when figures are its own.
    first_taken: Option<SystemTime>,
    /// The last interval, and its number.
    newest: Option<(u32, Arc<Interval>)>,
    /// The interval at which it is paused. None: live.
    pub paused: Option<Paused>,
    pub shown: Option<Shown>,
    /// Those of the table, filtered and sorted.
    pub rows: Vec<Row>,
    /// Before the filter.
    pub rows_before_filter: usize,
    pub read: Option<Read>,
    pub waits: Vec<Waiting>,
    /// The verdicts of the exporter on this host, if there is one.
    pub standing: Vec<OfServer>,
    looked: Option<Instant>,
    message: Option<(String, Instant)>,
    /// What went wrong since the view began, whatever is counted anew.
    session: Troubles,
}

/// A look at what was.
#[derive(Clone, Debug)]
pub struct Paused {
    pub tick: u32,
    /// As it was on the screen when the pause began: with all its rows, where only the most important are
    /// kept.
    frozen: (u32, Arc<Interval>),
    /// What was counted until then.
    until: Option<Arc<Snapshot>>,
}

impl State {
    pub fn new(options: Options, size: (u16, u16), now: Instant, now_wall: SystemTime) -> State {
        let table = |view: View| Table { sort: view.sort(), selection: Selection::default() };
        State {
            style: Style { color: false, unicode: options.unicode, width: None },
            size,
            now,
            now_wall,
            view: options.view,
            tables: View::ALL.map(table),
            scope: Scope::default(),
            filter: Filter::default(),
            edit: None,
            overlay: None,
            overlay_offset: 0,
            units: Units::Fitting,
            graph: Graph::P99,
            each: 1,
            details: true,
            cumulative: false,
            interval: options.interval,
            mouse: options.mouse,
            sampling: live::State::Running,
            past: Past::default(),
            attached: false,
            base: None,
            latest: None,
            first_taken: None,
            newest: None,
            paused: None,
            shown: None,
            rows: Vec::new(),
            rows_before_filter: 0,
            read: None,
            waits: Vec::new(),
            standing: Vec::new(),
            looked: None,
            message: None,
            session: Troubles::default(),
            options,
        }
    }

    /// Takes in what happened; what is to be done about it.
    pub(crate) fn apply(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Key(press) => self.key(press),
            Event::Mouse(mouse) => {
                self.mouse_at(mouse);
                Vec::new()
            }
            Event::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.refresh();
                self.scroll_overlay(0);
                Vec::new()
            }
            Event::Published(published) => {
                self.take(published);
                self.look()
            }
            Event::Restarted => {
                if self.base.take().is_some() {
                    self.say("attached again; figures since the start were reset".into());
                }
                if self.latest.take().is_some() {
                    self.session.leave_gap();
                }
                self.attached = true;
                Vec::new()
            }
            Event::Sampling(state) => {
                self.sampling = state;
                Vec::new()
            }
            Event::Earlier(earlier) => {
                self.remember(&earlier);
                Vec::new()
            }
            Event::Standing(standing) => {
                self.standing = standing;
                Vec::new()
            }
            Event::Waits(waits) => {
                self.waits = waits;
                Vec::new()
            }
            Event::Said(text) => {
                self.say(text);
                Vec::new()
            }
            Event::Tick(now, wall) => {
                (self.now, self.now_wall) = (now, wall);
                if self.message.as_ref().is_some_and(|(_, since)| now.duration_since(*since) >= MESSAGE) {
                    self.message = None;
                }
                self.look()
            }
        }
    }

    fn take(&mut self, published: Published) {
        let Published { snapshot, interval, .. } = published;
        self.now = self.now.max(snapshot.taken);
        self.first_taken.get_or_insert(snapshot.taken_wall);
        let base = self.base.get_or_insert_with(|| snapshot.clone()).clone();
        // The first of a session: there are no figures yet, but servers and what hangs.
        let m = match self.latest.replace(snapshot.clone()) {
            Some(_) => interval,
            None => Arc::new(Interval::between(&base, &snapshot)),
        };
        self.session.record(&m);
        if !m.span.duration.is_zero() {
            let selected = self.selected().map(|row| row.key.clone());
            self.past.record(&m, selected.as_ref());
        }
        let number = self.past.newest().map_or(0, |tick| tick.number);
        self.newest = Some((number, m));
        if self.paused.is_none() {
            self.refresh();
        }
    }

    /// Puts what another program remembers before what was seen here.
    fn remember(&mut self, earlier: &Earlier) {
        let until = self.first_taken.unwrap_or(self.now_wall);
        let more = self.past.begin_with(earlier, until);
        if let Some((tick, _)) = &mut self.newest {
            *tick += more;
        }
        if let Some(paused) = &mut self.paused {
            paused.tick += more;
            paused.frozen.0 += more;
        }
        self.refresh();
    }

    pub fn say(&mut self, text: String) {
        self.message = Some((text, self.now));
    }

    pub fn message(&self) -> Option<&str> {
        self.message.as_ref().map(|(text, _)| text.as_str())
    }

    pub fn table(&self) -> &Table {
        &self.tables[self.view as usize]
    }

    fn table_mut(&mut self) -> &mut Table {
        &mut self.tables[self.view as usize]
    }

    /// Time since the figures that are shown, where they are the newest: syncs in flight have grown older by
    /// that.
    pub(crate) fn since_shown(&self) -> Duration {
        match (&self.paused, &self.latest) {
            (None, Some(latest)) if self.sampling.is_tracing() => {
                self.now.saturating_duration_since(latest.taken)
            }
            _ => Duration::ZERO,
        }
    }

    /// Everything since the start, or since figures were last begun anew; if nothing was counted since, what
    /// was seen last.
    pub fn summary(&self) -> Option<Interval> {
        match (&self.base, &self.latest) {
            (Some(base), Some(latest)) if latest.taken > base.taken => Some(Interval::between(base, latest)),
            _ => self.newest.as_ref().map(|(_, m)| (**m).clone()),
        }
    }

    /// What went wrong since the view began.
    pub fn session(&self) -> &Troubles {
        &self.session
    }

    /// How long it is from one snapshot to the next.
    pub(crate) fn expected_interval(&self) -> Duration {
        match self.sampling {
            live::State::Degraded { interval } => interval.max(self.interval),
            _ => self.interval,
        }
    }

    /// What was lost since tracing began.
    pub(crate) fn lost_before(&self) -> Option<Lost> {
        self.latest.as_ref().map(|latest| latest.lost)
    }

    pub(crate) fn knows_several_servers(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.m.servers.len() > 1)
    }

    /// Syncs that hang, the oldest first, with their ages as of now.
    pub fn stuck(&self) -> Vec<InFlight> {
        let Some(shown) = &self.shown else { return Vec::new() };
        let since = self.since_shown();
        let in_scope = |sync: &&InFlight| self.scope.server.is_none_or(|id| id == sync.server);
        let aged = |sync: &InFlight| InFlight { age: sync.age + since, ..sync.clone() };
        // One that has just begun is not stuck because no snapshot came since.
        let hangs = |sync: &&InFlight| sync.age >= self.options.stuck_after;
        shown.m.in_flight.iter().filter(in_scope).filter(hangs).map(aged).collect()
    }

    /// Where a thread waits in the kernel, if that is known.
    pub fn waiting(&self, tid: u32) -> Option<&Waiting> {
        self.waits.iter().find(|waiting| waiting.tid == tid)
    }

    /// Asks where stuck threads are, now and then for as long as there are any.
    fn look(&mut self) -> Vec<Effect> {
        if self.paused.is_some() {
            return Vec::new();
        }
        let stuck = self.stuck();
        self.waits.retain(|waiting| stuck.iter().any(|sync| sync.tid == waiting.tid));
        let all_known = stuck.iter().take(MOST_LOOKED_AT).all(|sync| self.waiting(sync.tid).is_some());
        let soon = self.looked.is_some_and(|looked| {
            let after = if all_known { LOOK_AGAIN } else { LOOK_AGAIN / 4 };
            self.now.saturating_duration_since(looked) < after
        });
        if stuck.is_empty() || soon {
            return Vec::new();
        }
        self.looked = Some(self.now);
        let threads = stuck.iter().take(MOST_LOOKED_AT).map(|sync| (sync.server.pid, sync.tid));
        vec![Effect::Look(threads.collect())]
    }

    fn key(&mut self, press: Press) -> Vec<Effect> {
        if press == Press::Ctrl('c') {
            return vec![Effect::Quit];
        }
        if self.edit.is_some() {
            self.type_filter(press);
            return Vec::new();
        }
        match super::keys::action(press) {
            Some(action) if self.overlay.is_some() => self.act_on_overlay(action),
            Some(action) => self.act(action),
            None => {
                self.say(format!("{press} does nothing; ? shows every key"));
                Vec::new()
            }
        }
    }
}
