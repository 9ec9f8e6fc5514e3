//! Recordings that were made once, by this version and by those before: each is read whole, by whoever likes,
//! and every view shows it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Those of released versions are in the second one, each with its page.
const FOLDERS: [&str; 2] = ["examples/recordings", "tests/fixtures/recordings"];

/// Folders of recordings, with what their page says that was recorded: intervals and syncs.
fn recordings() -> Vec<(PathBuf, u64, u64)> {
    let mut all = Vec::new();
    for folder in FOLDERS.map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            let page = std::fs::read_to_string(format!("{}.md", path.display())).unwrap();
            let line =
                page.lines().find(|line| line.starts_with("Recorded ")).unwrap_or_else(|| panic!("{page}"));
            let number = |word: &str| -> u64 {
                let before = line.split(word).next().unwrap().rsplit(' ').next().unwrap();
                before.replace(',', "").parse().unwrap_or_else(|_| panic!("{line}"))
            };
            all.push((path.clone(), number(" intervals"), number(" syncs")));
        }
    }
    all
}

fn replay(recording: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(arguments).arg("--replay").arg(recording).env("FSYNCTOP_NO_CONFIG", "true");
    command.output().unwrap()
}

/// On one line, whatever the status.
fn said(output: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_is_read_whole_and_its_figures_are_those_of_when_it_was_made() {
    let all = recordings();
    assert!(!all.is_empty());
    for (recording, intervals, syncs) in all {
        let mut segments = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
        let segments = said(&segments.arg("segments").arg(&recording).output().unwrap());
        assert!(segments.ends_with("Nothing of it is missing."), "{}: {segments}", recording.display());
        let series = replay(&recording, &["once", "-i", "0.1", "--output", "json"]);
        let count = |measured: &Value| -> u64 {
            measured["roles"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum()
        };
        let parts: Vec<u64> = String::from_utf8_lossy(&series.stdout)
            .lines()
            .map(|line| count(&serde_json::from_str(line).unwrap()))
            .collect();
        assert_eq!((parts.len() as u64, parts.iter().sum::<u64>()), (intervals, syncs));
        let whole = replay(&recording, &["once", "--output", "json"]);
        assert_eq!(count(&serde_json::from_slice(&whole.stdout).unwrap()), syncs);
    }
}

/// What the pages say of it, and what an engineer would ask of it, without rights.
#[test]
fn every_view_shows_the_incident_of_the_example() {
    let incident = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recordings/incident");
    let history = said(&replay(&incident, &["history"]));
    assert!(history.starts_with("1 hang, 1 slow phase"), "{history}");
    assert!(
        history.contains(": redo hung for 8.0 s, usually ") && history.contains("the FUSE server's answer")
    );
    let explained = said(&replay(&incident, &["explain"]));
    assert!(explained.starts_with("A sync of the redo log hung for 8.0 s."), "{explained}");
    assert!(explained.contains("1 hang, 1 slow phase") && explained.contains("not recorded"), "{explained}");

    assert!(explained.contains("waiting for the server of a FUSE or network filesystem"), "{explained}");
    let verified = replay(&incident, &["verify"]);
    assert!(verified.status.success() && said(&verified).contains("Both counts agree."), "{verified:?}");

    let events = replay(&incident, &["events", "--output", "json"]);
    let events: Vec<Value> = String::from_utf8_lossy(&events.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let states: Vec<&str> = events.iter().filter_map(|event| event["verdict"]["state"].as_str()).collect();
    assert_eq!(states, ["ok", "stalled", "ok"]);
    let hang = events.iter().find(|event| event["event"] == "in_flight").unwrap();
    assert_eq!(hang["waits_for"], "the FUSE server's answer");
    assert!(
        events.iter().any(|event| event["event"] == "slow" && event["latency_seconds"].as_f64() > Some(7.5))
    );

    let stalled = events.iter().find(|event| event["verdict"]["state"] == "stalled").unwrap();
    let at = stalled["time"].as_str().unwrap();
    let status = replay(&incident, &["status", "--at", at]);
    assert!(said(&status).starts_with("stalled orders"), "{}", said(&status));
    let stuck = said(&replay(&incident, &["stuck", "--at", at]));
    assert!(stuck.contains("fdatasync redo") && stuck.contains("ib_logfile0"), "{stuck}");
    let worst = said(&replay(&incident, &["once", "--at", "worst"]));
    assert!(worst.contains("ib_logfile0") || worst.contains("redo"), "{worst}");
}
