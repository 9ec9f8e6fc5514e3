//! Whether a filesystem is good enough for an engine: what was measured against what its profile says.

use serde::Serialize;

use crate::calibration::Calibration;
use crate::calibration::plan::{Case, Method, Pattern};
use crate::engine::profile::Profile;
use crate::text::duration;

/// A p99 above this part of the limit leaves little room for a load beside the log's.
const MARGIN: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Grade {
    Pass,
    /// Below the limit, but above half of it, with nothing else on the disk.
    Marginal,
    Fail,
}

/// For JSON, and for the last line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judgement {
    pub grade: Grade,
    pub engine: String,
    #[serde(skip)]
    title: String,
    pub method: Method,
    pub pattern: Pattern,
    pub p99_seconds: f64,
    pub limit_seconds: f64,
    pub says: String,
    pub source: String,
}

/// None: the profile says nothing of that, or its case was not measured.
pub(crate) fn judge(profile: &Profile, calibration: &Calibration) -> Option<Judgement> {
    let standard = profile.calibrate.as_ref()?;
    let p99_seconds = calibration.of(Case::alone(standard.method, standard.pattern))?.p99_seconds;
    let grade = match p99_seconds / standard.p99_seconds {
        share if share > 1.0 => Grade::Fail,
        share if share > MARGIN => Grade::Marginal,
        _ => Grade::Pass,
    };
    Some(Judgement {
        grade,
        engine: profile.engine.name.clone(),
        title: profile.engine.title.clone(),
        method: standard.method,
        pattern: standard.pattern,
        p99_seconds,
        limit_seconds: standard.p99_seconds,
        says: standard.says.clone(),
        source: standard.source.clone(),
    })
}

impl Judgement {
    /// "PASS for etcd: the p99 of fdatasync, appended, is 1.2ms, and may be 10ms: …".
    pub fn in_words(&self) -> String {
        let grade = match self.grade {
            Grade::Pass => "PASS",
            Grade::Marginal => "MARGINAL",
            Grade::Fail => "FAIL",
        };
        let time = |seconds: f64| duration((seconds * 1e9).round() as u64);
        format!(
            "{grade} for {}: the p99 of {}, {}, is {}, and may be {}: {}.",
            self.title,
            self.method.name(),
            self.pattern.name(),
            time(self.p99_seconds),
            time(self.limit_seconds),
            self.says
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{Figures, Outcome, Place};
    use crate::engine::engines::Engines;

    fn measured(p99_seconds: f64) -> Calibration {
        let figures = Figures {
            syncs: 1_000,
            syncs_per_second: 1_000.0,
            mean_seconds: 0.001,
            p50_seconds: 0.001,
            p99_seconds,
            max_seconds: 1.0,
            journal_commits: None,
        };
        let outcome = |pattern| Outcome {
            case: Case::alone(Method::Fdatasync, pattern),
            figures: Some(figures),
            refused: None,
        };
        Calibration {
            schema: 1,
            when: "2026-01-01T00:00:00Z".into(),
            place: Place {
                directory: "/srv".into(),
                filesystem: "ext4".into(),
                device: "/dev/vda1".into(),
                kernel_device: None,
                mount_options: "rw".into(),
                filesystem_id: 1,
            },
            kernel: "6.12".into(),
            block_bytes: 4096,
            seconds_each: 1.0,
            outcomes: Pattern::ALL.map(outcome).to_vec(),
            complete: true,
        }
    }

    #[test]
    fn a_disk_is_judged_by_what_the_engine_does_and_its_makers_say() {
        let engines = Engines::builtin();
        let of = |name: &str, p99| judge(engines.profile(name).unwrap(), &measured(p99));
        let grade = |name: &str, p99| of(name, p99).map(|judgement| judgement.grade);
        assert_eq!(grade("etcd", 0.005), Some(Grade::Pass));
        assert_eq!(grade("etcd", 0.0051), Some(Grade::Marginal));
        assert_eq!(grade("etcd", 0.01), Some(Grade::Marginal));
        assert_eq!(grade("etcd", 0.0101), Some(Grade::Fail));
        assert_eq!(grade("postgres", 0.0101), Some(Grade::Pass));
        assert_eq!(grade("mysql", 0.001), None, "it syncs with fsync, which was not measured here");
        assert_eq!(grade("sqlite", 0.001), None);
        assert_eq!(
            of("etcd", 0.0012).unwrap().in_words(),
            "PASS for etcd: the p99 of fdatasync, appended, is 1.2ms, and may be 10ms: the p99 of WAL syncs \
             should be less than 10 ms."
        );
    }
}
