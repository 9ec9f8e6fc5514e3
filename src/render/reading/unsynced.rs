//! What is written and not synced: what a power failure would take.

use super::{Scene, Sentence};
use crate::model::{Backlog, Measurement, Op, Role, UnsyncedRole, UnsyncedRow, unsynced_roles};
use crate::render::style::Paint;
use crate::text::{bytes, duration_in_words};

/// "If the power had failed at the end, 12 kB (the last 2.1 ms) of the redo log and nothing of the binary log
/// would be lost": of the logs only, because a server makes its data pages again out of them.
pub(super) fn recovery_point(scene: &Scene) -> Option<String> {
    if !scene.watches_all_writes() {
        return None;
    }
    let its: Vec<UnsyncedRow> = its_rows(scene);
    let roles = unsynced_roles(&its);
    let logs: Vec<(Role, Backlog, Backlog)> =
        Role::SERIAL.into_iter().filter_map(|role| log(scene, role, &roles)).collect();
    if logs.is_empty() {
        return None;
    }
    let now: Vec<String> =
        logs.iter().map(|&(role, now, _)| format!("{} of {}", amount(now), role.in_a_sentence())).collect();
    let mut text = format!("If the power had failed at the end, {} would be lost", now.join(" and "));
    if logs.iter().any(|(_, now, most)| now != most) {
        let most: Vec<String> = logs
            .iter()
            .filter(|(.., most)| !most.is_none())
            .map(|&(role, _, most)| format!("{} of {}", amount(most), role.in_a_sentence()))
            .collect();
        text += &format!("; at the worst moment, at most {}", most.join(" and "));
    }
    Some(text + ". What the server had not written yet comes on top.")
}

fn its_rows(scene: &Scene) -> Vec<UnsyncedRow> {
    scene.m.unsynced.rows.iter().filter(|row| row.server == scene.server).cloned().collect()
}

/// A log that was written, or of which something is unsynced: now, and at most.
fn log(scene: &Scene, role: Role, roles: &[UnsyncedRole]) -> Option<(Role, Backlog, Backlog)> {
    if let Some(row) = roles.iter().find(|row| row.role == role) {
        return Some((role, row.now, row.most));
    }
    let is_written = scene.m.all_writes().any(|row| row.server == scene.server && row.info.role == role);
    is_written.then(|| (role, Backlog::default(), Backlog::default()))
}

/// "12 kB (the last 2.1 ms)"
fn amount(of: Backlog) -> String {
    if of.bytes == 0 {
        return "nothing".into();
    }
    let age = u64::try_from(of.age.as_nanos()).unwrap_or(u64::MAX);
    format!("{} (the last {})", bytes(of.bytes), duration_in_words(age))
}

/// What a sync should have covered that failed, by role.
pub(super) fn failed(scene: &Scene) -> Vec<Sentence> {
    let roles = unsynced_roles(&its_rows(scene));
    let said = roles.iter().filter(|row| row.possibly_lost > 0).map(|row| {
        let (lost, role) = (bytes(row.possibly_lost), row.role.in_a_sentence());
        let text = format!(
            "{lost} of {role} may be lost whatever was synced since: a sync that should have covered them failed."
        );
        Sentence { text, paint: Paint::Error }
    });
    said.collect()
}

/// Files for which there was no room.
pub(super) fn unknown(m: &Measurement) -> Option<String> {
    let dropped = m.unsynced.dropped;
    (dropped > 0 && m.setup.ops.contains(&Op::Write)).then(|| {
        format!("Of {} it is not known whether they are synced: too many files were written.", bytes(dropped))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileInfo, Target, fixture};
    use crate::render::Options;
    use std::sync::Arc;
    use std::time::Duration;

    fn backlog(bytes: u64, microseconds: u64) -> Backlog {
        Backlog { bytes, age: Duration::from_micros(microseconds) }
    }

    fn row(role: Role, now: Backlog, most: Backlog) -> UnsyncedRow {
        UnsyncedRow {
            server: fixture::MYSQL,
            target: Target::Gone(role),
            info: Arc::new(FileInfo::nameless(role)),
            now,
            most,
            possibly_lost: 0,
        }
    }

    fn measured(rows: Vec<UnsyncedRow>) -> Measurement {
        let mut m = fixture::quiet();
        Arc::make_mut(&mut m.setup).ops.push(Op::Write);
        m.unsynced.rows = rows;
        m
    }

    fn said<T>(m: &Measurement, of: fn(&Scene) -> T) -> T {
        of(&Scene { m, server: fixture::MYSQL, options: &Options::default() })
    }

    #[test]
    fn the_recovery_point_is_told_of_the_logs_only_now_and_at_worst() {
        let none = Backlog::default();
        let mut m = measured(vec![
            row(Role::Redo, backlog(12_000, 2_100), backlog(48_000, 3_400)),
            row(Role::Tablespace, backlog(1 << 30, 9_000_000), backlog(1 << 30, 9_000_000)),
            row(Role::Binlog, none, backlog(2_300_000, 1_100_000)),
        ]);
        let whole = "If the power had failed at the end, 12 kB (the last 2.1 ms) of the redo log and nothing of the \
                     binary log would be lost; at the worst moment, at most 48 kB (the last 3.4 ms) of the redo log \
                     and 2.3 MB (the last 1.1 s) of the binary log. What the server had not written yet comes on top.";
        assert_eq!(said(&m, recovery_point).as_deref(), Some(whole));
        m.unsynced.rows.truncate(1);
        m.unsynced.rows[0].most = m.unsynced.rows[0].now;
        let one = "If the power had failed at the end, 12 kB (the last 2.1 ms) of the redo log would be lost. What \
                   the server had not written yet comes on top.";
        assert_eq!(said(&m, recovery_point).as_deref(), Some(one));
        Arc::make_mut(&mut m.setup).ops.retain(|&op| op != Op::Write);
        assert_eq!(said(&m, recovery_point), None, "nothing is known of it");
    }

    #[test]
    fn a_log_that_is_written_durably_has_nothing_to_lose() {
        let mut m = measured(Vec::new());
        assert_eq!(said(&m, recovery_point), None, "no log was written");
        let stats = fixture::stats(&[(1, 1_000)]);
        m.files.push(fixture::row(fixture::MYSQL, 1, "/d/redo", Role::Redo, Op::DsyncWrite, stats));
        let nothing = "If the power had failed at the end, nothing of the redo log would be lost. What the server \
                       had not written yet comes on top.";
        assert_eq!(said(&m, recovery_point).as_deref(), Some(nothing));
    }

    #[test]
    fn what_a_failed_sync_should_have_covered_is_told_in_red_and_what_had_no_room_at_the_end() {
        let none = Backlog::default();
        let mut m = measured(vec![UnsyncedRow { possibly_lost: 4_096, ..row(Role::Redo, none, none) }]);
        let failed = said(&m, failed);
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].paint, Paint::Error);
        assert!(failed[0].text.starts_with("4.1 kB of the redo log may be lost"), "{}", failed[0].text);
        assert_eq!(unknown(&m), None);
        m.unsynced.dropped = 700;
        assert!(unknown(&m).is_some_and(|text| text.starts_with("Of 700 B")), "{:?}", unknown(&m));
    }
}
