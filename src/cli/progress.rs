//! What is measured and for how long, while one waits for it. Said on a terminal alone: what a script reads
//! on standard error are errors.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::server::who::processes::ThreadGroup;
use crate::text::{duration_in_words, escape, shorten_middle};

/// More processes than these are counted.
const NAMED: usize = 3;

/// A line about what goes on, and below it a bar; both are erased in the end.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
}

impl Progress {
    /// `what`: a sentence without its end, "Measuring mariadbd 4711".
    pub fn begin(what: &str, length: Duration) -> Progress {
        let line = format!("{what} for {} (Ctrl-C ends it early)", in_words(length));
        let bar = bar(length.as_millis() as u64, "{msg}\n[{wide_bar}] {elapsed}");
        if bar.is_hidden() {
            say(&line);
        }
        bar.set_message(line);
        Progress { bar, began: Instant::now() }
    }

    pub fn tick(&self) {
        self.bar.set_position(self.began.elapsed().as_millis() as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line about what goes on until somebody ends it, and below it how it goes; both are erased in the end.
pub(super) struct Going {
    what: String,
    bar: ProgressBar,
}

impl Going {
    /// `what`: a sentence without its end, "Recording mariadbd 4711 to DIR".
    pub fn begin(what: &str) -> Going {
        let bar = bar(0, "{msg}");
        if bar.is_hidden() {
            say(&format!("{what} (Ctrl-C ends it)"));
        }
        Going { what: what.to_owned(), bar }
    }

    pub fn tick(&self, how: &str) {
        self.bar.set_message(format!("{}\n{how}", self.what));
    }

    /// A line that stays, also where no terminal shows the others.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line that stays. One that is longer than the terminal is wide loses its middle.
pub(super) fn say(line: &str) {
    if !stderr().is_terminal() {
        return;
    }
    match rustix::termios::tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 => eprintln!("{}", shorten_middle(line, size.ws_col.into(), "…")),
        _ => eprintln!("{line}"),
    }
}

/// On standard error, and only if that is a terminal that can erase.
pub(super) fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template(template);
    style.map_or(bar.clone(), |style| bar.with_style(style.progress_chars("=> ")))
}

/// "mariadbd 4711 and postgres 812"; of many, the first.
pub(super) fn names(processes: &[ThreadGroup]) -> String {
    let named = processes.iter().take(NAMED);
    let mut names: Vec<String> =
        named.map(|process| format!("{} {}", escape(process.comm.as_bytes()), process.pid)).collect();
    match processes.len().saturating_sub(NAMED) {
        0 => {}
        1 => names.push("one other".into()),
        more => names.push(format!("{more} others")),
    }
    match names.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

pub(super) fn in_words(length: Duration) -> String {
    if length.subsec_nanos() == 0 && length < Duration::from_secs(60) {
        return format!("{} s", length.as_secs());
    }
    duration_in_words(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_processes_are_named_and_many_counted() {
        let process = |pid| ThreadGroup {
            pid,
            comm: if pid == 2 { "a\u{1b}".into() } else { "etcd".into() },
            start_ticks: 0,
        };
        let names = |n: u32| names(&(1..=n).map(process).collect::<Vec<_>>());
        assert_eq!(names(0), "");
        assert_eq!(names(1), "etcd 1");
        assert_eq!(names(2), "etcd 1 and a\\x1b 2");
        assert_eq!(names(3), "etcd 1, a\\x1b 2 and etcd 3");
        assert_eq!(names(4), "etcd 1, a\\x1b 2, etcd 3 and one other");
        assert_eq!(names(203), "etcd 1, a\\x1b 2, etcd 3 and 200 others");
    }
}
