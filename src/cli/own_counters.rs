//! A server's own counters, read beside what is traced. A thread asks: the server may hang.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::connection::ConnectionArgs;
use super::one_server::{self, Found, has_counters};
use super::options::TraceArgs;
use crate::engine::rules::Rules;
use crate::linux::PROC;
use crate::linux::blocking::Mailbox;
use crate::linux::clock::monotonic;
use crate::model::{Interval, OwnCounters, OwnReading, ServerId, Table, Texts};
use crate::server::adapters::{self, for_each_client};
use crate::server::asking::Scope;
use crate::server::asking::choose::Chosen;
use crate::server::asking::connection::Client;
use crate::server::asking::told::Told;
use crate::server::who::processes::{is_alive, same_server};

/// How often settings are asked for: somebody may change one.
const SETTINGS_EVERY: Duration = Duration::from_secs(60);

/// A reading with the settings, empty where these were not asked for; or why there is none.
type Answer = Result<(OwnReading, Texts), String>;

pub(super) struct Asking {
    server: ServerId,
    thread: Mailbox<(Scope, u64)>,
    answers: Receiver<Answer>,
    waiting: u64,
    /// What is asked for each time.
    scope: Scope,
    asked_for_settings: Instant,
    rows: Table<OwnCounters>,
    error: Option<String>,
}

/// The one server that is meant, which has to answer now.
pub(super) fn begin(
    trace: &TraceArgs,
    connection: &ConnectionArgs,
    rules: &Arc<Rules>,
    scope: Scope,
) -> anyhow::Result<Asking> {
    let found = one_server::of_any_engine(&trace.targets, connection, rules, &[has_counters])?;
    adapters::entry_of(found.adapter, for_each_client!(begin_with))(found, scope)
}

fn begin_with<C: Client<Reading: Told>>(found: Found, scope: Scope) -> anyhow::Result<Asking> {
    let Chosen { server, status } = found.choose::<C>()?;
    let (mut connection, _) = status.context("the server's own counters cannot be recorded")?;
    let (outbox, answers) = channel();
    let id = server.id;
    let answer = move |(scope, follows): (Scope, u64)| {
        let began = monotonic();
        let answer = connection.read(scope).map_err(|error| error.to_string()).and_then(|reading| {
            let ended = monotonic();
            // Whoever answers after its end is another one, with counters of its own.
            if !is_alive(Path::new(PROC), id) {
                return Err("the server has ended".to_owned());
            }
            let settings = if scope == Scope::Everything { reading.settings() } else { Texts::new() };
            Ok((OwnReading { began, ended, follows, counters: reading.counters() }, settings))
        });
        // Nobody may be waiting any more.
        drop(outbox.send(answer));
    };
    let mut asking = Asking {
        server: server.id,
        thread: Mailbox::start("own-counters", answer)?,
        answers,
        waiting: 0,
        scope: if C::Reading::ASKS_FOR_ALL { Scope::Everything } else { scope },
        asked_for_settings: Instant::now(),
        rows: Table::default(),
        error: None,
    };
    asking.ask_for(Scope::Everything, 0);
    asking.wait();
    match &asking.error {
        Some(error) => anyhow::bail!("the server's own counters cannot be recorded: {error}"),
        None => Ok(asking),
    }
}

impl Asking {
    /// Asks once more, unless it still waits for an answer. `follows`: the number of a snapshot that has been
    /// made.
    pub fn ask(&mut self, follows: u64) {
        self.take();
        if self.waiting == 0 {
            let is_due = self.asked_for_settings.elapsed() >= SETTINGS_EVERY;
            self.ask_for(if is_due { Scope::Everything } else { self.scope }, follows);
        }
    }

    /// The same, and waits for the answer. A server that does not answer is waited for once.
    pub fn ask_and_wait(&mut self, follows: u64) {
        self.wait();
        if self.error.is_none() {
            self.ask(follows);
            self.wait();
        }
    }

    /// The interval, with what was answered since the server is in one.
    pub fn beside(&mut self, interval: &Interval) -> Interval {
        self.take();
        let its_own = interval.servers.iter().find(|server| same_server(server.id, self.server));
        let Some(server) = its_own.map(|server| server.id) else { return interval.clone() };
        let rows = std::mem::take(&mut self.rows).into_iter();
        Interval { counters: rows.map(|row| OwnCounters { server, ..row }).collect(), ..interval.clone() }
    }

    /// Why the last answer is missing.
    pub fn error(&self) -> Option<&String> {
        self.error.as_ref()
    }

    fn ask_for(&mut self, scope: Scope, follows: u64) {
        if scope == Scope::Everything {
            self.asked_for_settings = Instant::now();
        }
        self.thread.ask((scope, follows));
        self.waiting += 1;
    }

    fn take(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.enter(answer);
        }
    }

    /// The connection itself ends each wait.
    fn wait(&mut self) {
        while self.waiting > 0 {
            match self.answers.recv_timeout(Duration::from_secs(60)) {
                Ok(answer) => self.enter(answer),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn enter(&mut self, answer: Answer) {
        self.waiting = self.waiting.saturating_sub(1);
        match answer {
            Ok((reading, settings)) => {
                let readings = vec![Arc::new(reading)];
                let settings = Arc::new(settings);
                self.rows.push(OwnCounters { server: self.server, readings, settings });
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }
}
