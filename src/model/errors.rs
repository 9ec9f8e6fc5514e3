//! Failures by errno: a map that takes one word while empty, as it is in nearly every row.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Deref, DerefMut};

/// Failure counts by errno, 0 if the errno is unknown. Dereferences to the map.
#[derive(Clone, Debug, Default, Eq)]
#[expect(clippy::box_collection, reason = "one word instead of three, in every row")]
pub struct Errors(Option<Box<BTreeMap<i32, u64>>>);

static NONE: BTreeMap<i32, u64> = BTreeMap::new();

impl Errors {
    /// Failures of all kinds. Saturating: a history received from elsewhere may hold any values.
    pub(crate) fn total(&self) -> u64 {
        self.values().fold(0, |sum, &n| sum.saturating_add(n))
    }
}

impl Deref for Errors {
    type Target = BTreeMap<i32, u64>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Errors {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for Errors {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl FromIterator<(i32, u64)> for Errors {
    fn from_iter<I: IntoIterator<Item = (i32, u64)>>(errors: I) -> Self {
        let map: BTreeMap<i32, u64> = errors.into_iter().collect();
        Errors((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl<const N: usize> From<[(i32, u64); N]> for Errors {
    fn from(errors: [(i32, u64); N]) -> Self {
        errors.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = (&'a i32, &'a u64);
    type IntoIter = btree_map::Iter<'a, i32, u64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
