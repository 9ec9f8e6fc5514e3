//! From when on what is seen is a state. docs/verdicts.md says where each figure comes from.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// An operation of a serial log in flight for so long: stalled.
    pub stalled: Duration,
    /// A serial log's 99th percentile above this is slow,
    pub slow: Duration,
    /// if it is all the time for so long,
    pub slow_for: Duration,
    /// at so many syncs a second, or more.
    pub min_rate: f64,
    /// A server that has made nothing durable for so long is idle.
    pub idle_after: Duration,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            // As the alert for a sync that is stuck. The slowest sync of a device that works is far below it.
            stalled: Duration::from_secs(5),
            // As the alert for very slow syncs: fifty times what local flash needs, and more than twice what
            // one calls slow on a network volume.
            slow: Duration::from_millis(100),
            slow_for: Duration::from_secs(60),
            // With this, a minute has the hundred syncs below which no 99th percentile is told, and the three
            // syncs of a checkpoint on an idle server make nobody slow.
            min_rate: 2.0,
            // A server without load syncs at its checkpoints and flushes, some seconds apart.
            idle_after: Duration::from_secs(60),
        }
    }
}
