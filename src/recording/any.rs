//! Property tests: a history of any content is the same after the way over the socket, and nothing that comes
//! over it panics, takes memory that it did not bring, or costs more than what it hits.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

use super::pack::{self, Words};
use super::{History, Options};
use crate::model::fixture::{busy, quiet};
use crate::model::histogram::{BUCKETS, Histogram};
use crate::model::{Completions, Interval, Max, Rest, Span, Stats};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const MOMENTS: usize = 3;

fn some_history() -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut history = History::new(Options::default());
        (0..MOMENTS).for_each(|_| history.push(&busy()));
        let mut bytes = Vec::new();
        history.write(&mut bytes).unwrap();
        bytes
    });
    &BYTES
}

fn any_stats() -> impl Strategy<Value = Stats> {
    let histogram = prop::collection::btree_map(0..BUCKETS, 1..1u64 << 40, 0..6);
    let errors = prop::collection::btree_map(0..4_096i32, 0..1u64 << 40, 0..3);
    (any::<[u64; 5]>(), any::<[bool; 3]>(), histogram, errors, -(1i64 << 53)..=1 << 53).prop_map(
        |(
            [count, sum_ns, max_ns, bytes, untimed],
            [exact, posted, reaped],
            histogram,
            errors,
            pending_ns,
        )| Stats {
            // More is refused.
            count: count >> 24,
            sum_ns: sum_ns >> 11,
            max: Max { ns: max_ns, exact },
            histogram: Histogram::from_sorted(histogram),
            errors: errors.into_iter().collect(),
            bytes: bytes >> 24,
            completions: Completions { posted, reaped },
            untimed: untimed >> 24,
            pending_ns,
        },
    )
}

fn unpacked(payload: &[u8]) -> Option<Interval> {
    let words = Words::of(&pack::Preamble::of_this_version()).unwrap();
    pack::unpack(payload, Span::NONE, quiet().setup, &words, &Default::default()).ok()
}

/// What views do with a history that was read.
fn look_at(history: &History) {
    let _ = history.last(Duration::MAX).map(|all| all.roles.iter().map(|row| row.stats.error_count()).max());
    let _ = history.series(Duration::from_secs(60), Duration::from_secs(1));
    history.write(std::io::sink()).unwrap();
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn figures_are_the_same_packed_and_unpacked_again(stats in any_stats()) {
        let rest = Rest { rows: 7, stats };
        let interval = Interval { rest: rest.clone(), servers: Default::default(), ..quiet() };
        let payload = pack::pack(&interval, &mut Default::default());
        prop_assert_eq!(unpacked(&payload).unwrap().rest, rest);
    }

    #[test]
    fn bytes_that_are_no_interval_are_refused_or_make_no_more_rows_than_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        if let Some(interval) = unpacked(&bytes) {
            let rows = interval.roles.len() + interval.files.len() + interval.in_flight.len();
            prop_assert!(rows <= bytes.len());
        }
    }

    #[test]
    fn bytes_that_are_no_history_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(History::read(&bytes).is_err());
    }

    #[test]
    fn of_a_history_cut_short_every_whole_moment_is_read(at in 0usize..1 << 20) {
        let bytes = some_history();
        let begin = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let cut = begin + at % (bytes.len() - begin);
        let history = History::read(&bytes[..cut]).unwrap();
        let whole = History::read(bytes).unwrap();
        let read: Vec<Interval> = history.moments().collect();
        let expected: Vec<Interval> = whole.moments().take(read.len()).collect();
        prop_assert!(read.len() < MOMENTS && read == expected);
    }

    #[test]
    fn a_history_with_any_bytes_in_it_is_read_within_bounds_or_refused(
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = some_history().to_vec();
        let length = bytes.len();
        changes.iter().for_each(|&(at, with)| bytes[at % length] = with);
        if let Ok(history) = History::read(&bytes) {
            prop_assert!(history.bytes() < 1 << 20, "{} bytes from {length}", history.bytes());
            prop_assert!(history.len() <= MOMENTS);
            look_at(&history);
        }
    }
}

#[test]
fn buckets_out_of_order_or_out_of_range_are_refused() {
    use prost::Message;

    let read = |histogram: &[u64]| {
        let stats = super::wire::Stats { histogram: histogram.to_vec(), ..Default::default() };
        let rest = Some(super::wire::Rest { rows: 1, stats: Some(stats) });
        let interval = super::wire::Interval { rest, ..Default::default() };
        unpacked(&interval.encode_to_vec()).is_some()
    };
    let last = BUCKETS as u64 - 1;
    assert!(read(&[]) && read(&[0, 1]) && read(&[last, 1]) && read(&[3, 1, 2, 1]));
    for wrong in
        [&[last + 1, 1][..], &[u64::MAX, 1], &[3, 1, 0, 1], &[last, 1, 1, 1], &[3, 1, u64::MAX, 1], &[3]]
    {
        assert!(!read(wrong), "{wrong:?}");
    }
}

/// Two bytes each, and hundreds of times as much in memory.
#[test]
fn rows_that_are_next_to_nothing_are_no_way_to_fill_the_memory() {
    let empty_role = [3 << 3 | 2, 0];
    assert!(unpacked(&empty_role.repeat(1_000)).is_some());
    assert!(unpacked(&empty_role.repeat(1 << 17)).is_none());
}
