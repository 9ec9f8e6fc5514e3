//! A server's own counters, read beside what is traced. A thread asks: the server may hang.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::connection::ConnectionArgs;
use super::one_server::{self, Found, has_counters};
use super::options::TraceArgs;
use crate::engine::rules::Rules;
use crate::linux::blocking::Mailbox;
use crate::linux::clock::monotonic;
use crate::model::{Interval, OwnCounters, OwnReading, ServerId, Table, Texts};
use crate::server::adapters::{self, for_each_client};
use crate::server::asking::choose::Chosen;
use crate::server::asking::connection::Client;
use crate::server::asking::told::Told;
use crate::server::asking::{Scope, StatusError};

/// How often settings are asked for: somebody may change one.
const SETTINGS_EVERY: Duration = Duration::from_secs(60);

/// None: it did not answer, and why.
type Answer = Result<(OwnReading, Texts), StatusError>;

pub(super) struct Asking {
    server: ServerId,
    thread: Mailbox<Scope>,
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
    let answer = move |scope: Scope| {
        let began = monotonic();
        let answer = connection.read(scope).map(|reading| {
            let counters = reading.counters();
            let settings = if scope == Scope::Everything { reading.settings() } else { Texts::new() };
            (OwnReading { began, ended: monotonic(), counters }, settings)
        });
        // Nobody may be waiting any more.
        drop(outbox.send(answer));
    };
    let mut asking = Asking {
        server: server.id,
        thread: Mailbox::start("own-counters", answer)?,
        answers,
        waiting: 0,
        scope,
        asked_for_settings: Instant::now(),
        rows: Table::default(),
        error: None,
    };
    asking.ask_for(Scope::Everything);
    asking.wait();
    match &asking.error {
        Some(error) => anyhow::bail!("the server's own counters cannot be recorded: {error}"),
        None => Ok(asking),
    }
}

impl Asking {
    /// Asks once more, unless it still waits for an answer.
    pub fn ask(&mut self) {
        self.take();
        if self.waiting == 0 {
            let is_due = self.asked_for_settings.elapsed() >= SETTINGS_EVERY;
            self.ask_for(if is_due { Scope::Everything } else { self.scope });
        }
    }

    /// Asks once more, and waits for the answer as long as it may take.
    pub fn ask_and_wait(&mut self) {
        self.wait();
        self.ask();
        self.wait();
    }

    /// The interval, with what was answered since the one before.
    pub fn beside(&mut self, interval: &Interval) -> Interval {
        self.take();
        Interval { counters: std::mem::take(&mut self.rows), ..interval.clone() }
    }

    /// Why the last answer is missing.
    pub fn error(&self) -> Option<&String> {
        self.error.as_ref()
    }

    fn ask_for(&mut self, scope: Scope) {
        if scope == Scope::Everything {
            self.asked_for_settings = Instant::now();
        }
        self.thread.ask(scope);
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
            Err(error) => self.error = Some(error.to_string()),
        }
    }
}
