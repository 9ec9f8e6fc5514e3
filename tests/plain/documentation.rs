//! What the pages refer to is there: files, targets of make, actions and options. Needs no root;
//! tests/root/alone/documentation.rs types the commands.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every page for people, with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for directory in ["", "docs", "docs/runbooks", "charts/fsynctop", "examples"] {
        let Ok(entries) = fs::read_dir(Path::new(ROOT).join(directory)) else { continue };
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn between<'a>(text: &'a str, start: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split(end).next())
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut broken = Vec::new();
    let mut links = 0;
    for (page, text) in pages() {
        for link in between(&text, "](", ')').filter(|link| !link.contains("://")) {
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let is_there = target.exists()
                && (heading.is_empty() || headings(&target).iter().any(|known| known == heading));
            if !is_there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(links > 50, "{links} links found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// As GitHub makes anchors of headings.
fn headings(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    titles
        .map(|title| title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn targets_of_make_exist() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let is_target = |name: &str| makefile.lines().any(|line| line.starts_with(&format!("{name}:")));
    let mut unknown = Vec::new();
    let mut named = 0;
    for (page, text) in pages() {
        let commands = between(&text, "`make ", '`').chain(between(&text, "\nmake ", '\n'));
        for command in commands {
            // Behind the target there is prose, or a value in quotes.
            let mut words = command.split_whitespace().take_while(|word| !word.starts_with('#'));
            let Some(target) = words.find(|word| !word.contains('=') && !word.starts_with('-')) else {
                continue;
            };
            named += 1;
            if !is_target(target) {
                unknown.push(format!("{}: make {command}", page.display()));
            }
        }
    }
    assert!(named > 10, "{named} targets named");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn commands_have_actions_and_options_that_exist() {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for (page, text) in pages() {
        // What has left its name behind there is told of in the past.
        if page.ends_with("CHANGELOG.md") {
            continue;
        }
        for command in between(&text, "`fsynctop ", '`').filter(|command| !command.contains('…')) {
            tried += 1;
            let words = command.split_whitespace().map(|word| match word {
                "SECONDS" | "N" | "COUNT" => "1",
                word => word,
            });
            let words: Vec<&str> = std::iter::once("fsynctop").chain(words).collect();
            if let Err(error) = fsynctop::cli::command().try_get_matches_from(&words)
                && error.use_stderr()
                && error.kind() != clap::error::ErrorKind::MissingRequiredArgument
            {
                wrong.push(format!("{}: {command}: {error}", page.display()));
            }
        }
    }
    assert!(tried > 20, "{tried} commands found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_index_leads_to_every_page() {
    let index = fs::read_to_string(Path::new(ROOT).join("docs/README.md")).unwrap();
    let linked: Vec<&str> = between(&index, "](", ')').collect();
    let docs = Path::new(ROOT).join("docs");
    for (page, _) in pages().iter().filter(|(page, _)| page.parent() == Some(docs.as_path())) {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || linked.contains(&name), "docs/README.md does not lead to {name}");
    }
}

/// Behind each of these there is the version of what is built here.
#[test]
fn packages_and_images_are_called_by_the_version_of_the_program() {
    let mut wrong = Vec::new();
    let mut named = 0;
    for (page, text) in pages().iter().filter(|(page, _)| !page.ends_with("CHANGELOG.md")) {
        for start in ["fsynctop_", "fsynctop-", "fsynctop:"] {
            for rest in
                text.split(start).skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            {
                let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
                named += 1;
                if rest[..end].trim_end_matches('.') != env!("CARGO_PKG_VERSION") {
                    wrong.push(format!("{}: {start}{}", page.display(), &rest[..end]));
                }
            }
        }
    }
    assert!(named > 10, "{named} found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_names_the_recipes() {
    let read = |page: &str| fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    let contributing = read("CONTRIBUTING.md");
    let (title, recipes) = contributing.split_once(" recipes\n").unwrap();
    let recipes = recipes.split("\n## ").next().unwrap();
    let recipes: Vec<String> = between(recipes, "\n### ", '\n').map(str::to_lowercase).collect();
    assert!(title.ends_with(["no", "One", "Two", "Three", "Four", "Five", "Six", "Seven"][recipes.len()]));
    let (last, others) = recipes.split_last().unwrap();
    let expected = format!("and how {} or {last} is added", others.join(", "));
    assert!(read("README.md").contains(&expected), "README.md does not say: {expected}");
}
