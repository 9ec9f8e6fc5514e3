//! Needs root: which files and neighbours an exporter keeps apart when there are more than it may.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::exporter::Exporter;
use crate::common::faults::FaultFs;
use crate::common::scrape::Scrape;
use crate::common::{Running, built, needs, wait_until};

const COMM: &str = "busiest-db";

fn load(directory: &Path, comm: &str, options: &[&str]) -> Command {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--comm", comm]).args(options).stdout(Stdio::null());
    command
}

#[test]
#[ignore = "needs root, a kernel with BTF and /dev/fuse"]
fn who_comes_late_and_takes_the_time_is_not_other() {
    needs(&["/dev/fuse"]);
    // First, since mount points are read once a minute.
    let faults = FaultFs::mount("ok");
    let exporter =
        Exporter::start(&["--comm", COMM, "--file-limit", "16", "--interval", "200ms", "--max-cpu", "off"]);
    // Two hundred files come first, by one process, which is a server as long as it is there.
    let names: Vec<String> =
        (0..200).map(|n| format!("t{n}.ibd")).chain(["culprit.ibd".to_owned()]).collect();
    let directory = faults.path();
    let tables = ["--names", &names[..200].join(","), "--syncs", "400", "--op", "fsync"];
    assert!(load(directory, COMM, &tables).status().unwrap().success());
    // Forty neighbours, each by a name of its own: twenty are kept apart.
    for n in 0..40 {
        let syncs = ["--names", "n", "--syncs", "5", "--op", "fsync"];
        assert!(load(directory, &format!("script-{n}"), &syncs).status().unwrap().success());
    }
    let first = Scrape::of(&exporter);
    first.assert_whole();
    assert_eq!(first.syncs(&[]), 400);
    assert_eq!(first.paths().len(), 14 + 1, "two of sixteen places are kept for logs: {:?}", first.paths());
    let neighbours = "fsynctop_neighbour_syncs_total";
    assert!(first.sum(neighbours, &["comm=\"other\""]) >= 100, "{first:#?}");

    faults.control("delay 20ms");
    let busy = |comm: &str, name: &str| {
        let mut command = load(directory, comm, &["--names", name, "--seconds", "60", "--op", "fsync"]);
        Running(command.spawn().unwrap())
    };
    let _server = busy(COMM, "culprit.ibd");
    let _backup = busy("late-backup", "b");
    let mut scrape = Scrape::default();
    wait_until("both to have series of their own", || {
        scrape = Scrape::of(&exporter);
        scrape.assert_whole();
        scrape.paths().iter().any(|path| path.ends_with("/culprit.ibd"))
            && scrape.sum(neighbours, &["comm=\"late-backup\""]) > 0
    });
    // Each took the place of another one, whose series is there still, with what it had.
    assert_eq!(scrape.paths().len(), 14 + 1 + 1, "{:?}", scrape.paths());
    let old: u64 = names[..200]
        .iter()
        .map(|name| scrape.sum("fsynctop_file_syncs_total", &[&format!("/{name}\"")]))
        .sum::<u64>();
    assert_eq!(old, 28, "fourteen tables of two syncs each");
    let mount = format!("mount=\"{}\"", directory.display());
    assert!(scrape.sum(neighbours, &["comm=\"late-backup\"", &mount]) > 0, "{mount}: {scrape:#?}");
}
