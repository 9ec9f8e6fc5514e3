//! All output that the repository keeps, held against the table of what can be denied (`text::absence`): a
//! sentence that says that something is not there comes from it, or its words are among the harmless ones
//! here.

use std::path::{Path, PathBuf};

use regex::Regex;

use super::{manual, root};
use crate::text::absence;

const WORDS: [&str; 8] = ["no", "none", "nothing", "nobody", "not", "never", "only", "all"];

/// What denies nothing of a server: why, and the words; `{}` is anything.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "it says what is not known, or was not looked at",
        &[
            "not watched: ",
            "are not watched",
            "is not known",
            "are not known",
            "nothing is known",
            "nothing can be said",
            "says nothing",
            "say nothing",
            "not measurable here",
            "was not measured",
            "nothing was measured",
            "nothing was traced",
            "nothing is traced",
            "not traced for a while",
            "no new figures for",
            "nothing is kept of this time",
            "no verdict",
            "no server traced",
            "no server yet",
            "no rows by thread: they were not kept",
            "no count to compare with",
            "nothing counts them",
            "no server counts them",
            "counts no syncs",
            "does not count",
            "counts no groups",
            "counts no sync for it",
            "no counter: ",
        ],
    ),
    (
        "what something seen means, or may come from",
        &[
            "no longer be trusted",
            "could not write",
            "no room for",
            "no room to keep all",
            "was not open",
            "does not take",
            "does not sync",
            "has not returned for",
            "makes nothing durable",
            "because there was no memory",
        ],
    ),
    ("a condition, or an answer of the kernel", &["if all of them commit", "is not supported here"]),
    (
        "what a setting says by its makers",
        &[
            "does not apply: ",
            "syncs it for none",
            "no flushes are sent, and none are needed",
            "no volatile cache",
        ],
    ),
    (
        "a label, a cell, a name",
        &[
            "what of them no sync has covered yet",
            "local socket only",
            "cgroup, all, engine",
            "all failed syncs",
            "/dev/sdb no ",
            "0 not watched",
        ],
    ),
];

/// The same in help, which says what options do and what the program does.
const HARMLESS_IN_HELP: &[(&str, &[&str])] = &[
    ("values and names of options", &["`all`", "all: all", "off: none", "always, never", "color never"]),
    (
        "what an option leaves out",
        &[
            "read no fsynctop.toml",
            "no metrics by file",
            "no such socket",
            "no-record no recording",
            "no other file is read",
            "not even root's own",
            "do not keep the result",
            "never taken from the command line",
            "and nothing else, to every user",
            "preferably not a server's own",
            "or none …",
            "for those that know no local sockets",
        ],
    ),
    (
        "what the program does to the host, which tests of its own hold",
        &[
            "it traces nothing",
            "traces nothing",
            "changes nothing in them",
            "nothing is traced",
            "nothing of them is left",
            "nothing stays",
            "nothing is attached and no process is stopped",
            "waits for no process and no disk",
            "none does",
            "loses none",
            "needs no bpf",
            "not counted here",
            "is not passed on",
            "failing no more until",
            "nothing of that is written",
            "written at once and never synced",
            "the one that had not ended",
            "delays no tracing",
            "does not take at once",
        ],
    ),
    (
        "what is said of what is not known, or is not over",
        &[
            "could not be counted",
            "could not be described",
            "could not be recorded",
            "the kernel had not written yet",
            "it is no recording",
            "were not watched",
            "is not known to make",
            "what of them no sync has covered yet",
            "that is not over",
            "one that hangs may not",
        ],
    ),
    (
        "a user, a terminal",
        &["65534 is nobody", "a user that nothing else has", "no colours", "no live view"],
    ),
];

/// The same in the code of the views.
const HARMLESS_IN_CODE: &[(&str, &[&str])] = &[
    (
        "names in JSON and cells",
        &["file filesystem none", "– yes no –", "mean:.2} yes no", "(no file)", "(no processor free)"],
    ),
    (
        "what a row, a stack or a key of a view is",
        &[
            "has no thread",
            "in no row: {they} no thread",
            "in no file's row",
            "have no stack",
            "under no server",
            "have no function names",
            "no row {}",
            "no entry for what is shown",
            "there is nothing below this row",
            "there is nothing to write yet",
            "does nothing; ?",
        ],
    ),
    (
        "what fsynctop itself lacks or could not do",
        &[
            "no connection to the server",
            "no timer is available",
            "no cpu is free",
            "no figures will come",
            "the journal took none",
        ],
    ),
    (
        "what was seen of a library or a device",
        &["turns them into nothing", "syncs do nothing", "that do nothing", "no device of it was found"],
    ),
];

/// Files that say what the settings and the counters of a server mean, by its makers: no look denies
/// anything.
const OF_THE_MAKERS: [&str; 8] = [
    "compare.rs",
    "etcd.rs",
    "form.rs",
    "postgres.rs",
    "promises.rs",
    "redis.rs",
    "written.rs",
    "fixture.rs",
];

/// A figure or a list in place of `{}` has at most so many characters.
const LONGEST_HOLE: usize = 120;

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn pattern(words: &str) -> Regex {
    let parts: Vec<String> = words.to_lowercase().split("{}").map(regex::escape).collect();
    Regex::new(&parts.join(&format!(".{{1,{LONGEST_HOLE}}}?"))).unwrap()
}

fn patterns(harmless: &[(&str, &[&str])]) -> Vec<Regex> {
    harmless.iter().flat_map(|(_, words)| *words).map(|words| pattern(words)).collect()
}

fn denials() -> Vec<Regex> {
    absence::ALL.iter().flat_map(absence::Denial::words).map(|words| pattern(words)).collect()
}

/// Each of these words that is in none of these patterns, with what is around it.
fn raw(text: &str, words: &[&str], known: &[Regex]) -> Vec<String> {
    let mut text = flat(text);
    for pattern in known {
        text = pattern.replace_all(&text, " … ").into_owned();
    }
    let all: Vec<&str> = text.split(' ').collect();
    let is_one = |word: &str| words.contains(&word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-'));
    let around = |at: usize| all[at.saturating_sub(6)..(at + 7).min(all.len())].join(" ");
    (0..all.len()).filter(|&at| is_one(all[at])).map(around).collect()
}

fn root_of_the_repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path, wanted)),
            false => found.extend(wanted(&path).then_some(path)),
        }
    }
    found.sort();
    found
}

/// Fails with every word of these texts that is nowhere accounted for.
fn assert_known(texts: Vec<(String, String)>, words: &[&str], known: &[Regex]) {
    assert!(!texts.is_empty());
    let of = |(name, text): &(String, String)| {
        let name = name.clone();
        raw(text, words, known).into_iter().map(move |said| format!("{name}: … {said} …"))
    };
    let mut unknown: Vec<String> = texts.iter().flat_map(of).collect();
    unknown.dedup();
    assert!(
        unknown.is_empty(),
        "denied without evidence (src/text/absence.rs), and not harmless either:\n{}",
        unknown.join("\n")
    );
}

fn of_output() -> Vec<Regex> {
    denials().into_iter().chain(patterns(HARMLESS)).collect()
}

fn read(path: &Path) -> (String, String) {
    let name = path.strip_prefix(root_of_the_repository()).unwrap_or(path).display().to_string();
    (name, std::fs::read_to_string(path).unwrap())
}

#[test]
fn the_expected_texts_deny_nothing_without_evidence() {
    let is_expected = |path: &Path| path.parent().is_some_and(|parent| parent.ends_with("expected"));
    let texts = files(&root_of_the_repository().join("src"), &is_expected);
    assert_known(texts.iter().map(|path| read(path)).collect(), &WORDS, &of_output());
}

/// The blocks of a page that show output: those that are in no language.
fn examples(page: &str) -> String {
    let mut language = None;
    let mut shown = String::new();
    for line in page.lines() {
        match (line.strip_prefix("```"), language) {
            (Some(of), None) => language = Some(of),
            (Some(_), Some(_)) => language = None,
            (None, Some("")) if !line.starts_with(['$', '#']) => shown += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    shown
}

#[test]
fn the_examples_of_the_pages_deny_nothing_without_evidence() {
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let mut pages = files(&root_of_the_repository().join("docs"), &is_page);
    pages.push(root_of_the_repository().join("README.md"));
    let texts = pages.iter().map(|path| read(path)).map(|(name, page)| (name, examples(&page)));
    assert_known(texts.collect(), &WORDS, &of_output());
}

/// A clause that says when something holds says nothing of whether it does.
fn is_condition(clause: &str) -> bool {
    let clause = clause.trim_start_matches(|c: char| !c.is_alphanumeric());
    ["if ", "where ", "whether ", "without "].iter().any(|begin| clause.starts_with(begin))
}

/// Help without its conditions. What an exit status means is one.
fn stated(help: &str, manual: Option<&manual::Manual>) -> String {
    let mut help = flat(help);
    for (_, meaning) in manual.iter().flat_map(|manual| manual.exit) {
        help = help.replace(&flat(meaning), "…");
    }
    let clauses = Regex::new("[.,;:(]? ?(if|where|whether|without) |[.,;:()] ").unwrap();
    let mut ends: Vec<usize> = clauses.find_iter(&help).map(|found| found.start()).collect();
    ends.push(help.len());
    let mut begin = 0;
    let mut stated = String::new();
    for end in ends {
        let clause = &help[begin..end];
        stated.push_str(if is_condition(clause) { " …" } else { clause });
        begin = end;
    }
    stated
}

#[test]
fn the_help_denies_nothing_without_evidence() {
    let mut command = root::command();
    command.build();
    let mut texts =
        vec![("--help".to_owned(), stated(&command.render_long_help().to_string(), manual::of("")))];
    for action in command.get_subcommands_mut().filter(|action| !action.is_hide_set()) {
        let name = action.get_name().to_owned();
        let help = action.render_long_help().to_string();
        texts.push((format!("{name} --help"), stated(&help, manual::of(&name))));
    }
    let known: Vec<Regex> = of_output().into_iter().chain(patterns(HARMLESS_IN_HELP)).collect();
    // `only` and `all` say there what an option selects.
    let words: Vec<&str> = WORDS.into_iter().filter(|word| !["only", "all"].contains(word)).collect();
    assert_known(texts, &words, &known);
}

/// The rooms that make sentences for people.
const ROOMS: [&str; 9] =
    ["calibrate", "events", "explain", "once", "render", "stuck", "top", "verdict", "verify"];

/// The texts of a file, without its tests and its comments.
fn literals(code: &str) -> String {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let literal = Regex::new(r#""(?:[^"\\]|\\.|\\\n)*""#).unwrap();
    literal.find_iter(&code).map(|found| found.as_str().replace(['\\', '"'], " ") + "\n").collect()
}

/// The same of what no expected text has: a page of output shows one case, the code has all of them.
#[test]
fn the_views_get_their_denials_from_one_place() {
    let is_code = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".rs") && !name.ends_with("tests.rs") && !OF_THE_MAKERS.contains(&&*name)
    };
    let source = root_of_the_repository().join("src");
    let all: Vec<PathBuf> = ROOMS.iter().flat_map(|room| files(&source.join(room), &is_code)).collect();
    let texts = all.iter().map(|path| read(path)).map(|(name, code)| (name, literals(&code)));
    let known: Vec<Regex> = patterns(HARMLESS).into_iter().chain(patterns(HARMLESS_IN_CODE)).collect();
    // `not`, `only` and `all` stand in too many texts that are no sentences; the other tests see them in
    // output.
    assert_known(texts.collect(), &WORDS[..4].iter().copied().chain(["never"]).collect::<Vec<_>>(), &known);
}

#[test]
fn what_is_denied_elsewhere_is_found() {
    let known = of_output();
    let found = |text: &str| raw(text, &WORDS, &known);
    assert_eq!(found("In these 3.01 s nothing failed, nothing is\n  stuck."), [""; 0]);
    assert_eq!(found("Nothing failed, no other process synced.").len(), 1);
    assert_eq!(found("also on /dev/vda: no other sync seen"), [""; 0]);
    assert_eq!(found("--no-unicode"), [""; 0]);
    assert_eq!(
        stated("The file is kept where there is no room, and nothing stays.", None).matches("no").count(),
        1
    );
}
