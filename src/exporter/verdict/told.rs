//! What the web process knows: the verdicts of one moment as data, and what is told of them later. Pure but
//! for the clocks.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::linux::clock::monotonic;
use crate::model::Owner;
use crate::server::who::naming::OTHER;
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
    /// Why nothing is recorded, where it should be.
    pub not_recording: Option<String>,
    /// In the order of their names.
    pub servers: Vec<OfServer>,
    /// Names that servers had, and that none has any more.
    pub gone: Vec<Gone>,
}

/// A name that a server had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub name: String,
    /// Who answers for the server.
    pub whose: Owner,
}

/// Which server is asked for: by the name alone, if nothing else is said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub name: Option<&'a str>,
    pub uid: Option<u32>,
    pub unit: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfServer {
    /// As the metrics call it.
    pub name: String,
    pub pid: u32,
    /// Who answers for it, the number of its user, and its unit of systemd.
    pub whose: Owner,
    pub uid: Option<u32>,
    pub unit: Option<String>,
    pub state: State,
    /// Since when, by the wall clock as it stood then, and by the clock of `made`: for how long it has been
    /// so is told by that one, which nobody sets.
    pub since: SystemTime,
    pub began: Duration,
    pub sentence: String,
    /// JSON.
    pub because: Option<String>,
    /// JSON.
    pub storage: Option<String>,
    /// False: no process runs it. It is asked for by its name alone.
    pub is_running: bool,
}

/// How far the two clocks may be apart before the one that is set is believed to have been set. Less is what
/// reading one after the other takes, and what the time is corrected by all the while.
const SET: Duration = Duration::from_secs(1);

impl OfServer {
    pub fn lasted(&self) -> Duration {
        monotonic().saturating_sub(self.began)
    }

    /// By the wall clock as it stands now: it may have been set since.
    pub fn since(&self) -> SystemTime {
        let Some(lasted) = monotonic().checked_sub(self.began) else { return self.since };
        let since = SystemTime::now().checked_sub(lasted).unwrap_or(self.since);
        let apart = since.duration_since(self.since).unwrap_or_else(|before| before.duration());
        if apart < SET { self.since } else { since }
    }
}

/// Names that are told to who cannot be told which server is meant.
const MAX_CLAIMANTS: usize = 8;

/// True for what a server is called that would be called by the name alone if no other one could: `3306
/// /srv/b`, `3306 (uid 1001)`.
fn is_claimant(label: &str, name: &str) -> bool {
    label.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '))
}

impl Asked<'_> {
    fn says_more(&self) -> bool {
        self.uid.is_some() || self.unit.is_some()
    }

    fn belongs(&self, server: &OfServer) -> bool {
        // A container's users are others, whatever their numbers.
        let is_of_container = matches!(server.whose, Owner::Container(_));
        self.uid.is_none_or(|uid| server.uid == Some(uid) && !is_of_container)
            && self.unit.is_none_or(|unit| server.unit.as_deref() == Some(unit))
    }

    fn is_of(&self, server: &OfServer) -> bool {
        self.name.is_none_or(|name| server.name == name) && self.belongs(server)
    }

    fn is_of_claimant(&self, name: &str, server: &OfServer) -> bool {
        is_claimant(&server.name, name) && self.belongs(server)
    }
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
            began: match server.state {
                State::Unknown => server.began,
                _ => self.made.saturating_add(self.valid_for),
            },
            sentence: format!("Nothing can be said of it: {why}."),
            because: None,
            ..server.clone()
        }
    }

    /// The worst state of the servers that are asked for, and all of them as JSON. None if no server was ever
    /// called so.
    pub fn report(&self, asked: Asked<'_>) -> Option<(State, Value)> {
        let servers: Vec<_> = self.now().filter(|server| asked.is_of(server)).collect();
        let mut servers = match asked.name {
            // What tells it from others of the name, that was said by whoever asks.
            Some(name) if servers.is_empty() && asked.says_more() => {
                self.now().filter(|server| asked.is_of_claimant(name, server)).collect()
            }
            _ => servers,
        };
        let missing = match asked.name {
            Some(_) if servers.len() > 1 => {
                servers.clear();
                Some("several servers match what was asked for".to_owned())
            }
            Some(name) if servers.is_empty() => Some(self.why_missing(name)?),
            None if servers.is_empty() && asked.says_more() => {
                Some("no server that is known runs as that user or in that unit".to_owned())
            }
            _ => None,
        };
        // A server that was stopped is no trouble of the others.
        let counts = |server: &&Cow<'_, OfServer>| asked.name.is_some() || server.is_running;
        let worst = servers.iter().filter(counts).map(|server| server.state).max();
        let worst = worst.unwrap_or(State::Unknown);
        let parsed = |json: &Option<String>| -> Option<Value> { serde_json::from_str(json.as_deref()?).ok() };
        let of = |server: &Cow<'_, OfServer>| {
            let because = parsed(&server.because);
            json!({
                "server": server.name,
                "pid": server.pid,
                "uid": server.uid,
                "unit": server.unit,
                "running": server.is_running,
                "state": server.state,
                "since": rfc3339_millis(server.since()),
                "for_seconds": server.lasted().as_secs_f64(),
                "sentence": server.sentence,
                "because": because,
                "storage": parsed(&server.storage),
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
            "not_recording": self.not_recording,
            "missing": missing,
            "servers": servers.iter().map(of).collect::<Vec<_>>(),
        });
        Some((worst, report))
    }

    /// Why no server is what was asked for. None: none ever was called so.
    fn why_missing(&self, name: &str) -> Option<String> {
        let claimants = self.servers.iter().filter(|server| is_claimant(&server.name, name));
        let claimants: Vec<&str> = claimants.map(|server| &*server.name).take(MAX_CLAIMANTS).collect();
        if self.servers.iter().any(|server| server.name == name) {
            Some("the server of that name belongs to another user or unit".to_owned())
        } else if !claimants.is_empty() {
            let claimants = claimants.join(", ");
            Some(format!("it cannot be told which server is meant; the name is claimed by {claimants}"))
        } else if self.gone.iter().any(|gone| gone.name == name) {
            Some("a server was called so, and none is any more".to_owned())
        } else if self.servers.iter().any(|server| server.name == OTHER) {
            Some("more servers run than have names of their own: it may be one of `other`".to_owned())
        } else {
            None
        }
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
impl OfServer {
    fn fixture(name: &str, state: State) -> OfServer {
        OfServer {
            name: name.into(),
            pid: 7,
            whose: Owner::System(999),
            uid: Some(999),
            unit: None,
            state,
            since: SystemTime::now() - Duration::from_secs(9),
            began: monotonic() - Duration::from_secs(9),
            sentence: "It is so.".into(),
            because: Some("{\"role\":\"redo\"}".into()),
            storage: None,
            is_running: true,
        }
    }
}

#[cfg(test)]
impl Told {
    fn fixture(servers: Vec<OfServer>) -> Told {
        Told {
            host: "db1".into(),
            made: monotonic(),
            made_wall: SystemTime::now(),
            valid_for: Duration::from_secs(5),
            not_tracing: None,
            not_recording: None,
            servers,
            gone: Vec::new(),
        }
    }

    pub(crate) fn of_one(name: &str, state: State) -> Told {
        Told::fixture(vec![OfServer::fixture(name, state)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, state: State) -> OfServer {
        OfServer::fixture(name, state)
    }

    fn told(servers: Vec<OfServer>) -> Told {
        Told::fixture(servers)
    }

    fn named(name: &str) -> Asked<'_> {
        Asked { name: Some(name), ..Asked::default() }
    }

    #[test]
    fn of_several_that_claim_a_name_the_user_or_the_unit_says_which_is_meant() {
        let of = |name: &str, uid, state| OfServer { uid: Some(uid), ..server(name, state) };
        let mut told = told(vec![
            of("3306 (uid 1001)", 1001, State::Stalled),
            of("3306 /srv/a", 999, State::Ok),
            OfServer { unit: Some("b.service".into()), ..of("3306 /srv/b", 999, State::Failing) },
            of("33060", 999, State::Ok),
        ]);
        let (state, report) = told.report(named("3306")).unwrap();
        assert_eq!((state, report["servers"].as_array().unwrap().len()), (State::Unknown, 0));
        let why = report["missing"].as_str().unwrap();
        assert!(why.contains("3306 (uid 1001), 3306 /srv/a, 3306 /srv/b") && !why.contains("33060"), "{why}");
        let of_user = |uid| Asked { uid: Some(uid), ..named("3306") };
        assert_eq!(told.report(of_user(1001)).unwrap().0, State::Stalled);
        assert_eq!(told.report(of_user(1002)).unwrap().0, State::Unknown);
        let (state, report) = told.report(of_user(999)).unwrap();
        assert_eq!((state, &report["servers"]), (State::Unknown, &json!([])), "there are two");
        let of_unit = Asked { unit: Some("b.service"), ..named("3306") };
        assert_eq!(told.report(of_unit).unwrap().0, State::Failing);
        let all_of_unit = Asked { name: None, ..of_unit };
        assert_eq!(told.report(all_of_unit).unwrap().0, State::Failing, "by the unit alone");
        // One has the name, and it is another user's.
        told.servers.push(of("3306", 999, State::Ok));
        assert_eq!(told.report(named("3306")).unwrap().0, State::Ok);
        told.servers.remove(0);
        let (state, report) = told.report(of_user(1001)).unwrap();
        assert_eq!(state, State::Unknown);
        assert!(report["missing"].as_str().unwrap().contains("belongs to another"), "{report}");
        let nobodys = Asked { uid: Some(77), ..Asked::default() };
        assert_eq!(told.report(nobodys).unwrap().0, State::Unknown);
    }

    #[test]
    fn the_worst_of_all_is_told_unless_one_is_asked_for() {
        let told = told(vec![server("3306", State::Ok), server("3307", State::Stalled)]);
        let (worst, report) = told.report(Asked::default()).unwrap();
        assert_eq!((worst, &report["state"]), (State::Stalled, &json!("stalled")));
        assert_eq!(report["servers"][1]["because"]["role"], "redo");
        assert!(report["servers"][1]["for_seconds"].as_f64().unwrap() >= 9.0);
        assert_eq!(told.report(named("3306")).unwrap().0, State::Ok);
        assert_eq!(told.report(named("3308")), None);
        assert_eq!(
            super::Told { servers: vec![], ..told }.report(Asked::default()).unwrap().0,
            State::Unknown
        );
    }

    #[test]
    fn a_name_that_is_gone_or_has_no_place_is_unknown_and_one_that_never_was_is_none() {
        let mut told = told(vec![server("3306", State::Ok)]);
        assert_eq!(told.report(named("3307")), None);
        told.gone.push(Gone { name: "3307".into(), whose: Owner::System(999) });
        let (state, report) = told.report(named("3307")).unwrap();
        assert_eq!(
            (state, &report["state"], &report["servers"]),
            (State::Unknown, &json!("unknown"), &json!([]))
        );
        assert!(report["missing"].as_str().unwrap().contains("none is any more"));
        assert_eq!(told.report(named("3306")).unwrap().1["missing"], Value::Null);
        told.servers.push(server(OTHER, State::Stalled));
        let (state, report) = told.report(named("3308")).unwrap();
        assert_eq!(state, State::Unknown, "not the worst of all that have no name");
        assert!(report["missing"].as_str().unwrap().contains("one of `other`"));
    }

    #[test]
    fn what_is_too_old_is_unknown_whatever_it_was() {
        let mut told = told(vec![server("3306", State::Stalled), server("3307", State::Ok)]);
        told.made -= Duration::from_secs(5);
        let (worst, report) = told.report(Asked::default()).unwrap();
        assert_eq!((worst, &report["stale"]), (State::Unknown, &json!(true)));
        assert_eq!(report["servers"][0]["state"], "unknown");
        assert_eq!(report["servers"][0]["because"], Value::Null);
        assert!(report["servers"][1]["sentence"].as_str().unwrap().contains("too old"));
        assert!(told.now().all(|server| server.state == State::Unknown));
    }

    #[test]
    fn for_how_long_it_has_been_so_does_not_follow_a_clock_that_is_set() {
        let day = Duration::from_secs(86_400);
        for (set, what) in [(SystemTime::now() - day, "forth"), (SystemTime::now() + day, "back")] {
            let server = OfServer { since: set, ..server("3306", State::Stalled) };
            let apart = SystemTime::now().duration_since(server.since()).unwrap();
            assert!(apart >= Duration::from_secs(9) && apart < Duration::from_secs(60), "{what}: {apart:?}");
            let (_, report) = told(vec![server]).report(Asked::default()).unwrap();
            let lasted = report["servers"][0]["for_seconds"].as_f64().unwrap();
            assert!((9.0..60.0).contains(&lasted), "{what}: {lasted} s");
        }
        let server = server("3306", State::Stalled);
        assert_eq!(server.since(), server.since, "to the nanosecond, where no clock was set");
    }

    #[test]
    fn a_server_that_does_not_run_is_no_trouble_of_the_others() {
        let stopped = OfServer { is_running: false, ..server("3307", State::Unknown) };
        let told = told(vec![server("3306", State::Ok), stopped]);
        assert_eq!(told.report(Asked::default()).unwrap().0, State::Ok);
        assert_eq!(told.report(named("3307")).unwrap().0, State::Unknown);
    }
}
