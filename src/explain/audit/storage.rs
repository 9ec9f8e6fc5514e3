//! What holds for any engine: whether its syncs reach the kernel at all, and what its filesystems and devices
//! make of them.

use super::{Evidence, Finding, Standing, syncs};
use crate::linux::storage::{Storage, WriteCache};
use crate::model::{Durability, Role, durability};
use crate::text::{absence, duration};

/// A preloaded library that turns syncs into no-ops, whatever the settings say.
pub(in crate::explain) fn preloaded<R>(evidence: &Evidence<'_, R>) -> Option<Finding> {
    let promise = "the server's syncs do nothing: a crash of the host can destroy the data";
    durability::syncs_do_nothing(evidence.server).then(|| {
        Finding::new(
            "libeatmydata",
            Standing::Broken,
            promise,
            format!("{} reached the kernel", syncs(evidence.all_syncs())),
        )
    })
}

/// All findings, the most serious first: with those of what the server's files lie on, without which no
/// promise is kept.
pub(in crate::explain) fn with_storage<R>(
    evidence: &Evidence<'_, R>,
    mut findings: Vec<Finding>,
) -> Vec<Finding> {
    let below = evidence.storage.iter().fold(Durability::Yes, |sum, one| sum.and(one.durability.clone()));
    let void = match below {
        Durability::Yes if durability::syncs_do_nothing(evidence.server) => Some("by syncs that do nothing"),
        Durability::Yes => None,
        Durability::No(_) => Some("on storage that makes nothing durable"),
        Durability::Unknown(_) => {
            Some("on storage of which it is not known whether it makes anything durable")
        }
    };
    let is_kept = |finding: &&mut Finding| matches!(finding.standing, Standing::Kept | Standing::Consistent);
    if let Some(void) = void {
        for finding in findings.iter_mut().filter(is_kept) {
            finding.standing = Standing::Unseen;
            finding.seen = format!("{}, {void}", finding.seen);
        }
    }
    findings.extend(evidence.storage.iter().map(|storage| of_one(evidence, storage)));
    findings.sort_by_key(|finding| finding.standing);
    findings
}

fn of_one<R>(evidence: &Evidence<'_, R>, storage: &Storage) -> Finding {
    let place = format!("{} on {}", storage.filesystem, crate::text::escape(storage.device.as_bytes()));
    let cache = match storage.write_cache {
        _ if storage.kernel_device.is_none() => "no device of it was found",
        Some(WriteCache::Volatile) => "its device has a volatile cache",
        Some(WriteCache::None) => "its device is assumed to have no volatile cache",
        None => "its device's cache is unknown",
    };
    let waited = flush_wait(evidence, storage);
    let flushes = absence::flush_wait(waited)
        .unwrap_or_else(|| format!("the server's own syncs waited {} for flushes", duration(waited)));
    let seen = format!("{cache}; {flushes}");
    let setting = match storage.without_flushes() {
        Some(option) => format!("{option} ({place})"),
        None => place,
    };
    let why = crate::text::escape_sentence(storage.durability.because().unwrap_or_default());
    let void = absence::durable_on(&storage.durability, "", &why).unwrap_or_default();
    match &storage.durability {
        Durability::No(_) => Finding::new(setting, Standing::Broken, &void, seen),
        Durability::Unknown(_) => Finding::new(setting, Standing::Unseen, &void, seen),
        Durability::Yes if storage.without_flushes().is_some() => {
            Finding::new(setting, seen_by_syncs(evidence), "no flushes are sent, and none are needed", seen)
        }
        Durability::Yes => {
            let standing = match (storage.write_cache, waited) {
                (Some(WriteCache::None), _) | (_, 1..) => seen_by_syncs(evidence),
                _ => Standing::Unseen,
            };
            Finding::new(setting, standing, "a sync flushes the device's cache if it has one", seen)
        }
    }
}

/// Nanoseconds of the server's own syncs, of files that are known to lie there.
fn flush_wait<R>(evidence: &Evidence<'_, R>, storage: &Storage) -> u64 {
    let is_only_one = evidence.storage.len() == 1;
    let lies_there = |role: Role| {
        let mut its = evidence.measurement.files.iter().filter(|row| row.server == evidence.server.id);
        is_only_one
            || its.any(|row| row.info.role == role && row.info.mount.as_deref() == Some(&storage.mount))
    };
    evidence.flush_waits.iter().filter(|(role, _)| lies_there(**role)).map(|(_, ns)| ns).sum()
}

/// What a sync does was seen only where the server made one.
fn seen_by_syncs<R>(evidence: &Evidence<'_, R>) -> Standing {
    if evidence.all_syncs() > 0 { Standing::Kept } else { Standing::Unseen }
}
