//! The servers that were met: described once each by a thread of their own, because reading a process's command
//! line can block on its memory lock; watched until they end.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::names::Names;
use crate::files::rules::Rules;
use crate::files::settings::Settings;
use crate::snapshot::{Server, ServerId};
use crate::target::describe::describe;
use crate::target::processes::{self, same_server};

const PROC: &str = "/proc";
/// A server that was just started says more about itself a moment later.
const DESCRIBE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// And one that recovers from a crash, for as long as nobody can connect to it.
const UNTIL_IT_LISTENS: Duration = Duration::from_secs(60);

/// Threads come and go by the million where each connection has one.
const MOST_THREAD_NAMES: usize = 16_384;

struct Met {
    server: Arc<Server>,
    met: Instant,
    descriptions: usize,
    /// A description is on its way.
    pending: bool,
}

pub struct Servers {
    met: Vec<Met>,
    described: Receiver<(ServerId, Server, Settings)>,
    outbox: Sender<(ServerId, Server, Settings)>,
    thread_names: HashMap<(u32, u32, u32), String>,
    rules: Arc<Rules>,
}

impl Servers {
    /// `rules`: to know a server's redo log among its open files.
    pub fn new(rules: Arc<Rules>) -> Servers {
        let (outbox, described) = channel();
        Servers { met: Vec::new(), described, outbox, thread_names: HashMap::new(), rules }
    }

    /// Notes a server; true if it is new.
    pub fn meet(&mut self, id: ServerId) -> bool {
        if id.pid == 0 {
            return false;
        }
        if self.met.iter().any(|met| same_server(met.server.id, id)) {
            return false;
        }
        let comm = processes::find(Path::new(PROC), id.pid).map(|group| group.comm).unwrap_or_default();
        let server = Server::new(id, comm);
        self.met.push(Met { server: Arc::new(server), met: Instant::now(), descriptions: 0, pending: false });
        self.describe(self.met.len() - 1);
        true
    }

    fn describe(&mut self, at: usize) {
        let (outbox, id, rules) = (self.outbox.clone(), self.met[at].server.id, self.rules.clone());
        let task = move || {
            let (server, settings) = describe(Path::new(PROC), id, &rules);
            // The sampler may have ended meanwhile.
            let _ = outbox.send((id, server, settings));
        };
        // Without a thread the server stays as it is.
        self.met[at].pending = std::thread::Builder::new().name("describe".into()).spawn(task).is_ok();
        self.met[at].descriptions += 1;
    }

    /// Takes descriptions that have come, and notices servers that ended.
    pub fn refresh(&mut self, names: &mut Names) {
        while let Ok(description) = self.described.try_recv() {
            self.take(description, names);
        }
        for at in 0..self.met.len() {
            let Met { server, met, descriptions, pending } = &self.met[at];
            if !server.alive {
                continue;
            }
            if !processes::is_alive(Path::new(PROC), server.id) {
                let id = server.id;
                Arc::make_mut(&mut self.met[at].server).alive = false;
                names.server_ended(id);
            } else if !pending && is_due(server, *descriptions, met.elapsed()) {
                self.describe(at);
            }
        }
    }

    /// Waits for the descriptions that are on their way, but not for ever.
    pub fn settle(&mut self, names: &mut Names, patience: Duration) {
        let end = Instant::now() + patience;
        while self.met.iter().any(|met| met.pending) {
            match self.described.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(description) => self.take(description, names),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, (id, server, settings): (ServerId, Server, Settings), names: &mut Names) {
        let Some(met) = self.met.iter_mut().find(|met| same_server(met.server.id, id)) else { return };
        met.pending = false;
        let known = met.server.clone();
        // Of a process that has gone meanwhile, what was known before stays.
        if !server.comm.is_empty() && server.alive {
            met.server = Arc::new(Server { id: known.id, alive: known.alive, ..server });
            names.set_settings(known.id, settings);
        }
    }

    pub fn list(&self) -> Vec<Arc<Server>> {
        self.met.iter().map(|met| met.server.clone()).collect()
    }

    /// The name that a thread had at its first sync.
    pub fn learn_thread(&mut self, pid: u32, tid: u32, start: u32, name: [u64; 2]) {
        let bytes: Vec<u8> =
            name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&b| b != 0).collect();
        let name = String::from_utf8_lossy(&bytes).into_owned();
        if self.thread_names.len() >= MOST_THREAD_NAMES {
            // Those that live are read again from /proc.
            self.thread_names.clear();
        }
        self.thread_names.entry((pid, tid, start)).or_insert(name);
    }

    /// What a thread calls itself; the last name it had if it has ended.
    pub fn thread_name(&mut self, pid: u32, tid: u32, start: u32) -> String {
        if tid == 0 {
            return "(ended threads)".into();
        }
        if let Ok(name) = std::fs::read(format!("{PROC}/{pid}/task/{tid}/comm")) {
            let name = String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned();
            self.thread_names.insert((pid, tid, start), name);
        }
        self.thread_names.get(&(pid, tid, start)).cloned().unwrap_or_default()
    }
}

/// Whether a server is to be described once more, so long after it was met.
fn is_due(server: &Server, descriptions: usize, age: Duration) -> bool {
    match descriptions.checked_sub(1).and_then(|at| DESCRIBE_AGAIN.get(at)) {
        Some(&after) => age >= after,
        None => {
            let is_database = server.version.is_some();
            is_database && !server.known_by.listens && age >= UNTIL_IT_LISTENS * descriptions as u32
        }
    }
}
