//! In the prober: each snapshot judged, and servers called as the metrics call them. Nothing here waits for
//! anything but a lock that is held for a copy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::told::{OfServer, Told, monotonic};
use crate::exporter::collect::{Collector, Labelled};
use crate::live::{Judging, State as Sampling};
use crate::model::ServerId;
use crate::server::processes::cut_to_tick;
use crate::verdict::{self, State, Thresholds, Verdict};

pub(crate) struct Verdicts {
    judging: Judging,
    /// What the last ones follow from, and what they are.
    last: Option<(Instant, Sampling, Arc<Told>)>,
    /// They are no longer so, though nothing new was seen.
    is_outdated: bool,
    /// The processes of each server that is told of.
    processes: BTreeMap<String, Vec<ServerId>>,
}

impl Verdicts {
    pub fn new(thresholds: Thresholds, interval: Duration) -> Verdicts {
        Verdicts {
            judging: Judging::new(thresholds, interval),
            last: None,
            is_outdated: false,
            processes: BTreeMap::new(),
        }
    }

    /// The newest, which are those of before where there is nothing new.
    pub fn of(&mut self, collector: &Collector) -> Arc<Told> {
        let (snapshot, sampling) = (collector.live().latest(), collector.live().state());
        if let Some((taken, before, told)) = &self.last
            && *taken == snapshot.taken
            && *before == sampling
            && !self.is_outdated
        {
            return told.clone();
        }
        let verdicts = self.judging.follow(&snapshot, &sampling);
        collector.live().set_judging(self.judging.spent());
        let labelled = collector.labelled();
        let before = self.last.as_ref().map(|(.., told)| &**told);
        let told = Arc::new(told(&verdicts, &labelled, &snapshot.setup.host, before));
        let ids = |of: Labelled| (of.label, of.main.into_iter().chain(of.others).collect());
        self.processes = labelled.into_iter().map(ids).collect();
        self.last = Some((snapshot.taken, sampling, told.clone()));
        self.is_outdated = false;
        told
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
                let verdict::OfServer { pid, state, sentence, because, .. } =
                    verdict::OfServer::of(verdict, String::new(), now);
                let because = because.and_then(|because| serde_json::to_string(&because).ok());
                let (since, is_running) = (verdict.since_wall, true);
                OfServer { name: of.label.clone(), pid, state, since, sentence, because, is_running }
            }
            None => {
                let why = if of.is_alive { "it has not been looked at yet" } else { "it does not run" };
                // That it does not run follows from no look at it: it has been so since that was said first.
                let before = before.and_then(|told| told.servers.iter().find(|one| one.name == of.label));
                let same = before
                    .filter(|one| one.state == State::Unknown && one.is_running == of.is_alive)
                    .map(|one| one.since);
                OfServer {
                    name: of.label.clone(),
                    pid: of.main.map_or(0, |id| id.pid),
                    state: State::Unknown,
                    since: same.unwrap_or(verdicts.made_wall),
                    sentence: format!("Nothing can be said of it: {why}."),
                    because: None,
                    is_running: of.is_alive,
                }
            }
        }
    };
    let not_tracing = match &verdicts.tracing {
        verdict::Tracing::Running { .. } => None,
        verdict::Tracing::Not { why } => Some(why.clone()),
    };
    let age = verdicts.age(now);
    Told {
        host: host.to_owned(),
        made: monotonic().saturating_sub(age),
        made_wall: SystemTime::now().checked_sub(age).unwrap_or(verdicts.made_wall),
        valid_for: verdicts.valid_for,
        not_tracing,
        servers: labelled.iter().map(server).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::MYSQL;
    use crate::verdict::Tracing;

    const SECOND: Duration = Duration::from_secs(1);

    fn verdicts(made_wall: SystemTime, servers: Vec<Verdict>) -> verdict::Verdicts {
        let tracing = Tracing::Running { interval: SECOND };
        verdict::Verdicts { made: Instant::now(), made_wall, valid_for: 5 * SECOND, tracing, servers }
    }

    #[test]
    fn a_server_that_does_not_run_has_not_run_since_that_was_first_seen() {
        let at = |seconds| SystemTime::UNIX_EPOCH + seconds * SECOND;
        let labelled =
            |is_alive| [Labelled { label: "3306".into(), main: Some(MYSQL), is_alive, others: Vec::new() }];
        let ok = Verdict {
            server: MYSQL,
            state: State::Ok,
            since: Instant::now(),
            since_wall: at(100),
            because: None,
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
    }
}
