//! What the prober answers: "attaching" at first, then the figures.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::collect::Collector;
use super::history_socket::HistoryError;
use super::link::{Answers, Assignment, Life, Next, Recorded, Report};
use super::log;
use super::recording::{self, Recording};
use super::source::{ATTACHING, Form, NotReady};
use super::status::{self, AtStart};
use super::verdict::{Told, Verdicts};
use super::web::Figures;
use super::web::files::{Bundle, Files, OnDisk};
use crate::linux::lock;
use crate::live::{Live, State};
use crate::text::{counted, escape_sentence};

/// A question of life is answered after this, news or not.
const BEAT: Duration = Duration::from_secs(1);
/// How soon news is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Stage {
    at_start: AtStart,
    /// The web configuration.
    files: Option<OnDisk>,
    collector: OnceLock<Collector>,
    /// Snapshots come.
    is_well: AtomicBool,
    reload: AtomicU64,
    is_ending: AtomicBool,
    /// What the web process said last, and when.
    reported: Mutex<Option<(Report, Instant)>>,
    /// What it was told last.
    told: Mutex<Option<Life>>,
    /// It has asked again after it was told that tracing goes on.
    is_known_ready: AtomicBool,
    /// Held by who makes them, for as long as a judgement takes: nothing there waits.
    verdicts: Mutex<Verdicts>,
    recording: Option<Arc<Recording>>,
}

impl Stage {
    pub fn new(
        at_start: AtStart,
        files: Option<OnDisk>,
        verdicts: Verdicts,
        recording: Option<Arc<Recording>>,
    ) -> Stage {
        Stage {
            at_start,
            files,
            collector: OnceLock::new(),
            is_well: AtomicBool::new(true),
            reload: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
            reported: Mutex::new(None),
            told: Mutex::new(None),
            is_known_ready: AtomicBool::new(false),
            verdicts: Mutex::new(verdicts),
            recording,
        }
    }

    fn verdicts(&self) -> MutexGuard<'_, Verdicts> {
        lock(&self.verdicts)
    }

    /// The newest verdicts, made anew where there is a new snapshot.
    fn newest(&self) -> Option<Arc<Told>> {
        let collector = self.collector.get()?;
        let told = self.verdicts().of(collector);
        let not_recording = self.recording.as_ref().and_then(|recording| recording.health().err());
        Some(match not_recording {
            None => told,
            not_recording => Arc::new(Told { not_recording, ..(*told).clone() }),
        })
    }

    pub fn attached(&self, collector: Collector) {
        // There is one attach: it is empty.
        let _ = self.collector.set(collector);
    }

    pub fn live(&self) -> Option<&Arc<Live>> {
        self.collector.get().map(Collector::live)
    }

    pub fn set_well(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::Relaxed);
    }

    /// The web configuration is to be read anew; the number that is reported when that was tried.
    pub fn reload(&self) -> u64 {
        self.reload.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// `/-/ready` has answered 200, or would have.
    pub fn is_known_ready(&self) -> bool {
        self.is_known_ready.load(Ordering::Relaxed)
    }

    pub fn reported(&self) -> Option<(Report, Instant)> {
        self.last_report().clone()
    }

    fn last_report(&self) -> MutexGuard<'_, Option<(Report, Instant)>> {
        lock(&self.reported)
    }

    fn recording(&self) -> Result<&Recording, NotReady> {
        self.recording.as_deref().ok_or_else(|| NotReady("nothing is recorded".into()))
    }

    fn collector(&self) -> Result<&Collector, NotReady> {
        self.collector.get().ok_or_else(|| NotReady(ATTACHING.into()))
    }

    fn ready(&self) -> Result<(), String> {
        match self.live().map(|live| live.state()) {
            None => Err(ATTACHING.into()),
            Some(State::Running | State::Degraded { .. }) => Ok(()),
            Some(State::Paused { why } | State::Failed { why }) => Err(why),
            Some(State::Stopped) => Err("it is being stopped".into()),
        }
    }

    /// What is told from now on is recorded beside what it follows from.
    fn record(&self, told: Option<&Told>) {
        if let (Some(recording), Some(told)) = (&self.recording, told) {
            let running = told.servers.iter().filter(|server| server.is_running);
            let verdicts = running.map(|server| recording::Told {
                pid: server.pid,
                state: server.state.name(),
                since: server.since,
                sentence: server.sentence.clone(),
            });
            recording.set_verdicts(verdicts.collect());
        }
    }

    fn now(&self) -> Life {
        let healthy = match self.is_well.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("no snapshot is made any more: the sampler's thread hangs".to_owned()),
        };
        let (reload, ending) = (self.reload.load(Ordering::Relaxed), self.is_ending());
        Life { ready: self.ready(), healthy, reload, ending, verdicts: self.newest() }
    }
}

impl Answers for Stage {
    fn metrics(&self, form: Form, web: Figures) -> Result<Vec<u8>, NotReady> {
        self.collector()?.render(form, web, || self.newest())
    }

    fn status(&self) -> Value {
        let web = self.reported().map_or_else(|| "starting".to_owned(), |(report, _)| report.confined);
        let recording = self.recording.as_ref().map(|recording| recording.health());
        status::json(&self.at_start, self.live().map(|live| &**live), web, recording)
    }

    fn history(&self, out: &mut dyn Write) -> Result<(), HistoryError> {
        let mut history = self.collector()?.history()();
        history.recorded_in = self.recording.as_ref().map(|recording| recording.folder().to_owned());
        Ok(history.write(out)?)
    }

    fn configuration(&self, known: Option<u64>) -> Option<Bundle> {
        self.files.as_ref()?.changed(known)
    }

    fn acknowledge(&self, server: &str, user: u32) -> Option<u64> {
        let number = self.verdicts().acknowledge(server)?;
        log::info(format_args!(
            "user {user} has acknowledged failures of {} of {}",
            counted(number, "file", "files"),
            escape_sentence(server)
        ));
        Some(number)
    }

    fn assignment(&self) -> Result<Assignment, NotReady> {
        Ok(self.recording()?.assignment())
    }

    fn intervals(&self, recorded: Recorded) -> Result<Next, NotReady> {
        Ok(self.recording()?.next(recorded))
    }

    fn life(&self, report: Report) -> Life {
        let (begun, reloaded) = (Instant::now(), report.reloaded);
        *self.last_report() = Some((report, begun));
        let mut told = lock(&self.told);
        if told.as_ref().is_some_and(|told| told.ready.is_ok()) {
            self.is_known_ready.store(true, Ordering::Relaxed);
        }
        loop {
            let now = self.now();
            let is_news = now.reload > reloaded || told.as_ref() != Some(&now);
            if is_news || begun.elapsed() >= BEAT {
                *told = Some(now.clone());
                self.record(now.verdicts.as_deref());
                return now;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
