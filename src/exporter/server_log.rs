//! What the log says of servers that start and end: a line for each of the first in a minute, then one with
//! the number of the others, since anybody can start processes that are called mysqld.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::log::Level;
use crate::model::{Server, ServerId};
use crate::server::what::describe::in_words;
use crate::server::who::processes::cut_to_tick;

/// Lines for single servers in each period: a host with many of them lists them all when the exporter starts.
const LINES: usize = 24;
const PERIOD: Duration = Duration::from_secs(60);
/// How long the log waits for a new server to be described.
const DESCRIBED_WITHIN: u32 = 5;

pub(crate) type Line = (Level, String);

#[derive(Debug)]
pub(crate) struct ServerLog {
    /// By an identity that stays: until a process syncs, its start is known to a clock tick only.
    servers: BTreeMap<ServerId, Seen>,
    period: Instant,
    /// Lines for single servers in this period.
    lines: usize,
    /// Without a line of their own in this period.
    found: u64,
    ended: u64,
}

#[derive(Debug)]
struct Seen {
    looks: u32,
    reported: Reported,
    words: String,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    NotYet,
    /// By a line of its own.
    Alone,
    /// In a sum.
    Counted,
}

impl ServerLog {
    pub fn new(now: Instant) -> ServerLog {
        ServerLog { servers: BTreeMap::new(), period: now, lines: 0, found: 0, ended: 0 }
    }

    /// Those that run.
    pub fn running(&self) -> usize {
        self.servers.values().filter(|seen| !seen.has_ended).count()
    }

    /// The lines that are due, given the servers of the latest snapshot.
    pub fn update(&mut self, servers: &[Arc<Server>], now: Instant) -> Vec<Line> {
        let mut lines = self.sum_up(now);
        for server in servers {
            self.look_at(server, &mut lines);
        }
        // Those that ended long ago are in no snapshot any more, nor is their end seen if snapshots come
        // seldom.
        let there: BTreeSet<ServerId> = servers.iter().map(|server| cut_to_tick(server.id)).collect();
        let gone: Vec<ServerId> = self.servers.keys().filter(|id| !there.contains(id)).copied().collect();
        for id in gone {
            if let Some(mut seen) = self.servers.remove(&id) {
                self.end(&mut seen, &mut lines);
            }
        }
        lines
    }

    fn look_at(&mut self, server: &Server, lines: &mut Vec<Line>) {
        // The pseudo-server that stands for all that are forgotten.
        if server.id == ServerId::ENDED {
            return;
        }
        let new = Seen { looks: 0, reported: Reported::NotYet, words: String::new(), has_ended: false };
        let id = cut_to_tick(server.id);
        let mut seen = self.servers.remove(&id).unwrap_or(new);
        if server.alive {
            seen.looks += 1;
            seen.words = in_words(server);
            let is_described = server.version.is_some() && server.datadir.is_some();
            if seen.reported == Reported::NotYet && (is_described || seen.looks > DESCRIBED_WITHIN) {
                self.find(&mut seen, server, lines);
            }
        } else {
            self.end(&mut seen, lines);
        }
        self.servers.insert(id, seen);
    }

    fn find(&mut self, seen: &mut Seen, server: &Server, lines: &mut Vec<Line>) {
        if !self.takes_line() {
            self.found += 1;
            seen.reported = Reported::Counted;
            return;
        }
        seen.reported = Reported::Alone;
        lines.push((Level::Info, format!("tracing {}", seen.words)));
        for note in &server.notes {
            if self.takes_line() {
                lines.push((Level::Warning, format!("process {}: {note}", server.id.pid)));
            }
        }
    }

    fn end(&mut self, seen: &mut Seen, lines: &mut Vec<Line>) {
        if std::mem::replace(&mut seen.has_ended, true) {
            return;
        }
        if seen.reported == Reported::NotYet {
            self.found += 1;
            seen.reported = Reported::Counted;
        }
        if seen.reported == Reported::Alone && self.takes_line() {
            lines.push((Level::Info, format!("ended: {}", seen.words)));
        } else {
            self.ended += 1;
        }
    }

    fn takes_line(&mut self) -> bool {
        let is_free = self.lines < LINES;
        self.lines += usize::from(is_free);
        is_free
    }

    fn sum_up(&mut self, now: Instant) -> Vec<Line> {
        if now.saturating_duration_since(self.period) < PERIOD {
            return Vec::new();
        }
        self.period = now;
        self.lines = 0;
        let (found, ended) = (std::mem::take(&mut self.found), std::mem::take(&mut self.ended));
        let servers =
            |n: u64| if n == 1 { "1 more server was".into() } else { format!("{n} more servers were") };
        let text = match (found, ended) {
            (0, 0) => return Vec::new(),
            (found, 0) => format!("{} found in the last minute", servers(found)),
            (0, 1) => "1 more server ended in the last minute".into(),
            (0, ended) => format!("{ended} more servers ended in the last minute"),
            (found, ended) => format!("{} found and {ended} ended in the last minute", servers(found)),
        };
        vec![(Level::Info, text)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host {
        log: ServerLog,
        servers: Vec<Arc<Server>>,
        now: Instant,
    }

    impl Host {
        fn new() -> Host {
            let now = Instant::now();
            Host { log: ServerLog::new(now), servers: Vec::new(), now }
        }

        fn start(&mut self, pid: u32, is_described: bool) {
            let mut server = Server::new(ServerId { pid, start_ns: 1 }, "mysqld".into());
            if is_described {
                server.version = Some("MySQL 9.4.0".into());
                server.datadir = Some("/var/lib/mysql".into());
            }
            self.servers.push(Arc::new(server));
        }

        fn end(&mut self, pid: u32) {
            let server = self.servers.iter_mut().find(|server| server.id.pid == pid).unwrap();
            Arc::make_mut(server).alive = false;
        }

        /// A second later.
        fn update(&mut self) -> Vec<String> {
            self.now += Duration::from_secs(1);
            self.log.update(&self.servers, self.now).into_iter().map(|(_, text)| text).collect()
        }
    }

    #[test]
    fn a_server_is_told_when_it_is_described_and_when_it_ends() {
        let mut host = Host::new();
        host.start(1, true);
        assert_eq!(host.update(), ["tracing mysqld 1, MySQL 9.4.0, /var/lib/mysql"]);
        assert_eq!((host.update().len(), host.log.running()), (0, 1));
        // Its start is known to the nanosecond from its first sync on.
        Arc::make_mut(&mut host.servers[0]).id.start_ns += 1_234_567;
        assert_eq!((host.update().len(), host.log.running()), (0, 1));
        host.end(1);
        assert_eq!(host.update(), ["ended: mysqld 1, MySQL 9.4.0, /var/lib/mysql"]);
        assert_eq!((host.update().len(), host.log.running()), (0, 0));
        host.servers.clear();
        assert_eq!(host.update(), [""; 0]);
    }

    #[test]
    fn thousands_that_come_and_go_are_a_few_lines_and_exact_sums() {
        let mut host = Host::new();
        let mut lines = Vec::new();
        for pid in 1..=10_000 {
            host.start(pid, pid % 2 == 0);
            if pid % 100 == 0 {
                lines.extend(host.update());
                let last: Vec<u32> = host.servers.iter().map(|server| server.id.pid).collect();
                last.into_iter().for_each(|pid| host.end(pid));
                lines.extend(host.update());
                host.servers.clear();
            }
        }
        host.now += PERIOD;
        lines.extend(host.update());
        assert!(lines.len() < 200, "{} lines", lines.len());
        let of = |word| lines.iter().filter(|line| line.starts_with(word)).count() as u64;
        let sums = lines.iter().filter(|line| line.ends_with("in the last minute"));
        let numbers = sums.flat_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let before =
                |word| words.iter().position(|&found| found == word).map(|at| words[at - 1].to_owned());
            [words[0].to_owned(), before("ended").unwrap()]
        });
        let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
        let (found, ended): (Vec<_>, Vec<_>) = numbers.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
        assert_eq!(of("tracing ") + found.iter().sum::<u64>(), 10_000);
        assert_eq!(of("ended: ") + ended.iter().sum::<u64>(), 10_000);
    }

    #[test]
    fn one_that_was_over_before_it_was_described_is_counted() {
        let mut host = Host::new();
        host.start(1, false);
        assert_eq!(host.update(), [""; 0]);
        host.end(1);
        assert_eq!(host.update(), [""; 0]);
        host.now += PERIOD;
        assert_eq!(host.update(), ["1 more server was found and 1 ended in the last minute"]);
    }
}
