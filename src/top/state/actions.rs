//! What each key does.

use std::sync::Arc;
use std::time::Duration;

use super::{Edit, Graph, Paused, State};
use crate::model::LogEntry;
use crate::render::columns::Column;
use crate::render::header::clock;
use crate::render::rows::{About, Key};
use crate::text;
use crate::top::cells::Units;
use crate::top::event::{Effect, Extras};
use crate::top::keys::{Action, EditAction, Press, edit_action};
use crate::top::overlay::Overlay;
use crate::top::rows::Scope;
use crate::top::view::View;

/// Intervals that one can choose.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// Intervals in a column of the picture that one can choose.
const EACH: [u32; 5] = [1, 2, 5, 10, 20];
const MINUTE: Duration = Duration::from_secs(60);
/// A filter is no longer than this.
const LONGEST_FILTER: usize = 200;

impl State {
    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            Action::Write => return self.write(),
            Action::Threads => return self.restart(|extras| extras.by_thread ^= true),
            Action::AllWrites => return self.restart(|extras| extras.all_writes ^= true),
            Action::Mouse => return self.toggle_mouse(),
            Action::Longer => return self.change_interval(1),
            Action::Shorter => return self.change_interval(-1),
            Action::Help => self.open(Overlay::Help),
            Action::Stacks => self.open(Overlay::Stacks),
            Action::Show(view) => self.show_view(view),
            Action::NextServer => self.next_server(true),
            Action::PreviousServer => self.next_server(false),
            Action::Up => self.move_by(-1),
            Action::Down => self.move_by(1),
            Action::PageUp => self.move_by_pages(-1),
            Action::PageDown => self.move_by_pages(1),
            Action::First => self.select(0),
            Action::Last => self.select(usize::MAX),
            Action::Open => self.open_row(),
            Action::Back => self.back(),
            Action::SortLeft => self.sort_beside(-1),
            Action::SortRight => self.sort_beside(1),
            Action::Reverse => {
                let sort = self.table().sort;
                self.table_mut().sort.reverse = !sort.reverse;
                self.refresh_rows();
            }
            Action::Filter => {
                let before = self.filter.clone();
                self.edit = Some(Edit { text: before.text.clone(), is_regex: before.is_regex, before });
            }
            Action::Pause => match self.paused {
                None => self.pause(),
                Some(_) => self.go_on(),
            },
            Action::StepBack => self.step(-1),
            Action::StepForward => self.step(1),
            Action::MinuteBack => self.step_minute(false),
            Action::MinuteForward => self.step_minute(true),
            Action::Cumulative => {
                self.cumulative = !self.cumulative;
                self.refresh();
            }
            Action::CountFromNow => {
                self.base = self.latest.clone();
                self.cumulative = true;
                // What is paused was before.
                self.paused = None;
                self.say(format!("counting from {} UTC on", clock(self.now_wall)));
                self.refresh();
            }
            Action::Units => {
                self.units = match self.units {
                    Units::Fitting => Units::Micros,
                    Units::Micros => Units::Millis,
                    Units::Millis => Units::Seconds,
                    Units::Seconds => Units::Fitting,
                };
            }
            Action::Graph => {
                self.graph = match self.graph {
                    Graph::P99 => Graph::Max,
                    Graph::Max => Graph::Rate,
                    Graph::Rate => Graph::P99,
                };
                self.say(match self.graph {
                    Graph::P99 => "the small graphs show the 99th percentile".into(),
                    Graph::Max => "the small graphs show the maximum".into(),
                    Graph::Rate => "the small graphs show syncs per second".into(),
                });
            }
            Action::TimeOut => self.each = beside(&EACH, self.each, 1),
            Action::TimeIn => self.each = beside(&EACH, self.each, -1),
            Action::Details => {
                self.details = !self.details;
                self.place();
            }
        }
        Vec::new()
    }

    /// While help or stacks stand before the table, keys move them or close them.
    pub(super) fn act_on_overlay(&mut self, action: Action) -> Vec<Effect> {
        let page = usize::from(self.size.1).saturating_sub(4).max(1);
        match action {
            Action::Up => self.overlay_offset = self.overlay_offset.saturating_sub(1),
            Action::Down => self.overlay_offset = self.overlay_offset.saturating_add(1),
            Action::PageUp => self.overlay_offset = self.overlay_offset.saturating_sub(page),
            Action::PageDown | Action::Pause => {
                self.overlay_offset = self.overlay_offset.saturating_add(page)
            }
            Action::First => self.overlay_offset = 0,
            Action::Last => self.overlay_offset = usize::MAX,
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            Action::Help if self.overlay == Some(Overlay::Stacks) => self.open(Overlay::Help),
            Action::Stacks if self.overlay == Some(Overlay::Help) => self.open(Overlay::Stacks),
            _ => self.overlay = None,
        }
        self.place_overlay();
        Vec::new()
    }

    pub(super) fn scroll_overlay(&mut self, lines: isize) {
        self.overlay_offset = self.overlay_offset.saturating_add_signed(lines);
        self.place_overlay();
    }

    /// No further than to its end.
    fn place_overlay(&mut self) {
        let page = usize::from(self.size.1).saturating_sub(2).max(1);
        let most = self.overlay_lines().len().saturating_sub(page);
        self.overlay_offset = self.overlay_offset.min(most);
    }

    fn open(&mut self, overlay: Overlay) {
        (self.overlay, self.overlay_offset) = (Some(overlay), 0);
    }

    pub(super) fn show_view(&mut self, view: View) {
        self.view = view;
        self.scope.role = None;
        self.refresh_rows();
    }

    /// One server after the other, then all.
    fn next_server(&mut self, forward: bool) {
        let Some(shown) = &self.shown else { return };
        let mut choices = vec![None];
        choices.extend(shown.m.servers.iter().map(|server| Some(server.id)));
        let at = choices.iter().position(|choice| *choice == self.scope.server).unwrap_or(0);
        let step = if forward { 1 } else { choices.len() - 1 };
        self.scope.server = choices[(at + step) % choices.len()];
        self.say(match self.scope.server {
            None => "all servers".into(),
            Some(id) => format!("{} alone", self.server_name(id)),
        });
        self.refresh();
    }

    fn open_row(&mut self) {
        let Some(row) = self.selected() else { return };
        if let About::Log(entry) = &row.about {
            return self.show_moment(entry.clone());
        }
        match row.key.clone() {
            Key::Server(id, _) => {
                self.scope = Scope { server: Some(id), role: None };
                self.view = View::Role;
            }
            Key::Role(id, role, _) => {
                self.scope = Scope { server: Some(id), role: Some(role) };
                self.view = View::File;
            }
            _ => return self.say("there is nothing below this row".into()),
        }
        self.refresh();
    }

    /// The interval in which an entry of the log was made: what else was going on then.
    fn show_moment(&mut self, entry: Arc<LogEntry>) {
        let Some(tick) = self.past.ending_at(entry.at) else {
            return self.say("what else was going on then is not kept any more".into());
        };
        if self.paused.is_none() {
            self.pause();
        }
        let Some(paused) = &mut self.paused else { return };
        paused.tick = tick.number;
        self.show_view(View::Role);
        self.table_mut().selection.key = Some(Key::Role(entry.server, entry.info.role, entry.op));
        self.say(format!("as it was at {} UTC; Space resumes", clock(entry.at)));
        self.refresh();
    }

    /// Undoes what narrows the view, one thing at a time.
    fn back(&mut self) {
        if self.filter.is_on() || self.filter.error.is_some() {
            self.filter = Default::default();
        } else if self.scope.role.take().is_some() {
            self.view = View::Role;
        } else if self.paused.is_some() {
            return self.go_on();
        } else if self.scope.server.take().is_none() {
            return self.say("q quits".into());
        }
        self.refresh();
    }

    pub(super) fn sort_by(&mut self, column: Column) {
        if !column.sorts() {
            return;
        }
        let sort = &mut self.table_mut().sort;
        sort.reverse = sort.column == column && !sort.reverse;
        sort.column = column;
        self.refresh_rows();
    }

    fn sort_beside(&mut self, step: isize) {
        let columns = self.columns();
        let columns: Vec<Column> = columns.into_iter().filter(|column| column.sorts()).collect();
        let sort = self.table().sort;
        let next = match columns.iter().position(|column| *column == sort.column) {
            Some(at) => at.saturating_add_signed(step).min(columns.len().saturating_sub(1)),
            None => 0,
        };
        if let Some(&column) = columns.get(next).filter(|column| **column != sort.column) {
            self.sort_by(column);
        }
    }

    fn pause(&mut self) {
        if let Some(newest) = &self.newest {
            self.paused = Some(Paused { tick: newest.0, frozen: newest.clone(), until: self.latest.clone() });
            self.refresh();
        }
    }

    fn go_on(&mut self) {
        self.paused = None;
        self.refresh();
    }

    fn step(&mut self, step: i64) {
        if self.paused.is_none() {
            if step > 0 {
                return self.say("this is the newest; it is not paused".into());
            }
            self.pause();
        }
        let (Some(oldest), Some(newest)) = (self.past.oldest(), self.past.newest()) else { return };
        let Some(paused) = &mut self.paused else { return };
        let wanted = i64::from(paused.tick) + step;
        let tick = wanted.clamp(i64::from(oldest.number), i64::from(newest.number));
        paused.tick = tick as u32;
        if wanted > tick {
            self.say("this is the newest; Space goes on".into());
        } else if wanted < tick {
            self.say(match self.past.is_short_of_memory() {
                true => "this is the oldest that there was memory for".into(),
                false => "this is the oldest that is kept".into(),
            });
        }
        self.refresh();
    }

    fn step_minute(&mut self, forward: bool) {
        let here = self.paused.as_ref().map(|paused| paused.tick).or(self.newest.as_ref().map(|(n, _)| *n));
        let Some(here) = here.and_then(|number| self.past.tick(number)) else { return };
        let Some(newest) = self.past.newest() else { return };
        let steps = if forward {
            let mut covered = Duration::ZERO;
            let after = (here.number + 1..=newest.number).filter_map(|number| self.past.tick(number));
            after
                .take_while(|tick| {
                    let more = covered < MINUTE;
                    covered += tick.duration;
                    more
                })
                .count()
        } else {
            let mut covered = Duration::ZERO;
            self.past
                .until(here.number)
                .take_while(|tick| {
                    let more = covered < MINUTE;
                    covered += tick.duration;
                    more
                })
                .count()
        };
        let steps = steps.max(1) as i64;
        self.step(if forward { steps } else { -steps });
    }

    fn change_interval(&mut self, step: isize) -> Vec<Effect> {
        let now = self.interval.as_millis() as u64;
        let next = match step {
            1.. => INTERVALS.into_iter().find(|choice| *choice > now),
            _ => INTERVALS.into_iter().rev().find(|choice| *choice < now),
        };
        let Some(next) = next else {
            self.say(format!("{} is as far as it goes", text::interval(self.interval)));
            return Vec::new();
        };
        self.interval = Duration::from_millis(next);
        self.say(format!("intervals of {}", text::interval(self.interval)));
        vec![Effect::Interval(self.interval)]
    }

    fn restart(&mut self, change: impl Fn(&mut Extras)) -> Vec<Effect> {
        let Some(latest) = &self.latest else { return Vec::new() };
        let before = Extras::of(&latest.setup);
        let mut after = before;
        change(&mut after);
        let (what, with) = match before.by_thread == after.by_thread {
            true => ("all writes", after.all_writes),
            false => ("rows by thread", after.by_thread),
        };
        self.say(format!("attaching again, {} {what} …", if with { "with" } else { "without" }));
        vec![Effect::Restart(after)]
    }

    fn toggle_mouse(&mut self) -> Vec<Effect> {
        self.mouse = !self.mouse;
        self.say(match self.mouse {
            true => "the mouse selects rows and columns".into(),
            false => "the mouse is the terminal's own".into(),
        });
        vec![Effect::Mouse(self.mouse)]
    }

    fn write(&mut self) -> Vec<Effect> {
        match self.on_screen() {
            Some(m) => vec![Effect::Write(Box::new(m))],
            None => {
                self.say("there is nothing to write yet".into());
                Vec::new()
            }
        }
    }

    /// The filter is used as it is typed; Esc brings back what was before.
    pub(super) fn type_filter(&mut self, press: Press) {
        let Some(edit) = &mut self.edit else { return };
        match (edit_action(press), press) {
            (Some(EditAction::Toggle), _) => edit.is_regex = !edit.is_regex,
            (Some(EditAction::Erase), _) => drop(edit.text.pop()),
            (Some(EditAction::Clear), _) => edit.text.clear(),
            (Some(EditAction::Keep), _) => {
                self.edit = None;
                return;
            }
            (Some(EditAction::Undo), _) => {
                self.filter = edit.before.clone();
                self.edit = None;
                return self.refresh_rows();
            }
            (None, Press::Char(c)) if edit.text.len() < LONGEST_FILTER => edit.text.push(c),
            (None, _) => return,
        }
        let (text, is_regex) = (edit.text.clone(), edit.is_regex);
        self.filter.set(text, is_regex);
        self.refresh_rows();
    }
}

/// The next of some choices.
fn beside<T: Copy + PartialEq>(choices: &[T], now: T, step: isize) -> T {
    let at = choices.iter().position(|choice| *choice == now).unwrap_or(0);
    choices[at.saturating_add_signed(step).min(choices.len() - 1)]
}
