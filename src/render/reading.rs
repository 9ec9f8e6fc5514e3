//! What the figures say, in plain sentences. Each is a function of the measurement alone, and says nothing
//! that a figure does not carry.

use super::{Options, header};
use crate::model::{Interval, Neighbour, Place, Role, Server, ServerId, Stats, Via, durability, neighbours};
use crate::text::absence::{self, NoSync};
use crate::text::{bytes, count, counted, duration_in_words, escape_sentence, percent, rate};

mod incident;
mod logs;
mod scene;
mod thresholds;
mod trouble;
mod unsynced;
mod window;
mod writes;

pub(crate) use incident::{of as incidents, of_one as incident};
use scene::Scene;
pub(crate) use scene::Sentence;
pub(crate) use unsynced::durability;
pub(crate) use window::of_window;

/// A neighbour that syncs this often, or a tenth as often as the server, is worth a sentence.
const NEIGHBOUR_PER_SECOND: f64 = 10.0;
/// A tail is worth a sentence where p99 is so many times the median, and long enough for a commit to feel it.
const TAIL_RATIO: u64 = 5;
const TAIL_NS: u64 = 1_000_000;
const SLOW_NS: u64 = 1_000_000_000;

/// What one server's figures say, the most urgent first.
pub(crate) fn of_server(m: &Interval, server: ServerId, options: &Options) -> Vec<Sentence> {
    let scene = Scene { m, server, options };
    let total = scene.total();
    let mut sentences: Vec<Sentence> = Vec::new();
    sentences.extend(trouble::stuck(&scene));
    let failed = [trouble::failures(&scene), trouble::writeback(&scene), trouble::failed_writes(&scene)];
    sentences.extend(trouble::unique(failed.concat()));
    if total.count == 0 {
        sentences.push(Sentence::plain(nothing_synced(&scene)));
    }
    let plain = [logs::busy(&scene), logs::ratio(&scene)].into_iter().flatten();
    sentences.extend(plain.map(Sentence::plain));
    sentences.extend(scene.notes().iter().map(|note| Sentence::plain(escape_sentence(note))));
    sentences.extend(unsynced::makes_nothing_durable(&scene));
    sentences.extend(writes_of(&scene));
    sentences.extend(most_of_the_time(&scene, &total).map(Sentence::plain));
    let (spoken_of, exceeded): (Vec<Role>, Vec<String>) = thresholds::exceeded(&scene).into_iter().unzip();
    sentences.extend(exceeded.into_iter().map(Sentence::plain));
    let plain = [outlier(&scene, &spoken_of), neighbour(&scene, &total)];
    sentences.extend(plain.into_iter().flatten().map(Sentence::plain));
    sentences
}

/// What of all that was written would be lost, and how much it was. A live view may have room for the first
/// only.
fn writes_of(scene: &Scene) -> Vec<Sentence> {
    let roles = unsynced::roles(scene);
    let mut said = unsynced::failed(&roles);
    let plain = unsynced::recovery_point(scene, &roles).into_iter().chain(writes::amplification(scene));
    said.extend(plain.chain(writes::of_devices(scene)).map(Sentence::plain));
    said
}

/// What was written for each byte of the logs, where that is the question.
pub(crate) fn amplification(m: &Interval, server: ServerId, options: &Options) -> Option<Sentence> {
    writes::amplification(&Scene { m, server, options }).map(Sentence::plain)
}

/// The same of each server, as it stands for itself.
pub(crate) fn written(m: &Interval, options: &Options) -> Vec<Sentence> {
    let of = |server: &std::sync::Arc<Server>| writes_of(&Scene { m, server: server.id, options });
    let mut said: Vec<Sentence> = m.servers.iter().flat_map(of).collect();
    said.extend(unsynced::unknown(m.unsynced.dropped, &m.setup.ops).map(Sentence::plain));
    trouble::unique(said)
}

/// Which syncs took longer than their engine's makers say they may, as it stands for itself.
pub(crate) fn slower_than_they_may_be(m: &Interval, options: &Options) -> Vec<Sentence> {
    let several = m.servers.len() > 1;
    let of = |server: &std::sync::Arc<Server>| {
        let whose = header::name(m, server.id, &options.style);
        let exceeded = thresholds::exceeded(&Scene { m, server: server.id, options });
        let said = exceeded.into_iter().map(|(_, text)| match several {
            true => Sentence::plain(format!("{whose}: {text}")),
            false => Sentence::plain(text),
        });
        said.collect::<Vec<_>>()
    };
    m.servers.iter().flat_map(of).collect()
}

/// What failed beside the syncs, of each server's files and of others: as it stands for itself.
pub(crate) fn failed_beside_syncs(m: &Interval, options: &Options) -> Vec<Sentence> {
    let of = |of: fn(&Scene) -> Vec<Sentence>| {
        m.servers.iter().flat_map(move |server| of(&Scene { m, server: server.id, options }))
    };
    let mut said: Vec<Sentence> = of(trouble::writeback).collect();
    said.extend(trouble::writeback_of_others(m, options));
    said.extend(of(trouble::failed_writes));
    trouble::unique(said)
}

/// The last word: what is certain about all of it.
pub(crate) fn confidence(m: &Interval, options: &Options) -> Vec<Sentence> {
    let unknown = unsynced::unknown(m.unsynced.dropped, &m.setup.ops).map(Sentence::plain);
    trouble::confidence(m, options).into_iter().chain(unknown).collect()
}

/// What was lost of the watched calls, and what was done by others.
pub(crate) fn lost(m: &Interval, options: &Options) -> Vec<Sentence> {
    let mut sentences = trouble::missed(&m.lost, m.total().count);
    sentences.extend(trouble::answered(&m.lost, &m.servers));
    sentences.extend(unwatched(m, options));
    let others = trouble::writeback_of_others(m, options);
    others.into_iter().chain(sentences.into_iter().map(Sentence::plain)).collect()
}

/// What servers made durable by calls that are not watched.
pub(crate) fn unwatched(m: &Interval, options: &Options) -> Option<String> {
    trouble::unwatched_of_each(m, options)
}

fn nothing_synced(scene: &Scene) -> String {
    let over = scene.m.span.duration;
    if !header::stuck(scene.m, &[scene.server], scene.options).is_empty() {
        return format!("{}.", absence::sync(&NoSync::Hangs, &scene.m.lost, over, &[]));
    }
    let ops: Vec<&str> =
        scene.m.setup.ops.iter().filter(|op| op.via() == Via::Call).map(|op| op.name()).collect();
    if scene.m.unwatched_of(scene.server) > 0 {
        let by_others = "the server makes data durable by calls that are not watched";
        return format!("{}: {by_others}.", absence::sync(&NoSync::Unwatched, &scene.m.lost, over, &ops));
    }
    let watched = absence::sync(&NoSync::Seen, &scene.m.lost, over, &ops);
    // Whether it was idle is known where all writes are watched.
    let writes = scene.m.all_writes().filter(|row| row.server == scene.server);
    let written: u64 = writes.map(|row| row.stats.bytes).sum();
    let idle_or = |does_not: &str| match written {
        0 => format!("the server is idle, or {does_not}."),
        some => format!("the server wrote {}; it may be one that {does_not}.", bytes(some)),
    };
    if let Some(filters @ 1..) = scene.server().map(|server| server.seccomp_filters)
        && written > 0
    {
        let filters = counted(filters.into(), "seccomp filter", "seccomp filters");
        return format!(
            "{watched}: {}",
            idle_or(&format!("does not sync, or whose {filters} may answer its syncs"))
        );
    }
    // What a note is certain of is not supposed as well.
    if scene.server().is_some_and(durability::syncs_do_nothing) {
        return format!("{watched}.");
    }
    let Some(engine) = scene.server().and_then(|server| server.engine.as_deref()) else {
        return format!("{watched}.");
    };
    if !engine.has(Role::Redo) {
        let words = &engine.words;
        let does_not = words.unsynced.as_deref().unwrap_or("does not sync what it writes");
        let durably = if scene.watches_durable_writes() { "" } else { ", or writes durably without a sync" };
        return format!("{watched}: {}", idle_or(&format!("{does_not}{durably}")));
    }
    let does_not = if scene.redo_is_durable_by_writes() {
        "does not sync its binary log at commit (as with sync_binlog other than 1)"
    } else if scene.watches_durable_writes() {
        "does not sync at commit (as with innodb_flush_log_at_trx_commit and sync_binlog other than 1)"
    } else {
        "does not sync at commit (as with innodb_flush_log_at_trx_commit and sync_binlog other than 1, or \
         innodb_flush_method=O_DSYNC)"
    };
    format!("{watched}: {}", idle_or(does_not))
}

/// Which role takes most of the time, unless it is a log that commits wait for, whose busy share says so
/// already.
fn most_of_the_time(scene: &Scene, total: &Stats) -> Option<String> {
    let (role, sum_ns) = Role::ALL
        .into_iter()
        .map(|role| (role, scene.role(role).sum_ns))
        .max_by_key(|&(_, sum_ns)| sum_ns)?;
    if role.is_serial() || sum_ns == 0 {
        return None;
    }
    let share = sum_ns as f64 / total.sum_ns as f64;
    let most = if share > 0.5 { "Most" } else { "The largest share" };
    Some(format!("{most} of the time in syncs goes to {} ({}).", role.in_a_sentence(), percent(share)))
}

/// The worst tail: a sync of a second or more, else a p99 far above the median. `spoken_of`: roles whose tail
/// has a sentence already.
fn outlier(scene: &Scene, spoken_of: &[Role]) -> Option<String> {
    let is_new = |row: &&crate::model::RoleRow| !spoken_of.contains(&row.role);
    let rows = || scene.m.roles.iter().filter(|row| row.server == scene.server).filter(is_new);
    let slowest = rows().max_by_key(|row| row.stats.max.ns)?;
    if slowest.stats.max.ns >= SLOW_NS {
        let took = super::rows::max_in_words(slowest.stats.max);
        let (role, op) = (slowest.role.name(), slowest.op.name());
        return Some(format!("The slowest sync ({role} {op}) took {took}."));
    }
    let tail = |row: &crate::model::RoleRow| {
        let (p99, p50) = (super::rows::p99(&row.stats)?, row.stats.quantile_ns(0.5)?);
        (p99 >= TAIL_NS && p99 >= TAIL_RATIO * p50).then_some((p99, p50, row.role, row.op))
    };
    let (p99, p50, role, op) = rows().filter_map(tail).max_by_key(|&(p99, ..)| p99)?;
    Some(format!(
        "1 in 100 {} {} syncs took {} or more, {} times the median ({}).",
        role.name(),
        op.name(),
        duration_in_words(p99),
        count((p99 as f64 / p50.max(1) as f64).round() as u64),
        duration_in_words(p50),
    ))
}

/// The busiest process beside the server on one of its devices.
fn neighbour(scene: &Scene, total: &Stats) -> Option<String> {
    let seconds = scene.m.span.duration.as_secs_f64();
    // Whoever syncs nothing waits for nobody.
    let is_there = total.count > 0 || scene.m.in_flight.iter().any(|sync| sync.server == scene.server);
    if !is_there {
        return None;
    }
    // Untimed ones wait for each other as well.
    let all = |n: &Neighbour| n.stats.count.saturating_add(n.stats.untimed);
    let often = |n: &Neighbour| {
        // Who syncs all devices may have had nothing to do on this one.
        let (count, here) = (all(n), n.place != Place::AnyDevice);
        here && (count as f64 >= NEIGHBOUR_PER_SECOND * seconds
            || count as f64 >= seconds && count.saturating_mul(10) >= total.count)
    };
    let devices = neighbours::devices(scene.m, &[scene.server]);
    let candidates = devices.iter().flat_map(|device| device.neighbours.iter().map(move |n| (device, n)));
    let (device, n) = candidates.filter(|(_, n)| often(n)).max_by_key(|(_, n)| all(n))?;
    let style = &scene.options.style;
    let name = style.name(n.comm.as_bytes());
    let pid = n.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
    let own = style.name(device.name.as_bytes());
    let (place, shared) = match &n.place {
        Place::Here => (own.to_string(), "device"),
        Place::SameDisk(other) => (format!("{}, on the disk of {own}", style.name(other.as_bytes())), "disk"),
        Place::AnyDevice => return None,
    };
    let rate = rate(all(n), scene.m.span.duration);
    Some(format!(
        "{name}{pid} also syncs {rate} times a second on {place}: syncs on one {shared} wait for each other.",
    ))
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "reading_window_tests.rs"]
mod window_tests;
