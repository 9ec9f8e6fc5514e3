//! The rows of a grouping: each with an identity that stays while its place and its figures change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::log::{Entry, Log};
use super::view::View;
use crate::model::{
    FileInfo, FileRow, InFlight, Interval, Op, Role, Server, ServerId, Stats, Target, ThreadRow,
};
use crate::render::Style;
use crate::render::device::used_by;
use crate::render::rows::nameless_file;

/// What a row stands for: the same from interval to interval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Role(ServerId, Role, Op),
    File(ServerId, Target, Op),
    /// The same of all writes: those that are durable are in both.
    Write(ServerId, Target, Op),
    /// Thread id and the time it began, because ids are used again.
    Thread(ServerId, u32, u32, Op),
    Server(ServerId),
    Neighbour(u32, String),
    /// An entry of the log, by its number.
    Log(u64),
}

impl Key {
    pub fn view(&self) -> View {
        match self {
            Key::Role(..) => View::Role,
            Key::File(..) => View::File,
            Key::Write(..) => View::Write,
            Key::Thread(..) => View::Thread,
            Key::Server(_) => View::Server,
            Key::Neighbour(..) => View::Neighbour,
            Key::Log(_) => View::Log,
        }
    }

    pub fn server(&self) -> Option<ServerId> {
        match self {
            Key::Role(id, ..)
            | Key::File(id, ..)
            | Key::Write(id, ..)
            | Key::Thread(id, ..)
            | Key::Server(id) => Some(*id),
            Key::Neighbour(..) | Key::Log(_) => None,
        }
    }

    pub fn tid(&self) -> Option<u32> {
        match self {
            Key::Thread(_, tid, ..) => Some(*tid),
            _ => None,
        }
    }
}

/// What is known of a row's subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum About {
    Role,
    File(Arc<FileInfo>),
    Thread(String),
    /// None: only its rows are known.
    Server(Option<Arc<Server>>),
    Neighbour {
        device: String,
        comm: String,
    },
    Log(Arc<Entry>),
}

#[derive(Clone, Debug)]
pub struct Row {
    pub key: Key,
    pub role: Option<Role>,
    pub op: Option<Op>,
    pub about: About,
    pub stats: Stats,
    /// Syncs that have begun and not finished.
    pub in_flight: u64,
    /// The age of the oldest of them; zero where there is none.
    pub oldest: Duration,
    /// A neighbour on a device that the servers use.
    pub shared: bool,
}

impl Row {
    pub fn new(key: Key, about: About, stats: Stats) -> Row {
        let (role, op) = match (&key, &about) {
            (Key::Role(_, role, op), _) => (Some(*role), Some(*op)),
            (Key::File(_, _, op) | Key::Write(_, _, op), About::File(info)) => (Some(info.role), Some(*op)),
            (Key::File(_, _, op) | Key::Write(_, _, op) | Key::Thread(_, _, _, op), _) => (None, Some(*op)),
            (Key::Log(_), About::Log(entry)) => (Some(entry.info.role), Some(entry.op)),
            _ => (None, None),
        };
        Row { key, role, op, about, stats, in_flight: 0, oldest: Duration::ZERO, shared: false }
    }

    pub(crate) fn of_file(row: &FileRow) -> Row {
        let key = Key::File(row.server, row.target, row.op);
        Row::new(key, About::File(row.info.clone()), row.stats.clone())
    }

    pub(crate) fn of_write(row: &FileRow) -> Row {
        let key = Key::Write(row.server, row.target, row.op);
        Row::new(key, About::File(row.info.clone()), row.stats.clone())
    }

    fn of_thread(row: &ThreadRow) -> Row {
        let key = Key::Thread(row.server, row.tid, row.start, row.op);
        Row::new(key, About::Thread(row.name.clone()), row.stats.clone())
    }

    /// When it happened, of an entry of the log.
    pub fn time(&self) -> Option<(SystemTime, u64)> {
        match (&self.about, &self.key) {
            (About::Log(entry), Key::Log(number)) => Some((entry.at, *number)),
            _ => None,
        }
    }

    /// Whose it is; None: of a neighbour.
    pub fn server(&self) -> Option<ServerId> {
        match &self.about {
            About::Log(entry) => Some(entry.server),
            _ => self.key.server(),
        }
    }

    /// How busy a log is that the server serialises, 0 to 1. One whose sync has been in flight all the time
    /// is busy all the time, although none has finished.
    pub fn busy(&self, over: Duration) -> Option<f64> {
        let is_serial = matches!(self.key, Key::Role(..) | Key::File(..)) && self.role?.is_serial();
        is_serial.then(|| busy(self.stats.in_flight_mean(over), self.oldest, over))
    }

    /// What orders rows by name: roles in their own order, files by path, the rest as it is written.
    pub(crate) fn name_order(&self) -> (usize, &[u8]) {
        match &self.about {
            About::Role => (self.role.map_or(usize::MAX, |role| role as usize), b""),
            About::File(info) => (0, info.path.as_deref().map_or(b"", path_bytes)),
            About::Thread(name) => (0, name.as_bytes()),
            About::Server(server) => (0, server.as_deref().map_or(b"", |server| server.name.as_bytes())),
            About::Neighbour { comm, .. } => (0, comm.as_bytes()),
            About::Log(entry) => (0, entry.info.path.as_deref().map_or(b"", path_bytes)),
        }
    }

    /// What the row is called, escaped; whole.
    pub fn name(&self, style: &Style) -> String {
        match (&self.about, &self.key) {
            (About::Role, _) => self.role.map_or("", Role::name).to_owned(),
            (About::File(info), Key::File(_, target, _) | Key::Write(_, target, _)) => {
                file_name(*target, info, style)
            }
            (About::Log(entry), _) => file_name(entry.target, &entry.info, style),
            (About::Thread(_), Key::Thread(_, 0, ..)) => "(threads that ended)".into(),
            (About::Thread(name), _) => style.name(name.as_bytes()),
            (About::Neighbour { comm, .. }, _) => style.name(comm.as_bytes()),
            (About::Server(server), key) => server_name(key.server(), server.as_deref(), style),
            (About::File(_), _) => String::new(),
        }
    }

    /// Gone since: its name may belong to another file now.
    pub(crate) fn is_gone(&self) -> bool {
        match (&self.about, &self.key) {
            (About::File(info), Key::File(_, Target::File(_), _) | Key::Write(_, Target::File(_), _)) => {
                info.unlinked
            }
            (About::Server(Some(server)), _) => !server.alive,
            _ => false,
        }
    }
}

/// Of a log that the server serialises. `oldest`: the age of a sync of it that is in flight.
pub fn busy(mean: f64, oldest: Duration, over: Duration) -> f64 {
    if oldest >= over && !over.is_zero() { 1.0 } else { mean.min(1.0) }
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

pub fn file_name(target: Target, info: &FileInfo, style: &Style) -> String {
    match (nameless_file(target, info), &info.path) {
        (None, Some(path)) => style.name(path_bytes(path)),
        (nameless, _) => nameless.unwrap_or_default(),
    }
}

/// As the metrics call it: `3306`, `orders`.
pub(crate) fn server_name(id: Option<ServerId>, server: Option<&Server>, style: &Style) -> String {
    match (id, server) {
        (Some(_), Some(server)) => style.escaped_name(&server.name),
        (Some(id), None) => format!("pid {}", id.pid),
        (None, _) => String::new(),
    }
}

/// `mysqld 31960`.
pub(crate) fn process_name(server: &Server, style: &Style) -> String {
    format!("{} {}", style.name(server.comm.as_bytes()), server.id.pid)
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
    fn takes(&self, key: &Key) -> bool {
        self.server.is_none() || key.server().is_none() || key.server() == self.server
    }
}

/// The rows in which something happened, in no order. The log is not among a measurement's rows.
pub fn rows(view: View, m: &Interval, scope: &Scope) -> Vec<Row> {
    let mut rows: Vec<Row> = match view {
        View::Role => m
            .roles
            .iter()
            .map(|row| Row::new(Key::Role(row.server, row.role, row.op), About::Role, row.stats.clone()))
            .collect(),
        View::File => {
            let role = |row: &&FileRow| scope.role.is_none_or(|role| row.info.role == role);
            m.files.iter().filter(role).map(Row::of_file).collect()
        }
        View::Write => {
            let role = |row: &&FileRow| scope.role.is_none_or(|role| row.info.role == role);
            // Without all of them, the durable ones are rows by file.
            let all = m.all_writes().filter(|_| m.setup.ops.contains(&Op::Write));
            all.filter(role).map(Row::of_write).collect()
        }
        View::Thread => m.threads.iter().map(Row::of_thread).collect(),
        View::Server => servers(m),
        View::Neighbour => m
            .neighbours
            .iter()
            .map(|row| {
                let about = About::Neighbour { device: row.device.clone(), comm: row.comm.clone() };
                Row::new(Key::Neighbour(row.device_number, row.comm.clone()), about, row.stats.clone())
            })
            .collect(),
        View::Log => Vec::new(),
    };
    rows.retain(|row| scope.takes(&row.key));
    rows
}

/// The entries of the log up to a time, in no order.
pub(crate) fn of_log(log: &Log, until: Option<SystemTime>) -> Vec<Row> {
    let row = |(number, entry): (u64, &Arc<Entry>)| {
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

/// All servers, those that synced nothing as well.
fn servers(m: &Interval) -> Vec<Row> {
    let mut sums: BTreeMap<ServerId, Stats> = m.servers.iter().map(|s| (s.id, Stats::default())).collect();
    for row in &m.roles {
        sums.entry(row.server).or_default().merge(&row.stats);
    }
    let row = |(id, stats)| {
        let server = m.servers.iter().find(|server| server.id == id).cloned();
        Row::new(Key::Server(id), About::Server(server), stats)
    };
    sums.into_iter().map(row).collect()
}

/// Adds rows that did nothing in the interval, so that rows do not come and go.
pub(crate) fn add_idle<'a>(
    rows: &mut Vec<Row>,
    idle: impl Iterator<Item = (&'a Key, &'a About)>,
    scope: &Scope,
) {
    let there: BTreeSet<Key> = rows.iter().map(|row| row.key.clone()).collect();
    let idle = idle.filter(|(key, _)| scope.takes(key) && !there.contains(key));
    let idle: Vec<Row> =
        idle.map(|(key, about)| Row::new(key.clone(), about.clone(), Stats::default())).collect();
    let has_role = |row: &Row| matches!(row.key.view(), View::File | View::Write);
    let in_role = |row: &Row| scope.role.is_none() || !has_role(row) || row.role == scope.role;
    rows.extend(idle.into_iter().filter(in_role));
}

/// Enters which syncs are in flight, `aged` by the time since the measurement ended. A file, role or server
/// that has one and no row yet gets one.
pub(crate) fn add_in_flight(view: View, rows: &mut Vec<Row>, m: &Interval, scope: &Scope) {
    for sync in &m.in_flight {
        if scope.server.is_some_and(|id| id != sync.server) {
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
        (Key::File(server, _, op) | Key::Write(server, _, op), About::File(info)) => {
            (*server, *op) == (sync.server, sync.op) && info.path == sync.path && !info.unlinked
        }
        (Key::Thread(server, tid, _, op), _) => (*server, *tid, *op) == (sync.server, sync.tid, sync.op),
        (Key::Server(server), _) => *server == sync.server,
        _ => false,
    }
}

/// By role alone: a file or thread that has not finished a sync yet has no identity here.
fn new_row(view: View, sync: &InFlight, m: &Interval) -> Option<Row> {
    let (key, about) = match view {
        View::Role => (Key::Role(sync.server, sync.role, sync.op), About::Role),
        View::Server => {
            let server = m.servers.iter().find(|server| server.id == sync.server).cloned();
            (Key::Server(sync.server), About::Server(server))
        }
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
