//! Syncs that were in flight for the whole of an interval: for each row that has one, the age of its oldest.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::model::{InFlight, Interval, Op, Role, Server, ServerId};
use crate::render::row::{About, Key};

#[derive(Debug, Default)]
pub(crate) struct Hung<'a> {
    ages: HashMap<Subject<'a>, Duration>,
    servers: &'a [std::sync::Arc<Server>],
}

/// What a sync in flight is known by. It has no identity of its file, only the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject<'a> {
    Role(ServerId, Role, Op),
    File(ServerId, Op, Option<&'a Path>),
    Server(ServerId),
}

impl<'a> Hung<'a> {
    pub fn of(m: &'a Interval) -> Hung<'a> {
        let mut ages: HashMap<Subject, Duration> = HashMap::new();
        let throughout = |sync: &&InFlight| !m.span.duration.is_zero() && sync.age >= m.span.duration;
        for sync in m.in_flight.iter().filter(throughout) {
            let subjects = [
                Subject::Role(sync.server, sync.role, sync.op),
                Subject::File(sync.server, sync.op, sync.path.as_deref()),
                Subject::Server(sync.server),
            ];
            for subject in subjects {
                let oldest = ages.entry(subject).or_default();
                *oldest = (*oldest).max(sync.age);
            }
        }
        Hung { ages, servers: &m.servers }
    }

    pub fn is_empty(&self) -> bool {
        self.ages.is_empty()
    }

    /// None: the row has no such sync. Of threads no picture is drawn, so theirs are not looked for.
    pub fn age(&self, key: &Key, about: &About) -> Option<Duration> {
        let subject = match (key, about) {
            (Key::Role(server, role, op), _) => Subject::Role(*server, *role, *op),
            (Key::File(server, _, op) | Key::Write(server, _, op), About::File(file)) if !file.is_gone => {
                Subject::File(*server, *op, file.info.path.as_deref())
            }
            (Key::Server(server, _), _) => Subject::Server(*server),
            _ => return None,
        };
        self.ages.get(&subject).copied()
    }

    /// The rows that such a sync is enough to know.
    pub fn rows(&self) -> impl Iterator<Item = (Key, About)> {
        self.ages.keys().filter_map(|subject| match *subject {
            Subject::Role(server, role, op) => Some((Key::Role(server, role, op), About::Role(role))),
            Subject::Server(id) => {
                let server = self.servers.iter().find(|server| server.id == id).cloned();
                Some((Key::Server(id, None), About::Server(server)))
            }
            Subject::File(..) => None,
        })
    }
}
