//! Property tests: histories of any content are the same after the way over the socket, and nothing that
//! comes over it panics or takes memory that it did not bring.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::packed::{Packed, PackedStats};
use super::{History, Options};
use crate::model::fixture::busy;
use crate::model::histogram::BUCKETS;
use crate::model::{Completions, Stats};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn some_history() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut history = History::new(Options::default());
        (0..2).for_each(|_| history.push(&busy()));
        let mut text = Vec::new();
        history.write_json(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    });
    &TEXT
}

/// What somebody may write in the place of a value.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => any::<u64>().prop_map(Value::from),
        4 => prop_oneof![Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1 << 20), 0..5u64].prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => "\\PC{0,20}".prop_map(Value::from),
        1 => Just(Value::Array(Vec::new())),
    ]
}

/// Every value below, in order; those that hold others come before them.
fn visit(value: &mut Value, found: &mut dyn FnMut(&mut Value)) {
    found(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, found)),
        Value::Object(fields) => fields.values_mut().for_each(|field| visit(field, found)),
        _ => {}
    }
}

/// A number takes the place of a number, so that what comes of it is often a history.
fn replace(value: &mut Value, at: usize, with: &Value) {
    let takes_its_place = |value: &Value| value.is_number() || !with.is_number();
    let mut number = 0;
    visit(value, &mut |value| number += usize::from(takes_its_place(value)));
    // All of it may have been replaced by something else before.
    let (wanted, mut seen) = (at % number.max(1), 0);
    visit(value, &mut |value| {
        if takes_its_place(value) {
            if seen == wanted {
                *value = with.clone();
            }
            seen += 1;
        }
    });
}

fn any_stats() -> impl Strategy<Value = PackedStats> {
    let histogram = prop::collection::btree_map(0..BUCKETS as u16, 1..1u64 << 40, 0..6);
    let errors = prop::collection::btree_map(any::<i32>(), any::<u64>(), 0..3);
    (any::<[u64; 5]>(), any::<[bool; 3]>(), histogram, errors).prop_map(
        |([count, sum_ns, max_ns, bytes, untimed], [max_exact, posted, reaped], histogram, errors)| {
            PackedStats {
                count,
                sum_ns,
                max_ns,
                max_exact,
                histogram: histogram.into_iter().collect(),
                errors: errors.into_iter().collect(),
                bytes,
                completions: Completions { posted, reaped },
                untimed,
            }
        },
    )
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn figures_are_the_same_unpacked_and_packed_again(packed in any_stats()) {
        let stats = Stats::try_from(packed.clone()).unwrap();
        prop_assert_eq!(PackedStats::from(&stats), packed);
    }

    #[test]
    fn buckets_out_of_order_or_out_of_range_are_refused(
        mut packed in any_stats(),
        wrong in prop_oneof![Just((0, 0)), Just((BUCKETS as u16, 1)), Just((u16::MAX, 1))],
    ) {
        packed.histogram.push(wrong);
        let is_alone = packed.histogram == [(0, 0)];
        prop_assert_eq!(Stats::try_from(packed).is_ok(), is_alone);
    }

    #[test]
    fn bytes_that_are_no_moment_are_none(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(packed) = postcard::from_bytes::<Packed>(&bytes) {
            // No more rows than bytes: a length that is claimed makes no room by itself.
            let rows = packed.roles.len() + packed.write_roles.len() + packed.files.len() + packed.failures.len() + packed.writes.len() + packed.unsynced.len() + packed.devices.len() + packed.pending.len() + packed.neighbours.len();
            prop_assert!(rows + packed.servers.len() <= bytes.len());
        }
    }

    #[test]
    fn text_that_is_no_history_is_refused(text in "\\PC{0,200}") {
        prop_assert!(History::read_json(&text).is_err());
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn a_history_cut_short_is_refused(at in 0usize..1 << 20) {
        let text = some_history();
        let mut at = at % (text.len() - 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        prop_assert!(History::read_json(&text[..at]).is_err());
    }

    #[test]
    fn a_history_with_any_values_in_it_is_read_within_bounds_or_refused(
        changes in prop::collection::vec((any::<usize>(), any_value()), 1..4),
    ) {
        let mut json: Value = serde_json::from_str(some_history()).unwrap();
        changes.iter().for_each(|(at, with)| replace(&mut json, *at, with));
        let text = json.to_string();
        if let Ok(history) = History::read_json(&text) {
            prop_assert!(history.bytes() < 1 << 20, "{} bytes from {}", history.bytes(), text.len());
            // What views do with it.
            let _ = history.last(std::time::Duration::MAX).map(|all| all.roles.iter().map(|row| row.stats.error_count()).max());
            let _ = history.series(std::time::Duration::from_secs(60), std::time::Duration::from_secs(1));
            history.write_json(std::io::sink()).unwrap();
        }
    }
}
