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
use crate::model::{FileRow, Interval, Op, Role, ServerId};
use crate::recording::Troubles;
use crate::render::style::Paint;
use crate::render::{Options, header};
use crate::text::absence::Seen;
use crate::text::{counted, rfc3339};

/// Roles of which something may be lost told one by one.
const LOST_SHOWN: usize = 3;
const DAY: Duration = Duration::from_secs(86_400);

/// Whose sync it was, where there are several servers.
type NameOf<'a> = &'a dyn Fn(ServerId) -> Option<String>;

/// `whole`: what was judged, with its length: "the last 600 s". The incidents are told before it.
pub(crate) fn of_window(troubles: &Troubles, whole: &str, m: &Interval, options: &Options) -> Vec<Sentence> {
    let several = m.servers.len() > 1;
    let name = |id: ServerId| several.then(|| header::name(m, id, &options.style));
    let mut sentences = failures(troubles, options);
    sentences.extend(possibly_lost(troubles, &name));
    if troubles.gaps > 0 {
        let times = if troubles.gaps == 1 { "once".into() } else { format!("{} times", troubles.gaps) };
        sentences.push(Sentence::plain(format!(
            "The probes were attached again {times}: of the moment before that nothing is known."
        )));
    }
    let answered = answered(&troubles.lost, &m.servers);
    let seen = Seen {
        lost: &troubles.lost,
        answered: answered.is_some(),
        of_anybody: m.setup.of_anybody,
        failed: troubles.has_failures() || troubles.lost.errors > 0,
        hung: troubles.incidents.has_hung(),
        hangs: troubles.incidents.hangs(),
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

/// `10:03:17 UTC`, with the date where a day is not enough to tell.
fn clock(time: SystemTime, troubles: &Troubles) -> String {
    let text = rfc3339(time);
    let (date, time) = (text.get(..10).unwrap_or_default(), text.get(11..19).unwrap_or_default());
    if troubles.duration < DAY { format!("{time} UTC") } else { format!("{date} {time} UTC") }
}
