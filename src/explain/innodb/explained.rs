//! What `explain` says of one MySQL or MariaDB.

use super::{Evidence, LOGS, advice, audit, measure};
use crate::explain::commit_watch::Explained;
use crate::explain::commits::{Commits, Inputs, Throughput};
use crate::model::Role;
use crate::server::mysql::status::client::Client;
use crate::server::mysql::status::reading::Reading;

impl Explained for Client {
    const HAS_FACTORS: bool = true;
    const LOGS: &'static [Role] = LOGS;
    const DATA: &'static [Role] = &[Role::Doublewrite, Role::Tablespace];

    fn with_rest_of(counters: Reading, rest: Reading) -> Reading {
        counters.with_rest_of(rest)
    }

    fn explain<'a>(evidence: &Evidence<'a>, inputs: &Inputs<'a>) -> Commits {
        let mut throughput = measure(&inputs.window(evidence));
        throughput.factors.left_out.extend(inputs.no_status.map(str::to_owned));
        Commits {
            alone: inputs.alone(&throughput.factors.logs),
            audit: audit(evidence),
            advice: advice::advise(&throughput, &inputs.processors),
            throughput: Some(Throughput::InnoDb(Box::new(throughput))),
            left_out: Vec::new(),
        }
    }
}
