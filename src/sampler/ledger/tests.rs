use super::*;
use crate::probe::{FileIdentity, NeighbourIdentity, Of, ThreadIdentity};

/// (bucket, count) of the buckets that hold something.
type Buckets = Vec<(usize, u64)>;

/// A whole number of clock ticks, to which the start of a server is cut.
const BOOT_NS: u64 = 70_000_000;

fn id_of(tgid: u32, inode: u64, generation: u32) -> Identity {
    let file = FileIdentity { leader_start: BOOT_NS, inode, device: 0x800001, generation };
    Identity::new(record::KIND_FILE, Op::Fsync as u8, tgid, Of::File(file))
}

fn id(inode: u64, generation: u32) -> Identity {
    id_of(42, inode, generation)
}

fn neighbour(comm: &[u8], device: u32) -> Identity {
    let mut words = [0u8; 16];
    words[..comm.len()].copy_from_slice(comm);
    let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap());
    let neighbour = NeighbourIdentity { comm_low: word(0), comm_high: word(8), device, reserved: 0 };
    Identity::new(record::KIND_NEIGHBOUR, Op::Fsync as u8, 0, Of::Neighbour(neighbour))
}

fn row(id: Identity, sequence: u32, latencies: &[u64]) -> (Row, Buckets) {
    let mut buckets = BTreeMap::new();
    latencies.iter().for_each(|&ns| *buckets.entry(bucket_of(ns)).or_default() += 1);
    let row = Row {
        id,
        started: latencies.len() as u64,
        sum_ns: latencies.iter().sum(),
        max_ns: latencies.iter().copied().max().unwrap_or(0),
        state: record::ROW_READY,
        sequence,
        ..Row::default()
    };
    (row, buckets.into_iter().collect())
}

fn read(ledger: &mut Ledger, slot: u32, (row, buckets): &(Row, Buckets)) -> Reading {
    let reading = ledger.look(slot, row);
    if reading == Reading::Changed {
        ledger.enter(slot, row, stats_of(row, buckets), false);
    }
    reading
}

fn count_of(ledger: &Ledger, id: &Identity) -> u64 {
    let subject = Subject::of(id).unwrap();
    ledger.accounts().find(|account| account.subject == subject).map_or(0, |account| account.stats.count)
}

#[test]
fn a_row_that_stands_still_is_not_read_again() {
    let mut ledger = Ledger::default();
    let reading = row(id(1, 1), 0, &[1_000, 2_000]);
    assert_eq!(read(&mut ledger, 300, &reading), Reading::Changed);
    assert_eq!(read(&mut ledger, 300, &reading), Reading::Unchanged);
    assert_eq!(ledger.look(301, &Row::default()), Reading::Unused);
    assert_eq!(count_of(&ledger, &id(1, 1)), 2);
}

#[test]
fn a_slot_that_serves_another_file_leaves_the_first_ones_total_alone() {
    let mut ledger = Ledger::default();
    ledger.begin_tick();
    read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000; 5]));
    ledger.begin_tick();
    assert_eq!(ledger.retirable(256..400, 10, 1), [300]);
    ledger.unlinked(300);
    assert!(ledger.retirable(256..400, 10, 1).is_empty());
    ledger.begin_tick();
    assert_eq!(ledger.free_quiet(), [300]);
    // The same inode number with another generation is another file.
    read(&mut ledger, 300, &row(id(1, 2), 1, &[3_000; 2]));
    assert_eq!(count_of(&ledger, &id(1, 1)), 5);
    assert_eq!(count_of(&ledger, &id(1, 2)), 2);
    // And the first file, synced again, goes on where it was.
    read(&mut ledger, 301, &row(id(1, 1), 0, &[1_000; 3]));
    assert_eq!(count_of(&ledger, &id(1, 1)), 8);
}

#[test]
fn a_sync_that_ends_after_its_row_was_unlinked_is_counted() {
    let mut ledger = Ledger::default();
    ledger.begin_tick();
    read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000]));
    ledger.begin_tick();
    ledger.unlinked(300);
    // Meanwhile the file has another row.
    read(&mut ledger, 301, &row(id(1, 1), 4, &[2_000; 3]));
    ledger.begin_tick();
    let mut late = row(id(1, 1), 0, &[1_000]);
    late.0.started = 2;
    read(&mut ledger, 300, &late);
    assert!(ledger.free_quiet().is_empty(), "a sync is in flight");
    ledger.begin_tick();
    read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000, 9_000]));
    assert!(ledger.free_quiet().is_empty(), "it changed just now");
    ledger.begin_tick();
    assert_eq!(ledger.free_quiet(), [300]);
    assert_eq!(count_of(&ledger, &id(1, 1)), 5);
}

#[test]
fn an_errno_that_is_known_late_is_counted_once_whatever_else_its_file_has() {
    let mut ledger = Ledger::default();
    let errors = |ledger: &Ledger| ledger.accounts().next().unwrap().stats.errors.clone();
    ledger.count_event(&id(1, 1), 5_000, -libc::EIO);
    read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000; 2]));
    ledger.enter_errors(300, errors_of(2, None));
    assert_eq!(errors(&ledger), [(0, 2), (libc::EIO, 1)].into());
    read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000; 3]));
    ledger.enter_errors(300, errors_of(3, Some(&[(libc::EIO, 2), (libc::ENOSPC, 1)])));
    assert_eq!(errors(&ledger), [(libc::EIO, 3), (libc::ENOSPC, 1)].into());
    assert_eq!(count_of(&ledger, &id(1, 1)), 4);
    assert_eq!(ledger.accounts().next().unwrap().stats.histogram.count(), 4);
}

#[test]
fn a_cold_rows_latencies_come_one_by_one_whenever_it_is_read() {
    let mut ledger = Ledger::default();
    let stats = |ledger: &Ledger| ledger.accounts().next().unwrap().stats.clone();
    let cold = |started, under| Row {
        id: id(1, 1),
        started,
        sum_ns: 9_000,
        max_ns: 7_000,
        under,
        elsewhere: started - under,
        state: record::ROW_READY,
        ..Row::default()
    };
    ledger.enter_latency(&id(1, 1), 7_000);
    for (started, under) in [(2, 1), (4, 2)] {
        let row = cold(started, under);
        assert_eq!(ledger.look(5_000, &row), Reading::Changed);
        ledger.enter(5_000, &row, stats_of(&row, &[]), true);
        assert_eq!((stats(&ledger).count, stats(&ledger).histogram.count()), (started, 1 + under));
    }
    ledger.enter_latency(&id(1, 1), 2_000);
    assert_eq!((stats(&ledger).count, stats(&ledger).histogram.count()), (4, 4));
    // Or the row is read first.
    let row = Row { id: id(2, 1), ..cold(2, 0) };
    ledger.enter(5_001, &row, stats_of(&row, &[]), true);
    for more in 0..3 {
        ledger.enter_latency(&id(2, 1), 2_000);
        let row = Row { id: id(2, 1), ..cold(3 + more, 1 + more) };
        ledger.enter(5_001, &row, stats_of(&row, &[]), true);
    }
    let other = ledger.accounts().find(|account| account.subject == Subject::of(&id(2, 1)).unwrap());
    let stats = &other.unwrap().stats;
    assert_eq!((stats.count, stats.histogram.count()), (5, 6));
    assert!(ledger.live.iter().flatten().all(|live| live.part.is_none()), "no second copy is needed");
}

#[test]
fn a_row_whose_slot_began_another_life_is_not_freed() {
    let mut ledger = Ledger::default();
    read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000]));
    ledger.begin_tick();
    ledger.unlinked(300);
    read(&mut ledger, 300, &row(id(2, 1), 1, &[1_000]));
    ledger.begin_tick();
    ledger.begin_tick();
    assert!(ledger.free_quiet().is_empty());
    assert_eq!(ledger.rows_in_use(Slots::Files), 1);
}

#[test]
fn a_file_with_a_sync_in_flight_is_never_retired() {
    let mut ledger = Ledger::default();
    let mut reading = row(id(1, 1), 0, &[1_000]);
    reading.0.started = 2;
    read(&mut ledger, 300, &reading);
    for _ in 0..5 {
        ledger.begin_tick();
    }
    assert!(ledger.retirable(256..400, 10, 1).is_empty());
    assert_eq!(ledger.running(), [42].into());
}

#[test]
fn folding_keeps_the_sum_and_bounds_the_number() {
    let mut ledger = Ledger::default();
    for inode in 0..1_000 {
        ledger.begin_tick();
        ledger.count_event(&id(inode, 1), 5_000, if inode == 7 { -libc::EIO } else { 0 });
    }
    assert_eq!(ledger.fold(100, |_| Role::Tablespace), 925);
    let server = ServerId { pid: 42, start_ns: BOOT_NS };
    let known = |inode| {
        let Some(Subject::File { target: Target::File(file), .. }) = Subject::of(&id(inode, 1)) else {
            panic!()
        };
        ledger.knows(server, file)
    };
    assert!(known(999) && !known(0));
    assert_eq!(ledger.accounts().count(), 76);
    let total: u64 = ledger.accounts().map(|account| account.stats.count).sum();
    assert_eq!(total, 1_000);
    let errors: u64 = ledger.accounts().map(|account| account.stats.error_count()).sum();
    assert_eq!(errors, 1);
}

#[test]
fn a_file_is_folded_into_the_role_that_it_was_shown_in() {
    let mut ledger = Ledger::default();
    for inode in 0..2 {
        ledger.count_event(&id(inode, 1), 5_000, 0);
    }
    let shown = Subject::of(&id(1, 1)).unwrap();
    ledger.accounts().find(|account| account.subject == shown).unwrap().shown_as.set(Some(Role::Undo));
    assert_eq!(ledger.fold(0, |_| Role::Tablespace), 2);
    let count_of = |role| {
        let of = |account: &&Account| matches!(account.subject, Subject::File { target: Target::Gone(gone), .. } if gone == role);
        ledger.accounts().find(of).map(|account| account.stats.count)
    };
    assert_eq!([count_of(Role::Undo), count_of(Role::Tablespace)], [Some(1); 2]);
}

#[test]
fn neighbours_that_synced_no_file_are_folded_as_well() {
    let mut ledger = Ledger::default();
    for n in 0..300u32 {
        let neighbour = neighbour(format!("a{n:07}").as_bytes(), 0);
        ledger.begin_tick();
        read(&mut ledger, 64, &row(neighbour, 0, &[1_000]));
        ledger.unlinked(64);
        ledger.begin_tick();
        assert_eq!(ledger.free_quiet(), [64]);
    }
    assert!(ledger.fold(100, |_| Role::Other) >= 200);
    assert!(ledger.accounts().count() <= 101, "{}", ledger.accounts().count());
    assert_eq!(ledger.accounts().map(|account| account.stats.count).sum::<u64>(), 300);
    // What they were folded into stays.
    ledger.fold(0, |_| Role::Other);
    let left: Vec<_> =
        ledger.accounts().map(|account| (account.subject.clone(), account.stats.count)).collect();
    assert_eq!(left, [(super::subject::other_neighbours(), 300)]);
}

#[test]
fn a_neighbour_is_known_by_device_and_name() {
    let subject = Subject::of(&neighbour(b"xtrabackup", 0x800001)).unwrap();
    assert_eq!(subject, Subject::Neighbour { device: 0x800001, comm: "xtrabackup".into() });
}

#[test]
fn servers_that_are_remembered_no_longer_stay_in_the_totals() {
    let mut ledger = Ledger::default();
    let of = |tgid, inode| id_of(tgid, inode, 1);
    let server = |pid| ServerId { pid, start_ns: BOOT_NS };
    ledger.begin_tick();
    // 42 has a row, which also shares a histogram, an account without a row, and a thread; 43 lives.
    let mut hung = row(of(42, 1), 0, &[1_000; 3]);
    hung.0.started = 4;
    read(&mut ledger, 300, &hung);
    ledger.count_event(&of(42, 2), 5_000, -libc::EIO);
    let thread = ThreadIdentity { leader_start: BOOT_NS, reserved: 0, tid: 9, start: 1 };
    let thread = Identity::new(record::KIND_THREAD, Op::Fsync as u8, 42, Of::Thread(thread));
    read(&mut ledger, 301, &row(thread, 0, &[1_000; 4]));
    let shared = ledger.shared_slot(server(42), Role::Redo, Op::Fsync).unwrap();
    ledger.enter_shared(shared, &[(101, 2)]);
    read(&mut ledger, 302, &row(of(43, 1), 0, &[1_000; 9]));
    let other = ledger.shared_slot(server(43), Role::Redo, Op::Fsync).unwrap();
    let totals = |ledger: &Ledger| {
        let sum = |of: fn(&Account) -> u64| ledger.accounts().map(of).sum::<u64>();
        (sum(|account| account.stats.count), sum(|account| account.stats.error_count()))
    };
    let before = totals(&ledger);

    let ended = [server(42)].into();
    let role = |_: &Subject| Role::Redo;
    assert_eq!(ledger.rows_of_ended(&ended), [300, 301]);
    [300, 301].iter().for_each(|&slot| ledger.unlinked(slot));
    assert_eq!(ledger.rows_of_ended(&ended), [0; 0], "once is enough");
    assert_eq!(ledger.fold_ended(&ended, role), (Default::default(), vec![]), "it has rows");
    assert_eq!(ledger.running(), [].into(), "what it had in flight has ended with it");
    ledger.begin_tick();
    assert_eq!(ledger.free_quiet(), [300, 301]);
    assert_eq!(ledger.fold_ended(&ended, role), (ended.clone(), vec![shared]));

    assert_eq!(totals(&ledger), before);
    assert!(ledger.accounts().all(|account| match account.subject {
        Subject::File { server, .. } | Subject::Thread { server, .. } => server.pid != 42,
        Subject::Neighbour { .. } => true,
    }));
    let account_of = |subject| ledger.accounts().find(|account| account.subject == subject).unwrap();
    let files = Subject::File { server: ServerId::ENDED, target: Target::Gone(Role::Redo), op: Op::Fsync };
    let stats = &account_of(files).stats;
    assert_eq!((stats.count, stats.histogram.count(), stats.error_count()), (4, 4 + 2, 1));
    let threads = Subject::Thread { server: ServerId::ENDED, tid: 0, start: 0, op: Op::Fsync };
    assert_eq!(account_of(threads).stats.count, 4);
    assert_eq!(count_of(&ledger, &of(43, 1)), 9);
    // The next one gets the histogram that is free again.
    assert_eq!(ledger.shared_slot(server(44), Role::Redo, Op::Fsync), Some(shared));
    assert_eq!(ledger.shared_slot(server(43), Role::Redo, Op::Fsync), Some(other));
}
