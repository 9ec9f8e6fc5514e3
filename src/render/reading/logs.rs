//! Sentences on the logs that commits wait for.

use std::ops::RangeInclusive;

use super::scene::Scene;
use crate::model::{Role, RoleRow, SATURATED, words};
use crate::text::{absence, capitalize, count, percent};

/// Where each commit syncs both logs, servers were seen between 1.0 and 1.4: nothing is to be said of that.
const USUAL_RATIO: RangeInclusive<f64> = 0.9..=1.5;
/// From here on, something else is why.
const RATIO_OF_UNSYNCED_BINLOG: f64 = 10.0;

/// How busy the logs are. Two of them overlap for certain where their shares exceed the whole.
pub(super) fn busy(scene: &Scene) -> Option<String> {
    let logs: Vec<(Role, f64)> = Role::SERIAL
        .into_iter()
        .filter(|&role| !hangs(scene, role))
        .map(|role| (role, scene.role(role).in_flight_mean(scene.m.span.duration)))
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
        ([], [one]) => format!("{}.", absence::saturation(&capitalize(&say(one)), SATURATED)),
        ([], [one, other, ..]) => {
            let logs =
                format!("{} and {} {}", capitalize(&say(one)), other.0.in_a_sentence(), percent(other.1));
            format!("{}.", absence::saturation_of_both(&logs, one.1 + other.1 > 1.0, SATURATED))
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

/// Redo syncs per binary-log sync, and what may be why where that is unusual: no setting was read.
pub(super) fn ratio(scene: &Scene) -> Option<String> {
    let (redo, binlog) = (scene.role(Role::Redo).count, scene.role(Role::Binlog).count);
    let default = if scene.is_mariadb() {
        "0 is MariaDB's default"
    } else {
        "1 is the default in MySQL from 5.7 on, before that 0"
    };
    Some(match (redo, binlog) {
        (0, 0) => return None,
        (_, 0) if hangs(scene, Role::Binlog) => return None,
        (0, _) if hangs(scene, Role::Redo) || scene.redo_is_durable_by_writes() => return None,
        (_, 0) => format!(
            "{}: as with the binary log off, or sync_binlog other than 1 ({default}), or changes that it \
             does not take.",
            absence::log_sync(redo, binlog)?
        ),
        (0, _) => format!(
            "{} and {}: as with innodb_flush_log_at_trx_commit other than 1, or changes of tables that are not InnoDB's, \
             or rotations{}.",
            match binlog {
                1 => "1 binary-log sync".to_owned(),
                n => format!("{} binary-log syncs", count(n)),
            },
            absence::log_sync(redo, binlog)?,
            if scene.watches_durable_writes() {
                ""
            } else {
                ", or redo writes that are durable without a sync (O_DSYNC)"
            }
        ),
        (redo, binlog) => {
            let ratio = redo as f64 / binlog as f64;
            let of_redo = |row: &&RoleRow| row.server == scene.server && row.role == Role::Redo;
            let of_op = |writes: bool| {
                let mut rows = scene.m.roles.iter().filter(of_redo);
                rows.any(|row| row.op.writes() == writes && row.stats.count > 0)
            };
            let what = match (of_op(true), of_op(false)) {
                (true, true) => "writes and syncs",
                (true, false) => "writes",
                _ => "syncs",
            };
            match ratio {
                usual if USUAL_RATIO.contains(&usual) => return None,
                some if some < RATIO_OF_UNSYNCED_BINLOG => {
                    format!("{some:.2} redo {what} per binary-log sync.")
                }
                most => format!(
                    "{} redo {what} per binary-log sync: as with sync_binlog other than 1 ({default}), or changes that the \
                     binary log does not take.",
                    count(most.round() as u64)
                ),
            }
        }
    })
}

/// A sync of this role hangs: its figures say nothing of how busy it is.
fn hangs(scene: &Scene, role: Role) -> bool {
    let stuck = crate::render::header::stuck(scene.m, &[scene.server], scene.options);
    stuck.iter().any(|sync| sync.role == role)
}
