//! Incidents in words: how many there were, then each on a line, with what was seen of its cause.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::scene::Sentence;
use crate::model::{Interval, Server, ServerId, words};
use crate::recording::{Incident, Incidents, What};
use crate::render::style::Paint;
use crate::render::{Options, header};
use crate::text::{absence, count, counted, duration_in_words, errno, escape_sentence, percent, rfc3339};

/// Incidents that are told one by one; of more, those that weigh most.
const TOLD: usize = 12;
/// A neighbour that synced this often meanwhile is worth a word.
const NEIGHBOUR_PER_SECOND: f64 = 1.0;

/// The first sentence counts them; none if there were none.
pub(crate) fn of(incidents: &Incidents, m: &Interval, options: &Options) -> Vec<Sentence> {
    let all = incidents.list();
    if all.is_empty() {
        return Vec::new();
    }
    let mut told = all.clone();
    told.sort_by_key(|incident| std::cmp::Reverse(incident.weight()));
    told.truncate(TOLD);
    told.sort_by_key(|incident| incident.begin);
    let mut head = how_many(&all);
    if told.len() < all.len() {
        head += &format!("; the {} that weigh most", told.len());
    }
    if incidents.is_short_of_room() {
        head += "; there was no room to keep all";
    }
    let worst = all.iter().map(|incident| incident.what).max();
    let text = format!("{head} (UTC):");
    let mut said = vec![Sentence { text, paint: worst.map(paint).unwrap_or_default() }];
    let days: BTreeSet<String> =
        told.iter().flat_map(|incident| [incident.begin, incident.end]).map(|time| day(time).0).collect();
    // The only server of which anything is said has its name above.
    let is_alone = m.servers.len() <= 1 && all.iter().all(|incident| m.server(incident.server).is_some());
    let say = |incident| sentence(incident, days.len() > 1, !is_alone, m, options);
    said.extend(told.into_iter().map(say));
    said
}

/// "3 hangs, 1 failure, 1 slow phase".
fn how_many(all: &[&Incident]) -> String {
    let of = |what: What| {
        let n = all.iter().filter(|incident| incident.what == what).count() as u64;
        let (one, many) = match what {
            What::Hang => ("hang", "hangs"),
            What::Failure => ("failure", "failures"),
            What::Slow => ("slow phase", "slow phases"),
            What::Saturated => ("saturated log", "saturated logs"),
        };
        (n > 0).then(|| counted(n, one, many))
    };
    What::ALL.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

fn paint(what: What) -> Paint {
    match what {
        What::Failure => Paint::Error,
        What::Hang => Paint::Stuck,
        What::Slow | What::Saturated => Paint::Plain,
    }
}

/// `14:46:00 to 14:46:09: mysqld 31960, redo hung for 9.2 s (fdatasync, /d/#ib_redo7). It waited for the
/// journal commit. …`; the server's name where there are several.
pub(crate) fn of_one(incident: &Incident, m: &Interval, options: &Options) -> Sentence {
    let is_alone = m.servers.len() <= 1 && m.server(incident.server).is_some();
    sentence(incident, false, !is_alone, m, options)
}

fn sentence(
    incident: &Incident,
    with_day: bool,
    with_name: bool,
    m: &Interval,
    options: &Options,
) -> Sentence {
    let mut text = format!("{}: ", when(incident, with_day));
    if incident.server != ServerId::NONE && with_name {
        text += &format!("{}, ", header::name(m, incident.server, &options.style));
    }
    text += &happened(incident);
    let worst = &incident.worst;
    let path = worst.path.as_ref().map(|path| options.style.name(path.as_os_str().as_encoded_bytes()));
    let which: Vec<String> = worst.op.map(|op| op.name().to_owned()).into_iter().chain(path).collect();
    if !which.is_empty() && incident.what != What::Saturated {
        text += &format!(" ({})", which.join(", "));
    }
    text.push('.');
    let server = m.server(incident.server).map(|server| &**server);
    for cause in causes(incident, server, options) {
        text += &format!(" {cause}.");
    }
    Sentence { text, paint: paint(incident.what) }
}

fn happened(incident: &Incident) -> String {
    let names: Vec<&str> = incident.roles.iter().map(|role| role.name()).collect();
    let roles = names.join(" and ");
    let ns = incident.worst.took.map_or(0, |took| took.ns);
    let took = duration_in_words(ns);
    let usually = incident.usual_ns.map(duration_in_words);
    match incident.what {
        What::Hang => {
            let least = if incident.worst.is_minimum { "at least " } else { "" };
            let usually = usually.map(|usual| format!(", usually {usual}")).unwrap_or_default();
            format!("{roles} hung for {least}{took}{usually}")
        }
        What::Slow => {
            let usual = incident.usual_ns.unwrap_or(1).max(1);
            let times = format!("{} times the usual {}", count(ns / usual), duration_in_words(usual));
            let part = if incident.worst.is_tail { "1 in 100" } else { "half" };
            format!("{roles} slow, at worst {part} of the syncs took {took} or more: {times}")
        }
        What::Saturated => format!("{roles} {} busy", percent(incident.share())),
        What::Failure => {
            let each = incident.errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number)));
            format!("{roles} failed, {}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// What was seen of why, and of what came of it.
fn causes(incident: &Incident, server: Option<&Server>, options: &Options) -> Vec<String> {
    let mut causes = Vec::new();
    if let Some(wait) = incident.waited_for() {
        causes.push(format!("It waited for {}", escape_sentence(wait)));
    }
    let seconds = incident.time.as_secs_f64().max(f64::MIN_POSITIVE);
    if let Some((beside, syncs)) = incident.busiest_neighbour()
        && syncs as f64 >= NEIGHBOUR_PER_SECOND * seconds
    {
        let [comm, device] = [&beside.comm, &beside.device].map(|name| options.style.name(name.as_bytes()));
        let pid = beside.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
        causes.push(format!("{comm}{pid} made {} on {device} meanwhile", counted(syncs, "sync", "syncs")));
    }
    if incident.what == What::Hang {
        causes.extend(absence::end_of_log_sync(incident.no_log_sync));
        let waited = words(server, incident.worst.role).waited();
        let is_log = incident.worst.role.is_serial();
        causes.extend(is_log.then(|| waited.trim_end_matches('.').to_owned()));
    }
    causes
}

/// `14:46:00 to 14:46:09`, `since 14:46:00`; with the day where several are told of.
fn when(incident: &Incident, with_day: bool) -> String {
    let moment = |time: SystemTime| {
        let (day, time) = day(time);
        if with_day { format!("{day} {time}") } else { time }
    };
    let (begin, end) = (moment(incident.begin), moment(incident.end));
    match incident.goes_on {
        true => format!("since {begin}"),
        false if begin == end => begin,
        false => format!("{begin} to {end}"),
    }
}

/// The day, and the time of it.
fn day(time: SystemTime) -> (String, String) {
    let text = rfc3339(time);
    (text.get(..10).unwrap_or_default().to_owned(), text.get(11..19).unwrap_or_default().to_owned())
}
