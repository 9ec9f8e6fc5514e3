//! The prober's life: open the ports, start the web process and hand them over, start the recorder, attach,
//! answer, and end in order. Ports come first: a second exporter must fail before it has attached anything.
//!
//! Neither the prober nor the web process goes on without the other. The prober can start no second web
//! process, since it gives up executing programs, and a web process without a prober has nothing to say.
//! Whoever has started the exporter starts it anew. A recorder that fails ends nothing but the recording.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::collect::Collector;
use super::confine::{User, seccomp};
use super::failures_file::FailuresFile;
use super::link::{self, Answers, Asker, Sockets, Subprocess};
use super::recording::Recording;
use super::stage::Stage;
use super::status::AtStart;
use super::verdict::Verdicts;
use super::watching::Watching;
use super::web::StartError;
use super::web::address::{self, ListenAddress};
use super::web::files::{Files, OnDisk};
use super::web::reload::Loaded;
use super::{log, notify, privileges};
use crate::engine::engines::Engines;
use crate::linux::{descriptors, executable_memory};
use crate::live::State;
use crate::server::who::naming::GivenName;
use crate::text::counted;
use crate::verdict::Thresholds;
use crate::verdict::remembered::Remembered;

/// How often the state of the tracing is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long detaching may take; after that the kernel does it, when the process ends.
const DETACH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the web process may take to end: requests in progress have five seconds.
const END_TIMEOUT: Duration = Duration::from_secs(7);
/// A web process that has asked for nothing for this long hangs: it asks each second.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the recorder may be silent while it writes its last words. Its disk may hang, and it ends without
/// this process.
const RECORDER_END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long systemd is kept waiting for the web process to do its part.
const WEB_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Options {
    /// Beside the sockets that systemd has opened; neither: the default.
    pub listen: Vec<ListenAddress>,
    pub web_config_file: Option<PathBuf>,
    /// Open, and answered on by the web process.
    pub history: Option<UnixListener>,
    /// Failures from before, and where they are kept.
    pub failures: Option<(FailuresFile, Remembered)>,
    /// The same as `history`, for verdicts.
    pub verdict_socket: Option<UnixListener>,
    /// Where verdicts, and nothing else, are told without a password.
    pub verdict_listen: Vec<ListenAddress>,
    pub recording: Option<Arc<Recording>>,
    pub thresholds: Thresholds,
    /// Who both processes are, if they were started as root.
    pub user: User,
    pub at_start: AtStart,
    /// From one regular snapshot to the next.
    pub interval: Duration,
    /// What servers are to be called.
    pub names: Vec<GivenName>,
    pub engines: Arc<Engines>,
}

/// The numbers of the other processes.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    pub web: u32,
    pub recorder: Option<u32>,
}

/// Runs until a signal ends it. `attach` runs on a thread of its own with all the rights that this process
/// was given; it gives them up itself, see [`privileges`]. It is told who the other processes are. To be
/// called before there are other threads.
pub fn run<A>(options: Options, attach: A) -> anyhow::Result<()>
where
    A: FnOnce(Others) -> anyhow::Result<Collector> + Send + 'static,
{
    privileges::forever().context("cannot set no_new_privs")?;
    // The process that serves inherits it. Kernels before 6.3 have nothing like it.
    let _ = executable_memory::refuse();
    notify::connect();
    descriptors::keep_to_itself();
    descriptors::allow_more();
    let listeners = address::open(&options.listen, address::activated()?)?;
    let places: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let files = options.web_config_file.map(OnDisk::new);
    let is_tls = match files.as_ref().and_then(|files| files.changed(None)) {
        Some(bundle) => Loaded::of(&bundle).map_err(StartError::from)?.tls.is_some(),
        None => false,
    };
    let scheme = if is_tls { "https" } else { "http" };
    for place in &places {
        log::info(format_args!("listening on {scheme}://{place}/metrics"));
    }

    let verdict_listeners = address::listen(&options.verdict_listen)?;
    for place in verdict_listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
        log::info(format_args!("verdicts on http://{place}/api/v1/verdict"));
    }

    let sockets =
        Sockets { listeners, verdict_listeners, history: options.history, verdicts: options.verdict_socket };
    let (web, lanes) = Subprocess::web(sockets, files.is_some(), options.user)
        .context("cannot start the process that serves")?;
    let recorder = options.recording.as_ref().map(|_| Subprocess::recorder()).transpose();
    let (recorder, recorder_lane) = recorder.context("cannot start the process that records")?.unzip();
    let started = Instant::now();
    let (attached, outcome) = oneshot::channel();
    let others = Others { web: web.pid(), recorder: recorder.as_ref().map(Subprocess::pid) };
    let task = move || {
        let _ = attached.send(attach(others));
    };
    // Not among the threads for work that may block: this one has rights that no other may have.
    std::thread::Builder::new().name("attach".into()).spawn(task).context("cannot start a thread")?;
    privileges::keep_needed(options.user)?;
    // Other processes of its user can neither trace it nor read its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid tracing")?;

    let (keeper, before) = match options.failures {
        Some((file, before)) => (Some(file.keep().context("cannot start a thread")?), before),
        None => (None, Remembered::default()),
    };
    let verdicts = Verdicts::new(options.thresholds, options.interval, options.engines, before, keeper);
    let recording = options.recording;
    let stage = Arc::new(Stage::new(options.at_start, files, verdicts, recording.clone()));
    let lanes = lanes.into_iter().map(|lane| (lane, Asker::Web));
    for (lane, asker) in lanes.chain(recorder_lane.map(|lane| (lane, Asker::Recorder))) {
        answer_on(lane, asker, stage.clone()).context("cannot start a thread")?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2)
        .thread_keep_alive(Duration::from_secs(30))
        .build()
        .context("cannot start the event loop")?;
    let ended = runtime.block_on(async {
        let signals = Signals::new().context("cannot handle signals")?;
        let (interval, names) = (options.interval, options.names);
        let recorder = recorder.zip(recording).map(|(process, recording)| Recorder {
            process,
            recording,
            is_introduced: false,
            is_warned: false,
            failing: None,
            is_over: false,
        });
        let mut life = Life { stage: &stage, web, recorder, started, interval, names };
        let ended = life.live(outcome, signals).await;
        notify::stopping();
        stage.end();
        if ended.is_ok() {
            life.wait_for_web().await;
        }
        detach(&stage).await;
        life.end_recording().await;
        ended
    });
    // A thread that hangs with a disk must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Answers on a lane, on a thread of its own, until the process that asks ends.
fn answer_on(lane: UnixStream, asker: Asker, stage: Arc<Stage>) -> std::io::Result<()> {
    let name = match asker {
        Asker::Web => "web-lane",
        Asker::Recorder => "recorder-lane",
    };
    let task = move || {
        let answers: Arc<dyn Answers> = stage.clone();
        if let Err(error) = link::serve(&lane, asker, &answers)
            && !stage.is_ending()
        {
            let who = match asker {
                Asker::Web => "serves",
                Asker::Recorder => "records",
            };
            log::warning(format_args!("the process that {who} is not answered any more: {error}"));
        }
    };
    // Not among the threads for work that may block: it waits for questions, for as long as the process
    // lives.
    std::thread::Builder::new().name(name.into()).spawn(task).map(drop)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

struct Life<'a> {
    stage: &'a Arc<Stage>,
    web: Subprocess,
    recorder: Option<Recorder>,
    /// When the web process was.
    started: Instant,
    interval: Duration,
    names: Vec<GivenName>,
}

impl Life<'_> {
    /// Ok when a signal has ended it.
    async fn live(
        &mut self,
        outcome: oneshot::Receiver<anyhow::Result<Collector>>,
        mut signals: Signals,
    ) -> anyhow::Result<()> {
        let mut outcome = Some(outcome);
        let mut watching = None;
        let mut look = every(WATCH_EVERY);
        let mut watchdog = notify::watchdog().map(every);
        let mut is_introduced = false;
        notify::status("attaching");
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break log::info("SIGTERM: ending"),
                _ = signals.interrupt.recv() => break log::info("SIGINT: ending"),
                _ = signals.hang_up.recv() => {
                    notify::reloading();
                    self.reload().await;
                    if watching.is_some() {
                        notify::ready();
                    }
                }
                attached = arrival(&mut outcome) => {
                    let collector = attached?;
                    // What attaching needs is needed no more, and no thread starts that would need it.
                    seccomp::apply(seccomp::Process::Prober).context("cannot confine the process that traces")?;
                    watching = Some(Watching::begin(collector.live(), self.interval, std::mem::take(&mut self.names)));
                    self.stage.attached(collector);
                    // Whoever is told so may ask the other process at once.
                    self.until(|stage| stage.is_known_ready()).await;
                    notify::ready();
                }
                _ = look.tick() => {
                    self.check_web(&mut is_introduced)?;
                    if let Some(recorder) = &mut self.recorder {
                        recorder.check()?;
                    }
                    if let (Some(watching), Some(live)) = (&mut watching, self.stage.live()) {
                        watching.update(live);
                        self.stage.set_well(watching.is_well());
                        if let State::Failed { why } = live.state() {
                            bail!("tracing has failed: {why}");
                        }
                    }
                }
                () = tick(&mut watchdog) => {
                    if watching.as_ref().is_none_or(Watching::is_well) {
                        notify::alive();
                    }
                }
            }
        }
        Ok(())
    }

    fn check_web(&mut self, is_introduced: &mut bool) -> anyhow::Result<()> {
        if let Some(status) = self.web.ended().context("cannot watch the process that serves")? {
            bail!("the process that serves has ended ({status}), so the one that traces ends too");
        }
        let mut heard = self.started;
        if let Some((report, at)) = self.stage.reported() {
            if !*is_introduced {
                log::info(format_args!("serving by process {}: {}", self.web.pid(), report.confined));
                *is_introduced = true;
            }
            heard = at;
        }
        if heard.elapsed() > SILENCE {
            let silent = heard.elapsed().as_secs();
            bail!("the process that serves has not answered for {silent} s, so the one that traces ends");
        }
        Ok(())
    }

    /// Has the web configuration read anew, and waits until that was tried.
    async fn reload(&self) {
        let wanted = self.stage.reload();
        self.until(|stage| stage.reported().is_some_and(|(report, _)| report.reloaded >= wanted)).await;
    }

    /// Waits for the web process, within limits: it may hang.
    async fn until(&self, is_done: impl Fn(&Stage) -> bool) {
        let begun = Instant::now();
        while !is_done(self.stage) && begun.elapsed() < WEB_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has the last intervals written, within limits: the disk may hang.
    async fn end_recording(&mut self) {
        let Some(Recorder { process, recording, .. }) = &mut self.recorder else { return };
        recording.end();
        let begun = Instant::now();
        while matches!(process.ended(), Ok(None)) {
            let is_silent = recording.silent().min(begun.elapsed()) > RECORDER_END_TIMEOUT;
            if is_silent || begun.elapsed() > END_TIMEOUT {
                let waiting = counted(recording.waiting(), "interval is", "intervals are");
                return log::warning(format_args!(
                    "the process that records takes long to end, and nobody waits for it: {waiting} not known to be recorded"
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn wait_for_web(&mut self) {
        let begun = Instant::now();
        while matches!(self.web.ended(), Ok(None)) {
            if begun.elapsed() > END_TIMEOUT {
                return log::warning("the process that serves takes long to end; it ends with this one");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The process that records, and what was logged of it.
struct Recorder {
    process: Subprocess,
    recording: Arc<Recording>,
    is_introduced: bool,
    is_warned: bool,
    /// Why nothing is recorded.
    failing: Option<String>,
    is_over: bool,
}

impl Recorder {
    /// An error: it cannot begin, and the exporter was told to record.
    fn check(&mut self) -> anyhow::Result<()> {
        if !self.is_over
            && let Some(status) = self.process.ended().context("cannot watch the process that records")?
        {
            self.is_over = true;
            self.recording.set_ended(status);
        }
        if let Some(why) = self.recording.beside_a_log().filter(|_| !self.is_warned) {
            self.is_warned = true;
            log::warning(why);
        }
        let is_first = !self.is_introduced && self.recording.has_begun();
        self.is_introduced |= is_first;
        if let Some(why) = self.recording.gave_up().filter(|_| is_first && self.recording.is_mandatory()) {
            bail!(why);
        }
        match (self.recording.health(), self.failing.take()) {
            (Err(why), before) => {
                if before.is_none() {
                    log::error(&why);
                }
                self.failing = Some(why);
            }
            (Ok(how), Some(_)) => log::info(format_args!("recording again {how}")),
            (Ok(how), None) if is_first => {
                log::info(format_args!("recording by process {} {how}", self.process.pid()));
            }
            (Ok(_), None) => {}
        }
        Ok(())
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

/// The outcome of attaching; once.
async fn arrival(
    outcome: &mut Option<oneshot::Receiver<anyhow::Result<Collector>>>,
) -> anyhow::Result<Collector> {
    let Some(receiver) = outcome else { return std::future::pending().await };
    let received = receiver.await;
    *outcome = None;
    received.unwrap_or_else(|_| Err(anyhow!("attaching failed: its thread panicked")))
}

async fn detach(stage: &Stage) {
    let Some(live) = stage.live().cloned() else { return };
    let detached = timeout(DETACH_TIMEOUT, tokio::task::spawn_blocking(move || live.stop())).await;
    match detached {
        Ok(Ok(Ok(_))) => log::info("detached"),
        Ok(Ok(Err(error))) => log::warning(format_args!("detached after a failure: {error}")),
        _ => log::warning("detaching takes long; it is left to the end of the process"),
    }
}
