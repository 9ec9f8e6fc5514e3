//! The word of a verdict.

use serde::{Deserialize, Serialize};

/// In the order of severity: of several servers, the last of these states is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It syncs, and nothing is wrong with that.
    Ok,
    /// It has not synced for a while, and nothing hangs.
    Idle,
    /// Syncs of a log that commits wait for take longer than they should, and have for a while.
    Slow,
    /// Nothing can be said.
    Unknown,
    /// An operation of a log that commits wait for has not returned.
    Stalled,
    /// Something could not be made durable, and the file that it was meant for is still open.
    Failing,
}

impl State {
    pub const ALL: [State; 6] =
        [State::Ok, State::Idle, State::Slow, State::Unknown, State::Stalled, State::Failing];

    /// In JSON, on the command line and in labels.
    pub const fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Idle => "idle",
            State::Slow => "slow",
            State::Unknown => "unknown",
            State::Stalled => "stalled",
            State::Failing => "failing",
        }
    }
}
