//! A session and a window of the history, each moment a second.

use super::*;
use crate::model::InFlight;
use crate::model::fixture::*;
use crate::recording::{Options, What};

const HANGS: Duration = Duration::from_secs(1);

fn second(number: u64, files: Vec<FileRow>, in_flight: Vec<InFlight>) -> Interval {
    let mut m = Interval { in_flight, ..with_files(quiet(), files, Vec::new()) };
    m.span.start += Duration::from_secs(number);
    m.span.duration = Duration::from_secs(1);
    m.span.end = m.span.start + m.span.duration;
    m
}

fn redo(latencies: &[(u64, u64)]) -> FileRow {
    row(MYSQL, 1, "/d/#ib_redo7", Role::Redo, Op::Fdatasync, stats(latencies))
}

fn failing(inode: u64, errno: i32) -> FileRow {
    let mut file =
        row(MYSQL, inode, &format!("/d/t{inode}"), Role::Tablespace, Op::Fsync, stats(&[(3, 1_000)]));
    file.stats.errors = [(errno, 1)].into();
    file
}

fn at(number: u64) -> SystemTime {
    quiet().span.start + Duration::from_secs(number)
}

/// The same by both ways: as a session, and out of a history.
fn both(moments: &[Interval]) -> [Troubles; 2] {
    let mut session = Troubles::new(HANGS);
    let mut history = History::new(Options::default());
    for m in moments {
        session.record(m);
        history.push(m);
    }
    [session, history.troubles(Duration::from_secs(600), HANGS, |_| true)]
}

#[test]
fn what_may_be_lost_is_the_most_of_any_moment_and_what_had_no_room_is_a_sum() {
    let lost = |inode, possibly_lost| {
        let row = failing(inode, libc::EIO);
        let none = crate::model::Backlog::default();
        let (now, most) = (none, none);
        UnsyncedRow { server: row.server, target: row.target, info: row.info, now, most, possibly_lost }
    };
    let moment = |number, rows, dropped| Interval {
        unsynced: Unsynced { rows: Vec::into(rows), dropped, ..Unsynced::default() },
        ..second(number, Vec::new(), Vec::new())
    };
    let moments = [
        moment(0, vec![lost(1, 300), lost(2, 50)], 0),
        moment(1, vec![lost(1, 300)], 7),
        moment(2, Vec::new(), 4),
    ];
    let (server, role) = (lost(1, 0).server, lost(1, 0).info.role);
    for troubles in both(&moments) {
        assert_eq!(troubles.possibly_lost, [((server, role), 350)].into());
        assert_eq!(troubles.unsynced_dropped, 11);
    }
    let mut session = Troubles::new(HANGS);
    for pid in 1..5_000 {
        let server = ServerId { pid, start_ns: 1 };
        session.record(&moment(0, vec![UnsyncedRow { server, ..lost(1, 1) }], 0));
    }
    assert_eq!(session.possibly_lost.len(), MOST_KEPT);
}

#[test]
fn every_failure_is_remembered_however_long_ago_and_its_files_up_to_a_number() {
    let mut session = Troubles::new(HANGS);
    session.record(&second(0, vec![failing(1, libc::EIO)], Vec::new()));
    for number in 1..2_000 {
        session.record(&second(number, vec![failing(number, libc::ENOSPC)], Vec::new()));
    }
    assert_eq!((session.failures(), session.errors[&libc::EIO]), (2_000, 1));
    assert_eq!((session.failed().count(), session.last_failure()), (MOST_FAILED, Some(at(2_000))));
    let first = session.failed().next().unwrap();
    assert_eq!(first.stats.errors, [(libc::EIO, 1), (libc::ENOSPC, 1)].into());
}

/// What failed beside the syncs, of this errno.
fn beside(file: FileRow, op: Op, errno: i32) -> FileRow {
    FileRow { op, stats: Stats { count: 1, errors: [(errno, 1)].into(), ..Stats::default() }, ..file }
}

#[test]
fn what_failed_beside_the_syncs_is_remembered_by_kind_and_is_none_of_them() {
    let nobodys = |inode| FileRow { server: ServerId::NONE, ..failing(inode, 0) };
    let mut moments: Vec<_> = (0..5).map(|n| second(n, vec![redo(&[(1, 1_000)])], Vec::new())).collect();
    moments[1].failures = vec![
        beside(failing(1, 0), Op::Writeback, libc::EIO),
        beside(failing(1, 0), Op::Write, libc::ENOSPC),
        beside(nobodys(2), Op::Writeback, libc::EIO),
    ]
    .into();
    moments[2].failures = vec![beside(failing(1, 0), Op::Writeback, libc::ENOSPC)].into();
    for troubles in both(&moments) {
        assert_eq!((troubles.failures(), troubles.has_failures()), (0, true));
        let of = |others: &Others| (others.errors.clone(), others.last);
        let eio: Errors = [(libc::EIO, 1)].into();
        assert_eq!(of(&troubles.writeback), ([(libc::EIO, 1), (libc::ENOSPC, 1)].into(), Some(at(3))));
        assert_eq!(of(&troubles.others_writeback), (eio.clone(), Some(at(2))));
        assert_eq!(of(&troubles.failed_writes), ([(libc::ENOSPC, 1)].into(), Some(at(2))));
        let told = troubles.incidents.list();
        assert!(told.iter().all(|incident| incident.what == What::Failure), "{told:?}");
        let servers: Vec<ServerId> = told.iter().map(|incident| incident.server).collect();
        assert_eq!(servers, [ServerId::NONE, MYSQL]);
    }
    // Of other servers nothing is said; what is nobody's concerns each of them.
    let mut history = History::new(Options::default());
    moments.iter().for_each(|m| history.push(m));
    let others = history.troubles(Duration::from_secs(600), HANGS, |server| server == MARIADB);
    assert_eq!((others.writeback.errors.len(), others.others_writeback.errors.len()), (0, 1));
    // It can be sent.
    let mut bytes = Vec::new();
    history.write(&mut bytes).unwrap();
    let read = History::read(&bytes).unwrap();
    let sums = |history: &History| history.last(Duration::MAX).unwrap().failures;
    assert_eq!((sums(&read).len(), sums(&read)), (4 - 1, sums(&history)));
}

#[test]
fn thousands_of_files_with_failures_take_little_of_a_moment_and_none_is_lost() {
    let mut m = second(0, Vec::new(), Vec::new());
    m.failures = (1..=5_000).map(|n| beside(failing(n, 0), Op::Writeback, libc::EIO)).collect();
    let moment = crate::recording::limited(&m, 50);
    assert!(moment.failures.len() < 60, "{}", moment.failures.len());
    assert_eq!(moment.failures.iter().map(|row| row.stats.error_count()).sum::<u64>(), 5_000);
    for troubles in both(&[m]) {
        assert_eq!(troubles.writeback.errors, [(libc::EIO, 5_000)].into());
    }
}

#[test]
fn a_window_knows_nothing_of_what_was_before_it_or_of_other_servers() {
    let mut history = History::new(Options::default());
    let slow = vec![row(MARIADB, 9, "/m/ib_logfile0", Role::Redo, Op::Fsync, stats(&[(1, 8_000_000_000)]))];
    history.push(&second(0, vec![failing(1, libc::EIO)], Vec::new()));
    history.push(&second(1, slow, Vec::new()));
    history.push(&second(2, vec![redo(&[(1, 1_000)])], Vec::new()));
    let last = history.troubles(Duration::from_secs(2), HANGS, |_| true);
    assert_eq!((last.failures(), last.duration.as_secs(), last.count), (0, 2, 2));
    assert_eq!(last.incidents.list().len(), 1);
    let one = history.troubles(Duration::from_secs(2), HANGS, |server| server == MYSQL);
    assert!(one.incidents.list().is_empty() && one.count == 1, "{one:?}");
}
