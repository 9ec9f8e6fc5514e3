//! Files that are filled with zeros and synced before they are used: none of that is a commit's data, and a
//! server that loses it makes it again.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::{Backlog, FileId, ServerId};
use crate::probe::UnsyncedFile as Kept;

/// PostgreSQL's new segments are called so until they are filled and synced (XLogFileInitInternal in
/// src/backend/access/transam/xlog.c).
const PREFIX: &[u8] = b"xlogtemp.";
/// The smallest segment (wal_segment_size). Under wal_init_zero=off only its last byte is written.
const SMALLEST: u64 = 1 << 20;
/// A filling that takes longer is none that ends.
const LONGEST_NS: u64 = 60_000_000_000;

pub(super) type Key = (ServerId, FileId);

#[derive(Default)]
pub(super) struct Filled(HashMap<Key, Filling>);

#[derive(Default)]
struct Filling {
    /// When it was first, and last, seen to go on (CLOCK_MONOTONIC).
    first_ns: Option<u64>,
    last_ns: u64,
    was_synced: bool,
}

impl Filled {
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn retain(&mut self, wanted: impl Fn(&Key) -> bool) {
        self.0.retain(|key, _| wanted(key));
    }

    /// A file was first written, or synced, under this name. True if it is one that is filled.
    pub(super) fn notice(&mut self, key: Key, name: &[u8]) -> bool {
        let is_filled = name.starts_with(PREFIX);
        if is_filled {
            self.0.entry(key).or_default();
        }
        is_filled
    }

    /// What is unsynced of a file now, and was at most since the last look, but for what fills it.
    pub(super) fn without_filling(&mut self, key: Key, file: &Kept, now_ns: u64) -> (Backlog, Backlog) {
        let age = file.oldest_ns.map_or(0, |oldest| now_ns.saturating_sub(oldest));
        let now = Backlog { bytes: file.bytes, age: Duration::from_nanos(age) };
        let most = Backlog { bytes: file.most_bytes, age: Duration::from_nanos(file.most_age_ns) };
        let all = (now, most.or_greater(now));
        let Some(filling) = self.0.get_mut(&key) else { return all };
        let first_ns = *filling.first_ns.get_or_insert(now_ns);
        if file.written <= file.bytes && now_ns.saturating_sub(first_ns) < LONGEST_NS {
            filling.last_ns = now_ns;
            return (Backlog::default(), Backlog::default());
        }
        // A sync may have been seen to cover all of it, and its greatest be read the next time.
        if file.most_bytes < SMALLEST && !std::mem::replace(&mut filling.was_synced, true) {
            return all;
        }
        let last_ns = if filling.last_ns > 0 { filling.last_ns } else { first_ns };
        self.0.remove(&key);
        if file.most_bytes < SMALLEST {
            return all;
        }
        // The greatest is the segment. Whatever was written to it later may have been unsynced at once.
        let bytes = file.written.saturating_sub(file.most_bytes).min(file.most_bytes);
        let since = if bytes > 0 { now_ns.saturating_sub(last_ns) } else { 0 };
        (now, now.or_greater(Backlog { bytes, age: Duration::from_nanos(since) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileId, ServerId};

    const KEY: Key =
        (ServerId::NONE, FileId { device: 1, inode: 2, generation: 3, weak: false, part: false });
    const SEGMENT: u64 = 16 << 20;

    fn file(written: u64, synced: u64, most_bytes: u64) -> Kept {
        let bytes = written - synced;
        Kept {
            slot: 1,
            id: Default::default(),
            written,
            bytes,
            oldest_ns: (bytes > 0).then_some(1),
            most_bytes,
            most_age_ns: most_bytes.min(1) * 30_000_000,
            lost: 0,
        }
    }

    fn bytes(of: (Backlog, Backlog)) -> (u64, u64) {
        (of.0.bytes, of.1.bytes)
    }

    fn filling() -> Filled {
        let mut filled = Filled::default();
        filled.notice(KEY, b"xlogtemp.4711");
        filled
    }

    #[test]
    fn the_zeros_of_a_new_segment_are_no_commits_data_and_what_follows_them_is() {
        let mut filled = filling();
        let mut look = |now_ns, file| filled.without_filling(KEY, &file, now_ns);
        assert_eq!(bytes(look(1_000, file(1 << 20, 0, 0))), (0, 0), "it is being filled");
        assert_eq!(bytes(look(2_000, file(SEGMENT, 0, 0))), (0, 0));
        let (now, most) = look(3_000, file(SEGMENT + 8_192, SEGMENT, SEGMENT));
        assert_eq!((now.bytes, most.bytes), (8_192, 8_192));
        assert!(!filled.is_any());
        let later = filled.without_filling(KEY, &file(SEGMENT + 9_000, SEGMENT + 8_192, 8_192), 4_000);
        assert_eq!(bytes(later), (808, 8_192));
    }

    #[test]
    fn a_segment_that_was_filled_between_two_looks_has_at_most_what_was_written_later() {
        let (now, most) =
            filling().without_filling(KEY, &file(SEGMENT + 50_000, SEGMENT + 50_000, SEGMENT), 9);
        assert_eq!((now.bytes, most.bytes), (0, 50_000));
        // Its greatest is read at the next look.
        let mut filled = filling();
        assert_eq!(bytes(filled.without_filling(KEY, &file(SEGMENT, SEGMENT, 0), 9)), (0, 0));
        let (_, most) = filled.without_filling(KEY, &file(SEGMENT + 700, SEGMENT + 700, SEGMENT), 12);
        assert_eq!((most.bytes, most.age), (700, Duration::from_nanos(3)));
    }

    #[test]
    fn a_segment_that_is_not_filled_and_any_other_file_count_as_they_are() {
        let mut filled = filling();
        assert_eq!(bytes(filled.without_filling(KEY, &file(5_000, 1, 4_000), 9)), (4_999, 4_999));
        assert_eq!(bytes(filled.without_filling(KEY, &file(6_000, 5_000, 4_999), 12)), (1_000, 4_999));
        assert!(!filled.is_any());
        filled.notice(KEY, b"000000010000000000000001");
        assert!(!filled.is_any());
        assert_eq!(bytes(filled.without_filling(KEY, &file(SEGMENT, 0, 0), 9)), (SEGMENT, SEGMENT));
    }

    #[test]
    fn what_is_never_synced_does_not_stay_a_filling() {
        let mut filled = filling();
        assert_eq!(bytes(filled.without_filling(KEY, &file(SEGMENT, 0, 0), 1)), (0, 0));
        let later = LONGEST_NS + 1;
        assert_eq!(bytes(filled.without_filling(KEY, &file(SEGMENT, 0, 0), later)), (SEGMENT, SEGMENT));
    }
}
