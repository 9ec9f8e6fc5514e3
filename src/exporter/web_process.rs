//! The web process: it speaks to clients and has nothing but the sockets on which they come and the lanes to
//! the prober. Who takes it over through a request has that, and what docs/security.md says.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::sync::watch;

use super::confine::{User, landlock, seccomp};
use super::history_socket::{self, HistoryError, Remembering};
use super::link::{Given, Lane, Life, LinkError, Question, Report, Sockets, take_over};
use super::source::{Form, NotReady, Source};
use super::verdict::Told;
use super::web::files::{Bundle, Files};
use super::web::{Statistics, Web};
use super::{log, privileges};
use crate::linux::lock;
use crate::server::who::owner;

/// A prober that has said nothing for this long hangs, or the host does.
const SILENCE: Duration = Duration::from_secs(10);
/// Metrics wait for a fresh snapshot, for three seconds at most.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// After the prober's end: long enough for a page to say so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Both processes end with it, and a service manager starts them with new sockets.
const DEAF: &str = "a listening socket takes no connections any more, so the process that serves ends";

/// Serves until the prober ends, or says that it does.
pub fn run() -> anyhow::Result<()> {
    // The executable's name would be "exe".
    rustix::thread::set_name(c"fsynctop-web").context("cannot name the process")?;
    // The terminal and systemd signal both processes; the prober decides.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default()).context("cannot handle signals")?;
    }
    let given = take_over().context("the prober has sent nothing that can be used")?;
    // Whose the numbers of users are cannot be read afterwards.
    owner::prepare();
    let confined = confine(given.user)?;

    let statistics = Arc::new(Statistics::default());
    let Given {
        sockets: Sockets { listeners, verdict_listeners, history, verdicts },
        is_configured,
        user: _,
        life,
        metrics,
        status,
        configuration,
        of_history,
    } = given;
    let lanes = Arc::new(Lanes { life, metrics, status, configuration });
    let prober = Arc::new(Prober {
        lanes: lanes.clone(),
        statistics: statistics.clone(),
        heard: Mutex::new(Heard { life: Ok(attaching()), at: Instant::now() }),
    });
    let files = is_configured.then(|| Arc::new(LinkedFiles(lanes)) as Arc<dyn Files>);
    let web = Web::new(prober.clone(), files, statistics)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // waiting for the prober (its life, the configuration, /status, each form of the metrics),
        // compressing, a password
        .max_blocking_threads(8)
        .thread_keep_alive(Duration::from_secs(30))
        .thread_name("web-work")
        .build()
        .context("cannot start the web server")?;
    // The last thing that needs a call which is refused from now on was opening the sockets above.
    let seccomp = match seccomp::apply(seccomp::Process::Web) {
        Ok(()) => "system calls filtered".to_owned(),
        Err(error) => bail!("cannot confine the process that serves: {error}"),
    };
    let report = Report { confined: format!("{confined}, {seccomp}"), reloaded: 0 };

    let local = Local { free: Mutex::new(of_history), prober: prober.clone() };
    let history = history.map(|listener| history_socket::serve(listener, local)).transpose();
    let history = history.context("cannot start a thread")?;
    let (stop, stopped) = watch::channel(false);
    let ended = runtime.block_on(async {
        let has_verdicts = !verdict_listeners.is_empty() || verdicts.is_some();
        let telling = web.clone().serve_verdicts(verdict_listeners, verdicts, stopped.clone());
        let mut telling = tokio::spawn(telling);
        let mut serving = tokio::spawn(web.clone().serve(listeners, stopped));
        let ended = tokio::select! {
            ended = follow(&prober, &web, report, history) => ended,
            served = &mut serving => return served.context("serving")?.context(DEAF),
            told = &mut telling, if has_verdicts => return told.context("serving verdicts")?.context(DEAF),
        };
        if ended.is_err() {
            tokio::time::sleep(LAST_WORDS).await;
        }
        stop.send_replace(true);
        let _ = serving.await;
        if has_verdicts {
            let _ = telling.await;
        }
        ended
    });
    // A thread that waits for the prober must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Gives up everything but open descriptors and memory; system calls are filtered when all is set up. How, in
/// words.
fn confine(user: User) -> anyhow::Result<String> {
    privileges::keep_none(Some(user))?;
    let user = geteuid();
    if user.is_root() {
        bail!("the process that serves must not be root's");
    }
    // Other processes of the same user can neither read its memory nor trace it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid tracing")?;
    let landlock = landlock::allow_nothing().context("cannot set up Landlock")?;
    Ok(format!("user {}, rights: {}, Landlock: {landlock}", user.as_raw(), privileges::in_words()))
}

/// Asks each second whether the prober lives, until it ends. An error: it did not end in order.
async fn follow(
    prober: &Arc<Prober>,
    web: &Web,
    mut report: Report,
    mut history: Option<JoinHandle<io::Error>>,
) -> anyhow::Result<()> {
    loop {
        if let Some(ended) = history.take_if(|thread| thread.is_finished()) {
            let Ok(error) = ended.join() else {
                bail!("the thread that answers on the history's socket has failed")
            };
            return Err(error).context(DEAF);
        }
        let (asking, said) = (prober.clone(), report.clone());
        let asked = move || asking.lanes.life.life(&Question::Life(said));
        let answer = tokio::task::spawn_blocking(asked).await.context("asking the prober")?;
        match answer {
            Ok(life) if life.ending => return Ok(()),
            Ok(life) => {
                if life.reload > report.reloaded {
                    report.reloaded = life.reload;
                    web.reload().await;
                }
                *prober.heard() = Heard { life: Ok(life), at: Instant::now() };
            }
            Err(LinkError::Ended) => {
                prober.heard().life = Err(LinkError::Ended.to_string());
                bail!("the process that traces has ended, so the one that serves ends too");
            }
            Err(error) => {
                log::warning(&error);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        if prober.lanes.is_broken() {
            let why = "the process that traces does not answer any more";
            prober.heard().life = Err(why.to_owned());
            bail!("{why}, so the one that serves ends");
        }
    }
}

/// What the views on this host ask for.
struct Local {
    free: Mutex<Vec<Lane>>,
    prober: Arc<Prober>,
}

impl Remembering for Local {
    fn history(&self, out: &mut dyn Write) -> Result<(), HistoryError> {
        let held = || lock(&self.free);
        let busy = || NotReady("too many ask at the same time: try again".into());
        let lane = held().pop().ok_or_else(busy)?;
        let outcome = lane.ask_into(&Question::History, ANSWER_TIMEOUT, out);
        held().push(lane);
        outcome.map_err(|error| match error {
            LinkError::Io(error) => HistoryError::Io(error),
            error => NotReady(error.to_string()).into(),
        })
    }

    fn verdicts(&self) -> Result<Arc<Told>, NotReady> {
        self.prober.verdicts()
    }

    fn acknowledge(&self, server: &str, user: u32) -> Result<Option<u64>, NotReady> {
        self.prober.acknowledge(server, user)
    }
}

/// What there is before the first answer.
fn attaching() -> Life {
    let ready = Err(super::source::ATTACHING.into());
    Life { ready, healthy: Ok(()), reload: 0, ending: false, verdicts: None }
}

#[derive(Debug)]
struct Lanes {
    life: Lane,
    metrics: Lane,
    status: Lane,
    configuration: Lane,
}

impl Lanes {
    fn is_broken(&self) -> bool {
        [&self.life, &self.metrics, &self.status, &self.configuration].into_iter().any(Lane::is_broken)
    }
}

/// The prober, as a source of pages.
struct Prober {
    lanes: Arc<Lanes>,
    statistics: Arc<Statistics>,
    heard: Mutex<Heard>,
}

/// What the prober said last, and when.
struct Heard {
    life: Result<Life, String>,
    at: Instant,
}

impl Prober {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.heard)
    }

    fn judge(&self, of: impl Fn(&Life) -> &Result<(), String>) -> Result<(), NotReady> {
        let heard = self.heard();
        let life = heard.life.as_ref().map_err(|why| NotReady(why.clone()))?;
        let silent = heard.at.elapsed();
        if silent > SILENCE {
            let text = format!("the process that traces has not answered for {} s", silent.as_secs());
            return Err(NotReady(text));
        }
        of(life).clone().map_err(NotReady)
    }
}

fn no_answer(error: LinkError) -> NotReady {
    NotReady(error.to_string())
}

impl Source for Prober {
    fn metrics(&self, form: Form) -> Result<Vec<u8>, NotReady> {
        let question = Question::Metrics(form, self.statistics.figures());
        self.lanes.metrics.ask(&question, ANSWER_TIMEOUT).map_err(no_answer)
    }

    fn status(&self) -> Result<Vec<u8>, NotReady> {
        self.lanes.status.ask(&Question::Status, ANSWER_TIMEOUT).map_err(no_answer)
    }

    fn healthy(&self) -> Result<(), NotReady> {
        self.judge(|life| &life.healthy)
    }

    fn ready(&self) -> Result<(), NotReady> {
        self.judge(|life| &life.ready)
    }

    fn verdicts(&self) -> Result<Arc<Told>, NotReady> {
        let heard = self.heard();
        let life = heard.life.as_ref().map_err(|why| NotReady(why.clone()))?;
        // How old it is, is part of it.
        life.verdicts.clone().ok_or_else(|| NotReady(super::source::ATTACHING.into()))
    }

    fn acknowledge(&self, server: &str, user: u32) -> Result<Option<u64>, NotReady> {
        let question = Question::Acknowledge(server.to_owned(), user);
        self.lanes.status.acknowledge(&question).map_err(no_answer)
    }
}

/// The web configuration as the prober reads it.
struct LinkedFiles(Arc<Lanes>);

impl Files for LinkedFiles {
    fn changed(&self, known: Option<u64>) -> Option<Bundle> {
        let answer = self.0.configuration.configuration(&Question::Configuration(known));
        answer.unwrap_or_else(|error: LinkError| {
            static SELDOM: log::Seldom = log::Seldom::new();
            SELDOM.warn(format_args!("the web configuration cannot be looked at: {error}"));
            None
        })
    }
}
