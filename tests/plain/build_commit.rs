//! Where the build script learns the commit of the sources (build/commit.rs): from the packager, a tarball, a
//! published crate or git.

#[path = "../../build/commit.rs"]
mod commit;

use std::fs;
use std::path::Path;
use std::process::Command;

use commit::{Found, VARIABLES, find};

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

fn without_variables(_: &str) -> Option<String> {
    None
}

fn git(at: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(at).args(["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]);
    let when = "2026-11-24T23:30:00+0100";
    git.env("GIT_AUTHOR_DATE", when).env("GIT_COMMITTER_DATE", when);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = git.args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with one commit, which has a file to be filled in by `git archive`.
fn repository(at: &Path) -> String {
    git(at, &["init", "--quiet"]);
    for file in [".git_archival.txt", ".gitattributes"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), at.join(file)).unwrap();
    }
    git(at, &["add", "--all"]);
    git(at, &["commit", "--quiet", "--message", "First"]);
    git(at, &["rev-parse", "HEAD"])
}

#[test]
fn git_is_asked_and_its_next_commit_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let first = repository(at);
    let found = find(at, true, without_variables).unwrap();
    assert_eq!((found.commit.as_deref(), found.date.as_deref()), (Some(&*first), Some("2026-11-24")));

    let contents = |found: &Found| -> Vec<_> {
        assert!(!found.watch.is_empty());
        found.watch.iter().map(|path| fs::read(path).unwrap()).collect()
    };
    let before = contents(&found);
    git(at, &["commit", "--quiet", "--allow-empty", "--message", "Second"]);
    assert_ne!(before, contents(&found));
    assert_ne!(find(at, true, without_variables).unwrap().commit, Some(first));

    assert_eq!(find(at, false, without_variables).unwrap(), Found::default());
}

#[test]
fn the_log_of_head_may_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let first = repository(at);
    fs::remove_dir_all(at.join(".git/logs")).unwrap();
    let found = find(at, true, without_variables).unwrap();
    assert_eq!(found.commit, Some(first));
    assert_eq!(found.watch, [at.join(".git/HEAD")]);
}

#[test]
fn a_tarball_knows_the_commit_that_it_was_made_of() {
    let directory = tempfile::tempdir().unwrap();
    let (at, unpacked) = (directory.path().join("repository"), directory.path().join("unpacked"));
    fs::create_dir(&at).unwrap();
    fs::create_dir(&unpacked).unwrap();
    let commit = repository(&at);
    let tarball = directory.path().join("sources.tar");
    git(&at, &["archive", "--output", tarball.to_str().unwrap(), "HEAD"]);
    assert!(Command::new("tar").arg("-xf").arg(tarball).arg("-C").arg(&unpacked).status().unwrap().success());
    let found = find(&unpacked, true, without_variables).unwrap();
    assert_eq!((found.commit, found.date.as_deref()), (Some(commit), Some("2026-11-24")));
}

#[test]
fn a_published_crate_knows_its_commit_and_not_when_that_was() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("{{\n  \"git\": {{\n    \"sha1\": \"{HASH}\"\n  }},\n  \"path_in_vcs\": \"\"\n}}");
    fs::write(directory.path().join(".cargo_vcs_info.json"), text).unwrap();
    let found = find(directory.path(), true, without_variables).unwrap();
    assert_eq!((found.commit.as_deref(), found.date), (Some(HASH), None));
}

#[test]
fn sources_inside_of_another_repository_are_not_of_its_commit() {
    let directory = tempfile::tempdir().unwrap();
    repository(directory.path());
    let inside = directory.path().join("unpacked");
    fs::create_dir(&inside).unwrap();
    // As it is before `git archive` fills it in.
    fs::copy(directory.path().join(".git_archival.txt"), inside.join(".git_archival.txt")).unwrap();
    assert_eq!(find(&inside, true, without_variables).unwrap(), Found::default());
}

#[test]
fn the_packager_has_the_first_word() {
    let directory = tempfile::tempdir().unwrap();
    repository(directory.path());
    let said = |commit: &'static str, date: &'static str| {
        find(directory.path(), true, |name| match name {
            name if name == VARIABLES[0] => Some(commit.to_owned()),
            _ => Some(date.to_owned()),
        })
    };
    let found = said(HASH, "2026-01-02").unwrap();
    assert_eq!((found.commit.as_deref(), found.date.as_deref()), (Some(HASH), Some("2026-01-02")));
    assert_eq!(said(HASH, "").unwrap().date, None);
    for (commit, date, wrong) in [
        ("v1.0", "", "FSYNCTOP_COMMIT=v1.0: 7 to 64 hexadecimal digits are expected"),
        (HASH, "yesterday", "FSYNCTOP_COMMIT_DATE=yesterday: a date is expected"),
        ("", "2026-01-02", "FSYNCTOP_COMMIT_DATE is set and FSYNCTOP_COMMIT is not"),
    ] {
        let error = said(commit, date).unwrap_err();
        assert!(error.starts_with(wrong), "{error}");
    }
}
