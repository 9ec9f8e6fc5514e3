//! What is said of many measurements together.

use std::sync::Arc;
use std::time::Duration;

use super::tests::{NOT_WATCHED, of_nobody, redo, second, tablespace, unwritten};
use super::*;
use crate::model::fixture;
use crate::model::{Op, Target};
use crate::recording::Troubles;
use crate::render::Paint;

#[test]
fn a_window_tells_of_what_failed_syncs_may_have_lost_and_of_files_without_room() {
    let all_writes = |m: &mut Interval| {
        let setup = crate::model::Setup { ops: Op::ALL.to_vec(), ..(*m.setup).clone() };
        m.setup = Arc::new(setup);
    };
    let mut seconds = vec![second(vec![redo(&[(10, 100_000)])]); 60];
    seconds.iter_mut().for_each(all_writes);
    let before = redo(&[]);
    let lost = |possibly_lost| crate::model::UnsyncedRow {
        server: before.server,
        target: before.target,
        info: before.info.clone(),
        now: crate::model::Backlog::default(),
        most: crate::model::Backlog::default(),
        possibly_lost,
    };
    // Closed after a while: what it was is told nevertheless.
    seconds[3].unsynced.rows = vec![lost(4_096)].into();
    seconds[4].unsynced.rows = vec![lost(8_192)].into();
    seconds[5].unsynced.rows = vec![lost(8_192)].into();
    seconds[7].unsynced.dropped = 300;
    seconds[9].unsynced.dropped = 400;
    let mut troubles = Troubles::new(Duration::from_secs(1));
    seconds.iter().for_each(|m| troubles.record(m));
    let said = of_window(&troubles, "these 60 s", &seconds[0], &Options::default());
    assert_eq!(said[0].paint, Paint::Error);
    let of_redo = "8.2 kB of the redo log may be lost whatever was synced since: a sync that should have covered them failed.";
    assert_eq!(said[0].text, of_redo);
    let unknown: Vec<_> = said.iter().filter(|sentence| sentence.text.starts_with("Of 700 B")).collect();
    assert_eq!(unknown.len(), 1, "{said:?}");
}

/// Moments of a second each, and what is said of them together.
fn of_seconds(seconds: &[Interval]) -> Vec<String> {
    let mut troubles = Troubles::new(Duration::from_secs(1));
    for (at, m) in seconds.iter().enumerate() {
        let mut m = fixture::lasting(Duration::from_secs(1), m.clone());
        m.span.start = fixture::quiet().span.start + Duration::from_secs(at as u64);
        m.span.end = m.span.start + m.span.duration;
        troubles.record(&m);
    }
    let whole = format!("these {}", crate::text::interval(troubles.duration));
    let mut said = incidents(&troubles.incidents, &seconds[0], &Options::default());
    said.extend(of_window(&troubles, &whole, &seconds[0], &Options::default()));
    let mut said: Vec<String> = said.into_iter().map(|sentence| sentence.text).collect();
    assert_eq!(said.pop().as_deref(), Some(NOT_WATCHED));
    said
}

#[test]
fn a_window_with_a_stall_and_failures_says_the_worst_first_and_claims_nothing_else() {
    let fine = second(vec![redo(&[(900, 1_000_000)])]);
    let mut hung = second(Vec::new());
    hung.in_flight = vec![fixture::in_flight(Role::Redo, "/d/#ib_redo7", Duration::from_secs(24))];
    let ended = second(vec![redo(&[(1, 25_000_000_000)])]);
    let mut failing = tablespace(&[(297, 1_000)]);
    failing.stats.errors = [(libc::EIO, 297)].into();
    let mut seconds = vec![fine.clone(), hung, ended, second(vec![failing])];
    seconds.extend(vec![second(vec![redo(&[(1_000, 990_000)])]); 300]);
    seconds.extend(vec![second(vec![redo(&[(10, 100_000)])]); 60]);
    let said = of_seconds(&seconds);
    assert_eq!(said[0], "1 hang, 1 failure, 1 saturated log (UTC):");
    assert_eq!(
        said[1],
        "10:02:39 to 10:03:04: redo hung for 25 s (fdatasync, /var/lib/mysql/#innodb_redo/#ib_redo5). No sync of its \
         logs ended for 1.00 s. Every commit waited for this log."
    );
    let [saturated, failed] = &said[2..4] else { unreachable!() };
    assert!(failed.starts_with("10:03:04 to 10:03:05: tablespace failed, 297 EIO (fdatasync, "), "{failed}");
    assert_eq!(saturated, "10:03:01 to 10:08:05: redo 99 % busy.");
    assert_eq!(
        said[4],
        "297 syncs failed: 297 EIO on /var/lib/mysql/shop/products.ibd (tablespace fdatasync), the last by 10:03:05 UTC."
    );
    assert!(said[5].starts_with("EIO: the page cache"), "{said:#?}");
    assert_eq!(said[6..], ["In these 364 s no watched call was missed."]);
}

#[test]
fn a_window_tells_of_what_failed_without_a_sync_and_when_last() {
    let mut seconds = vec![second(vec![redo(&[(10, 100_000)])]); 60];
    seconds[3].failures = vec![unwritten(tablespace(&[]), libc::EIO, 1)].into();
    let mut write = unwritten(redo(&[]), libc::ENOSPC, 40);
    write.op = Op::Write;
    seconds[5].failures = vec![write.clone()].into();
    seconds[6].failures = vec![write].into();
    seconds[9].failures = vec![of_nobody(Target::Filesystem(7), libc::EIO, 2)].into();
    let said = of_seconds(&seconds);
    assert_eq!(said[0], "2 failures (UTC):");
    let said = &said[3..];
    assert_eq!(
        said[0],
        "The kernel could not write back what had been written: 1 EIO on /var/lib/mysql/shop/products.ibd (tablespace \
         writeback), the last by 10:03:05 UTC."
    );
    assert!(said[1].starts_with("EIO: the page cache"), "{said:#?}");
    assert_eq!(
        said[2..],
        [
            "The kernel could not write back: 2 EIO on the metadata of /dev/vdb\\n, the last by 10:03:11 UTC.",
            "80 writes failed: 80 ENOSPC on /var/lib/mysql/#innodb_redo/#ib_redo5 (redo write), the last by 10:03:08 UTC.",
            "In these 60.0 s nothing was stuck, no watched call was missed.",
        ]
    );
}

#[test]
fn a_window_in_which_all_was_well_says_so_of_its_length() {
    assert_eq!(
        of_seconds(&vec![second(vec![redo(&[(10, 100_000)])]); 60]),
        ["In these 60.0 s nothing failed, nothing was stuck, no watched call was missed."]
    );
    let mut hangs = second(Vec::new());
    hangs.in_flight = vec![fixture::in_flight(Role::Tablespace, "/d/t\n", Duration::from_secs(3))];
    assert_eq!(
        of_seconds(&[second(Vec::new()), second(Vec::new()), second(Vec::new()), hangs])[..2],
        ["1 hang (UTC):", "since 10:03:02: tablespace hung for at least 3.0 s (fdatasync, /d/t\\n)."]
    );
}

#[test]
fn a_window_in_which_not_all_was_watched_claims_no_more_than_was() {
    let mut second = second(vec![redo(&[(10, 100_000)])]);
    second.lost.unwatched = 2;
    let said = of_seconds(&vec![second; 60]);
    assert_eq!(
        said[0],
        "In these 60.0 s no watched call failed, no watched call was stuck, no watched call was missed."
    );
    assert!(said[1].starts_with("The server also made data durable 120 times by calls"), "{said:?}");
}
