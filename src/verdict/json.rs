//! Verdicts for programs. docs/verdicts.md has the fields.

use std::borrow::Cow;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Because, State, Tracing, Verdict, Verdicts};
use crate::model::{Durability, Role, ServerId};
use crate::text::{self, rfc3339_millis};

/// All of them, at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    /// The worst.
    pub state: State,
    pub made: String,
    pub age_seconds: f64,
    pub valid_for_seconds: f64,
    pub stale: bool,
    /// Why nothing is traced.
    pub not_tracing: Option<String>,
    pub servers: Vec<OfServer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfServer {
    pub server: String,
    pub pid: u32,
    pub state: State,
    pub since: String,
    pub for_seconds: f64,
    pub sentence: String,
    pub because: Option<Reason>,
    /// Whether what it lies on makes anything durable. Null: nobody has looked.
    #[serde(default)]
    pub storage: Option<Durability>,
}

/// Only what applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reason {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_is_minimum: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_seconds: Option<f64>,
    pub more: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl From<&Because> for Reason {
    fn from(because: &Because) -> Reason {
        Reason {
            role: because.role,
            path: because.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
            op: because.op.map(|op| op.what().into()),
            via: because.op.map(|op| op.via().name().into()),
            tid: because.tid,
            thread: because.thread.clone(),
            age_seconds: because.age.map(|age| age.as_secs_f64()),
            age_is_minimum: because.age.map(|_| because.age_is_minimum),
            errno: because.errno.map(|errno| if errno == 0 { "unknown".into() } else { text::errno(errno) }),
            failed_at: because.failed_at.map(rfc3339_millis),
            p99_seconds: because.p99.map(|p99| p99.as_secs_f64()),
            per_second: because.per_second,
            took_seconds: because.took.map(|took| took.as_secs_f64()),
            more: because.more,
            why: because.unknown.clone(),
        }
    }
}

impl OfServer {
    pub(crate) fn of(verdict: &Verdict, name: String, now: Instant) -> OfServer {
        OfServer {
            server: name,
            pid: verdict.server.pid,
            state: verdict.state,
            since: rfc3339_millis(verdict.since_wall),
            for_seconds: now.saturating_duration_since(verdict.since).as_secs_f64(),
            sentence: verdict.sentence(),
            because: verdict.because.as_ref().map(Reason::from),
            storage: verdict.storage.clone(),
        }
    }
}

impl Verdicts {
    /// As they are to be told now, of the servers that have a name.
    pub fn report(&self, now: Instant, name: impl Fn(ServerId) -> Option<String>) -> Report {
        let of = |verdict: &Verdict| Some(OfServer::of(verdict, name(verdict.server)?, now));
        let servers: Vec<OfServer> = self.at(now).iter().filter_map(of).collect();
        Report {
            schema: 1,
            state: servers.iter().map(|server| server.state).max().unwrap_or(State::Unknown),
            made: rfc3339_millis(self.made_wall),
            age_seconds: self.age(now).as_secs_f64(),
            valid_for_seconds: self.valid_for.as_secs_f64(),
            stale: self.is_stale(now),
            not_tracing: match &self.tracing {
                Tracing::Running { .. } => None,
                Tracing::Not { why } => Some(why.clone()),
            },
            servers,
        }
    }
}
