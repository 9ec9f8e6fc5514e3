//! Activity of the journals: commits and flushes, the syncs per commit, and the processes whose changes
//! they wrote.

use std::collections::BTreeMap;

use crate::model::Interval;
use crate::probe::{JournalCounts, Writer};

/// One filesystem with a journal or log on which a traced process synced in the window.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// "/dev/vda1".
    pub device: String,
    pub filesystem: Option<String>,
    /// Raw; escape it before it reaches a terminal.
    pub mount: Option<std::path::PathBuf>,
    /// None: this filesystem's commits cannot be counted (XFS has no thread that commits).
    pub commits: Option<u64>,
    /// Flushes on the filesystem's disks, whoever requested them, and writes with FUA.
    pub device_flushes: u64,
    pub log_writes: u64,
    /// Finished syncs of traced processes, durable writes included.
    pub syncs: u64,
    /// How many of them were durable writes.
    pub durable_writes: u64,
    /// Syncs of untraced processes by command name, the largest count first; those of all filesystems
    /// included.
    pub neighbours: Vec<(String, u64)>,
    /// Syncs of untraced processes of which it is not known whose they were, or where.
    pub unattributed: u64,
    /// Processes that changed metadata, the largest count first. None: cannot be observed here.
    pub writers: Option<Vec<JournalWriter>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalWriter {
    pub comm: String,
    /// 0: several processes of this name.
    pub pid: u32,
    pub traced: bool,
    /// jbd2 handles that it started.
    pub handles: u64,
}

impl Journal {
    pub(crate) fn neighbour_syncs(&self) -> u64 {
        self.neighbours.iter().map(|(_, n)| n).sum()
    }

    /// Syncs per commit, of traced and untraced processes. None: no commit, or commits cannot be counted.
    pub fn syncs_per_commit(&self) -> Option<f64> {
        per(self.syncs + self.neighbour_syncs(), self.commits?)
    }

    pub(crate) fn syncs_per_device_flush(&self) -> Option<f64> {
        per(self.syncs + self.neighbour_syncs(), self.device_flushes)
    }

    /// The traced processes' share of the changes that the commits wrote. None: cannot be observed here.
    pub fn traced_share(&self) -> Option<f64> {
        let writers = self.writers.as_ref()?;
        let handles = |wanted: fn(&&JournalWriter) -> bool| -> u64 {
            writers.iter().filter(wanted).map(|writer| writer.handles).sum()
        };
        per(handles(|writer| writer.traced), handles(|_| true))
    }
}

fn per(n: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| n as f64 / of as f64)
}

/// The filesystems on which a traced process synced.
pub fn journals(measurement: &Interval, counts: &[JournalCounts], saw_writers: bool) -> Vec<Journal> {
    let mut journals = Vec::new();
    for count in counts {
        let rows = measurement.files.iter().filter(|row| row.device_number() == Some(count.device));
        let rows: Vec<_> = rows.collect();
        let syncs = rows.iter().map(|row| row.stats.count).sum();
        if syncs == 0 {
            continue;
        }
        let durable_writes = rows.iter().filter(|row| row.op.writes()).map(|row| row.stats.count).sum();
        let infos = || rows.iter().map(|row| &row.info);
        // An overlay has another name and another mount than what it lies on.
        let of_first = infos().find(|info| info.device.is_some() && info.below.is_none());
        let device = of_first.or_else(|| infos().next()).and_then(|info| info.device.as_deref());
        let (unattributed, known): (Vec<_>, Vec<_>) =
            measurement.neighbours.iter().partition(|row| row.is_unattributed());
        let here = known.iter().filter(|row| row.is_of_any_device() || row.device_number == count.device);
        let mut by_comm: BTreeMap<&str, u64> = BTreeMap::new();
        here.for_each(|row| *by_comm.entry(&row.comm).or_default() += row.stats.all());
        let mut neighbours: Vec<(String, u64)> =
            by_comm.into_iter().map(|(comm, n)| (comm.to_owned(), n)).collect();
        neighbours.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let name = crate::linux::mountinfo::format_device(count.device);
        journals.push(Journal {
            device: device.map_or(name, str::to_owned),
            filesystem: of_first.and_then(|info| info.filesystem.as_deref()).map(str::to_owned),
            mount: of_first.and_then(|info| info.mount.as_deref()).map(Into::into),
            commits: (!count.by_device).then_some(count.commits),
            device_flushes: count.flushes,
            log_writes: count.log_writes,
            syncs,
            durable_writes,
            neighbours,
            unattributed: unattributed.iter().map(|row| row.stats.all()).sum(),
            writers: (saw_writers && !count.by_device).then(|| writers(measurement, &count.writers)),
        });
    }
    journals
}

/// Untraced writers are grouped by command name: which of a hundred short-lived processes it was does not
/// matter. The numbers in names of kernel threads are dropped.
fn writers(measurement: &Interval, all: &[Writer]) -> Vec<JournalWriter> {
    let mut merged: BTreeMap<(String, bool), (u32, u64)> = BTreeMap::new();
    for writer in all {
        let traced = measurement.servers.iter().any(|server| server.id.pid == writer.pid);
        let comm = match writer.comm.starts_with("kworker/") {
            true => "kworker".to_owned(),
            false => writer.comm.clone(),
        };
        let entry = merged.entry((comm, traced)).or_insert((writer.pid, 0));
        if entry.0 != writer.pid {
            entry.0 = 0;
        }
        entry.1 += writer.handles;
    }
    let list = merged.into_iter();
    let mut list: Vec<_> =
        list.map(|((comm, traced), (pid, handles))| JournalWriter { comm, pid, traced, handles }).collect();
    list.sort_by_key(|writer| std::cmp::Reverse(writer.handles));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, busy};

    fn writer(pid: u32, comm: &str, handles: u64) -> Writer {
        Writer { pid, comm: comm.into(), handles }
    }

    #[test]
    fn writers_are_merged_by_name_and_the_servers_share_is_of_all() {
        let m = busy();
        let raw = [
            writer(MYSQL.pid, "mysqld", 60),
            writer(1, "rsync", 20),
            writer(2, "rsync", 10),
            writer(3, "kworker/u8:1", 5),
            writer(4, "kworker/u8:2", 5),
        ];
        let merged = writers(&m, &raw);
        let shown: Vec<_> = merged.iter().map(|w| (w.comm.as_str(), w.pid, w.traced, w.handles)).collect();
        let expected = [("mysqld", MYSQL.pid, true, 60), ("rsync", 0, false, 30), ("kworker", 0, false, 10)];
        assert_eq!(shown, expected);
        let journal = Journal {
            device: "/dev/x".into(),
            filesystem: None,
            mount: None,
            commits: Some(10),
            device_flushes: 20,
            log_writes: 0,
            syncs: 30,
            durable_writes: 0,
            neighbours: vec![("rsync".into(), 10)],
            unattributed: 0,
            writers: Some(merged),
        };
        assert_eq!(journal.traced_share(), Some(0.6));
        assert_eq!((journal.syncs_per_commit(), journal.syncs_per_device_flush()), (Some(4.0), Some(2.0)));
        let none = Journal { commits: None, writers: None, device_flushes: 0, ..journal };
        assert_eq!(
            (none.syncs_per_commit(), none.syncs_per_device_flush(), none.traced_share()),
            (None, None, None)
        );
    }
}
