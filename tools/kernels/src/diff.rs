//! The differences of two tables, in words.

use std::collections::BTreeMap;
use std::fmt::Debug;

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
}
