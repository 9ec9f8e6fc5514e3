//! The interface between the web side and the figures.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::verdict::Told;

/// There is no answer yet, or no more. Says why in a sentence that may be shown to anybody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotReady(pub String);

/// What [`NotReady`] says until the probes are there.
pub const ATTACHING: &str = "not yet: the probes are being attached";

/// How an exposition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
    /// Prometheus' protobuf format: `io.prometheus.client.MetricFamily`, delimited.
    Protobuf,
}

impl Form {
    /// Where a client has no preference, the first of these that it takes.
    pub const ALL: [Form; 3] = [Form::Text, Form::OpenMetrics, Form::Protobuf];
}

/// Everything that the web side shows.
pub trait Source: Send + Sync {
    /// `/metrics`: one exposition. It may take its time (it waits for a fresh snapshot): it is called on a
    /// thread that may block, not more than once at a time for each form, and everybody who asked meanwhile
    /// is given what it returns.
    fn metrics(&self, form: Form) -> Result<Vec<u8>, NotReady>;

    /// `/status`, as JSON. May block as well.
    fn status(&self) -> Result<Vec<u8>, NotReady>;

    /// `/-/healthy`: everything that the exporter consists of is at work; never blocks.
    fn healthy(&self) -> Result<(), NotReady>;

    /// `/-/ready`; never blocks.
    fn ready(&self) -> Result<(), NotReady>;

    /// The newest verdicts that are known here; never blocks.
    fn verdicts(&self) -> Result<Arc<Told>, NotReady>;

    /// A user of this host knows of the failures of a server: how many there were. None: there is no such
    /// server. May block.
    fn acknowledge(&self, server: &str, user: u32) -> Result<Option<u64>, NotReady>;
}
