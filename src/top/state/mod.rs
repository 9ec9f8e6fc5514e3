//! What the view shows, and how that changes: a function of what happened, without a clock, a file or a
//! terminal.

mod actions;
mod choice;
#[cfg(test)]
mod key_tests;
mod message;
mod placed;
mod playing;
#[cfg(test)]
mod playing_tests;
mod read;
mod record;
mod refresh;
mod select;
mod selection;
mod shown;
#[cfg(test)]
mod tests;
mod tracing;
mod waits;

use std::time::{Duration, Instant, SystemTime};

use super::event::{Effect, Event};
use super::keys::{self, Press};
use super::overlay::Overlay;
use super::palette::Colors;
use super::view::View;
use crate::live::Published;
use crate::model::InFlight;
use crate::render::Style;
use choice::Choice;
use message::Message;
use playing::Playing;
use record::Record;
use shown::Shown;
use tracing::Tracing;
use waits::Waits;

pub(crate) use choice::Graph;
pub use shown::Read;

/// What does not change while it runs.
#[derive(Clone, Debug)]
pub struct Options {
    pub unicode: bool,
    pub colors: Colors,
    /// A sync in flight for at least this long is stuck.
    pub stuck_after: Duration,
    /// The log has syncs that took at least this long.
    pub slow_from: Duration,
    /// What is traced once it is there: "a process called mysqld or mariadbd".
    pub waits_for: String,
    /// The time from one snapshot to the next, until keys change it.
    pub interval: Duration,
    pub view: View,
    pub mouse: bool,
}

#[derive(Debug)]
pub struct State {
    pub options: Options,
    pub style: Style,
    /// The columns and rows of the screen.
    pub size: (u16, u16),
    pub now: Instant,
    pub now_wall: SystemTime,
    /// The mouse is used here, not left to the terminal.
    pub mouse: bool,
    pub tracing: Tracing,
    pub record: Record,
    /// None: what is shown happens now.
    pub playing: Option<Playing>,
    pub choice: Choice,
    pub shown: Shown,
    pub overlay: Option<Overlay>,
    pub waits: Waits,
    pub message: Message,
}

impl State {
    pub fn new(options: Options, size: (u16, u16), now: Instant, now_wall: SystemTime) -> State {
        State {
            style: Style { color: false, unicode: options.unicode, width: None },
            size,
            now,
            now_wall,
            mouse: options.mouse,
            tracing: Tracing::new(options.interval),
            record: Record::new(options.stuck_after, options.slow_from),
            playing: None,
            choice: Choice::new(options.view),
            shown: Shown::default(),
            overlay: None,
            waits: Waits::default(),
            message: Message::default(),
            options,
        }
    }

    /// Takes in what happened. Returns what is to be done about it.
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
                if self.record.begin_session() {
                    self.say("attached again; figures since the start were reset");
                }
                self.tracing.attached = true;
                Vec::new()
            }
            Event::Sampling(state) => {
                self.tracing.sampling = state;
                Vec::new()
            }
            Event::Earlier(earlier) => {
                self.record.remember(&earlier, self.now_wall);
                self.refresh();
                Vec::new()
            }
            Event::Recording(recording, at) => {
                self.record.replay(&recording, at);
                self.playing = Some(Playing::new());
                self.tracing.attached = true;
                self.refresh();
                Vec::new()
            }
            Event::Standing(standing) => {
                self.record.standing = standing;
                Vec::new()
            }
            Event::Waits(waits) => {
                self.waits.known = waits;
                Vec::new()
            }
            Event::Said(text) => {
                self.say(text);
                Vec::new()
            }
            Event::Tick(now, wall) => {
                (self.now, self.now_wall) = (now, wall);
                self.message.expire(now);
                self.play();
                self.look()
            }
        }
    }

    fn take(&mut self, published: Published) {
        self.now = self.now.max(published.snapshot.taken);
        let selected = self.selected().map(|row| row.key.clone());
        self.record.take(published, selected.as_ref());
        if self.record.paused.is_none() {
            self.refresh();
        }
    }

    fn say(&mut self, text: impl Into<String>) {
        self.message.say(text.into(), self.now);
    }

    /// The time since the figures that are shown, where they are the newest: syncs in flight have grown older
    /// by that.
    pub(crate) fn since_shown(&self) -> Duration {
        match (&self.record.paused, &self.record.latest) {
            (None, Some(latest)) if self.tracing.sampling.is_tracing() => {
                self.now.saturating_duration_since(latest.taken)
            }
            _ => Duration::ZERO,
        }
    }

    /// Syncs that hang, the oldest first, with their ages as of now.
    pub fn stuck(&self) -> Vec<InFlight> {
        let Some(figures) = &self.shown.figures else { return Vec::new() };
        let since = self.since_shown();
        let in_scope = |sync: &&InFlight| self.choice.scope.has(sync.server);
        let aged = |sync: &InFlight| InFlight { age: sync.age + since, ..sync.clone() };
        // One that has just begun is not stuck because no snapshot came since.
        let hangs = |sync: &&InFlight| sync.age >= self.options.stuck_after;
        figures.m.in_flight.iter().filter(in_scope).filter(hangs).map(aged).collect()
    }

    /// Asks where stuck threads are, but not while it is paused.
    fn look(&mut self) -> Vec<Effect> {
        if self.record.paused.is_some() {
            return Vec::new();
        }
        let stuck = self.stuck();
        Vec::from_iter(self.waits.look(&stuck, self.now))
    }

    fn key(&mut self, press: Press) -> Vec<Effect> {
        if press == Press::Ctrl('c') {
            return vec![Effect::Quit];
        }
        if self.choice.edit.is_some() {
            self.choice.type_filter(press);
            self.refresh_rows();
            return Vec::new();
        }
        match keys::action(press) {
            Some(action) if self.overlay.is_some() => self.act_on_overlay(action),
            Some(action) => self.act(action),
            None => {
                self.say(format!("{press} does nothing; ? shows every key"));
                Vec::new()
            }
        }
    }
}
