//! What `explain` gathers about the commits of one server while it traces: the server's own counters at both
//! ends, the syncs in flight in between, and what the server's files lie on. Nothing here waits for the
//! server for long.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::audit::Evidence;
use super::commits::{Commits, Inputs};
use super::factors::samples::LOG_ROLES;
use super::factors::{EarlyScan, Edges, InFlightSamples, Uncertain};
use super::waits::{Account, Processors};
use crate::calibration::{Calibration, state};
use crate::linux::blocking::Threads;
use crate::linux::priority::Punctual;
use crate::linux::processors::ProcessorTimes;
use crate::linux::storage::Storage;
use crate::model::{InFlight, Measurement, Role, Server, Snapshot};
use crate::probe::{TimerProbe, TimerSamples, WaitError};
use crate::sampler::Sampler;
use crate::server::mysql::status::Connection;
use crate::server::mysql::status::Status;
use crate::server::mysql::status::reading::Reading;
use crate::server::status::Scope;
use crate::text::capitalize;

const PROC: &str = "/proc";
/// How often the syncs in flight are to be sampled: a hundred samples a second make a window of a few seconds
/// enough.
const EVERY: Duration = Duration::from_millis(10);
/// The same where a timer samples, and looking only tells which threads sync.
const EVERY_BESIDE_TIMER: Duration = Duration::from_millis(25);
/// How long the server's filesystems may take to be looked at.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(1);
static STORAGE_THREADS: Threads = Threads::new("storage", 2);

/// How a snapshot is taken: one among others, or that which ends counting.
type Take = fn(&mut Sampler) -> io::Result<Snapshot>;

/// Begun before the first snapshot, closed with the last. The counters are read alone, right before either:
/// what a server takes for all the rest, or while its disk stalls, would be a time in which only one of the
/// two goes on.
pub struct CommitWatch {
    server: Server,
    connection: Option<Connection>,
    from: Option<Reading>,
    to: Option<Reading>,
    /// Why there are no counters.
    no_status: Option<String>,
    samples: InFlightSamples,
    unsure: Uncertain,
    /// Where the kernel has one for us, and what it had sampled when the window began.
    timer: Option<(TimerProbe, TimerSamples)>,
    processors: Option<ProcessorTimes>,
    idle: Option<f64>,
    punctual: Option<Punctual>,
}

impl CommitWatch {
    pub fn begin(server: Server, status: Status, timer: Result<TimerProbe, WaitError>) -> CommitWatch {
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
        let mut samples = InFlightSamples::new(server.id);
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
            timer,
            server,
            connection,
            from,
            to: None,
            no_status,
            processors: ProcessorTimes::read(Path::new(PROC)),
            idle: None,
            punctual: Some(Punctual::begin()),
        }
    }

    /// Reads the counters: right before the window begins.
    pub fn count_at_begin(&mut self) {
        // If the server hangs, the end of the window says so.
        if let Some(connection) = &mut self.connection
            && let Ok(counters) = connection.read(Scope::Syncs)
        {
            self.from = self.from.take().map(|from| counters.with_rest_of(from));
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

    /// How often [`CommitWatch::sample`] is to be called.
    pub fn every(&self) -> Duration {
        if self.timer.is_some() { EVERY_BESIDE_TIMER } else { EVERY }
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
        let in_flight = sampler.in_flight(self.server.id.pid)?;
        self.samples.add(&in_flight, Instant::now());
        self.follow_logs(sampler);
        Ok(())
    }

    /// A log that goes on in another file has another row; a row that is used no more may become another
    /// file's.
    fn follow_logs(&mut self, sampler: &Sampler) {
        let Some((timer, _)) = &mut self.timer else { return };
        for (log, role) in LOG_ROLES.into_iter().enumerate() {
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
    fn readings(&mut self) -> Option<(Reading, Reading)> {
        let (from, to, connection) = (self.from.take()?, self.to.take()?, self.connection.as_mut()?);
        match connection.read(Scope::Everything) {
            Ok(rest) => Some((from, to.with_rest_of(rest))),
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
    /// `waits`: how those syncs spent their time. `device_flushes`: how many the devices were sent, if that
    /// was counted.
    pub fn finish(
        mut self,
        measurement: &Measurement,
        begun: &[InFlight],
        until: &Measurement,
        waits: &Account,
        device_flushes: Option<u64>,
    ) -> Commits {
        self.punctual = None;
        let readings = self.readings();
        let places = places(&self.server, measurement);
        let pid = self.server.id.pid;
        let found = STORAGE_THREADS.within(STORAGE_TIMEOUT, move || look(pid, &places));
        let (storage, calibration) = found.unwrap_or_default();
        let evidence = Evidence {
            server: &self.server,
            measurement,
            status: readings.as_ref().map(|(from, to)| (from, to)),
            storage: &storage,
            device_flushes,
        };
        let inputs = Inputs {
            edges: Edges { begun, until, unsure: &self.unsure },
            in_flight: &self.samples,
            processors: Processors::new(self.idle, waits),
            calibration: calibration.as_ref(),
            no_status: self.no_status.as_deref(),
        };
        Commits::of(&evidence, &inputs)
    }
}

fn sentence(error: &str) -> String {
    format!("{}.", capitalize(error))
}

/// One file of each role that durability hangs on, the redo log first, and the data directory.
fn places(server: &Server, measurement: &Measurement) -> Vec<PathBuf> {
    let of = |role| {
        let mut files =
            measurement.files.iter().filter(move |row| row.server == server.id && row.info.role == role);
        files.find_map(|row| row.info.path.clone())
    };
    let roles = [Role::Redo, Role::Binlog, Role::Doublewrite, Role::Tablespace];
    roles.into_iter().filter_map(of).chain(server.datadir.clone()).collect()
}

/// What they lie on, each once, and the last calibration of the first of them.
fn look(pid: u32, places: &[PathBuf]) -> (Vec<Storage>, Option<Calibration>) {
    let mut found: Vec<Storage> = Vec::new();
    let mut calibration = None;
    for place in places {
        let Ok(storage) = Storage::seen_by(pid, place) else { continue };
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
