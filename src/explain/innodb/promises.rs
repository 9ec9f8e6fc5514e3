//! Each setting that durability depends on, checked against the window's measurements.

use super::Evidence;
use crate::explain::audit::storage::{preloaded, with_storage};
use crate::explain::audit::{Finding, Log, Standing, for_transactions, syncs};
use crate::linux::storage::WriteCache;
use crate::model::Role;
use crate::server::mysql::doublewrite::is_in_tablespace;
use crate::server::mysql::durable_writes::DurableWrites;
use crate::server::mysql::status::counters::Between;
use crate::server::mysql::status::reading::Reading;
use crate::text::{absence, bytes, counted};

const NOT_INNODB: &str = "transactions on MyISAM, Aria, MEMORY or temporary tables may be why (ENGINE in information_schema.tables)";
const NOT_LOGGED: &str = "changes that the binary log does not take may be why (binlog_do_db and its like, sql_log_bin of a session)";

/// All findings, the most serious first.
pub fn audit(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(preloaded(evidence));
    if let Some((_, reading)) = evidence.status {
        findings.extend(redo_switched_off(reading));
        findings.extend(redo(evidence, reading));
        findings.extend(binlog(evidence, reading));
        findings.extend(flush_method(evidence, reading));
        findings.extend(doublewrite(evidence, reading));
    }
    with_storage(evidence, findings)
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
    for_transactions(syncs(evidence.syncs(role)), transactions(evidence))
}

fn between<'a>(evidence: &'a Evidence) -> Option<Between<'a>> {
    let (from, to) = evidence.status?;
    Some(Between { from, to }).filter(|between| between.interrupted().is_none())
}

/// None: it is not counted, or the counters cannot be used.
fn transactions(evidence: &Evidence) -> Option<u64> {
    Some(between(evidence)?.transactions()?.count)
}

/// The redo log or the binary log, which was made durable so many times.
fn log(evidence: &Evidence, role: Role, made_durable: u64) -> Log {
    let between = between(evidence);
    let from = |of: fn(&Between) -> Option<u64>| between.as_ref().and_then(of);
    let (by_its_count, why_not) = match role {
        Role::Redo => (from(|between| between.redo_bytes()), NOT_INNODB),
        _ => (from(|between| between.grown("binlog_bytes_written")), NOT_LOGGED),
    };
    let commits = from(|between| {
        // A counter of calls has one of each engine, the binary log's own included.
        between.transactions().map(|counted| if counted.exact { counted.count } else { counted.count / 2 })
    });
    let grown = evidence.written(role).or(by_its_count);
    Log { made_durable, commits, grown, sessions: from(|between| between.sessions_at_most()), why_not }
}

/// Its value, if it was the same at both ends: of one that was changed, nothing is to be held against counts.
fn unchanged(evidence: &Evidence, setting: &str) -> Option<u64> {
    let (from, to) = evidence.status?;
    to.setting(setting).filter(|&value| from.setting(setting).is_none_or(|before| before == value))
}

fn redo(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    let value = unchanged(evidence, "innodb_flush_log_at_trx_commit")?;
    let setting = format!("innodb_flush_log_at_trx_commit={value}");
    let seen = syncs_for(evidence, Role::Redo);
    let durable = "a commit returns once its redo log is durable";
    let by_writes = DurableWrites::of(evidence.server, Some(reading)).redo;
    let promise = match (value, by_writes) {
        // At 2 a commit waits for a write, which is enough where that is durable.
        (1..=3, Some(why)) => {
            let Some(writes) = evidence.durable_writes(Role::Redo) else {
                let seen = format!("{seen}: each write is itself durable, {why}, and not watched here");
                return Some(Finding::new(setting, Standing::Unseen, durable, seen));
            };
            let seen =
                for_transactions(counted(writes, "durable write", "durable writes"), transactions(evidence));
            let log = log(evidence, Role::Redo, writes);
            return Some(evidence.of_waiting(setting, durable, format!("{seen}, {why}"), &log));
        }
        (1 | 3, None) => {
            let log = log(evidence, Role::Redo, evidence.syncs(Role::Redo));
            return Some(evidence.of_waiting(setting, durable, seen, &log));
        }
        (2, None) => "a crash of the host loses the commits of the last second or more",
        _ => "a crash of the server loses the commits of the last second or more",
    };
    let (standing, promise) = weak(evidence, reading, promise);
    Some(Finding::new(setting, standing, &promise, seen))
}

fn binlog(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    if reading.is_on("log_bin") != Some(true) {
        return None;
    }
    if reading.variable("binlog_storage_engine").is_some_and(|engine| engine.eq_ignore_ascii_case("innodb")) {
        let promise = "the binary log is stored in InnoDB and durable with its redo log";
        return Some(Finding::new(
            "binlog_storage_engine=innodb",
            Standing::Unseen,
            promise,
            syncs_for(evidence, Role::Redo),
        ));
    }
    let value = unchanged(evidence, "sync_binlog")?;
    let setting = format!("sync_binlog={value}");
    let seen = syncs_for(evidence, Role::Binlog);
    if value == 1 {
        let promise = "a commit returns once its binary log is durable";
        let log = log(evidence, Role::Binlog, evidence.syncs(Role::Binlog));
        return Some(evidence.of_waiting(setting, promise, seen, &log));
    }
    let promise = match value {
        0 => "a crash of the host loses whatever part of the binary log the kernel had not written out"
            .to_owned(),
        n => format!("a crash of the host loses up to {n} commit groups from the binary log"),
    };
    let (standing, promise) = weak(evidence, reading, &promise);
    Some(Finding::new(setting, standing, &promise, seen))
}

fn flush_method(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    let method = reading.variable("innodb_flush_method")?;
    let data = evidence.syncs(Role::Tablespace)
        + evidence.syncs(Role::SystemTablespace)
        + evidence.syncs(Role::Undo);
    let seen = format!("{} of data files", syncs(data));
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
    Some(Finding::new(format!("innodb_flush_method={method}"), standing, promise, seen))
}

/// Of data files that are synced only when they grow, by the caches of what they may lie on.
fn without_data_syncs(evidence: &Evidence, seen: u64) -> Standing {
    let caches = || evidence.storage.iter().map(|storage| storage.write_cache);
    if caches().any(|cache| cache == Some(WriteCache::Volatile)) {
        return Standing::Weak;
    }
    let is_safe = caches().count() > 0 && caches().all(|cache| cache == Some(WriteCache::None));
    if is_safe && seen > 0 { Standing::Consistent } else { Standing::Unseen }
}

fn doublewrite(evidence: &Evidence, reading: &Reading) -> Option<Finding> {
    let value = reading.variable("innodb_doublewrite")?;
    let is_off = matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | "DETECT_ONLY");
    let made = evidence.syncs(Role::Doublewrite);
    let seen = format!("{} of doublewrite files", syncs(made));
    let setting = format!("innodb_doublewrite={value}");
    if !is_off {
        let is_inside = made == 0 && evidence.server.version.as_deref().is_some_and(is_in_tablespace);
        // These syncs accompany writes of data pages.
        let of_files = || (if made > 0 { Standing::Consistent } else { Standing::Unseen }, seen);
        let (standing, seen) = if is_inside { doublewrite_inside(evidence, reading) } else { of_files() };
        return Some(Finding::new(setting, standing, "a page torn by a crash is repaired", seen));
    }
    let atomic = !evidence.storage.is_empty()
        && evidence.storage.iter().all(|storage| matches!(storage.filesystem.as_str(), "zfs" | "btrfs"));
    let promise = if atomic {
        "a page torn by a crash is not repaired, but copy-on-write filesystems do not tear pages"
    } else {
        "a page torn by a crash of the host is not repaired"
    };
    Some(Finding::new(setting, if atomic { Standing::Usual } else { Standing::Weak }, promise, seen))
}

/// What was seen of one that lies in the system tablespace: syncs are of the whole file.
fn doublewrite_inside(evidence: &Evidence, reading: &Reading) -> (Standing, String) {
    let product = evidence.server.version.as_deref().and_then(|version| version.split(' ').next());
    let product = product.unwrap_or_default();
    let written = evidence.written(Role::Doublewrite);
    let untold = |unless: &str| {
        let why = format!("cannot be told{unless}: {product}'s doublewrite buffer is inside ibdata1");
        (Standing::Unseen, why)
    };
    let is_told = evidence.measurement.tells_doublewrite_apart(evidence.server.id);
    match (written, DurableWrites::of(evidence.server, Some(reading)).data) {
        (Some(written), _) if written > 0 => {
            (Standing::Consistent, format!("{} written to it, inside ibdata1", bytes(written)))
        }
        (None, _) => untold(" with --writes off"),
        (_, Some(why)) => untold(&format!(" where {why} makes each write durable")),
        (Some(_), None) if is_told && evidence.all_is_known() => (Standing::Unseen, absence::doublewrite()),
        (Some(_), None) => untold(", because not all writes to it can be told from others"),
    }
}

fn redo_switched_off(reading: &Reading) -> Option<Finding> {
    let off = reading.status_is_on("innodb_redo_log_enabled") == Some(false);
    let promise = "a crash of the server, not only of the host, destroys the data";
    off.then(|| {
        Finding::new(
            "innodb_redo_log_enabled=OFF",
            Standing::Broken,
            promise,
            "ALTER INSTANCE DISABLE INNODB REDO_LOG".into(),
        )
    })
}
