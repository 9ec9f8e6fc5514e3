//! What is written and not synced: what a power failure would take.

use super::{Scene, Sentence};
use crate::model::{
    Backlog, Op, PEAKS_REMEMBERED, Role, ServerId, UnsyncedRole, UnsyncedRow, unsynced_roles,
};
use crate::render::style::Paint;
use crate::text::{bytes, duration_in_words};

/// What is unsynced of a server's files, by role.
pub(super) fn roles(scene: &Scene) -> Vec<UnsyncedRole> {
    let its = scene.m.unsynced.rows.iter().filter(|row| row.server == scene.server);
    unsynced_roles(its)
}

/// How far one log is behind.
struct Log {
    role: Role,
    now: Backlog,
    most: Backlog,
    /// Whether there may be more, of files that are not kept apart or not known.
    is_minimum: bool,
}

/// "If the power had failed at the end, 12 kB (the last 2.1 ms) of the redo log and nothing of the binary log
/// would have been lost": of the logs only, because a server makes its data pages again out of them.
pub(super) fn recovery_point(scene: &Scene, roles: &[UnsyncedRole]) -> Option<String> {
    if !scene.watches_all_writes() {
        return None;
    }
    let logs: Vec<Log> = Role::SERIAL.into_iter().filter_map(|role| log(scene, role, roles)).collect();
    if logs.is_empty() {
        return None;
    }
    let now: Vec<String> = logs.iter().map(|log| amount(log, log.now)).collect();
    let mut text = format!("If the power had failed at the end, {} would have been lost", now.join(" and "));
    // Of more time than is remembered, the greatest may be forgotten.
    let is_remembered = scene.m.duration < PEAKS_REMEMBERED && logs.iter().all(|log| !log.is_minimum);
    if is_remembered && logs.iter().any(|log| log.now != log.most) {
        let most: Vec<String> =
            logs.iter().filter(|log| !log.most.is_none()).map(|log| amount(log, log.most)).collect();
        text += &format!("; at the worst moment, at most {}", most.join(" and "));
    }
    Some(text + ", besides whatever the server had not written yet.")
}

/// A log that was written, or of which something is unsynced: now, and at most.
fn log(scene: &Scene, role: Role, roles: &[UnsyncedRole]) -> Option<Log> {
    let (m, server) = (scene.m, scene.server);
    // Several servers' together, in the history.
    let is_some_servers = |row: &UnsyncedRow| row.server == ServerId::NONE && row.info.role == role;
    let is_minimum = m.unsynced.dropped > 0 || m.unsynced.rows.iter().any(is_some_servers);
    let (now, most) = match roles.iter().find(|row| row.role == role) {
        Some(row) => (row.now, row.most),
        None if m.all_writes().any(|row| row.server == server && row.info.role == role) => Default::default(),
        None => return None,
    };
    Some(Log { role, now, most, is_minimum })
}

/// "12 kB (the last 2.1 ms) of the redo log"
fn amount(log: &Log, of: Backlog) -> String {
    let role = log.role.in_a_sentence();
    let at_least = if log.is_minimum { "at least " } else { "" };
    if of.bytes == 0 {
        let nothing = if log.is_minimum { "0 B" } else { "nothing" };
        return format!("{at_least}{nothing} of {role}");
    }
    let age = u64::try_from(of.age.as_nanos()).unwrap_or(u64::MAX);
    format!("{at_least}{} (the last {}) of {role}", bytes(of.bytes), duration_in_words(age))
}

/// What a sync should have covered that failed, by role.
pub(super) fn failed(roles: &[UnsyncedRole]) -> Vec<Sentence> {
    let failed = roles.iter().filter(|row| row.possibly_lost > 0);
    failed.map(|row| may_be_lost(row.possibly_lost, row.role)).collect()
}

pub(super) fn may_be_lost(lost: u64, role: Role) -> Sentence {
    let (lost, role) = (bytes(lost), role.in_a_sentence());
    let text = format!(
        "{lost} of {role} may be lost whatever was synced since: a sync that should have covered them failed."
    );
    Sentence { text, paint: Paint::Error }
}

/// Files for which there was no room.
pub(super) fn unknown(dropped: u64, ops: &[Op]) -> Option<String> {
    (dropped > 0 && ops.contains(&Op::Write)).then(|| {
        format!("Of {} it is not known whether they are synced: too many files were written.", bytes(dropped))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileInfo, Measurement, Target, fixture};
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

    fn point(m: &Measurement) -> Option<String> {
        said(m, |scene| recovery_point(scene, &roles(scene)))
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
                     binary log would have been lost; at the worst moment, at most 48 kB (the last 3.4 ms) of the redo \
                     log and 2.3 MB (the last 1.1 s) of the binary log, besides whatever the server had not written \
                     yet.";
        assert_eq!(point(&m).as_deref(), Some(whole));
        let (now, _) = whole.split_once("; at the worst").unwrap();
        let of_now = Some(format!("{now}, besides whatever the server had not written yet."));
        let of_hours = Measurement { duration: Duration::from_secs(3_600), ..m.clone() };
        assert_eq!(point(&of_hours), of_now, "a greater one may be forgotten");
        m.unsynced.rows.truncate(1);
        m.unsynced.rows[0].most = m.unsynced.rows[0].now;
        let one = "If the power had failed at the end, 12 kB (the last 2.1 ms) of the redo log would have been \
                   lost, besides whatever the server had not written yet.";
        assert_eq!(point(&m).as_deref(), Some(one));
        Arc::make_mut(&mut m.setup).ops.retain(|&op| op != Op::Write);
        assert_eq!(point(&m), None, "nothing is known of it");
    }

    #[test]
    fn a_log_that_is_written_durably_has_nothing_to_lose() {
        let mut m = measured(Vec::new());
        assert_eq!(point(&m), None, "no log was written");
        let stats = fixture::stats(&[(1, 1_000)]);
        m.files.push(fixture::row(fixture::MYSQL, 1, "/d/redo", Role::Redo, Op::DsyncWrite, stats));
        let nothing = "If the power had failed at the end, nothing of the redo log would have been lost, besides \
                       whatever the server had not written yet.";
        assert_eq!(point(&m).as_deref(), Some(nothing));
    }

    #[test]
    fn where_files_are_not_known_or_not_kept_apart_nothing_is_never_said() {
        let mut m = measured(Vec::new());
        let stats = fixture::stats(&[(1, 1_000)]);
        m.files.push(fixture::row(fixture::MYSQL, 1, "/d/redo", Role::Redo, Op::DsyncWrite, stats));
        let at_least = |what: &str| {
            Some(format!(
                "If the power had failed at the end, at least {what} of the redo log would have been lost, besides \
                 whatever the server had not written yet."
            ))
        };
        m.unsynced.dropped = 1;
        assert_eq!(point(&m), at_least("0 B"));
        m.unsynced.dropped = 0;
        let some_servers = |role| {
            let some = backlog(9_000, 9_000);
            UnsyncedRow { server: ServerId::NONE, ..row(role, some, some) }
        };
        m.unsynced.rows.push(some_servers(Role::Tablespace));
        assert!(point(&m).is_some_and(|text| text.contains("nothing of the redo log")), "{:?}", point(&m));
        m.unsynced.rows.push(some_servers(Role::Redo));
        assert_eq!(point(&m), at_least("0 B"));
        m.unsynced.rows.push(row(Role::Redo, backlog(12_000, 2_100), backlog(48_000, 3_400)));
        assert_eq!(point(&m), at_least("12 kB (the last 2.1 ms)"));
    }

    #[test]
    fn what_a_failed_sync_should_have_covered_is_told_in_red_and_what_had_no_room_at_the_end() {
        let none = Backlog::default();
        let m = measured(vec![UnsyncedRow { possibly_lost: 4_096, ..row(Role::Redo, none, none) }]);
        let failed = said(&m, |scene| failed(&roles(scene)));
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].paint, Paint::Error);
        assert!(failed[0].text.starts_with("4.1 kB of the redo log may be lost"), "{}", failed[0].text);
        assert_eq!(unknown(0, &m.setup.ops), None);
        assert!(unknown(700, &m.setup.ops).is_some_and(|text| text.starts_with("Of 700 B")));
        assert_eq!(unknown(700, &[Op::Fsync]), None);
    }
}
