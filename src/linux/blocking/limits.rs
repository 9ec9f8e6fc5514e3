//! How much a pool may take, of all owners together and of one.

use std::time::Duration;

use crate::linux::cpu_time::Allowance;

/// What jobs may take, of all owners together or of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Jobs at work at the same time.
    pub threads: usize,
    /// The same with those that were abandoned: so many threads there are at most.
    pub with_abandoned: usize,
    /// Jobs that wait.
    pub queue: usize,
}

pub(crate) struct Limits {
    pub all: Share,
    pub of_one_owner: Share,
    /// A job that takes longer hangs.
    pub job_timeout: Duration,
    /// Processor time for all jobs. It is charged when they end.
    pub allowance: Option<Allowance>,
}

impl Limits {
    /// For jobs that are all of the same owner: first come, first served.
    pub(crate) fn for_one_owner(share: Share, job_timeout: Duration) -> Limits {
        Limits { all: share, of_one_owner: share, job_timeout, allowance: None }
    }
}
