//! What a page consists of.

/// The page of an action, or of the program as a whole. All texts are plain sentences.
#[derive(Debug)]
pub struct Manual {
    /// As it is written on the command line. Empty: without an action.
    pub action: &'static str,
    /// Paragraphs that follow the description in `--help` and on the page.
    pub notes: &'static [&'static str],
    pub examples: &'static [Example],
    pub exit: &'static [(&'static str, &'static str)],
    pub files: &'static [(&'static str, &'static str)],
    pub environment: &'static [(&'static str, &'static str)],
    /// Paragraphs on what it costs the host and the server.
    pub costs: &'static [&'static str],
    /// Other pages; the fsynctop's own are added.
    pub see_also: &'static [&'static str],
    /// Options that `-h` shows, so that it fits on a screen. None: all of them.
    pub brief: Option<&'static [&'static str]>,
    /// How many of the examples `-h` shows.
    pub brief_examples: usize,
}

#[derive(Debug)]
pub struct Example {
    pub command: &'static str,
    pub what: &'static str,
}

pub(super) const fn example(command: &'static str, what: &'static str) -> Example {
    Example { command, what }
}
