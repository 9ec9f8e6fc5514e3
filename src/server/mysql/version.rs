//! MySQL's and MariaDB's texts in an executable, by which it tells its product and version.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::server::what::product::{Version, VersionFinder};

pub(in crate::server) const MYSQL: &str = "MySQL";
pub(in crate::server) const MARIADB: &str = "MariaDB";

/// A server's option groups name its series ("mysqld-9.7"), and the redo log's creator its version ("MySQL
/// 9.7.4", from 5.7 on). The two together tell the server's own version from other versions that it mentions.
static TEXT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u)(?:(?P<group>mysqld-)|(?P<creator>MySQL |MariaDB ))(?P<number>[0-9]+\.[0-9]+[0-9A-Za-z.-]*)\x00";
    Regex::new(pattern).expect("a constant pattern, covered by tests")
});
/// Before 5.7 the version stands alone ("5.6.51", "5.5.62-log"), and MariaDB's own with its name.
static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u)\x00(?P<number>[0-9]+\.[0-9]+\.[0-9]+)(?P<mariadb>-MariaDB)?[0-9A-Za-z.-]*\x00";
    Regex::new(pattern).expect("a constant pattern, covered by tests")
});

/// MariaDB mentions some forty.
const MAX_VERSIONS: usize = 1_000;
const MAX_NUMBER: usize = 64;

/// The verdict on the texts seen so far.
#[derive(Default)]
pub(in crate::server) struct Finder {
    series: Option<String>,
    creators: Vec<Version>,
    plain: Vec<Version>,
}

impl Finder {
    fn best<'a>(&self, candidates: &'a [Version]) -> Option<&'a Version> {
        let series = self.series.as_deref()?;
        candidates.iter().find(|version| version.series() == series)
    }
}

impl VersionFinder for Finder {
    fn look_at(&mut self, text: &[u8]) -> Option<Version> {
        let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for found in TEXT.captures_iter(text) {
            let number = string(&found["number"]);
            match found.name("creator") {
                Some(creator) => {
                    let mysql = creator.as_bytes() == b"MySQL ";
                    let product = if mysql { MYSQL } else { MARIADB };
                    push(&mut self.creators, Version { product, number });
                }
                None => {
                    self.series.get_or_insert(number);
                }
            }
        }
        for found in PLAIN.captures_iter(text) {
            let mariadb = found.name("mariadb").is_some();
            let product = if mariadb { MARIADB } else { MYSQL };
            push(&mut self.plain, Version { product, number: string(&found["number"]) });
        }
        self.best(&self.creators).cloned()
    }

    fn second_best(&self) -> Option<Version> {
        let mariadb: Vec<_> =
            self.plain.iter().filter(|version| version.product == MARIADB).cloned().collect();
        self.best(&mariadb).or_else(|| self.best(&self.plain)).cloned()
    }
}

/// Of an executable that mentions thousands of versions, nobody knows which it is.
fn push(versions: &mut Vec<Version>, version: Version) {
    if versions.len() < MAX_VERSIONS && version.number.len() <= MAX_NUMBER {
        versions.push(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Option<String> {
        let mut finder = Finder::default();
        finder.look_at(text).or_else(|| finder.second_best()).map(|version| version.to_string())
    }

    #[test]
    fn the_version_is_the_one_whose_series_the_option_groups_have() {
        let mysql = b"\x009.7.4.0\0mysqld-9.7\0MariaDB 10.5.1\0MySQL 8.0.3\0MySQL 9.7.4\0";
        assert_eq!(found(mysql).unwrap(), "MySQL 9.7.4");
        let mariadb = b"5.7.31\0mysqld-10.11\0mariadb-10.11\0MySQL 5.7.9\0MariaDB 10.11.19\0";
        assert_eq!(found(mariadb).unwrap(), "MariaDB 10.11.19");
        assert_eq!(found(b"mysqld-8.0\0MySQL 8.0.36-28\0").unwrap(), "MySQL 8.0.36-28");
    }

    #[test]
    fn servers_without_a_creator_are_known_by_their_plain_version() {
        assert_eq!(found(b"\x005.5.1\0mysqld-5.6\0\x005.6.51\0").unwrap(), "MySQL 5.6.51");
        assert_eq!(found(b"mysqld-10.0\0\x0010.0.38-MariaDB\0\x0010.0.1\0").unwrap(), "MariaDB 10.0.38");
    }

    #[test]
    fn what_is_no_server_has_no_version() {
        assert_eq!(found(b"\0MySQL 9.7.4\0"), None, "a client or a backup tool mentions versions, too");
        assert_eq!(found(b"mysqld-9.7\0"), None);
    }
}
