//! PostgreSQL's text in an executable, by which it tells its version; and the file that does so where the
//! executable cannot be read.

use std::path::Path;
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::linux::rooted::Root;
use crate::server::what::product::{Version, VersionFinder};

/// What it is called.
pub(in crate::server) const PRODUCT: &str = "PostgreSQL";

/// PG_VERSION_STR, which `SELECT version()` answers. Distributions put theirs between the number and "on".
static TEXT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u)PostgreSQL (?P<number>[0-9][0-9A-Za-z.]{0,31})(?: \([^\x00)]{1,100}\))? on [^\x00]{1,100}, compiled by ";
    Regex::new(pattern).expect("a constant pattern, covered by tests")
});
/// The lock file of a data directory (DIRECTORY_LOCK_FILE): psql has the version's text as well, but does not
/// know that file.
static LOCK_FILE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)postmaster\.pid\x00").expect("a constant pattern, covered by tests"));

/// The verdict on the texts seen so far.
#[derive(Default)]
pub(in crate::server) struct Finder {
    number: Option<String>,
    locks: bool,
}

impl VersionFinder for Finder {
    fn look_at(&mut self, text: &[u8]) -> Option<Version> {
        if self.number.is_none()
            && let Some(found) = TEXT.captures(text)
        {
            self.number = Some(String::from_utf8_lossy(&found["number"]).into_owned());
        }
        self.locks = self.locks || LOCK_FILE.is_match(text);
        self.number.clone().filter(|_| self.locks).map(version)
    }
}

fn version(number: String) -> Version {
    Version { product: PRODUCT, number }
}

/// Bytes of PG_VERSION, which holds "15" or "9.6".
const FILE_LIMIT: u64 = 64;

/// Of the data directory, which tells the major version only.
pub(in crate::server) fn of_directory(root: &Root, directory: &Path) -> Option<Version> {
    let contents = root.read(&directory.join("PG_VERSION"), FILE_LIMIT).ok()?;
    let number = std::str::from_utf8(&contents).ok()?.trim();
    let is_number = !number.is_empty()
        && number.len() <= 8
        && number.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    is_number.then(|| version(number.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Option<String> {
        Finder::default().look_at(text).map(|version| version.to_string())
    }

    #[test]
    fn the_version_is_that_of_the_server_s_own_text() {
        let debian = b"\0PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc\0postmaster.pid\0";
        assert_eq!(found(debian).unwrap(), "PostgreSQL 15.14");
        let plain = b"/postmaster.pid\0PostgreSQL 18beta1 on aarch64-linux, compiled by clang-19, 64-bit\0";
        assert_eq!(found(plain).unwrap(), "PostgreSQL 18beta1");
    }

    #[test]
    fn what_is_no_server_has_no_version() {
        assert_eq!(found(b"PostgreSQL 15.14 on x86_64, compiled by gcc\0"), None, "psql");
        assert_eq!(found(b"PostgreSQL 15.14\0postmaster.pid\0"), None);
        assert_eq!(found(b"pg_ctl (PostgreSQL) 15.14\0postmaster.pid\0"), None);
        let endless =
            [&b"PostgreSQL "[..], &[b'1'; 100_000], b" on x, compiled by \0postmaster.pid\0"].concat();
        assert_eq!(found(&endless), None);
    }

    #[test]
    fn the_file_tells_a_major_version_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path()).unwrap();
        for (contents, version) in
            [("15\n", Some("15")), ("9.6\n", Some("9.6")), ("\x1b[2J", None), ("", None), ("1.", None)]
        {
            std::fs::write(directory.path().join("PG_VERSION"), contents).unwrap();
            assert_eq!(of_directory(&root, Path::new("/")).map(|found| found.number).as_deref(), version);
        }
    }
}
