//! Unsynced bytes by file: the peaks since the last few snapshots, what a failed sync may have lost for as
//! long as the server has the file open, and which of the slots on the kernel side are given back.

mod room;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::Sampler;
use super::ledger::Subject;
use super::running::monotonic_ns;
use crate::files::still_open::StillOpen;
use crate::model::{Backlog, FileId, PEAKS_REMEMBERED, Peak, ServerId, Target, Unsynced, UnsyncedFile};
use crate::probe::{UnsyncedFile as Kept, record};

/// Intervals that are told apart, of each file. An older one is added to the next.
const PEAKS: usize = 8;
/// Slots are given back when fewer are free.
const ENOUGH_FREE: usize = record::UNSYNCED_FILES / 4;
/// So many are, whatever one process does: those of its files that stand idle are given up, unsynced or not.
const LEFT_FREE: usize = record::UNSYNCED_FILES / 16;

type Key = (ServerId, FileId);

/// Of a file of which a sync failed: its slot, and how many bytes that sync should have covered.
#[derive(Clone, Copy)]
struct Failed {
    slot: u32,
    lost: u64,
}

pub(super) struct Backlogs {
    peaks: HashMap<Key, Vec<Peak>>,
    /// By slot: whose it was when it was last read, and what had been written. Of one that is idle, it is the
    /// same.
    slots: HashMap<u32, (Key, u64)>,
    failed: StillOpen<Failed>,
    /// Bytes of which it is not known any more whether they are synced, because other files needed the room.
    dropped: u64,
}

impl Default for Backlogs {
    fn default() -> Self {
        Backlogs {
            peaks: HashMap::new(),
            slots: HashMap::new(),
            failed: StillOpen::new("unsynced"),
            dropped: 0,
        }
    }
}

/// The process and the file of a slot.
fn whose(kept: &Kept) -> Option<Key> {
    match Subject::of(&kept.id)? {
        Subject::File { server, target: Target::File(file), .. } => Some((server, file)),
        _ => None,
    }
}

impl Backlogs {
    /// Processor time that was used to find out whether files are open.
    pub(super) fn spent(&self) -> Duration {
        self.failed.spent()
    }

    /// Whether the name of this file is shown.
    pub(super) fn knows(&self, server: ServerId, file: FileId) -> bool {
        self.peaks.contains_key(&(server, file))
    }

    /// The greatest backlogs of a file, with that of the interval that ends now.
    fn peaks(&mut self, key: Key, at: Instant, most: Backlog) -> Vec<Peak> {
        let peaks = self.peaks.entry(key).or_default();
        if !most.is_none() {
            peaks.push(Peak { at, most });
        }
        peaks.retain(|peak| at.saturating_duration_since(peak.at) < PEAKS_REMEMBERED);
        if peaks.len() > PEAKS {
            let first = peaks.remove(0);
            peaks[0].most = peaks[0].most.or_greater(first.most);
        }
        peaks.clone()
    }
}

/// All files at one moment.
pub(super) struct Moment {
    kept: Vec<Kept>,
    now_ns: u64,
}

impl Sampler {
    /// The figures alone, at once; what else there is to say of them can wait.
    pub(super) fn read_unsynced(&mut self) -> std::io::Result<Moment> {
        let kept = self.probe.unsynced()?;
        // After that: an age is never too small.
        Ok(Moment { kept, now_ns: monotonic_ns() })
    }

    /// What was unsynced then, with the names that were learnt since.
    pub(super) fn with_names(&self, mut unsynced: Unsynced<UnsyncedFile>) -> Unsynced<UnsyncedFile> {
        for file in &mut unsynced.rows {
            file.info = self.names.info(&(file.server, file.file)).clone();
        }
        unsynced
    }

    /// Every file of which something is unsynced, was in one of the last intervals, or is possibly lost.
    pub(super) fn unsynced_files(
        &mut self,
        Moment { kept, now_ns }: &Moment,
        at: Instant,
    ) -> std::io::Result<Unsynced<UnsyncedFile>> {
        let mut files = Vec::new();
        let mut known = HashSet::new();
        for file in kept {
            let Some((server, id)) = whose(file) else { continue };
            let age = file.oldest_ns.map_or(0, |oldest| now_ns.saturating_sub(oldest));
            let now = Backlog { bytes: file.bytes, age: Duration::from_nanos(age) };
            let most = Backlog { bytes: file.most_bytes, age: Duration::from_nanos(file.most_age_ns) };
            let most = most.or_greater(now);
            if most.is_none() && file.lost == 0 && !self.backlogs.knows(server, id) {
                continue;
            }
            let peaks = self.backlogs.peaks((server, id), at, most);
            if peaks.is_empty() && file.lost == 0 {
                continue;
            }
            known.insert((server, id));
            let info = self.names.info(&(server, id)).clone();
            files.push(UnsyncedFile { server, file: id, info, now, peaks, possibly_lost: file.lost });
        }
        self.backlogs.peaks.retain(|key, _| known.contains(key));
        self.look_for_failed(kept)?;
        self.reclaim_unsynced(kept)?;
        files.sort_by_key(|file: &UnsyncedFile| (file.server, file.file));
        let dropped = self.probe.counters().unsynced_dropped + self.backlogs.dropped;
        Ok(Unsynced { rows: files, dropped })
    }

    /// What is possibly lost is so until the server has closed the file.
    fn look_for_failed(&mut self, kept: &[Kept]) -> std::io::Result<()> {
        for (key, Failed { slot, lost }) in self.backlogs.failed.closed() {
            // The slot may be another file's by now.
            let is_still = |file: &&Kept| file.slot == slot && whose(file) == Some(key);
            if kept.iter().any(|file| is_still(&file)) {
                self.probe.clear_lost(slot, lost)?;
            }
        }
        let failed = kept
            .iter()
            .filter(|file| file.lost > 0)
            .filter_map(|file| Some((whose(file)?, Failed { slot: file.slot, lost: file.lost })));
        self.backlogs.failed.look_for(failed);
        Ok(())
    }

    /// Makes room, of files that stand idle: first of those that have nothing unsynced or are deleted, then
    /// of whichever process has most, at last of servers that have ended.
    fn reclaim_unsynced(&mut self, kept: &[Kept]) -> std::io::Result<()> {
        let slot = |file: &Kept| Some((file.slot, (whose(file)?, file.written)));
        let before = std::mem::replace(&mut self.backlogs.slots, kept.iter().filter_map(slot).collect());
        let free = record::UNSYNCED_FILES.saturating_sub(kept.len());
        if free >= ENOUGH_FREE {
            return Ok(());
        }
        let (mut clean, mut deleted, mut ended, mut dirty) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut held: HashMap<ServerId, usize> = HashMap::new();
        for file in kept {
            let Some(key) = whose(file) else { continue };
            let (slot, info) = (file.slot, self.names.info(&key));
            let is_idle = before.get(&slot) == Some(&(key, file.written));
            if is_idle && file.bytes == 0 && file.lost == 0 {
                clean.push(slot);
                continue;
            }
            if is_idle && info.unlinked {
                deleted.push(slot);
                continue;
            }
            *held.entry(key.0).or_default() += 1;
            if is_idle {
                let importance = (info.role.is_serial(), file.lost > 0, file.bytes);
                dirty.push(room::Idle { slot, server: key.0, importance });
            }
            if is_idle && !info.open {
                ended.push(slot);
            }
        }
        let missing = LEFT_FREE.saturating_sub(free + clean.len() + deleted.len());
        let mut given_up = room::of_the_greatest(dirty, held, missing);
        if given_up.len() < missing {
            let known: HashSet<u32> = given_up.iter().copied().collect();
            ended.retain(|slot| !known.contains(slot));
            given_up.extend(ended.into_iter().take(missing - known.len()));
        }
        for slot in [&clean, &deleted, &given_up].into_iter().flatten() {
            self.backlogs.slots.remove(slot);
        }
        self.probe.free_unsynced(&clean, false)?;
        // These have nothing to lose.
        self.probe.free_unsynced(&deleted, true)?;
        let dropped = self.probe.free_unsynced(&given_up, true)?;
        self.backlogs.dropped = self.backlogs.dropped.saturating_add(dropped);
        Ok(())
    }

    /// These servers are remembered no longer.
    pub(super) fn forget_unsynced(&mut self, gone: &HashSet<ServerId>) -> std::io::Result<()> {
        let theirs = self.backlogs.slots.extract_if(|_, ((server, _), _)| gone.contains(server));
        let slots: Vec<u32> = theirs.map(|(slot, _)| slot).collect();
        self.backlogs.peaks.retain(|(server, _), _| !gone.contains(server));
        self.probe.free_unsynced(&slots, true)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_intervals_than_are_told_apart_none_is_forgotten() {
        let mut backlogs = Backlogs::default();
        let key = (ServerId::NONE, FileId { device: 1, inode: 2, generation: 3, weak: false });
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let most = |bytes| Backlog { bytes, age: Duration::from_millis(bytes) };
        let mut peaks = Vec::new();
        for second in 1..=20 {
            // The greatest is the third.
            peaks = backlogs.peaks(key, at(second), most(if second == 3 { 900 } else { second }));
        }
        assert_eq!(peaks.len(), PEAKS);
        assert_eq!((peaks[0].at, peaks[0].most), (at(13), most(900)));
        assert_eq!((peaks[7].at, peaks[7].most), (at(20), most(20)));
        assert_eq!(backlogs.peaks(key, at(21), Backlog::default()).len(), PEAKS, "nothing was unsynced");
        assert_eq!(backlogs.peaks(key, at(20) + PEAKS_REMEMBERED, Backlog::default()), []);
    }
}
