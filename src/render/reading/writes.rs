//! What was written, and how much of it for each byte of the logs.

use super::Scene;
use crate::model::Role;
use crate::text::{bytes, percent};

/// Below this the logs say next to nothing of what they bring about.
const LEAST_LOGGED: u64 = 64 << 10;
/// A part of what is written that is worth a sentence.
const WORTH_SAYING: f64 = 0.05;

/// "5.1 bytes for each byte of the redo log and the binary log; the doublewrite buffer is 48 % of them." Data
/// pages are written later than what the logs say of them, so that a short interval may have more of either.
pub(super) fn amplification(scene: &Scene) -> Option<String> {
    let mut all = 0;
    let (mut logged, mut doublewrite) = (0, 0);
    let (mut redo, mut binlog) = (0, 0);
    for row in scene.m.all_writes().filter(|row| row.server == scene.server) {
        all += row.stats.bytes;
        match row.info.role {
            Role::Redo => redo += row.stats.bytes,
            Role::Binlog => binlog += row.stats.bytes,
            Role::Doublewrite => doublewrite += row.stats.bytes,
            _ => {}
        }
    }
    logged += redo + binlog;
    if !scene.watches_all_writes() || logged < LEAST_LOGGED {
        return None;
    }
    let logs = match (redo, binlog) {
        (_, 0) => "the redo log",
        (0, _) => "the binary log",
        _ => "the redo log and the binary log",
    };
    let times = all as f64 / logged as f64;
    let share = doublewrite as f64 / all as f64;
    let of_them = match share {
        share if share >= WORTH_SAYING => format!("; the doublewrite buffer is {} of them", percent(share)),
        _ => String::new(),
    };
    Some(format!("{} were written in all, {times:.1} bytes for each byte of {logs}{of_them}.", bytes(all)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileRow, Measurement, Op, fixture};
    use crate::render::Options;
    use std::sync::Arc;

    fn written(of: &[(Role, Op, u64)]) -> Measurement {
        let mut m = fixture::quiet();
        Arc::make_mut(&mut m.setup).ops.push(Op::Write);
        for (number, &(role, op, bytes)) in of.iter().enumerate() {
            let mut stats = fixture::stats(&[(1, 1_000)]);
            stats.bytes = bytes;
            let row: FileRow = fixture::row(fixture::MYSQL, number as u64, "/d/file", role, op, stats);
            if op.makes_durable() { m.files.push(row) } else { m.writes.push(row) }
        }
        m
    }

    fn said(m: &Measurement) -> Option<String> {
        amplification(&Scene { m, server: fixture::MYSQL, options: &Options::default() })
    }

    #[test]
    fn what_is_written_is_held_against_the_logs() {
        let mut m = written(&[
            (Role::Redo, Op::DsyncWrite, 300_000),
            (Role::Binlog, Op::Write, 100_000),
            (Role::Doublewrite, Op::Write, 980_000),
            (Role::Tablespace, Op::IoUringWrite, 660_000),
        ]);
        let whole = "2.0 MB were written in all, 5.1 bytes for each byte of the redo log and the binary log; the \
                     doublewrite buffer is 48 % of them.";
        assert_eq!(said(&m).as_deref(), Some(whole));
        Arc::make_mut(&mut m.setup).ops.retain(|&op| op != Op::Write);
        assert_eq!(said(&m), None, "nothing is known of the others");
    }

    #[test]
    fn logs_that_say_next_to_nothing_are_held_against_nothing() {
        assert_eq!(said(&written(&[(Role::Tablespace, Op::Write, 1 << 30)])), None);
        assert_eq!(said(&written(&[(Role::Redo, Op::Write, 1_000), (Role::Undo, Op::Write, 1 << 20)])), None);
        let one = said(&written(&[(Role::Redo, Op::Write, 100_000), (Role::Undo, Op::Write, 50_000)]));
        assert_eq!(
            one.as_deref(),
            Some("150 kB were written in all, 1.5 bytes for each byte of the redo log.")
        );
    }
}
