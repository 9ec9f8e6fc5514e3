//! Needs root: as many syncs as the cores can make, counted to the last, while snapshots are taken.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::common::disk::Mounted;
use crate::common::measured::{Measured, count, number, path_of, text};
use crate::common::traced::measure;
use crate::common::{built, needs};
use serde_json::Value;

/// (who or what, call) → count.
type Counts<K> = BTreeMap<(K, String), u64>;

fn add<K: Ord>(counts: &mut Counts<K>, key: K, row: &Value) {
    *counts.entry((key, text(row, "op"))).or_default() += count(row);
}

/// What syncgen says of its threads or files.
fn said<K: Ord>(rows: &Value, key: impl Fn(&Value) -> K) -> Counts<K> {
    let rows = rows.as_array().unwrap().iter();
    let calls = rows.flat_map(|row| row["ops"].as_object().unwrap().iter().map(move |op| (row, op)));
    calls.map(|(row, (op, figures))| ((key(row), op.clone()), number(figures, "calls"))).collect()
}

/// Runs syncgen on tmpfs; nothing is lost, and the intervals together are what it says itself.
fn count_exactly(options: &[&str], arguments: &[&str], min_intervals: usize) {
    let memory = Mounted::tmpfs();
    let program = built("syncgen");
    let mut command = vec![program.to_str().unwrap(), memory.path().to_str().unwrap()];
    command.extend(arguments);
    let run = measure(options, &command);
    assert!(run.output.status.success(), "{:?}", run.output);
    let truth: Value = serde_json::from_slice(&run.output.stdout).unwrap();

    let (mut files, mut threads) = (Counts::<PathBuf>::new(), Counts::<u64>::new());
    for interval in &run.measured {
        interval.assert_nothing_lost();
        interval.files().iter().for_each(|row| add(&mut files, path_of(row).unwrap(), row));
        interval.threads().iter().for_each(|row| add(&mut threads, number(row, "tid"), row));
    }
    assert!(run.measured.len() >= min_intervals, "{} intervals", run.measured.len());
    assert_eq!(run.measured.iter().map(Measured::total).sum::<u64>(), number(&truth, "calls"));
    // Within an interval rows are read one after the other, under load; in the end they agree.
    assert_eq!(threads, said(&truth["threads"], |row| number(row, "tid")));
    assert_eq!(files, said(&truth["files"], |row| row["path"].as_str().unwrap().into()));
    let seconds = truth["seconds"].as_f64().unwrap();
    println!("{} syncs in {seconds:.1} s, {} intervals", truth["calls"], run.measured.len());
}

const OPTIONS: [&str; 3] = ["--by", "thread", "-i"];

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn every_sync_is_counted_at_full_speed_while_snapshots_are_taken() {
    needs(&[]);
    let options = [&OPTIONS[..], &["0.05"]].concat();
    let arguments = ["--seconds", "10", "--threads", "4", "--files", "3", "--op", "fsync,fdatasync"];
    count_exactly(&options, &arguments, 20);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn every_sync_of_many_threads_is_counted() {
    needs(&[]);
    let arguments = ["--syncs", "400", "--threads", "500", "--files", "300", "--op", "fsync,fdatasync"];
    count_exactly(&OPTIONS[..2], &arguments, 1);
}
