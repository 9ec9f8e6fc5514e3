//! The path under which a file is exported: its own, or one for all files that take each other's place.
//! Binary logs rotate, redo files come and go: a series for each would be a series for each of their numbers.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::model::{Numbering, Role};

/// `/var/lib/mysql/binlog.000123` → `/var/lib/mysql/binlog.*`; most files: as they are.
pub fn shown(role: Role, path: &Path) -> Cow<'_, Path> {
    let Some(name) = path.file_name().map(OsStr::as_bytes) else { return path.into() };
    match pattern(role, name) {
        None => path.into(),
        Some(pattern) => {
            let mut shown = path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes().to_vec();
            if shown != b"/" {
                shown.push(b'/');
            }
            shown.extend(pattern);
            PathBuf::from(std::ffi::OsString::from_vec(shown)).into()
        }
    }
}

/// None: the name stays.
fn pattern(role: Role, name: &[u8]) -> Option<Vec<u8>> {
    // ALTER TABLE builds its result under such a name, another one each time.
    if name.starts_with(b"#sql") {
        return Some(with_extension(b"#sql*", name));
    }
    match role {
        Role::Redo if name.starts_with(b"#ib_redo") => Some(b"#ib_redo*".to_vec()),
        Role::Redo if name.starts_with(b"ib_logfile") => Some(b"ib_logfile*".to_vec()),
        // A truncated tablespace gets its name back; only InnoDB's own numbered ones count up.
        Role::Undo if name.ends_with(b"_trunc.log") => Some(b"undo_*_trunc.log".to_vec()),
        Role::EngineData if extension(name) == Some(b"sst") => Some(b"*.sst".to_vec()),
        Role::EngineData if extension(name) == Some(b"tokudb") => every_number(name),
        // A file whose role is not known, numbered as servers number theirs.
        Role::Other => last_number(name).filter(|_| ends_in_six_digits(name)),
        role => match role.numbering() {
            Numbering::Fixed => None,
            Numbering::Last => last_number(name),
            Numbering::Every => every_number(name),
            Numbering::Hexadecimal => hexadecimal_words(name),
        },
    }
}

fn extension(name: &[u8]) -> Option<&[u8]> {
    Path::new(OsStr::from_bytes(name)).extension().map(OsStr::as_bytes)
}

fn with_extension(stem: &[u8], name: &[u8]) -> Vec<u8> {
    match extension(name) {
        Some(extension) => [stem, b".", extension].concat(),
        None => stem.to_vec(),
    }
}

fn ends_in_six_digits(name: &[u8]) -> bool {
    name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count() >= 6
}

/// The last run of digits, if there is one, as a star.
fn last_number(name: &[u8]) -> Option<Vec<u8>> {
    let end = name.iter().rposition(u8::is_ascii_digit)? + 1;
    let begin = name[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    Some([&name[..begin], b"*", &name[end..]].concat())
}

/// Every word of hexadecimal digits that begins with a decimal one as a star: `0000000100000003.partial`, but
/// not the `db` of `app.db-wal`.
fn hexadecimal_words(name: &[u8]) -> Option<Vec<u8>> {
    fn shown(word: &[u8]) -> &[u8] {
        let is_number =
            word.first().is_some_and(u8::is_ascii_digit) && word.iter().all(u8::is_ascii_hexdigit);
        if is_number { b"*" } else { word }
    }
    let words = name.chunk_by(|a, b| a.is_ascii_alphanumeric() == b.is_ascii_alphanumeric());
    let pattern: Vec<u8> = words.flat_map(shown).copied().collect();
    (pattern != name).then_some(pattern)
}

/// Every run of digits as a star.
fn every_number(name: &[u8]) -> Option<Vec<u8>> {
    if !name.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let mut pattern = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            digit if digit.is_ascii_digit() => {
                if pattern.last() != Some(&b'*') {
                    pattern.push(b'*');
                }
            }
            other => pattern.push(other),
        }
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_take_each_others_place_share_a_path() {
        for (role, path, expected) in [
            (Role::Binlog, "/var/lib/mysql/binlog.000001", "/var/lib/mysql/binlog.*"),
            (Role::Binlog, "/logs/db7-bin.1000000", "/logs/db7-bin.*"),
            (Role::BinlogIndex, "/d/binlog.000002.idx", "/d/binlog.*.idx"),
            (Role::BinlogIndex, "/d/binlog.index", "/d/binlog.index"),
            (Role::RelayLog, "/d/db7-relay-bin-channel2.000012", "/d/db7-relay-bin-channel2.*"),
            (Role::Redo, "/d/#innodb_redo/#ib_redo12", "/d/#innodb_redo/#ib_redo*"),
            (Role::Redo, "/d/#innodb_redo/#ib_redo13_tmp", "/d/#innodb_redo/#ib_redo*"),
            (Role::Redo, "/d/ib_logfile101", "/d/ib_logfile*"),
            (Role::Redo, "/d/odd", "/d/odd"),
            (Role::Undo, "/d/undo_001", "/d/undo_001"),
            (Role::Undo, "/d/undo_3_trunc.log", "/d/undo_*_trunc.log"),
            (Role::Doublewrite, "/d/#ib_16384_0.dblwr", "/d/#ib_16384_0.dblwr"),
            (Role::Tablespace, "/d/shop/t2024_01.ibd", "/d/shop/t2024_01.ibd"),
            (Role::Tablespace, "/d/shop/#sql-ib1063-2879.ibd", "/d/shop/#sql*.ibd"),
            (Role::Tablespace, "/d/shop/#sql-1a2b_c", "/d/shop/#sql*"),
            (Role::Temporary, "/d/#innodb_temp/temp_10.ibt", "/d/#innodb_temp/temp_*.ibt"),
            (Role::Temporary, "/tmp/#1234567", "/tmp/#*"),
            (Role::EngineLog, "/d/aria_log.00000001", "/d/aria_log.*"),
            (Role::EngineLog, "/d/aria_log_control", "/d/aria_log_control"),
            (Role::EngineLog, "/d/.rocksdb/000123.log", "/d/.rocksdb/*.log"),
            (Role::EngineData, "/d/.rocksdb/000124.sst", "/d/.rocksdb/*.sst"),
            (Role::EngineData, "/d/shop/t1.MYD", "/d/shop/t1.MYD"),
            (Role::Audit, "/d/audit.20260528T100301.log", "/d/audit.*T*.log"),
            (Role::Wal, "/d/pg_wal/0000000100000000000000A3", "/d/pg_wal/*"),
            (Role::Wal, "/d/pg_wal/0000000100000000000000A3.partial", "/d/pg_wal/*.partial"),
            (Role::Wal, "/d/pg_wal/xlogtemp.4711", "/d/pg_wal/xlogtemp.*"),
            (Role::Wal, "/d/pg_wal/00000002.history", "/d/pg_wal/*.history"),
            (Role::Wal, "/d/member/wal/0000000000000001-000000000000c3f0.wal", "/d/member/wal/*-*.wal"),
            (Role::Wal, "/d/member/wal/1.tmp", "/d/member/wal/*.tmp"),
            (Role::Wal, "/d/000123.log", "/d/*.log"),
            (Role::Wal, "/d/app2.db-wal", "/d/app2.db-wal"),
            (
                Role::Snapshot,
                "/d/member/snap/0000000000000002-00000000000186a1.snap",
                "/d/member/snap/*-*.snap",
            ),
            (Role::Aof, "/d/appendonly.aof.12.incr.aof", "/d/appendonly.aof.*.incr.aof"),
            (Role::Rdb, "/d/temp-4711.rdb", "/d/temp-*.rdb"),
            (Role::Sst, "/d/000124.sst", "/d/*.sst"),
            (Role::Data, "/d/base/16384/16385.1", "/d/base/16384/16385.1"),
            (Role::Other, "/d/strange.000007", "/d/strange.*"),
            (Role::Other, "/d/file7", "/d/file7"),
            (Role::Binlog, "/binlog.000001", "/binlog.*"),
            (Role::Binlog, "/", "/"),
        ] {
            assert_eq!(shown(role, Path::new(path)), Path::new(expected), "{role:?}");
        }
        let hostile = Path::new(OsStr::from_bytes(b"/d/\xff\n\"bin.000009"));
        assert_eq!(shown(Role::Binlog, hostile).as_os_str().as_bytes(), b"/d/\xff\n\"bin.*");
    }
}
