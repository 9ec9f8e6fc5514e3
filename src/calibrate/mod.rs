//! What one sync costs on a filesystem: small writes made durable in the ways that databases do it, alone and by many
//! threads. [`plan`] says what is measured, [`work`] does it, [`scratch`] is the file that never stays behind,
//! [`place`] decides whether this may be done here, [`state`] keeps the last result.

pub mod journal;
mod location;
pub mod place;
pub mod plan;
pub mod render;
pub mod scratch;
pub mod state;
pub mod work;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use place::Place;
use plan::Case;

/// What all files together take at most.
pub const MOST_BYTES: u64 = 64 << 20;
/// One write: a block of a redo log, or a small group of events of a binary log.
pub const BLOCK: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    #[error("{0}")]
    Refused(String),
    #[error("{path}: cannot {what}: {source}", path = .path.display())]
    Io { path: PathBuf, what: &'static str, source: std::io::Error },
}

impl CalibrateError {
    pub(crate) fn io<'a>(
        path: &'a Path,
        what: &'static str,
    ) -> impl Fn(std::io::Error) -> CalibrateError + 'a {
        move |source| CalibrateError::Io { path: path.to_owned(), what, source }
    }
}

/// What was measured, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub schema: u32,
    /// RFC 3339.
    pub when: String,
    pub place: Place,
    pub kernel: String,
    pub block_bytes: usize,
    pub seconds_each: f64,
    pub outcomes: Vec<Outcome>,
    /// False: interrupted.
    pub complete: bool,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(flatten)]
    pub case: Case,
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    pub refused: Option<String>,
}

/// A write and its sync, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub syncs: u64,
    pub syncs_per_second: f64,
    pub mean_seconds: f64,
    pub p50_seconds: f64,
    pub p99_seconds: f64,
    pub max_seconds: f64,
    /// Of the filesystem meanwhile, its other users' included. None where it keeps no count.
    pub journal_commits: Option<u64>,
}

impl Figures {
    pub fn syncs_per_commit(&self) -> Option<f64> {
        self.journal_commits.filter(|&commits| commits > 0).map(|commits| self.syncs as f64 / commits as f64)
    }
}

/// Measures every case of a plan in a directory, saying before each how many are done. Ends early when `stop` is set;
/// what it made is gone when this returns, however it returns.
pub fn calibrate(
    place: Place,
    cases: &[Case],
    each: Duration,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize, &Case),
) -> Result<Calibration, CalibrateError> {
    scratch::remove_leftovers(&place.directory);
    let mut outcomes = Vec::new();
    for (done, case) in cases.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress(done, case);
        let outcome = work::run(&place, *case, each, stop)?;
        if stop.load(Ordering::Relaxed) {
            break; // a case that was cut short says little
        }
        outcomes.push(outcome);
    }
    Ok(Calibration {
        schema: 1,
        when: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        complete: outcomes.len() == cases.len(),
        place,
        kernel: crate::host::kernel_release().unwrap_or_else(|| "unknown".into()),
        block_bytes: BLOCK,
        seconds_each: each.as_secs_f64(),
        outcomes,
    })
}

impl Calibration {
    /// The figures of a case, if they were measured.
    pub fn of(&self, case: Case) -> Option<&Figures> {
        self.outcomes.iter().find(|outcome| outcome.case == case)?.figures.as_ref()
    }
}
