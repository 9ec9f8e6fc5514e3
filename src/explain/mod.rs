//! `fsynctop explain`: why commits take as long as they do. Pure but for
//! [`commit_watch`], which gathers what it needs: measurements in, text and JSON out.

#[cfg(test)]
mod agreement_tests;
pub mod audit;
pub mod commit_watch;
pub mod commits;
pub mod etcd;
pub mod factors;
mod head;
pub(crate) mod innodb;
pub(crate) mod json;
pub(crate) mod page;
pub mod postgres;
pub mod redis;
pub mod waits;

use std::collections::BTreeMap;

use serde::Serialize;

use self::commits::Throughput;
use crate::model::{Interval, Op, Role, Via, durability};
use crate::server::mysql::durable_writes::DurableWrites;

/// The content of the page and of the JSON object.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub measurement: Interval,
    pub waits: waits::Account,
    pub processors: waits::Processors,
    /// The filesystems that were synced.
    pub journals: Vec<waits::Journal>,
    /// Of a recording: its incidents, with what threads were seen to wait for.
    pub incidents: Option<Vec<String>>,
    /// If exactly one server was traced: its throughput in factors, if its engine's can be, and the audit of
    /// its settings.
    pub commits: Option<commits::Commits>,
    /// What could not be measured here, and why. Plain sentences.
    pub not_measurable: Vec<String>,
}

/// Which syncs have no thread that could be seen to wait. A sentence without its full stop. None: each had
/// one.
pub(crate) fn without_thread(measurement: &Interval) -> Option<String> {
    let rows = measurement.roles.iter().filter(|row| row.op.via() != Via::Call);
    let requests: u64 = rows.map(|row| row.stats.count).sum();
    (requests > 0).then(|| {
        format!(
            "what {} asynchronous requests waited for: a request has no thread of its own",
            crate::text::count(requests)
        )
    })
}

/// What was written for each transaction, on average.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BytesPerTransaction {
    pub all: u64,
    /// Of the logs that commits can wait for.
    #[serde(flatten)]
    pub logs: BTreeMap<Role, u64>,
}

impl Explanation {
    /// None: not all writes were watched, or the transactions were not counted, or there were none. Of one
    /// server: only of one are the transactions counted.
    fn bytes_per_transaction(&self) -> Option<BytesPerTransaction> {
        let m = &self.measurement;
        let throughput = self.commits.as_ref()?.throughput.as_ref()?;
        let transactions =
            throughput.transactions().filter(|&n| n > 0 && m.setup.ops.contains(&Op::Write))?;
        let of = |role: Option<Role>| {
            let rows = m.all_write_roles().filter(|row| role.is_none_or(|role| row.role == role));
            rows.map(|row| row.stats.bytes).sum::<u64>() / transactions
        };
        let logs = throughput.log_roles().iter().map(|&role| (role, of(Some(role)))).collect();
        Some(BytesPerTransaction { all: of(None), logs })
    }

    /// Which writes of a traced server are durable by themselves and may not have been seen, so that what a
    /// filesystem or a device did may have been for them. A sentence without its full stop. None: none, as
    /// far as is known.
    fn unseen_durable_writes(&self) -> Option<String> {
        let m = &self.measurement;
        if m.setup.ops.contains(&Op::DsyncWrite) && m.lost.is_zero() && m.lost.unwatched == 0 {
            return None;
        }
        let throughput = self.commits.iter().filter_map(|commits| commits.throughput.as_ref());
        let told = throughput.map(Throughput::durable_writes);
        let seen = self.measurement.servers.iter().map(|server| DurableWrites::of(server, None).in_words());
        let wal = self.measurement.servers.iter().map(|server| {
            let is_seen = durability::wal_is_durable_by_writes(server);
            is_seen.then(|| "each write of the WAL is itself durable".to_owned())
        });
        told.chain(seen).chain(wal).flatten().next()
    }
}
