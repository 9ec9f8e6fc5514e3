//! Time per transaction: with C connections and X transactions per second, it is C / X (Little's law).

use serde::Serialize;

use super::Naive;

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
    /// `ends`: how many others were connected at both ends of the window. None if there are none, or if their
    /// number changed too much for a mean.
    pub fn measure(ends: [u64; 2], observed: f64, naive: &Naive) -> Option<Connections> {
        let [from, to] = ends.map(|n| n as f64);
        let connected = (from + to) / 2.0;
        let is_steady = from > 0.0 && to > 0.0 && (to - from).abs() <= MAX_CHANGE * connected;
        (is_steady && observed > 0.0).then(|| Connections {
            connected,
            seconds_per_transaction: connected / observed,
            seconds_in_syncs: 1.0 / naive.ceiling_transactions_per_second,
        })
    }
}
