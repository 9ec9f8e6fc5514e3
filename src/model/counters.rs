//! What servers count themselves, as it was told over a connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Row, ServerId};

/// Values by their names in the server's own words.
pub type Texts = BTreeMap<String, String>;

/// A server's counters at one moment, between two times of the monotonic clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnReading {
    pub began: Duration,
    pub ended: Duration,
    /// The number of a snapshot that had been made before it began.
    pub follows: u64,
    pub counters: Texts,
}

/// Readings at either end of an interval that are kept. A comparison needs two about each end, and the few
/// around them to see whether the server stood still.
const KEPT: usize = 4;

/// The readings of an interval in their order, with the settings that were told last. Of many readings, the
/// first and the last ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCounters {
    pub server: ServerId,
    pub readings: Vec<Arc<OwnReading>>,
    /// Empty where they were not asked for.
    pub settings: Arc<Texts>,
}

impl OwnCounters {
    pub const MAX_READINGS: usize = 2 * KEPT;
}

impl Row for OwnCounters {
    type Key = ServerId;

    fn key(&self) -> ServerId {
        self.server
    }

    fn add(&mut self, other: Self) {
        self.readings.extend(other.readings);
        if self.readings.len() > Self::MAX_READINGS {
            self.readings.drain(KEPT..self.readings.len() - KEPT);
        }
        if !other.settings.is_empty() {
            self.settings = other.settings;
        }
    }
}
