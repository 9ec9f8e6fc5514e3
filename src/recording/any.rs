//! Property tests: a history of any content is the same after the way over the socket, and nothing that comes
//! over it panics, takes memory that it did not bring, or costs more than what it hits.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

use super::pack::{self, Words};
use super::{History, Options};
use crate::model::fixture::{busy, quiet};
use crate::model::histogram::{BUCKETS, Histogram};
use crate::model::{
    Committer, Completions, Interval, Max, Op, Phase, Rest, Role, ServerId, Span, Stack, Stats, Table,
    WaitLosses, WaitRow,
};

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

fn any_wait() -> impl Strategy<Value = WaitRow> {
    let phase = prop::option::of(prop::sample::select(&Phase::ALL[..]));
    let place = (prop::sample::select(&Role::ALL[..]), prop::sample::select(&Op::ALL[..]), phase);
    let stack = prop::collection::vec("[a-z_;\u{0}]{0,9}", 0..4);
    (1..4u32, place, stack, 0..1u64 << 50, any::<[u32; Committer::ALL.len()]>()).prop_map(
        |(pid, (role, op, phase), stack, ns, under)| {
            let server = ServerId { pid, start_ns: 1 };
            WaitRow { server, role, op, phase, stack: stack.into(), ns, under: under.map(u64::from) }
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
    fn waits_are_the_same_recorded_and_read_again(
        waits in prop::collection::vec(any_wait(), 0..9), stacks in any::<u32>(),
    ) {
        let wait_losses = WaitLosses { stacks: stacks.into(), syncs: 3, ..WaitLosses::default() };
        let interval = Interval { waits: waits.into(), wait_losses, ..quiet() };
        let mut segment = super::segment::Segment::begin(None);
        prop_assert!(segment.push(&interval, &[]));
        for bytes in [segment.bytes().to_vec(), segment.compact()] {
            let read = super::segment::Segment::read(bytes).interval(0, None).unwrap();
            prop_assert_eq!((&read.waits, read.wait_losses), (&interval.waits, wait_losses));
        }
    }

    #[test]
    fn bytes_that_are_no_interval_are_refused_or_make_no_more_rows_than_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        if let Some(interval) = unpacked(&bytes) {
            let rows = interval.roles.len() + interval.files.len() + interval.in_flight.len();
            let rows = rows + interval.waits.len();
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

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn with_fewer_rows_every_role_and_phase_has_its_time(
        waits in prop::collection::vec(any_wait(), 1_000..2_000),
    ) {
        let interval = Interval { waits: waits.into(), ..quiet() };
        let limited = super::limit::limited(&interval, 50).waits;
        prop_assert!(limited.iter().filter(|row| row.server != ServerId::NONE).count() <= 256);
        let sums = |rows: &Table<WaitRow>| {
            let nobodys = |row: &WaitRow| {
                WaitRow { server: ServerId::NONE, stack: Stack::default(), ..row.clone() }
            };
            rows.iter().map(nobodys).collect::<Table<WaitRow>>()
        };
        prop_assert_eq!(sums(&limited), sums(&interval.waits));
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

#[test]
fn waits_longer_than_any_are_refused_and_stacks_that_are_too_deep_are_none() {
    use prost::Message;

    let read = |ns: u64, under: &[u64]| {
        let row =
            super::wire::WaitRow { phase: 99, stack: 7, ns, under: under.to_vec(), ..Default::default() };
        let interval = super::wire::Interval { waits: vec![row], ..Default::default() };
        unpacked(&interval.encode_to_vec()).map(|interval| interval.waits[0].clone())
    };
    let read_as = read(5, &[1; 99]).unwrap();
    assert_eq!((read_as.phase, read_as.stack.len()), (Some(Phase::Other), 0));
    assert_eq!(read_as.under.iter().sum::<u64>(), 99, "states of a later version are other");
    assert!(read(1 << 54, &[]).is_none() && read(5, &[u64::MAX; 2]).is_none());

    let known = |frames: usize, name: &str| {
        let mut names = super::names::Names::default();
        let stack = serde_json::json!({"number": 0, "frames": vec![name; frames]});
        names.read(serde_json::json!({"stacks": [stack]}).to_string().as_bytes());
        names.stack(0).len()
    };
    assert_eq!([known(64, "f"), known(65, "f"), known(1, &"f".repeat(129))], [64, 0, 0]);
}

/// Two bytes each, and hundreds of times as much in memory.
#[test]
fn rows_that_are_next_to_nothing_are_no_way_to_fill_the_memory() {
    let empty_role = [3 << 3 | 2, 0];
    assert!(unpacked(&empty_role.repeat(1_000)).is_some());
    assert!(unpacked(&empty_role.repeat(1 << 17)).is_none());
}
