//! The last word on a span of time of which only the end is a snapshot: a window of the past, a session of
//! the live view. The worst comes first, and all is well only if it was all the time.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use super::scene::Sentence;
use super::trouble::{
    answered, missed, named_failures, named_writeback, named_writes, not_watched, others_writeback, unique,
    unwatched,
};
use super::unsynced;
use crate::history::{Busy, Longest, Troubles};
use crate::model::{FileRow, Interval, Op, Role, Server, ServerId, words};
use crate::render::Options;
use crate::render::style::Paint;
use crate::text::absence::Seen;
use crate::text::{capitalize, count, counted, duration_in_words, interval, percent, rfc3339};

/// Syncs that hung told one by one; the rest is a count.
const HUNG_SHOWN: usize = 3;
/// Roles of which something may be lost told one by one.
const LOST_SHOWN: usize = 3;
/// A log that was saturated for less than this, and for less than a tenth of the time, is not worth a
/// sentence.
const BUSY_FOR: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(86_400);

/// Whose sync it was, where there are several servers.
type NameOf<'a> = &'a dyn Fn(ServerId) -> Option<String>;
type ServerOf<'a> = &'a dyn Fn(ServerId) -> Option<&'a Server>;

/// `whole`: what was judged, with its length: "the last 600 s".
pub(crate) fn of_window(troubles: &Troubles, whole: &str, m: &Interval, options: &Options) -> Vec<Sentence> {
    let several = m.servers.len() > 1;
    let name = |id: ServerId| {
        let server = m.servers.iter().find(|server| server.id == id);
        several.then(|| server.map_or_else(|| format!("pid {}", id.pid), |server| name_of(server, options)))
    };
    let server = |id: ServerId| m.servers.iter().find(|server| server.id == id).map(|server| &**server);
    let mut sentences = hung(troubles, options, &name, &server);
    sentences.extend(failures(troubles, options));
    sentences.extend(possibly_lost(troubles, &name));
    sentences.extend(saturated(troubles, &name).into_iter().map(Sentence::plain));
    if troubles.gaps > 0 {
        let times = if troubles.gaps == 1 { "once".into() } else { format!("{} times", troubles.gaps) };
        sentences.push(Sentence::plain(format!(
            "The probes were attached again {times}: of the moment before that nothing is known."
        )));
    }
    let long = troubles.longest(options.stuck_after);
    let answered = answered(&troubles.lost, &m.servers);
    let seen = Seen {
        lost: &troubles.lost,
        answered: answered.is_some(),
        failed: troubles.has_failures() || troubles.lost.errors > 0,
        hung: !long.is_empty(),
        hangs: long.iter().any(|sync| sync.is_minimum && !sync.ended),
    };
    sentences.extend(seen.fine(whole, true).map(Sentence::plain));
    sentences.extend(missed(&troubles.lost, troubles.count).into_iter().map(Sentence::plain));
    sentences.extend(answered.map(Sentence::plain));
    sentences.extend(unwatched(&troubles.lost, &m.setup.ops, m.servers.len()).map(Sentence::plain));
    sentences.extend(unsynced::unknown(troubles.unsynced_dropped, &m.setup.ops).map(Sentence::plain));
    sentences.extend(not_watched(&m.setup.ops, options).map(Sentence::plain));
    sentences
}

/// What failed syncs should have covered.
fn possibly_lost(troubles: &Troubles, name: NameOf) -> Vec<Sentence> {
    let say = |(&(server, role), &lost): (&(ServerId, Role), &u64)| {
        let mut said = unsynced::may_be_lost(lost, role);
        // What the history does not keep apart is no server's.
        if let Some(name) = name(server).filter(|_| server != ServerId::NONE) {
            said.text.insert_str(0, &format!("{name}: "));
        }
        said
    };
    let mut lost: Vec<_> = troubles.possibly_lost.iter().collect();
    lost.sort_by_key(|&(&(_, role), &lost)| Reverse((role.is_serial(), lost)));
    let more = lost.len().saturating_sub(LOST_SHOWN);
    let mut said: Vec<Sentence> = lost.into_iter().take(LOST_SHOWN).map(say).collect();
    if more > 0 {
        let text = format!("So may something of {}.", counted(more as u64, "other role", "other roles"));
        said.push(Sentence { text, paint: Paint::Error });
    }
    said
}

fn name_of(server: &Server, options: &Options) -> String {
    format!("{} {}", options.style.name(server.comm.as_bytes()), server.id.pid)
}

/// The syncs that took longest, if they took long enough to be called stuck.
fn hung(troubles: &Troubles, options: &Options, name: NameOf, server: ServerOf) -> Vec<Sentence> {
    let all = troubles.longest(options.stuck_after);
    let say = |sync: &&Longest| {
        let took = duration_in_words(sync.took.ns);
        let took = if sync.is_minimum { format!("at least {took}") } else { took };
        let mut which = format!("{} {}", sync.role.name(), sync.op.name());
        if let Some(path) = &sync.path {
            which = format!("{which}, {}", options.style.name(path.as_os_str().as_encoded_bytes()));
        }
        if let Some(name) = name(sync.server) {
            which = format!("{name}, {which}");
        }
        let began = sync.seen.checked_sub(sync.duration()).unwrap_or(sync.seen);
        let when = match (sync.ended, sync.is_minimum) {
            (true, _) => format!("until {}", clock(sync.seen, troubles)),
            (false, _) => from_to(began, sync.seen, troubles),
        };
        let waits = match sync.role.is_serial() {
            true => format!(" {}", words(server(sync.server), sync.role).waited()),
            false => String::new(),
        };
        Sentence { text: format!("A sync hung for {took}, {when}: {which}.{waits}"), paint: Paint::Stuck }
    };
    let mut sentences: Vec<Sentence> = all.iter().take(HUNG_SHOWN).map(say).collect();
    if all.len() > HUNG_SHOWN {
        let more = count((all.len() - HUNG_SHOWN) as u64);
        let text = format!("Syncs of {more} other roles hung, for less long.");
        sentences.push(Sentence { text, paint: Paint::Stuck });
    }
    sentences
}

fn failures(troubles: &Troubles, options: &Options) -> Vec<Sentence> {
    let of = |wanted: fn(&FileRow) -> bool| troubles.failed().filter(move |row| wanted(row)).collect();
    let last = |said: &mut [Sentence], last: Option<SystemTime>| {
        if let (Some(first), Some(last)) = (said.first_mut(), last) {
            let last = format!(", the last by {}.", clock(last, troubles));
            first.text.truncate(first.text.trim_end_matches('.').len());
            first.text += &last;
        }
    };
    let mut syncs = named_failures(of(|row| row.op.makes_durable()), &troubles.errors, options);
    last(&mut syncs, troubles.last_failure());
    let unwritten = of(|row| row.op == Op::Writeback && !row.is_nobodys());
    let mut writeback = named_writeback(unwritten, &troubles.writeback.errors, options);
    last(&mut writeback, troubles.writeback.last);
    let mut others: Vec<Sentence> = others_writeback(&of(FileRow::is_nobodys), options).into_iter().collect();
    last(&mut others, troubles.others_writeback.last);
    let failed = of(|row| !row.op.makes_durable() && row.op != Op::Writeback);
    let mut writes = named_writes(failed, &troubles.failed_writes.errors, options);
    last(&mut writes, troubles.failed_writes.last);
    unique([syncs, writeback, others, writes].concat())
}

fn saturated(troubles: &Troubles, name: NameOf) -> Vec<String> {
    let is_worth_it = |busy: &Busy| busy.total >= BUSY_FOR || busy.total * 10 >= troubles.duration;
    let say = |(server, role, busy): (ServerId, Role, &Busy)| {
        let log = role.in_a_sentence();
        let log = name(server).map_or(log.to_owned(), |name| format!("{log} of {name}"));
        let (from, to) = busy.longest.span?;
        Some(format!(
            "{} was saturated for {}, longest {} ({} busy).",
            capitalize(&log),
            interval(busy.total),
            from_to(from, to, troubles),
            percent(busy.longest.share().min(1.0)),
        ))
    };
    troubles.busy().into_iter().filter(|(_, _, busy)| is_worth_it(busy)).filter_map(say).collect()
}

fn from_to(from: SystemTime, to: SystemTime, troubles: &Troubles) -> String {
    let from = clock(from, troubles);
    format!("from {} to {}", from.trim_end_matches(" UTC"), clock(to, troubles))
}

/// `10:03:17 UTC`, with the date where a day is not enough to tell.
fn clock(time: SystemTime, troubles: &Troubles) -> String {
    let text = rfc3339(time);
    let (date, time) = (text.get(..10).unwrap_or_default(), text.get(11..19).unwrap_or_default());
    if troubles.duration < DAY { format!("{time} UTC") } else { format!("{date} {time} UTC") }
}
