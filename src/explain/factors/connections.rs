//! Time per transaction: with C connections and X transactions per second, it is C / X (Little's law).

use serde::Serialize;

use super::Naive;
use crate::server::mysql::status::counters::Between;

/// The mean is known only at both ends of the window, so it is used only if the number changed by less than
/// this share.
const MAX_CHANGE: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Connections {
    /// The mean of both ends of the window, not counting fsynctop's own connection.
    pub connected: f64,
    /// Assuming that all of them commit. Includes the clients' own time.
    pub seconds_per_transaction: f64,
    /// The part spent in the syncs of the transaction's own group.
    pub seconds_in_syncs: f64,
}

impl Connections {
    /// None if there are no other connections, or if their number changed too much for a mean.
    pub fn measure(between: &Between, observed: f64, naive: &Naive) -> Option<Connections> {
        let others = |connected: u64| connected.checked_sub(1).filter(|&others| others > 0);
        let from = others(between.from.number("threads_connected")?)? as f64;
        let to = others(between.to.number("threads_connected")?)? as f64;
        let connected = (from + to) / 2.0;
        ((to - from).abs() <= MAX_CHANGE * connected && observed > 0.0).then(|| Connections {
            connected,
            seconds_per_transaction: connected / observed,
            seconds_in_syncs: 1.0 / naive.ceiling_transactions_per_second,
        })
    }
}
