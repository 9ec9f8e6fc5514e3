//! Verdicts of a window that has passed, and of what hangs right now: for actions that look once, and end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::failures::Failures;
use super::judge::of_log;
use super::slow::figures;
use super::stalled::stalled;
use super::verdicts::storage_of;
use super::{Because, State, Thresholds, Tracing, Verdict, Verdicts};
use crate::model::{InFlight, Interval, Role, Server, ServerId};

/// What a measurement says of each of its servers, also of one that has ended in it. The whole of it is the
/// time that a log has to be slow for; an operation that took too long counts also if it has ended. Of these
/// states only; a worse one that is none of them hides none.
pub(crate) fn of_window(m: &Interval, thresholds: &Thresholds, of: &[State], now: Instant) -> Verdicts {
    let mut failures: BTreeMap<ServerId, Failures> = BTreeMap::new();
    for row in m.files.iter().chain(&m.failures) {
        failures.entry(row.server).or_default().add(row, m.span.end);
    }
    let waiting: BTreeSet<ServerId> = m.in_flight.iter().map(|sync| sync.server).collect();
    let of_waiting = |server: ServerId| waiting.contains(&server).then_some(&m.in_flight);
    let found = |server: ServerId, state: State, described: bool| match state {
        State::Failing => failures.get(&server).and_then(Failures::because),
        State::Stalled => of_waiting(server)
            .and_then(|in_flight| stalled(in_flight.iter(), server, thresholds.stalled))
            .or_else(|| took_too_long(m, server, thresholds.stalled)),
        State::Slow => slow(m, server, thresholds),
        State::Unknown => (!described).then(|| Because::unknown("the process has not been described yet")),
        State::Idle | State::Ok => None,
    };
    let state = |server: ServerId, described: bool| {
        let states = [State::Failing, State::Stalled, State::Slow, State::Unknown];
        let wanted = states.into_iter().filter(|state| of.contains(state));
        let worst = wanted.filter_map(|state| Some((state, Some(found(server, state, described)?)))).next();
        worst.unwrap_or_else(|| {
            let syncs = m.roles_of(server).iter().any(|row| row.stats.count > 0);
            (if syncs || waiting.contains(&server) { State::Ok } else { State::Idle }, None)
        })
    };
    let is_one = |id: ServerId| id != ServerId::NONE && id != ServerId::ENDED;
    let verdict = |server: &Arc<Server>| {
        let (state, because) = state(server.id, server.known_by.described || !server.alive);
        let storage = storage_of(server);
        Verdict { server: server.id, state, since: now, since_wall: m.span.end, because, storage }
    };
    Verdicts {
        made: now,
        made_wall: m.span.end,
        valid_for: Duration::MAX,
        tracing: Tracing::Running { interval: m.span.duration },
        servers: m.servers.iter().filter(|server| is_one(server.id)).map(verdict).collect(),
    }
}

/// The longest operation of a serial log that has ended.
fn took_too_long(m: &Interval, server: ServerId, limit: Duration) -> Option<Because> {
    let logs = m.files_of(server).iter().filter(|row| row.info.role.is_serial());
    let longest = logs.max_by_key(|row| row.stats.longest_at_least())?;
    let took = longest.stats.longest_at_least();
    (took >= limit).then(|| Because {
        role: Some(longest.info.role),
        path: longest.info.path.clone(),
        op: Some(longest.op),
        took: Some(took),
        ..Because::default()
    })
}

fn slow(m: &Interval, server: ServerId, thresholds: &Thresholds) -> Option<Because> {
    let of = |role| {
        let syncs = of_log(m.roles_of(server), server, role)?;
        Some((role, figures(&syncs.histogram, syncs.sum_ns, m.span.duration, thresholds)?))
    };
    let (role, slow) = Role::SERIAL.into_iter().filter_map(of).max_by_key(|(_, slow)| slow.p99)?;
    (slow.p99 > thresholds.slow).then(|| Because {
        role: Some(role),
        p99: Some(slow.p99),
        per_second: Some(slow.per_second),
        ..Because::default()
    })
}

/// Of the processes that have operations in flight, those that are stalled by it.
pub(crate) fn of_in_flight(
    in_flight: &[InFlight],
    limit: Duration,
    now: Instant,
    wall: SystemTime,
) -> Verdicts {
    let servers: BTreeSet<ServerId> = in_flight.iter().map(|sync| sync.server).collect();
    let of = |server: ServerId| {
        let because = Some(stalled(in_flight.iter(), server, limit)?);
        Some(Verdict { server, state: State::Stalled, since: now, since_wall: wall, because, storage: None })
    };
    Verdicts {
        made: now,
        made_wall: wall,
        valid_for: Duration::MAX,
        tracing: Tracing::Running { interval: Duration::ZERO },
        servers: servers.into_iter().filter_map(of).collect(),
    }
}
