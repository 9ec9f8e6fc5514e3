//! The border between the web side and the figures: what is asked for, and by whom it is answered.

use serde_json::Value;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    OpenMetrics,
}

/// There is no answer yet, or no more. Says why in a sentence that may be shown to anybody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotReady(pub String);

/// The figures, made from the newest snapshot.
pub trait Metrics: Send + Sync {
    /// One exposition. It may take its time (it waits for a fresh snapshot): it is called on a thread that may block,
    /// not more than once at a time for each format, and what it returns is given to everybody who asked meanwhile.
    fn render(&self, format: Format) -> Result<Vec<u8>, NotReady>;

    /// Whether [`Format::OpenMetrics`] can be had as well.
    fn open_metrics(&self) -> bool {
        false
    }
}

/// Everything that the web side shows.
pub trait Source: Metrics {
    /// `/status`. May block as well.
    fn status(&self) -> Value;

    /// `/-/ready`; at once, whatever else happens.
    fn ready(&self) -> Result<(), NotReady>;
}
