//! Sentences on the logs that commits wait for.

use super::Scene;
use crate::model::{Role, RoleRow, SATURATED, words};
use crate::text::{capitalize, count, percent};

/// From so many redo syncs per binary-log sync on, commits do not each sync the binary log: with
/// sync_binlog=1 servers were seen between 1.0 and 1.4.
const RATIO_OF_UNSYNCED_BINLOG: f64 = 10.0;

/// How busy the logs are. Two of them overlap for certain where their shares exceed the whole.
pub(super) fn busy(scene: &Scene) -> Option<String> {
    let logs: Vec<(Role, f64)> = Role::SERIAL
        .into_iter()
        .filter(|&role| !hangs(scene, role))
        .map(|role| (role, scene.role(role).in_flight_mean(scene.m.duration)))
        .filter(|&(_, busy)| busy > 0.0)
        // A sync that began before the interval counts whole: a log is never more than 100 % busy.
        .map(|(role, busy)| (role, busy.min(1.0)))
        .collect();
    let limit = percent(SATURATED);
    let (saturated, free): (Vec<_>, Vec<_>) = logs.iter().partition(|(_, busy)| *busy >= SATURATED);
    let queue = |&(role, _): &(Role, f64)| words(scene.server(), role).queue;
    let say = |&(role, busy): &(Role, f64)| format!("{} is {} busy", role.in_a_sentence(), percent(busy));
    Some(match (saturated.as_slice(), free.as_slice()) {
        ([], []) => return None,
        ([], [one]) => format!("{}: not saturated ({limit}).", capitalize(&say(one))),
        ([], [(one, first), (other, second), ..]) => {
            let (one, other) = (one.in_a_sentence(), other.in_a_sentence());
            match first + second > 1.0 {
                true => format!("{} and {other} overlap; neither is saturated ({limit}).", capitalize(one)),
                false => format!("Neither {one} nor {other} is saturated ({limit})."),
            }
        }
        ([one], []) => format!("{}: saturated ({limit}), {}.", capitalize(&say(one)), queue(one)),
        ([one], [other, ..]) => {
            format!("{}: saturated ({limit}), {}; {}.", capitalize(&say(one)), queue(one), say(other))
        }
        ([one, other, ..], _) => {
            format!("{} and {}: both are saturated ({limit}).", capitalize(&say(one)), say(other))
        }
    })
}

/// Redo syncs per binary-log sync; where there is no denominator, why.
pub(super) fn ratio(scene: &Scene) -> Option<String> {
    let (redo, binlog) = (scene.role(Role::Redo).count, scene.role(Role::Binlog).count);
    let why_no_binlog = if scene.is_mariadb() {
        "the binary log is off, or sync_binlog is not 1 (MariaDB's default is 0)"
    } else {
        "the binary log is off, or sync_binlog is not 1 (the default is 1 in MySQL from 5.7 on, else 0)"
    };
    Some(match (redo, binlog) {
        (0, 0) => return None,
        (_, 0) if hangs(scene, Role::Binlog) => return None,
        (0, _) if hangs(scene, Role::Redo) || scene.redo_is_durable_by_writes() => return None,
        (_, 0) => format!("Redo syncs per binary-log sync: no ratio: no binary-log sync: {why_no_binlog}."),
        (0, _) => format!(
            "{} and no redo sync: innodb_flush_log_at_trx_commit is not 1{}.",
            match binlog {
                1 => "1 binary-log sync".to_owned(),
                n => format!("{} binary-log syncs", count(n)),
            },
            if scene.watches_durable_writes() {
                ""
            } else {
                ", or redo writes are durable without a sync (O_DSYNC)"
            }
        ),
        (redo, binlog) => {
            let ratio = redo as f64 / binlog as f64;
            let of_redo = |row: &&RoleRow| row.server == scene.server && row.role == Role::Redo;
            let writes =
                scene.m.roles.iter().filter(of_redo).all(|row| row.op.writes() || row.stats.count == 0);
            let what = if writes { "writes" } else { "syncs" };
            if ratio < RATIO_OF_UNSYNCED_BINLOG {
                format!("{ratio:.2} redo {what} per binary-log sync.")
            } else {
                let ratio = count(ratio.round() as u64);
                format!(
                    "{ratio} redo {what} per binary-log sync: commits do not each sync the binary log (sync_binlog)."
                )
            }
        }
    })
}

/// A sync of this role hangs: its figures say nothing of how busy it is.
fn hangs(scene: &Scene, role: Role) -> bool {
    let stuck = crate::render::header::stuck(scene.m, &[scene.server], scene.options);
    stuck.iter().any(|sync| sync.role == role)
}
