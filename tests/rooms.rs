//! The rooms of docs/architecture.md: imports go one way, and the page names each room.

use std::collections::BTreeSet;
use std::path::Path;

/// From the ground up: a room imports what stands before it.
const ROOMS: [&str; 13] = [
    "model",
    "text",
    "linux",
    "calibration",
    "host",
    "probe",
    "server",
    "files",
    "threads",
    "sampler",
    "live",
    "history",
    "render",
];
/// Above them; none imports another.
const VIEWS: [&str; 7] = ["calibrate", "exporter", "explain", "once", "stuck", "top", "verify"];

fn rust_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The rooms that a room's files name.
fn imports(room: &Path) -> BTreeSet<String> {
    let text: String = rust_files(room).iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    text.split("crate::").skip(1).map(name).collect()
}

fn may_import(room: &str, other: &str) -> bool {
    let level = |name: &str| ROOMS.iter().position(|room| *room == name);
    match (level(room), level(other)) {
        (Some(room), Some(other)) => other < room,
        (None, Some(_)) => true,
        (None, None) => room == "cli",
        (Some(_), None) => false,
    }
}

#[test]
fn imports_go_one_way_and_every_room_is_on_the_page() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let page = std::fs::read_to_string(src.join("../docs/architecture.md")).unwrap();
    let mut rooms = 0;
    for entry in std::fs::read_dir(&src).unwrap() {
        let path = entry.unwrap().path();
        let room = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() {
            assert!(matches!(room.as_str(), "main.rs" | "lib.rs"), "{room} belongs into a room");
            continue;
        }
        rooms += 1;
        assert!(ROOMS.contains(&&*room) || VIEWS.contains(&&*room) || room == "cli", "{room} has no place");
        assert!(page.contains(&format!("`src/{room}/`")), "docs/architecture.md does not name {room}");
        for other in imports(&path).iter().filter(|other| src.join(other).is_dir() && **other != room) {
            assert!(may_import(&room, other), "{room} imports {other}, which it may not");
        }
    }
    assert!(rooms >= 20, "{rooms}");
}
