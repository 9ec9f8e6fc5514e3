//! Sentences on what went wrong: failed syncs, stuck ones, and what was lost or not watched at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::scene::{Scene, Sentence};
use crate::model::durability;
use crate::model::{Amount, Effect, Errors, FileRow, Interval, Lost, Op, Server, ServerId, Target, words};
use crate::render::row::nameless;
use crate::render::style::Paint;
use crate::render::{Options, header};
use crate::text::absence::{self, Seen};
use crate::text::{count, counted, end_of_path, errno, interval, width};

/// Files with errors named one by one.
const FAILED_SHOWN: usize = 3;

/// How many syncs hang, and the one that hangs longest.
pub(super) fn stuck(scene: &Scene) -> Option<Sentence> {
    let stuck = header::stuck(scene.m, &[scene.server], scene.options);
    let oldest = stuck.first()?;
    let (age, which) = (header::age(oldest), header::describe_sync(oldest, &scene.options.style));
    let waits = match oldest.role.is_serial() {
        true => format!(" {}", words(scene.server(), oldest.role).waits()),
        false => String::new(),
    };
    let (one, several) = match stuck.iter().all(|sync| sync.op.makes_durable()) {
        true => ("sync", "syncs"),
        false => ("write", "syncs and writes"),
    };
    let text = match stuck.len() {
        1 => format!("One {one} is stuck {age}: {which}.{waits}"),
        n => format!("{} {several} are stuck, the oldest {age}: {which}.{waits}", count(n as u64)),
    };
    Some(Sentence { text, paint: Paint::Stuck })
}

/// Which syncs failed, where, with what, and what that means.
pub(super) fn failures(scene: &Scene) -> Vec<Sentence> {
    let failed: Vec<&FileRow> = scene
        .m
        .files
        .iter()
        .filter(|row| row.server == scene.server && row.stats.error_count() > 0)
        .collect();
    let all = sum_of_errors(&failed);
    named_failures(failed, &all, scene.options)
}

/// The same of writes that are not durable, whose syncs have nothing to say about it.
pub(super) fn failed_writes(scene: &Scene) -> Vec<Sentence> {
    let failed: Vec<&FileRow> = scene.failures(|op| op != Op::Writeback).collect();
    let all = sum_of_errors(&failed);
    named_writes(failed, &all, scene.options)
}

/// What the kernel could not write back of the server's files, whether or not anybody asked by a sync.
pub(super) fn writeback(scene: &Scene) -> Vec<Sentence> {
    let failed: Vec<&FileRow> = scene.failures(|op| op == Op::Writeback).collect();
    let all = sum_of_errors(&failed);
    named_writeback(failed, &all, scene.options)
}

/// The same of devices, and of files that no traced server has open.
pub(crate) fn writeback_of_others(m: &Interval, options: &Options) -> Option<Sentence> {
    let failed: Vec<&FileRow> = m.failures.iter().filter(|row| row.is_nobodys()).collect();
    others_writeback(&failed, options)
}

/// A device is named, a file is not: it is none of a server's.
pub(super) fn others_writeback(failed: &[&FileRow], options: &Options) -> Option<Sentence> {
    let mut said: BTreeMap<(bool, String), Errors> = BTreeMap::new();
    for row in failed {
        let device = row.info.device.as_deref().unwrap_or("an unknown device");
        let key = (matches!(row.target, Target::Filesystem(_)), options.style.name(device.as_bytes()));
        let sum = said.entry(key).or_default();
        row.stats.errors.iter().for_each(|(&errno, &n)| *sum.entry(errno).or_default() += n);
    }
    let what = |(is_device, device): &(bool, String)| match is_device {
        true => format!("the metadata of {device}"),
        false => format!("files on {device} {}", absence::open()),
    };
    let each: Vec<String> =
        said.iter().map(|(key, errors)| format!("{} on {}", by_errno(errors), what(key))).collect();
    let more = each.len().saturating_sub(FAILED_SHOWN);
    let mut shown = each.into_iter().take(FAILED_SHOWN).collect::<Vec<_>>();
    shown.extend((more > 0).then(|| format!("and {}", counted(more as u64, "more device", "more devices"))));
    let text = format!("The kernel could not write back: {}.", shown.join("; "));
    (!shown.is_empty()).then_some(Sentence { text, paint: Paint::Error })
}

fn sum_of_errors(failed: &[&FileRow]) -> Errors {
    let mut all = Errors::default();
    for (&errno, &n) in failed.iter().flat_map(|row| &row.stats.errors) {
        *all.entry(errno).or_default() += n;
    }
    all
}

/// The same of these files' syncs, where all failures may be more than theirs.
pub(super) fn named_failures(failed: Vec<&FileRow>, all: &Errors, options: &Options) -> Vec<Sentence> {
    named(failed, all, |n| format!("{} failed", counted(n, "sync", "syncs")), options)
}

pub(super) fn named_writes(failed: Vec<&FileRow>, all: &Errors, options: &Options) -> Vec<Sentence> {
    let mut said = named(failed, all, |n| format!("{} failed", counted(n, "write", "writes")), options);
    // The errno was an answer to the write itself, and means no more than that.
    said.truncate(1);
    said
}

/// The count is of errors and not of writes: any number of pages may be lost by one.
pub(super) fn named_writeback(failed: Vec<&FileRow>, all: &Errors, options: &Options) -> Vec<Sentence> {
    let what = |_| "The kernel could not write back what had been written".to_owned();
    let mut said = named(failed, all, what, options);
    // Whichever errno it was. What EIO means says so as well.
    if !said.is_empty() && !all.contains_key(&libc::EIO) {
        let text = "It may have dropped that, and a later sync can succeed without it.".to_owned();
        said.insert(1, Sentence { text, paint: Paint::Error });
    }
    said
}

/// What an errno means is told once.
pub(super) fn unique(sentences: Vec<Sentence>) -> Vec<Sentence> {
    let mut said: Vec<Sentence> = Vec::new();
    for sentence in sentences {
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    said
}

/// `what`: so many of them.
fn named(
    mut failed: Vec<&FileRow>,
    all: &Errors,
    what: impl Fn(u64) -> String,
    options: &Options,
) -> Vec<Sentence> {
    let total: u64 = all.values().sum();
    if total == 0 {
        return Vec::new();
    }
    failed
        .sort_by_key(|row| (!row.stats.errors.contains_key(&libc::EIO), u64::MAX - row.stats.error_count()));
    let named: u64 = failed.iter().map(|row| row.stats.error_count()).sum();
    let mut parts: Vec<String> = failed.iter().take(FAILED_SHOWN).map(|row| failure(row, options)).collect();
    if failed.len() > FAILED_SHOWN {
        let more = counted((failed.len() - FAILED_SHOWN) as u64, "more file", "more files");
        parts.push(format!("and {more}"));
    }
    if total > named {
        parts.push(format!("{} on files that are not told apart", count(total - named)));
    }
    let mut sentences = vec![format!("{}: {}.", what(total), parts.join("; "))];
    for (number, meaning) in MEANINGS {
        if all.contains_key(&number) {
            sentences.push(format!("{}: {meaning}", errno(number)));
        }
    }
    sentences.into_iter().map(|text| Sentence { text, paint: Paint::Error }).collect()
}

/// What a failed sync means to the person on call.
const MEANINGS: [(i32, &str); 5] = [
    (
        libc::EIO,
        "the page cache can no longer be trusted: the kernel may have dropped what it could not write, and a later \
         sync can succeed without it. Check the device before anything else.",
    ),
    (libc::ENOSPC, "the filesystem had no room for what was to be written."),
    (libc::EDQUOT, "a quota left no room for what was to be written."),
    (libc::EROFS, "the filesystem is read-only, perhaps since an error of its own."),
    (libc::EBADF, "the server synced a descriptor that was not open."),
];

fn failure(row: &FileRow, options: &Options) -> String {
    let style = &options.style;
    let path = row.info.path.as_ref().map(|path| style.name(path.as_os_str().as_encoded_bytes()));
    let path = path.map(|path| match options.longest_path {
        Some(columns) => end_of_path(&path, columns, style.ellipsis()),
        None => path,
    });
    let file = nameless(row).or(path).unwrap_or_default();
    format!("{} on {file} ({} {})", by_errno(&row.stats.errors), row.info.role.name(), row.op.name())
}

fn by_errno(errors: &Errors) -> String {
    let each = errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number)));
    each.collect::<Vec<_>>().join(", ")
}

/// What went well in the interval, as far as that is known; then what was lost, and of what nothing is known.
pub(super) fn confidence(m: &Interval, options: &Options) -> Vec<Sentence> {
    let everyone: Vec<ServerId> = m.in_flight.iter().map(|sync| sync.server).collect();
    let is_stuck = !header::stuck(m, &everyone, options).is_empty();
    let answered = answered(&m.lost, &m.servers);
    let seen = Seen {
        lost: &m.lost,
        answered: answered.is_some(),
        of_anybody: m.setup.of_anybody,
        failed: m.total().error_count() > 0 || !m.failures.is_empty() || m.lost.errors > 0,
        hung: is_stuck,
        hangs: is_stuck,
    };
    let others = writeback_of_others(m, options);
    let mut sentences: Vec<String> = Vec::new();
    sentences.extend(seen.fine(&format!("these {}", interval(m.span.duration)), false));
    sentences.extend(missed(&m.lost, m.total().count));
    sentences.extend(answered);
    sentences.extend(unwatched_of_each(m, options));
    sentences.extend(not_watched(&m.setup.ops, options));
    others.into_iter().chain(sentences.into_iter().map(Sentence::plain)).collect()
}

/// What was made durable by calls that are not watched, and by which servers if there are several.
pub(super) fn unwatched_of_each(m: &Interval, options: &Options) -> Option<String> {
    let mut text = unwatched(&m.lost, &m.setup.ops, m.servers.len())?;
    if m.servers.len() > 1 && !m.unwatched.is_empty() {
        let name = |id| header::name(m, id, &options.style);
        let each: Vec<_> = m.unwatched.iter().map(|&(id, n)| format!("{}: {}", name(id), times(n))).collect();
        text.truncate(text.trim_end_matches('.').len());
        text += &format!(" ({}).", each.join(", "));
    }
    Some(text)
}

/// The same of all servers together.
pub(super) fn unwatched(lost: &Lost, ops: &[Op], servers: usize) -> Option<String> {
    let ways: Vec<&str> = durability::counted_only(ops).map(|way| way.called).collect();
    // Where all are watched: by a way that nobody here knows.
    let ways = if ways.is_empty() { String::new() } else { format!(" ({})", ways.join(", ")) };
    let who = if servers > 1 { "servers" } else { "server" };
    (lost.unwatched > 0).then(|| {
        format!(
            "The {who} also made data durable {} by calls that are not watched{ways}: these are not in the figures.",
            times(lost.unwatched),
        )
    })
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) }
}

/// Of what no sentence says anything: `Not watched: io_uring, libaio, O_DSYNC writes, …`, as much of it as
/// one line has room for.
pub(super) fn not_watched(ops: &[Op], options: &Options) -> Option<String> {
    let ways: Vec<&str> = durability::not_watched(ops).map(|way| way.called).collect();
    let room = options.style.width.unwrap_or(usize::MAX);
    let all = format!("Not watched: {}.", ways.join(", "));
    if ways.is_empty() || width(&all) <= room {
        return (!ways.is_empty()).then_some(all);
    }
    let cut = |n: usize| {
        let more = ways.len() - n;
        format!("Not watched: {}, {more} more (fsynctop check).", ways[..n].join(", "))
    };
    let fitting = (2..ways.len()).rev().map(cut).find(|text| width(text) <= room);
    Some(fitting.unwrap_or_else(|| cut(ways.len().min(1))))
}

/// Calls that the kernel did not run, where a server has what answers calls. Of others they have begun before
/// the tracing.
pub(super) fn answered(lost: &Lost, servers: &[Arc<Server>]) -> Option<String> {
    let filtered = servers.iter().any(|server| server.seccomp_filters > 0);
    (lost.answered > 0 && filtered).then(|| {
        format!(
            "{} returned without having reached the kernel's code for it: a seccomp filter of a server answers its syncs, \
             which makes nothing durable, or they had begun before the tracing.",
            counted(lost.answered, "watched call", "watched calls")
        )
    })
}

/// Each kind of loss in words, and what it does to the figures.
pub(super) fn missed(lost: &Lost, counted: u64) -> Vec<String> {
    let losses = lost.losses();
    let said = |effect| {
        let of_effect = losses.iter().filter(move |loss| (loss.effect == effect) && !loss.amount.is_zero());
        of_effect.map(|loss| loss.sentence.replacen("{}", &amount(loss.amount), 1))
    };
    let not_counted = lost.missed();
    let missed = (not_counted > 0).then(|| {
        let why: Vec<String> = said(Effect::Missed).collect();
        format!(
            "Syncs missed: {}. {} counted + {} lost = {}.",
            why.join(", "),
            count(counted),
            count(not_counted),
            count(counted + not_counted)
        )
    });
    missed.into_iter().chain(said(Effect::Blind)).chain(said(Effect::Incomplete)).collect()
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Count(n) => count(n),
        Amount::Time(time) => interval(time),
    }
}
