//! What failed, as counters.

use super::*;

#[test]
fn what_fails_beside_the_syncs_is_counted_by_role_and_errno_and_was_there_at_zero() {
    let mut world = World::with_mysql();
    let all = world.tick();
    let writeback =
        |all: &BTreeMap<String, f64>, labels: &[&str]| sum(all, "fsynctop_writeback_errors_total", labels);
    for labels in [["server=\"3306\"", "role=\"redo\""], ["server=\"unknown\"", "role=\"other\""]] {
        for errno in ["EIO", "ENOSPC"] {
            let of = |(series, _): &(&String, &f64)| {
                series.starts_with("fsynctop_writeback_errors_total{")
                    && labels.iter().all(|label| series.contains(label))
                    && series.contains(errno)
            };
            assert_eq!(
                all.iter().filter(of).map(|(_, n)| *n).collect::<Vec<_>>(),
                [0.0],
                "{labels:?} {errno}"
            );
        }
    }
    world.failures.push(failure(MYSQL, Op::Writeback, libc::EIO, 2));
    world.failures.push(failure(ServerId::NONE, Op::Writeback, libc::EIO, 5));
    world.failures.push(failure(MYSQL, Op::Write, libc::ENOSPC, 7));
    world.failures.push(failure(MYSQL, Op::IoUringWrite, libc::ENOSPC, 1));
    let before = sum(&all, "fsynctop_sync_duration_seconds_count", &[]);
    for _ in 0..2 {
        let all = world.tick();
        assert_eq!(writeback(&all, &["server=\"unknown\"", "role=\"other\"", "errno=\"EIO\""]), 5.0);
        assert_eq!(writeback(&all, &["role=\"redo\"", "errno=\"EIO\""]), 2.0);
        assert_eq!(writeback(&all, &[]), 7.0);
        let failed = sum(&all, "fsynctop_failed_writes_total", &["role=\"redo\"", "errno=\"ENOSPC\""]);
        assert_eq!((failed, sum(&all, "fsynctop_failed_writes_total", &[])), (8.0, 8.0));
        assert_eq!(sum(&all, "fsynctop_sync_duration_seconds_count", &[]), before, "none of them is a sync");
        assert_eq!(sum(&all, "fsynctop_sync_errors_total", &[]), 0.0);
    }
}

#[test]
fn a_failure_of_any_errno_adds_to_one_of_few_series_that_were_there_at_zero() {
    const FAMILIES: [&str; 3] =
        ["fsynctop_sync_errors_total", "fsynctop_failed_writes_total", "fsynctop_writeback_errors_total"];
    let mut world = World::with_mysql();
    Arc::make_mut(&mut world.setup).ops.extend([Op::DsyncWrite, Op::IoUringFsync, Op::AioFsync]);
    let counts = |all: &BTreeMap<String, f64>, family: &str| -> Vec<(String, f64)> {
        let of = |(series, _): &(&String, &f64)| series.starts_with(family) && series.contains("\"redo\"");
        let errno =
            |series: &String| series.split("errno=\"").nth(1).unwrap().trim_end_matches("\"}").to_owned();
        all.iter().filter(of).map(|(series, &n)| (errno(series), n)).collect()
    };
    let all = world.tick();
    for family in FAMILIES {
        let at_zero = ["EDQUOT", "EIO", "ENOSPC", "EROFS", "other"].map(|errno| (errno.to_owned(), 0.0));
        assert_eq!(counts(&all, family), at_zero, "{family}");
    }
    // As a filesystem in user space may: any errno, and one that is not known, by several operations.
    let any: Errors = (0..512).map(|errno| (errno, 1)).collect();
    let failed = |op| FileRow { op, ..failure(MYSQL, Op::Write, 0, 0) };
    let with_any =
        |row: FileRow| FileRow { stats: Stats { errors: any.clone(), ..stats(&[(512, 1_000)]) }, ..row };
    world.files.extend([Op::Fdatasync, Op::IoUringFsync].map(|op| with_any(failed(op))));
    world.failures.extend([Op::Write, Op::Writeback].map(|op| with_any(failed(op))));
    let all = world.tick();
    for (family, times) in FAMILIES.into_iter().zip([2.0, 1.0, 1.0]) {
        let each = [("EDQUOT", 1.0), ("EIO", 1.0), ("ENOSPC", 1.0), ("EROFS", 1.0), ("other", 508.0)];
        assert_eq!(counts(&all, family), each.map(|(errno, n)| (errno.to_owned(), n * times)), "{family}");
    }
}
