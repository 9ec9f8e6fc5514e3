//! A reading as text by name, which recordings keep, and the same read again.

use crate::model::Texts;

/// Longer values are left out of recordings: nothing that is counted has so many digits.
const MAX_VALUE: usize = 256;

pub(crate) trait Told: Sized {
    fn counters(&self) -> Texts;
    fn settings(&self) -> Texts;
    fn of_told(counters: &Texts, settings: &Texts) -> Self;
}

/// Of values by name, those that are wanted and not too long.
pub(crate) fn chosen<'a, N: AsRef<str> + 'a, V: ToString + 'a>(
    all: impl IntoIterator<Item = (&'a N, &'a V)>,
    is_wanted: impl Fn(&str) -> bool,
) -> Texts {
    let wanted = all.into_iter().filter(|(name, _)| is_wanted(name.as_ref()));
    let texts = wanted.map(|(name, value)| (name.as_ref().to_owned(), value.to_string()));
    texts.filter(|(_, value)| value.len() <= MAX_VALUE).collect()
}
