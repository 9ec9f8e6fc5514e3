//! `fsynctop explain`: why commits take as long as they do. Pure: it gets figures and gives text and JSON.

pub mod audit;
pub mod commits;
pub mod factors;
pub mod json;
pub mod page;
pub mod waits;

use crate::model::Measurement;

/// What a page or an object is made from.
#[derive(Debug)]
pub struct Explanation {
    pub measurement: Measurement,
    pub waits: waits::Account,
    /// Of the filesystems that were synced.
    pub journals: Vec<waits::Journal>,
    /// Of the one server that was watched: its throughput in factors, what its settings promise.
    pub commits: Option<commits::Commits>,
    /// What could not be measured here, and why. Plain sentences.
    pub not_measurable: Vec<String>,
}
