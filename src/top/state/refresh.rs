//! Makes what is shown of what was measured and chosen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::record::Figures;
use crate::model::{Interval, ServerId};
use crate::render::header;
use crate::render::row::{About, Key, Row};
use crate::top::rows;
use crate::top::view::View;

/// Roles, servers and neighbours that were active in so many intervals keep their rows while they are idle.
const IDLE_TICKS: u32 = crate::top::trail::TICKS;
/// The same for files and threads, of which there may be many.
const IDLE_TICKS_OF_MANY: u32 = 60;

impl State {
    /// Makes everything anew that depends on which figures are shown, how and of what.
    pub(super) fn refresh(&mut self) {
        self.shown.figures = self.record.figures(self.choice.cumulative);
        let recent = self.recent();
        self.shown.ranked = self.ranked(recent.as_deref());
        self.refresh_rows();
        self.shown.incidents = self.incidents();
        self.shown.read = self.read(recent);
    }

    pub(super) fn refresh_rows(&mut self) {
        let mut rows = self.all_rows();
        self.shown.rows_before_filter = rows.len();
        if self.choice.filter.is_on() {
            rows.retain(|row| self.choice.filter.takes(&self.text_of(row)));
        }
        let sort = self.choice.table().sort;
        sort.apply(&mut rows);
        if sort == View::Role.sort() && matches!(self.choice.view, View::Role | View::Server) {
            self.put_worst_first(&mut rows);
        }
        self.shown.rows = rows;
        self.place();
    }

    /// Of rows in their own order: those of the sickest server, then of the busiest; of each, what hangs.
    fn put_worst_first(&self, rows: &mut [Row]) {
        let weights: BTreeMap<ServerId, _> =
            self.shown.ranked.iter().map(|server| (server.id, server.weight())).collect();
        let weight = |row: &Row| row.server().and_then(|id| weights.get(&id).copied());
        let hangs = |row: &Row| row.in_flight > 0 && row.oldest >= self.options.stuck_after;
        rows.sort_by_cached_key(|row| Reverse((weight(row), row.server().map(Reverse), hangs(row))));
    }

    fn all_rows(&self) -> Vec<Row> {
        let Some(Figures { m, tick }) = &self.shown.figures else { return Vec::new() };
        let (view, scope) = (self.choice.view, &self.choice.scope);
        if view == View::Log {
            return self.log_in_scope();
        }
        let mut rows = rows::rows(view, m, scope);
        if !self.choice.cumulative {
            let ticks = match view {
                View::File | View::Write | View::Thread => IDLE_TICKS_OF_MANY,
                _ => IDLE_TICKS,
            };
            let idle = self.record.past.trails.active((tick + 1).saturating_sub(ticks), *tick);
            let idle = idle.filter(|(key, ..)| View::from(*key) == view);
            rows::add_idle(&mut rows, idle, scope);
        }
        rows::add_in_flight(view, &mut rows, m, scope);
        if view == View::Neighbour {
            rows::mark_shared(&mut rows, m, scope);
        }
        rows
    }

    fn log_in_scope(&self) -> Vec<Row> {
        let until = self.record.paused_at().map(|tick| tick.end);
        let mut rows = rows::of_log(&self.record.past.log, until);
        rows.retain(|row| row.server().is_none_or(|id| self.choice.scope.has(id)));
        rows
    }

    /// The log beside another table, in no order: what narrows the table narrows it as well. With it comes
    /// how many entries there are in all.
    pub(crate) fn log_beside(&self) -> (Vec<Row>, usize) {
        let mut rows = self.log_in_scope();
        let all = rows.len();
        let role = self.choice.scope.role.filter(|_| matches!(self.choice.view, View::File | View::Write));
        rows.retain(|row| {
            role.is_none_or(|role| row.role() == Some(role)) && self.choice.filter.takes(&self.text_of(row))
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
            if let Some(server) = self.shown.server(id) {
                add(&header::process(server, &self.style));
            }
        }
        text
    }

    pub(crate) fn server_name(&self, id: ServerId) -> String {
        self.format().server_name(id)
    }

    /// The servers whose figures are shown.
    pub fn servers(&self) -> Vec<ServerId> {
        let all = self.shown.ranked.iter().map(|ranked| ranked.id);
        all.filter(|id| self.choice.scope.has(*id)).collect()
    }

    /// What is on the screen as a measurement of its own: without the servers and, in the grouping that is
    /// shown, the rows that are hidden.
    pub(super) fn on_screen(&self) -> Option<Interval> {
        let mut m = (*self.shown.figures.as_ref()?.m).clone();
        let scope = &self.choice.scope;
        m.servers.retain(|server| scope.has(server.id));
        m.in_flight.retain(|sync| scope.has(sync.server));
        let keys: BTreeSet<&Key> = self.shown.rows.iter().map(|row| &row.key).collect();
        let is_narrowed = self.choice.filter.is_on() || scope.role.is_some();
        let is_shown = |view: View, key: Key| match view == self.choice.view && is_narrowed {
            true => keys.contains(&key),
            false => scope.takes(&key),
        };
        m.roles.retain(|row| is_shown(View::Role, Key::of_role(row)));
        m.files.retain(|row| is_shown(View::File, Key::of_file(row)));
        m.writes.retain(|row| is_shown(View::Write, Key::of_write(row)));
        m.threads.retain(|row| is_shown(View::Thread, Key::of_thread(row)));
        m.neighbours.retain(|row| is_shown(View::Neighbour, Key::of_neighbour(row)));
        Some(m)
    }
}
