//! The worst moments of a span of time: the longest syncs, the failures, when a log was busiest; each with
//! its time and its file.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::Duration;

use super::troubles::{Span, Troubles};
use crate::model::{Errors, Max, Op, Role, ServerId};

/// Of each kind, the worst.
const LONGEST: usize = 3;
const FAILED: usize = 3;
const SATURATED: usize = 2;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorstMoment {
    /// From its beginning to its end, by the wall clock.
    pub span: Span,
    pub server: ServerId,
    pub role: Role,
    /// None: all of the role.
    pub op: Option<Op>,
    /// None: it has no name, or is not told apart.
    pub path: Option<PathBuf>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// The longest sync of its role ended.
    Took(Max),
    /// It had not ended when it was last seen, and was so old.
    InFlight(Duration),
    /// No other moment had more failures of this file.
    Failed(Errors),
    /// The share of the time; where it is a log of several files, the file is that which took most of it.
    Busy(f64),
}

impl Troubles {
    /// The longest syncs first, then failures, then saturated logs; of each kind the worst first.
    pub(crate) fn worst_moments(&self) -> Vec<WorstMoment> {
        let mut worst: Vec<WorstMoment> = Vec::new();
        worst.extend(self.longest(Duration::ZERO).into_iter().take(LONGEST).map(|sync| WorstMoment {
            span: (sync.from, sync.seen),
            server: sync.server,
            role: sync.role,
            op: Some(sync.op),
            path: sync.path.clone(),
            what: if sync.ended { What::Took(sync.took) } else { What::InFlight(sync.duration()) },
        }));
        let mut failed: Vec<_> = self.failures_by_file().collect();
        failed.sort_by_key(|file| {
            let most = file.errors_at_once.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
            // After an I/O error, what is on the device is in doubt: as in the sentences.
            Reverse((file.row.stats.errors.contains_key(&libc::EIO), most))
        });
        worst.extend(failed.into_iter().take(FAILED).map(|file| WorstMoment {
            span: file.span,
            server: file.row.server,
            role: file.row.info.role,
            op: Some(file.row.op),
            path: file.row.info.path.clone(),
            what: What::Failed(file.errors_at_once.clone()),
        }));
        let mut busy = self.busy();
        busy.sort_by(|a, b| b.2.peak.share.total_cmp(&a.2.peak.share));
        worst.extend(busy.into_iter().take(SATURATED).filter_map(|(server, role, busy)| {
            let peak = &busy.peak;
            let (path, what) = (peak.path.clone(), What::Busy(peak.share));
            Some(WorstMoment { span: peak.span?, server, role, op: None, path, what })
        }));
        worst
    }
}
