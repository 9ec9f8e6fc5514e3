//! Sentences on syncs that took longer than their engine's makers say they may.

use super::scene::Scene;
use crate::model::histogram::{Histogram, lower_edge};
use crate::model::{Role, Stats, Threshold};
use crate::text::{capitalize, count, duration_in_words, escape_sentence};

/// The 99th percentile of fewer syncs than this is one of the two or three longest.
const ENOUGH: u64 = 100;

/// One for each role and kind of limit: of several limits that the longest sync exceeds, the highest. With
/// the roles that are spoken of.
pub(super) fn exceeded(scene: &Scene) -> Vec<(Role, String)> {
    let Some(server) = scene.server() else { return Vec::new() };
    let mut worst: Vec<(&Threshold, u64)> = Vec::new();
    for threshold in &server.thresholds {
        let Some(took) = beyond(threshold, &scene.role(threshold.role)) else { continue };
        let same = |(other, _): &&mut (&Threshold, u64)| {
            (other.role, other.is_of_the_longest()) == (threshold.role, threshold.is_of_the_longest())
        };
        match worst.iter_mut().find(same) {
            Some(known) if known.0.seconds >= threshold.seconds => {}
            Some(known) => *known = (threshold, took),
            None => worst.push((threshold, took)),
        }
    }
    let title = server.engine.as_deref().map(|engine| engine.title.as_str());
    worst.into_iter().map(|(threshold, took)| (threshold.role, sentence(threshold, took, title))).collect()
}

/// How long it was that exceeds the limit.
fn beyond(threshold: &Threshold, stats: &Stats) -> Option<u64> {
    let took = match threshold.is_of_the_longest() {
        true => stats.max.ns,
        false if stats.count < ENOUGH * u64::from(threshold.syncs) => return None,
        false if threshold.syncs == 2 => return too_long_in_pairs(threshold, &stats.histogram),
        false => stats.quantile_ns(threshold.quantile)?,
    };
    (u128::from(took) > threshold.limit().as_nanos()).then_some(took)
}

/// Which sync is followed by which is not known. However they are paired, so many pairs at least exceed the
/// limit together: half of those that would even with the shortest that is left. The limit, where that is a
/// greater share than it allows.
fn too_long_in_pairs(threshold: &Threshold, syncs: &Histogram) -> Option<u64> {
    let limit = u64::try_from(threshold.limit().as_nanos()).unwrap_or(u64::MAX);
    let mut left: Vec<(u64, u64)> = syncs.iter().map(|(bucket, n)| (lower_edge(bucket), n)).collect();
    let (mut shortest, mut too_long) = (0, 0);
    while let Some(&(longest, n)) = left.last() {
        let at = left.len() - 1;
        if shortest == at {
            too_long += if longest.saturating_mul(2) > limit { n } else { 0 };
            break;
        }
        if longest.saturating_add(left[shortest].0) > limit {
            too_long += n;
            left.pop();
            continue;
        }
        let pairs = n.min(left[shortest].1);
        left[shortest].1 -= pairs;
        left[at].1 -= pairs;
        shortest += usize::from(left[shortest].1 == 0);
        if left[at].1 == 0 {
            left.pop();
        }
        if shortest >= left.len() {
            break;
        }
    }
    let allowed = (1.0 - threshold.quantile) * syncs.count() as f64;
    (too_long as f64 > allowed).then_some(limit)
}

fn sentence(threshold: &Threshold, took: u64, title: Option<&str>) -> String {
    let role = threshold.role.in_a_sentence();
    let says = escape_sentence(threshold.says.trim_end_matches('.'));
    let took = duration_in_words(took);
    if !threshold.is_of_the_longest() {
        // Of 1 there is none, as it is of the longest.
        let one_in = count((1.0 / (1.0 - threshold.quantile)).round() as u64);
        let whose = title.map_or("its makers'".to_owned(), |title| format!("{}'s", escape_sentence(title)));
        if let (2.., Some(of)) = (threshold.syncs, &threshold.of) {
            let of = format!("{} of {role} ({} syncs each)", escape_sentence(of), threshold.syncs);
            return format!("More than 1 in {one_in} {of} took over {took}: by {whose} own measure, {says}.");
        }
        return format!("1 in {one_in} syncs of {role} took {took} or more: by {whose} own measure, {says}.");
    }
    let limit = duration_in_words(u64::try_from(threshold.limit().as_nanos()).unwrap_or(u64::MAX));
    let limit = match &threshold.setting {
        Some(setting) => format!("{} ({limit})", escape_sentence(setting)),
        None => limit,
    };
    capitalize(&format!("the longest sync of {role} took {took}, more than {limit}: {says}."))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::model::fixture::{self, MYSQL};
    use crate::model::{Op, Server};
    use crate::render::Options;
    use crate::render::reading::of_server;

    const MS: u64 = 1_000_000;
    const NOTHING: [&str; 0] = [];

    fn threshold(quantile: f64, seconds: f64, setting: Option<&str>, says: &str) -> Threshold {
        let setting = setting.map(str::to_owned);
        let says = says.into();
        Threshold {
            role: Role::Wal,
            quantile,
            seconds,
            syncs: 1,
            of: None,
            setting,
            says,
            source: String::new(),
        }
    }

    fn thresholds() -> Vec<Threshold> {
        vec![
            threshold(0.99, 0.01, None, "the p99 of WAL syncs should be less than 10 ms"),
            threshold(1.0, 0.1, Some("heartbeat-interval"), "no heartbeats meanwhile"),
            threshold(1.0, 1.0, Some("election-timeout"), "it is replaced."),
            threshold(1.0, 2.0, None, "writes block"),
        ]
    }

    /// What is said of a second with these syncs of the WAL.
    fn said(thresholds: &[Threshold], latencies: &[(u64, u64)]) -> Vec<String> {
        let row = fixture::row(MYSQL, 1, "/d/wal", Role::Wal, Op::Fdatasync, fixture::stats(latencies));
        let m = fixture::lasting(Duration::from_secs(1), fixture::quiet());
        let mut m = fixture::with_files(m, vec![row], Vec::new());
        let server = fixture::server(MYSQL, "postgres", "PostgreSQL 15.14", 5432);
        m.servers = vec![Arc::new(Server { thresholds: thresholds.to_vec(), ..server })].into();
        of_server(&m, MYSQL, &Options::default()).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn of_what_is_exceeded_the_highest_limit_is_named_and_of_what_is_not_nothing() {
        let of = |latencies: &[(u64, u64)]| {
            let all = said(&thresholds(), latencies);
            all.into_iter().filter(|text| !text.contains("saturated")).collect::<Vec<_>>()
        };
        assert_eq!(of(&[(200, 2 * MS)]), NOTHING);
        let p99 = "1 in 100 syncs of the WAL took 20 ms or more: by PostgreSQL's own measure, the p99 of WAL syncs should be \
                   less than 10 ms.";
        assert_eq!(of(&[(190, MS), (10, 20 * MS)]), [p99]);
        // Of so few, one is no hundredth.
        assert_eq!(of(&[(9, MS), (1, 20 * MS)]), NOTHING);
        for (longest, says) in [
            (
                150,
                "The longest sync of the WAL took 150 ms, more than heartbeat-interval (100 ms): no heartbeats meanwhile.",
            ),
            (
                1_500,
                "The longest sync of the WAL took 1.5 s, more than election-timeout (1.0 s): it is replaced.",
            ),
            (2_500, "The longest sync of the WAL took 2.5 s, more than 2.0 s: writes block."),
        ] {
            // That is its tail: it has no other sentence.
            assert_eq!(of(&[(300, MS), (1, longest * MS)]), [says]);
        }
        let both = of(&[(190, MS), (10, 1_500 * MS)]);
        assert!(
            both.len() == 2 && both[0].contains("1 in 100") && both[1].contains("election-timeout"),
            "{both:?}"
        );
    }

    #[test]
    fn what_is_made_by_two_syncs_is_held_to_the_limit_of_both() {
        let says = "the p99 of backend commits should be less than 25 ms";
        let two = Threshold { syncs: 2, of: Some("commits".into()), ..threshold(0.99, 0.025, None, says) };
        let of = |latencies: &[(u64, u64)]| {
            let all = said(std::slice::from_ref(&two), latencies);
            all.into_iter().filter(|text| text.contains("by PostgreSQL's")).collect::<Vec<_>>()
        };
        // 104 commits of 34 ms.
        let slow = "More than 1 in 100 commits of the WAL (2 syncs each) took over 25 ms: by PostgreSQL's own measure, the p99 \
                    of backend commits should be less than 25 ms.";
        assert_eq!(of(&[(208, 17 * MS)]), [slow]);
        assert_eq!(of(&[(208, 11 * MS)]), NOTHING);
        // The slow ones may each have had a quick one beside it.
        assert_eq!(of(&[(104, 17 * MS), (104, 2 * MS)]), NOTHING);
        assert_eq!(of(&[(104, 25 * MS), (104, 2 * MS)]), [slow]);
        assert_eq!(of(&[(204, MS), (4, 60 * MS)]), [slow], "at least two commits of 104");
        assert_eq!(of(&[(206, MS), (2, 60 * MS)]), NOTHING, "one may have had both");
        assert_eq!(of(&[(190, 17 * MS)]), NOTHING, "of fewer than a hundred commits nothing is said");
    }

    #[test]
    fn what_the_server_was_told_comes_before_what_is_usual() {
        let told = |setting: fn(&str) -> Option<u64>| -> Vec<Threshold> {
            thresholds().iter().map(|threshold| threshold.told(setting)).collect()
        };
        let shorter = told(|name| (name == "election-timeout").then_some(500));
        let all = said(&shorter, &[(1, 600 * MS)]);
        assert!(all.iter().any(|text| text.contains("more than election-timeout (500 ms)")), "{all:?}");
        // Nothing, or what cannot be.
        assert_eq!(told(|_| None), thresholds());
        assert_eq!(told(|_| Some(0)), thresholds());
    }

    #[test]
    fn limits_that_no_clock_has_are_no_panic() {
        for seconds in [f64::MAX, f64::INFINITY, f64::NAN, -1.0] {
            let all = said(&[threshold(1.0, seconds, None, "")], &[(1, u64::MAX)]);
            assert!(all.iter().all(|text| !text.contains("more than")), "{seconds}: {all:?}");
        }
    }
}
