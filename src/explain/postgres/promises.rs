//! Each setting that durability depends on, checked against the window's measurements. As fsynctop's own
//! session sees them: a role, a database or a session may have set synchronous_commit otherwise.

use super::Evidence;
use super::form::Form;
use crate::explain::audit::storage::{preloaded, with_storage};
use crate::explain::audit::{Finding, Log, Standing, for_transactions, syncs};
use crate::model::Role;
use crate::server::postgres::status::counters::Between;
use crate::text::{counted, escape_sentence};

const NOT_WAITING: &str = "synchronous_commit=off in a session, a role or a database may be why (`SELECT * FROM pg_db_role_setting`), or \
                           temporary or unlogged tables";

/// All findings, the most serious first.
pub fn audit(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(preloaded(evidence));
    if let Some((from, to)) = evidence.status {
        let between = Between { from, to };
        findings.extend(fsync(evidence, &between));
        findings.extend(synchronous_commit(evidence, &between));
        findings.extend(full_page_writes(evidence, &between));
        findings.extend(data_sync_retry(evidence, &between));
    }
    with_storage(evidence, findings)
}

fn fsync(evidence: &Evidence, between: &Between) -> Option<Finding> {
    let value = between.to.setting("fsync")?;
    let all = evidence.all_syncs();
    let seen = syncs(all);
    let (standing, promise) = match value {
        "off" => (Standing::Broken, "nothing is ever synced: a crash of the host can destroy the cluster"),
        _ if all > 0 => (Standing::Consistent, "what has to be durable is synced"),
        _ => (Standing::Unseen, "what has to be durable is synced"),
    };
    Some(Finding::new(format!("fsync={}", escape_sentence(value)), standing, promise, seen))
}

fn synchronous_commit(evidence: &Evidence, between: &Between) -> Option<Finding> {
    let value = between.to.setting("synchronous_commit")?;
    let setting = format!("synchronous_commit={}", escape_sentence(value));
    let transactions = between.interrupted().is_none().then(|| between.transactions()).flatten();
    let transactions = transactions.map(|counted| counted.count);
    let durable = "a commit returns once its WAL is durable";
    let of_wal = evidence.syncs(Role::Wal);
    let of_syncs = for_transactions(format!("{} of the WAL", syncs(of_wal)), transactions);
    // What fsync=off makes of it is said of fsync.
    if between.to.setting("fsync") == Some("off") || between.to.is_standby() {
        let promise = if value == "off" { "commits do not wait for the WAL" } else { durable };
        return Some(Finding::new(setting, Standing::Unseen, promise, of_syncs));
    }
    if value == "off" {
        let promise = "a crash of the server or the host loses the commits of up to three times wal_writer_delay, and does \
                       no other damage";
        return Some(Finding::new(setting, Standing::Weak, promise, of_syncs));
    }
    let log = |made_durable| Log {
        made_durable,
        commits: transactions,
        grown: evidence.written(Role::Wal).or_else(|| between.grown("pg_stat_wal.wal_bytes")),
        sessions: between.sessions_at_most(),
        why_not: NOT_WAITING,
    };
    let form = Form::of(evidence.server, Some(between), &evidence.measurement.setup.ops);
    let Some(why) = form.by_writes else {
        return Some(evidence.of_waiting(setting, durable, of_syncs, &log(of_wal)));
    };
    let Some(writes) = evidence.durable_writes(Role::Wal) else {
        let seen = format!("{of_syncs}: each write is itself durable, {why}, and not watched here");
        return Some(Finding::new(setting, Standing::Unseen, durable, seen));
    };
    let seen = for_transactions(
        counted(writes, "durable write of the WAL", "durable writes of the WAL"),
        transactions,
    );
    Some(evidence.of_waiting(setting, durable, format!("{seen}, {why}"), &log(writes)))
}

fn full_page_writes(evidence: &Evidence, between: &Between) -> Option<Finding> {
    let value = between.to.setting("full_page_writes")?;
    let setting = format!("full_page_writes={}", escape_sentence(value));
    let seen = format!("{} of data files", syncs(evidence.syncs(Role::Data)));
    if value != "off" {
        return Some(Finding::new(setting, Standing::Unseen, "a page torn by a crash is repaired", seen));
    }
    let copies = |filesystem: &str| matches!(filesystem, "zfs" | "btrfs");
    let (standing, promise) = if !evidence.storage.is_empty()
        && evidence.storage.iter().all(|storage| copies(&storage.filesystem))
    {
        (
            Standing::Usual,
            "a page torn by a crash is not repaired, but copy-on-write filesystems do not tear pages",
        )
    } else {
        (Standing::Weak, "a page torn by a crash of the host is not repaired")
    };
    Some(Finding::new(setting, standing, promise, seen))
}

fn data_sync_retry(evidence: &Evidence, between: &Between) -> Option<Finding> {
    if between.to.setting("data_sync_retry")? != "on" {
        return None;
    }
    let rows = evidence.measurement.files.iter().filter(|row| row.server == evidence.server.id);
    let rows = rows.filter(|row| row.info.role == Role::Data && !row.op.writes());
    let failed: u64 = rows.flat_map(|row| row.stats.errors.values()).sum();
    let promise = "after a failed sync of a data file the server goes on, although the kernel may have dropped what it could \
                   not write";
    Some(Finding::new(
        "data_sync_retry=on",
        Standing::Weak,
        promise,
        counted(failed, "failed sync of data files", "failed syncs of data files"),
    ))
}
