//! A reading as text by name, which recordings keep, and the same read again.

use crate::model::Texts;

/// Longer values are left out of recordings: nothing that is counted has so many digits.
const MAX_VALUE: usize = 256;
const MAX_NAME: usize = 128;
/// What a server says beyond so many is left out.
const MAX_TEXTS: usize = 512;

pub(crate) trait Told: Sized {
    /// Everything is asked for each time: it is little, or counters are among what is only told then.
    const ASKS_FOR_ALL: bool;
    /// What is compared hangs on settings.
    const HAS_SETTINGS: bool = true;

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
    let short = texts.filter(|(name, value)| name.len() <= MAX_NAME && value.len() <= MAX_VALUE);
    short.take(MAX_TEXTS).collect()
}
