//! The rows of a grouping in the live view: those of the interval, and those that did nothing in it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::log::Log;
use super::view::View;
use crate::model::neighbours::used_by;
use crate::model::{InFlight, Interval, LogEntry, Op, Role, ServerId, Stats};
use crate::render::row::{About, Key, Row, file_name, suffix};
use crate::render::rows::{self as makers, Wanted};
use crate::render::{Style, header};

impl Row {
    /// How busy a log is that the server serialises, 0 to 1. One whose sync has been in flight all the time
    /// is busy all the time, although none has finished.
    pub fn busy(&self, over: Duration) -> Option<f64> {
        let is_serial = matches!(self.key, Key::Role(..) | Key::File(..)) && self.role()?.is_serial();
        is_serial.then(|| busy(self.stats.in_flight_mean(over), self.oldest, over))
    }

    /// What the row is called, escaped; whole.
    pub fn name(&self, style: &Style) -> String {
        match (&self.about, &self.key) {
            (About::Role(role), _) => role.name().to_owned(),
            (About::File(file), _) => file_name(file.target, &file.info, style),
            (About::Log(entry), _) => file_name(entry.target, &entry.info, style),
            (About::Thread(_), Key::Thread(_, 0, ..)) => "(threads that ended)".into(),
            (About::Thread(name), _) => style.name(name.as_bytes()),
            (About::Neighbour { comm, .. }, _) => style.name(comm.as_bytes()),
            (About::Server(server), key) => {
                key.server().map_or_else(String::new, |id| header::name_of(id, server.as_deref(), style))
            }
        }
    }

    /// What is said behind its name.
    pub(crate) fn suffix(&self) -> String {
        match &self.about {
            About::File(file) => suffix(file),
            About::Server(Some(server)) if !server.alive => " (gone)".into(),
            _ => String::new(),
        }
    }
}

/// Of a log that the server serialises. `oldest`: the age of a sync of it that is in flight.
pub fn busy(mean: f64, oldest: Duration, over: Duration) -> f64 {
    if oldest >= over && !over.is_zero() { 1.0 } else { mean.min(1.0) }
}

/// Which rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// None: all.
    pub server: Option<ServerId>,
    /// By file only: the files of one role.
    pub role: Option<Role>,
}

impl Scope {
    pub(crate) fn has(&self, server: ServerId) -> bool {
        self.server.is_none_or(|wanted| wanted == server)
    }

    /// What belongs to no server is in every scope.
    pub(crate) fn takes(&self, key: &Key) -> bool {
        key.server().is_none_or(|server| self.has(server))
    }
}

/// The rows in which something happened, in no order. The log is not among a measurement's rows.
pub fn rows(view: View, m: &Interval, scope: &Scope) -> Vec<Row> {
    let mine: Wanted = &|server| scope.has(server);
    let mut rows = match view {
        View::Role => makers::by_role(m, mine),
        View::File => makers::by_path(m.files.iter().filter(|row| mine(row.server)), Key::of_file),
        // Without all of them, the durable ones are rows by file.
        View::Write if !m.setup.ops.contains(&Op::Write) => Vec::new(),
        View::Write => makers::by_path(m.all_writes().filter(|row| mine(row.server)), Key::of_write),
        View::Thread => makers::by_thread(m, mine),
        View::Server => makers::by_server(m, mine),
        View::Neighbour => makers::by_neighbour(m),
        View::Log => Vec::new(),
    };
    if matches!(view, View::File | View::Write) {
        rows.retain(|row| scope.role.is_none() || row.role() == scope.role);
    }
    rows
}

/// The entries of the log up to a time, in no order.
pub(crate) fn of_log(log: &Log, until: Option<SystemTime>) -> Vec<Row> {
    let row = |(number, entry): (u64, &Arc<LogEntry>)| {
        let stats = Stats {
            count: entry.errors.iter().map(|(_, n)| n).sum::<u64>().max(1),
            max: entry.max,
            errors: entry.errors.iter().copied().collect(),
            ..Stats::default()
        };
        Row::new(Key::Log(number), About::Log(entry.clone()), stats)
    };
    log.entries(until).map(row).collect()
}

/// Adds rows that did nothing in the interval, so that rows do not come and go; and those of an interval in
/// the past of which nothing else was kept.
pub(crate) fn add_idle<'a>(
    rows: &mut Vec<Row>,
    idle: impl Iterator<Item = (&'a Key, &'a About, Stats)>,
    scope: &Scope,
) {
    let file = |key: &Key, about: &About| match about {
        About::File(file) => Some((key.server(), file.target, key.op())),
        _ => None,
    };
    let there: HashSet<&Key> = rows.iter().map(|row| &row.key).collect();
    // One that was renamed has another key, and is no file of its own under its old one.
    let files: HashSet<_> = rows.iter().filter_map(|row| file(&row.key, &row.about)).collect();
    let is_new = |key: &Key, about: &About| {
        !there.contains(key) && file(key, about).is_none_or(|file| !files.contains(&file))
    };
    let idle = idle.filter(|(key, about, _)| scope.takes(key) && is_new(key, about));
    let idle: Vec<Row> =
        idle.map(|(key, about, stats)| Row::new(key.clone(), about.clone(), stats)).collect();
    let has_role = |row: &Row| matches!(row.key, Key::File(..) | Key::Write(..));
    let in_role = |row: &Row| scope.role.is_none() || !has_role(row) || row.role() == scope.role;
    rows.extend(idle.into_iter().filter(in_role));
}

/// Enters which syncs are in flight, `aged` by the time since the measurement ended. A file, role or server
/// that has one and no row yet gets one.
pub(crate) fn add_in_flight(view: View, rows: &mut Vec<Row>, m: &Interval, scope: &Scope) {
    for sync in &m.in_flight {
        if !scope.has(sync.server) {
            continue;
        }
        let at = rows.iter().position(|row| is_of(row, sync)).or_else(|| {
            let row = new_row(view, sync, m)?;
            rows.push(row);
            Some(rows.len() - 1)
        });
        if let Some(row) = at.map(|at| &mut rows[at]) {
            row.in_flight = row.in_flight.saturating_add(sync.count);
            row.oldest = row.oldest.max(sync.age);
        }
    }
}

fn is_of(row: &Row, sync: &InFlight) -> bool {
    match (&row.key, &row.about) {
        (Key::Role(server, role, op), _) => (*server, *role, *op) == (sync.server, sync.role, sync.op),
        (Key::File(server, _, op) | Key::Write(server, _, op), About::File(file)) => {
            let is_its = (*server, *op, file.info.role) == (sync.server, sync.op, sync.role);
            is_its && file.info.path == sync.path && !file.is_gone
        }
        (Key::Thread(server, tid, _, op), _) => (*server, *tid, *op) == (sync.server, sync.tid, sync.op),
        (Key::Server(server, _), _) => *server == sync.server,
        _ => false,
    }
}

/// By role alone: a file or thread that has not finished a sync yet has no identity here.
fn new_row(view: View, sync: &InFlight, m: &Interval) -> Option<Row> {
    let (key, about) = match view {
        View::Role => (Key::Role(sync.server, sync.role, sync.op), About::Role(sync.role)),
        View::Server => (Key::Server(sync.server, None), About::Server(m.server(sync.server).cloned())),
        _ => return None,
    };
    Some(Row::new(key, about, Stats::default()))
}

/// Marks the neighbours on devices that these servers use.
pub(crate) fn mark_shared(rows: &mut [Row], m: &Interval, scope: &Scope) {
    let servers: Vec<ServerId> = match scope.server {
        Some(id) => vec![id],
        None => m.servers.iter().map(|server| server.id).collect(),
    };
    let used = used_by(m, &servers);
    let is_used = |device: &str, number: u32| {
        used.contains_key(device) || used.values().any(|numbers| numbers.contains(&number))
    };
    for row in rows {
        if let (Key::Neighbour(number, _), About::Neighbour { device, .. }) = (&row.key, &row.about) {
            row.shared = is_used(device, *number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL};

    fn file(inode: u64, path: &str) -> Row {
        let stats = fixture::stats(&[(1, 1_000)]);
        let row = fixture::row(MYSQL, inode, path, Role::Wal, Op::Fdatasync, stats);
        let m = fixture::with_files(fixture::quiet(), vec![row], Vec::new());
        makers::by_path(m.files.iter(), Key::of_file).remove(0)
    }

    fn with_idle(shown: &[Row], idle: &[(Row, u64)]) -> Vec<(String, u64)> {
        let mut rows = shown.to_vec();
        let idle = idle
            .iter()
            .map(|(row, count)| (&row.key, &row.about, Stats { count: *count, ..Stats::default() }));
        add_idle(&mut rows, idle, &Scope::default());
        rows.iter().map(|row| (row.name(&Style::default()), row.stats.count)).collect()
    }

    #[test]
    fn a_file_that_was_renamed_is_one_row_and_one_of_which_nothing_else_was_kept_has_what_it_did() {
        let renamed = [file(7, "/pg_wal/000000010000000000000002")];
        let old = || (file(7, "/pg_wal/000000010000000000000001"), 0);
        let other = || (file(8, "/pg_wal/000000010000000000000003"), 5);
        let there = ("/pg_wal/000000010000000000000002".to_owned(), 1);
        assert_eq!(with_idle(&renamed, &[old()]), std::slice::from_ref(&there));
        let more = ("/pg_wal/000000010000000000000003".to_owned(), 5);
        assert_eq!(with_idle(&renamed, &[old(), other()]), [there, more]);
    }
}
