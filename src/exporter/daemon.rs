//! The daemon's life: open the ports, attach, serve, and end in order. Ports come first: a second exporter
//! must fail before it has attached anything.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::collect::Collector;
use super::history_socket::{HistorySocket, Serving};
use super::source::{NotReady, Source};
use super::status::{self, AtStart};
use super::watching::Watching;
use super::web::address::{self, ListenAddress};
use super::web::{Statistics, Web};
use super::{log, notify, privileges};
use crate::live::clients::Meter;
use crate::live::{Live, State};

/// How often the state of the tracing is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long detaching may take; after that the kernel does it, when the process ends.
const DETACH_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Options {
    /// Beside the sockets that systemd has opened; neither: the default.
    pub listen: Vec<ListenAddress>,
    pub web_config_file: Option<PathBuf>,
    pub at_start: AtStart,
    /// From one regular snapshot to the next.
    pub interval: Duration,
}

/// Everything that exists once the probes are attached.
pub struct Tracing {
    collector: Collector,
    /// The socket's file goes with it.
    _serving: Option<Serving>,
}

impl Tracing {
    /// Begins to answer on the socket, if there is one.
    pub fn new(collector: Collector, history: Option<HistorySocket>) -> std::io::Result<Tracing> {
        let serving = history.map(|socket| socket.serve(collector.history())).transpose()?;
        Ok(Tracing { collector, _serving: serving })
    }

    fn live(&self) -> &Arc<Live> {
        self.collector.live()
    }
}

/// Runs until a signal ends it. `attach` runs on a thread of its own with all the rights that this process
/// was given; it gives them up itself, see [`privileges`]. To be called before there are other threads.
pub fn run<A>(options: Options, attach: A) -> anyhow::Result<()>
where
    A: FnOnce(Arc<Statistics>) -> anyhow::Result<Tracing> + Send + 'static,
{
    privileges::forever().context("cannot set no_new_privs")?;
    let listeners = address::open(&options.listen, address::activated()?)?;
    let places: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();

    let statistics = Arc::new(Statistics::default());
    let stage = Arc::new(Stage { tracing: OnceLock::new(), at_start: options.at_start });
    let web = Web::new(stage.clone(), options.web_config_file.as_deref(), statistics.clone())?;
    let scheme = if web.is_tls() { "https" } else { "http" };
    for place in &places {
        log::info(format_args!("listening on {scheme}://{place}/metrics"));
    }

    let (attached, outcome) = oneshot::channel();
    let task = move || {
        let _ = attached.send(attach(statistics));
    };
    // Not among the threads for work that may block: this one has rights that no other may have.
    std::thread::Builder::new().name("attach".into()).spawn(task).context("cannot start a thread")?;
    privileges::keep_needed().context("cannot give up capabilities")?;

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // rendering, compressing, a password, the web configuration's files
        .max_blocking_threads(6)
        .thread_keep_alive(Duration::from_secs(30))
        .thread_name("web-work")
        .build()
        .context("cannot start the web server")?;
    let (stop, stopped) = watch::channel(false);
    let ended = runtime.block_on(async {
        let signals = Signals::new().context("cannot handle signals")?;
        let serving = tokio::spawn(web.clone().serve(listeners, stopped));
        let life = Life { stage: &stage, web: &web, interval: options.interval };
        let ended = life.live(outcome, signals).await;
        notify::stopping();
        stop.send_replace(true);
        if ended.is_ok() {
            let _ = serving.await;
        }
        stage.detach().await;
        ended
    });
    // A thread that hangs with a disk must not keep the process.
    runtime.shutdown_background();
    ended
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
    stage: &'a Stage,
    web: &'a Web,
    interval: Duration,
}

impl Life<'_> {
    /// Ok when a signal has ended it.
    async fn live(
        &self,
        outcome: oneshot::Receiver<anyhow::Result<Tracing>>,
        mut signals: Signals,
    ) -> anyhow::Result<()> {
        let mut outcome = Some(outcome);
        let mut watching = None;
        let mut look = every(WATCH_EVERY);
        let mut meter = Meter::start();
        let mut watchdog = notify::watchdog().map(every);
        notify::status("attaching");
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break log::info("SIGTERM: ending"),
                _ = signals.interrupt.recv() => break log::info("SIGINT: ending"),
                _ = signals.hang_up.recv() => {
                    notify::reloading();
                    self.web.reload().await;
                    if watching.is_some() {
                        notify::ready();
                    }
                }
                attached = arrival(&mut outcome) => {
                    let tracing = attached?;
                    watching = Some(Watching::begin(tracing.live(), self.interval));
                    // There is one attach: it is empty.
                    let _ = self.stage.tracing.set(tracing);
                    notify::ready();
                }
                _ = look.tick() => {
                    // this thread serves clients, and does little else
                    meter.settle();
                    if let (Some(watching), Some(tracing)) = (&mut watching, self.stage.tracing.get()) {
                        watching.update(tracing.live());
                        if let State::Failed { why } = tracing.live().state() {
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
    outcome: &mut Option<oneshot::Receiver<anyhow::Result<Tracing>>>,
) -> anyhow::Result<Tracing> {
    let Some(receiver) = outcome else { return std::future::pending().await };
    let received = receiver.await;
    *outcome = None;
    received.unwrap_or_else(|_| Err(anyhow!("attaching failed: its thread panicked")))
}

/// The source of the web side: "attaching" at first, then the figures.
struct Stage {
    tracing: OnceLock<Tracing>,
    at_start: AtStart,
}

impl Stage {
    async fn detach(&self) {
        let Some(live) = self.tracing.get().map(|tracing| tracing.live().clone()) else { return };
        let detached = timeout(DETACH_TIMEOUT, tokio::task::spawn_blocking(move || live.stop())).await;
        match detached {
            Ok(Ok(Ok(_))) => log::info("detached"),
            Ok(Ok(Err(error))) => log::warning(format_args!("detached after a failure: {error}")),
            _ => log::warning("detaching takes long; it is left to the end of the process"),
        }
    }
}

impl Source for Stage {
    fn metrics(&self) -> Result<Vec<u8>, NotReady> {
        self.tracing.get().ok_or_else(attaching)?.collector.render()
    }

    fn status(&self) -> Value {
        status::json(&self.at_start, self.tracing.get().map(|tracing| &**tracing.live()))
    }

    fn ready(&self) -> Result<(), NotReady> {
        match self.tracing.get().map(|tracing| tracing.live().state()) {
            None => Err(attaching()),
            Some(State::Running | State::Degraded { .. }) => Ok(()),
            Some(State::Paused { why } | State::Failed { why }) => Err(NotReady(why)),
            Some(State::Stopped) => Err(NotReady("it is being stopped".into())),
        }
    }
}

fn attaching() -> NotReady {
    NotReady("not yet: the probes are being attached".into())
}
