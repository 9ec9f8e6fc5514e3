//! The page, on explanations of all kinds.

use super::super::waits::{Account, Committer, Phase, Processors};
use super::*;
use crate::explain::audit::{Advice, Finding, Standing};
use crate::explain::commits::Throughput;
use crate::explain::factors::{Edges, InFlightSamples, Uncertain};
use crate::explain::innodb::{self, Window, measure};
use crate::model::fixture::{self, MYSQL, busy};
use crate::model::{FileInfo, FileRow, Op, Stats, durability};
use std::sync::Arc;

/// A busy measurement, with all time in its first row.
fn explanation() -> Explanation {
    let measurement = busy();
    let row = &measurement.roles[0];
    let who = Who { server: row.server, role: row.role, op: row.op };
    let part = Part {
        measured: 2_000_000_000,
        phases: [
            (Phase::OnCpu, 100_000_000),
            (Phase::JournalCommit, 1_890_000_000),
            (Phase::Lock, 2_000_000),
        ]
        .into(),
        under: [
            ((Phase::JournalCommit, Committer::LogBlocks), 390_000_000),
            ((Phase::JournalCommit, Committer::Flush), 1_500_000_000),
        ]
        .into(),
    };
    let waits = Account { parts: [(who, part)].into(), ..Account::default() };
    Explanation {
        commits: None,
        processors: Processors::default(),
        measurement,
        waits,
        journals: Vec::new(),
        incidents: None,
        not_measurable: vec!["whose changes: why".into()],
    }
}

#[test]
fn what_matters_comes_first_and_each_table_the_greatest_first() {
    let page = page(&explanation(), &Style::default(), true);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{page}"));
    let order = [
        "The logs are at most 69 % busy.\n────",
        "the traced syncs took 2.0s in total",
        "1. 75 % of the time in syncs (1.5s) was spent waiting for the device to flush its cache",
        "2. 20 % of the time in syncs (390ms) was spent waiting for the blocks of the journal",
        "  journal commit                                1.890 s    95 %",
        "    device cache flush                          1.500 s    79 %",
        "    log blocks being written                    0.390 s    21 %",
        "  on CPU                                        0.100 s     5 %",
        "  everything else                               0.002 s     0 %",
        "  = device cache flush, both levels             1.500 s    75 %",
        "Not measurable here: whose changes: why.",
    ];
    let places = order.map(at);
    assert!(places.is_sorted(), "{page}");
    assert!(!page.contains("add up"), "1.992 of 2 seconds: {page}");
}

#[test]
fn where_a_log_is_busy_all_the_time_the_first_lines_are_verdict_cause_and_advice() {
    let mut explanation = explanation();
    explanation.measurement.span.duration /= 2;
    let advice = Advice { what: "Faster syncs would help most.".into(), because: "It is busy.".into() };
    let commits = Commits { advice: vec![advice], ..commits(&[]) };
    explanation.commits = Some(commits);
    let page = page(&explanation, &Style::default(), true);
    let first: Vec<&str> = page.lines().take(4).collect();
    assert!(first[0].starts_with("Syncs are the limit: the binary log is 100 % busy."), "{page}");
    assert!(
        first[1].starts_with("75 % of the time in syncs (1.5s) was spent waiting for the device"),
        "{page}"
    );
    assert_eq!(first[2], "Faster syncs would help most. It is busy.");
    assert!(first[3].starts_with("───"), "{page}");
    // One that has ended is not forgotten, whatever role it is of.
    let mut ended = self::explanation();
    let tablespace = ended.measurement.roles.iter_mut().find(|row| !row.role.is_serial()).unwrap();
    tablespace.stats.max = crate::model::Max { ns: 20_000_000_000, exact: true };
    let text = super::page(&ended, &Style::default(), true);
    assert!(text.contains("hung for 20 s.\n") && !text.contains("not the problem"), "{text}");
    // Nothing is denied where calls were missed.
    let mut calm = self::explanation();
    calm.measurement.span.duration *= 4;
    let text = super::page(&calm, &Style::default(), true);
    assert!(text.starts_with("Syncs are not the problem: the logs are at most 17 % busy.\n"), "{text}");
    calm.measurement.lost.preempted = 1;
    let text = super::page(&calm, &Style::default(), true);
    assert!(text.starts_with("The logs are at most 17 % busy.\n"), "{text}");
    let hangs = fixture::in_flight(Role::Redo, "/d/x", std::time::Duration::from_secs(9));
    explanation.measurement.in_flight = vec![hangs];
    let page = super::page(&explanation, &Style::default(), true);
    assert!(page.starts_with("A sync of the redo log has hung for 9.0 s.\n"), "{page}");
}

#[test]
fn what_could_not_be_written_comes_before_anything_else_and_is_in_the_json() {
    let mut explanation = explanation();
    let first = |explanation: &Explanation| page(explanation, &Style::default(), true);
    let json = |explanation: &Explanation| -> serde_json::Value {
        serde_json::from_str(&super::super::json::json(explanation).unwrap()).unwrap()
    };
    assert!(first(&explanation).starts_with("The logs are at most "), "{}", first(&explanation));
    let none = serde_json::json!([]);
    let said = json(&explanation);
    assert_eq!((&said["failures"], &said["writeback_errors"]), (&none, &none));

    let row = explanation.measurement.files[0].clone();
    let of = |op, errno, count| {
        let errors = [(errno, count)].into();
        FileRow { op, stats: Stats { count, errors, ..Stats::default() }, ..row.clone() }
    };
    explanation.measurement.failures =
        vec![of(Op::Write, libc::ENOSPC, 7), of(Op::Writeback, libc::EIO, 1)].into();
    explanation.measurement.lost.writeback_errors = 2;
    let page = first(&explanation);
    let order = [
        "Not everything could be made durable.\n",
        "The kernel could not write back what had been written: 1 EIO on ",
        "\nEIO: the page cache can no longer be trusted",
        "\n7 writes failed: 7 ENOSPC on ",
        "\n\nIn ",
        "\nLost: 2 writeback errors at most belong to files that are not known.",
    ];
    let places = order.map(|text| page.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{page}")));
    assert!(places[0] == 0 && places.is_sorted(), "{page}");
    let said = json(&explanation);
    let [failed, unwritten] = [&said["failures"], &said["writeback_errors"]].map(|rows| &rows[0]);
    let path = row.info.path.as_ref().unwrap().to_str().unwrap();
    assert_eq!((&failed["op"], &failed["errors"]["ENOSPC"]), (&"write".into(), &7.into()));
    assert_eq!((&unwritten["error"], &unwritten["count"]), (&"EIO".into(), &1.into()));
    assert_eq!([&failed["path"], &unwritten["path"]], [path; 2]);
    assert_eq!(said["lost"]["writeback_errors"], 2);
}

#[test]
fn what_was_written_has_a_section_and_is_in_the_json_where_all_writes_were_watched() {
    let mut explanation = explanation();
    let json = |explanation: &Explanation| -> serde_json::Value {
        serde_json::from_str(&super::super::json::json(explanation).unwrap()).unwrap()
    };
    let text = page(&explanation, &Style::default(), true);
    assert!(!text.contains(WRITTEN) && json(&explanation).get("writes").is_none(), "{text}");

    let m = &mut explanation.measurement;
    Arc::make_mut(&mut m.setup).ops.extend([Op::DsyncWrite, Op::Write]);
    let row = m.files.iter().find(|row| row.info.role == Role::Redo).unwrap().clone();
    let stats = Stats { count: 100, bytes: 1_024_000, ..Stats::default() };
    m.writes = vec![FileRow { op: Op::Write, stats, ..row }].into();
    m.write_roles = crate::model::roles_of(&m.writes);
    let text = page(&explanation, &Style::default(), true);
    let section = text.split("What was written:\n").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(section.starts_with("All that was written of the redo log was synced:"), "{text}");
    let said = "1.0 MB were written in all, 100 % of them to the redo log: the pages";
    assert!(section.contains(said), "{text}");
    let json = json(&explanation);
    let written = &json["writes"][0];
    assert_eq!((&written["role"], &written["bytes"]), (&"redo".into(), &1_024_000.into()));
    assert_eq!(json["bytes_per_transaction"], serde_json::Value::Null, "nobody counted them");
}

#[test]
fn what_a_process_called_its_file_is_harmless_in_the_json() {
    let mut explanation = explanation();
    let hostile = Arc::new(FileInfo {
        path: Some("/\u{202e}lmth.\u{9b}31m".into()),
        ..FileInfo::nameless(Role::Other)
    });
    let row = FileRow { op: Op::Write, info: hostile, ..explanation.measurement.files[0].clone() };
    explanation.measurement.failures = vec![row].into();
    let json = super::super::json::json(&explanation).unwrap();
    assert!(json.contains(r"/\u202elmth.\u009b31m"), "{json}");
}

fn commits(audit: &[(&str, Standing)]) -> Commits {
    let m = busy();
    let window = Window {
        server: &m.servers[0],
        measurement: &m,
        edges: Edges { begun: &[], until: &m, unsure: &Uncertain::default() },
        status: None,
        in_flight: &InFlightSamples::new(MYSQL, innodb::LOGS),
    };
    let finding = |&(setting, standing): &(&str, Standing)| Finding {
        setting: setting.into(),
        standing,
        promise: "a promise".into(),
        seen: "seen".into(),
    };
    let audit = audit.iter().map(finding).collect();
    Commits {
        throughput: Some(Throughput::InnoDb(Box::new(measure(&window)))),
        left_out: Vec::new(),
        alone: None,
        audit,
        advice: Vec::new(),
    }
}

#[test]
fn the_audit_is_always_there_and_comes_first_if_something_is_broken() {
    let kept = ("sync_binlog=1", Standing::Kept);
    let broken = ("libeatmydata", Standing::Broken);
    for has_syncs in [true, false] {
        let page = |audit: &[_]| {
            let mut explanation = Explanation { commits: Some(commits(audit)), ..explanation() };
            if !has_syncs {
                explanation.waits = Account::default();
            }
            page(&explanation, &Style::default(), true)
        };
        let waits = if has_syncs { "the traced syncs took" } else { "No sync of a traced process was seen" };
        let first = format!("{AUDIT}\nBROKEN     libeatmydata: a promise (seen).\nkept       sync_binlog=1");
        let text = page(&[broken, kept]);
        let begin = text.split_once("──\n\n").map_or(text.as_str(), |(_, rest)| rest);
        assert!(begin.starts_with(&first), "{text}");
        assert_eq!(text.starts_with("A promise of durability is broken: libeatmydata."), has_syncs, "{text}");
        assert!(text.contains(waits) && text.contains(THROUGHPUT), "{text}");
        assert_eq!(text.matches(AUDIT).count(), 1, "{text}");
        let text = page(&[kept]);
        let order = [waits, THROUGHPUT, AUDIT, "kept       sync_binlog=1", "Not measurable here"];
        let places = order.map(|part| text.find(part).unwrap_or_else(|| panic!("no {part:?} in\n{text}")));
        assert!(places.is_sorted(), "{text}");
    }
}

#[test]
fn a_servers_own_durable_writes_may_be_what_its_device_did() {
    let mut explanation = explanation();
    explanation.journals = vec![Journal {
        device: "/dev/vda".into(),
        filesystem: None,
        mount: None,
        commits: Some(100),
        device_flushes: 200,
        log_writes: 0,
        syncs: 10,
        durable_writes: 0,
        neighbours: vec![("xtrabackup".into(), 30)],
        unattributed: 0,
        writers: None,
    }];
    let blamed = page(&explanation, &Style::default(), true);
    assert!(blamed.contains("come from xtrabackup") && !blamed.contains("may be for"), "{blamed}");
    Arc::make_mut(&mut explanation.measurement.servers[0]).notes = vec![durability::REDO_BY_WRITES.into()];
    let page = page(&explanation, &Style::default(), true);
    assert!(!page.contains("come from xtrabackup"), "{page}");
    assert!(page.contains("may be for the server's own writes") && page.contains(OWN_WRITES), "{page}");
}

#[test]
fn what_has_hung_since_before_the_window_is_said_where_no_other_sync_was_seen() {
    let mut explanation = Explanation { waits: Account::default(), ..explanation() };
    explanation.waits.window = std::time::Duration::from_secs(3);
    let hung = |seconds| fixture::in_flight(Role::Redo, "/d/redo", std::time::Duration::from_secs(seconds));
    explanation.measurement.in_flight = vec![hung(5), hung(4), hung(1)];
    let page = page(&explanation, &Style::default(), true);
    assert!(page.starts_with("2 operations have hung since before this began (redo, 5.0 s)"), "{page}");
}

#[test]
fn a_window_without_syncs_says_so() {
    let explanation = Explanation { waits: Account::default(), ..explanation() };
    assert!(page(&explanation, &Style::default(), true).starts_with("No sync of a traced process was seen"));
}

#[test]
fn what_is_not_watched_is_said_of_both_and_has_no_part_in_the_times() {
    let mut explanation = explanation();
    explanation.measurement.lost.unwatched = 3;
    let sentence = "The server also made data durable 3 times by calls that are not watched";
    let text = page(&explanation, &Style::default(), true);
    assert!(text.contains(sentence), "{text}");
    let json = super::super::json::json(&explanation).unwrap();
    assert!(json.contains("\"unwatched\":3"), "{json}");
    let idle = Explanation { waits: Account::default(), ..explanation };
    let text = page(&idle, &Style::default(), true);
    assert!(text.contains("No sync of a traced process was seen") && text.contains(sentence), "{text}");
}

#[test]
fn in_json_a_row_of_level_two_names_its_wait_and_has_its_share_of_that() {
    let json: serde_json::Value =
        serde_json::from_str(&super::super::json::json(&explanation()).unwrap()).unwrap();
    let rows = json["phases"].as_array().unwrap();
    let share = |phase: &str, under: Option<&str>| {
        let row = rows.iter().find(|row| row["phase"] == phase && row["under"].as_str() == under);
        row.unwrap()["share"].as_f64().unwrap()
    };
    assert!((share("journal_commit", None) - 1.89 / 1.992).abs() < 1e-9);
    assert!((share("device_flush", Some("journal_commit")) - 1.5 / 1.89).abs() < 1e-9);
    assert!((json["accounted_share"].as_f64().unwrap() - 0.996).abs() < 1e-9);
    assert_eq!((rows.len(), &json["device_flush_seconds"]), (5, &1.5.into()));
}
