//! Each setting that durability depends on, checked against the window's measurements.

use super::{Evidence, Finding, Standing};
use crate::linux::storage::WriteCache;
use crate::model::{Role, durability};
use crate::server::mysql::durable_writes::DurableWrites;
use crate::server::mysql::status::reading::Reading;
use crate::text::count;

/// With fewer transactions than this, no sync may be chance: their group's sync fell outside the window.
const MIN_TRANSACTIONS: u64 = 50;

/// All findings, the most serious first.
pub fn audit(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(preloaded(evidence));
    if let Some(reading) = evidence.reading() {
        findings.extend(redo_switched_off(reading));
        findings.extend(redo(evidence, reading));
        findings.extend(binlog(evidence, reading));
        findings.extend(flush_method(evidence, reading));
        findings.extend(doublewrite(evidence, reading));
    }
    findings.extend(mounts(evidence));
    findings.sort_by_key(|finding| finding.standing);
    findings
}

fn finding(setting: impl Into<String>, standing: Standing, promise: &str, seen: String) -> Finding {
    Finding { setting: setting.into(), standing, promise: promise.into(), seen }
}

/// Why lost commits can be recovered from elsewhere.
fn recovers_commits(evidence: &Evidence, reading: &Reading) -> Option<&'static str> {
    if reading.is_on("wsrep_on") == Some(true) || reading.status("wsrep_cluster_status") == Some("Primary") {
        return Some("usual in a Galera cluster: a member recovers lost commits from the others");
    }
    // MySQL 8.0 and later do not have this status variable, but they write a relay log.
    let replicates = reading.status_is_on("slave_running") == Some(true)
        || evidence.syncs(Role::RelayLog) > 0
        || reading.is_on("super_read_only") == Some(true)
        || reading.is_on("read_only") == Some(true);
    replicates.then_some("usual on a replica: it fetches lost commits again from its source")
}

fn weak(evidence: &Evidence, reading: &Reading, promise: &str) -> (Standing, String) {
    match recovers_commits(evidence, reading) {
        Some(why) => (Standing::Usual, format!("{promise}; {why}")),
        None => (Standing::Weak, promise.to_owned()),
    }
}

/// "3,064 syncs for 16,000 transactions".
fn syncs_for(evidence: &Evidence, role: Role) -> String {
    for_transactions(evidence, format!("{} syncs", count(evidence.syncs(role))))
}

fn for_transactions(evidence: &Evidence, what: String) -> String {
    match evidence.transactions() {
        Some(transactions) => format!("{what} for {} transactions", count(transactions)),
        None => what,
    }
}

fn redo(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    let value = reading.setting("innodb_flush_log_at_trx_commit")?;
    let setting = format!("innodb_flush_log_at_trx_commit={value}");
    let seen = syncs_for(evidence, Role::Redo);
    let durable = "a commit returns once its redo log is durable";
    let by_writes = DurableWrites::of(evidence.server, Some(reading)).redo;
    let promise = match (value, by_writes) {
        // At 2 a commit waits for a write, which is enough where that is durable.
        (1..=3, Some(why)) => {
            let Some(writes) = evidence.durable_writes(Role::Redo) else {
                let seen = format!("{seen}: each write is itself durable, {why}, and not watched here");
                return Some(finding(setting, Standing::Unseen, durable, seen));
            };
            let seen = for_transactions(evidence, format!("{} durable writes", count(writes)));
            return Some(finding(setting, kept(evidence, writes), durable, format!("{seen}, {why}")));
        }
        (1 | 3, None) => {
            return Some(finding(setting, kept(evidence, evidence.syncs(Role::Redo)), durable, seen));
        }
        (2, None) => "a crash of the host loses the commits of the last second or more",
        _ => "a crash of the server loses the commits of the last second or more",
    };
    let (standing, promise) = weak(evidence, reading, promise);
    Some(finding(setting, standing, &promise, seen))
}

/// Of a promise that commits wait for a log, which was made durable so many times.
fn kept(evidence: &Evidence, times: u64) -> Standing {
    let transactions = evidence.transactions().unwrap_or(0);
    match times {
        1.. => Standing::Kept,
        0 if transactions >= MIN_TRANSACTIONS && all_is_known(evidence) => Standing::Broken,
        0 => Standing::Unseen,
    }
}

/// A sync that was not seen was not made: none was lost, and the server made none by other calls, as far as
/// its filesystem shows.
fn all_is_known(evidence: &Evidence) -> bool {
    evidence.measurement.lost.is_zero() && evidence.measurement.lost.unwatched == 0
}

fn binlog(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    if reading.is_on("log_bin") != Some(true) {
        return None;
    }
    if reading.variable("binlog_storage_engine").is_some_and(|engine| engine.eq_ignore_ascii_case("innodb")) {
        let promise = "the binary log is stored in InnoDB and durable with its redo log";
        return Some(finding(
            "binlog_storage_engine=innodb",
            Standing::Unseen,
            promise,
            syncs_for(evidence, Role::Redo),
        ));
    }
    let value = reading.setting("sync_binlog")?;
    let setting = format!("sync_binlog={value}");
    let seen = syncs_for(evidence, Role::Binlog);
    if value == 1 {
        let promise = "a commit returns once its binary log is durable";
        return Some(finding(setting, kept(evidence, evidence.syncs(Role::Binlog)), promise, seen));
    }
    let promise = match value {
        0 => "a crash of the host loses whatever part of the binary log the kernel had not written out"
            .to_owned(),
        n => format!("a crash of the host loses up to {n} commit groups from the binary log"),
    };
    let (standing, promise) = weak(evidence, reading, &promise);
    Some(finding(setting, standing, &promise, seen))
}

fn flush_method(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    let method = reading.variable("innodb_flush_method")?;
    let data = evidence.syncs(Role::Tablespace)
        + evidence.syncs(Role::SystemTablespace)
        + evidence.syncs(Role::Undo);
    let seen = format!("{} syncs of data files", count(data));
    let (standing, promise) = match method.to_ascii_uppercase().as_str() {
        "NOSYNC" => (Standing::Broken, "nothing is ever synced: a crash of the host can destroy the data"),
        "LITTLESYNC" => {
            (Standing::Weak, "data files are not synced: a crash of the host can destroy the data")
        }
        "O_DIRECT_NO_FSYNC" => (
            without_data_syncs(evidence, data),
            "data files are synced only when they grow: safe where the device has no volatile cache",
        ),
        _ => return None,
    };
    Some(finding(format!("innodb_flush_method={method}"), standing, promise, seen))
}

/// Of data files that are synced only when they grow, by the caches of what they may lie on.
fn without_data_syncs(evidence: &Evidence, syncs: u64) -> Standing {
    let caches = || evidence.storage.iter().map(|storage| storage.write_cache);
    if caches().any(|cache| cache == Some(WriteCache::Volatile)) {
        return Standing::Weak;
    }
    let is_safe = caches().count() > 0 && caches().all(|cache| cache == Some(WriteCache::None));
    if is_safe && syncs > 0 { Standing::Kept } else { Standing::Unseen }
}

fn doublewrite(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    let value = reading.variable("innodb_doublewrite")?;
    let is_off = matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | "DETECT_ONLY");
    let seen = format!("{} syncs of doublewrite files", count(evidence.syncs(Role::Doublewrite)));
    let setting = format!("innodb_doublewrite={value}");
    if !is_off {
        // These syncs accompany writes of data pages; older servers use the system tablespace instead.
        let standing = if evidence.syncs(Role::Doublewrite) > 0 { Standing::Kept } else { Standing::Unseen };
        return Some(finding(setting, standing, "a page torn by a crash is repaired", seen));
    }
    let atomic =
        evidence.storage.iter().any(|storage| matches!(storage.filesystem.as_str(), "zfs" | "btrfs"));
    let promise = if atomic {
        "a page torn by a crash is not repaired, but copy-on-write filesystems do not tear pages"
    } else {
        "a page torn by a crash of the host is not repaired"
    };
    Some(finding(setting, if atomic { Standing::Usual } else { Standing::Weak }, promise, seen))
}

fn redo_switched_off(reading: &Reading) -> Option<Finding> {
    let off = reading.status_is_on("innodb_redo_log_enabled") == Some(false);
    let promise = "a crash of the server, not only of the host, destroys the data";
    off.then(|| {
        finding(
            "innodb_redo_log_enabled=OFF",
            Standing::Broken,
            promise,
            "ALTER INSTANCE DISABLE INNODB REDO_LOG".into(),
        )
    })
}

/// A preloaded library that turns syncs into no-ops, whatever the settings say.
fn preloaded(evidence: &Evidence) -> Option<Finding> {
    let promise = "the server's syncs do nothing: a crash of the host can destroy the data";
    durability::syncs_do_nothing(evidence.server).then(|| {
        finding(
            "libeatmydata",
            Standing::Broken,
            promise,
            format!("{} syncs reached the kernel", count(evidence.all_syncs())),
        )
    })
}

fn mounts(evidence: &Evidence) -> Vec<Finding> {
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
            findings.push(finding(format!("{option} ({place})"), standing, promise, seen));
        } else if matches!(storage.filesystem.as_str(), "tmpfs" | "ramfs") {
            let promise = "memory only: nothing survives a crash of the host";
            findings.push(finding(place, Standing::Weak, promise, seen));
        } else {
            let standing = match (storage.write_cache, evidence.device_flushes) {
                (Some(WriteCache::None), _) | (_, Some(1..)) => seen_by_syncs(evidence),
                _ => Standing::Unseen,
            };
            findings.push(finding(place, standing, "a sync flushes the device's cache if it has one", seen));
        }
    }
    findings
}

/// What a sync does was seen only where the server made one.
fn seen_by_syncs(evidence: &Evidence) -> Standing {
    if evidence.all_syncs() > 0 { Standing::Kept } else { Standing::Unseen }
}
