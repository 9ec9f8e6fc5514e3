//! Writes, durable and not, their bytes, and what of them is not synced.

use super::*;

#[test]
fn durable_writes_and_what_is_asked_for_in_rings_are_told_apart_and_have_their_bytes() {
    let mut world = World::with_mysql();
    Arc::make_mut(&mut world.setup).ops.extend([Op::DsyncWrite, Op::IoUringFsync, Op::IoUringDsyncWrite]);
    let written = |n, bytes| Stats { bytes, ..stats(&[(n, 80_000)]) };
    let mut by_call = FileRow { op: Op::DsyncWrite, ..redo(MYSQL, 1, &[]) };
    by_call.stats = written(5, 2_560);
    let mut in_ring = FileRow { op: Op::IoUringDsyncWrite, ..table(MYSQL, 2, &[]) };
    in_ring.stats = written(3, 49_152);
    let synced = FileRow { op: Op::IoUringFsync, ..table(MYSQL, 3, &[(2, 80_000)]) };
    world.files.extend([by_call, in_ring, synced, redo(MYSQL, 4, &[(1, 80_000)])]);
    let all = world.tick();
    let of = |op: &str, via: &str| syncs(&all, &[&format!("op=\"{op}\""), &format!("via=\"{via}\"")]);
    assert_eq!((of("dsync_write", "call"), of("dsync_write", "io_uring")), (5.0, 3.0));
    assert_eq!((of("fsync", "io_uring"), of("fdatasync", "call"), of("fsync", "call")), (2.0, 1.0, 0.0));
    let bytes = |role: &str, via: &str| {
        all.get(&format!(
            "fsynctop_durable_written_bytes_total{{server=\"3306\",role=\"{role}\",via=\"{via}\"}}"
        ))
    };
    assert_eq!(bytes("redo", "call"), Some(&2_560.0));
    assert_eq!(bytes("tablespace", "io_uring"), Some(&49_152.0));
    assert_eq!((bytes("binlog", "call"), bytes("binlog", "io_uring")), (Some(&0.0), None));
    assert_eq!(sum(&all, "fsynctop_file_syncs_total", &["op=\"dsync_write\"", "via=\"io_uring\""]), 3.0);
    assert!(!all.keys().any(|series| series.contains("op=\"io_uring")), "{all:#?}");
    // Rows that are folded take nothing away.
    world.files[0].stats = written(7, 3_000);
    world.fold(0);
    let all = world.tick();
    assert_eq!(sum(&all, "fsynctop_durable_written_bytes_total", &["role=\"redo\""]), 3_000.0);
}

#[test]
fn all_writes_are_families_of_their_own_and_in_no_sum_of_syncs() {
    let mut world = World::with_mysql();
    let written =
        |op, row: FileRow, n, bytes| FileRow { op, stats: Stats { bytes, ..stats(&[(n, 80_000)]) }, ..row };
    world.files.push(written(Op::DsyncWrite, redo(MYSQL, 1, &[]), 5, 2_560));
    let all = world.tick();
    assert!(
        !all.keys().any(|series| series.starts_with("fsynctop_writ") && !series.contains("writeback")),
        "not all are watched: {all:#?}"
    );

    let mut world = World::with_mysql();
    Arc::make_mut(&mut world.setup).ops.extend([Op::DsyncWrite, Op::Write, Op::IoUringWrite, Op::Fallocate]);
    world.files.push(written(Op::DsyncWrite, redo(MYSQL, 1, &[]), 5, 2_560));
    world.files.push(written(Op::Write, redo(MYSQL, 2, &[]), 4, 4_096));
    world.files.push(written(Op::IoUringWrite, table(MYSQL, 3, &[]), 3, 49_152));
    world.files.push(written(Op::Fallocate, table(MYSQL, 3, &[]), 2, 0));
    let all = world.tick();
    let count = |op: &str, via: &str| {
        let (op, via) = (format!("op=\"{op}\""), format!("via=\"{via}\""));
        sum(&all, "fsynctop_write_duration_seconds_count", &[&op, &via])
    };
    assert_eq!((count("dsync_write", "call"), count("write", "call")), (5.0, 4.0));
    assert_eq!((count("write", "io_uring"), count("fallocate", "call")), (3.0, 2.0));
    assert_eq!(syncs(&all, &[]), 5.0, "of which only the durable ones are syncs");
    assert_eq!(sum(&all, "fsynctop_written_bytes_total", &["role=\"redo\""]), 6_656.0);
    assert_eq!(sum(&all, "fsynctop_written_bytes_total", &[]), 55_808.0);
    let at_zero = "fsynctop_written_bytes_total{server=\"3306\",role=\"undo\",op=\"write\",via=\"call\"}";
    assert_eq!(all.get(at_zero), Some(&0.0));
    // Of the logs it is known from the start that nothing is unsynced.
    let unsynced = |all: &BTreeMap<String, f64>, role: &str| {
        let of = |family: &str| sum(all, family, &[&format!("role=\"{role}\"")]);
        (of("fsynctop_unsynced_bytes"), of("fsynctop_unsynced_oldest_seconds"))
    };
    assert_eq!(all.get("fsynctop_unsynced_bytes{server=\"3306\",role=\"binlog\"}"), Some(&0.0));
    let peak = |at, bytes, milliseconds| Peak {
        at,
        most: Backlog { bytes, age: Duration::from_millis(milliseconds) },
    };
    let end = world.start + Duration::from_secs(world.seconds + 1);
    world.unsynced = vec![UnsyncedFile {
        server: MYSQL,
        file: FileId { device: 1, inode: 2, generation: 3, weak: false, part: false },
        info: Arc::new(FileInfo::nameless(Role::Redo)),
        now: Backlog { bytes: 512, age: Duration::from_millis(2) },
        peaks: vec![peak(world.start, 9_999, 9_999), peak(end, 4_096, 1_500)],
        possibly_lost: 0,
    }];
    assert_eq!(unsynced(&world.tick(), "redo"), (4_096.0, 1.5), "the most of this interval");
    world.unsynced.clear();
    world.unsynced_dropped = 700;
    let all = world.tick();
    assert_eq!(unsynced(&all, "redo"), (0.0, 0.0));
    assert_eq!(all.get("fsynctop_unsynced_unknown_bytes_total"), Some(&700.0));
    world.unsynced_dropped = 0;
    assert_eq!(world.tick().get("fsynctop_unsynced_unknown_bytes_total"), Some(&700.0), "never down");
    // Rows that are folded take nothing away.
    world.files[1].stats = Stats { bytes: 8_192, ..stats(&[(8, 80_000)]) };
    world.fold(1);
    assert_eq!(sum(&world.tick(), "fsynctop_written_bytes_total", &["role=\"redo\""]), 10_752.0);
}
