//! An event as a JSON object on one line. docs/verdicts.md has the fields.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::Serialize;

use super::{Event, LeftOut, Stacks, Whose};
use crate::model::{FileRow, InFlight, Op, Role, ServerId};
use crate::render::json;
use crate::text::{self, capitalize, counted, duration_in_words, escape, length, rfc3339};
use crate::verdict::{self, OfServer, State};

/// Only what applies.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Line {
    pub schema: u32,
    /// When it was noticed.
    pub time: String,
    pub event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<State>,
    /// Of a verdict: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<OfServer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Of the thread, as the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_is_minimum: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_is_exact: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Of what was left out, how many of each kind, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<BTreeMap<&'static str, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub sentence: String,
    /// How urgent it is, as syslog numbers it; of the journal alone.
    #[serde(skip)]
    pub priority: u8,
}

const ERROR: u8 = 3;
const WARNING: u8 = 4;
const NOTICE: u8 = 5;

impl Line {
    pub fn of(
        event: Event,
        name: Option<String>,
        (stacks, whose): (&Stacks, &Whose),
        now: (Instant, SystemTime),
    ) -> Line {
        let server: ServerId = event.server();
        let waits = event.waiting();
        let session = waits.and_then(|waits| whose.get(&waits));
        let mut line = Line {
            schema: 1,
            time: rfc3339(now.1),
            event: event.kind(),
            // What belongs to no server is nobody's.
            pid: (server.pid != 0).then_some(server.pid),
            server: name.clone(),
            connection_id: session.map(|session| session.id),
            user: session.map(|session| session.user.clone()),
            ..Line::default()
        };
        match event {
            Event::Verdict { from, verdict } => {
                line.from = from;
                line.priority = priority(verdict.state);
                line.sentence = format!("It is {}. {}", verdict.state.name(), verdict.sentence());
                let told = OfServer::of(&verdict, name.unwrap_or_default(), now.0);
                line.verdict = Some(told);
            }
            Event::Ended { from, .. } => {
                line.from = Some(from);
                line.priority = NOTICE;
                line.sentence = "It has ended.".into();
            }
            Event::InFlight(sync) => line.fill_in_flight(&sync),
            Event::Slow { row, latency, is_exact, count, .. } => {
                line.fill_row(&row);
                line.latency_seconds = Some(length(latency));
                line.latency_is_exact = Some(is_exact);
                line.count = Some(count);
                line.priority = WARNING;
                let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
                let more = match count {
                    1 => String::new(),
                    n => format!(", the longest of {n}"),
                };
                let at_least = if is_exact { "" } else { "at least " };
                line.sentence = format!(
                    "{} took {at_least}{}{more}.",
                    what(row.op, row.info.role, row.info.path.as_deref()),
                    duration_in_words(ns)
                );
            }
            Event::Failed { row, errno, count, .. } => {
                line.fill_row(&row);
                line.count = Some(count);
                line.priority = ERROR;
                line.errno = Some(if errno == 0 { "unknown".into() } else { text::errno(errno) });
                let (file, error) = (file(row.info.role, row.info.path.as_deref()), verdict::error(errno));
                line.sentence = match row.op {
                    Op::Writeback => {
                        format!("The kernel could not write back what was written to {file}: {error}.")
                    }
                    op => {
                        let what = counted(count, op.what(), &format!("× {}", op.what()));
                        format!("{what} of {file} failed with {error}.")
                    }
                };
            }
        }
        if let Some(waiting) = waits.and_then(|waits| stacks.get(&waits)) {
            line.waits_for = waiting.waits_for.clone().or(line.waits_for);
            line.stack.clone_from(&waiting.stack);
        }
        line
    }

    pub fn left_out(left_out: LeftOut, now: SystemTime) -> Line {
        let all: u64 = left_out.counts.values().sum();
        Line {
            schema: 1,
            time: rfc3339(now),
            event: "left_out",
            since: Some(rfc3339(left_out.since)),
            sentence: format!(
                "{} left out: there were too many, or the journal took none.",
                counted(all, "event was", "events were")
            ),
            left_out: Some(left_out.counts),
            priority: WARNING,
            ..Line::default()
        }
    }

    fn fill_in_flight(&mut self, sync: &InFlight) {
        let (path, path_bytes) = json::split(sync.path.as_deref());
        (self.path, self.path_bytes) = (path, path_bytes);
        (self.role, self.op, self.via) = (Some(sync.role), Some(sync.op.what()), Some(sync.op.via().name()));
        (self.tid, self.thread) = (Some(sync.tid), Some(sync.thread.clone()));
        self.age_seconds = Some(length(sync.age));
        self.age_is_minimum = Some(sync.age_is_minimum);
        self.priority = WARNING;
        self.waits_for.clone_from(&sync.waits_for);
        let ns = u64::try_from(sync.age.as_nanos()).unwrap_or(u64::MAX);
        let at_least = if sync.age_is_minimum { "at least " } else { "" };
        self.sentence = format!(
            "{} has not returned for {at_least}{}.",
            what(sync.op, sync.role, sync.path.as_deref()),
            duration_in_words(ns)
        );
    }

    fn fill_row(&mut self, row: &FileRow) {
        let (path, path_bytes) = json::split(row.info.path.as_deref());
        (self.path, self.path_bytes) = (path, path_bytes);
        self.role = Some(row.info.role);
        (self.op, self.via) = (Some(row.op.what()), Some(row.op.via().name()));
    }
}

fn priority(state: State) -> u8 {
    match state {
        State::Ok | State::Idle => NOTICE,
        State::Slow | State::Unknown => WARNING,
        State::Stalled | State::Failing => ERROR,
    }
}

fn file(role: Role, path: Option<&Path>) -> String {
    let path = path.map(|path| format!(" ({})", escape(path.as_os_str().as_encoded_bytes())));
    format!("{}{}", role.in_a_sentence(), path.unwrap_or_default())
}

fn what(op: Op, role: Role, path: Option<&Path>) -> String {
    format!("{} of {}", capitalize(&op.in_a_sentence()), file(role, path))
}
