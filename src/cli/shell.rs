//! Command lines to be typed, in messages.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::text::escape;

/// The words as a shell reads them. A control character, which no terminal is to be sent, shows escaped.
pub(super) fn words(words: impl Iterator<Item = OsString>) -> String {
    let quoted = words.map(|word| {
        let word = word.into_vec();
        // Only a NUL cannot be quoted, and no argument has one.
        shlex::bytes::try_quote(&word).map_or_else(|_| escape(&word), |quoted| escape(&quoted))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_something_else() {
        let typed = |given: &[&str]| words(given.iter().map(OsString::from));
        assert_eq!(typed(&["fsynctop", "once", "-d", "5"]), "fsynctop once -d 5");
        let given = ["fsynctop", "once", "--", "sh", "-c", "echo $HOME; it's", ""];
        assert_eq!(shlex::split(&typed(&given)).unwrap(), given);
        assert!(!typed(&["\x1b[2J"]).contains('\x1b'));
    }
}
