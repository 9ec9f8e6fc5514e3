//! In the prober: each snapshot judged, and servers called as the metrics call them. Nothing here waits for
//! anything but a lock that is held for a copy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::told::{Gone, OfServer, Told};
use crate::engine::engines::Engines;
use crate::exporter::collect::{Collector, Labelled};
use crate::linux::blocking::Mailbox;
use crate::linux::clock::monotonic;
use crate::live::{Judging, State as Sampling};
use crate::model::{Owner, ServerId};
use crate::server::who::naming::OTHER;
use crate::server::who::processes::cut_to_tick;
use crate::server::who::shares::{Admission, Room};
use crate::verdict::remembered::Remembered;
use crate::verdict::{self, State, Thresholds, Verdict};

/// Names that are remembered after their servers: each owner's oldest are forgotten first.
const MOST_GONE: usize = 256;
const GONE: Room = Room { all: MOST_GONE, reserve: MOST_GONE / 4 };

pub(crate) struct Verdicts {
    judging: Judging,
    /// What the last ones follow from, and what they are.
    last: Option<(Sampling, Arc<Told>)>,
    /// They are no longer so, though nothing new was seen.
    is_outdated: bool,
    /// The processes of each server that is told of.
    processes: BTreeMap<String, Vec<ServerId>>,
    /// Keeps the failures for the next exporter.
    keeper: Option<Mailbox<Remembered>>,
    kept: Remembered,
}

impl Verdicts {
    /// `before`: the failures that the exporter before has left. `keeper`: where they are kept from now on.
    pub fn new(
        thresholds: Thresholds,
        interval: Duration,
        engines: Arc<Engines>,
        before: Remembered,
        keeper: Option<Mailbox<Remembered>>,
    ) -> Verdicts {
        let mut judging = Judging::new(thresholds, interval, engines);
        judging.restore(before.clone());
        Verdicts { judging, last: None, is_outdated: false, processes: BTreeMap::new(), keeper, kept: before }
    }

    /// The newest, which are those of before where there is nothing new.
    pub fn of(&mut self, collector: &Collector) -> Arc<Told> {
        let (published, sampling) = (collector.published(), collector.live().state());
        if let Some((before, told)) = &self.last
            && published.is_none()
            && *before == sampling
            && !self.is_outdated
        {
            return told.clone();
        }
        let verdicts = self.judging.follow(published.as_ref(), &sampling);
        self.keep();
        collector.live().set_judging(self.judging.spent());
        let labelled = collector.labelled();
        let before = self.last.as_ref().map(|(_, told)| &**told);
        let host = &collector.live().latest().setup.host;
        let told = Arc::new(told(&verdicts, &labelled, host, before));
        let ids = |of: Labelled| (of.label, of.main.into_iter().chain(of.others).collect());
        self.processes = labelled.into_iter().map(ids).collect();
        self.last = Some((sampling, told.clone()));
        self.is_outdated = false;
        told
    }

    fn keep(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        let failures = self.judging.remembered();
        if failures != self.kept {
            keeper.ask(failures.clone());
            self.kept = failures;
        }
    }

    /// Of how many files its failures were. None: no server is called so.
    pub fn acknowledge(&mut self, server: &str) -> Option<u64> {
        let processes = self.processes.get(server)?;
        let number = processes.iter().map(|&id| self.judging.acknowledge(id) as u64).sum();
        self.is_outdated = true;
        Some(number)
    }
}

/// `before`: what was told last.
fn told(verdicts: &verdict::Verdicts, labelled: &[Labelled], host: &str, before: Option<&Told>) -> Told {
    let now = Instant::now();
    let age = verdicts.age(now);
    let made = monotonic().saturating_sub(age);
    let by_id: BTreeMap<ServerId, &Verdict> =
        verdicts.servers.iter().map(|verdict| (cut_to_tick(verdict.server), verdict)).collect();
    let found = |id: &ServerId| by_id.get(&cut_to_tick(*id)).copied();
    let server = |of: &Labelled| {
        let main = of.main.as_ref().and_then(found);
        // Of what a server starts under its own name only what is certain counts: it comes and goes.
        let is_certain = |verdict: &&Verdict| of.main.is_none() || verdict.state >= State::Stalled;
        let others = of.others.iter().filter_map(found).filter(is_certain);
        let worst = main.into_iter().chain(others).max_by_key(|verdict| verdict.state);
        match worst {
            Some(verdict) => {
                let verdict::OfServer { pid, state, sentence, because, storage, .. } =
                    verdict::OfServer::of(verdict, String::new(), now);
                let because = because.and_then(|because| serde_json::to_string(&because).ok());
                let storage = storage.and_then(|storage| serde_json::to_string(&storage).ok());
                let began = monotonic().saturating_sub(now.saturating_duration_since(verdict.since));
                OfServer {
                    name: of.label.clone(),
                    pid,
                    whose: of.whose,
                    uid: of.uid,
                    unit: of.unit.clone(),
                    state,
                    since: verdict.since_wall,
                    began,
                    sentence,
                    because,
                    storage,
                    is_running: true,
                }
            }
            None => {
                let why = if of.is_alive { "it has not been looked at yet" } else { "it does not run" };
                // That it does not run follows from no look at it: it has been so since that was said first.
                let before = before.and_then(|told| told.servers.iter().find(|one| one.name == of.label));
                let same = before
                    .filter(|one| one.state == State::Unknown && one.is_running == of.is_alive)
                    .map(|one| (one.since, one.began));
                let (since, began) = same.unwrap_or((verdicts.made_wall, made));
                OfServer {
                    name: of.label.clone(),
                    pid: of.main.map_or(0, |id| id.pid),
                    whose: of.whose,
                    uid: of.uid,
                    unit: of.unit.clone(),
                    state: State::Unknown,
                    since,
                    began,
                    sentence: format!("Nothing can be said of it: {why}."),
                    because: None,
                    storage: None,
                    is_running: of.is_alive,
                }
            }
        }
    };
    let gone = before.map_or_else(Vec::new, |before| gone(before, labelled));
    let not_tracing = match &verdicts.tracing {
        verdict::Tracing::Running { .. } => None,
        verdict::Tracing::Not { why } => Some(why.clone()),
    };
    Told {
        host: host.to_owned(),
        made,
        made_wall: SystemTime::now().checked_sub(age).unwrap_or(verdicts.made_wall),
        valid_for: verdicts.valid_for,
        not_tracing,
        not_recording: None,
        servers: labelled.iter().map(server).collect(),
        gone,
    }
}

/// The names of before that no server has any more, the newest last.
fn gone(before: &Told, labelled: &[Labelled]) -> Vec<Gone> {
    let is_gone = |name: &str| name != OTHER && labelled.iter().all(|of| of.label != name);
    let mut gone: Vec<Gone> = before.gone.iter().filter(|gone| is_gone(&gone.name)).cloned().collect();
    for server in before.servers.iter().filter(|server| is_gone(&server.name)) {
        let mut held: BTreeMap<Owner, usize> = BTreeMap::new();
        gone.iter().for_each(|gone| *held.entry(gone.whose).or_default() += 1);
        let gives_way = match GONE.admit(&held, server.whose) {
            Admission::Free => None,
            Admission::InPlaceOf(owner) => Some(owner),
            // It does not belong to who keeps others out, but to itself.
            Admission::Refused => Some(server.whose),
        };
        if let Some(owner) = gives_way {
            match gone.iter().position(|gone| gone.whose == owner) {
                Some(oldest) => drop(gone.remove(oldest)),
                None => continue,
            }
        }
        gone.push(Gone { name: server.name.clone(), whose: server.whose });
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL};
    use crate::verdict::Tracing;

    const SECOND: Duration = Duration::from_secs(1);

    fn verdicts(made_wall: SystemTime, servers: Vec<Verdict>) -> verdict::Verdicts {
        let tracing = Tracing::Running { interval: SECOND };
        verdict::Verdicts { made: Instant::now(), made_wall, valid_for: 5 * SECOND, tracing, servers }
    }

    #[test]
    fn a_server_that_does_not_run_has_not_run_since_that_was_first_seen() {
        let at = |seconds| SystemTime::UNIX_EPOCH + seconds * SECOND;
        let labelled = |is_alive| {
            let server = fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
            [Labelled::new("3306", Some(&server), is_alive)]
        };
        let ok = Verdict {
            server: MYSQL,
            state: State::Ok,
            since: Instant::now(),
            since_wall: at(100),
            because: None,
            storage: None,
        };
        let since = |told: &Told| (told.servers[0].state, told.servers[0].since);

        let new = told(&verdicts(at(99), vec![]), &labelled(true), "db1", None);
        assert_eq!(since(&new), (State::Unknown, at(99)), "not looked at yet");
        let runs = told(&verdicts(at(100), vec![ok.clone()]), &labelled(true), "db1", Some(&new));
        assert_eq!(since(&runs), (State::Ok, at(100)));
        let stopped = told(&verdicts(at(200), vec![]), &labelled(false), "db1", Some(&runs));
        assert_eq!(since(&stopped), (State::Unknown, at(200)));
        let still = told(&verdicts(at(201), vec![]), &labelled(false), "db1", Some(&stopped));
        assert_eq!(since(&still), (State::Unknown, at(200)), "the same in two snapshots");
        assert!(still.servers[0].sentence.contains("does not run"));
        let again = told(&verdicts(at(300), vec![]), &labelled(true), "db1", Some(&still));
        assert_eq!(since(&again), (State::Unknown, at(300)), "it runs, and nobody has looked");
        let none = told(&verdicts(at(301), vec![]), &[], "db1", Some(&again));
        let names: Vec<&str> = none.gone.iter().map(|gone| &*gone.name).collect();
        assert_eq!((none.servers.len(), names), (0, vec!["3306"]));
        let longer = told(&verdicts(at(302), vec![]), &[], "db1", Some(&none));
        assert_eq!(longer.gone, none.gone);
        let back = told(&verdicts(at(303), vec![ok]), &labelled(true), "db1", Some(&longer));
        assert!(back.gone.is_empty());
    }

    #[test]
    fn of_the_names_that_are_gone_those_of_who_has_most_are_forgotten_first() {
        let mut before = Told::of_one("3306", State::Ok);
        let of = |whose| move |number: usize| Gone { name: number.to_string(), whose };
        let names =
            |before: &Told| -> Vec<String> { gone(before, &[]).into_iter().map(|gone| gone.name).collect() };
        before.gone = (0..MOST_GONE).map(of(Owner::User(1001))).collect();
        let of_stranger = names(&before);
        assert_eq!(
            (of_stranger.len(), &*of_stranger[0], &*of_stranger[MOST_GONE - 1]),
            (MOST_GONE, "1", "3306")
        );
        // A stranger who comes and goes drives no name of a service out, not even the oldest one.
        before.gone =
            (0..64).map(of(Owner::System(999))).chain((64..256).map(of(Owner::User(1001)))).collect();
        before.servers[0].whose = Owner::User(1001);
        let with_services = names(&before);
        assert_eq!((&*with_services[0], &*with_services[64]), ("0", "65"));
        assert!(gone(&Told::of_one(OTHER, State::Ok), &[]).is_empty());
    }
}
