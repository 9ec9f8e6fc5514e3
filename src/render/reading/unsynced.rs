//! What is written and not synced: what a power failure would take.

use std::collections::BTreeSet;
use std::path::Path;

use super::scene::{Scene, Sentence};
use crate::model::durability::syncs_do_nothing;
use crate::model::{
    Backlog, Durability, FileRow, Interval, Op, PEAKS_REMEMBERED, Role, ServerId, UnsyncedRole, UnsyncedRow,
};
use crate::render::style::Paint;
use crate::text::{absence, bytes, duration_in_words, escape_sentence};

/// What is unsynced of a server's files, by role.
pub(super) fn roles(scene: &Scene) -> Vec<UnsyncedRole> {
    scene.m.unsynced.roles().into_iter().filter(|row| row.server == scene.server).collect()
}

/// How far one log is behind.
struct Log {
    role: Role,
    now: Backlog,
    most: Backlog,
    /// Whether there may be more, of files that are not kept apart or not known.
    is_minimum: bool,
    /// Successful syncs of it in the interval. What was written before the first of them may have been
    /// unsynced as well, and is in no figure where tracing began after it.
    syncs: u64,
}

impl Log {
    fn is_now_minimum(&self) -> bool {
        self.is_minimum || self.syncs == 0 && !self.now.is_none()
    }

    /// It is the greatest of the interval: of two syncs on, from one to the next.
    fn is_most_known(&self) -> bool {
        !self.is_minimum && (self.most.is_none() || self.syncs >= 2)
    }
}

/// "A power cut would have cost at most 48 kB (the last 3.4 ms) of the redo log, and at the end 12 kB (the
/// last 2.1 ms) of it": of the logs only, because a server makes its data pages again out of them.
pub(super) fn recovery_point(scene: &Scene, roles: &[UnsyncedRole]) -> Option<String> {
    if !scene.watches_all_writes() {
        return None;
    }
    let logs = Role::SERIAL.into_iter().filter_map(|role| log(scene, role, roles));
    let durability = |log: &Log| durability(scene.m, scene.server, log.role);
    let (logs, others): (Vec<Log>, Vec<Log>) = logs.partition(|log| durability(log) == Durability::Yes);
    let mut alike: Vec<(Durability, Vec<&str>)> = Vec::new();
    for log in &others {
        let (durability, role) = (durability(log), log.role.in_a_sentence());
        match alike.iter_mut().find(|(same, _)| *same == durability) {
            Some((_, roles)) => roles.push(role),
            None => alike.push((durability, vec![role])),
        }
    }
    let of_others = alike.iter().map(|(durability, roles)| not_durable(&roles.join(" and "), durability));
    let said: Vec<String> = what_it_costs(scene, &logs).into_iter().chain(of_others).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Whether a sync of a server's files of this role makes them durable.
pub(crate) fn durability(m: &Interval, id: ServerId, role: Role) -> Durability {
    let Some(server) = m.servers.iter().find(|server| server.id == id) else {
        return Durability::Unknown("what the files lie on was not seen".into());
    };
    let of_role = |row: &&FileRow| row.server == id && row.info.role == role;
    let rows = m.files.iter().chain(m.all_writes()).filter(of_role).map(|row| &row.info);
    let of_unsynced = |row: &&UnsyncedRow| row.server == id && row.info.role == role;
    let rows = rows.chain(m.unsynced.rows.iter().filter(of_unsynced).map(|row| &row.info));
    let mounts: BTreeSet<Option<&Path>> = rows.map(|info| info.mount.as_deref()).collect();
    let each = mounts.iter().map(|&mount| server.durability_of(mount));
    each.reduce(Durability::and).unwrap_or_else(|| server.durability())
}

/// "A power cut could have cost all that was written of the redo log, synced or not: …".
fn not_durable(role: &str, durability: &Durability) -> String {
    let why = escape_sentence(durability.because().unwrap_or_default());
    match durability {
        Durability::No(_) => {
            format!("A power cut could have cost all that was written of {role}, synced or not: {why}.")
        }
        _ => format!("What a power cut would have cost of {role} is not known: {why}."),
    }
}

/// The same where writes are not watched, unless a note says why.
pub(super) fn makes_nothing_durable(scene: &Scene) -> Option<Sentence> {
    let server = scene.server().filter(|server| !scene.watches_all_writes() && !syncs_do_nothing(server))?;
    let durability = server.durability();
    let Durability::No(why) = &durability else { return None };
    let text = absence::durable(&durability, &escape_sentence(why))?;
    Some(Sentence { text, paint: Paint::Error })
}

/// The same of logs whose syncs make them durable.
fn what_it_costs(scene: &Scene, logs: &[Log]) -> Option<String> {
    if logs.is_empty() {
        return None;
    }
    let amounts = |of: fn(&Log) -> Backlog| {
        let some = logs.iter().filter(|log| log.is_minimum || !of(log).is_none());
        some.map(|log| amount(log, of(log))).collect::<Vec<_>>().join(" and ")
    };
    let (now, most) = (amounts(|log| log.now), amounts(|log| log.most));
    // Of more time than is remembered, the greatest may be forgotten.
    let is_remembered = scene.m.span.duration < PEAKS_REMEMBERED && logs.iter().all(Log::is_most_known);
    let cost = if now.is_empty() && (most.is_empty() || !is_remembered) {
        let logs: Vec<&str> = logs.iter().map(|log| log.role.in_a_sentence()).collect();
        return Some(absence::unsynced(&logs.join(" and "), !most.is_empty(), &scene.m.lost));
    } else if !is_remembered {
        format!("A power cut at the end would have cost {now}")
    } else if now.is_empty() || now == most {
        format!("A power cut would have cost at most {most}")
    } else {
        format!("A power cut would have cost at most {most}; at the end, {now}")
    };
    Some(cost + ", besides what the server had not written yet.")
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
    let rows = m.roles_of(server).iter().filter(|row| row.role == role && row.op.makes_file_durable());
    let syncs = rows.map(|row| row.stats.count.saturating_sub(row.stats.error_count())).sum();
    Some(Log { role, now, most, is_minimum, syncs })
}

/// "12 kB (the last 2.1 ms) of the redo log"
fn amount(log: &Log, of: Backlog) -> String {
    let role = log.role.in_a_sentence();
    let at_least = if log.is_now_minimum() { "at least " } else { "" };
    if of.bytes == 0 {
        return format!("{at_least}0 B of {role}");
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
    use crate::model::{FileInfo, Interval, RoleRow, StorageStack, Target, fixture};
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

    fn measured(rows: Vec<UnsyncedRow>) -> Interval {
        let mut m = fixture::quiet();
        Arc::make_mut(&mut m.setup).ops.push(Op::Write);
        m.unsynced.rows = rows.into();
        let synced = |role| {
            let stats = fixture::stats(&[(2, 1_000)]);
            RoleRow { server: fixture::MYSQL, role, op: Op::Fdatasync, stats }
        };
        m.roles = [Role::Redo, Role::Binlog].map(synced).into_iter().collect();
        m
    }

    fn said<T>(m: &Interval, of: fn(&Scene) -> T) -> T {
        of(&Scene { m, server: fixture::MYSQL, options: &Options::default() })
    }

    fn point(m: &Interval) -> Option<String> {
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
        let whole = "A power cut would have cost at most 48 kB (the last 3.4 ms) of the redo log and 2.3 MB (the last \
                     1.1 s) of the binary log; at the end, 12 kB (the last 2.1 ms) of the redo log, besides what \
                     the server had not written yet.";
        assert_eq!(point(&m).as_deref(), Some(whole));
        // Nothing of one of them was synced: what was written before is unsynced, too.
        let mut never = m.clone();
        never.roles.retain(|row| row.role == Role::Redo);
        let at_least = "A power cut at the end would have cost 12 kB (the last 2.1 ms) of the redo log and at least 2.3 MB \
                        (the last 1.1 s) of the binary log, besides what the server had not written yet.";
        let binlog = never.unsynced.rows.iter_mut().find(|row| row.info.role == Role::Binlog).unwrap();
        binlog.now = binlog.most;
        assert_eq!(point(&never).as_deref(), Some(at_least));
        let of_hours = fixture::lasting(Duration::from_secs(3_600), m.clone());
        let of_now = "A power cut at the end would have cost 12 kB (the last 2.1 ms) of the redo log, besides what the \
                      server had not written yet.";
        assert_eq!(point(&of_hours).as_deref(), Some(of_now), "a greater one may be forgotten");
        m.unsynced.rows.truncate(1);
        m.unsynced.rows[0].most = m.unsynced.rows[0].now;
        let one = "A power cut would have cost at most 12 kB (the last 2.1 ms) of the redo log, besides what the server \
                   had not written yet.";
        assert_eq!(point(&m).as_deref(), Some(one));
        m.unsynced.rows[0].now = none;
        assert_eq!(point(&m).as_deref(), Some(one), "nothing more is to be said of the end");
        let of_hours = fixture::lasting(Duration::from_secs(3_600), m.clone());
        let durable = "All that was written of the redo log was synced at the end: a power cut would have cost what the \
                       server had not written yet.";
        assert_eq!(point(&of_hours).as_deref(), Some(durable));
        Arc::make_mut(&mut m.setup).ops.retain(|&op| op != Op::Write);
        assert_eq!(point(&m), None, "nothing is known of it");
    }

    #[test]
    fn a_log_that_is_written_durably_has_nothing_to_lose() {
        let mut m = measured(Vec::new());
        assert_eq!(point(&m), None, "no log was written");
        let stats = fixture::stats(&[(1, 1_000)]);
        m.files.push(fixture::row(fixture::MYSQL, 1, "/d/redo", Role::Redo, Op::DsyncWrite, stats));
        let durable = "All that was written of the redo log was synced: a power cut would have cost what the server had \
                       not written yet.";
        assert_eq!(point(&m).as_deref(), Some(durable));
    }

    #[test]
    fn synced_is_not_durable_where_nothing_below_is() {
        let mut m = measured(vec![row(Role::Redo, backlog(12_000, 2_100), backlog(48_000, 3_400))]);
        let stats = fixture::stats(&[(1, 1_000)]);
        m.files.push(fixture::row(
            fixture::MYSQL,
            1,
            "/d/binlog",
            Role::Binlog,
            Op::Fdatasync,
            stats.clone(),
        ));
        m.writes.push(fixture::row(fixture::MYSQL, 1, "/d/binlog", Role::Binlog, Op::Write, stats));
        let of = |m: &mut Interval, durability: Durability| {
            Arc::make_mut(&mut m.servers[0]).storage[0].durability = durability;
            point(m).unwrap()
        };
        let lost = "A power cut could have cost all that was written of the redo log and the binary log, synced or not: \
                    tmpfs keeps files in memory only.";
        assert_eq!(of(&mut m, Durability::No("tmpfs keeps files in memory only".into())), lost);
        let unknown = of(&mut m, Durability::Unknown("what nfs4 does is not seen".into()));
        assert!(
            unknown.starts_with(
                "What a power cut would have cost of the redo log and the binary log is not known: what"
            ),
            "{unknown}"
        );
        assert!(!unknown.contains("synced"), "{unknown}");
        // Of two logs, each lies where it lies.
        let other = StorageStack {
            mount: "/tmpfs".into(),
            layers: vec!["tmpfs".into()],
            durability: Durability::No("tmpfs keeps files in memory only".into()),
            is_for_data: true,
        };
        Arc::make_mut(&mut m.servers[0]).storage.push(other);
        for row in m.files.iter_mut().chain(&mut m.writes) {
            Arc::make_mut(&mut row.info).mount = Some(Path::new("/tmpfs").into());
        }
        Arc::make_mut(&mut m.unsynced.rows[0].info).mount = Some(Path::new("/").into());
        let mixed = of(&mut m, Durability::Yes);
        assert!(
            mixed.starts_with("A power cut would have cost at most 48 kB (the last 3.4 ms) of the redo log;"),
            "{mixed}"
        );
        assert!(
            mixed.ends_with(
                "all that was written of the binary log, synced or not: tmpfs keeps files in memory only."
            ),
            "{mixed}"
        );
    }

    #[test]
    fn where_files_are_not_known_or_not_kept_apart_nothing_is_never_said() {
        let mut m = measured(Vec::new());
        let stats = fixture::stats(&[(1, 1_000)]);
        m.files.push(fixture::row(fixture::MYSQL, 1, "/d/redo", Role::Redo, Op::DsyncWrite, stats));
        let at_least = |what: &str| {
            Some(format!(
                "A power cut at the end would have cost at least {what} of the redo log, besides what the server had \
                 not written yet."
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
        assert!(point(&m).is_some_and(|text| text.starts_with("All that was written")), "{:?}", point(&m));
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
