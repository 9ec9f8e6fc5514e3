//! Which commit the sources are of: what the packager says, else what `git archive` or `cargo package` wrote
//! down, else what git says. Part of the build script; `tests/plain/build_commit.rs` tries each way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both for whoever builds from something that does not know its commit.
pub const VARIABLES: [&str; 2] = ["FSYNCTOP_COMMIT", "FSYNCTOP_COMMIT_DATE"];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// 7 to 64 hexadecimal digits.
    pub commit: Option<String>,
    /// When it was committed: 2026-11-24.
    pub date: Option<String>,
    /// Where another commit would show.
    pub watch: Vec<PathBuf>,
}

/// `variable` reads the environment. git is asked only if `ask_git`, and only about a repository of these
/// sources: a tarball that was unpacked inside of another repository is not of its commit.
pub fn find(
    sources: &Path,
    ask_git: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Found, String> {
    if let Some(found) = from_variables(&variable)? {
        return Ok(found);
    }
    let archive = sources.join(".git_archival.txt");
    if let Some(found) = fs::read_to_string(&archive).ok().and_then(|text| from_archive(&text)) {
        return Ok(Found { watch: vec![archive], ..found });
    }
    let package = sources.join(".cargo_vcs_info.json");
    if let Some(commit) = fs::read_to_string(&package).ok().and_then(|text| from_package(&text)) {
        return Ok(Found { commit: Some(commit), watch: vec![package], ..Found::default() });
    }
    Ok(if ask_git && sources.join(".git").exists() { from_git(sources) } else { Found::default() })
}

fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Found>, String> {
    let [name, date_name] = VARIABLES;
    let [commit, date] = VARIABLES.map(|name| variable(name).filter(|value| !value.is_empty()));
    if let Some(date) = date.as_ref().filter(|date| !is_date(date)) {
        return Err(format!("{date_name}={date}: a date is expected, as 2026-11-24"));
    }
    match commit {
        None if date.is_some() => {
            Err(format!("{date_name} is set and {name} is not: set both, or {name} alone"))
        }
        None => Ok(None),
        Some(commit) if !is_commit(&commit) => {
            Err(format!("{name}={commit}: 7 to 64 hexadecimal digits are expected"))
        }
        commit => Ok(Some(Found { commit, date, watch: Vec::new() })),
    }
}

/// Of `.git_archival.txt`, which `git archive` fills in (.gitattributes); None where it did not.
fn from_archive(text: &str) -> Option<Found> {
    let value = |key| text.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned());
    let commit = value("node:").filter(|commit| is_commit(commit))?;
    Some(Found { commit: Some(commit), date: value("date:").filter(|date| is_date(date)), watch: Vec::new() })
}

/// Of `.cargo_vcs_info.json`, which is part of a published crate: {"git": {"sha1": "…"}, …}.
fn from_package(text: &str) -> Option<String> {
    let (_, after) = text.split_once("\"sha1\"")?;
    let commit = after.split('"').nth(1)?;
    is_commit(commit).then(|| commit.to_owned())
}

fn from_git(sources: &Path) -> Found {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(sources).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(last) = git(&["log", "-1", "--format=%H %cs"]) else {
        return Found::default();
    };
    let (commit, date) = last.split_once(' ').unwrap_or((&last, ""));
    // The log of HEAD grows whenever HEAD moves, by a commit as well as by a checkout. Without it, HEAD and
    // the packed branches will have to do. Cargo always builds anew if what it is to watch does not exist.
    let path = |name| git(&["rev-parse", "--git-path", name]).map(|path| sources.join(path));
    let there = |name| path(name).filter(|path| path.exists());
    let watch = match there("logs/HEAD") {
        Some(log) => vec![log],
        None => ["HEAD", "packed-refs"].into_iter().filter_map(there).collect(),
    };
    Found {
        commit: Some(commit.to_owned()).filter(|commit| is_commit(commit)),
        date: Some(date.to_owned()).filter(|date| is_date(date)),
        watch,
    }
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_date(text: &str) -> bool {
    let shape = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(shape)
}
