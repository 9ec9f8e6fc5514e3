//! The servers that were met: described by a few threads of their own ([`Describers`]), because reading a
//! process's command line can block on its memory lock; watched until they end, and forgotten some time
//! later.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use super::names::Names;
use super::parts::Parts;
use crate::engine::rules::Rules;
use crate::linux::PROC;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::descriptors;
use crate::linux::ends::Ends;
use crate::linux::proc_file;
use crate::model::{FilePart, Owner, Server, ServerId};
use crate::server::what::describe::describe;
use crate::server::what::describers::Describers;
use crate::server::what::settings::Settings;
use crate::server::what::titles;
use crate::server::who::naming::{self, GivenName};
use crate::server::who::owner;
use crate::server::who::processes::{self, start_tick};

/// A server that was just started says more about itself a moment later.
const DESCRIBE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// And one that recovers from a crash, for as long as nobody can connect to it.
const UNTIL_IT_LISTENS: Duration = Duration::from_secs(60);
/// Who has not synced or written for so long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(600);
/// Servers whose end is not told, of which it is found out in one snapshot whether they live; of many, half.
const LOOKED_AT: usize = 512;
/// Descriptions that are refused in one snapshot before no more are asked for.
const MAX_REFUSED: usize = 64;
/// Snapshots after which all that a server did before it ended has come in.
const QUIET_ROUNDS: u64 = 2;
/// The name of a thread that syncs is read again after this time. One file for each thread: a server has
/// thousands.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Names of threads that are kept although no account of theirs is known, or no longer.
pub(crate) const THREADS_WITHOUT_ACCOUNT: usize = 1_024;

/// How long servers that have ended are remembered one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So many at most; the longest gone are forgotten first.
    pub most: usize,
    /// None: as long as there is room.
    pub length: Option<Duration>,
}

impl Default for Retention {
    /// For a measurement, at the end of which they are all to be shown.
    fn default() -> Self {
        Retention { most: 1_024, length: None }
    }
}

/// A process, whether its start is known exactly or cut to a clock tick: pid and start in ticks.
type Process = (u32, u64);

fn process(id: ServerId) -> Process {
    (id.pid, start_tick(id.start_ns))
}

/// A thread by its server, its number and its start.
type Thread = (ServerId, u32, u32);

/// Titles of processes that are looked at at the same time, and with those that hang. Where too many wait,
/// the others are asked for again.
const TITLES: Share = Share { threads: 1, with_abandoned: 4, queue: 1_024 };
const TITLE_TIMEOUT: Duration = Duration::from_millis(500);

struct Met {
    server: Arc<Server>,
    met: Instant,
    /// When it was seen to have ended, and in which round.
    ended: Option<(u64, Instant)>,
    descriptions: usize,
    /// A description is on its way.
    pending: bool,
    /// When it synced or wrote last, as far as that was noted.
    active: Option<Instant>,
    /// Its end will be told.
    is_watched: bool,
    /// As it was when it was met, or described last: a service gives up root's rights as it starts.
    owner: Owner,
}

impl Met {
    /// To be described once more.
    fn is_due(&self) -> bool {
        if self.pending || self.ended.is_some() {
            return false;
        }
        let age = self.met.elapsed();
        let Some(again) = self.descriptions.checked_sub(1) else { return true };
        match DESCRIBE_AGAIN.get(again) {
            Some(&after) => age >= after,
            None => {
                let is_database = self.server.is_database();
                let heard = self.server.known_by.listens;
                // What recovers from a crash writes all the time.
                let after = match self.is_active(Instant::now()) {
                    true => UNTIL_IT_LISTENS * self.descriptions as u32,
                    false => UNTIL_IT_LISTENS * 2u32.saturating_pow(again as u32),
                };
                is_database && !heard && age >= after
            }
        }
    }

    fn is_active(&self, now: Instant) -> bool {
        self.active.is_some_and(|at| now.saturating_duration_since(at) < IDLE_AFTER)
    }
}

#[derive(Default)]
struct ThreadName {
    name: String,
    /// When it was last read from /proc.
    looked: Option<Instant>,
}

pub struct Servers {
    met: IndexMap<Process, Met>,
    /// Where the next round of looking begins.
    next: usize,
    round: u64,
    retention: Retention,
    rules: Arc<Rules>,
    describers: Describers,
    ends: Ends<Process>,
    given_names: Vec<GivenName>,
    /// What is known of them has changed since they were called by it.
    must_be_named: bool,
    /// Where all writes are watched.
    parts: Option<Parts>,
    thread_names: HashMap<Thread, ThreadName>,
    titles: Pool<(), Thread, (Thread, String)>,
}

impl Servers {
    /// `rules`: to know its engine, and a server's redo log among its open files.
    pub fn new(rules: Arc<Rules>, watches_all_writes: bool) -> Servers {
        owner::prepare();
        let (for_describing, engines) = (rules.clone(), rules.engines().clone());
        Servers {
            rules,
            met: IndexMap::new(),
            next: 0,
            round: 0,
            retention: Retention::default(),
            describers: Describers::new(move |id| describe(Path::new(PROC), id, &*for_describing)),
            ends: Ends::new(descriptors::limit()),
            given_names: Vec::new(),
            must_be_named: false,
            parts: watches_all_writes.then(Parts::new),
            thread_names: HashMap::new(),
            titles: Pool::new(
                "titles",
                Limits::for_one_owner(TITLES, TITLE_TIMEOUT),
                move |&thread: &Thread| {
                    let (server, tid, _) = thread;
                    Some((thread, titles::of_process(Path::new(PROC), &engines, tid, server.pid)?))
                },
            ),
        }
    }

    pub(crate) fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    pub(crate) fn set_given_names(&mut self, given: Vec<GivenName>) {
        self.given_names = given;
        self.must_be_named = true;
    }

    /// Calls each by what is known of all of them by now.
    pub(crate) fn name_them(&mut self) {
        if !std::mem::take(&mut self.must_be_named) {
            return;
        }
        let servers: Vec<&Server> = self.met.values().map(|met| &*met.server).collect();
        let names = naming::names(&servers, &self.given_names);
        for (met, name) in self.met.values_mut().zip(names) {
            if *met.server.name != *name {
                Arc::make_mut(&mut met.server).name = name.into();
            }
        }
    }

    /// Notes a server; true if it is new.
    pub(crate) fn meet(&mut self, id: ServerId) -> bool {
        if id.pid == 0 {
            return false;
        }
        if self.met.contains_key(&process(id)) {
            return false;
        }
        let comm = processes::find(Path::new(PROC), id.pid).map(|group| group.comm).unwrap_or_default();
        let engine = self.rules.engines().by_command(&comm);
        let owner = owner::of_process(Path::new(PROC), id.pid);
        let mut server = Server { engine, ..Server::new(id, comm) };
        server.known_by.whose = owner;
        let server = Arc::new(server);
        let is_watched = self.ends.watch(id.pid, process(id)) && processes::is_alive(Path::new(PROC), id);
        let met = Met {
            server,
            met: Instant::now(),
            ended: None,
            descriptions: 0,
            pending: false,
            active: None,
            is_watched,
            owner,
        };
        let (at, _) = self.met.insert_full(process(id), met);
        self.must_be_named = true;
        self.describe(at);
        true
    }

    /// False: there is no room to wait. It stays as it is, and is described later.
    fn describe(&mut self, at: usize) -> bool {
        let met = &self.met[at];
        let accepted = self.describers.ask(met.owner, met.server.id);
        self.met[at].pending = accepted;
        self.met[at].descriptions += usize::from(accepted);
        accepted
    }

    /// Takes descriptions that have come, and notices servers that ended.
    pub fn refresh(&mut self, names: &mut Names) {
        self.take_descriptions(names);
        self.take_parts();
        self.take_titles();
        self.round += 1;
        for process in self.ends.take() {
            if let Some(at) = self.met.get_index_of(&process) {
                self.met[at].is_watched = false;
                self.look_at(at, names);
            }
        }
        let number = self.met.len();
        // However fast they come: else those that have ended would never be forgotten.
        let looked_at = number.min(LOOKED_AT.max(number / 2));
        let first = self.next;
        for at in (first..first + looked_at).map(|at| at % number) {
            if !self.met[at].is_watched {
                self.look_at(at, names);
            }
        }
        self.next = if number == 0 { 0 } else { (first + looked_at) % number };
        // From another one each time: who is refused once is not to keep all others from being asked for.
        let mut refused = 0;
        for at in (first..first + number).map(|at| at % number) {
            refused += usize::from(self.met[at].is_due() && !self.describe(at));
            if refused == MAX_REFUSED {
                break;
            }
        }
    }

    pub(crate) fn take_descriptions(&mut self, names: &mut Names) {
        while let Some(description) = self.describers.take() {
            self.take(description, names);
        }
    }

    pub(crate) fn take_parts(&mut self) {
        if let Some(parts) = &mut self.parts {
            let alive = |id| self.met.get(&process(id)).filter(|met| met.server.alive);
            parts.take(|id| alive(id).map(|met| met.owner));
        }
    }

    /// The parts of files that are to be told apart, if they are others than those that are.
    pub(crate) fn changed_parts(&self, now: Duration) -> Option<Vec<(ServerId, FilePart)>> {
        self.parts.as_ref()?.changed(now)
    }

    /// They are told apart from now on, and no others. None: nobody knows which.
    pub(crate) fn parts_are_told(&mut self, told: Option<&[(ServerId, FilePart)]>, now: Duration) {
        let Some(parts) = &mut self.parts else { return };
        parts.told(told, now);
        for met in self.met.values_mut() {
            let since = parts.since(met.server.id);
            if met.server.doublewrite_apart_since != since {
                Arc::make_mut(&mut met.server).doublewrite_apart_since = since;
            }
        }
    }

    /// Notes if it has ended.
    fn look_at(&mut self, at: usize, names: &mut Names) {
        let met = &mut self.met[at];
        let id = met.server.id;
        if met.ended.is_some() || processes::is_alive(Path::new(PROC), id) {
            return;
        }
        Arc::make_mut(&mut met.server).alive = false;
        self.must_be_named = true;
        met.ended = Some((self.round, Instant::now()));
        met.pending &= !self.describers.forget(id);
        names.server_ended(id);
        if let Some(parts) = &mut self.parts {
            parts.end(id);
        }
    }

    /// These have synced or written just now.
    pub(crate) fn note_active(&mut self, servers: impl IntoIterator<Item = ServerId>, now: Instant) {
        for server in servers {
            if let Some(met) = self.met.get_mut(&process(server)) {
                met.active = Some(now);
            }
        }
    }

    /// Those that live, with whose they are, and whether each has synced or written lately.
    pub(crate) fn alive(&self, now: Instant) -> BTreeMap<ServerId, (Owner, bool)> {
        let alive = self.met.values().filter(|met| met.server.alive);
        alive.map(|met| (met.server.id, (met.owner, met.is_active(now)))).collect()
    }

    pub(crate) fn owner(&self, server: ServerId) -> Owner {
        self.met.get(&process(server)).map_or(Owner::Unknown, |met| met.owner)
    }

    /// Waits for the descriptions that are on their way, but not for ever.
    pub fn settle(&mut self, names: &mut Names, patience: Duration) {
        let end = Instant::now() + patience;
        while self.met.values().any(|met| met.pending) {
            match self.describers.wait(end.saturating_duration_since(Instant::now())) {
                Some(description) => self.take(description, names),
                None => break,
            }
        }
        if let Some(parts) = &self.parts {
            parts.wait(end);
        }
        self.take_parts();
        while self.titles.pending() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.take_titles();
    }

    fn take_titles(&mut self) {
        while let Some((thread, title)) = self.titles.poll() {
            if let Some(known) = self.thread_names.get_mut(&thread) {
                known.name = title;
            }
        }
    }

    fn take(&mut self, (id, server, settings): (ServerId, Server, Settings), names: &mut Names) {
        let Some(met) = self.met.get_mut(&process(id)) else { return };
        met.pending = false;
        if server.known_by.whose != Owner::Unknown {
            met.owner = server.known_by.whose;
        }
        let known = met.server.clone();
        // Of a process that has gone meanwhile, what was known before stays.
        if !server.comm.is_empty() && server.alive {
            let doublewrite_apart_since = known.doublewrite_apart_since;
            let server = Server { id: known.id, alive: known.alive, doublewrite_apart_since, ..server };
            if let Some(parts) = &mut self.parts {
                parts.look_for(met.owner, &server, &settings);
            }
            met.server = Arc::new(server);
            self.must_be_named = true;
            names.set_server(known.id, met.server.engine.clone(), settings);
        }
    }

    /// Processor time that was used to describe servers.
    pub fn spent(&self) -> Duration {
        self.describers.spent()
    }

    pub fn list(&self) -> Vec<Arc<Server>> {
        self.met.values().map(|met| met.server.clone()).collect()
    }

    /// Those that ended too long ago, or are too many: the longest gone ones. What they did last has been
    /// heard of.
    pub(crate) fn outlived(&self) -> HashSet<ServerId> {
        let ended = || {
            let ended = self.met.values().filter_map(|met| Some((met.ended?, met.server.id)));
            ended.filter(|((round, _), _)| round + QUIET_ROUNDS <= self.round)
        };
        let number = ended().count();
        let is_too_old = |at: Instant| self.retention.length.is_some_and(|length| at.elapsed() >= length);
        // A quarter more than needed, so that this does not happen at every snapshot.
        let excess = if number > self.retention.most { number - self.retention.most * 3 / 4 } else { 0 };
        if excess == 0 && !ended().any(|((_, at), _)| is_too_old(at)) {
            return HashSet::new();
        }
        let mut ended: Vec<_> = ended().map(|((_, at), id)| (at, id)).collect();
        ended.sort();
        let old = ended.iter().skip(excess).take_while(|(at, _)| is_too_old(*at)).count();
        ended[..excess + old].iter().map(|&(_, id)| id).collect()
    }

    pub fn forget(&mut self, gone: &HashSet<ServerId>) {
        self.met.retain(|_, met| !gone.contains(&met.server.id));
        self.must_be_named = true;
        self.thread_names.retain(|(server, ..), _| !gone.contains(server));
    }

    /// The name that a thread had at its first sync.
    pub(crate) fn learn_thread(&mut self, server: ServerId, tid: u32, start: u32, name: [u64; 2]) {
        let bytes: Vec<u8> =
            name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&b| b != 0).collect();
        let name = || String::from_utf8_lossy(&bytes).into_owned();
        let known = || ThreadName { name: name(), looked: None };
        self.thread_names.entry((server, tid, start)).or_insert_with(known);
    }

    /// What a thread calls itself, or the title of a process of a server of several; the last name it had if
    /// it has ended. `changed`: it has synced just now, and may have another name.
    pub(crate) fn thread_name(&mut self, server: ServerId, tid: u32, start: u32, changed: bool) -> String {
        if tid == 0 {
            return "(ended threads)".into();
        }
        let known = self.thread_names.entry((server, tid, start)).or_default();
        let again = |looked: Instant| changed && looked.elapsed() >= LOOK_AGAIN;
        if known.looked.is_none_or(again) {
            known.looked = Some(Instant::now());
            let own = format!("{PROC}/{}/task/{tid}/comm", server.pid);
            match proc_file::read_once::<64>(Path::new(&own)) {
                Ok(name) => {
                    let name = name.strip_suffix(b"\n").unwrap_or(&name);
                    known.name = String::from_utf8_lossy(name).into_owned();
                }
                Err(_) => {
                    self.titles.submit((), (server, tid, start));
                }
            }
        }
        known.name.clone()
    }

    pub(crate) fn thread_names(&self) -> usize {
        self.thread_names.len()
    }

    /// Forgets the names of the threads that are not `wanted`.
    pub(crate) fn retain_threads(&mut self, wanted: impl Fn(ServerId, u32, u32) -> bool) {
        self.thread_names.retain(|&(server, tid, start), _| wanted(server, tid, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::child::Sleeper;

    fn id(pid: u32) -> ServerId {
        // No process has such a number.
        ServerId { pid: (1 << 30) + pid, start_ns: 7_000_000_000 }
    }

    fn servers(retention: Retention, ended: u32) -> Servers {
        let mut servers = Servers::new(Arc::new(Rules::builtin()), false);
        servers.set_retention(retention);
        let mut names = Names::new(Arc::new(Rules::builtin()));
        for pid in 0..ended {
            assert!(servers.meet(id(pid)) && !servers.meet(id(pid)));
            servers.refresh(&mut names);
        }
        (0..QUIET_ROUNDS).for_each(|_| servers.refresh(&mut names));
        servers
    }

    #[test]
    fn servers_that_ended_are_kept_while_there_is_room() {
        let most = |most| Retention { most, length: None };
        assert!(servers(most(20), 20).outlived().is_empty());
        let mut servers = servers(most(20), 25);
        let outlived = servers.outlived();
        assert_eq!(outlived, (0..10).map(id).collect());
        servers.learn_thread(id(0), 5, 1, [u64::from_ne_bytes(*b"gone\0\0\0\0"), 0]);
        servers.learn_thread(id(24), 5, 1, [u64::from_ne_bytes(*b"kept\0\0\0\0"), 0]);
        servers.forget(&outlived);
        assert_eq!((servers.list().len(), servers.thread_names()), (15, 1));
        assert_eq!(servers.thread_name(id(24), 5, 1, true), "kept");
        assert!(servers.outlived().is_empty());
        assert!(servers.list().iter().all(|server| !server.alive));
        // One that is heard of again after all is met again.
        assert!(servers.meet(id(0)));
    }

    #[test]
    fn servers_that_ended_long_ago_are_forgotten_and_those_that_live_never() {
        let mut servers = servers(Retention { most: 20, length: Some(Duration::ZERO) }, 3);
        let own = processes::find(Path::new(PROC), std::process::id()).unwrap().id();
        servers.meet(own);
        servers.refresh(&mut Names::new(Arc::new(Rules::builtin())));
        let outlived = servers.outlived();
        assert_eq!(outlived, (0..3).map(id).collect());
        servers.forget(&outlived);
        assert_eq!(servers.list().iter().map(|server| server.id).collect::<Vec<_>>(), [own]);
    }

    #[test]
    fn more_servers_than_can_be_described_at_once_are_described_one_after_the_other() {
        let children: Vec<_> = (0..400).map(|_| Sleeper::start()).collect();
        let mut names = Names::new(Arc::new(Rules::builtin()));
        let mut servers = Servers::new(Arc::new(Rules::builtin()), false);
        for child in &children {
            servers.meet(processes::find(Path::new(PROC), child.id()).unwrap().id());
        }
        let end = Instant::now() + Duration::from_secs(60);
        let undescribed =
            |servers: &Servers| servers.met.values().filter(|met| met.descriptions == 0).count();
        while undescribed(&servers) > 0 && Instant::now() < end {
            servers.settle(&mut names, Duration::from_millis(50));
            servers.refresh(&mut names);
        }
        let left = undescribed(&servers);
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let named = |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        let describers = threads.filter(|task| named(task).is_ok_and(|name| name == "describe\n")).count();
        assert_eq!(left, 0);
        // Other tests of this process may have threads of that name, too.
        assert!(describers <= 32, "{describers} threads");
    }
}
