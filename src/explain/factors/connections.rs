//! The connections: with C of them and X transactions per second, a transaction takes each of them C / X (Little's law).

use serde::Serialize;

use super::Naive;
use crate::server::status::counters::Between;

/// By more than this share the number of connections must not change in the window, whose mean is not known otherwise.
const CHANGE: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Connections {
    /// The mean of both ends of the window, without fsynctop's own.
    pub connected: f64,
    /// If all of them commit; their clients' own time included.
    pub seconds_per_transaction: f64,
    /// Of that, in the syncs of the transaction's own group.
    pub seconds_in_syncs: f64,
}

impl Connections {
    /// None where there are no others, or as many came or went that a mean says nothing.
    pub fn measure(between: &Between, observed: f64, naive: &Naive) -> Option<Connections> {
        let others = |connected: u64| connected.checked_sub(1).filter(|&others| others > 0);
        let from = others(between.from.number("threads_connected")?)? as f64;
        let to = others(between.to.number("threads_connected")?)? as f64;
        let connected = (from + to) / 2.0;
        ((to - from).abs() <= CHANGE * connected && observed > 0.0).then(|| Connections {
            connected,
            seconds_per_transaction: connected / observed,
            seconds_in_syncs: 1.0 / naive.ceiling_transactions_per_second,
        })
    }
}
