//! What each key does.

use super::State;
use crate::model::LogEntry;
use crate::render::columns::Column;
use crate::render::header::clock;
use crate::render::row::{About, Key};
use crate::text;
use crate::top::event::{Effect, Extras};
use crate::top::keys::Action;
use crate::top::overlay::{Overlay, Topic};
use crate::top::view::View;

impl State {
    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            Action::CountFromNow | Action::Threads | Action::AllWrites if self.playing.is_some() => {
                self.say("this is a recording: it cannot be changed any more");
            }
            Action::Write => return self.write(),
            Action::Threads => return self.restart(|extras| extras.by_thread ^= true),
            Action::AllWrites => {
                let effects = self.restart(|extras| extras.all_writes ^= true);
                let all_writes =
                    |effect: &Effect| matches!(effect, Effect::Restart(extras) if extras.all_writes);
                if effects.iter().any(all_writes) {
                    self.show_view(View::Write);
                }
                return effects;
            }
            Action::Mouse => return self.toggle_mouse(),
            Action::Longer => return self.change_interval(true),
            Action::Shorter => return self.change_interval(false),
            Action::Help => self.overlay = Some(Overlay::of(Topic::Help)),
            Action::Stacks => self.overlay = Some(Overlay::of(Topic::Stacks)),
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
                self.choice.table_mut().sort.reverse ^= true;
                self.refresh_rows();
            }
            Action::Filter => self.choice.edit_filter(),
            Action::Pause if self.playing.is_some() => self.toggle_playing(),
            Action::Pause => {
                if self.record.paused.take().is_none() {
                    self.record.pause();
                }
                self.refresh();
            }
            Action::StepBack => self.step(-1),
            Action::StepForward => self.step(1),
            Action::MinuteBack => self.step_minute(false),
            Action::MinuteForward => self.step_minute(true),
            Action::Cumulative => {
                self.choice.cumulative ^= true;
                self.refresh();
            }
            Action::CountFromNow => {
                self.record.count_from_now();
                self.choice.cumulative = true;
                self.say(format!("counting from {} UTC on", clock(self.now_wall)));
                self.refresh();
            }
            Action::Units => self.choice.units = self.choice.units.next(),
            Action::Graph => {
                self.choice.graph = self.choice.graph.next();
                self.say(format!("the small graphs show {}", self.choice.graph.in_words()));
            }
            Action::TimeOut => self.choice.change_each(1),
            Action::TimeIn => self.choice.change_each(-1),
            Action::Details => {
                self.choice.details ^= true;
                self.place();
            }
        }
        Vec::new()
    }

    /// While help or stacks stand before the table, keys move them or close them.
    pub(super) fn act_on_overlay(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            _ => {}
        }
        let page = usize::from(self.size.1).saturating_sub(4).max(1);
        self.overlay = self.overlay.and_then(|overlay| overlay.after(action, page));
        self.scroll_overlay(0);
        Vec::new()
    }

    /// Scrolls what covers the table, no further than to its end.
    pub(super) fn scroll_overlay(&mut self, lines: isize) {
        let page = usize::from(self.size.1).saturating_sub(2).max(1);
        let most = self.overlay_lines().len().saturating_sub(page);
        if let Some(overlay) = &mut self.overlay {
            overlay.offset = overlay.offset.saturating_add_signed(lines).min(most);
        }
    }

    pub(super) fn show_view(&mut self, view: View) {
        self.choice.show(view);
        self.refresh();
    }

    /// Narrows the view to one server after the other, then to none.
    fn next_server(&mut self, forward: bool) {
        let Some(figures) = &self.shown.figures else { return };
        let mut choices = vec![None];
        choices.extend(figures.m.servers.iter().map(|server| Some(server.id)));
        let scope = &mut self.choice.scope;
        let at = choices.iter().position(|choice| *choice == scope.server).unwrap_or(0);
        let step = if forward { 1 } else { choices.len() - 1 };
        let chosen = choices[(at + step) % choices.len()];
        scope.server = chosen;
        self.say(match chosen {
            None => "all servers".to_owned(),
            Some(id) => format!("{} alone", self.server_name(id)),
        });
        self.refresh();
    }

    fn open_row(&mut self) {
        let Some(row) = self.selected() else { return };
        if let About::Log(entry) = &row.about {
            return self.show_moment(&entry.clone());
        }
        let key = row.key.clone();
        if !self.choice.open(&key) {
            return self.say("there is nothing below this row");
        }
        self.refresh();
    }

    /// Shows the interval in which an entry of the log was made: what else was going on then.
    fn show_moment(&mut self, entry: &LogEntry) {
        if !self.record.pause_at(entry.at) {
            return self.say("what else was going on then is not kept any more");
        }
        self.show_view(View::Role);
        let key = Key::Role(entry.server, entry.info.role, entry.op);
        self.choice.table_mut().selection.key = Some(key);
        self.say(format!("as it was at {} UTC; Space resumes", clock(entry.at)));
        self.refresh();
    }

    /// Undoes what narrows the view, one thing at a time.
    fn back(&mut self) {
        let choice = &mut self.choice;
        if choice.filter.is_on() || choice.filter.error.is_some() {
            choice.filter = Default::default();
        } else if choice.scope.role.take().is_some() {
            choice.view = View::Role;
        } else if (self.playing.is_some() || self.record.paused.take().is_none())
            && choice.scope.server.take().is_none()
        {
            return self.say("q quits");
        }
        self.refresh();
    }

    pub(super) fn sort_by(&mut self, column: Column) {
        if column.sorts() {
            self.choice.sort_by(column);
            self.refresh_rows();
        }
    }

    fn sort_beside(&mut self, step: isize) {
        let columns = self.columns();
        let columns: Vec<Column> = columns.into_iter().filter(|column| column.sorts()).collect();
        let sort = self.choice.table().sort;
        let next = match columns.iter().position(|column| *column == sort.column) {
            Some(at) => at.saturating_add_signed(step).min(columns.len().saturating_sub(1)),
            None => 0,
        };
        if let Some(&column) = columns.get(next).filter(|column| **column != sort.column) {
            self.sort_by(column);
        }
    }

    fn step(&mut self, step: i64) {
        if self.record.paused.is_none() && step > 0 {
            return self.say("this is the newest; it is not paused");
        }
        if let Some(text) = self.record.step(step) {
            self.say(text);
        }
        self.refresh();
    }

    fn step_minute(&mut self, forward: bool) {
        if let Some(steps) = self.record.steps_of_a_minute(forward) {
            self.step(if forward { steps } else { -steps });
        }
    }

    /// From its end it begins anew.
    fn toggle_playing(&mut self) {
        let is_at_end = self.record.paused_at().map(|tick| tick.number)
            == self.record.past.newest().map(|tick| tick.number);
        let Some(playing) = &mut self.playing else { return };
        playing.is_on ^= true;
        if playing.is_on && is_at_end {
            let _ = self.record.step(i64::from(i32::MIN));
        }
        self.refresh();
    }

    /// A second goes by.
    pub(super) fn play(&mut self) {
        let Some(playing) = self.playing.filter(|playing| playing.is_on) else { return };
        if let Some(end) = self.record.step(i64::from(playing.speed)) {
            self.playing.iter_mut().for_each(|playing| playing.is_on = false);
            self.say(end);
        }
        self.refresh();
    }

    fn change_interval(&mut self, longer: bool) -> Vec<Effect> {
        if let Some(playing) = &mut self.playing {
            let has_changed = playing.change_speed(longer);
            let speed = text::counted(playing.speed.into(), "interval", "intervals");
            let end = if has_changed { "" } else { " is as far as it goes" };
            self.say(format!("{speed} a second{end}"));
            return Vec::new();
        }
        let has_changed = self.tracing.change_interval(longer);
        let interval = self.tracing.interval;
        if !has_changed {
            self.say(format!("{} is as far as it goes", text::interval(interval)));
            return Vec::new();
        }
        self.say(format!("intervals of {}", text::interval(interval)));
        vec![Effect::Interval(interval)]
    }

    fn restart(&mut self, change: impl Fn(&mut Extras)) -> Vec<Effect> {
        let Some(latest) = &self.record.latest else { return Vec::new() };
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
            true => "the mouse selects rows and columns",
            false => "the mouse is the terminal's own",
        });
        vec![Effect::Mouse(self.mouse)]
    }

    fn write(&mut self) -> Vec<Effect> {
        match self.on_screen() {
            Some(m) => vec![Effect::Write(Box::new(m))],
            None => {
                self.say("there is nothing to write yet");
                Vec::new()
            }
        }
    }
}
