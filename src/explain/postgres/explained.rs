//! What `explain` says of one PostgreSQL.

use super::{Evidence, LOGS, advise, audit, measure};
use crate::explain::commit_watch::Explained;
use crate::explain::commits::{Commits, Inputs, Throughput};
use crate::model::Role;
use crate::server::postgres::status::client::Client;
use crate::server::postgres::status::reading::Reading;

impl Explained for Client {
    const HAS_FACTORS: bool = true;
    const LOGS: &'static [Role] = LOGS;
    const DATA: &'static [Role] = &[Role::Data];

    fn with_rest_of(counters: Reading, rest: Reading) -> Reading {
        counters.with_settings_of(&rest)
    }

    fn explain<'a>(evidence: &Evidence<'a>, inputs: &Inputs<'a>) -> Commits {
        let mut throughput = measure(&inputs.window(evidence), inputs.titles);
        throughput.factors.left_out.extend(inputs.no_status.map(str::to_owned));
        Commits {
            alone: inputs.alone(&throughput.factors.logs),
            audit: audit(evidence),
            advice: advise(&throughput, &inputs.processors),
            throughput: Some(Throughput::Postgres(Box::new(throughput))),
            left_out: Vec::new(),
        }
    }
}
