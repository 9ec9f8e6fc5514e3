//! What the web process knows: the verdicts of one moment as data, and what is told of them later. Pure but
//! for the clocks.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::text::rfc3339_millis;
use crate::verdict::State;

/// All servers, as they were at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub host: String,
    /// By the clock that both processes have: neither can make an old verdict young by standing still.
    pub made: Duration,
    pub made_wall: SystemTime,
    /// For so long it says something.
    pub valid_for: Duration,
    pub not_tracing: Option<String>,
    /// In the order of their names.
    pub servers: Vec<OfServer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfServer {
    /// As the metrics call it.
    pub name: String,
    pub pid: u32,
    pub state: State,
    pub since: SystemTime,
    pub sentence: String,
    /// JSON.
    pub because: Option<String>,
    /// False: no process runs it. It is asked for by its name alone.
    pub is_running: bool,
}

/// CLOCK_MONOTONIC.
pub(super) fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

impl Told {
    pub fn age(&self) -> Duration {
        monotonic().saturating_sub(self.made)
    }

    fn is_stale(&self) -> bool {
        self.age() > self.valid_for
    }

    /// Each server as it is to be told of now.
    pub(crate) fn now(&self) -> impl Iterator<Item = Cow<'_, OfServer>> {
        let is_stale = self.is_stale();
        self.servers
            .iter()
            .map(move |server| if is_stale { Cow::Owned(self.stale(server)) } else { Cow::Borrowed(server) })
    }

    fn stale(&self, server: &OfServer) -> OfServer {
        let why = self.not_tracing.as_deref().unwrap_or("the last look at it is too old");
        OfServer {
            state: State::Unknown,
            // What was unknown before has been for longer.
            since: match server.state {
                State::Unknown => server.since,
                _ => self.made_wall.checked_add(self.valid_for).unwrap_or(self.made_wall),
            },
            sentence: format!("Nothing can be said of it: {why}."),
            because: None,
            ..server.clone()
        }
    }

    /// The worst state of these servers, and all as JSON. `only`: one of them; None if there is no such
    /// server.
    pub fn report(&self, only: Option<&str>) -> Option<(State, Value)> {
        let wanted = |server: &Cow<'_, OfServer>| only.is_none_or(|name| server.name == name);
        let servers: Vec<_> = self.now().filter(wanted).collect();
        if servers.is_empty() && only.is_some() {
            return None;
        }
        // A server that was stopped is no trouble of the others.
        let counts = |server: &&Cow<'_, OfServer>| only.is_some() || server.is_running;
        let worst = servers.iter().filter(counts).map(|server| server.state).max();
        let worst = worst.unwrap_or(State::Unknown);
        let now = SystemTime::now();
        let of = |server: &Cow<'_, OfServer>| {
            let because: Option<Value> =
                server.because.as_deref().and_then(|because| serde_json::from_str(because).ok());
            json!({
                "server": server.name,
                "pid": server.pid,
                "running": server.is_running,
                "state": server.state,
                "since": rfc3339_millis(server.since),
                "for_seconds": now.duration_since(server.since).unwrap_or_default().as_secs_f64(),
                "sentence": server.sentence,
                "because": because,
            })
        };
        let report = json!({
            "schema": 1,
            "host": self.host,
            "state": worst,
            "made": rfc3339_millis(self.made_wall),
            "age_seconds": self.age().as_secs_f64(),
            "valid_for_seconds": self.valid_for.as_secs_f64(),
            "stale": self.is_stale(),
            "not_tracing": self.not_tracing,
            "servers": servers.iter().map(of).collect::<Vec<_>>(),
        });
        Some((worst, report))
    }

    /// Before anything was traced.
    pub fn nothing(why: &str) -> Value {
        json!({
            "schema": 1,
            "state": State::Unknown,
            "made": null,
            "age_seconds": null,
            "stale": true,
            "not_tracing": why,
            "servers": [],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, state: State) -> OfServer {
        OfServer {
            name: name.into(),
            pid: 7,
            state,
            since: SystemTime::now() - Duration::from_secs(9),
            sentence: "It is so.".into(),
            because: Some("{\"role\":\"redo\"}".into()),
            is_running: true,
        }
    }

    fn told(servers: Vec<OfServer>) -> Told {
        Told {
            host: "db1".into(),
            made: monotonic(),
            made_wall: SystemTime::now(),
            valid_for: Duration::from_secs(5),
            not_tracing: None,
            servers,
        }
    }

    #[test]
    fn the_worst_of_all_is_told_unless_one_is_asked_for() {
        let told = told(vec![server("3306", State::Ok), server("3307", State::Stalled)]);
        let (worst, report) = told.report(None).unwrap();
        assert_eq!((worst, &report["state"]), (State::Stalled, &json!("stalled")));
        assert_eq!(report["servers"][1]["because"]["role"], "redo");
        assert!(report["servers"][1]["for_seconds"].as_f64().unwrap() >= 9.0);
        assert_eq!(told.report(Some("3306")).unwrap().0, State::Ok);
        assert_eq!(told.report(Some("3308")), None);
        assert_eq!(super::Told { servers: vec![], ..told }.report(None).unwrap().0, State::Unknown);
    }

    #[test]
    fn what_is_too_old_is_unknown_whatever_it_was() {
        let mut told = told(vec![server("3306", State::Stalled), server("3307", State::Ok)]);
        told.made -= Duration::from_secs(5);
        let (worst, report) = told.report(None).unwrap();
        assert_eq!((worst, &report["stale"]), (State::Unknown, &json!(true)));
        assert_eq!(report["servers"][0]["state"], "unknown");
        assert_eq!(report["servers"][0]["because"], Value::Null);
        assert!(report["servers"][1]["sentence"].as_str().unwrap().contains("too old"));
        assert!(told.now().all(|server| server.state == State::Unknown));
    }

    #[test]
    fn a_server_that_does_not_run_is_no_trouble_of_the_others() {
        let stopped = OfServer { is_running: false, ..server("3307", State::Unknown) };
        let told = told(vec![server("3306", State::Ok), stopped]);
        assert_eq!(told.report(None).unwrap().0, State::Ok);
        assert_eq!(told.report(Some("3307")).unwrap().0, State::Unknown);
    }
}
