//! The exporter's books: fed with every snapshot in the order in which they were taken, they hold what was
//! counted under each label. A snapshot's rows come and go, a server's processes do, and roles and names are
//! found out late; what is here only grows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::buckets::Buckets;
use super::neighbours::Neighbours;
use super::paths::Did;
use super::totals::ServerTotals;
use super::waiting::Waiting;
use crate::linux::clock::boot_time;
use crate::live::Published;
use crate::model::{Backlog, Interval, Lost, Op, Owner, Role, Server, ServerId, Setup, Snapshot};
use crate::server::who::identity::Identity;
use crate::server::who::naming::{self, Claim, GivenName, OTHER, Standing, UNKNOWN};
use crate::server::who::processes::cut_to_tick;
use crate::server::who::shares::{Admission, Room, is_service};

/// Servers with a label of their own, and how many of the labels are kept for services of the system.
pub(super) const MAX_SERVERS: usize = 64;
pub(super) const RESERVED: usize = 16;
const ROOM: Room = Room { all: MAX_SERVERS, reserve: RESERVED };
/// How long a server waits for its description before it is called by the little that is known.
pub(super) const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Options {
    pub buckets: Buckets,
    /// Paths of a server with series of their own, but for those about to end. None: no file metrics at all.
    pub paths: Option<usize>,
    pub names: Vec<GivenName>,
}

impl Default for Options {
    fn default() -> Self {
        Options { buckets: Buckets::default(), paths: Some(200), names: Vec::new() }
    }
}

/// A server under its label, whichever process runs it.
#[derive(Clone, Debug)]
pub struct Place {
    pub label: String,
    /// How well the server's claim to its label stood when it got it.
    standing: Standing,
    identity: Option<Identity>,
    pub totals: ServerTotals,
    /// The process that runs it, or ran it last. None: syncs without a process, or processes too many to be
    /// told apart.
    server: Option<Arc<Server>>,
    pub is_alive: bool,
    /// In flight by role: how many, and the age of the oldest.
    pub in_flight: BTreeMap<Role, (u64, Duration)>,
    /// What was unsynced in the last interval, at most; of roles that were ever unsynced.
    pub unsynced: BTreeMap<Role, Backlog>,
    /// When a process of it was last there.
    seen: Instant,
}

/// A label of the metrics, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labelled {
    pub label: String,
    /// The server's process, or the last one. None: several servers share the label.
    pub main: Option<ServerId>,
    pub is_alive: bool,
    /// What it has started under its own name; of several servers, all.
    pub others: Vec<ServerId>,
    /// Who answers for it, the number of its user, and its unit.
    pub whose: Owner,
    pub uid: Option<u32>,
    pub unit: Option<String>,
}

impl Labelled {
    pub fn new(label: &str, server: Option<&Server>, is_alive: bool) -> Labelled {
        let known_by = server.map(|server| &server.known_by);
        Labelled {
            label: label.to_owned(),
            main: server.map(|server| server.id),
            is_alive,
            others: Vec::new(),
            whose: known_by.map_or(Owner::Unknown, |known_by| known_by.whose),
            uid: known_by.and_then(|known_by| known_by.owner),
            unit: known_by.and_then(|known_by| known_by.unit.clone()),
        }
    }
}

/// A process whose syncs were counted.
#[derive(Clone, Debug)]
struct Process {
    server: Arc<Server>,
    seen: Instant,
    place: Option<u32>,
    /// The place was chosen before anything was known of it.
    is_provisional: bool,
    /// Its syncs while it has no place.
    waiting: Option<Box<Waiting>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Book {
    options: Arc<Options>,
    places: BTreeMap<u32, Place>,
    next_place: u32,
    /// By an identity that all who know the process agree on.
    processes: BTreeMap<ServerId, Process>,
    pub neighbours: Neighbours,
    /// The most that was ever said: of some it turns out later that less was lost.
    pub lost: Lost,
    /// Bytes of which it is not known whether they are synced; as above.
    pub unsynced_dropped: u64,
    last: Option<Arc<Snapshot>>,
    boot_time: SystemTime,
}

impl Book {
    pub fn new(options: Options) -> Book {
        Book {
            options: Arc::new(options),
            places: BTreeMap::new(),
            next_place: 0,
            processes: BTreeMap::new(),
            neighbours: Neighbours::default(),
            lost: Lost::default(),
            unsynced_dropped: 0,
            last: None,
            boot_time: boot_time(),
        }
    }

    /// When the host was started: the same for as long as this lives.
    pub(crate) fn boot_time(&self) -> SystemTime {
        self.boot_time
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.values()
    }

    /// What the metrics call servers, and the processes of each, the one that is it first. Of those without a
    /// place, the name that they are likely to get.
    pub(crate) fn labelled(&self) -> Vec<Labelled> {
        let mut all: BTreeMap<&str, Labelled> = BTreeMap::new();
        for place in self.places.values().filter(|place| place.label == OTHER || place.server().is_some()) {
            let new = || Labelled::new(&place.label, place.server(), place.is_alive);
            all.entry(&place.label).or_insert_with(new);
        }
        // Nobody has looked yet whether it may call itself what another server is called.
        let is_anothers = |label: &str, process: &Process| {
            let identity = Identity::of(&process.server);
            let mut known = self.places.values().filter(|place| place.label == label);
            known.any(|place| {
                let own = place.identity.as_ref();
                place.is_alive || !own.is_some_and(|own| own.is_taken_up_by(&identity, false))
            })
        };
        for process in self.processes.values().filter(|process| process.server.alive) {
            let (id, place) = (process.server.id, process.place.and_then(|number| self.places.get(&number)));
            let label = place.map_or(&*process.server.name, |place| &*place.label);
            if place.is_none() && is_anothers(label, process) {
                continue;
            }
            let new = || Labelled::new(label, Some(&process.server), true);
            let known = all.entry(label).or_insert_with(new);
            match known.main {
                Some(main) if main == id => {}
                _ if place.is_none() && !known.is_alive => (known.main, known.is_alive) = (Some(id), true),
                _ => known.others.push(id),
            }
        }
        all.into_values().collect()
    }

    /// The last snapshot that was fed.
    pub fn last(&self) -> Option<&Arc<Snapshot>> {
        self.last.as_ref()
    }

    /// Takes in what happened since the snapshot before, and gives its servers the names that they have here.
    pub(crate) fn feed(&mut self, published: &mut Published) {
        let (snapshot, interval) = (&published.snapshot, &published.interval);
        let now = snapshot.taken;
        if snapshot.setup.net.writeback && self.last.is_none() {
            let nobodys = self.special_place(UNKNOWN, now);
            self.place(nobodys, now).begin_writeback_at_zero();
        }
        self.meet(&snapshot.servers, now);
        self.add(interval, now);
        let waits = self.processes.values().any(|process| process.waiting.is_some());
        for row in snapshot.files.iter().filter(|_| waits) {
            if let Some(waiting) = self.waiting_of(row.server) {
                waiting.learn(row);
            }
        }
        self.decide(&snapshot.setup, now);
        self.note_processes(interval, now);
        self.neighbours.add(interval, now);
        self.lost = self.lost.most(&snapshot.lost);
        self.unsynced_dropped = self.unsynced_dropped.max(snapshot.unsynced.dropped);
        self.last = Some(snapshot.clone());
        // Nobody else has it yet, so nothing is copied.
        self.call(&mut Arc::make_mut(&mut published.interval).servers);
    }

    /// Takes note of processes that are new, and of what is newly known of the others.
    fn meet(&mut self, servers: &[Arc<Server>], now: Instant) {
        // What stands for processes that are remembered no longer is none.
        let processes = || servers.iter().filter(|server| server.id.pid != 0);
        let known: BTreeSet<ServerId> = processes().map(|server| cut_to_tick(server.id)).collect();
        // Those that ended long ago are told of no more.
        self.processes.retain(|id, process| process.waiting.is_some() || known.contains(id));
        for server in processes() {
            let process = self.processes.entry(cut_to_tick(server.id)).or_insert_with(|| Process {
                server: server.clone(),
                seen: now,
                place: None,
                is_provisional: false,
                waiting: None,
            });
            if process.is_provisional && server.known_by.described {
                process.place = None;
            }
            let place = process.place.and_then(|number| self.places.get_mut(&number));
            if let Some(identity) = place.and_then(|place| place.identity.as_mut()) {
                identity.follow_owner(&process.server, server);
            }
            process.server = server.clone();
        }
    }

    fn add(&mut self, measurement: &Interval, now: Instant) {
        let options = self.options.clone();
        for rows in measurement.roles.chunk_by(|a, b| a.server == b.server) {
            let totals = self.totals_of(rows[0].server, now);
            rows.iter().for_each(|row| totals.add_role(row));
        }
        if measurement.setup.ops.contains(&Op::Write) {
            for row in measurement.all_write_roles() {
                self.totals_of(row.server, now).add_write(row);
            }
        }
        for rows in measurement.failures.chunk_by(|a, b| a.server == b.server) {
            let totals = self.totals_of(rows[0].server, now);
            rows.iter().for_each(|row| totals.add_failure(row));
        }
        if options.paths.is_some() {
            for rows in measurement.files.chunk_by(|a, b| a.server == b.server) {
                match self.waiting_of(rows[0].server) {
                    Some(waiting) => waiting.add_files(rows, now),
                    None => self.totals_of(rows[0].server, now).add_files(rows.iter().map(Did::from), now),
                }
            }
            self.places.values_mut().for_each(|place| place.totals.files.change_hands(now));
            let waiting = self.processes.values_mut().filter_map(|process| process.waiting.as_mut());
            waiting.for_each(|waiting| waiting.totals.files.change_hands(now));
        }
    }

    /// Of a process that has no place, and something that waits for one.
    fn waiting_of(&mut self, id: ServerId) -> Option<&mut Waiting> {
        let process = self.processes.get_mut(&cut_to_tick(id)).filter(|process| process.place.is_none())?;
        process.waiting.as_deref_mut()
    }

    fn totals_of(&mut self, id: ServerId, now: Instant) -> &mut ServerTotals {
        let paths = self.options.paths.unwrap_or(0);
        let id = cut_to_tick(id);
        let place = match self.processes.get(&id).map(|process| process.place) {
            Some(Some(place)) => place,
            Some(None) => {
                let process = self.processes.get_mut(&id).expect("it was just there");
                return &mut process.waiting.get_or_insert_with(|| Box::new(Waiting::new(paths))).totals;
            }
            None => self.special_place(UNKNOWN, now),
        };
        self.place(place, now)
    }

    fn place(&mut self, number: u32, now: Instant) -> &mut ServerTotals {
        let paths = self.options.paths.unwrap_or(0);
        let new = || Place {
            label: UNKNOWN.to_owned(),
            standing: Standing::default(),
            identity: None,
            totals: ServerTotals::new(paths),
            server: None,
            is_alive: false,
            in_flight: BTreeMap::new(),
            unsynced: BTreeMap::new(),
            seen: now,
        };
        &mut self.places.entry(number).or_insert_with(new).totals
    }

    /// A place that stands for no server.
    fn special_place(&mut self, label: &str, now: Instant) -> u32 {
        let known = self.places.iter().find(|(_, place)| place.identity.is_none() && place.label == label);
        match known {
            Some((&number, _)) => number,
            None => self.open(label.to_owned(), Standing::default(), None, now),
        }
    }

    fn open(&mut self, label: String, standing: Standing, identity: Option<Identity>, now: Instant) -> u32 {
        let number = self.next_place;
        self.next_place += 1;
        self.place(number, now);
        if let Some(place) = self.places.get_mut(&number) {
            (place.label, place.standing, place.identity) = (label, standing, identity);
        }
        number
    }

    /// Gives processes their places. All that began at about the same time are looked at together, so that
    /// the labels do not hang on who was described first.
    fn decide(&mut self, setup: &Setup, now: Instant) {
        let is_late = |process: &Process| now.saturating_duration_since(process.seen) >= DESCRIBE_TIMEOUT;
        let is_ready = |process: &Process| {
            process.server.known_by.described || !process.server.alive || is_late(process)
        };
        let open = || self.processes.iter().filter(|(_, process)| process.place.is_none());
        let waits =
            open().any(|(_, process)| !is_ready(process)) && !open().any(|(_, process)| is_late(process));
        if waits {
            return;
        }
        let open: Vec<ServerId> =
            open().filter(|(_, process)| is_ready(process)).map(|(&id, _)| id).collect();
        let mut fresh: Vec<(Identity, Vec<ServerId>)> = Vec::new();
        let mut running = self.running();
        for id in open {
            let process = &self.processes[&id];
            let identity = Identity::of(&process.server);
            if let Some(number) = self.known_place(&identity, &running) {
                if process.server.alive {
                    running.insert(number);
                }
                self.settle(id, number, setup, now);
            } else if process.server.alive || process.waiting.is_some() {
                // Several processes of one directory: a server and what it starts under its own name.
                let lives = |id: &ServerId| self.processes[id].server.alive;
                let is_taken_up = |(known, processes): &&mut (Identity, Vec<ServerId>)| {
                    known.is_taken_up_by(&identity, process.server.alive && processes.iter().any(lives))
                };
                match fresh.iter_mut().find(is_taken_up) {
                    Some((_, processes)) => processes.push(id),
                    None => fresh.push((identity, vec![id])),
                }
            }
        }
        let given = &self.options.names;
        let claim = |processes: &[ServerId]| naming::claim(&self.processes[&processes[0]].server, given);
        let mut claims: Vec<Claim> = fresh.iter().map(|(_, processes)| claim(processes)).collect();
        let renamed = self.to_be_renamed(&claims);
        claims.extend(renamed.iter().map(|(_, claim)| claim.clone()));
        if claims.is_empty() {
            return;
        }
        let stays = |number: &u32| renamed.iter().all(|(renamed, _)| renamed != number);
        let staying = self.places.iter().filter(|(number, _)| stays(number));
        let mut taken: BTreeSet<&str> = staying.map(|(_, place)| place.label.as_str()).collect();
        taken.extend([UNKNOWN, OTHER]);
        let mut labels = naming::labels(&claims, &taken).into_iter().zip(claims);
        let settled: Vec<_> = fresh.into_iter().zip(labels.by_ref()).collect();
        for ((number, _), (label, claim)) in renamed.iter().zip(labels) {
            if let Some(place) = self.places.get_mut(number) {
                (place.label, place.standing) = (label, claim.standing);
            }
        }
        for ((identity, processes), (label, claim)) in settled {
            let number = if self.make_room(identity.whose(), &running, setup, now) {
                self.open(label, claim.standing, Some(identity), now)
            } else {
                self.special_place(OTHER, now)
            };
            running.insert(number);
            processes.into_iter().for_each(|id| self.settle(id, number, setup, now));
        }
    }

    /// Servers whose own claim has been confirmed since they got their label, and those that lose theirs to
    /// one of them or to a newcomer, whose claim beats theirs.
    fn to_be_renamed(&self, newcomers: &[Claim]) -> Vec<(u32, Claim)> {
        let may_be =
            self.places.iter().filter(|(_, place)| place.identity.is_some() && !place.standing.is_best());
        let claim = |(&number, place): (&u32, &Place)| {
            Some((number, naming::claim(place.server.as_deref()?, &self.options.names)))
        };
        let all: Vec<(u32, Claim)> = may_be.filter_map(claim).collect();
        let (mut renamed, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(number, claim)| {
            let place = &self.places[number];
            place.is_alive && claim.standing.beats(place.standing)
        });
        let loses = |(number, _): &(u32, Claim)| {
            let place = &self.places[number];
            let risen = renamed.iter().map(|(_, claim)| claim);
            newcomers.iter().chain(risen).any(|claim| {
                claim.names.first() == Some(&place.label) && claim.standing.beats(place.standing)
            })
        };
        let losers: Vec<_> = others.into_iter().filter(loses).collect();
        renamed.extend(losers);
        renamed
    }

    fn known_place(&self, identity: &Identity, running: &BTreeSet<u32>) -> Option<u32> {
        let is_same = |number: u32, place: &Place| {
            let known = place.identity.as_ref();
            known.is_some_and(|known| known.is_taken_up_by(identity, running.contains(&number)))
        };
        let same = self.places.iter().filter(|&(&number, place)| is_same(number, place));
        // Of several that have ended, and whose directories are called the same, the one on this very
        // directory.
        let is_elsewhere =
            |place: &Place| !place.identity.as_ref().is_some_and(|known| known.is_on_directory_of(identity));
        same.min_by_key(|(_, place)| is_elsewhere(place)).map(|(&number, _)| number)
    }

    /// The places of which a process is alive.
    fn running(&self) -> BTreeSet<u32> {
        let alive = self.processes.values().filter(|process| process.server.alive);
        alive.filter_map(|process| process.place).collect()
    }

    fn settle(&mut self, id: ServerId, number: u32, setup: &Setup, now: Instant) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.place = Some(number);
        process.is_provisional = !process.server.known_by.described;
        let waiting = process.waiting.take();
        let engine = process.server.engine.clone().filter(|_| process.server.is_database());
        let totals = self.place(number, now);
        if let Some(engine) = engine {
            totals.begin_at_zero(setup, &engine);
        }
        if let Some(waiting) = waiting {
            waiting.settle(totals, now);
        }
    }

    /// Whether there is room for another server of this owner's: if need be in the place of the one that
    /// ended longest ago, or else of one whose owner has most.
    fn make_room(&mut self, newcomer: Owner, running: &BTreeSet<u32>, setup: &Setup, now: Instant) -> bool {
        let servers =
            || self.places.iter().filter_map(|(&at, place)| Some((at, place, place.identity.as_ref()?)));
        let mut held: BTreeMap<Owner, usize> = BTreeMap::new();
        servers().for_each(|(.., identity)| *held.entry(identity.whose()).or_default() += 1);
        let gone = || servers().filter(|(number, ..)| !running.contains(number));
        let longest_gone = |of: &dyn Fn(Owner) -> bool| {
            let gone = gone().filter(|(.., identity)| of(identity.whose()));
            gone.min_by_key(|(_, place, _)| place.seen).map(|(number, ..)| number)
        };
        match ROOM.admit(&held, newcomer) {
            Admission::Free => true,
            Admission::InPlaceOf(owner) => {
                let newest = || servers().rfind(|(.., identity)| identity.whose() == owner);
                let number = longest_gone(&|whose| whose == owner).or_else(|| newest().map(|(at, ..)| at));
                number.is_some_and(|number| self.close(number, setup, now))
            }
            // Its own first: what others did stays. And no stranger drives out what a service did.
            Admission::Refused => {
                let is_full = servers().count() >= MAX_SERVERS;
                let own = longest_gone(&|whose| whose == newcomer);
                let may_drive_out = |whose| is_full && (is_service(newcomer) || !is_service(whose));
                let number = own.or_else(|| longest_gone(&may_drive_out));
                number.is_some_and(|number| self.close(number, setup, now))
            }
        }
    }

    /// Ends the series of a server. If it still runs, it goes on among the others.
    fn close(&mut self, number: u32, setup: &Setup, now: Instant) -> bool {
        self.places.remove(&number);
        let of_place: Vec<ServerId> = self
            .processes
            .iter()
            .filter(|(_, process)| process.place == Some(number))
            .map(|(&id, _)| id)
            .collect();
        for id in of_place {
            match self.processes[&id].server.alive {
                true => {
                    let other = self.special_place(OTHER, now);
                    self.settle(id, other, setup, now);
                }
                false => drop(self.processes.remove(&id)),
            }
        }
        true
    }

    /// Gives servers the labels that they have here, which may be those of an earlier time.
    fn call(&self, servers: &mut [Arc<Server>]) {
        for server in servers {
            let place = self.processes.get(&cut_to_tick(server.id)).and_then(|process| process.place);
            let Some(place) = place.and_then(|number| self.places.get(&number)) else { continue };
            if place.identity.is_some() && *server.name != *place.label {
                Arc::make_mut(server).name = place.label.as_str().into();
            }
        }
    }

    /// Who runs each server now, and what is in flight.
    fn note_processes(&mut self, measurement: &Interval, now: Instant) {
        for (number, place) in &mut self.places {
            place.in_flight.clear();
            place.unsynced.values_mut().for_each(|unsynced| *unsynced = Backlog::default());
            let of_place = || self.processes.values().filter(|process| process.place == Some(*number));
            // A server may start short-lived processes under its own name: the one that clients can reach is
            // it.
            let importance = |process: &&Process| {
                let server = &process.server;
                (server.alive, server.known_by.listens, std::cmp::Reverse(server.id.start_ns))
            };
            let alive = of_place().filter(|process| process.server.alive).max_by_key(importance);
            let latest = || of_place().max_by_key(|process| process.server.id.start_ns);
            place.is_alive = alive.is_some();
            if place.is_alive {
                place.seen = now;
            }
            if let Some(process) = alive.or_else(latest) {
                place.server = Some(process.server.clone());
            }
        }
        for row in measurement.unsynced.roles() {
            let process = self.processes.get(&cut_to_tick(row.server));
            if let Some(place) = process.and_then(|process| self.places.get_mut(&process.place?)) {
                let sum = place.unsynced.entry(row.role).or_default();
                *sum = sum.and(row.most);
            }
        }
        for sync in &measurement.in_flight {
            let process = self.processes.get(&cut_to_tick(sync.server));
            let place = process.and_then(|process| self.places.get_mut(&process.place?));
            if let Some(place) = place {
                let (count, oldest) = place.in_flight.entry(sync.role).or_default();
                *count += 1;
                *oldest = (*oldest).max(sync.age);
            }
        }
    }
}

impl Place {
    /// The server, where there is one to tell of: the directory of a server that ran and will run again, or a
    /// process that is alive.
    pub fn server(&self) -> Option<&Server> {
        let is_one = self.identity.as_ref().is_some_and(|identity| self.is_alive || !identity.is_bare());
        self.server.as_deref().filter(|_| is_one)
    }
}
