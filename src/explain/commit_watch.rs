//! What `explain` gathers about the commits of one server while it traces: the server's own counters at both
//! ends, the syncs in flight in between, and what the server's files lie on. Nothing here waits for the
//! server for long.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::audit::Evidence;
use super::commits::{Commits, Inputs};
use super::factors::{EarlyScan, Edges, InFlightSamples, Uncertain};
use super::waits::{Account, Processors};
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::linux::blocking::Threads;
use crate::linux::priority::Punctual;
use crate::linux::processors::ProcessorTimes;
use crate::linux::storage::Storage;
use crate::model::{Engine, InFlight, Interval, Role, Server, Snapshot};
use crate::probe::{LOGS, TimerProbe, TimerSamples, WaitError};
use crate::sampler::Sampler;
use crate::server::asking::Scope;
use crate::server::asking::choose::Status;
use crate::server::asking::connection::{Client, Connection};
use crate::server::what::titles;
use crate::sync_cost::{Calibration, state};
use crate::text::capitalize;

/// How often the syncs in flight are to be sampled: a hundred samples a second make a window of a few seconds
/// enough.
const EVERY: Duration = Duration::from_millis(10);
/// The same where a timer samples, and looking only tells which threads sync.
const EVERY_BESIDE_TIMER: Duration = Duration::from_millis(25);
/// After each look at a server of several processes, so many times as long as it took: it is one at all
/// threads of the host.
const REST: u32 = 9;
/// How long the server's filesystems may take to be looked at.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(1);
static STORAGE_THREADS: Threads = Threads::new("storage", 2);
static TITLE_THREADS: Threads = Threads::new("titles", 1);

/// How a snapshot is taken: one among others, or that which ends counting.
type Take = fn(&mut Sampler) -> io::Result<Snapshot>;

/// An engine whose throughput is taken apart, or at least its settings are looked at.
pub trait Explained: Client {
    /// Whether its throughput is taken apart.
    const HAS_FACTORS: bool;
    /// The logs that its commits can wait for, in the order of a commit.
    const LOGS: &'static [Role];
    /// What else durability hangs on, by what it lies on.
    const DATA: &'static [Role];

    /// These counters, with the rest of another reading, which asked for everything.
    fn with_rest_of(counters: Self::Reading, rest: Self::Reading) -> Self::Reading;
    fn explain<'a>(evidence: &Evidence<'a, Self::Reading>, inputs: &Inputs<'a>) -> Commits;
}

/// Begun before the first snapshot, closed with the last. The counters are read alone, right before either:
/// what a server takes for all the rest, or while its disk stalls, would be a time in which only one of the
/// two goes on.
pub struct CommitWatch<C: Explained> {
    server: Server,
    connection: Option<Connection<C>>,
    from: Option<C::Reading>,
    to: Option<C::Reading>,
    /// Why there are no counters.
    no_status: Option<String>,
    samples: InFlightSamples,
    unsure: Uncertain,
    /// How long the last look took.
    took: Duration,
    /// Where the kernel has one for us, and what it had sampled when the window began.
    timer: Option<(TimerProbe, TimerSamples)>,
    processors: Option<ProcessorTimes>,
    idle: Option<f64>,
    punctual: Option<Punctual>,
    engines: Arc<Engines>,
}

impl<C: Explained> CommitWatch<C> {
    pub fn begin(
        server: Server,
        status: Status<C>,
        timer: Result<TimerProbe, WaitError>,
        engines: Arc<Engines>,
    ) -> CommitWatch<C> {
        let (mut connection, mut no_status) = match status {
            Ok((connection, _)) => (Some(connection), None),
            Err(error) => (None, Some(sentence(&error.to_string()))),
        };
        let from = connection.as_mut().and_then(|connection| match connection.read(Scope::Everything) {
            Ok(reading) => Some(reading),
            Err(error) => {
                no_status = Some(sentence(&error.to_string()));
                None
            }
        });
        const { assert!(C::LOGS.len() <= LOGS, "the timer samples so many logs") };
        let mut samples = InFlightSamples::new(server.id, C::LOGS);
        let timer = match timer {
            Ok(timer) => Some((timer, TimerSamples::default())),
            Err(error) => {
                samples.set_no_timer(error.to_string());
                None
            }
        };
        CommitWatch {
            samples,
            unsure: Uncertain::default(),
            took: Duration::ZERO,
            timer,
            server,
            connection,
            from,
            to: None,
            no_status,
            processors: ProcessorTimes::read(Path::new(PROC)),
            idle: None,
            punctual: Some(Punctual::begin()),
            engines,
        }
    }

    /// Reads the counters: right before the window begins.
    pub fn count_at_begin(&mut self) {
        // If the server hangs, the end of the window says so.
        if let Some(connection) = &mut self.connection
            && let Ok(counters) = connection.read(Scope::Syncs)
        {
            self.from = self.from.take().map(|from| C::with_rest_of(counters, from));
        }
    }

    /// Reads them again: right before the window ends.
    pub fn count_at_end(&mut self) {
        let now = ProcessorTimes::read(Path::new(PROC));
        self.idle = now.zip(self.processors).and_then(|(now, before)| now.idle_share_since(&before));
        let (Some(connection), true) = (&mut self.connection, self.from.is_some()) else { return };
        match connection.read(Scope::Syncs) {
            Ok(counters) => self.to = Some(counters),
            Err(error) => self.no_status = Some(sentence(&error.to_string())),
        }
    }

    fn is_several(&self) -> bool {
        self.server.engine.as_deref().is_some_and(Engine::is_several)
    }

    /// How often [`CommitWatch::sample`] is to be called.
    pub fn every(&self) -> Duration {
        let every = if self.timer.is_some() { EVERY_BESIDE_TIMER } else { EVERY };
        if self.is_several() { every.max(self.took * REST) } else { every }
    }

    /// Takes the first snapshot. Samples count from now on.
    pub fn open(&mut self, sampler: &mut Sampler) -> io::Result<Snapshot> {
        let first = self.take(sampler, Sampler::snapshot)?;
        self.follow_logs(sampler);
        if let Some((timer, from)) = &mut self.timer {
            *from = timer.read();
        }
        Ok(first)
    }

    /// A snapshot at an end of the window.
    fn take(&mut self, sampler: &mut Sampler, take: Take) -> io::Result<Snapshot> {
        let early = EarlyScan::new(sampler.in_flight(self.server.id.pid)?);
        let snapshot = take(sampler)?;
        self.unsure.add(early, &snapshot.in_flight, Instant::now());
        Ok(snapshot)
    }

    /// By the thread that began.
    pub fn sample(&mut self, sampler: &mut Sampler) -> io::Result<()> {
        let began = Instant::now();
        let in_flight = sampler.in_flight(self.server.id.pid)?;
        self.samples.add(&in_flight, Instant::now());
        self.follow_logs(sampler);
        self.took = began.elapsed();
        Ok(())
    }

    /// A log that goes on in another file has another row; a row that is used no more may become another
    /// file's.
    fn follow_logs(&mut self, sampler: &Sampler) {
        let Some((timer, _)) = &mut self.timer else { return };
        for (log, &role) in C::LOGS.iter().enumerate() {
            timer.watch(log, &sampler.slots_of(self.server.id, role));
        }
    }

    /// Ends the sampling, and takes the last snapshot.
    pub fn close(&mut self, sampler: &mut Sampler, take: Take) -> io::Result<Snapshot> {
        if let Some((timer, from)) = self.timer.take() {
            self.samples.set_timer(from, timer.read());
        }
        self.take(sampler, take)
    }

    /// The server's counters at the window's ends, and the rest of what it says of itself, now.
    fn readings(&mut self) -> Option<(C::Reading, C::Reading)> {
        let (from, to, connection) = (self.from.take()?, self.to.take()?, self.connection.as_mut()?);
        match connection.read(Scope::Everything) {
            Ok(rest) => Some((from, C::with_rest_of(to, rest))),
            Err(error) => {
                self.no_status = Some(sentence(&error.to_string()));
                None
            }
        }
    }

    /// The share of the host's CPU time that was idle, once the end of the window has been counted.
    pub(crate) fn idle(&self) -> Option<f64> {
        self.idle
    }

    /// `begun`: what was in flight when the window began; `until`: what was measured from then to its end.
    /// `waits`: how those syncs spent their time.
    pub fn finish(
        mut self,
        measurement: &Interval,
        begun: &[InFlight],
        until: &Interval,
        waits: &Account,
    ) -> Commits {
        self.punctual = None;
        let readings = self.readings();
        let places = places(&self.server, measurement, C::LOGS.iter().chain(C::DATA));
        let pid = self.server.id.pid;
        let found = STORAGE_THREADS.within(STORAGE_TIMEOUT, move || look(pid, &places));
        let titles = self.titles();
        let (mut storage, calibration) = found.unwrap_or_default();
        if storage.is_empty() {
            storage.push(Storage::unseen());
        }
        let evidence = Evidence {
            server: &self.server,
            measurement,
            status: readings.as_ref().map(|(from, to)| (from, to)),
            storage: &storage,
            flush_waits: waits.flush_waits(self.server.id),
        };
        let inputs = Inputs {
            edges: Edges { begun, until, unsure: &self.unsure },
            in_flight: &self.samples,
            processors: Processors::new(self.idle, waits),
            calibration: calibration.as_ref(),
            titles: titles.as_ref(),
            no_status: self.no_status.as_deref(),
        };
        C::explain(&evidence, &inputs)
    }
}

/// Processes whose titles are read at most: those that were seen most often.
const MAX_TITLES: usize = 1_024;

impl<C: Explained> CommitWatch<C> {
    /// Of the processes that were seen to make a log durable, where a server has several. Reading one may
    /// wait for that process. None: it took too long.
    fn titles(&self) -> Option<BTreeMap<u32, String>> {
        if !self.is_several() {
            return Some(BTreeMap::new());
        }
        let mut seen: Vec<_> = C::LOGS.iter().flat_map(|&log| self.samples.tids(log)).collect();
        seen.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        let tids: BTreeSet<u32> = seen.into_iter().map(|(tid, _)| tid).take(MAX_TITLES).collect();
        let server = self.server.id.pid;
        let engines = self.engines.clone();
        let read = move || {
            let title = |tid| Some((tid, titles::of_process(Path::new(PROC), &engines, tid, server)?));
            tids.into_iter().filter_map(title).collect()
        };
        TITLE_THREADS.within(STORAGE_TIMEOUT, read)
    }
}

fn sentence(error: &str) -> String {
    format!("{}.", capitalize(error))
}

/// One file of each of these roles, the logs first, and the data directory.
fn places<'a>(
    server: &Server,
    measurement: &Interval,
    roles: impl Iterator<Item = &'a Role>,
) -> Vec<PathBuf> {
    let of = |role: &Role| {
        let mut files =
            measurement.files.iter().filter(|row| row.server == server.id && row.info.role == *role);
        files.find_map(|row| row.info.path.clone())
    };
    roles.filter_map(of).chain(server.datadir.clone()).collect()
}

/// What they lie on, each once, and the last calibration of the first of them.
fn look(pid: u32, places: &[PathBuf]) -> (Vec<Storage>, Option<Calibration>) {
    let mut found: Vec<Storage> = Vec::new();
    let mut calibration = None;
    for place in places {
        let storage = Storage::seen_by(pid, place).unwrap_or_else(|_| Storage::unseen());
        if found.is_empty()
            && let Some(state) = state::directory()
        {
            let inside = Path::new(PROC).join(format!("{pid}/root"));
            let path = inside.join(place.strip_prefix("/").unwrap_or(place));
            calibration = state::load_of(&state, &path, &storage);
        }
        if !found.contains(&storage) {
            found.push(storage);
        }
    }
    (found, calibration)
}
