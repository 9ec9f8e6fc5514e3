//! The servers of a measurement in the order in which somebody wants to hear of them: the sick ones first,
//! then those whose logs are busiest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{Options, header};
use crate::model::{Interval, ServerId};
use crate::text::{absence, escape_sentence};
use crate::verdict::{State, Thresholds, of_window};

/// Servers of which nothing was counted that are named, and those whose notes are told; the rest is a count.
const NAMED: usize = 5;
/// So many of them are shown one by one.
const SHOWN_WHOLE: usize = 3;
/// A log that is slow for less than this is no slow server. It is less than the ten seconds that the live
/// view looks back, because those are a whole number of intervals.
const SLOW_FOR: Duration = Duration::from_secs(6);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub id: ServerId,
    pub state: State,
    /// Nothing that was seen contradicts the state.
    is_certain: bool,
    /// Something is in flight for too long, of whichever file.
    hangs: bool,
    /// The share of the time in which its busiest log had a sync in flight.
    busy: f64,
    /// Nothing of it was counted.
    is_quiet: bool,
}

impl Ranked {
    /// What can be said of how it stands.
    pub fn certain(&self) -> Option<State> {
        self.is_certain.then_some(self.state)
    }

    /// How much somebody wants to hear of it. How busy its log is counts by quarters: rows on a screen must
    /// not change places all the time.
    pub fn weight(&self) -> (State, bool, u32) {
        (self.severity(), self.hangs, (self.busy.min(1.0) * 4.0) as u32)
    }

    fn severity(&self) -> State {
        // A slow log of a second is no reason to be the first.
        if self.is_certain { self.state.max(State::Idle) } else { State::Idle }
    }
}

/// Also one that only its rows still know.
pub(crate) fn ranked(m: &Interval, options: &Options) -> Vec<Ranked> {
    let verdicts = of_window(m, &Thresholds::default(), &State::ALL, Instant::now());
    let states: BTreeMap<ServerId, State> =
        verdicts.servers.iter().map(|verdict| (verdict.server, verdict.state)).collect();
    let roles = m.roles.iter().map(|row| row.server);
    let in_rows: BTreeSet<ServerId> = roles.chain(m.in_flight.iter().map(|sync| sync.server)).collect();
    let unwatched: BTreeSet<ServerId> =
        m.unwatched.iter().filter(|(_, n)| *n > 0).map(|(server, _)| *server).collect();
    let active: BTreeSet<ServerId> = (in_rows.iter().copied())
        .chain(m.failures.iter().map(|row| row.server))
        .chain(m.all_writes().map(|row| row.server))
        .chain(unwatched.iter().copied())
        .collect();
    let hangs: BTreeSet<ServerId> =
        m.in_flight.iter().filter(|sync| sync.age >= options.stuck_after).map(|sync| sync.server).collect();
    let rank = |id: ServerId| {
        let state = match states.get(&id).copied().unwrap_or(State::Ok) {
            _ if options.failing.contains(&id.pid) => State::Failing,
            state => state,
        };
        let is_certain = match state {
            State::Ok | State::Idle => {
                let is_all_counted = !m.lost.is_incomplete() && !unwatched.contains(&id);
                is_all_counted && !m.span.duration.is_zero() && !hangs.contains(&id)
            }
            State::Slow => m.span.duration >= SLOW_FOR,
            State::Unknown | State::Stalled | State::Failing => true,
        };
        let is_quiet = !active.contains(&id) && matches!(state, State::Idle | State::Ok);
        let logs = m.logs_of(id);
        let busy = logs.values().map(|syncs| syncs.in_flight_mean(m.span.duration)).fold(0.0, f64::max);
        Ranked { id, state, is_certain, hangs: hangs.contains(&id), busy, is_quiet }
    };
    let known = m.servers.iter().map(|server| server.id);
    let unknown = in_rows.iter().copied().filter(|&id| m.server(id).is_none());
    let mut ranked: Vec<Ranked> = known.chain(unknown).map(rank).collect();
    sort(&mut ranked);
    ranked
}

fn sort(ranked: &mut [Ranked]) {
    ranked.sort_by(|a, b| {
        let by_state = b.severity().cmp(&a.severity()).then(b.hangs.cmp(&a.hangs));
        by_state.then(b.busy.total_cmp(&a.busy))
    });
}

/// How the servers stand now, where the figures of a longer time say which of them is slow, and how busy.
pub(crate) fn ranked_over(now: &Interval, longer: &Interval, options: &Options) -> Vec<Ranked> {
    let over: BTreeMap<ServerId, Ranked> =
        ranked(longer, options).into_iter().map(|server| (server.id, server)).collect();
    let mut all = ranked(now, options);
    for server in &mut all {
        let Some(over) = over.get(&server.id) else { continue };
        server.busy = over.busy;
        server.is_quiet &= over.is_quiet;
        let is_well = matches!(server.state, State::Idle | State::Ok | State::Slow);
        if is_well && over.state == State::Slow {
            (server.state, server.is_certain) = (State::Slow, over.is_certain);
        }
    }
    sort(&mut all);
    all
}

/// Those that have something to show, and sentences on the others where those would be in the way: which they
/// are, and what is to be known of each.
pub(crate) fn without_quiet(all: Vec<Ranked>, m: &Interval, options: &Options) -> (Vec<Ranked>, Vec<String>) {
    without_more_quiet_than(SHOWN_WHOLE, all, m, options)
}

/// The same where each has a table of its own, which would be one of zeros; one alone has it.
pub(crate) fn without_any_quiet(
    all: Vec<Ranked>,
    m: &Interval,
    options: &Options,
) -> (Vec<Ranked>, Vec<String>) {
    without_more_quiet_than(usize::from(all.len() == 1), all, m, options)
}

fn without_more_quiet_than(
    most: usize,
    all: Vec<Ranked>,
    m: &Interval,
    options: &Options,
) -> (Vec<Ranked>, Vec<String>) {
    let (quiet, shown): (Vec<Ranked>, Vec<Ranked>) = all.iter().cloned().partition(|one| one.is_quiet);
    if quiet.len() <= most {
        return (all, Vec::new());
    }
    let name = |one: &Ranked| header::name(m, one.id, &options.style);
    let has_ended = |one: &Ranked| m.server(one.id).is_some_and(|server| !server.alive);
    let named = quiet.iter().take(NAMED).map(|one| match has_ended(one) {
        true => format!("{} (exited)", name(one)),
        false => name(one),
    });
    let mut names = named.collect::<Vec<_>>().join(", ");
    if quiet.len() > NAMED {
        names += &format!(" and {} more", quiet.len() - NAMED);
    }
    let is_one = |server: ServerId| server != ServerId::NONE;
    let is_all_counted = !m.lost.is_incomplete() && m.roles.iter().all(|row| is_one(row.server));
    let mut said: Vec<String> = absence::counted_sync(quiet.len(), is_all_counted).into_iter().collect();
    said.iter_mut().for_each(|said| *said += &format!(": {names} (--server NAME shows one)."));
    let notes = |one: &Ranked| m.server(one.id).map(|server| server.notes.clone()).unwrap_or_default();
    let noted: Vec<&Ranked> = quiet.iter().filter(|one| !has_ended(one) && !notes(one).is_empty()).collect();
    let tell = |one: &&Ranked| format!("{}: {}", name(one), escape_sentence(&notes(one).join(" ")));
    said.extend(noted.iter().take(NAMED).map(tell));
    if noted.len() > NAMED {
        said.push(format!("There are notes on {} more of them.", noted.len() - NAMED));
    }
    (shown, said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use crate::model::fixture::{self, MARIADB, MYSQL};
    use std::sync::Arc;
    use std::time::Duration;

    fn ids(m: &Interval, options: &Options) -> Vec<(ServerId, State)> {
        ranked(m, options).into_iter().map(|one| (one.id, one.state)).collect()
    }

    #[test]
    fn the_sick_come_first_then_the_busy() {
        let mut m = fixture::two_servers();
        let options = Options::default();
        assert_eq!(ids(&m, &options), [(MYSQL, State::Ok), (MARIADB, State::Ok)]);
        let hangs = fixture::in_flight(Role::Redo, "/m/ib_logfile0", Duration::from_secs(60));
        m.in_flight = vec![crate::model::InFlight { server: MARIADB, ..hangs }];
        assert_eq!(ids(&m, &options), [(MARIADB, State::Stalled), (MYSQL, State::Ok)]);
        // An exporter remembers a failure.
        let options = Options { failing: vec![MYSQL.pid], ..options };
        assert_eq!(ids(&m, &options), [(MYSQL, State::Failing), (MARIADB, State::Stalled)]);
    }

    #[test]
    fn ninety_three_idle_servers_are_one_line() {
        let mut m = fixture::busy();
        let idle = (1..=93).map(|n| {
            let id = ServerId { pid: 50_000 + n, start_ns: 1 };
            Arc::new(crate::model::Server { id, name: format!("6{n:03}").into(), ..(*m.servers[0]).clone() })
        });
        let idle: Vec<_> = idle.collect();
        m.servers = m.servers.iter().cloned().chain(idle).collect();
        let options = Options::default();
        let (shown, said) = without_quiet(ranked(&m, &options), &m, &options);
        assert_eq!(shown.len(), 1);
        let names = "6001, 6002, 6003, 6004, 6005 and 88 more (--server NAME shows one).";
        assert_eq!(said, [format!("No sync was counted of 93 servers: {names}")]);
        // One that syncs in ways that are not watched is not among them.
        m.unwatched = vec![(ServerId { pid: 50_007, start_ns: 1 }, 3)].into();
        assert_eq!(without_quiet(ranked(&m, &options), &m, &options).0.len(), 2);
        // What is to be known of one is told, and that one has ended.
        Arc::make_mut(&mut m.servers[3]).notes = vec!["libeatmydata is loaded.".into()];
        Arc::make_mut(&mut m.servers[4]).alive = false;
        let (_, said) = without_quiet(ranked(&m, &options), &m, &options);
        let noted = format!("{}: libeatmydata is loaded.", m.servers[3].name);
        assert!(said.contains(&noted), "{said:?}");
        assert!(said[0].contains(&format!("{} (exited)", m.servers[4].name)), "{said:?}");
        // Of few, each says what is known of it.
        let (shown, said) = without_quiet(ranked(&fixture::quiet(), &options), &fixture::quiet(), &options);
        assert_eq!((shown.len(), said), (1, Vec::new()));
    }

    #[test]
    fn slow_is_a_matter_of_some_seconds_and_a_hang_of_now() {
        let options = Options::default();
        let slow = |seconds: f64| {
            let mut m = fixture::busy();
            m.span.duration = Duration::from_secs_f64(seconds);
            let n = (seconds * 10.0) as u64;
            let syncs = fixture::stats(&[(n, 300_000_000)]);
            let row = fixture::row(MYSQL, 1, "/d/redo", Role::Redo, crate::model::Op::Fdatasync, syncs);
            fixture::with_files(m, vec![row], Vec::new())
        };
        // The live view's intervals are a little shorter than a second, or some seconds long.
        for (each, recent) in [(0.999, 9.99), (3.0, 9.0), (7.0, 7.0)] {
            let one = &ranked_over(&slow(each), &slow(recent), &options)[0];
            assert_eq!(one.certain(), Some(State::Slow), "{each} s");
        }
        assert_eq!(ranked(&slow(1.0), &options)[0].certain(), None);
        // What hung some seconds ago hangs no more.
        let mut hung = fixture::busy();
        hung.span.duration = Duration::from_secs(10);
        for row in hung.files.iter_mut().filter(|row| row.info.role == Role::Redo) {
            row.stats.merge(&fixture::stats(&[(1, 7_000_000_000)]));
        }
        assert_eq!(ranked(&hung, &options)[0].certain(), Some(State::Stalled));
        assert_eq!(ranked_over(&fixture::busy(), &hung, &options)[0].certain(), Some(State::Ok));
    }

    #[test]
    fn well_is_only_what_nothing_contradicts() {
        let options = Options::default();
        let is_certain = |m: &Interval| ranked(m, &options)[0].is_certain;
        let mut m = fixture::busy();
        assert!(is_certain(&m));
        m.in_flight = vec![fixture::in_flight(Role::Tablespace, "/d/t", Duration::from_secs(3))];
        assert!(!is_certain(&m), "it hangs, and is no log");
        let mut m = fixture::busy();
        m.unwatched = vec![(MYSQL, 1)].into();
        assert!(!is_certain(&m));
        let mut m = fixture::busy();
        m.lost.preempted = 1;
        assert!(!is_certain(&m));
        let mut m = fixture::busy();
        m.span.duration = Duration::ZERO;
        assert!(!is_certain(&m), "there are no figures yet");
    }
}
