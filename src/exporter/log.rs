//! What the daemon says, on standard error: one line for each event. systemd's journal gets the level in
//! front of the line (sd-daemon(3)), a file the time; what comes too often is summed up.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::fstat;

use crate::linux::lock;
use crate::text::escape_sentence;

/// Levels of syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Error => "error: ",
            Level::Warning => "warning: ",
            Level::Info => "",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Journal,
    Terminal,
    File,
}

pub fn error(text: impl fmt::Display) {
    write(Level::Error, &text.to_string());
}

pub fn warning(text: impl fmt::Display) {
    write(Level::Warning, &text.to_string());
}

pub fn info(text: impl fmt::Display) {
    write(Level::Info, &text.to_string());
}

pub fn write(level: Level, text: &str) {
    static READER: OnceLock<Reader> = OnceLock::new();
    let reader = *READER.get_or_init(|| reader(std::env::var("JOURNAL_STREAM").ok().as_deref()));
    let line = line(reader, level, text, SystemTime::now());
    // Nobody is left to be told that it cannot be written.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Who reads standard error. The variable names the journal's socket by device and inode: a redirected
/// standard error is another file (systemd.exec(5)).
fn reader(journal_stream: Option<&str>) -> Reader {
    let stderr = std::io::stderr();
    let own = fstat(&stderr).ok().map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino));
    if journal_stream.is_some() && own.as_deref() == journal_stream {
        Reader::Journal
    } else if stderr.is_terminal() {
        Reader::Terminal
    } else {
        Reader::File
    }
}

fn line(reader: Reader, level: Level, text: &str, now: SystemTime) -> String {
    let text = escape_sentence(text);
    let word = level.word();
    match reader {
        Reader::Journal => format!("<{}>{text}\n", level as u8),
        Reader::Terminal => format!("fsynctop: {word}{text}\n"),
        Reader::File => format!("{} fsynctop: {word}{text}\n", humantime::format_rfc3339_seconds(now)),
    }
}

/// An event that others can cause as often as they like: told at once, then at most once in a while with how
/// often it came in between.
#[derive(Debug)]
pub(crate) struct Seldom {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    since: u64,
}

const A_WHILE: Duration = Duration::from_secs(60);

impl Seldom {
    pub const fn new() -> Seldom {
        Seldom { told: Mutex::new(Told { at: None, since: 0 }) }
    }

    pub fn warn(&self, text: impl fmt::Display) {
        if let Some(before) = self.is_due(Instant::now()) {
            match before {
                0 => warning(text),
                before => warning(format_args!("{text} ({before} more since this was last said)")),
            }
        }
    }

    /// If it is to be told now: how often it was not told since.
    fn is_due(&self, now: Instant) -> Option<u64> {
        let mut told = lock(&self.told);
        if told.at.is_some_and(|at| now.saturating_duration_since(at) < A_WHILE) {
            told.since += 1;
            return None;
        }
        told.at = Some(now);
        Some(std::mem::take(&mut told.since))
    }
}

impl Default for Seldom {
    fn default() -> Seldom {
        Seldom::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_one_line_of_its_kind() {
        let line = |reader| line(reader, Level::Warning, "a\nb\x1b[2J", SystemTime::UNIX_EPOCH);
        assert_eq!(line(Reader::Journal), "<4>a\\nb\\x1b[2J\n");
        assert_eq!(line(Reader::Terminal), "fsynctop: warning: a\\nb\\x1b[2J\n");
        assert_eq!(line(Reader::File), "1970-01-01T00:00:00Z fsynctop: warning: a\\nb\\x1b[2J\n");
    }

    #[test]
    fn a_journal_stream_that_is_not_standard_error_is_not_believed() {
        assert_ne!(reader(Some("1:1")), Reader::Journal);
        let stat = fstat(std::io::stderr()).unwrap();
        assert_eq!(reader(Some(&format!("{}:{}", stat.st_dev, stat.st_ino))), Reader::Journal);
    }

    #[test]
    fn what_comes_often_is_told_once_in_a_while_with_its_number() {
        let seldom = Seldom::new();
        let start = Instant::now();
        assert_eq!(seldom.is_due(start), Some(0));
        for second in 1..60 {
            assert_eq!(seldom.is_due(start + Duration::from_secs(second)), None);
        }
        assert_eq!(seldom.is_due(start + A_WHILE), Some(59));
        assert_eq!(seldom.is_due(start + 2 * A_WHILE), Some(0));
    }
}
