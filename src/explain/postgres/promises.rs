//! Each setting that durability depends on, checked against the window's measurements. As fsynctop's own
//! session sees them: a role, a database or a session may have set synchronous_commit otherwise.

use super::Evidence;
use super::form::Form;
use crate::explain::audit::storage::{mounts, preloaded};
use crate::explain::audit::{Finding, Standing, for_transactions};
use crate::model::Role;
use crate::server::postgres::status::counters::Between;
use crate::text::{count, escape_sentence};

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
    findings.extend(mounts(evidence));
    findings.sort_by_key(|finding| finding.standing);
    findings
}

fn fsync(evidence: &Evidence, between: &Between) -> Option<Finding> {
    let value = between.to.setting("fsync")?;
    let syncs = evidence.all_syncs();
    let seen = format!("{} syncs", count(syncs));
    let (standing, promise) = match value {
        "off" => (Standing::Broken, "nothing is ever synced: a crash of the host can destroy the cluster"),
        _ if syncs > 0 => (Standing::Kept, "what has to be durable is synced"),
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
    let syncs = evidence.syncs(Role::Wal);
    let of_syncs = for_transactions(format!("{} syncs of the WAL", count(syncs)), transactions);
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
    let form = Form::of(evidence.server, Some(between), &evidence.measurement.setup.ops);
    let Some(why) = form.by_writes else {
        return Some(Finding::new(setting, evidence.kept(syncs, transactions), durable, of_syncs));
    };
    let Some(writes) = evidence.durable_writes(Role::Wal) else {
        let seen = format!("{of_syncs}: each write is itself durable, {why}, and not watched here");
        return Some(Finding::new(setting, Standing::Unseen, durable, seen));
    };
    let seen = for_transactions(format!("{} durable writes of the WAL", count(writes)), transactions);
    Some(Finding::new(setting, evidence.kept(writes, transactions), durable, format!("{seen}, {why}")))
}

fn full_page_writes(evidence: &Evidence, between: &Between) -> Option<Finding> {
    let value = between.to.setting("full_page_writes")?;
    let setting = format!("full_page_writes={}", escape_sentence(value));
    let seen = format!("{} syncs of data files", count(evidence.syncs(Role::Data)));
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
        format!("{} failed syncs of data files", count(failed)),
    ))
}
