//! The cost of one sync on a filesystem, measured by `calibrate` and read by `explain`: [`plan`] defines
//! the cases, [`state`] stores the last result.

pub(crate) mod plan;
pub mod state;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::Durability;

use plan::Case;

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

/// The result of a calibration.
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
    /// False if it was interrupted.
    pub complete: bool,
}

/// The directory that was calibrated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub directory: PathBuf,
    pub filesystem: String,
    /// "/dev/vda1", or another source of the mount.
    pub device: String,
    /// The kernel's name of the block device ("vda1"). None if there is none.
    pub kernel_device: Option<String>,
    /// The options in force: "rw,noatime,nobarrier".
    pub mount_options: String,
    /// The kernel's ID of the filesystem, the same for all its mounts.
    pub filesystem_id: u64,
    /// Whether a sync makes anything durable there. None: an older result does not say.
    #[serde(default)]
    pub storage: Option<Durability>,
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

/// Figures of a write with its sync, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub syncs: u64,
    pub syncs_per_second: f64,
    pub mean_seconds: f64,
    pub p50_seconds: f64,
    pub p99_seconds: f64,
    pub max_seconds: f64,
    /// Commits of the filesystem during the case, including those of its other users. None if it reports no
    /// count.
    pub journal_commits: Option<u64>,
}

impl Figures {
    pub fn syncs_per_commit(&self) -> Option<f64> {
        self.journal_commits.filter(|&commits| commits > 0).map(|commits| self.syncs as f64 / commits as f64)
    }
}

impl Calibration {
    /// The figures of a case, if it was measured.
    pub fn of(&self, case: Case) -> Option<&Figures> {
        self.outcomes.iter().find(|outcome| outcome.case == case)?.figures.as_ref()
    }
}
