//! A server that another user runs, in a directory that nobody else may enter, as a user with the minimum of
//! capabilities sees it.

use anyhow::Result;
use serde_json::json;

use crate::expect::says;
use crate::measured::{compare_loads, number, rows};
use crate::outcome::{Findings, Outcome};

pub fn expect(outcome: &Outcome, findings: &mut Findings) {
    findings.run("other-user", |findings| {
        compare_loads(outcome, "other-user", &["ext4"], findings)?;
        Ok(())
    });
    let files = "open files: 1 redo, 1 binlog, 1 undo, 1 tablespace";
    says(outcome, "other-user-check", "server", "ok", files, findings);
    for step in ["other-user-stuck", "other-user-hung"] {
        findings.run(step, |findings| hangs(outcome, step, findings));
    }
    // What it takes to see that shows where it is not there.
    findings.run("other-user-stuck-unseen", |findings| {
        let seen = outcome.json("other-user-stuck-unseen.out")?;
        let (found, unreadable) = (rows(&seen["in_flight"]).count(), number(&seen["unreadable_threads"]));
        findings.check(found == 0 && unreadable > 0, || {
            format!("without the capabilities for it {found} are seen, and {unreadable} threads not")
        });
        Ok(())
    });
}

/// It hung before anyone looked.
fn hangs(outcome: &Outcome, step: &str, findings: &mut Findings) -> Result<()> {
    let load = outcome.load("other-user-hangs.ext4")?;
    let seen = outcome.json(&format!("{step}.out"))?;
    let mut found = seen["in_flight"].clone();
    let expected = json!([{
        "pid": load["pid"], "tid": load["threads"][0]["tid"], "thread": "sync-0", "op": "fdatasync", "role": "redo",
        "path": "/mnt/ext4/data/#innodb_redo/#ib_redo7", "age_is_minimum": true,
    }]);
    for sync in found.as_array_mut().into_iter().flatten().filter_map(|sync| sync.as_object_mut()) {
        sync.retain(|field, _| expected[0].get(field).is_some());
    }
    findings.check(found == expected, || format!("in_flight should be {expected} and is {found}"));
    if step == "other-user-stuck" {
        let waits = &seen["in_flight"][0]["wait_channel"];
        findings.check(waits.as_str().is_some_and(|name| name.starts_with("folio_wait")), || {
            format!("it waits in {waits}")
        });
    }
    Ok(())
}
