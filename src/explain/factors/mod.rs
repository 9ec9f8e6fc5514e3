//! What the throughput of a server is split into, whatever its engine is: its logs ([`log`]), how many of
//! their syncs are in flight ([`samples`], and at the ends of the window [`edges`]), and what follows from
//! these. Each engine's own equations are in a module of its own.
//!
//! With X transactions and S syncs of a log (or durable writes, where no sync follows them) per second, R a
//! sync's mean latency and N the mean number in flight: `X = (X/S) · (N / R)`. N is sampled independently of
//! R, so the product can fail; how closely it matches is part of the result. A log that the server serialises
//! has N ≤ 1, which gives the upper bounds.

pub(crate) mod alone;
pub(crate) mod connections;
pub(crate) mod edges;
pub(crate) mod log;
pub(crate) mod naive;
pub(crate) mod render;
pub mod samples;

use serde::Serialize;

use crate::model::{Interval, Server};

pub use alone::Alone;
pub use connections::Connections;
pub use edges::{EarlyScan, Edges, Uncertain};
pub use log::{DurableBy, Log};
pub use naive::Naive;
pub use samples::InFlightSamples;

/// The input of the factors. `R`: what the server's counters are read into.
#[derive(Debug)]
pub struct Window<'a, R> {
    pub server: &'a Server,
    pub measurement: &'a Interval,
    pub edges: Edges<'a>,
    /// The server's own counters at both ends of the window, the earlier one first. None: no connection.
    pub status: Option<(&'a R, &'a R)>,
    pub in_flight: &'a InFlightSamples,
}

/// The throughput as the server counted it, the throughput predicted by the log that commits wait for last,
/// and the factors of its engine. Flattened into an object, these are three fields of `explain`'s JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throughput<F> {
    pub observed_transactions_per_second: Option<f64>,
    pub predicted_transactions_per_second: Option<f64>,
    pub factors: F,
}

/// One measured ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factor {
    pub value: Option<f64>,
    /// The source of the value; without a value, why there is none.
    pub source: String,
}

/// The counters of a window, or why there are none; then a sentence of that is added to `left_out`.
/// `interrupted`: why they cannot be used.
pub(super) fn usable<B>(
    between: Option<B>,
    interrupted: impl FnOnce(&B) -> Option<&'static str>,
    left_out: &mut Vec<String>,
) -> Result<B, &'static str> {
    let Some(between) = between else {
        left_out.push("No connection to the server: its own counters are missing.".to_owned());
        return Err("no connection to the server");
    };
    match interrupted(&between) {
        None => Ok(between),
        Some(why) => {
            left_out.push(format!("The server's counters cannot be used: {why}."));
            Err("the server's counters cannot be used")
        }
    }
}

/// Of a window: a count over the seconds in which it was counted.
pub(super) fn per_second(count: u64, over: f64) -> Option<f64> {
    (over > 0.0).then(|| count as f64 / over)
}
