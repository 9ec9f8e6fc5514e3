//! `fsynctop events`: a line for whatever changes, for programs to act on and for people to read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::connection::ConnectionArgs;
use super::fail_on::names;
use super::options::{LongRunArgs, NameArgs, StyleArgs, TraceArgs, duration, typed};
use super::output::print;
use super::replay::{self, ReplayArgs};
use super::session::{self, Session};
use super::signals::End;
use crate::engine::engines::Engines;
use crate::events::{Asker, Event, Journal, Limit, Line, Moment, Recorded, Stacks, Waits, Watch, Whose};
use crate::live::{self, Judging, Live, Published};
use crate::model::{Owner, Server, ServerId};
use crate::recording::History;
use crate::render::{Style, json};
use crate::server::mysql::status::client::Client;
use crate::server::who::naming::Unmatched;
use crate::verdict::Thresholds;

/// How long a wait for the next snapshot lasts at most: then Ctrl-C and the age of the verdicts are looked
/// at.
const SLICE: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
#[command(next_help_heading = "What to tell")]
pub(crate) struct Events {
    /// Report operations that take this long or longer
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = "1s")]
    pub above: Duration,
    /// How long a log's operation may be in flight before its server is stalled
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Thresholds::default().stalled))]
    pub stalled: Duration,
    /// The 99th percentile of a log's syncs above which its server is slow
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Thresholds::default().slow))]
    pub slow: Duration,
    /// How long it has to be above that
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Thresholds::default().slow_for))]
    pub slow_for: Duration,
    /// From one look to the next
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(live::Options::default().interval))]
    pub interval: Duration,
    /// Most lines in a minute
    ///
    /// What is left out is counted, and a line says so. Changes of verdicts have as many lines of their own.
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub per_minute: u32,
    /// Text for people, JSON for programs [default: text on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "journal")]
    pub output: Option<Form>,
    #[command(flatten)]
    pub style: StyleArgs,
    /// Write to systemd's journal instead of standard output
    #[arg(long, conflicts_with = "replay")]
    pub journal: bool,
    /// Ask the server whose connection it is that waits
    ///
    /// A line of an operation in flight then has the connection's number and its user, if the server answers
    /// at once: one that hangs may not.
    #[arg(long, conflicts_with = "replay")]
    pub sessions: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub long_run: LongRunArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A time, a server and a sentence
    Text,
    /// One JSON object in each line
    Json,
}

impl Form {
    fn of(asked_for: Option<Form>, is_terminal: bool) -> Form {
        asked_for.unwrap_or(if is_terminal { Form::Text } else { Form::Json })
    }
}

/// Where the lines go, and as what.
enum Sink {
    Text(Style),
    Json,
    Journal(Journal),
}

impl Sink {
    fn of(arguments: &Events) -> anyhow::Result<Sink> {
        if arguments.journal {
            return Ok(Sink::Journal(Journal::open().context("cannot reach systemd's journal")?));
        }
        Ok(match Form::of(arguments.output, std::io::stdout().is_terminal()) {
            Form::Text => Sink::Text(arguments.style.apply(Style::for_stdout())),
            Form::Json => Sink::Json,
        })
    }

    /// False: the journal does not take it.
    fn write(&self, line: &Line) -> anyhow::Result<bool> {
        match self {
            Sink::Text(style) => print(line.text(style).as_bytes())?,
            Sink::Json => print(&json_of(line)?)?,
            Sink::Journal(journal) => {
                let text = json_of(line)?;
                return Ok(journal.send(line, String::from_utf8_lossy(&text).trim_end()).is_ok());
            }
        }
        Ok(true)
    }
}

fn json_of(line: &Line) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    json::write_visible(line, &mut text).context("cannot write JSON")?;
    Ok(text)
}

pub fn run(arguments: &Events, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    let thresholds = Thresholds {
        stalled: arguments.stalled,
        slow: arguments.slow,
        slow_for: arguments.slow_for,
        ..Thresholds::default()
    };
    if let Some(history) = arguments.replay.history(&arguments.trace.targets)? {
        return recorded(arguments, &history, thresholds);
    }
    let stop = End::watch()?;
    let session = Session::of(&arguments.trace, engines)?;
    let sink = Sink::of(arguments)?;
    let asker = match arguments.sessions {
        true => Some(Asker::new(arguments.connection.options()?.of::<Client>())),
        false => None,
    };
    session::require_root()?;
    let options = live::Options {
        interval: arguments.interval,
        max_cpu: arguments.long_run.max_cpu.0,
        ..live::Options::default()
    };
    let (selection, engines) = (session.selection.clone(), session.engines().clone());
    let names = arguments.names.server_name.clone();
    let make = move || -> anyhow::Result<_> {
        let mut sampler = session.start()?;
        sampler.set_given_names(names);
        Ok(sampler)
    };
    let live = Live::start(make, selection, options)?;
    Telling::new(arguments, sink, asker, thresholds, engines).until(&stop, &live)
}

/// All of a recording, without a limit of lines: nobody waits for them.
fn recorded(arguments: &Events, history: &History, thresholds: Thresholds) -> anyhow::Result<ExitCode> {
    let sink = Sink::of(arguments)?;
    let is_meant = replay::only(&arguments.trace.targets, &history.servers())?;
    let mut recorded = Recorded::new(thresholds, arguments.above);
    for mut interval in history.moments() {
        interval.retain_servers(&is_meant);
        let Moment { events, servers, now } = recorded.follow(&interval);
        let names = names(&servers);
        for event in events {
            let name = names.get(&event.server()).cloned();
            sink.write(&Line::of(event, name, (&Stacks::default(), &Whose::new()), now))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Telling {
    judging: Judging,
    watch: Watch,
    operations: Limit,
    verdicts: Limit,
    sink: Sink,
    asker: Option<Asker>,
    names: Unmatched,
}

impl Telling {
    fn new(
        arguments: &Events,
        sink: Sink,
        asker: Option<Asker>,
        thresholds: Thresholds,
        engines: Arc<Engines>,
    ) -> Telling {
        let limit = || Limit::new(arguments.per_minute, Instant::now());
        Telling {
            judging: Judging::new(thresholds, arguments.interval, engines),
            watch: Watch::new(arguments.above),
            operations: limit(),
            verdicts: limit(),
            sink,
            asker,
            names: Unmatched::begin(arguments.names.server_name.clone(), Instant::now()),
        }
    }

    fn until(mut self, stop: &End, live: &Live) -> anyhow::Result<ExitCode> {
        let mut stream = live.stream();
        let mut servers = Vec::new();
        let mut published = stream.next(SLICE);
        let mut state = live.state();
        let mut verdicts = self.judging.follow(published.as_ref(), &state);
        while !stop.is_requested() {
            // What is too old becomes unknown without a snapshot.
            let mut events = self.watch.verdicts(verdicts.at(Instant::now()));
            if let Some(Published { snapshot, interval, .. }) = published.take() {
                events.extend(self.watch.operations(&interval));
                servers = snapshot.servers.clone();
            }
            self.tell(events, &servers)?;
            self.tell_left_out()?;
            for sentence in self.names.tell(&servers, Instant::now()) {
                eprintln!("fsynctop: {sentence}");
            }
            if let live::State::Failed { why } = &state {
                anyhow::bail!("{why}");
            }
            published = stream.next(SLICE);
            let before = std::mem::replace(&mut state, live.state());
            if published.is_some() || state != before {
                verdicts = self.judging.follow(published.as_ref(), &state);
                live.set_judging(self.judging.spent());
            }
        }
        for left_out in [self.verdicts.end(), self.operations.end()].into_iter().flatten() {
            self.sink.write(&Line::left_out(left_out, SystemTime::now()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&mut self, events: Vec<Event>, servers: &[Arc<Server>]) -> anyhow::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let now = (Instant::now(), SystemTime::now());
        let names = names(servers);
        let owners: BTreeMap<ServerId, Owner> =
            servers.iter().map(|server| (server.id, server.known_by.whose)).collect();
        let mut admitted = Vec::new();
        for event in events {
            let limit = match event {
                Event::Verdict { .. } | Event::Ended { .. } => &mut self.verdicts,
                _ => &mut self.operations,
            };
            let whose = owners.get(&event.server()).copied().unwrap_or_default();
            if limit.admits(whose, now.0) {
                self.watch.told(&event);
                admitted.push(event);
            } else if !self.watch.not_told(&event) {
                limit.leave_out(event.kind(), now.1);
            }
        }
        let waiting: BTreeSet<Waits> = admitted.iter().filter_map(Event::waiting).collect();
        let stacks = Stacks::of(&waiting);
        let whose = match &mut self.asker {
            Some(asker) if !waiting.is_empty() => asker.of(&waiting, servers),
            _ => Whose::new(),
        };
        for event in admitted {
            let name = names.get(&event.server()).cloned();
            let line = Line::of(event.clone(), name, (&stacks, &whose), now);
            if !self.sink.write(&line)? {
                self.watch.not_told(&event);
                self.operations.leave_out(line.event, now.1);
            }
        }
        Ok(())
    }

    fn tell_left_out(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        let left_out = [self.verdicts.take_left_out(now), self.operations.take_left_out(now)];
        for left_out in left_out.into_iter().flatten() {
            if !self.sink.write(&Line::left_out(left_out.clone(), SystemTime::now()))? {
                self.operations.give_back(left_out);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::root;
    use super::*;

    #[test]
    fn lines_are_for_people_on_a_terminal_unless_asked_otherwise() {
        assert_eq!((Form::of(None, true), Form::of(None, false)), (Form::Text, Form::Json));
        for asked_for in [Form::Text, Form::Json] {
            assert_eq!(
                [true, false].map(|is_terminal| Form::of(Some(asked_for), is_terminal)),
                [asked_for; 2]
            );
        }
    }

    #[test]
    fn the_journal_has_one_form() {
        let takes = |words: &[&str]| {
            root::command().try_get_matches_from([&["fsynctop", "events"], words].concat()).is_ok()
        };
        assert!(takes(&["--output", "text"]) && takes(&["--journal"]));
        assert!(!takes(&["--output", "text", "--journal"]));
    }
}
