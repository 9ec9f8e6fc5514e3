//! Syncs of a process that has not been identified as a server yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::paths::{Did, Work};
use super::totals::ServerTotals;
use crate::model::{FileInfo, FileRow, Op, Target};

/// Files that are held back; more are counted under the paths they have.
const MAX_FILES: usize = 4_096;

/// The files of such a process are still being looked up: a path is made a label when it is known, and not
/// the first that the kernel told, which knows nothing of mounts.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub totals: ServerTotals,
    files: BTreeMap<(Target, Op), (Arc<FileInfo>, Work)>,
}

impl Waiting {
    /// `paths`: how many have series of their own.
    pub fn new(paths: usize) -> Waiting {
        Waiting { totals: ServerTotals::new(paths), files: BTreeMap::new() }
    }

    pub(crate) fn add_files(&mut self, rows: &[FileRow], now: Instant) {
        for row in rows {
            let has_room = self.files.len() < MAX_FILES;
            let did = Did::from(row);
            match self.files.get_mut(&(row.target, row.op)) {
                Some((_, work)) => work.add(did.work.count, did.work.sum_ns),
                None if has_room => {
                    self.files.insert((row.target, row.op), (row.info.clone(), did.work));
                }
                None => self.totals.add_files(std::iter::once(did), now),
            }
        }
    }

    /// Takes what is known of a file by now.
    pub(crate) fn learn(&mut self, row: &FileRow) {
        if let Some((info, _)) = self.files.get_mut(&(row.target, row.op)) {
            info.clone_from(&row.info);
        }
    }

    /// Adds everything to the server that it turned out to be.
    pub fn settle(&self, totals: &mut ServerTotals, now: Instant) {
        totals.merge(&self.totals, now);
        let files = self.files.iter();
        totals
            .add_files(files.map(|(&(target, op), (info, work))| Did { target, op, info, work: *work }), now);
    }
}
