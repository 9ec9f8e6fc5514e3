//! What the exporter told of servers.

use std::time::SystemTime;

use super::{Row, ServerId};

/// The verdict on a server that was told to whoever asked when an interval ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictRow {
    pub server: ServerId,
    /// As in JSON: "stalled".
    pub state: String,
    pub since: SystemTime,
    /// Why, in words.
    pub sentence: String,
}

impl Row for VerdictRow {
    type Key = ServerId;

    fn key(&self) -> ServerId {
        self.server
    }

    fn add(&mut self, other: Self) {
        *self = other;
    }
}
