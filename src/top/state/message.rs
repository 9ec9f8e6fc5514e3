//! The message line: what was said last, for as long as it is of use.

use std::time::{Duration, Instant};

/// The line keeps a message for so long.
const KEPT: Duration = Duration::from_secs(8);

#[derive(Debug, Default)]
pub(crate) struct Message(Option<(String, Instant)>);

impl Message {
    pub(super) fn say(&mut self, text: String, now: Instant) {
        self.0 = Some((text, now));
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.0.take_if(|(_, since)| now.duration_since(*since) >= KEPT);
    }

    pub fn text(&self) -> Option<&str> {
        self.0.as_ref().map(|(text, _)| text.as_str())
    }
}
