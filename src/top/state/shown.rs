//! What is shown: which interval, or which sum, and the rows made of it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::model::{Interval, Server, ServerId};
use crate::render::device::{self, Device};
use crate::render::reading::{self, Sentence};
use crate::render::rows::{About, Key, Row};
use crate::render::{self, Paint};
use crate::text::absence;
use crate::top::rows::{self, process_name};
use crate::top::view::View;

/// Roles, servers and neighbours that were active in so many intervals keep their rows while they are idle.
const IDLE_TICKS: u32 = crate::top::trail::TICKS;
/// The same for files and threads, of which there may be many.
const IDLE_TICKS_OF_MANY: u32 = 60;
/// What is read from the figures is read from those of so long a time: sentences that change every second are
/// of no use.
const READ_OVER: Duration = Duration::from_secs(10);
/// A path in a sentence has so many columns at least.
const LEAST_PATH: usize = 24;

/// The figures on the screen.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub m: Arc<Interval>,
    /// The interval at whose end they are.
    pub tick: u32,
}

/// What the figures say.
#[derive(Clone, Debug)]
pub struct Read {
    /// The most urgent first.
    pub sentences: Vec<Sentence>,
    /// How long the time is that they are about. None: what is shown.
    pub sentences_over: Option<Duration>,
    /// That the servers use, with whoever else syncs there.
    pub devices: Vec<Device>,
    /// What to say where there is nobody.
    pub nobody: String,
    /// How long the time is that these figures are of.
    pub devices_over: Duration,
    /// It is another than what is shown.
    pub devices_are_recent: bool,
}

impl State {
    /// Makes everything anew that depends on which figures are shown, how and of what.
    pub(super) fn refresh(&mut self) {
        self.shown = self.what_is_shown();
        self.refresh_rows();
        self.read = self.read();
    }

    fn what_is_shown(&self) -> Option<Shown> {
        let live = |tick, m: &Arc<Interval>| Shown { m: m.clone(), tick };
        let past = |tick, m| Shown { m: Arc::new(m), tick };
        match (&self.paused, self.cumulative) {
            (None, false) => self.newest.as_ref().map(|(tick, m)| live(*tick, m)),
            (None, true) => {
                let (base, latest) = (self.base.as_ref()?, self.latest.as_ref()?);
                let tick = self.newest.as_ref().map_or(0, |(tick, _)| *tick);
                Some(live(tick, &Arc::new(Interval::between(base, latest))))
            }
            (Some(paused), false) if paused.tick == paused.frozen.0 => {
                Some(live(paused.tick, &paused.frozen.1))
            }
            (Some(paused), false) => self.past.at(paused.tick).map(|m| past(paused.tick, m)),
            (Some(paused), true) if paused.tick == paused.frozen.0 && paused.until.is_some() => {
                let (base, until) = (self.base.as_ref()?, paused.until.as_ref()?);
                // Attached again while it was paused: the counts began anew.
                if until.taken < base.taken {
                    return None;
                }
                Some(live(paused.tick, &Arc::new(Interval::between(base, until))))
            }
            (Some(paused), true) => {
                let from = self.base.as_ref()?.taken_wall;
                self.past.sum(from, paused.tick).map(|m| past(paused.tick, m))
            }
        }
    }

    pub(super) fn refresh_rows(&mut self) {
        let rows = self.all_rows();
        self.rows_before_filter = rows.len();
        self.rows = rows;
        if self.filter.is_on() {
            let taken: Vec<bool> =
                self.rows.iter().map(|row| self.filter.takes(&self.text_of(row))).collect();
            let mut taken = taken.into_iter();
            self.rows.retain(|_| taken.next().unwrap_or(true));
        }
        let sort = self.table().sort;
        sort.apply(&mut self.rows);
        self.place();
    }

    fn all_rows(&self) -> Vec<Row> {
        let Some(shown) = &self.shown else { return Vec::new() };
        let scope = &self.scope;
        if self.view == View::Log {
            return self.log_in_scope();
        }
        let mut rows = rows::rows(self.view, &shown.m, scope);
        if !self.cumulative {
            let ticks = match self.view {
                View::File | View::Write | View::Thread => IDLE_TICKS_OF_MANY,
                _ => IDLE_TICKS,
            };
            let idle = self.past.trails.active((shown.tick + 1).saturating_sub(ticks), shown.tick);
            let idle = idle.filter(|(key, ..)| View::from(*key) == self.view);
            rows::add_idle(&mut rows, idle, scope);
        }
        rows::add_in_flight(self.view, &mut rows, &shown.m, scope);
        if self.view == View::Neighbour {
            rows::mark_shared(&mut rows, &shown.m, scope);
        }
        rows
    }

    fn log_in_scope(&self) -> Vec<Row> {
        let until = self.paused.as_ref().and_then(|paused| self.past.tick(paused.tick));
        let mut rows = rows::of_log(&self.past.log, until.map(|tick| tick.end));
        rows.retain(|row| self.scope.server.is_none_or(|id| row.server() == Some(id)));
        rows
    }

    /// The log beside another table, in no order: what narrows the table narrows it as well. Also how many
    /// entries there are in all.
    pub(crate) fn log_beside(&self) -> (Vec<Row>, usize) {
        let mut rows = self.log_in_scope();
        let all = rows.len();
        let role = self.scope.role.filter(|_| matches!(self.view, View::File | View::Write));
        rows.retain(|row| {
            role.is_none_or(|role| row.role() == Some(role)) && self.filter.takes(&self.text_of(row))
        });
        (rows, all)
    }

    /// What a filter looks at: what tells the row from others.
    fn text_of(&self, row: &Row) -> String {
        let mut text = row.name(&self.style);
        let mut add = |part: &str| {
            text.push(' ');
            text.push_str(part);
        };
        row.role().iter().for_each(|role| add(role.name()));
        row.op().iter().for_each(|op| add(op.name()));
        match &row.about {
            About::Neighbour { device, .. } => add(&self.style.name(device.as_bytes())),
            About::Log(entry) => {
                entry.errors.iter().for_each(|(errno, _)| add(&crate::text::errno(*errno)));
            }
            _ => {}
        }
        if let Some(id) = row.server() {
            add(&self.server_name(id));
            if let Some(server) = self.server(id) {
                add(&process_name(server, &self.style));
            }
        }
        text
    }

    pub(crate) fn server_name(&self, id: ServerId) -> String {
        self.format().server_name(id)
    }

    /// As far as it is known.
    pub(crate) fn server(&self, id: ServerId) -> Option<&Server> {
        self.shown.as_ref()?.m.servers.iter().map(|server| &**server).find(|server| server.id == id)
    }

    /// The servers whose figures are shown.
    pub fn servers(&self) -> Vec<ServerId> {
        let all = self.shown.iter().flat_map(|shown| shown.m.servers.iter().map(|server| server.id));
        all.filter(|id| self.scope.server.is_none_or(|wanted| wanted == *id)).collect()
    }

    fn read(&self) -> Option<Read> {
        let shown = self.shown.as_ref()?;
        if shown.m.span.duration.is_zero() {
            return None;
        }
        // What the time of what is shown is a part of.
        let longer = |recent: Interval| {
            let (in_flight, servers) = (shown.m.in_flight.clone(), shown.m.servers.clone());
            let whole_disks = shown.m.whole_disks.clone();
            (recent.span.duration > shown.m.span.duration)
                .then(|| Arc::new(Interval { in_flight, servers, whole_disks, ..recent }))
        };
        let (recent, since_hang) = match self.cumulative {
            true => (None, None),
            false => {
                let recent = self.past.recent(shown.tick, READ_OVER).and_then(longer);
                match self.past.recent_since_hang(shown.tick, READ_OVER) {
                    None => (recent.clone(), recent),
                    Some(since_hang) => (recent, longer(since_hang)),
                }
            }
        };
        let servers = self.servers();
        let sentences = self.sentences(since_hang.as_ref().unwrap_or(&shown.m), &servers);
        let with_devices = recent.as_ref().unwrap_or(&shown.m);
        let devices = device::devices(with_devices, &servers);
        let nobody = absence::neighbour(&with_devices.setup.net, &device::filesystems(&shown.m, &servers));
        let duration = |m: &Option<Arc<Interval>>| m.as_ref().map(|m| m.span.duration);
        Some(Read {
            sentences,
            sentences_over: duration(&since_hang),
            devices_over: duration(&recent).unwrap_or(shown.m.span.duration),
            devices_are_recent: recent.is_some(),
            devices,
            nobody,
        })
    }

    fn sentences(&self, m: &Interval, servers: &[ServerId]) -> Vec<Sentence> {
        let options = render::Options {
            style: self.style,
            stuck_after: self.options.stuck_after,
            longest_path: Some((usize::from(self.size.0) / 3).max(LEAST_PATH)),
            ..Default::default()
        };
        let mut sentences: Vec<Sentence> = Vec::new();
        sentences.extend(reading::lost(m, &options));
        // Those that do most, first.
        let busy =
            |id: ServerId| m.roles.iter().filter(|row| row.server == id).map(|row| row.stats.sum_ns).sum();
        let mut servers = servers.to_vec();
        servers.sort_by_key(|&id| Reverse::<u64>(busy(id)));
        for &server in &servers {
            // What is stuck has lines of its own.
            let said = reading::of_server(m, server, &options);
            let mut said: Vec<_> = said.into_iter().filter(|said| said.paint != Paint::Stuck).collect();
            if servers.len() > 1 {
                let name = self.server_name(server);
                said.iter_mut().for_each(|said| said.text.insert_str(0, &format!("{name}: ")));
            }
            sentences.extend(said);
        }
        sentences.sort_by_key(|said| said.paint != Paint::Error);
        sentences
    }

    /// What is on the screen as a measurement of its own: without the servers and, in the grouping that is
    /// shown, the rows that are hidden.
    pub(super) fn on_screen(&self) -> Option<Interval> {
        let mut m = (*self.shown.as_ref()?.m).clone();
        let in_scope = |id: ServerId| self.scope.server.is_none_or(|wanted| wanted == id);
        m.servers.retain(|server| in_scope(server.id));
        m.in_flight.retain(|sync| in_scope(sync.server));
        let keys: BTreeSet<&Key> = self.rows.iter().map(|row| &row.key).collect();
        let is_shown = |view: View, key: Key| match self.view == view
            && (self.filter.is_on() || self.scope.role.is_some())
        {
            true => keys.contains(&key),
            false => key.server().is_none_or(in_scope),
        };
        m.roles.retain(|row| is_shown(View::Role, Key::of_role(row)));
        m.files.retain(|row| is_shown(View::File, Key::of_file(row)));
        m.writes.retain(|row| is_shown(View::Write, Key::of_write(row)));
        m.threads.retain(|row| is_shown(View::Thread, Key::of_thread(row)));
        m.neighbours.retain(|row| is_shown(View::Neighbour, Key::of_neighbour(row)));
        Some(m)
    }
}
