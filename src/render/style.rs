//! What a terminal can show: colours, characters beyond ASCII, a width; and text fitted to it.

use std::ffi::OsStr;
use std::io::IsTerminal;

use anstyle::AnsiColor;

use crate::text::{escape, escape_sentence, escape_to_ascii, sentence_to_ascii, width};
use crate::verdict::State;

/// What the output may contain. The default is for a pipe: no colour, no width, Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    pub unicode: bool,
    /// In columns; None where lines may be as long as they like.
    pub width: Option<usize>,
}

impl Default for Style {
    fn default() -> Self {
        Style { color: false, unicode: true, width: None }
    }
}

/// How a text is emphasised. Colour never says anything that the text does not say as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Paint {
    #[default]
    Plain,
    Heading,
    Error,
    Stuck,
}

impl From<State> for Paint {
    fn from(state: State) -> Paint {
        match state {
            State::Failing | State::Unknown => Paint::Error,
            State::Stalled | State::Slow => Paint::Stuck,
            State::Ok | State::Idle => Paint::Plain,
        }
    }
}

/// Columns and rows of standard output; None if it is no terminal, or one that does not know its size.
pub(crate) fn stdout_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

impl Style {
    /// For standard output as it is: a terminal or not, its width, NO_COLOR, TERM and the locale.
    pub(crate) fn for_stdout() -> Style {
        let terminal = std::io::stdout().is_terminal();
        let columns = stdout_size().map(|(columns, _)| columns);
        Style::from_environment(terminal, columns, |name| std::env::var_os(name))
    }

    fn from_environment<V: AsRef<OsStr>>(
        terminal: bool,
        columns: Option<usize>,
        variable: impl Fn(&str) -> Option<V>,
    ) -> Style {
        let set = |name: &str| {
            variable(name)
                .map(|value| value.as_ref().to_string_lossy().into_owned())
                .filter(|v| !v.is_empty())
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let encoding = locale.to_ascii_lowercase();
        Style {
            color: terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
            unicode: encoding.contains("utf-8") || encoding.contains("utf8"),
            width: columns.filter(|&columns| terminal && columns > 0),
        }
    }

    /// A name that a traced process chose, escaped for this terminal.
    pub(crate) fn name(&self, bytes: &[u8]) -> String {
        if self.unicode { escape(bytes) } else { escape_to_ascii(bytes) }
    }

    /// A name that is escaped already.
    pub(crate) fn escaped_name(&self, name: &str) -> String {
        if self.unicode { escape_sentence(name) } else { sentence_to_ascii(name) }
    }

    pub(crate) fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let red = AnsiColor::Red.on_default();
        let style = match paint {
            _ if !self.color || text.is_empty() => return text.to_owned(),
            Paint::Plain => return text.to_owned(),
            Paint::Heading => anstyle::Style::new().bold(),
            Paint::Error => red,
            Paint::Stuck => red.bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// The finished output as this terminal can show it. Each character of our own beyond ASCII has a
    /// stand-in that is as wide, so that columns stay aligned; names are ASCII already, see [`Style::name`].
    pub(crate) fn finish(&self, text: String) -> String {
        if self.unicode { text } else { text.chars().map(to_ascii).collect() }
    }

    /// Breaks a text between words so that no line is wider than the terminal; later lines are indented.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        self.wrap_at(text, " ", indent)
    }

    /// As [`Style::wrap`], but breaks only at this separator, which does not end or begin a line.
    pub(crate) fn wrap_at(&self, text: &str, separator: &str, indent: usize) -> Vec<String> {
        let Some(columns) = self.width else { return vec![text.to_owned()] };
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(separator) {
            match lines.last_mut() {
                Some(line) if width(line) + width(separator) + width(word) <= columns => {
                    line.push_str(separator);
                    line.push_str(word);
                }
                None => lines.push(word.to_owned()),
                Some(_) => lines.push(" ".repeat(indent) + word),
            }
        }
        lines
    }
}

fn to_ascii(c: char) -> char {
    match c {
        'µ' => 'u',
        '·' | '–' | '─' => '-',
        '│' => '|',
        '║' => '@',
        '≤' => '~',
        '≥' => '>',
        '▏' | '▎' | '▍' => '.',
        '▌' | '▋' | '▊' | '▉' | '█' => '#',
        c if c.is_ascii() => c,
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        let of =
            |terminal, variables| Style::from_environment(terminal, Some(80), environment(variables)).color;
        assert!(of(true, &[("TERM", "xterm")]));
        assert!(of(true, &[("NO_COLOR", "")]), "an empty NO_COLOR is none: no-color.org");
        assert!(!of(true, &[("NO_COLOR", "1")]));
        assert!(!of(true, &[("TERM", "dumb")]));
        assert!(!of(false, &[("TERM", "xterm")]));
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides_the_characters() {
        let of = |variables| Style::from_environment(true, None, environment(variables)).unicode;
        assert!(of(&[("LANG", "de_DE.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!of(&[]));
    }

    #[test]
    fn a_pipe_has_no_width() {
        assert_eq!(Style::from_environment(false, Some(80), environment(&[])).width, None);
        assert_eq!(Style::from_environment(true, Some(80), environment(&[])).width, Some(80));
        assert_eq!(Style::from_environment(true, Some(0), environment(&[])).width, None);
    }

    #[test]
    fn lines_break_between_words_and_never_exceed_the_width() {
        let style = Style { width: Some(20), ..Style::default() };
        assert_eq!(
            style.wrap("nothing was missed, nothing failed", 2),
            ["nothing was missed,", "  nothing failed"]
        );
        assert_eq!(
            style.wrap_at("mysqld 1 · MySQL 9.7 · port 3306", " · ", 2),
            ["mysqld 1 · MySQL 9.7", "  port 3306"]
        );
        assert_eq!(Style::default().wrap("a b c", 2), ["a b c"]);
    }

    #[test]
    fn ascii_stand_ins_keep_the_width() {
        let ours = "µ·–≤≥▏▎▍▌▋▊▉█";
        let ascii = Style { unicode: false, ..Style::default() }.finish(ours.to_owned());
        assert!(ascii.is_ascii() && !ascii.contains('?'));
        assert_eq!(width(&ascii), width(ours));
    }
}
