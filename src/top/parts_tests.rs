//! The parts of the live view import one way.

use std::path::{Path, PathBuf};

/// From the ground up: a part imports what comes before it.
const PARTS: [&str; 21] = [
    "view", "keys", "palette", "log", "rows", "filter", "hung", "trail", "heatmap", "event", "past", "cells",
    "stuck", "overlay", "layout", "state", "screen", "source", "look", "write", "terminal",
];

/// Its file, and all in its directory.
fn files_of(part: &str) -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top");
    let one = top.join(format!("{part}.rs"));
    if one.is_file() {
        return vec![one];
    }
    let entries = std::fs::read_dir(top.join(part)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn no_part_of_the_live_view_imports_one_that_imports_it() {
    for (level, part) in PARTS.iter().enumerate() {
        for file in files_of(part).iter().filter(|file| !file.to_str().unwrap().contains("tests")) {
            let text = std::fs::read_to_string(file).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let within = if file.ends_with(format!("top/{part}.rs")) { "super::" } else { "top::" };
            for import in product.split(within).chain(product.split("top::")).skip(1) {
                let name: String =
                    import.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                if let Some(other) = PARTS.iter().position(|other| *other == name) {
                    assert!(other <= level, "{} imports {name}", file.display());
                }
            }
        }
    }
}
