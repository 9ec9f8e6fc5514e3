//! Interval logs of HdrHistogram, version 2: a file for each server and role, a line for each interval and
//! operation.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::model::histogram::{LAST_EXPONENT, lower_edge, midpoint, upper_edge};
use crate::model::{Interval, Op, Role, RoleRow, ServerId, Stats};

/// Latencies above that count as this long, more than half an hour.
const HIGHEST: u64 = 1 << (LAST_EXPONENT + 1);
/// Of the value, as most who write such logs choose.
const SIGNIFICANT_DIGITS: u8 = 3;
/// A recording from a stranger does not fill a filesystem with files.
const MOST_LOGS: usize = 10_000;
/// Of a file's name, what is the server's.
const LONGEST_NAME: usize = 100;

/// The logs in a folder. Each is opened for a line at a time: there may be more of them than a process may
/// have open.
pub(crate) struct Logs {
    folder: PathBuf,
    paths: BTreeMap<(ServerId, Role), PathBuf>,
    /// Names of logs, with how many were to have that name.
    taken: BTreeMap<String, u32>,
    serializer: V2DeflateSerializer,
}

impl Logs {
    pub fn new(folder: &Path) -> Logs {
        let (paths, taken) = (BTreeMap::new(), BTreeMap::new());
        Logs { folder: folder.to_owned(), paths, taken, serializer: V2DeflateSerializer::new() }
    }

    pub fn len(&self) -> usize {
        self.paths.len()
    }

    pub fn push(&mut self, m: &Interval) -> io::Result<()> {
        let rows = m.roles.iter().chain(&m.write_roles);
        rows.filter(|row| !row.stats.histogram.is_empty()).try_for_each(|row| self.append(row, m))
    }

    fn append(&mut self, row: &RoleRow, m: &Interval) -> io::Result<()> {
        let mut builder = IntervalLogWriterBuilder::new();
        let key = (row.server, row.role);
        if !self.paths.contains_key(&key) {
            if self.paths.len() >= MOST_LOGS {
                return Err(io::Error::other("there are too many servers for a file each"));
            }
            let server = m.server(row.server).map_or("other", |server| &server.name);
            let name = self.name_for(&format!("{}.{}", plain(server), row.role.name()));
            self.paths.insert(key, self.folder.join(name));
            for line in header(row.role) {
                builder.add_comment(&line);
            }
            builder.with_start_time(m.span.start);
        }
        let mut line = Vec::new();
        let begin = m.span.start.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let tag = tag(row.op);
        builder
            .begin_log_with(&mut line, &mut self.serializer)?
            .write_histogram(&latencies(&row.stats), begin, m.span.duration, Tag::new(&tag))
            .map_err(|error| io::Error::other(error.to_string()))?;
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o640).open(&self.paths[&key])?.write_all(&line)
    }

    /// No two logs have the same.
    fn name_for(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while self.taken.contains_key(&name) {
            let number = self.taken.entry(wanted.to_owned()).or_insert(1);
            *number += 1;
            name = format!("{wanted}-{number}");
        }
        self.taken.insert(name.clone(), 1);
        name + ".hlog"
    }
}

fn header(role: Role) -> [String; 4] {
    [
        "[Histogram log format version 1.3]".into(),
        format!("fsynctop: latencies of operations on files of role {}", role.name()),
        "Values and Interval_Max are nanoseconds: no divisor is applied. The tag is the operation.".into(),
        "Timestamps are seconds since the epoch; StartTime is that of the first interval here.".into(),
    ]
}

/// A tag has no spaces.
fn tag(op: Op) -> String {
    op.name().replace(' ', "-")
}

/// A part of a file's name whatever the server is called: no path, no option, and not hidden.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain: String = name.chars().take(LONGEST_NAME).map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain.is_empty() || plain.starts_with(['.', '-']) { format!("_{plain}") } else { plain }
}

/// The midpoint of its bucket stands for each latency, but the longest for itself, as far as it is known.
fn latencies(stats: &Stats) -> Histogram<u64> {
    let mut latencies =
        Histogram::new_with_bounds(1, HIGHEST, SIGNIFICANT_DIGITS).expect("these bounds are valid");
    let highest = stats.histogram.highest_bucket();
    for (bucket, n) in stats.histogram.iter() {
        if Some(bucket) == highest {
            let longest = stats.max.ns.clamp(lower_edge(bucket), upper_edge(bucket) - 1);
            latencies.saturating_record(longest.max(1));
            latencies.saturating_record_n(midpoint(bucket).clamp(1, longest.max(1)), n - 1);
        } else {
            latencies.saturating_record_n(midpoint(bucket).max(1), n);
        }
    }
    latencies
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine as _;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::model::fixture::{MYSQL, busy, hostile, stats, two_servers};
    use crate::model::histogram::bucket_of;

    /// What the crate's own reader finds in a log: begin, length, tag and histogram of each line.
    fn read(path: &Path) -> Vec<(Duration, Duration, String, Histogram<u64>)> {
        let text = std::fs::read(path).unwrap();
        let mut read = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            match entry.unwrap() {
                LogEntry::Interval(line) => {
                    let bytes = base64::engine::general_purpose::STANDARD.decode(line.encoded_histogram());
                    let histogram = Deserializer::new().deserialize(&mut &bytes.unwrap()[..]).unwrap();
                    let tag = line.tag().unwrap().as_str().to_owned();
                    assert_eq!(line.max(), Histogram::<u64>::max(&histogram) as f64, "no divisor");
                    read.push((line.start_timestamp(), line.duration(), tag, histogram));
                }
                LogEntry::StartTime(_) => assert!(read.is_empty(), "a header behind a line"),
                other => panic!("{other:?}"),
            }
        }
        read
    }

    fn logs(intervals: &[Interval]) -> (tempfile::TempDir, Logs) {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = Logs::new(folder.path());
        intervals.iter().for_each(|m| logs.push(m).unwrap());
        (folder, logs)
    }

    #[test]
    fn the_reader_of_the_crate_finds_each_interval_with_its_counts() {
        let mut second = two_servers();
        second.span.start = second.span.end;
        second.span.end += second.span.duration;
        let intervals = [busy(), second];
        let (_folder, logs) = logs(&intervals);
        for (&(server, role), path) in &logs.paths {
            let of = |m: &&Interval| {
                let rows: Vec<RoleRow> = m.roles_of(server).to_vec();
                rows.into_iter().filter(|row| row.role == role).collect::<Vec<_>>()
            };
            let lines = read(path);
            let mut expected = Vec::new();
            for m in &intervals {
                expected.extend(of(&m).into_iter().map(|row| (m.span, row)));
            }
            assert_eq!(lines.len(), expected.len());
            for ((begin, length, tag, histogram), (span, row)) in lines.iter().zip(expected) {
                let since_epoch = span.start.duration_since(std::time::UNIX_EPOCH).unwrap();
                assert!(begin.abs_diff(since_epoch) < Duration::from_millis(1));
                assert!(length.abs_diff(span.duration) < Duration::from_millis(1));
                assert_eq!((tag, histogram.len()), (&super::tag(row.op), row.stats.count));
                let max = row.stats.max.ns;
                assert!(histogram.equivalent(histogram.max(), max), "{} and {max}", histogram.max());
                let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
                for value in histogram.iter_recorded() {
                    let bucket = bucket_of(histogram.median_equivalent(value.value_iterated_to()));
                    *counts.entry(bucket).or_default() += value.count_at_value();
                }
                assert_eq!(
                    counts.into_iter().collect::<Vec<_>>(),
                    row.stats.histogram.iter().collect::<Vec<_>>()
                );
            }
        }
        assert_eq!(logs.len(), std::fs::read_dir(&logs.folder).unwrap().count());
    }

    #[test]
    fn the_outermost_latencies_and_figures_of_a_stranger_have_a_place() {
        for (latencies_ns, max) in [(vec![(3, 0)], 0), (vec![(1, u64::MAX)], u64::MAX), (vec![(5, 1_000)], 7)]
        {
            let mut stats = stats(&latencies_ns);
            stats.max.ns = max;
            assert_eq!(latencies(&stats).len(), stats.count);
        }
    }

    #[test]
    fn a_file_has_a_plain_name_whatever_its_server_is_called() {
        let long = "x".repeat(5_000);
        let names = [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "-rf",
            "a\nb\0c",
            "é\u{202e}",
            &long,
            "mysql-3306",
            "mysql-3306",
        ];
        let mut at = Vec::new();
        for (pid, name) in (1..).zip(names) {
            let mut m = hostile();
            let id = ServerId { pid, ..MYSQL };
            let server = std::sync::Arc::make_mut(&mut m.servers[0]);
            (server.id, server.name) = (id, name.into());
            m.roles.iter_mut().for_each(|row| row.server = id);
            at.push(m);
        }
        let (folder, logs) = logs(&at);
        let files: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!((files.len(), files.len()), (logs.len(), names.len() * hostile().roles.len()));
        for file in &files {
            assert!(file.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{file}");
            assert!(!file.starts_with(['.', '-']) && file.len() < 200, "{file}");
        }
        assert!(files.iter().any(|file| file.starts_with("mysql-3306.") && file.ends_with("-2.hlog")));
    }

    #[test]
    fn every_operation_has_a_tag() {
        assert!(Op::ALL.iter().all(|&op| Tag::new(&tag(op)).is_some()));
    }
}
