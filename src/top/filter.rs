//! Which rows are shown: a text that they contain, or a regular expression that they match.

use regex::bytes::{Regex, RegexBuilder};

/// A pattern may not take more memory than this, however it is written.
const MOST_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub text: String,
    pub is_regex: bool,
    compiled: Option<Regex>,
    /// Why the regular expression is none; all rows are shown then.
    pub error: Option<String>,
}

impl Filter {
    /// Upper and lower case are told apart only if the text has an upper-case letter.
    pub fn set(&mut self, text: String, is_regex: bool) {
        let pattern = if is_regex { text.clone() } else { regex::escape(&text) };
        let ignore_case = !text.chars().any(char::is_uppercase);
        (self.text, self.is_regex, self.error, self.compiled) = (text, is_regex, None, None);
        if self.text.is_empty() {
            return;
        }
        // Bytes: the tables for Unicode's cases and classes stay out of the program.
        let mut builder = RegexBuilder::new(&pattern);
        builder.unicode(false).case_insensitive(ignore_case).size_limit(MOST_BYTES);
        match builder.build() {
            Ok(compiled) => self.compiled = Some(compiled),
            Err(error) => self.error = Some(last_line(&error.to_string())),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.compiled.is_some()
    }

    pub fn takes(&self, text: &str) -> bool {
        self.compiled.as_ref().is_none_or(|compiled| compiled.is_match(text.as_bytes()))
    }
}

/// A parse error is drawn over several lines; the last one says it in words.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str, is_regex: bool) -> Filter {
        let mut filter = Filter::default();
        filter.set(text.into(), is_regex);
        filter
    }

    #[test]
    fn a_text_is_taken_as_it_is_and_a_regex_as_one() {
        assert!(filter("#ib", false).takes("/var/lib/mysql/#ib_redo5"));
        assert!(!filter("a.b", false).takes("axb"));
        assert!(filter("a.b", true).takes("axb"));
        assert!(filter("(", false).takes("f(x"));
        assert!(filter("bücher", false).takes("/d/bücher.ibd"));
        assert!(filter("", true).takes("anything") && !filter("", true).is_on());
    }

    #[test]
    fn upper_case_counts_only_where_it_is_written() {
        assert!(filter("redo", false).takes("REDO"));
        assert!(!filter("Redo", false).takes("redo"));
    }

    #[test]
    fn a_wrong_expression_says_why_and_hides_nothing() {
        let filter = filter("(", true);
        assert_eq!(filter.error.as_deref(), Some("unclosed group"));
        assert!(filter.takes("anything") && !filter.is_on());
        let huge = super::tests::filter("(x{1000}){1000}", true);
        assert!(huge.error.is_some());
    }
}
