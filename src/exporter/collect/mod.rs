//! The exporter's counters and their exposition: snapshots in, what Prometheus reads out.
//!
//! Every snapshot is fed to the [`book`], which adds what happened since the one before to totals by label,
//! so that a counter never depends on which rows a snapshot still has. A scrape copies the book, makes
//! samples of it ([`expose`]) and writes them in the form that was asked for ([`forms`]).

mod book;
mod buckets;
mod busiest;
mod collector;
mod expose;
mod families;
mod forms;
mod neighbours;
mod own;
#[cfg(test)]
mod page;
mod paths;
mod rotation;
mod samples;
#[cfg(test)]
mod tests;
mod totals;
mod waiting;

pub(crate) use book::Labelled;
pub use book::Options;
pub(crate) use buckets::Buckets;
pub(crate) use collector::{About, Collector, Remembered};
