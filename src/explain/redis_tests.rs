use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::explain::audit::render;
use crate::linux::storage::{Storage, WriteCache};
use crate::model::fixture::{self, MYSQL};
use crate::model::{Durability, Interval, Op, Server};

/// Ten seconds with so many syncs of what is appended.
fn measurement(syncs: u64) -> Interval {
    let log = "/d/appendonlydir/appendonly.aof.1.incr.aof";
    let row = fixture::row(MYSQL, 1, log, Role::Aof, Op::Fdatasync, fixture::stats(&[(syncs, 1_000_000)]));
    let files = Vec::from_iter((syncs > 0).then_some(row));
    fixture::with_files(fixture::lasting(Duration::from_secs(10), fixture::quiet()), files, Vec::new())
}

const SETTINGS: [(&str, &str); 4] =
    [("appendonly", "yes"), ("appendfsync", "always"), (ON_REWRITE, "no"), ("save", "3600 1")];

/// The findings in words, of ten seconds with so many syncs and changes. `more`: of INFO at the end, or
/// otherwise than usual.
fn audited(syncs: u64, changes: u64, settings: &[(&'static str, &'static str)], more: &str) -> String {
    audited_of(&measurement(syncs), changes, settings, settings, more)
}

fn audited_of(
    measurement: &Interval,
    changes: u64,
    before: &[(&'static str, &'static str)],
    settings: &[(&'static str, &'static str)],
    more: &str,
) -> String {
    let at = |changes: u64, settings: &[(&'static str, &'static str)], more: &str| {
        let settings: Vec<_> = SETTINGS.into_iter().chain(settings.iter().copied()).collect();
        let usual = format!(
            "run_id:a\nrdb_bgsave_in_progress:0\naof_rewrite_in_progress:0\nrdb_saves:1\naof_rewrites:1\n\
             aof_base_size:88\naof_delayed_fsync:0\naof_current_size:{}\nrdb_changes_since_last_save:{changes}\n",
            1_000 + 30 * changes
        );
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        let otherwise: Vec<String> = more.lines().map(name).collect();
        let usual = usual.lines().filter(|line| !otherwise.contains(&name(line)));
        Reading::from_text(&usual.chain(more.lines()).collect::<Vec<_>>().join("\n"), &settings)
    };
    let (from, to) = (at(0, before, ""), at(changes, settings, more));
    let server = server();
    let evidence = Evidence {
        server: &server,
        measurement,
        status: Some((&from, &to)),
        storage: &[],
        flush_waits: BTreeMap::new(),
    };
    render(&audit(&evidence))
}

fn server() -> Server {
    fixture::server(MYSQL, "redis-server", "Redis 7.0.15", 6379)
}

#[test]
fn a_write_that_is_answered_has_been_synced_or_the_promise_is_broken() {
    let kept = "consistent appendfsync=always: a write is answered once it is synced (100 syncs for 3.0 kB appended).\n";
    assert_eq!(audited(100, 100, &[], ""), kept);
    assert!(
        audited(0, 100, &[], "").starts_with("BROKEN     appendfsync=always"),
        "{}",
        audited(0, 100, &[], "")
    );
    assert!(audited(0, 2, &[], "").starts_with("unseen"), "that may be chance");
    // While a child writes, it may have been told not to sync.
    let rewriting = audited(0, 100, &[(ON_REWRITE, "yes")], "aof_rewrite_in_progress:1\n");
    assert!(rewriting.starts_with("weak       no-appendfsync-on-rewrite=yes"), "{rewriting}");
    assert!(rewriting.contains("unseen     appendfsync=always"), "{rewriting}");
}

#[test]
fn what_a_setting_allows_to_be_lost_is_said() {
    let everysec = audited(10, 100, &[("appendfsync", "everysec")], "aof_delayed_fsync:3\n");
    assert!(everysec.starts_with("usual      appendfsync=everysec: a crash of the host loses"), "{everysec}");
    assert!(everysec.contains("3 writes were made after waiting two seconds"), "{everysec}");
    let no = audited(0, 100, &[("appendfsync", "no"), (ON_REWRITE, "yes")], "");
    assert!(no.starts_with("weak       appendfsync=no") && !no.contains(ON_REWRITE), "{no}");
    let off = audited(0, 100, &[("appendonly", "no")], "");
    assert_eq!(
        off,
        "weak       appendonly=no: a crash of the server or the host loses what was written since the last saved file (100 \
         changes since the last saved file (save=3600 1)).\n"
    );
    let never_saved = audited(0, 1, &[("appendonly", "no"), ("save", "")], "");
    assert!(never_saved.contains("none is saved by itself"), "{never_saved}");
}

#[test]
fn nothing_is_broken_that_was_not_promised_for_all_of_the_window_or_is_under_way() {
    let standing = |text: String| text.split_whitespace().next().unwrap_or_default().to_owned();
    let none = measurement(0);
    for before in [("appendfsync", "everysec"), ("appendonly", "no")] {
        assert_eq!(standing(audited_of(&none, 100, &[before], &[], "")), "unseen", "{before:?}");
    }
    for more in
        ["cmdstat_config|set:calls=2,usec=5", "aof_pending_bio_fsync:1", "aof_base_size:99", "aof_rewrites:2"]
    {
        assert_eq!(standing(audited(0, 100, &[], more)), "unseen", "{more}");
    }
    let one =
        fixture::in_flight(Role::Aof, "/d/appendonlydir/appendonly.aof.1.incr.aof", Duration::from_secs(9));
    let hangs = Interval { in_flight: vec![one], ..measurement(0) };
    assert_eq!(standing(audited_of(&hangs, 100, &[], &[], "")), "unseen");
    assert_eq!(standing(audited(0, 100, &[], "")), "BROKEN");
}

#[test]
fn failures_that_it_tells_itself_come_first() {
    let failed = audited(5, 100, &[], "aof_last_write_status:err\nrdb_last_bgsave_status:err\n");
    let lines: Vec<&str> = failed.lines().collect();
    assert!(lines[0].starts_with("BROKEN     aof_last_write_status=err"), "{failed}");
    assert!(lines[1].starts_with("weak       rdb_last_bgsave_status=err"), "{failed}");
    // Of a file that is not used, it may be years old.
    let off = audited(0, 1, &[("appendonly", "no")], "aof_last_write_status:err\n");
    assert!(!off.contains("aof_last_write_status"), "{off}");
}

#[test]
fn without_a_connection_the_storage_is_left() {
    let (server, measurement) = (server(), measurement(5));
    let storage = [Storage::example(&["rw"], Some(WriteCache::Volatile), Durability::Yes)];
    let evidence = Evidence {
        server: &server,
        measurement: &measurement,
        status: None,
        storage: &storage,
        flush_waits: BTreeMap::from([(Role::Aof, 5)]),
    };
    let said = render(&audit(&evidence));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("kept       ext4 on /dev/vda"), "{said}");
}
