//! The redo files that MySQL created in the window. It creates spare ones (`#ib_redoN_tmp`) after its start
//! and when innodb_redo_log_capacity is changed, and syncs each once: Innodb_data_fsyncs counts that sync,
//! Innodb_os_log_fsyncs does not. Measured on 9.7: SET GLOBAL innodb_redo_log_capacity on an idle server,
//! 31 files created, data 31, log 0. A spare file that is put into use is also synced under that name,
//! which counts as the log's, but then again at once under the name without `_tmp`: a file whose only sync
//! is under the spare name has just been created.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Edge;
use crate::model::{FileRow, Role, ServerId, Target};

/// Why the redo log's syncs cannot be separated from these.
pub const WHY: &str =
    "redo files were created and used during the window, and the sync that creates one counts as data";

const DIRECTORY: &str = "#innodb_redo";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Syncs that created a file; they are among the syncs of the redo log's files.
    pub syncs: u64,
    /// False: there may have been more, of files that have been put into use since.
    pub is_sure: bool,
}

/// `files`: the server's rows between the edges.
pub fn count(server: ServerId, first: &Edge, last: &Edge, files: &[&FileRow]) -> Made {
    let known_before = |row: &FileRow| {
        let before = first.snapshot.files.iter().filter(|before| before.server == server);
        before.filter(|before| before.target == row.target).any(|before| before.stats.count > 0)
    };
    let new =
        files.iter().filter(|row| row.info.role == Role::Redo && row.stats.count > 0 && !known_before(row));
    let (made, other): (Vec<&FileRow>, Vec<&FileRow>) =
        new.copied().partition(|row| row.stats.count == 1 && row.info.path.as_deref().is_some_and(is_spare));
    let syncs = made.len() as u64;
    // Each file that is created costs a sync of the directory as well; so does putting one into use or
    // removing one.
    let directory: u64 = files
        .iter()
        .filter(|row| row.info.role == Role::Directory && row.info.path.as_deref().is_some_and(is_directory))
        .map(|row| row.stats.count)
        .sum();
    let nameless = |row: &&FileRow| !matches!(row.target, Target::File(_));
    let is_sure = match syncs {
        0 => !other.iter().any(nameless),
        _ => last.is_quiet && (other.is_empty() || directory == syncs),
    };
    Made { syncs, is_sure }
}

fn is_spare(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.as_bytes();
        name.starts_with(b"#ib_redo") && name.ends_with(b"_tmp")
    })
}

fn is_directory(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new(DIRECTORY))
}
