//! `--replay`: a recording in the place of what happens now, and which time of it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::exit::{BAD_USAGE, Exit, FAILED, NOTHING_TO_TRACE};
use super::options::{self, TargetArgs};
use crate::model::{Server, ServerId};
use crate::recording::History;
use crate::recording::reader::{Recording, Window};
use crate::text::{escape_sentence, rfc3339};

const SECOND: Duration = Duration::from_secs(1);
/// Servers that are named where none of those that were asked for is there.
const MOST_NAMED: usize = 20;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What was recorded")]
pub struct ReplayArgs {
    /// Show this recording, as `fsynctop record` made it
    ///
    /// Whoever may read the folder can do this, on any host.
    #[arg(long, value_name = "DIR")]
    pub replay: Option<PathBuf>,
    /// From then on: 14:46, "10m ago"
    ///
    /// Or "2026-11-29 14:46:05", and with seconds of UTC 14:46:05Z. A time is local unless it ends with Z
    /// (UTC) or an offset. Without a day, it is the last one within the recording; ago is before its end.
    #[arg(long, value_name = "WHEN", value_parser = When::parse, requires = "replay")]
    pub from: Option<When>,
    /// Until then
    #[arg(long, value_name = "WHEN", value_parser = When::parse, requires = "replay")]
    pub to: Option<When>,
    /// The interval at that time, or `worst`: the one with the longest wait for a sync
    #[arg(long, value_name = "WHEN", value_parser = When::parse, requires = "replay", conflicts_with_all = ["from", "to"])]
    pub at: Option<When>,
}

/// A time as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Moment(SystemTime),
    /// Of any day, by the local clock, or by that of UTC.
    OfDay {
        time: Time,
        is_utc: bool,
    },
    Ago(Duration),
    Worst,
}

impl When {
    fn parse(text: &str) -> Result<When, String> {
        let text = text.trim();
        if text == "worst" {
            return Ok(When::Worst);
        }
        if let Some(length) = text.strip_suffix("ago") {
            return options::duration(length.trim()).map(When::Ago);
        }
        if let Ok(time) = text.replacen(" UTC", "Z", 1).parse::<Timestamp>() {
            return Ok(When::Moment(time.into()));
        }
        let utc = text.strip_suffix('Z').or_else(|| text.strip_suffix("UTC")).map(str::trim_end);
        let (plain, is_utc) = (utc.unwrap_or(text), utc.is_some());
        let of_day = ["%H:%M:%S%.f", "%H:%M"].iter().find_map(|form| Time::strptime(form, plain).ok());
        if let Some(time) = of_day {
            return Ok(When::OfDay { time, is_utc });
        }
        let plain = plain.replacen('T', " ", 1);
        let forms = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
        let moment = forms.iter().find_map(|form| DateTime::strptime(form, &plain).ok());
        let moment = moment.and_then(|moment| clock(moment, is_utc));
        moment.map(When::Moment).ok_or_else(|| {
            "a time is expected, such as 14:46, \"2026-11-29 14:46:05\", 14:46:05Z or \"10m ago\"".to_owned()
        })
    }

    /// Within a recording that ends then. None: it is asked for by what happened, or there is no such time.
    fn within(self, end: SystemTime) -> Option<SystemTime> {
        match self {
            When::Moment(moment) => Some(moment),
            When::Ago(length) => end.checked_sub(length),
            When::Worst => None,
            When::OfDay { time, is_utc } => {
                let last = last_day(end, is_utc)?;
                let days = [Some(last), last.checked_sub(1.day()).ok()].into_iter().flatten();
                days.filter_map(|day| clock(day.to_datetime(time), is_utc)).find(|moment| *moment <= end)
            }
        }
    }

    /// The same of the end of a window: a time of the recording's last day that is behind its end limits
    /// nothing, and is not one of the day before.
    fn until(self, end: SystemTime) -> Option<SystemTime> {
        match self {
            When::OfDay { time, is_utc } => {
                let moment = clock(last_day(end, is_utc)?.to_datetime(time), is_utc)?;
                (moment <= end).then_some(moment)
            }
            other => other.within(end),
        }
    }
}

fn last_day(end: SystemTime, is_utc: bool) -> Option<Date> {
    Some(Timestamp::try_from(end).ok()?.to_zoned(zone(is_utc)).date())
}

fn zone(is_utc: bool) -> TimeZone {
    if is_utc { TimeZone::UTC } else { TimeZone::system() }
}

fn clock(time: DateTime, is_utc: bool) -> Option<SystemTime> {
    time.to_zoned(zone(is_utc)).ok().map(|zoned| zoned.timestamp().into())
}

impl ReplayArgs {
    /// What was recorded of the time that was asked for. None: what happens now is.
    /// `targets`: whose worst moment it is to be.
    pub(super) fn history(&self, targets: &TargetArgs) -> anyhow::Result<Option<History>> {
        let Some((mut history, at)) = self.read(targets, true)? else { return Ok(None) };
        if let Some(at) = at {
            history.keep_at(at);
        }
        if history.is_empty() {
            let message = "nothing was recorded at that time".to_owned();
            return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
        }
        Ok(Some(history))
    }

    /// The same with all that is around the moment that was asked for.
    pub(super) fn history_and_moment(
        &self,
        targets: &TargetArgs,
    ) -> anyhow::Result<Option<(History, Option<SystemTime>)>> {
        self.read(targets, false)
    }

    fn read(
        &self,
        targets: &TargetArgs,
        is_moment_alone: bool,
    ) -> anyhow::Result<Option<(History, Option<SystemTime>)>> {
        let Some(path) = &self.replay else { return Ok(None) };
        let recording =
            Recording::open(path).with_context(|| format!("cannot read the recording {}", path.display()))?;
        let nothing = |why: String| {
            let message = format!("there is nothing to show of {}: {why}", path.display());
            anyhow::Error::from(Exit { status: NOTHING_TO_TRACE, message })
        };
        let Some((begin, end)) = recording.span() else {
            return Err(nothing("it is no recording, or has no interval that is whole".into()));
        };
        let [from, at] = [self.from, self.at].map(|when| when.and_then(|when| when.within(end)));
        let to = self.to.and_then(|when| when.until(end));
        // Views show whole seconds: one in which the recording begins is of it.
        let is_first = |at: &SystemTime| begin.duration_since(*at).is_ok_and(|before| before < SECOND);
        let at = at.map(|at| if is_first(&at) { begin } else { at });
        if self.from == Some(When::Worst) || self.to == Some(When::Worst) {
            let message = "`worst` is a time for --at".to_owned();
            return Err(Exit { status: BAD_USAGE, message }.into());
        }
        let window = match at.filter(|_| is_moment_alone) {
            Some(at) => Window::Moment(at),
            None => Window::Span { from, to },
        };
        let (history, is_all) = recording
            .history(window)
            .map_err(|error| Exit { status: FAILED, message: format!("{}: {error}", path.display()) })?;
        let at = match self.at {
            Some(When::Worst) => history.worst(only(targets, &history.servers())?),
            Some(_) => Some(at.unwrap_or(SystemTime::UNIX_EPOCH)),
            None => None,
        };
        if !is_all {
            eprintln!(
                "fsynctop: only the latest of it is read, as there is too much: --from and --to ask for less."
            );
        }
        if history.is_empty() {
            let [begin, end] =
                [begin, end].map(|time| rfc3339(time).get(..19).unwrap_or_default().replace('T', " "));
            let why = "or what there is of that time is kept in intervals that are longer";
            return Err(nothing(format!("it is of {begin} to {end} UTC, {why}")));
        }
        Ok(Some((history, at)))
    }
}

/// Which servers of a recording are meant: by name, number, engine and command.
pub(super) fn only(
    targets: &TargetArgs,
    all: &[Arc<Server>],
) -> anyhow::Result<impl Fn(ServerId) -> bool + use<>> {
    if targets.cgroup.is_some() {
        let message =
            "a recording knows no control groups: --server, --pid, --engine and --comm choose".to_owned();
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    let are_all_meant = targets.all || !targets.is_given() && targets.word.is_none();
    let meant: BTreeSet<ServerId> =
        all.iter().filter(|server| is_meant(targets, server)).map(|server| server.id).collect();
    if !are_all_meant && meant.is_empty() {
        let there: Vec<String> =
            all.iter().map(|server| escape_sentence(&server.name)).take(MOST_NAMED).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        let message = format!("the recording has no such server: it has {there}");
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    }
    Ok(move |server| are_all_meant || meant.contains(&server))
}

/// As among running servers, an engine narrows what is named otherwise.
fn is_meant(targets: &TargetArgs, server: &Server) -> bool {
    let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let engine = server.engine.as_ref().map_or("", |engine| &engine.name);
    let is_word = |word: &String| {
        *word == *server.name || *word == server.comm || word == engine || *word == server.id.pid.to_string()
    };
    let is_one = targets.pid.contains(&server.id.pid)
        || has(&targets.server, &server.name)
        || has(&targets.comm, &server.comm)
        || targets.word.as_ref().is_some_and(is_word);
    let lists = [targets.pid.len(), targets.server.len(), targets.comm.len()];
    let is_named = lists != [0; 3] || targets.word.is_some();
    (is_one || !is_named) && (targets.engine.is_empty() || has(&targets.engine, engine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn a_time_is_read_as_people_write_it() {
        let moment = Ok(When::Moment(utc("2026-11-29T14:46:05Z")));
        for text in [
            "2026-11-29T14:46:05Z",
            "2026-11-29 14:46:05Z",
            "2026-11-29 14:46:05 UTC",
            "2026-11-29T15:46:05+01:00",
        ] {
            assert_eq!(When::parse(text), moment, "{text}");
        }
        let noon = Time::constant(12, 5, 0, 0);
        assert_eq!(When::parse("12:05"), Ok(When::OfDay { time: noon, is_utc: false }));
        assert_eq!(When::parse("12:05:00 UTC"), Ok(When::OfDay { time: noon, is_utc: true }));
        assert_eq!(When::parse("10m ago"), Ok(When::Ago(Duration::from_secs(600))));
        assert_eq!(When::parse("worst"), Ok(When::Worst));
        for wrong in ["", "ago", "yesterday", "25:00", "2026-13-01 00:00", "14:46:05+01:00"] {
            assert!(When::parse(wrong).is_err(), "{wrong}");
        }
        let local = When::parse("2026-11-29 14:46").unwrap();
        let expected = DateTime::constant(2026, 11, 29, 14, 46, 0, 0).to_zoned(TimeZone::system()).unwrap();
        assert_eq!(local, When::Moment(expected.timestamp().into()));
    }

    #[test]
    fn without_a_day_it_is_the_last_time_before_the_end_of_the_recording() {
        let end = utc("2026-11-29T14:46:05Z");
        let within = |text: &str| When::parse(text).unwrap().within(end);
        assert_eq!(within("14:46:05Z"), Some(end));
        assert_eq!(within("14:46:06Z"), Some(utc("2026-11-28T14:46:06Z")));
        assert_eq!(within("90s ago"), Some(utc("2026-11-29T14:44:35Z")));
        assert_eq!(within("worst"), None);
        // As the end of a window it is of that day, or limits nothing.
        let until = |text: &str| When::parse(text).unwrap().until(end);
        assert_eq!(until("14:40Z"), Some(utc("2026-11-29T14:40:00Z")));
        assert_eq!(until("14:50Z"), None);
    }
}
