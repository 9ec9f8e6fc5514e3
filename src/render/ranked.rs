//! The servers of a measurement in the order in which somebody wants to hear of them: the sick ones first,
//! then those whose logs are busiest.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Options, header};
use crate::model::{Interval, Role, ServerId, Stats};
use crate::text::counted;
use crate::verdict::{State, Thresholds, of_window};

/// Idle servers that are named; the rest is a count.
const NAMED: usize = 5;
/// So many idle servers and no other are shown one by one.
const SHOWN_WHOLE: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub id: ServerId,
    pub state: State,
    /// The share of the time in which its busiest log had a sync in flight.
    busy: f64,
    /// Nothing of it was seen.
    is_quiet: bool,
}

/// Also one that only its rows still know.
pub(crate) fn ranked(m: &Interval, options: &Options) -> Vec<Ranked> {
    let verdicts = of_window(m, &Thresholds::default(), &State::ALL, Instant::now());
    let in_rows = m.roles.iter().map(|row| row.server).chain(m.in_flight.iter().map(|sync| sync.server));
    let active: BTreeSet<ServerId> = in_rows
        .chain(m.files.iter().map(|row| row.server))
        .chain(m.failures.iter().map(|row| row.server))
        .chain(m.all_writes().map(|row| row.server))
        .chain(m.unwatched.iter().filter(|(_, n)| *n > 0).map(|(server, _)| *server))
        .collect();
    let known = m.servers.iter().map(|server| server.id);
    let mut all: Vec<ServerId> = known.collect();
    let unknown = m.roles.iter().map(|row| row.server).chain(m.in_flight.iter().map(|sync| sync.server));
    for id in unknown {
        if !all.contains(&id) {
            all.push(id);
        }
    }
    let rank = |id: ServerId| {
        let verdict = verdicts.servers.iter().find(|verdict| verdict.server == id);
        let state = match verdict.map_or(State::Ok, |verdict| verdict.state) {
            _ if options.failing.contains(&id.pid) => State::Failing,
            state => state,
        };
        let is_quiet = !active.contains(&id) && matches!(state, State::Idle | State::Ok);
        Ranked { id, state, busy: busiest_log(m, id), is_quiet }
    };
    let mut ranked: Vec<Ranked> = all.into_iter().map(rank).collect();
    ranked.sort_by(|a, b| {
        let severity = |one: &Ranked| one.state.max(State::Idle);
        severity(b).cmp(&severity(a)).then(b.busy.total_cmp(&a.busy))
    });
    ranked
}

fn busiest_log(m: &Interval, server: ServerId) -> f64 {
    let of = |role: Role| {
        let mut sum = Stats::default();
        let rows = m.roles.iter().filter(|row| row.server == server && row.role == role);
        rows.for_each(|row| sum.merge(&row.stats));
        sum.in_flight_mean(m.span.duration)
    };
    Role::SERIAL.into_iter().map(of).fold(0.0, f64::max)
}

/// Those that have something to show, and the others as one sentence where they would be in the way.
pub(crate) fn without_quiet(
    all: Vec<Ranked>,
    m: &Interval,
    options: &Options,
) -> (Vec<Ranked>, Option<String>) {
    let (quiet, shown): (Vec<Ranked>, Vec<Ranked>) = all.iter().cloned().partition(|one| one.is_quiet);
    if quiet.is_empty() || shown.is_empty() && quiet.len() <= SHOWN_WHOLE {
        return (all, None);
    }
    let named = quiet.iter().take(NAMED).map(|one| header::name(m, one.id, &options.style));
    let mut names = named.collect::<Vec<_>>().join(", ");
    if quiet.len() > NAMED {
        names += &format!(" and {} more", quiet.len() - NAMED);
    }
    let idle = counted(quiet.len() as u64, "idle server", "idle servers");
    (shown, Some(format!("{idle}: {names} (--server NAME shows one)")))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let expected = "93 idle servers: 6001, 6002, 6003, 6004, 6005 and 88 more (--server NAME shows one)";
        assert_eq!(said.as_deref(), Some(expected));
        // One that syncs in ways that are not watched, or of which something failed, is not idle.
        m.unwatched = vec![(ServerId { pid: 50_007, start_ns: 1 }, 3)].into();
        assert_eq!(without_quiet(ranked(&m, &options), &m, &options).0.len(), 2);
        // Alone, each says what is known of it.
        let (shown, said) = without_quiet(ranked(&fixture::quiet(), &options), &fixture::quiet(), &options);
        assert_eq!((shown.len(), said), (1, None));
    }
}
