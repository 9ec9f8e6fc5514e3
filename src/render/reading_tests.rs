//! Each sentence, one by one, and what a whole reading says of a healthy server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::model::fixture::{self, MARIADB, MYSQL, neighbour, row, stats};
use crate::model::{FileId, FileInfo, FileRow, Op, Target};
use crate::render::{Paint, Style};

/// A measurement of one second with these files of the server.
pub(super) fn second(files: Vec<FileRow>) -> Interval {
    let m = fixture::lasting(Duration::from_secs(1), fixture::quiet());
    fixture::with_files(m, files, Vec::new())
}

pub(super) fn redo(latencies: &[(u64, u64)]) -> FileRow {
    row(MYSQL, 1, "/var/lib/mysql/#innodb_redo/#ib_redo5", Role::Redo, Op::Fdatasync, stats(latencies))
}

fn binlog(latencies: &[(u64, u64)]) -> FileRow {
    row(MYSQL, 2, "/var/lib/mysql/binlog.000003", Role::Binlog, Op::Fdatasync, stats(latencies))
}

pub(super) fn tablespace(latencies: &[(u64, u64)]) -> FileRow {
    row(MYSQL, 3, "/var/lib/mysql/shop/products.ibd", Role::Tablespace, Op::Fdatasync, stats(latencies))
}

fn said(m: &Interval) -> Vec<String> {
    of_server(m, MYSQL, &Options::default()).into_iter().map(|sentence| sentence.text).collect()
}

/// What is not watched comes last, always.
pub(super) const NOT_WATCHED: &str =
    "Not watched: io_uring, libaio, O_DSYNC writes, RWF_DSYNC writes, msync, sync_file_range, syncfs, sync.";

fn certain(m: &Interval) -> Vec<String> {
    let mut said: Vec<String> =
        confidence(m, &Options::default()).into_iter().map(|sentence| sentence.text).collect();
    assert_eq!(said.pop().as_deref(), Some(NOT_WATCHED));
    said
}

#[track_caller]
fn assert_says(m: &Interval, sentence: &str) {
    let said = said(m);
    assert!(said.iter().any(|text| text == sentence), "not said: {sentence}\nbut: {said:#?}");
}

#[track_caller]
fn assert_silent_on(m: &Interval, word: &str) {
    let said = said(m);
    assert!(!said.iter().any(|text| text.contains(word)), "{said:#?}");
}

#[test]
fn a_healthy_server_under_load_needs_two_sentences() {
    let m = fixture::busy();
    let overlap =
        "The redo log is 64 % busy and the binary log 69 %: they overlap, and neither is saturated (80 %).";
    assert_eq!(said(&m), [overlap]);
    assert_eq!(
        certain(&m),
        ["In these 1.37 s nothing failed, nothing is stuck, no watched call was missed."]
    );
}

#[test]
fn logs_overlap_only_where_their_shares_exceed_the_whole() {
    let idle = second(vec![redo(&[(1_000, 300_000)]), binlog(&[(1_000, 300_000)])]);
    assert_says(&idle, "The redo log is 30 % busy and the binary log 30 %: neither is saturated (80 %).");
    let overlapping = second(vec![redo(&[(1_000, 500_000)]), binlog(&[(1_000, 600_000)])]);
    assert_says(
        &overlapping,
        "The redo log is 50 % busy and the binary log 60 %: they overlap, and neither is saturated (80 %).",
    );
}

#[test]
fn from_80_percent_on_a_log_is_saturated() {
    let alone = second(vec![redo(&[(1_000, 500_000)])]);
    assert_says(&alone, "The redo log is 50 % busy: not saturated (80 %).");
    let saturated = second(vec![redo(&[(1_000, 800_000)])]);
    assert_says(&saturated, "The redo log is 80 % busy: saturated (80 %), commits queue for it.");
    let one = second(vec![redo(&[(1_000, 200_000)]), binlog(&[(1_000, 910_000)])]);
    assert_says(
        &one,
        "The binary log is 91 % busy: saturated (80 %), commits queue for it; the redo log is 20 % busy.",
    );
    let both = second(vec![redo(&[(1_000, 1_300_000)]), binlog(&[(1_000, 910_000)])]);
    assert_says(
        &both,
        "The redo log is 100 % busy and the binary log is 91 % busy: both are saturated (80 %).",
    );
}

#[test]
fn a_ratio_without_a_denominator_says_why() {
    assert_says(
        &second(vec![redo(&[(5, 1_000)])]),
        "No binary-log sync: as with the binary log off, or sync_binlog other than 1 (1 is the default in MySQL from 5.7 \
         on, before that 0), or changes that it does not take.",
    );
    let mut mariadb = second(vec![redo(&[(5, 1_000)])]);
    Arc::make_mut(&mut mariadb.servers[0]).version = Some("MariaDB 10.11.14".into());
    assert_says(
        &mariadb,
        "No binary-log sync: as with the binary log off, or sync_binlog other than 1 (0 is MariaDB's default), or changes \
         that it does not take.",
    );
    assert_silent_on(&second(vec![tablespace(&[(5, 1_000)])]), "ratio");
}

#[test]
fn a_ratio_far_from_one_says_what_it_means() {
    assert_says(
        &second(vec![redo(&[(234, 1_000)]), binlog(&[(100, 1_000)])]),
        "2.34 redo syncs per binary-log sync.",
    );
    assert_says(
        &second(vec![redo(&[(50, 1_000)]), binlog(&[(100, 1_000)])]),
        "0.50 redo syncs per binary-log sync.",
    );
    // What one connection has, and what groups of commits make of it.
    assert_silent_on(&second(vec![redo(&[(134, 1_000)]), binlog(&[(100, 1_000)])]), "per binary-log sync");
    assert_says(
        &second(vec![redo(&[(3_000, 1_000)]), binlog(&[(1, 1_000)])]),
        "3,000 redo syncs per binary-log sync: as with sync_binlog other than 1 (1 is the default in MySQL from 5.7 on, \
         before that 0), or changes that the binary log does not take.",
    );
    assert_says(
        &second(vec![binlog(&[(1_241, 1_000)])]),
        "1,241 binary-log syncs and no redo sync: as with innodb_flush_log_at_trx_commit other than 1, or changes of \
         tables that are not InnoDB's, or rotations, or redo writes that are durable without a sync (O_DSYNC).",
    );
}

#[test]
fn what_a_note_is_certain_of_is_not_supposed_as_well() {
    let noted = |note: &str, files: Vec<FileRow>| {
        let mut m = second(files);
        Arc::make_mut(&mut m.servers[0]).notes = vec![note.to_owned()];
        m
    };
    let synced = noted(durability::REDO_BY_WRITES, vec![binlog(&[(1_241, 1_000)])]);
    assert_says(&synced, durability::REDO_BY_WRITES);
    assert_eq!(
        said(&synced).iter().filter(|text| text.contains("O_DSYNC")).count(),
        1,
        "{:#?}",
        said(&synced)
    );
    assert_silent_on(&synced, "innodb_flush_log_at_trx_commit");
    let quiet = noted(durability::REDO_BY_WRITES, Vec::new());
    assert_says(
        &quiet,
        "No sync in 1.00 s (fsync, fdatasync watched): the server is idle, or does not sync its binary log at commit (as \
         with sync_binlog other than 1).",
    );
    assert_says(&quiet, durability::REDO_BY_WRITES);
    let mut written =
        second(vec![FileRow { op: Op::DsyncWrite, ..redo(&[(3_000, 1_000)]) }, binlog(&[(1_500, 1_000)])]);
    Arc::make_mut(&mut written.setup).ops.push(Op::DsyncWrite);
    assert_says(&written, "2.00 redo writes per binary-log sync.");
    // Where durable writes are watched, there would be rows of them.
    let mut watched = second(Vec::new());
    Arc::make_mut(&mut watched.setup).ops.push(Op::DsyncWrite);
    assert_silent_on(&watched, "O_DSYNC");
    let mut watched = second(vec![binlog(&[(1_241, 1_000)])]);
    Arc::make_mut(&mut watched.setup).ops.push(Op::DsyncWrite);
    assert_says(
        &watched,
        "1,241 binary-log syncs and no redo sync: as with innodb_flush_log_at_trx_commit other than 1, or changes of \
         tables that are not InnoDB's, or rotations.",
    );
    let void = noted(durability::SYNCS_DO_NOTHING, Vec::new());
    assert_eq!(said(&void), ["No sync in 1.00 s (fsync, fdatasync watched).", durability::SYNCS_DO_NOTHING]);
}

#[test]
fn notes_of_the_server_are_passed_on_without_control_characters() {
    let mut m = second(vec![redo(&[(5, 1_000)])]);
    Arc::make_mut(&mut m.servers[0]).notes =
        vec!["innodb_flush_method=O_DSYNC: redo writes to /a\\nb need no sync.".into(), "a\u{1b}[2J".into()];
    assert_says(&m, "innodb_flush_method=O_DSYNC: redo writes to /a\\nb need no sync.");
    assert_says(&m, "a\\x1b[2J");
}

#[test]
fn where_most_of_the_time_goes_is_said_unless_it_is_a_log() {
    let m = second(vec![redo(&[(10, 100_000)]), tablespace(&[(10, 900_000)])]);
    assert_says(&m, "Most of the time in syncs goes to the tablespaces (90 %).");
    let undo = row(MYSQL, 4, "/undo_001", Role::Undo, Op::Fsync, stats(&[(10, 350_000)]));
    let m = second(vec![redo(&[(10, 300_000)]), tablespace(&[(10, 400_000)]), undo]);
    assert_says(&m, "The largest share of the time in syncs goes to the tablespaces (38 %).");
    assert_silent_on(&second(vec![redo(&[(10, 900_000)]), tablespace(&[(10, 100_000)])]), "time in syncs");
}

#[test]
fn a_tail_is_said_where_a_commit_can_feel_it() {
    let m = second(vec![binlog(&[(970, 250_000), (30, 12_000_000)])]);
    assert_says(&m, "1 in 100 binlog fdatasync syncs took 12 ms or more, 47 times the median (250 µs).");
    assert_silent_on(&second(vec![binlog(&[(970, 10_000), (30, 900_000)])]), "1 in 100");
    assert_silent_on(&second(vec![binlog(&[(970, 3_000_000), (30, 9_000_000)])]), "1 in 100");
    assert_silent_on(&second(vec![binlog(&[(97, 250_000), (2, 12_000_000)])]), "1 in 100");
    assert_says(
        &second(vec![binlog(&[(9, 3_100_000_000)])]),
        "The slowest sync (binlog fdatasync) took 3.1 s.",
    );
    let mut edge = second(vec![binlog(&[(9, 3_100_000_000)])]);
    edge.roles[0].stats.max.exact = false;
    assert_says(&edge, "The slowest sync (binlog fdatasync) took up to 3.1 s.");
}

#[test]
fn failures_name_the_file_the_errno_and_what_it_means() {
    let mut files = vec![redo(&[(5, 1_000)]), tablespace(&[(5, 1_000)])];
    files[0].stats.errors = [(libc::EIO, 1)].into();
    files[1].stats.errors = [(libc::ENOSPC, 1_200)].into();
    let m = second(files);
    assert_says(
        &m,
        "1,201 syncs failed: 1 EIO on /var/lib/mysql/#innodb_redo/#ib_redo5 (redo fdatasync); 1,200 ENOSPC on \
         /var/lib/mysql/shop/products.ibd (tablespace fdatasync).",
    );
    assert!(
        said(&m)[1].starts_with("EIO: the page cache can no longer be trusted"),
        "EIO first: {:#?}",
        said(&m)
    );
    assert_says(&m, "ENOSPC: the filesystem had no room for what was to be written.");
    assert_eq!(certain(&m), ["Nothing is stuck, no watched call was missed."]);
    assert!(of_server(&m, MYSQL, &Options::default())[0].paint == Paint::Error);
}

/// Without a file: of a device, or of a file that is no server's.
pub(super) fn unwritten(row: FileRow, errno: i32, n: u64) -> FileRow {
    let stats = Stats { count: n, errors: [(errno, n)].into(), ..Stats::default() };
    FileRow { op: Op::Writeback, stats, ..row }
}

pub(super) fn of_nobody(target: Target, errno: i32, n: u64) -> FileRow {
    let info = FileInfo { device: Some("/dev/vdb\n".into()), ..FileInfo::nameless(Role::Other) };
    unwritten(FileRow { server: ServerId::NONE, target, info: Arc::new(info), ..redo(&[]) }, errno, n)
}

#[test]
fn what_could_not_be_written_back_is_said_with_what_it_means_once() {
    let mut m = second(vec![redo(&[(5, 1_000)])]);
    m.failures = vec![unwritten(tablespace(&[]), libc::ENOSPC, 2)].into();
    assert_eq!(
        said(&m)[..3],
        [
            "The kernel could not write back what had been written: 2 ENOSPC on /var/lib/mysql/shop/products.ibd \
             (tablespace writeback).",
            "It may have dropped that, and a later sync can succeed without it.",
            "ENOSPC: the filesystem had no room for what was to be written.",
        ]
    );
    assert!(of_server(&m, MYSQL, &Options::default())[..3].iter().all(|said| said.paint == Paint::Error));
    assert_eq!(certain(&m), ["Nothing is stuck, no watched call was missed."]);
    // A sync has reported the same.
    m.failures = vec![unwritten(redo(&[]), libc::EIO, 1)].into();
    m.files[0].stats.errors = [(libc::EIO, 1)].into();
    m.roles[0].stats.errors = [(libc::EIO, 1)].into();
    let said = said(&m);
    assert!(said[0].starts_with("1 sync failed: ") && said[1].starts_with("EIO: "), "{said:#?}");
    assert!(
        said[2].ends_with("1 EIO on /var/lib/mysql/#innodb_redo/#ib_redo5 (redo writeback)."),
        "{said:#?}"
    );
    assert_eq!(said.iter().filter(|said| said.starts_with("EIO: ")).count(), 1);
}

#[test]
fn what_could_not_be_written_of_others_is_said_of_no_server_and_without_a_name() {
    let mut m = second(vec![redo(&[(5, 1_000)])]);
    let file = |inode| Target::File(FileId { device: 7, inode, generation: 1, weak: false, part: false });
    m.failures = vec![
        of_nobody(file(1), libc::EIO, 1),
        of_nobody(file(2), libc::EIO, 2),
        of_nobody(Target::Filesystem(7), libc::EIO, 4),
    ]
    .into();
    assert_silent_on(&m, "write back");
    let first = "The kernel could not write back: 3 EIO on files on /dev/vdb\\n that no traced process was seen to have open; 4 EIO \
                 on the metadata of /dev/vdb\\n.";
    assert_eq!(certain(&m), [first, "Nothing is stuck, no watched call was missed."]);
    assert_eq!(failed_beside_syncs(&m, &Options::default())[0].text, first);
    assert_eq!(lost(&m, &Options::default())[0].text, first);
    assert_eq!(lost(&m, &Options::default())[0].paint, Paint::Error);
    // They concern every server that is there.
    m.retain_servers(|server| server == MARIADB);
    assert_eq!(m.failures.len(), 3);
}

#[test]
fn many_failed_files_are_counted_beyond_the_third() {
    let another = |inode| FileRow { target: fixture::file(inode), ..tablespace(&[(1, 1_000)]) };
    let mut files: Vec<FileRow> = (0..5).map(another).collect();
    files.iter_mut().for_each(|row| row.stats.errors = [(libc::EDQUOT, 1)].into());
    let mut m = second(files);
    assert!(said(&m)[0].starts_with("5 syncs failed: 1 EDQUOT on "));
    assert!(said(&m)[0].ends_with("; and 2 more files."), "{}", said(&m)[0]);
    m.files.truncate(m.files.len() - 1);
    assert!(said(&m)[0].ends_with("; and 1 more file."), "{}", said(&m)[0]);
}

#[test]
fn stuck_syncs_come_first_and_their_log_is_not_called_free() {
    let mut m = second(vec![redo(&[(5, 1_000)]), binlog(&[(5, 1_000)])]);
    m.in_flight = vec![
        fixture::in_flight(Role::Redo, "/a\n", Duration::from_secs(125)),
        fixture::in_flight(Role::Tablespace, "/b", Duration::from_secs(2)),
        fixture::in_flight(Role::Binlog, "/c", Duration::from_micros(300)),
    ];
    let first = of_server(&m, MYSQL, &Options::default()).swap_remove(0);
    assert_eq!(
        first.text,
        "2 syncs are stuck, the oldest for 2m05s: redo fdatasync, thread ib_log_flush 31999, /a\\n. Every commit \
         waits for this log."
    );
    assert_eq!(first.paint, Paint::Stuck);
    assert_silent_on(&m, "redo log is");
    assert_says(&m, "The binary log is 0 % busy: not saturated (80 %).");
    assert_eq!(certain(&m), ["No watched call was missed."], "how they will end is not known");
    m.in_flight.truncate(1);
    m.in_flight[0].role = Role::Tablespace;
    m.in_flight[0].age_is_minimum = true;
    assert_says(
        &m,
        "One sync is stuck for at least 2m05s: tablespace fdatasync, thread ib_log_flush 31999, /a\\n.",
    );
}

#[test]
fn a_neighbour_that_syncs_a_lot_is_named() {
    let mut m = second(vec![redo(&[(5_000, 1_000)])]);
    m.neighbours =
        vec![neighbour("/dev/vda", "xtra\n", &[(41, 1_000)]), neighbour("/dev/sdb", "dd", &[(900, 1_000)])]
            .into();
    assert_says(
        &m,
        "xtra\\n also syncs 41 times a second on /dev/vda: syncs on one device wait for each other.",
    );
    m.neighbours = vec![neighbour("/dev/vda", "cron", &[(3, 1_000)])].into();
    assert_silent_on(&m, "cron");
    let mut slow = second(vec![redo(&[(20, 1_000)])]);
    slow.neighbours = vec![neighbour("/dev/vda", "cron", &[(3, 1_000)])].into();
    assert_says(
        &slow,
        "cron also syncs 3.0 times a second on /dev/vda: syncs on one device wait for each other.",
    );
    // What is counted without a time is waited for as well.
    slow.neighbours[0].stats.untimed = 37;
    assert_says(
        &slow,
        "cron also syncs 40 times a second on /dev/vda: syncs on one device wait for each other.",
    );
    let idle = Interval { neighbours: slow.neighbours, ..second(Vec::new()) };
    assert_silent_on(&idle, "cron");
}

#[test]
fn a_neighbour_on_another_device_of_the_same_disk_is_named_with_its_own() {
    let mut m = second(vec![redo(&[(5_000, 1_000)])]);
    m.neighbours = vec![neighbour("/dev/vda2", "xtrabackup", &[(41, 1_000)])].into();
    m.neighbours[0].device_number = 253 << 20 | 2;
    let vda = BTreeSet::from([253 << 20]);
    m.whole_disks = BTreeMap::from([(fixture::DEVICE, vda.clone()), (253 << 20 | 2, vda)]).into();
    assert_says(
        &m,
        "xtrabackup also syncs 41 times a second on /dev/vda2, on the disk of /dev/vda: \
         syncs on one disk wait for each other.",
    );
}

#[test]
fn nothing_synced_is_said_with_what_could_be_the_reason() {
    let m = fixture::quiet();
    let text = &said(&m)[0];
    assert!(text.starts_with("No sync in 1.37 s (fsync, fdatasync watched): "), "{text}");
    assert_eq!(said(&m).len(), 1, "and no ratio of nothing");
    let mut hung = fixture::quiet();
    hung.in_flight = vec![fixture::in_flight(Role::Redo, "/x", Duration::from_secs(9))];
    assert_says(&hung, "No sync finished in 1.37 s.");
}

#[test]
fn what_was_missed_is_counted() {
    let mut m = fixture::busy();
    m.lost.preempted = 3;
    m.lost.threads = 1;
    assert_eq!(
        certain(&m),
        [
            "In these 1.37 s no counted call failed, no counted call is stuck.",
            "Syncs missed: 3 because the kernel skipped a probe that it had preempted, 1 because there was no room for \
         the state of a call. 6,248 counted + 4 lost = 6,252."
        ]
    );
}

#[test]
fn each_other_loss_has_its_own_words() {
    let with = |lost| certain(&Interval { lost, ..fixture::busy() });
    use crate::model::Lost;
    let none = Lost::default();
    assert_eq!(
        with(Lost { files: 1_500, ..none })[1],
        "1,500 syncs are in the totals, but in no file's row: there was no room for it."
    );
    assert_eq!(
        with(Lost { events: 2, ..none })[1],
        "2 syncs are counted without their latency bucket, which the quantiles lack: a ring was full."
    );
    assert_eq!(
        with(Lost { names: 2, ..none })[1],
        "2 file names did not arrive, because a ring was full; the files are counted."
    );
    assert_eq!(
        with(Lost { errors: 2, ..none }),
        [
            "Nothing is stuck.",
            "2 failed syncs are counted without their errno: the map of the errors was full."
        ]
    );
    assert_eq!(
        with(Lost { processes: 2, ..none })[1],
        "2 processes of the command were not followed, so their syncs are missing: a map was full."
    );
}

#[test]
fn what_is_not_watched_and_happened_is_said_with_how_often() {
    let ways = "io_uring, libaio, O_DSYNC writes, RWF_DSYNC writes, msync, syncfs, sync";
    let mut m = fixture::busy();
    m.lost.unwatched = 1_234;
    m.unwatched = vec![(MYSQL, 1_234)].into();
    let by_others = |often: &str| {
        format!(
            "made data durable {often} by calls that are not watched ({ways}): these are not in the figures"
        )
    };
    assert_eq!(
        certain(&m),
        [
            "In these 1.37 s no watched call failed, no watched call is stuck, no watched call was missed."
                .to_owned(),
            format!("The server also {}.", by_others("1,234 times")),
        ]
    );
    let mut quiet = fixture::quiet();
    (quiet.lost.unwatched, quiet.unwatched) = (1, vec![(MYSQL, 1)].into());
    assert_eq!(certain(&quiet)[1], format!("The server also {}.", by_others("once")));
    assert_says(
        &quiet,
        "No watched sync in 1.37 s (fsync, fdatasync): the server makes data durable by calls that are not watched.",
    );
    let mut two = fixture::two_servers();
    // One is of a process for which there was no room.
    (two.lost.unwatched, two.unwatched) = (8, vec![(MYSQL, 6), (MARIADB, 1)].into());
    let each = "3306: 6 times, 3307: once";
    assert_eq!(certain(&two)[1], format!("The servers also {} ({each}).", by_others("8 times")));
    // Of the neighbours it is said where it is said who else syncs.
    let mut other = fixture::busy();
    other.lost.neighbours_unwatched = 9;
    assert_eq!(
        certain(&other),
        ["In these 1.37 s nothing failed, nothing is stuck, no watched call was missed."]
    );
}

#[test]
fn what_is_not_watched_is_said_as_far_as_a_line_has_room_and_never_hides_that_there_is_more() {
    let m = fixture::busy();
    let said = |width| {
        let style = Style { width: Some(width), ..Style::default() };
        confidence(&m, &Options { style, ..Options::default() }).pop().unwrap().text
    };
    assert_eq!(said(102), NOT_WATCHED);
    assert_eq!(said(80), "Not watched: io_uring, libaio, O_DSYNC writes, 5 more (fsynctop check).");
    for width in 40..102 {
        let text = said(width);
        assert!(text.contains("more (fsynctop check)"), "{text}");
        assert!(width < 48 || crate::text::width(&text) <= width, "{width}: {text}");
    }
    let mut all = fixture::busy();
    let setup = crate::model::Setup { ops: Op::ALL.to_vec(), ..(*all.setup).clone() };
    all.setup = Arc::new(setup);
    let last = confidence(&all, &Options::default()).pop().unwrap().text;
    assert!(!last.contains("atched:"), "{last}");
}

fn wal(latencies: &[(u64, u64)]) -> FileRow {
    row(MYSQL, 4, "/d/pg_wal/000000010000000000000003", Role::Wal, Op::Fdatasync, stats(latencies))
}

#[test]
fn of_another_engine_nothing_is_said_in_innodbs_words() {
    let m = fixture::of_postgres(second(vec![wal(&[(1_000, 500_000)])]));
    assert_eq!(said(&m), ["The WAL is 50 % busy: not saturated (80 %)."]);
    let m = fixture::of_postgres(second(vec![wal(&[(1_000, 900_000)])]));
    assert_says(&m, "The WAL is 90 % busy: saturated (80 %), commits queue for it.");
    let mut m = fixture::of_postgres(second(Vec::new()));
    assert_says(
        &m,
        "No sync in 1.00 s (fsync, fdatasync watched): the server is idle, or does not sync (fsync=off), or writes durably \
         without a sync.",
    );
    m.in_flight = vec![fixture::in_flight(Role::Wal, "/w", Duration::from_secs(3))];
    assert_eq!(
        said(&m)[0],
        "One sync is stuck for 3.0 s: wal fdatasync, thread ib_log_flush 31999, /w. Every commit waits for this log."
    );
    Arc::make_mut(&mut m.setup).ops.push(Op::DsyncWrite);
    m.in_flight.clear();
    assert_says(
        &m,
        "No sync in 1.00 s (fsync, fdatasync, dsync_write watched): the server is idle, or does not sync (fsync=off).",
    );
    // What it wrote is known where all writes are watched.
    Arc::make_mut(&mut m.setup).ops.push(Op::Write);
    m.writes =
        vec![FileRow { op: Op::Write, stats: Stats { bytes: 948_000, ..stats(&[(9, 1_000)]) }, ..wal(&[]) }]
            .into();
    assert_says(
        &m,
        "No sync in 1.00 s (fsync, fdatasync, dsync_write, write watched): the server wrote 948 kB; it may be one that \
         does not sync (fsync=off).",
    );
}

#[test]
fn of_a_process_that_is_no_known_engine_no_reason_is_supposed() {
    let mut m = second(vec![wal(&[(1_000, 900_000)])]);
    Arc::make_mut(&mut m.servers[0]).engine = None;
    assert_says(&m, "The WAL is 90 % busy: saturated (80 %), durable writes queue for it.");
    let mut m = second(Vec::new());
    Arc::make_mut(&mut m.servers[0]).engine = None;
    assert_says(&m, "No sync in 1.00 s (fsync, fdatasync watched).");
}
