//! The differences of two tables, in words.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// How far a row falls short of what was made.
pub trait Short {
    /// The calls that are missing; none if anything else differs, or nothing does.
    fn short_of(&self, made: &Self) -> Option<u64>;
}

impl Short for u64 {
    fn short_of(&self, made: &u64) -> Option<u64> {
        made.checked_sub(*self).filter(|&missing| missing > 0)
    }
}

/// The same as `differences`, where `skipped` calls were counted as lost: rows may fall short by that many
/// calls in all, no more and no fewer.
pub fn differences_but<K: Ord + Debug + Clone, V: PartialEq + Debug + Clone + Short>(
    made: &BTreeMap<K, V>,
    counted: &BTreeMap<K, V>,
    skipped: u64,
) -> Vec<String> {
    let short: Vec<(&K, u64)> =
        made.iter().filter_map(|(key, made)| Some((key, counted.get(key)?.short_of(made)?))).collect();
    let missing: u64 = short.iter().map(|(_, missing)| missing).sum();
    if missing != skipped {
        let mut lines = differences(made, counted);
        lines.push(format!("{missing} calls are missing, and {skipped} were counted as lost"));
        return lines;
    }
    let mut expected = made.clone();
    for (key, _) in short {
        expected.insert(key.clone(), counted[key].clone());
    }
    differences(&expected, counted)
}

/// One line for each row that is missing, too much or different.
pub fn differences<K: Ord + Debug, V: PartialEq + Debug>(
    expected: &BTreeMap<K, V>,
    actual: &BTreeMap<K, V>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in expected {
        match actual.get(key) {
            Some(found) if found == value => {}
            Some(found) => lines.push(format!("{key:?} should be {value:?} and is {found:?}")),
            None => lines.push(format!("{key:?} is missing; it should be {value:?}")),
        }
    }
    for (key, value) in actual.iter().filter(|(key, _)| !expected.contains_key(key)) {
        lines.push(format!("{key:?} should not be there: {value:?}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_difference_has_its_line() {
        let expected = BTreeMap::from([("a", 1), ("b", 2), ("c", 3)]);
        let actual = BTreeMap::from([("a", 1), ("b", 5), ("d", 4)]);
        assert_eq!(
            differences(&expected, &actual),
            [
                "\"b\" should be 2 and is 5",
                "\"c\" is missing; it should be 3",
                "\"d\" should not be there: 4"
            ]
        );
        assert!(differences(&expected, &expected).is_empty());
    }

    #[test]
    fn rows_may_fall_short_by_what_was_lost_and_by_nothing_else() {
        let made = BTreeMap::from([("a", 36), ("b", 36)]);
        let of = |a: u64, b: u64, skipped| {
            differences_but(&made, &BTreeMap::from([("a", a), ("b", b)]), skipped).len()
        };
        assert_eq!((of(34, 35, 3), of(36, 36, 0)), (0, 0));
        assert_eq!((of(34, 35, 2), of(34, 35, 4), of(34, 35, 0), of(36, 36, 3)), (3, 3, 3, 1));
        assert_eq!(of(37, 35, 1), 1, "one too many is no loss");
    }
}
