//! The laws that intervals of any content keep: what is put together in parts is the same as the whole.

use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::model::fixture::{MARIADB, MYSQL, in_flight, quiet, row, server, stats};
use crate::model::{Backlog, Committer, FileId, OwnReading, Phase, Row, Snapshot, Target, Texts};

fn config() -> ProptestConfig {
    ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() }
}

fn any_server() -> impl Strategy<Value = ServerId> {
    prop_oneof![Just(MYSQL), Just(MARIADB), Just(ServerId::ENDED)]
}

fn any_role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Redo), Just(Role::Tablespace), Just(Role::Other)]
}

fn any_stats() -> impl Strategy<Value = Stats> {
    let latencies = prop::collection::vec((1..5u64, 1..10_000_000_000u64), 0..3);
    let errors = prop::collection::btree_map(1..4i32, 1..9u64, 0..3);
    (latencies, errors, any::<bool>(), 0..99u64, -5..5i64).prop_map(
        |(latencies, errors, exact, bytes, pending_ns)| {
            let mut stats = stats(&latencies);
            (stats.errors, stats.bytes, stats.pending_ns) = (errors.into_iter().collect(), bytes, pending_ns);
            stats.max.exact = exact && stats.count > 0;
            stats
        },
    )
}

fn any_file(op: Op) -> impl Strategy<Value = FileRow> {
    (any_server(), 1..5u64, any_role(), any_stats())
        .prop_map(move |(server, inode, role, stats)| row(server, inode, "/d/f", role, op, stats))
}

fn any_unsynced() -> impl Strategy<Value = UnsyncedRow> {
    (any_server(), 1..4u64, 0..99u64, 0..99u64, 0..9u64).prop_map(
        |(server, inode, now, more, possibly_lost)| {
            let backlog = |bytes| Backlog { bytes, age: Duration::from_micros(bytes) };
            let FileRow { target, info, .. } =
                row(server, inode, "/d/f", Role::Redo, Op::Write, Stats::default());
            UnsyncedRow { server, target, info, now: backlog(now), most: backlog(now + more), possibly_lost }
        },
    )
}

fn any_wait() -> impl Strategy<Value = WaitRow> {
    let phase = prop::option::of(prop_oneof![Just(Phase::JournalCommit), Just(Phase::OnCpu)]);
    (any_server(), any_role(), phase, 0..2usize, 1..9u64, 0..9u64).prop_map(
        |(server, role, phase, frames, ns, flush)| {
            let mut under = [0; Committer::ALL.len()];
            under[Committer::Flush as usize] = flush;
            WaitRow {
                server,
                role,
                op: Op::Fsync,
                phase,
                stack: vec!["f".to_owned(); frames].into(),
                ns,
                under,
            }
        },
    )
}

fn many<R: Row + std::fmt::Debug>(row: impl Strategy<Value = R>) -> impl Strategy<Value = Table<R>> {
    prop::collection::vec(row, 0..5).prop_map(Table::from)
}

prop_compose! {
    fn any_lost()(counts in any::<[u8; 4]>(), paused in 0..9u64) -> Lost {
        let [preempted, files, unreported, unwatched] = counts.map(u64::from);
        let paused = Duration::from_secs(paused);
        Lost { preempted, files, unreported, unwatched, paused, ..Lost::default() }
    }
}

prop_compose! {
    fn any_io()(server in any_server(), read_bytes in 0..9u64, written_bytes in 0..9u64) -> ServerIo {
        ServerIo { server, read_bytes, written_bytes, cancelled_bytes: written_bytes / 2 }
    }
}

prop_compose! {
    fn any_verdict()(server in any_server(), state in "ok|stalled", second in 0..9u64) -> VerdictRow {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        VerdictRow { server, state, since, sentence: String::new() }
    }
}

prop_compose! {
    fn any_counters()(server in any_server(), second in 0..9u64, number in 1..6usize, is_set in any::<bool>()) -> OwnCounters {
        let began = Duration::from_secs(second);
        let counters = [("binlog_commits".to_owned(), second.to_string())].into();
        let settings = if is_set { [("sync_binlog".to_owned(), second.to_string())].into() } else { Texts::new() };
        let reading = Arc::new(OwnReading { began, ended: began, follows: second, counters });
        OwnCounters { server, readings: vec![reading; number], settings: Arc::new(settings) }
    }
}

prop_compose! {
    fn any_unsynced_of_time()(
        rows in many(any_unsynced()),
        together in prop::collection::btree_map((any_server(), Just(Role::Redo)), 0..300u64, 0..3),
        dropped in 0..9u64,
    ) -> Unsynced<Table<UnsyncedRow>> {
        Unsynced { rows, together, dropped }
    }
}

prop_compose! {
    /// A second, with whatever may have happened in it.
    fn any_interval()(
        second in 0..100u64,
        lost in any_lost(),
        files in many(any_file(Op::Fsync)),
        failures in many(any_file(Op::Writeback)),
        writes in many(any_file(Op::Write)),
        rest in (0..9u64, any_stats()),
        hangs in prop::collection::vec((any_role(), 1..99u64), 0..3),
        unwatched in many((any_server(), 0..9u64)),
        written in 0..9u64,
        io in many(any_io()),
        counters in many(any_counters()),
        verdicts in many(any_verdict()),
        unsynced in any_unsynced_of_time(),
        waits in many(any_wait()),
    ) -> Interval {
        let (rows, stats) = rest;
        let span = Span { sequence: second, monotonic: Duration::from_secs(second), ..quiet().span };
        let device = DeviceRow {
            number: 7,
            name: "/dev/vda".into(),
            mount: None,
            written_bytes: written,
            read_bytes: written / 2,
            submitted_bytes: written,
        };
        Interval {
            span,
            lost,
            servers: [MYSQL, MARIADB].map(|id| Arc::new(server(id, "mysqld", "MySQL 9.7.4", 1))).into_iter().collect(),
            roles: roles_of(&files),
            files,
            rest: Rest { rows, stats },
            failures,
            write_roles: roles_of(&writes),
            writes,
            in_flight: hangs.iter().map(|&(role, age)| in_flight(role, "/d/f", Duration::from_secs(age))).collect(),
            unwatched,
            devices: vec![device].into(),
            io,
            counters,
            verdicts,
            unsynced,
            wait_losses: WaitLosses { stacks: written, ..WaitLosses::default() },
            waits,
            ..quiet()
        }
    }
}

fn together(parts: &[&Interval]) -> Interval {
    let mut whole = Interval::empty(quiet().setup);
    parts.iter().for_each(|part| whole.append((*part).clone()));
    whole
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_put_together_in_any_order_is_the_same(
        a in any_interval(), b in any_interval(), c in any_interval(),
    ) {
        let (first, last) = (together(&[&a, &b]), together(&[&b, &c]));
        prop_assert_eq!(together(&[&first, &c]), together(&[&a, &last]));
    }

    #[test]
    fn no_time_adds_nothing(a in any_interval()) {
        let none = Interval::empty(a.setup.clone());
        prop_assert_eq!(&together(&[&none, &a]), &a);
        prop_assert_eq!(&together(&[&a, &none]), &a);
    }

    #[test]
    fn the_rows_of_some_servers_are_the_same_before_and_after(a in any_interval(), b in any_interval()) {
        let of_mysql = |mut m: Interval| {
            m.retain_servers(|server| server == MYSQL);
            m
        };
        // What is lost is a sum that is never less than nothing: of each part by itself.
        let all = |lost: Lost| Lost { unwatched: 999, ..lost };
        let (a, b) = (Interval { lost: all(a.lost), ..a }, Interval { lost: all(b.lost), ..b });
        prop_assert_eq!(of_mysql(together(&[&a, &b])), together(&[&of_mysql(a), &of_mysql(b)]));
    }

    #[test]
    fn the_difference_of_totals_is_what_its_parts_add_up_to(
        steps in prop::collection::vec(prop::collection::vec((0..3usize, 1..5u64, 1..9_000_000u64), 0..4), 1..6),
        waits in prop::collection::vec(many(any_wait()), 6),
    ) {
        // Three files, each of whose totals only grows.
        let begin = Instant::now();
        let mut totals = [1, 2, 3].map(|inode| row(MYSQL, inode, "/d/f", Role::Redo, Op::Fsync, Stats::default()));
        let snapshot = |number: usize, files: &[FileRow]| Snapshot {
            files: files.to_vec(),
            waits: waits[..number].iter().flatten().cloned().collect(),
            number: number as u64,
            ..Snapshot::empty(begin + Duration::from_secs(number as u64), SystemTime::UNIX_EPOCH, quiet().setup)
        };
        let mut snapshots = vec![snapshot(0, &totals)];
        for (number, step) in (1..).zip(&steps) {
            for &(file, count, ns) in step {
                totals[file].stats.merge(&stats(&[(count, ns)]));
            }
            snapshots.push(snapshot(number, &totals));
        }
        let parts: Vec<_> = snapshots.windows(2).map(|two| Interval::between(&two[0], &two[1])).collect();
        let sum = together(&parts.iter().collect::<Vec<_>>());
        let whole = Interval::between(&snapshots[0], snapshots.last().unwrap());
        prop_assert_eq!((sum.files.len(), sum.span.duration), (whole.files.len(), whole.span.duration));
        prop_assert_eq!(&sum.waits, &whole.waits);
        for (of_parts, of_whole) in sum.files.iter().zip(&whole.files) {
            // A maximum that a short interval knew only by its bucket may be a bucket's width too high.
            prop_assert!(of_parts.stats.max.ns >= of_whole.stats.max.ns);
            let max = of_whole.stats.max;
            prop_assert_eq!(&Stats { max, ..of_parts.stats.clone() }, &of_whole.stats);
        }
    }

    #[test]
    fn with_fewer_rows_every_sum_is_the_same(rows in many(any_unsynced()), keep in any::<[bool; 5]>()) {
        let kept: Vec<usize> = (0..rows.len()).filter(|&at| keep[at]).collect();
        let id = FileId { device: 0, inode: 0, generation: 0, weak: false, part: false };
        let rest = |row: &UnsyncedRow| UnsyncedRow { server: ServerId::NONE, target: Target::File(id), ..row.clone() };
        let limited = rows.limit(&kept, rest);
        prop_assert!(limited.len() <= kept.len() + 1);
        let sum = |rows: &Table<UnsyncedRow>| rows.iter().fold((0, 0), |(now, lost), row| (now + row.now.bytes, lost + row.possibly_lost));
        prop_assert_eq!(sum(&limited), sum(&rows));
    }
}
