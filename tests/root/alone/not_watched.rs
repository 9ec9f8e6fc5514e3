//! Needs root and the tracing filesystem: data that is made durable by a way that is not watched is never
//! called watched.

use std::process::Command;

use crate::common::disk::Mounted;
use crate::common::durable::DURABLE;
use crate::common::faults::{fsynctop, output, stdout, trace};
use crate::common::needs;
use serde_json::Value;

const TRACEFS: &str = "/sys/kernel/tracing/events";
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_each_durable_write_is_counted_or_its_way_is_said_not_to_be_watched() {
    needs(&[TRACEFS]);
    let mounted = Mounted::image("ext4", 200);
    let mut seen = 0;
    for way in ["fdatasync", "msync", "io_uring", "libaio", "rwf_dsync", "o_dsync"] {
        let file = mounted.path().join(way);
        let command = || {
            let mut command = Command::new("python3");
            command.args(["-c", DURABLE, way]).arg(&file);
            command
        };
        let mut once = fsynctop();
        once.args(["once", "--"]).arg("python3").args(["-c", DURABLE, way]).arg(&file);
        let text = stdout(&output(&mut once));
        assert!(!text.contains("Syncs missed"), "{text}");
        assert!(text.contains("no watched call was missed"), "{text}");
        assert_eq!(text.matches("missed").count(), 1, "{text}");
        let last = text.lines().last().unwrap_or_default();
        let rest = last.strip_prefix("Not watched: ").unwrap_or_else(|| panic!("{text}"));
        assert!(!rest.contains("libaio") && !rest.contains("O_DSYNC"), "{text}");

        let (measured, printed) = trace(&[], &mut command());
        assert_eq!(printed, "200\n", "{way}");
        let rows = measured["files"].as_array().unwrap().iter();
        let counted: u64 = rows.filter(|row| row["path"] == *file.to_str().unwrap()).map(count).sum();
        let not_watched: Vec<&str> =
            measured["not_watched"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(counted == 200, !not_watched.contains(&way), "{way}: {counted} counted, {not_watched:?}");
        seen += counted;
    }
    assert!(seen >= 200, "what is watched is counted: {seen}");
    // What is asked for is not called unwatched.
    let file = mounted.path().join("msync");
    let mut command = Command::new("python3");
    command.args(["-c", DURABLE, "msync"]).arg(&file);
    let (measured, _) = trace(&["--ops", "fsync,msync"], &mut command);
    let counted: u64 =
        measured["roles"].as_array().unwrap().iter().filter(|row| row["op"] == "msync").map(count).sum();
    let not_watched = &measured["not_watched"];
    assert_eq!(counted, 200, "{measured:#}");
    let left_out: Vec<&str> = not_watched.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(left_out.contains(&"fdatasync") && !left_out.contains(&"msync"), "{left_out:?}");
}

fn count(row: &Value) -> u64 {
    row["count"].as_u64().unwrap()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_check_lists_what_is_not_watched() {
    needs(&[TRACEFS]);
    let listed = |options: &[&str]| -> Vec<String> {
        let output = output(fsynctop().args(["check", "--output", "json"]).args(options));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = value["checks"].as_array().unwrap().iter();
        let ours = checks.filter(|check| check["name"] == "not watched");
        ours.map(|check| check["detail"].as_str().unwrap().to_owned()).collect()
    };
    let default = listed(&[]);
    assert_eq!(default, ["msync, sync_file_range, syncfs, sync: not asked for (--ops)"]);
    let without = listed(&["--writes", "off"]);
    assert!(
        without.contains(&"O_DSYNC writes, RWF_DSYNC writes: not asked for (--writes)".to_owned()),
        "{without:?}"
    );
    let asked = listed(&["--ops", "fsync,fdatasync,msync"]);
    assert!(asked.iter().any(|line| line.starts_with("sync_file_range, syncfs, sync: ")), "{asked:?}");
}
