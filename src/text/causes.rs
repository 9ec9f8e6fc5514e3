//! An error with its causes, as one line of text.

/// The error and what caused it, each behind a colon. A cause that the text before it has already named, as
/// the messages of many libraries do, is not repeated.
pub(crate) fn causes<'a>(chain: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>) -> String {
    let mut text = String::new();
    for error in chain {
        let part = error.to_string();
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(error: &anyhow::Error) -> String {
        causes(error.chain())
    }

    #[test]
    fn a_cause_is_said_once_whether_or_not_the_error_says_it_itself() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read a: {0}")]
        struct SaysItself(#[source] std::io::Error);
        let cause = || std::io::Error::other("no such thing");
        assert_eq!(shown(&SaysItself(cause()).into()), "cannot read a: no such thing");
        let wrapped = anyhow::Error::from(cause()).context("cannot read b");
        assert_eq!(shown(&wrapped), "cannot read b: no such thing");
        assert_eq!(shown(&wrapped.context("cannot start")), "cannot start: cannot read b: no such thing");
    }
}
