//! What the history keeps, forgets and sums up, on measurements as servers produce them.

use super::*;
use crate::model::fixture::*;
use crate::model::{
    Backlog, DeviceRow, FileRow, InFlight, Lost, Op, OwnCounters, OwnReading, Rest, Role, RoleRow, ServerId,
    ServerIo, Stats, Target, Texts, Unsynced, UnsyncedRow, VerdictRow,
};

fn history(length: u64, bytes: usize) -> History {
    History::new(Options { length: Duration::from_secs(length), bytes, files: 50 })
}

/// The interval of a second that begins `second` seconds after the first one.
fn at(second: u64, mut measurement: Interval) -> Interval {
    measurement.span.duration = Duration::from_secs(1);
    measurement.span.start += Duration::from_secs(second);
    measurement.span.end = measurement.span.start + measurement.span.duration;
    measurement
}

fn files(n: u64) -> Vec<FileRow> {
    let file = |i| {
        let latencies = [(1 + i % 7, 100_000 + 1_000 * i), (1, 3_000_000)];
        row(
            MYSQL,
            i,
            &format!("/var/lib/mysql/shop/table_{i:06}.ibd"),
            Role::Tablespace,
            Op::Fsync,
            stats(&latencies),
        )
    };
    (0..n).map(file).collect()
}

fn unsynced(inode: u64, now: u64, most: u64, possibly_lost: u64) -> UnsyncedRow {
    let row = row(MYSQL, inode, "/d/#ib_redo5", Role::Redo, Op::Write, stats(&[]));
    let backlog = |bytes| Backlog { bytes, age: Duration::from_micros(bytes) };
    let FileRow { server, target, info, .. } = row;
    UnsyncedRow { server, target, info, now: backlog(now), most: backlog(most), possibly_lost }
}

fn device(written_bytes: u64) -> DeviceRow {
    let mount = Some(std::path::Path::new("/d\u{fffd}").into());
    DeviceRow {
        number: 7,
        name: "/dev/vda".into(),
        mount,
        written_bytes,
        read_bytes: 5,
        submitted_bytes: 600,
    }
}

#[test]
fn of_several_moments_what_is_unsynced_is_the_last_ones_and_the_most_of_any() {
    let mut history = History::new(Options::default());
    let second = |n, rows: Vec<UnsyncedRow>| Interval {
        unsynced: Unsynced { rows: rows.into(), dropped: 1, ..Unsynced::default() },
        devices: vec![device(1_000 * (n + 1))].into(),
        ..at(n, quiet())
    };
    history.push(&second(0, vec![unsynced(1, 700, 9_000, 0), unsynced(2, 50, 60, 50)]));
    history.push(&second(1, vec![unsynced(1, 300, 800, 0)]));
    let all = history.last(Duration::MAX).unwrap();
    // Of the second nothing was unsynced any more.
    assert_eq!(all.unsynced.rows, [unsynced(1, 300, 9_000, 0), unsynced(2, 0, 60, 0)]);
    assert_eq!(all.unsynced.dropped, 2);
    assert_eq!((all.devices[0].written_bytes, all.devices[0].submitted_bytes), (3_000, 1_200));
}

#[test]
fn of_thousands_of_unsynced_files_the_logs_are_kept_and_the_sum_is_also_where_syncs_of_the_others_failed() {
    for lost in [0, 300] {
        let mut rows: Vec<_> = (100..5_100).map(|inode| unsynced(inode, 700, 1_000, lost)).collect();
        for row in &mut rows {
            std::sync::Arc::make_mut(&mut row.info).role = Role::Tablespace;
        }
        rows.push(unsynced(1, 5, 6, 0));
        let mut measurement = quiet();
        measurement.unsynced = Unsynced { rows: rows.into(), ..Unsynced::default() };
        let kept = limited(&measurement, 50).unsynced.rows;
        assert!(kept.len() < 60, "{}", kept.len());
        assert!(kept.contains(&unsynced(1, 5, 6, 0)));
        assert_eq!(kept.iter().map(|row| row.now.bytes).sum::<u64>(), 5_000 * 700 + 5);
        assert_eq!(kept.iter().map(|row| row.possibly_lost).sum::<u64>(), 5_000 * lost);
    }
}

#[test]
fn a_moment_comes_back_as_it_went_in() {
    for mut measurement in [quiet(), busy(), two_servers(), hostile()] {
        measurement.lost = Lost { preempted: 3, names: 1, unwatched: 5, ..Lost::default() };
        Arc::make_mut(&mut measurement.servers[0]).mount = Some("/srv/\u{fffd}".into());
        measurement.unwatched = vec![(MYSQL, 4)].into();
        let written = Stats { bytes: 16_384, ..stats(&[(3, 9_000)]) };
        measurement.writes = vec![row(MYSQL, 7, "/d/undo_001", Role::Undo, Op::Write, written)].into();
        measurement.write_roles = crate::model::roles_of(&measurement.writes);
        let together = [((MYSQL, Role::Redo), 2_000)].into();
        measurement.unsynced =
            Unsynced { rows: vec![unsynced(4_000, 900, 2_000, 0)].into(), together, dropped: 5 };
        measurement.devices = vec![device(1_000)].into();
        measurement.io =
            vec![ServerIo { server: MYSQL, read_bytes: 1, written_bytes: 20_000, cancelled_bytes: 3 }].into();
        let texts = |name: &str, value: &str| Texts::from([(name.to_owned(), value.to_owned())]);
        let reading = |second| OwnReading {
            began: Duration::from_secs(second),
            follows: second,
            ended: Duration::from_millis(second * 1_000 + 3),
            counters: texts("innodb_data_fsyncs", &(7 * second).to_string()),
        };
        let counters = |second, settings| OwnCounters {
            server: MYSQL,
            readings: vec![Arc::new(reading(second))],
            settings: Arc::new(settings),
        };
        measurement.counters = vec![counters(1, texts("sync_binlog", "1"))].into();
        measurement.counters.append(vec![counters(2, Texts::new())].into());
        measurement.verdicts = vec![VerdictRow {
            server: MYSQL,
            state: "stalled".into(),
            since: std::time::UNIX_EPOCH + Duration::from_nanos(7),
            sentence: "An fsync of the redo log hangs.".into(),
        }]
        .into();
        let mut history = History::new(Options::default());
        history.push(&measurement);
        let moments: Vec<_> = history.moments().collect();
        assert_eq!(moments, [limited(&measurement, 50)]);
        let [moment] = &moments[..] else { unreachable!() };
        assert_eq!((moment.roles.clone(), moment.lost), (measurement.roles.clone(), measurement.lost));
        assert_eq!(moment.files.len(), measurement.files.len());
        assert_eq!(moment.rest, Rest::default());
        assert_eq!(moment.servers, measurement.servers);
        assert_eq!(moment.unwatched, measurement.unwatched);
        let last = history.last(Duration::MAX).unwrap();
        assert_eq!((last.writes, last.write_roles), (measurement.writes, measurement.write_roles));
        assert_eq!((last.unsynced, last.devices), (measurement.unsynced, measurement.devices));
        assert_eq!((last.io, last.counters), (measurement.io, measurement.counters));
        assert_eq!(last.verdicts, measurement.verdicts);
        let mut bytes = Vec::new();
        history.write(&mut bytes).unwrap();
        assert_eq!(History::read(&bytes).unwrap().moments().collect::<Vec<_>>(), moments);
    }
}

#[test]
fn a_range_adds_up_to_what_was_pushed() {
    let mut history = History::new(Options::default());
    let begin = quiet().span.start;
    for second in 0..10 {
        history.push(&at(second, if second % 2 == 0 { busy() } else { two_servers() }));
    }
    let all = history.last(Duration::from_secs(600)).unwrap();
    assert_eq!(all.span.parts, 10);
    assert_eq!(all.total().count, 5 * (busy().total().count + two_servers().total().count));
    assert_eq!(all.files.iter().map(|row| row.stats.count).sum::<u64>(), all.total().count);
    assert_eq!(all.span.duration, Duration::from_secs(10));
    assert_eq!((all.span.start, all.span.end), (begin, begin + Duration::from_secs(10)));
    let redo = all.roles.iter().find(|row| row.role == Role::Redo && row.server == MYSQL).unwrap();
    assert_eq!(redo.stats.histogram.count(), 10 * 3_237);

    let second = |n| begin + Duration::from_secs(n);
    let some = history.between(second(3), second(5)).unwrap();
    assert_eq!((some.span.parts, some.span.start, some.span.end), (2, second(3), second(5)));
    assert!(history.between(second(50), second(60)).is_none());
    assert_eq!(history.last(Duration::from_secs(3)).unwrap().span.parts, 3);
    assert!(History::new(Options::default()).last(Duration::from_secs(9)).is_none());
}

#[test]
fn parts_of_a_moment_are_one_moment() {
    let many = |second| at(second, with_files(quiet(), files(80), Vec::new()));
    let mut history = History::new(Options::default());
    history.push_part(&many(0));
    history.push_part(&at(1, busy()));
    assert!(history.is_empty(), "it has only begun");
    history.push(&many(2));
    history.push(&many(3));
    let [moment, next] = &history.moments().collect::<Vec<_>>()[..] else { panic!("{}", history.len()) };
    assert_eq!((moment.span.start, moment.span.end), (many(0).span.start, many(2).span.end));
    assert_eq!(moment.span.duration, Duration::from_secs(3));
    let sum = 2 * many(0).total().count + busy().total().count;
    assert_eq!(moment.total().count, sum);
    assert_eq!(moment.files.len(), 50, "no more than there is room for");
    assert_eq!(moment.files.iter().map(|row| row.stats.count).sum::<u64>() + moment.rest.stats.count, sum);
    assert_eq!(*next, limited(&many(3), 50), "nothing of it is left for the next");
}

#[test]
fn it_reaches_back_as_far_as_it_should_and_by_a_segment_further() {
    let mut history = history(60, 4 << 20);
    for second in 0..200 {
        history.push(&at(second, busy()));
    }
    assert_eq!((history.len(), history.length()), (62, Duration::from_secs(62)));
    assert_eq!(history.since(), Some(quiet().span.start + Duration::from_secs(138)));
    assert!(!history.is_short_of_memory());
}

#[test]
fn the_budget_holds_whatever_comes_and_the_oldest_go_first() {
    let mut history = history(600, 300_000);
    for second in 0..600 {
        // Other files each second, and a server that is another one each time.
        let mut measurement = at(second, with_files(quiet(), files(200), Vec::new()));
        for row in &mut measurement.files {
            let Target::File(id) = &mut row.target else { unreachable!() };
            id.inode += 1_000 * second;
        }
        history.push(&measurement);
        assert!(history.bytes() <= 300_000, "{} in second {second}", history.bytes());
    }
    assert!(history.is_short_of_memory());
    assert!(history.len() >= 3, "{}", history.len());
    let newest = history.moments().next_back().unwrap();
    assert_eq!(newest.span.start, quiet().span.start + Duration::from_secs(599));
    assert_eq!(newest.files.len(), 50);
}

#[test]
fn of_many_servers_minutes_are_kept_as_well() {
    let mut history = History::new(Options::default());
    let many = |second| {
        let mut m = at(second, busy());
        let server = m.servers[0].clone();
        m.servers = (0..128)
            .map(|n| {
                let id = ServerId { pid: server.id.pid + n, ..server.id };
                Arc::new(Server { id, name: format!("server-{n}").into(), ..(*server).clone() })
            })
            .collect();
        m
    };
    for second in 0..1_500 {
        history.push(&many(second));
        assert!(history.bytes() <= history.options().bytes, "{}", history.bytes());
    }
    assert!(history.length() >= Duration::from_secs(300), "{:?}", history.length());
}

#[test]
fn what_is_packed_is_small() {
    let mut history = History::new(Options::default());
    for second in 0..600 {
        history.push(&at(second, two_servers()));
    }
    // Two busy servers, ten minutes.
    assert_eq!(history.len(), 600);
    assert!(history.bytes() < 2_000_000, "{}", history.bytes());
}

#[test]
fn files_with_failures_are_kept_before_those_that_took_time_and_the_rest_is_summed_up() {
    let mut rows = files(120);
    rows[3].stats.errors.insert(libc::EIO, 1);
    let measurement = with_files(quiet(), rows, Vec::new());
    let moment = limited(&measurement, 50);
    assert_eq!((moment.files.len(), moment.rest.rows), (50, 70));
    let number = |row: &FileRow| match row.target {
        Target::File(id) => id.inode,
        _ => unreachable!(),
    };
    assert!(moment.files.iter().any(|row| number(row) == 3), "the one that failed");
    let kept: u64 = moment.files.iter().map(|row| row.stats.count).sum();
    assert_eq!(kept + moment.rest.stats.count, measurement.total().count);
    let least_kept = moment.files.iter().filter(|row| number(row) != 3).map(|row| row.stats.sum_ns).min();
    let left_out = measurement.files.iter().filter(|row| !moment.files.contains(row));
    assert!(left_out.map(|row| row.stats.sum_ns).max() <= least_kept);
}

#[test]
fn a_file_that_is_made_anew_again_and_again_is_kept_whole_or_not_at_all() {
    let mut rows = files(60);
    let journal = |inode| {
        let one = stats(&[(2, 250_000)]);
        let mut row = row(MYSQL, inode, "/srv/orders.db-journal", Role::Other, Op::Fdatasync, one);
        Arc::make_mut(&mut row.info).unlinked = inode < 1_400;
        row
    };
    rows.extend((1_001..=1_400).map(journal));
    let measurement = with_files(quiet(), rows, Vec::new());
    let moment = limited(&measurement, 50);
    assert_eq!(moment.files.len(), 50);
    let journals = moment.files.iter().filter(|row| row.info.role == Role::Other);
    assert_eq!(journals.map(|row| row.stats.count).sum::<u64>(), 2 * 399, "one row of all that are gone");
    let kept: u64 = moment.files.iter().map(|row| row.stats.count).sum();
    assert_eq!(kept + moment.rest.stats.count, measurement.total().count);
}

#[test]
fn many_servers_are_summed_up_and_none_is_lost() {
    let server = |pid| ServerId { pid, start_ns: 7 };
    let row = |pid| {
        row(server(pid), 1, "/d/ib_logfile0", Role::Redo, Op::Fdatasync, stats(&[(u64::from(pid), 10_000)]))
    };
    let mut measurement = with_files(quiet(), Vec::from_iter((1..=1_000).map(row)), Vec::new());
    measurement.servers = (1..=1_000)
        .map(|pid| Arc::new(crate::model::fixture::server(server(pid), "x", "MySQL 9", 1)))
        .collect();
    let moment = limited(&measurement, 50);
    assert!(moment.roles.len() < 300 && moment.servers.len() < 200);
    assert_eq!(moment.total().count, measurement.total().count);
    assert!(moment.total_of(|row| row.server == ServerId::NONE).count > 0);
    assert_eq!(moment.total_of(|row| row.server == server(1_000)).count, 1_000);
}

#[test]
fn a_clock_that_is_set_changes_no_length() {
    let mut history = history(10, 4 << 20);
    for second in 0..20 {
        let mut measurement = at(second, busy());
        if second >= 15 {
            // An hour back.
            measurement.span.start -= Duration::from_secs(3_600);
            measurement.span.end -= Duration::from_secs(3_600);
        }
        history.push(&measurement);
    }
    assert_eq!((history.len(), history.length()), (10, Duration::from_secs(10)));
    let last = history.last(Duration::from_secs(7)).unwrap();
    assert_eq!((last.span.parts, last.span.duration), (7, Duration::from_secs(7)));
    let back = quiet().span.start - Duration::from_secs(3_600);
    let between = history.between(back + Duration::from_secs(15), back + Duration::from_secs(18)).unwrap();
    assert_eq!(between.span.parts, 3);
}

#[test]
fn a_server_that_is_started_again_is_another_one_and_the_first_is_remembered_as_ended() {
    let mut history = History::new(Options::default());
    history.push(&at(0, busy()));
    let again = ServerId { start_ns: MYSQL.start_ns + 1, ..MYSQL };
    let mut measurement = at(1, busy());
    measurement.servers.push(Arc::new(server(again, "mysqld", "MySQL 9.7.4", 3306)));
    Arc::make_mut(&mut measurement.servers[0]).alive = false;
    for row in &mut measurement.files {
        row.server = again;
    }
    let files = measurement.files.clone();
    history.push(&with_files(measurement, files, Vec::new()));
    let all = history.last(Duration::from_secs(600)).unwrap();
    let alive: Vec<_> = all.servers.iter().map(|server| (server.id, server.alive)).collect();
    assert_eq!(alive, [(MYSQL, false), (again, true)]);
    let of = |id| {
        history.moments().map(|moment| moment.total_of(|row| row.server == id).count).collect::<Vec<_>>()
    };
    let count = busy().total().count;
    assert_eq!((of(MYSQL), of(again)), (vec![count, 0], vec![0, count]));
}

#[test]
fn syncs_in_flight_are_counted_with_the_oldest() {
    let sync = |seconds| InFlight {
        tid: seconds as u32,
        ..in_flight(Role::Redo, "/d/a", Duration::from_secs(seconds))
    };
    let measurement = Interval { in_flight: vec![sync(2), sync(9), sync(1)], ..quiet() };
    let mut history = History::new(Options::default());
    history.push(&measurement);
    let moment = history.moments().next().unwrap();
    let oldest = InFlight { count: 3, ..sync(9) };
    assert_eq!(moment.in_flight, std::slice::from_ref(&oldest));
    assert_eq!(history.last(Duration::from_secs(1)).unwrap().in_flight, [oldest]);
}

#[test]
fn handed_over_it_says_the_same_again() {
    let mut history = history(600, 4 << 20);
    for second in 0..200 {
        for measurement in [busy(), hostile(), two_servers()] {
            history.push(&at(second, measurement));
        }
    }
    let mut bytes = Vec::new();
    history.write(&mut bytes).unwrap();
    let back = History::read(&bytes).unwrap();
    assert!(back.moments().eq(history.moments()));
    assert_eq!((back.options(), back.since(), back.len()), (history.options(), history.since(), 600));
    let (ours, theirs) = (history.last(Duration::MAX).unwrap(), back.last(Duration::MAX).unwrap());
    assert_eq!((ours.setup, ours.roles), (theirs.setup, theirs.roles));
    assert!(matches!(History::read(b"{}\n"), Err(ReadError::Json(_))));
    assert!(matches!(History::read(b"{}"), Err(ReadError::NoContents)));
}

/// A frame that is damaged costs what it says: an interval, or the names of what its figures are of.
#[test]
fn without_a_frame_of_names_the_figures_are_somebodys() {
    let mut history = History::new(Options::default());
    (0..3).for_each(|second| history.push(&at(second, busy())));
    let mut bytes = Vec::new();
    history.write(&mut bytes).unwrap();
    let whole = history.last(Duration::MAX).unwrap();
    let at = bytes.windows(10).position(|window| window == b"\"servers\":").unwrap();
    bytes[at] ^= 1;
    let back = History::read(&bytes).unwrap().last(Duration::MAX).unwrap();
    assert_eq!((back.span, back.total()), (whole.span, whole.total()));
    assert!(back.servers.is_empty());
    let roles =
        |m: &Interval| m.roles.iter().map(|row| (row.role, row.op, row.stats.count)).collect::<Vec<_>>();
    assert_eq!(roles(&back), roles(&whole));
}

/// What a stranger's servers do by the thousand drives nothing of a service out, however little that is.
#[test]
fn whoever_has_most_rows_leaves_the_history_to_others() {
    let service = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
    let stranger = owned(server(MARIADB, "mysqld", "MySQL 9.7.4", 3307), 1001);
    let role = |server, role, ns| RoleRow { server, role, op: Op::Fsync, stats: stats(&[(1, ns)]) };
    let file = |server, inode, ns| row(server, inode, "/x", Role::Redo, Op::Fsync, stats(&[(1, ns)]));
    let mut measurement = quiet();
    measurement.servers = vec![Arc::new(service), Arc::new(stranger)].into();
    let stranger = |n| ServerId { start_ns: n, ..MARIADB };
    measurement.roles = (0..1_000).map(|n| role(stranger(n), Role::Redo, 1_000_000_000)).collect();
    measurement.roles.push(role(MYSQL, Role::Binlog, 1));
    measurement.files = (0..1_000).map(|inode| file(MARIADB, inode, 1_000_000_000)).collect();
    measurement.files.push(file(MYSQL, 7, 1));
    let hangs = |server, age| InFlight { server, ..in_flight(Role::Redo, "/x", Duration::from_secs(age)) };
    measurement.in_flight = (0..1_000).map(|_| hangs(MARIADB, 100)).collect();
    measurement.in_flight.push(hangs(MYSQL, 2));
    let moment = limited(&measurement, 10);
    assert!(moment.roles.iter().any(|row| row.server == MYSQL));
    assert!(moment.files.iter().any(|row| row.server == MYSQL), "{}", moment.files.len());
    assert!(moment.in_flight.iter().any(|sync| sync.server == MYSQL));
}
