//! Whether a filesystem is good enough for an engine: what was measured against what its profile says.

use serde::Serialize;

use crate::engine::profile::Profile;
use crate::sync_cost::Calibration;
use crate::sync_cost::plan::{Case, Method, Pattern};
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

/// What disks of a kind can do: a sync of one that turns 7,200 times a minute waits for a turn of 8.3 ms,
/// unless a cache that survives a power cut takes it; flash is told by being well below that.
const FLASH_SECONDS: f64 = 0.002;
const TURN_SECONDS: f64 = 0.0083;

/// For JSON, and for the last line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judgement {
    /// None: there is no limit, or a sync is not known to make anything durable there.
    pub grade: Option<Grade>,
    pub engine: String,
    #[serde(skip)]
    title: String,
    pub method: Method,
    pub pattern: Pattern,
    pub p99_seconds: f64,
    pub limit_seconds: Option<f64>,
    /// Why a sync is not, or is not known to be, of any use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_durable: Option<String>,
    pub says: String,
    pub source: String,
}

/// None: the profile says nothing of that, or its case was not measured.
pub(crate) fn judge(profile: &Profile, calibration: &Calibration) -> Option<Judgement> {
    let standard = profile.calibrate.as_ref()?;
    let p99_seconds = calibration.of(Case::alone(standard.method, standard.pattern))?.p99_seconds;
    let not_durable = super::render::not_durable(&calibration.place);
    let grade = standard.p99_seconds.and_then(|limit| match p99_seconds / limit {
        // Too slow it is in any case.
        share if share > 1.0 => Some(Grade::Fail),
        _ if not_durable.is_some() => None,
        share if share > MARGIN => Some(Grade::Marginal),
        _ => Some(Grade::Pass),
    });
    Some(Judgement {
        grade,
        engine: profile.engine.name.clone(),
        title: profile.engine.title.clone(),
        method: standard.method,
        pattern: standard.pattern,
        p99_seconds,
        limit_seconds: standard.p99_seconds,
        not_durable,
        says: standard.says.clone(),
        source: standard.source.clone(),
    })
}

impl Judgement {
    /// "PASS for etcd: the p99 of fdatasync, appended, is 1.2ms, and may be 10ms: …".
    pub fn in_words(&self) -> String {
        let time = |seconds: f64| duration((seconds * 1e9).round() as u64);
        let (title, took) = (&self.title, time(self.p99_seconds));
        let what = format!("the p99 of {}, {}, is {took}", self.method.name(), self.pattern.name());
        if let (None, Some(why)) = (self.grade, &self.not_durable) {
            return format!("No verdict for {title}: {what}, which says nothing. {why}");
        }
        let (Some(grade), Some(limit)) = (self.grade, self.limit_seconds) else {
            let like = match self.p99_seconds {
                quick if quick < FLASH_SECONDS => "good for flash (below 2 ms)",
                fair if fair < TURN_SECONDS => "slow for flash (2 ms), quick for a disk that turns (8 ms)",
                _ => "as slow as a disk that turns (8 ms), or slower",
            };
            return format!("No verdict for {title}, {}: {what}, which is {like}.", self.says);
        };
        let grade = match grade {
            Grade::Pass => "PASS",
            Grade::Marginal => "MARGINAL",
            Grade::Fail => "FAIL",
        };
        format!("{grade} for {title}: {what}, and may be {}: {}.", time(limit), self.says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engines::Engines;
    use crate::model::Durability;
    use crate::sync_cost::{Figures, Outcome, Place};

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
                storage: Some(Durability::Yes),
            },
            kernel: "6.12".into(),
            block_bytes: 4096,
            seconds_each: 1.0,
            outcomes: Pattern::ALL.map(outcome).to_vec(),
            complete: true,
        }
    }

    #[test]
    fn a_disk_that_nobody_gives_a_limit_for_does_not_pass() {
        let engines = Engines::builtin();
        let said = |p99| {
            let judgement = judge(engines.profile("mariadb").unwrap(), &measured(p99)).unwrap();
            assert_eq!((judgement.grade, judgement.limit_seconds), (None, None));
            judgement.in_words()
        };
        let begin = "No verdict for MariaDB, its makers give no limit: the p99 of fdatasync, overwritten, is";
        assert_eq!(said(0.000_25), format!("{begin} 250µs, which is good for flash (below 2 ms)."));
        let fair = "which is slow for flash (2 ms), quick for a disk that turns (8 ms).";
        assert_eq!(said(0.004), format!("{begin} 4.0ms, {fair}"));
        assert!(said(0.09).ends_with("as slow as a disk that turns (8 ms), or slower."));
    }

    #[test]
    fn what_makes_nothing_durable_never_passes_and_what_is_not_known_neither() {
        let engines = Engines::builtin();
        let of = |storage, p99| {
            let mut calibration = measured(p99);
            calibration.place.storage = storage;
            judge(engines.profile("etcd").unwrap(), &calibration).unwrap()
        };
        let no = || Some(Durability::No("tmpfs keeps files in memory only".into()));
        let said = of(no(), 0.000_1);
        assert_eq!(said.grade, None);
        assert_eq!(
            said.in_words(),
            "No verdict for etcd: the p99 of fdatasync, appended, is 100µs, which says nothing. No sync makes anything \
             durable there: tmpfs keeps files in memory only."
        );
        let unknown = of(Some(Durability::Unknown("nobody has looked".into())), 0.000_1);
        assert_eq!(unknown.grade, None);
        assert!(unknown.in_words().contains("is not known: nobody has looked."), "{}", unknown.in_words());
        assert_eq!(of(no(), 1.0).grade, Some(Grade::Fail));
    }

    #[test]
    fn a_disk_is_judged_by_what_the_engine_does_and_its_makers_say() {
        let engines = Engines::builtin();
        let of = |name: &str, p99| judge(engines.profile(name).unwrap(), &measured(p99));
        let grade = |name: &str, p99| of(name, p99).and_then(|judgement| judgement.grade);
        assert_eq!(grade("etcd", 0.005), Some(Grade::Pass));
        assert_eq!(grade("etcd", 0.0051), Some(Grade::Marginal));
        assert_eq!(grade("etcd", 0.01), Some(Grade::Marginal));
        assert_eq!(grade("etcd", 0.0101), Some(Grade::Fail));
        assert_eq!(grade("mysql", 0.001), None, "it syncs with fsync, which was not measured here");
        assert_eq!(grade("sqlite", 0.001), None);
        assert_eq!(
            of("etcd", 0.0012).unwrap().in_words(),
            "PASS for etcd: the p99 of fdatasync, appended, is 1.2ms, and may be 10ms: the p99 of WAL syncs \
             should be less than 10 ms."
        );
    }
}
