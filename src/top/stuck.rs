//! Syncs that hang, the first thing to be seen: since when, which file, whose thread, and what it waits for.

use super::event::Waiting;
use super::keys::{Action, name_of};
use crate::model::InFlight;
use crate::render::Style;
use crate::render::header::age;
use crate::text::{count, end_of_path, width};

/// So much of a path says which file it is.
const PATH_AT_LEAST: usize = 28;

/// A stuck sync.
#[derive(Clone, Debug)]
pub struct Stuck {
    pub sync: InFlight,
    /// Where its thread waits in the kernel, if that is known.
    pub waiting: Option<Waiting>,
    /// Its server, where several are shown.
    pub server: Option<String>,
}

/// All that hang, the oldest first, on at most so many lines (one or more).
pub fn all(stuck: &[Stuck], style: &Style, columns: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, sync) in stuck.iter().enumerate() {
        let others = usize::from(at + 1 < stuck.len());
        let text = one(sync, style, columns);
        let room = most.saturating_sub(lines.len());
        if text.len() + others <= room {
            lines.extend(text);
            continue;
        }
        let mut rest = stuck.len() - at;
        if lines.is_empty() {
            lines.extend(text.into_iter().take(room.saturating_sub(others).max(1)));
            rest -= 1;
        }
        if rest > 0 && lines.len() < most {
            let syncs = if rest == 1 { "sync" } else { "syncs" };
            let key = name_of(Action::Stacks);
            lines.push(format!("STUCK {} more {syncs} ({key} shows where each waits)", count(rest as u64)));
        }
        break;
    }
    lines
}

/// `STUCK for 12 s: redo fdatasync, waits for the journal commit, thread ib_log_flush 31999,
/// /var/lib/mysql/…`; where that is too wide, the file on a first line and the rest on a second.
pub fn one(stuck: &Stuck, style: &Style, columns: usize) -> Vec<String> {
    let sync = &stuck.sync;
    let thread = format!("thread {} {}", style.name(sync.thread.as_bytes()), sync.tid);
    let whose = stuck.server.as_ref().map_or(String::new(), |server| format!("{server}, "));
    let wait = stuck.waiting.as_ref().map_or(String::new(), |waiting| match (&waiting.wait, waiting.state) {
        (Some(wait), _) => format!("waits for {}, ", wait.what),
        (None, state) => format!("in state {state}, "),
    });
    let begin = format!("STUCK {}: {whose}{} {}", age(sync), sync.role.name(), sync.op.name());
    let Some(path) = &sync.path else {
        let whole = format!("{begin}, {wait}{thread}");
        return if width(&whole) <= columns { vec![whole] } else { vec![begin, format!("  {wait}{thread}")] };
    };
    let path = style.name(path.as_os_str().as_encoded_bytes());
    let with_file = |before: String| {
        let room = columns.saturating_sub(width(&before));
        before + &end_of_path(&path, room, style.ellipsis())
    };
    let whole = format!("{begin}, {wait}{thread}, ");
    if columns.saturating_sub(width(&whole)) >= width(&path).min(PATH_AT_LEAST) {
        return vec![with_file(whole)];
    }
    vec![with_file(begin + ", "), format!("  {wait}{thread}")]
}
