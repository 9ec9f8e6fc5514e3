//! What holds for any engine: whether its syncs reach the kernel at all, and what its filesystems and devices
//! make of them.

use super::{Evidence, Finding, Standing};
use crate::linux::storage::WriteCache;
use crate::model::durability;
use crate::text::count;

/// A preloaded library that turns syncs into no-ops, whatever the settings say.
pub(in crate::explain) fn preloaded<R>(evidence: &Evidence<'_, R>) -> Option<Finding> {
    let promise = "the server's syncs do nothing: a crash of the host can destroy the data";
    durability::syncs_do_nothing(evidence.server).then(|| {
        Finding::new(
            "libeatmydata",
            Standing::Broken,
            promise,
            format!("{} syncs reached the kernel", count(evidence.all_syncs())),
        )
    })
}

pub(in crate::explain) fn mounts<R>(evidence: &Evidence<'_, R>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for storage in evidence.storage {
        let place = format!("{} on {}", storage.filesystem, crate::text::escape(storage.device.as_bytes()));
        let flushes = evidence.device_flushes.map(|n| format!("{} flushes sent to devices", count(n)));
        let cache = match storage.write_cache {
            Some(WriteCache::Volatile) => "its device has a volatile cache",
            Some(WriteCache::None) => "its device is assumed to have no volatile cache",
            None => "its device's cache is unknown",
        };
        let seen = flushes.map_or(cache.to_owned(), |flushes| format!("{cache}; {flushes}"));
        if let Some(option) = storage.without_flushes() {
            let (standing, promise) = match storage.write_cache {
                Some(WriteCache::None) => {
                    (seen_by_syncs(evidence), "no flushes are sent, and none are needed")
                }
                _ => {
                    (Standing::Broken, "no flushes are sent: a power cut loses what the device's cache held")
                }
            };
            findings.push(Finding::new(format!("{option} ({place})"), standing, promise, seen));
        } else if matches!(storage.filesystem.as_str(), "tmpfs" | "ramfs") {
            let promise = "memory only: nothing survives a crash of the host";
            findings.push(Finding::new(place, Standing::Weak, promise, seen));
        } else {
            let standing = match (storage.write_cache, evidence.device_flushes) {
                (Some(WriteCache::None), _) | (_, Some(1..)) => seen_by_syncs(evidence),
                _ => Standing::Unseen,
            };
            findings.push(Finding::new(
                place,
                standing,
                "a sync flushes the device's cache if it has one",
                seen,
            ));
        }
    }
    findings
}

/// What a sync does was seen only where the server made one.
fn seen_by_syncs<R>(evidence: &Evidence<'_, R>) -> Standing {
    if evidence.all_syncs() > 0 { Standing::Kept } else { Standing::Unseen }
}
