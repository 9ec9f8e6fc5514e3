//! The rooms of docs/architecture.md: imports go one way, and the page names each room; in a room, files do
//! not import each other in a circle.

use std::path::Path;

use crate::common::imports::{self, Room};

/// From the ground up: a room imports what stands before it.
const ROOMS: [&str; 15] = [
    "model",
    "text",
    "verdict",
    "linux",
    "sync_cost",
    "host",
    "probe",
    "engine",
    "server",
    "files",
    "threads",
    "sampler",
    "live",
    "recording",
    "render",
];
/// Above them; none imports another.
const VIEWS: [&str; 9] =
    ["calibrate", "events", "export", "exporter", "explain", "once", "stuck", "top", "verify"];

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

/// Imports that close a circle in their room and stay: these files add methods, by subject, to the one struct
/// that the other file defines, with fields of types that are theirs.
const CLOSE_A_CIRCLE: [(&str, &str); 4] = [
    ("sampler/rows.rs", "sampler/mod.rs"),
    ("sampler/unsynced.rs", "sampler/mod.rs"),
    ("sampler/unwatched.rs", "sampler/mod.rs"),
    ("sampler/writeback.rs", "sampler/mod.rs"),
];

fn room(name: &str) -> Room {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut room = Room::new(name);
    for path in rust_files(&src.join(name)) {
        room.add(path.strip_prefix(&src).unwrap(), &std::fs::read_to_string(&path).unwrap());
    }
    room
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
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() {
            assert!(matches!(name.as_str(), "main.rs" | "lib.rs"), "{name} belongs into a room");
            continue;
        }
        rooms += 1;
        assert!(ROOMS.contains(&&*name) || VIEWS.contains(&&*name) || name == "cli", "{name} has no place");
        assert!(page.contains(&format!("`src/{name}/`")), "docs/architecture.md does not name {name}");
        for other in room(&name).others().iter().filter(|other| src.join(other).is_dir()) {
            assert!(may_import(&name, other), "{name} imports {other}, which it may not");
        }
    }
    assert!(rooms >= 20, "{rooms}");
}

#[test]
fn the_files_of_a_room_do_not_import_each_other_in_a_circle() {
    let (mut found, mut excepted) = (0, 0);
    for name in ROOMS.into_iter().chain(VIEWS).chain(["cli"]) {
        let mut imports = room(name).imports();
        found += imports.values().map(|others| others.len()).sum::<usize>();
        for (file, other) in CLOSE_A_CIRCLE {
            excepted += usize::from(imports.get_mut(file).is_some_and(|others| others.remove(other)));
        }
        let circles = imports::circles(&imports);
        assert!(circles.is_empty(), "files of src/{name} import each other:\n{}", circles.join("\n"));
    }
    assert!(found > 500, "only {found} imports were found");
    assert_eq!(excepted, CLOSE_A_CIRCLE.len(), "an exception is not needed any more");
}

/// The circles among files of a room called `room`.
fn circles_among(files: &[(&str, &str)]) -> Vec<String> {
    let mut room = Room::new("room");
    for (path, source) in files {
        room.add(Path::new(path), source);
    }
    imports::circles(&room.imports())
}

#[test]
fn a_circle_is_found_whichever_way_it_is_written() {
    const MOD: (&str, &str) = ("room/mod.rs", "mod a; mod b; mod c { } pub use a::A; pub use b::B;");
    let back = ("room/b.rs", "use crate::room::a::{self, A};");
    for forth in [
        "use super::b;",
        "use super::{b::B, c};",
        "use crate::room::b::{B as Other};",
        "use crate::{host, room::b::*};",
        "use super::B;",
        "use crate::room::B;",
        "fn f() -> super::b::B { todo!() }",
        "fn f() { crate::room::b::make() }",
        "mod inner { use super::super::b::B; }",
        "fn f() { assert!(crate::room::b::is_made(1)); }",
    ] {
        let circles = circles_among(&[MOD, ("room/a.rs", forth), back]);
        assert_eq!(circles, ["room/a.rs -> room/b.rs -> room/a.rs"], "{forth}");
    }
    let of_three = [MOD, ("room/a.rs", "use super::b::B;"), ("room/b.rs", "use super::c::C;")];
    let third = ("room/c/mod.rs", "use super::super::room::a::A; mod d;");
    assert_eq!(circles_among(&[&of_three[..], &[third]].concat()).len(), 1);
    let ground_in_mod =
        [("room/mod.rs", "mod a; use a::A; pub struct Row;"), ("room/a.rs", "use super::Row;")];
    assert_eq!(circles_among(&ground_in_mod), ["room/a.rs -> room/mod.rs -> room/a.rs"]);
}

#[test]
fn another_room_is_named_whichever_way_it_is_written() {
    for source in [
        "use crate::other::A;",
        "use crate::{model, other::A};",
        "use super::super::other::A;",
        "fn f() { assert!(crate::other::is_made(1)); }",
        "#[cfg(test)] mod tests { use crate::{other::A}; }",
    ] {
        let mut room = Room::new("room");
        room.add(Path::new("room/a.rs"), source);
        assert!(room.others().contains("other"), "{source}");
    }
}

#[test]
fn a_re_export_a_comment_and_a_test_make_no_circle() {
    let files = [
        ("room/mod.rs", "mod a; mod b; #[cfg(test)] mod b_tests; pub use a::{A, f}; pub(crate) use b::*;"),
        (
            "room/a.rs",
            "/// Of [`super::b::B`]. \n pub fn f() {} #[cfg(test)] mod tests { use super::super::b::B; }",
        ),
        ("room/b.rs", "use super::f; use crate::other::a; fn g() { f(); }"),
        ("room/b_tests.rs", "use super::b::B; use super::a::A;"),
    ];
    assert_eq!(circles_among(&files), [""; 0]);
}
