//! `fsynctop explain`: why commits take as long as they do. Pure but for
//! [`commit_watch`], which gathers what it needs: measurements in, text and JSON out.

#[cfg(test)]
mod agreement_tests;
pub mod audit;
pub mod commit_watch;
pub mod commits;
pub mod factors;
pub(crate) mod json;
pub(crate) mod page;
pub mod waits;

use crate::model::Measurement;
use crate::server::durable_writes::DurableWrites;

/// The content of the page and of the JSON object.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub measurement: Measurement,
    pub waits: waits::Account,
    pub processors: waits::Processors,
    /// The filesystems that were synced.
    pub journals: Vec<waits::Journal>,
    /// If exactly one server was traced: its throughput in factors, and the audit of its settings.
    pub commits: Option<commits::Commits>,
    /// What could not be measured here, and why. Plain sentences.
    pub not_measurable: Vec<String>,
}

impl Explanation {
    /// Which writes of a traced server are durable by themselves, so that what a filesystem or a device did
    /// may have been for them. A sentence without its full stop. None: none, as far as is known.
    fn durable_writes(&self) -> Option<String> {
        let told = self.commits.iter().map(|commits| commits.throughput.factors.form.durable_writes);
        let seen = self.measurement.servers.iter().map(|server| DurableWrites::of(server, None));
        told.chain(seen).find_map(|writes| writes.in_words())
    }
}
