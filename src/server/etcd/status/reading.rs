//! What etcd told at one moment, and which server it is.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::metrics::Sample;
use crate::model::{Server, Texts};
use crate::server::asking::identity::{Origin, started};
use crate::server::asking::told::{Told, chosen};
use crate::server::asking::{Counted, StatusError};

/// Syncs of the write-ahead log, and of its directory once a file of it is begun (server/storage/wal/wal.go).
pub(crate) const WAL: &str = "etcd_disk_wal_fsync_duration_seconds_count";
/// Commits of the backend (server/storage/backend/batch_tx.go).
pub(crate) const COMMITS: &str = "etcd_disk_backend_commit_duration_seconds_count";
/// Copies of the backend to another file, which takes its place (backend.go).
pub(crate) const DEFRAGMENTATIONS: &str = "etcd_disk_backend_defrag_duration_seconds_count";
/// Syncs of snapshots (server/etcdserver/api/snap/snapshotter.go).
pub(crate) const SNAPSHOTS: &str = "etcd_snap_fsync_duration_seconds_count";
/// Syncs of whole backends that another member sends (snap/db.go).
pub(crate) const SENT_SNAPSHOTS: &str = "etcd_snap_db_fsync_duration_seconds_count";

const COUNTERS: [&str; 5] = [WAL, COMMITS, DEFRAGMENTATIONS, SNAPSHOTS, SENT_SNAPSHOTS];
const STARTED: &str = "process_start_time_seconds";
const VERSION: (&str, &str) = ("etcd_server_version", "server_version");

/// Between the start of a process as etcd's library computes it, from the second in which the host was
/// started, and as we do.
const START_TOLERANCE: f64 = 2.0;

/// No time of a process; more digits than a message should have.
const YEAR_5138: f64 = 1e11;

#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    origin: Origin,
    counters: BTreeMap<&'static str, u64>,
    /// By etcd's clock, in seconds since 1970. It is not told where etcd has no /proc.
    started: Option<f64>,
    version: Option<String>,
}

impl Reading {
    pub(super) fn empty(origin: Origin) -> Reading {
        Reading { origin, counters: BTreeMap::new(), started: None, version: None }
    }

    /// Keeps what is of use in this line. Why the page cannot be etcd's, if it cannot.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(sample) = Sample::parse(line) else { return Ok(()) };
        if sample.name == VERSION.0 {
            self.version = self.version.take().or_else(|| sample.version(VERSION.1));
        } else if sample.name == STARTED {
            self.started = sample.number().filter(|seconds| (0.0..YEAR_5138).contains(seconds));
        } else if let Some(&counter) = COUNTERS.iter().find(|counter| **counter == sample.name) {
            let count = sample.count().filter(|_| sample.labels.is_empty());
            let count = count.ok_or_else(|| format!("its {counter} is no count"))?;
            if self.counters.insert(counter, count).is_some() {
                return Err(format!("it tells {counter} twice"));
            }
        }
        Ok(())
    }

    /// It has what every etcd has.
    pub(super) fn is_complete(&self) -> bool {
        [WAL, COMMITS].iter().all(|counter| self.counters.contains_key(counter))
    }

    /// Counters by name; for tests and recordings.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, u64)>) -> Reading {
        let mut reading = Reading::empty(Origin::Process(0));
        for (name, count) in pairs {
            reading.add(format!("{name} {count}").as_bytes()).unwrap_or_default();
        }
        reading
    }

    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }

    /// Whether this is the server that is traced. Looks into its /proc: not for a hot path.
    pub fn is_of(&self, server: &Server) -> Result<(), StatusError> {
        let pid = server.id.pid;
        let (listens, place) = self.origin.is_of(server);
        let ours = started(server).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let why = match (listens, self.started) {
            (Some(false), _) => format!("process {pid} does not listen at {place}"),
            (_, Some(theirs)) if (theirs - ours).abs() > START_TOLERANCE => {
                format!("it was started at {theirs:.0}, process {pid} at {ours:.0} (seconds since 1970)")
            }
            (None, None) => format!(
                "it does not tell when it was started, and process {pid}, in a network namespace of its own, cannot be \
                 seen to listen at {place}"
            ),
            _ => return Ok(()),
        };
        Err(StatusError::OtherServer(why))
    }
}

impl Told for Reading {
    const ASKS_FOR_ALL: bool = true;
    const HAS_SETTINGS: bool = false;

    fn counters(&self) -> Texts {
        chosen(&self.counters, |_| true)
    }

    fn settings(&self) -> Texts {
        Texts::new()
    }

    fn of_told(counters: &Texts, _: &Texts) -> Reading {
        let counters = counters.iter().filter_map(|(name, count)| Some((name.as_str(), count.parse().ok()?)));
        Reading::from_pairs(counters)
    }
}

/// Two readings, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    pub from: &'a Reading,
    pub to: &'a Reading,
}

impl Between<'_> {
    /// By how much a counter grew. None: it is not there, or went backwards.
    pub fn grown(&self, name: &'static str) -> Option<Counted> {
        Counted::grown(name, self.from.count(name), self.to.count(name))
    }

    /// All that grew.
    pub(crate) fn moved(&self) -> u64 {
        COUNTERS.iter().filter_map(|name| self.grown(name)).map(|counted| counted.count).sum()
    }

    /// Why no counter of this interval can be used.
    pub fn interrupted(&self) -> Option<&'static str> {
        let went_back =
            |name: &&str| self.to.count(name).zip(self.from.count(name)).is_some_and(|(to, from)| to < from);
        let started = self.from.started.zip(self.to.started);
        let is_other = started.is_some_and(|(from, to)| (from - to).abs() > START_TOLERANCE);
        (is_other || COUNTERS.iter().any(went_back))
            .then_some("the server was restarted, or its clock set, meanwhile")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::Path;

    use super::*;
    use crate::server::who::processes;

    fn page(lines: &str, origin: Origin) -> Result<Reading, String> {
        let mut reading = Reading::empty(origin);
        lines.lines().try_for_each(|line| reading.add(line.as_bytes()))?;
        Ok(reading)
    }

    const NOBODY: Origin = Origin::Process(0);

    #[test]
    fn of_a_page_the_counters_are_kept_with_start_and_version() {
        let lines = format!(
            "# TYPE {WAL} counter\n{WAL} 1.234567e+06\n{COMMITS} 7\netcd_disk_wal_fsync_duration_seconds_sum 3.5\n\
             etcd_disk_wal_fsync_duration_seconds_bucket{{le=\"0.001\"}} 4\n{STARTED} 1.79575204e+09\n\
             etcd_server_version{{server_version=\"3.4.23\"}} 1\nsome_other 8\n"
        );
        let reading = page(&lines, NOBODY).unwrap();
        assert_eq!(
            (reading.count(WAL), reading.count(COMMITS), reading.count(SNAPSHOTS)),
            (Some(1_234_567), Some(7), None)
        );
        assert_eq!((reading.started, reading.version()), (Some(1_795_752_040.0), Some("3.4.23")));
        assert!(reading.is_complete() && reading.counters.len() == 2);
        assert!(!page(&format!("{WAL} 1\n"), NOBODY).unwrap().is_complete());
    }

    #[test]
    fn what_cannot_be_a_counter_of_etcd_s_is_an_error() {
        for (lines, says) in [
            (format!("{WAL} 1\n{WAL} 2\n"), "twice"),
            (format!("{WAL} -1\n"), "no count"),
            (format!("{WAL} NaN\n"), "no count"),
            (format!("{WAL}{{disk=\"a\"}} 1\n"), "no count"),
        ] {
            assert!(page(&lines, NOBODY).unwrap_err().contains(says), "{lines}");
        }
    }

    #[test]
    fn a_restart_is_told_by_its_time_or_by_counters_that_went_back() {
        let at =
            |started: &str, wal: u64| page(&format!("{started}{WAL} {wal}\n{COMMITS} 1\n"), NOBODY).unwrap();
        let of = |from: Reading, to: Reading| Between { from: &from, to: &to }.interrupted().is_some();
        let (one, same, other) =
            (format!("{STARTED} 100.02\n"), format!("{STARTED} 101.02\n"), format!("{STARTED} 104\n"));
        assert!(!of(at(&one, 5), at(&same, 5)) && !of(at("", 5), at("", 6)));
        assert!(of(at(&one, 5), at(&other, 9)) && of(at(&one, 5), at(&one, 4)) && of(at("", 5), at("", 4)));
        let (from, to) = (at(&one, 5), at(&one, 4));
        assert_eq!(Between { from: &from, to: &to }.grown(WAL), None);
    }

    #[test]
    fn another_server_is_told_by_where_it_listens_and_when_it_was_started() {
        let me = processes::find(Path::new("/proc"), std::process::id()).unwrap().id();
        let server = Server::new(me, "etcd".into());
        let mut other = server.clone();
        other.id.start_ns += 10_000_000_000;
        let begun = started(&server).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let lines = format!("{STARTED} {}\n", begun.as_secs_f64().floor());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let here = Origin::Address { address, is_here: true };
        let is_of = |lines: &str, origin, server: &Server| {
            page(lines, origin).unwrap().is_of(server).map_err(|error| error.to_string())
        };
        for origin in [here, Origin::Process(me.pid)] {
            assert_eq!(is_of(&lines, origin, &server), Ok(()));
            assert_eq!(is_of("", origin, &server), Ok(()), "the kernel says who listens");
            assert!(is_of(&lines, origin, &other).unwrap_err().contains("it was started at"));
        }
        assert!(is_of(&lines, Origin::Process(1), &server).unwrap_err().contains("does not listen at"));
        // Whatever it says of its start, it is another host's.
        let elsewhere = Origin::Address { address, is_here: false };
        assert!(is_of(&lines, elsewhere, &server).unwrap_err().contains("does not listen at"));
        drop(listener);
        assert!(is_of(&lines, here, &server).unwrap_err().contains("does not listen at 127.0.0.1"));
    }
}
