//! Needs root: docs/json.schema.json knows every field of what is really printed, with all that can be asked
//! for.

use crate::common::disk::Mounted;
use crate::common::exporter::Exporter;
use crate::common::faults::fsynctop;
use crate::common::schema::{LIBRARY, is_known};
use crate::common::{built, needs};

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_every_field_of_a_measurement_and_of_the_history_is_in_the_schema() {
    needs(&[LIBRARY]);
    let memory = Mounted::tmpfs();
    let directory = memory.path().to_str().unwrap();
    let program = built("syncgen");
    let load = [program.to_str().unwrap(), directory, "--threads", "2", "--syncs", "50"];
    for options in [
        &["--limit", "1"][..],
        &["--by", "thread"],
        &["--by", "writes"],
        &["--by", "writes", "--limit", "1"],
        &["--fail-on", "stalled,failing,slow,unknown"],
    ] {
        let output = fsynctop()
            .args(["once", "--output", "json"])
            .args(options)
            .args(["--", "sh", "-c", "\"$@\" >&2", "sh"])
            .args(load)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\"comm\""), "{options:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        is_known(&text).unwrap_or_else(|why| panic!("{options:?}: {why}\n{text}"));
        assert_eq!(text.contains("\"verdicts\""), options[0] == "--fail-on", "{text}");
    }

    // Not in the filesystem's root, which everybody may write to.
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("history.sock");
    let socket = socket.to_str().unwrap();
    let exporter = Exporter::start(&["--comm", "syncgen", "--writes", "all", "--socket", socket]);
    // One that ends sooner than it can be looked at has no name.
    let while_it_is_described = [directory, "--seconds", "1"];
    assert!(
        std::process::Command::new(load[0]).args(while_it_is_described).output().unwrap().status.success()
    );
    std::thread::sleep(std::time::Duration::from_secs(2));
    let output = fsynctop().args(["history", "--output", "json", "--socket", socket]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"name\":\"syncgen\""), "{text}{}", exporter.log());
    is_known(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
}
