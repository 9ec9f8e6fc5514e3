//! docs/advisories.md, the list by hand of what is known of the crates that are built in: it cannot go stale
//! unseen.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SCRIPT: &str = "tools/advisories-list";
const PAGE: &str = "docs/advisories.md";

fn compare(at: &Path) -> Output {
    Command::new(at.join(SCRIPT)).env("CARGO", env!("CARGO")).output().unwrap()
}

#[test]
fn the_list_of_advisories_has_every_crate_in_its_version() {
    let output = compare(Path::new(ROOT));
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}(docs/advisories.md says how the list is kept)");
}

#[test]
fn a_version_that_is_not_in_the_list_is_said() {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(ROOT).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if !["docs", "tools", "target"].iter().any(|&other| name == other) {
            symlink(entry.path(), copy.path().join(name)).unwrap();
        }
    }
    for directory in ["docs", "tools"] {
        fs::create_dir(copy.path().join(directory)).unwrap();
    }
    for entry in fs::read_dir(Path::new(ROOT).join("tools")).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            symlink(entry.path(), copy.path().join("tools").join(entry.file_name())).unwrap();
        }
    }
    fs::copy(Path::new(ROOT).join(SCRIPT), copy.path().join(SCRIPT)).unwrap();
    let page = fs::read_to_string(Path::new(ROOT).join(PAGE)).unwrap();
    let line = page.lines().find(|line| line.starts_with("| `hyper` |")).unwrap();
    let version = line.split(" | ").nth(1).unwrap();
    let older = line.replacen(version, "0.14.9", 1);
    fs::write(copy.path().join(PAGE), page.replace(line, &older)).unwrap();

    let output = compare(copy.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert_eq!(lines[0], format!("- {older}"));
    assert!(lines[1].starts_with(&format!("+ | `hyper` | {version} | binary | ")), "{said}");
    assert!(lines[1].ends_with(" | not yet |"), "{said}");
}
