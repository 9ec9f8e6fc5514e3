//! Unsynced bytes by file: the peaks since the last few snapshots, what a failed sync may have lost for as
//! long as the server has the file open, and which of the slots on the kernel side are given back.

mod filled;
mod room;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Sampler;
use super::ledger::Subject;
use super::rows::is_made_up;
use crate::engine::engines::Engines;
use crate::files::still_open::StillOpen;
use crate::linux::clock::monotonic_ns;
use crate::model::{
    Backlog, FileId, Op, PEAKS_REMEMBERED, Peak, Role, ServerId, Target, Unsynced, UnsyncedFile,
};
use crate::probe::{FileEvent, UnsyncedFile as Kept, record};
use filled::{Filled, Key};

/// Intervals that are told apart, of each file. An older one is added to the next.
const PEAKS: usize = 8;
/// Slots are given back when fewer are free.
const ENOUGH_FREE: usize = record::UNSYNCED_FILES / 4;
/// So many are, whatever one owner does: the eighth that the kernel side leaves to others, and half as many
/// for its own next files. Those of its files that stand idle are given up, unsynced or not.
const LEFT_FREE: usize = record::UNSYNCED_FILES / 16 * 3;

/// How often it is looked what the files of a role have unsynced together, while all writes are watched. A
/// log that goes on to its next file in between has the most of both.
const LOOK: Duration = Duration::from_millis(20);
/// While a file is being filled, so that little is written to it before it is known where its data begins.
const LOOK_CLOSELY: Duration = Duration::from_millis(2);
/// After each look, so many times as long as it took; less while a file is being filled, which is soon over.
const REST: u32 = 100;
const SHORT_REST: u32 = 4;

type Of = Unsynced<Vec<UnsyncedFile>, Vec<Peak>>;

/// Of a file of which a sync failed: its slot, and how many bytes that sync should have covered.
#[derive(Clone, Copy)]
struct Failed {
    slot: u32,
    lost: u64,
}

pub(super) struct Backlogs {
    peaks: HashMap<Key, Vec<Peak>>,
    /// Of roles: what their files had within one look.
    together: HashMap<(ServerId, Role), Vec<Peak>>,
    /// The greatest since the last snapshot.
    most: HashMap<Key, Backlog>,
    most_together: HashMap<(ServerId, Role), Backlog>,
    filled: Filled,
    next_look: Instant,
    /// By slot: whose it was when it was last read, and what had been written. Of one that is idle, it is the
    /// same.
    slots: HashMap<u32, (Key, u64)>,
    failed: StillOpen<Failed>,
    /// Bytes of which it is not known any more whether they are synced, because other files needed the room.
    dropped: u64,
}

/// The process and the file of a slot.
fn whose(kept: &Kept) -> Option<Key> {
    match Subject::of(&kept.id)? {
        Subject::File { server, target: Target::File(file), .. } => Some((server, file)),
        _ => None,
    }
}

impl Backlogs {
    pub fn new(engines: Arc<Engines>) -> Backlogs {
        Backlogs {
            peaks: HashMap::new(),
            together: HashMap::new(),
            most: HashMap::new(),
            most_together: HashMap::new(),
            filled: Filled::default(),
            next_look: Instant::now(),
            slots: HashMap::new(),
            failed: StillOpen::new("unsynced", engines),
            dropped: 0,
        }
    }

    /// Processor time that was used to find out whether files are open.
    pub(super) fn spent(&self) -> Duration {
        self.failed.spent()
    }

    /// Whether the name of this file is shown.
    pub(super) fn knows(&self, server: ServerId, file: FileId) -> bool {
        self.peaks.contains_key(&(server, file))
    }

    /// What was written since the last look. What each file has unsynced now.
    fn look(&mut self, at: &Moment, role_of: impl Fn(&Key) -> Role) -> HashMap<Key, Backlog> {
        let mut present = HashMap::new();
        let mut together: HashMap<(ServerId, Role), Backlog> = HashMap::new();
        for file in &at.kept {
            let Some(key) = whose(file) else { continue };
            let (now, most) = self.filled.without_filling(key, file, at.now_ns);
            present.insert(key, now);
            if most.is_none() {
                continue;
            }
            let known = self.most.entry(key).or_default();
            *known = known.or_greater(most);
            let sum = together.entry((key.0, role_of(&key))).or_default();
            *sum = sum.and(most);
        }
        for (role, sum) in together {
            let known = self.most_together.entry(role).or_default();
            *known = known.or_greater(sum);
        }
        present
    }

    /// The greatest of each role, with that of the interval that ends now.
    fn roles(&mut self, at: Instant) -> BTreeMap<(ServerId, Role), Vec<Peak>> {
        for (role, most) in self.most_together.drain() {
            self.together.entry(role).or_default().push(Peak { at, most });
        }
        self.together.retain(|_, peaks| {
            retain_latest(peaks, at);
            !peaks.is_empty()
        });
        self.together.iter().map(|(&role, peaks)| (role, peaks.clone())).collect()
    }

    /// The greatest backlogs of a file, with that of the interval that ends now.
    fn peaks(&mut self, key: Key, at: Instant, most: Backlog) -> Vec<Peak> {
        let peaks = self.peaks.entry(key).or_default();
        if !most.is_none() {
            peaks.push(Peak { at, most });
        }
        retain_latest(peaks, at);
        peaks.clone()
    }
}

fn retain_latest(peaks: &mut Vec<Peak>, at: Instant) {
    peaks.retain(|peak| at.saturating_duration_since(peak.at) < PEAKS_REMEMBERED);
    if peaks.len() > PEAKS {
        let first = peaks.remove(0);
        peaks[0].most = peaks[0].most.or_greater(first.most);
    }
}

/// All files at one moment.
pub(super) struct Moment {
    kept: Vec<Kept>,
    now_ns: u64,
}

impl Sampler {
    /// Until the next look between two snapshots, if all writes are watched.
    pub(super) fn next_look_at_backlogs(&self) -> Option<Duration> {
        let is_watched = self.setup.ops.contains(&Op::Write) && self.paused_since.is_none();
        is_watched.then(|| self.backlogs.next_look.saturating_duration_since(Instant::now()))
    }

    pub(super) fn look_at_backlogs(&mut self) -> std::io::Result<()> {
        let begin = Instant::now();
        let moment = self.read_unsynced()?;
        let Sampler { backlogs, names, .. } = self;
        backlogs.look(&moment, |key| names.role_of(key));
        let (pause, rest) = if backlogs.filled.is_any() { (LOOK_CLOSELY, SHORT_REST) } else { (LOOK, REST) };
        backlogs.next_look = begin + pause.max(begin.elapsed() * rest);
        Ok(())
    }

    /// A file that is being filled is known by the name that it has meanwhile.
    pub(super) fn notice_filling(&mut self, key: Key, event: &FileEvent) {
        let name = event.components.first().map_or(&[][..], Vec::as_slice);
        if self.setup.ops.contains(&Op::Write) && self.backlogs.filled.notice(key, name) {
            self.backlogs.next_look = Instant::now();
        }
    }

    /// The figures alone, at once; what else there is to say of them can wait.
    pub(super) fn read_unsynced(&mut self) -> std::io::Result<Moment> {
        let mut kept = self.probe.unsynced()?;
        kept.retain(|file| whose(file).is_none_or(|key| !is_made_up(self.names.info(&key))));
        // After that: an age is never too small.
        Ok(Moment { kept, now_ns: monotonic_ns() })
    }

    /// What was unsynced then, with the names that were learnt since.
    pub(super) fn with_names(&self, mut unsynced: Of) -> Of {
        for file in &mut unsynced.rows {
            file.info = self.names.info(&(file.server, file.file)).clone();
        }
        unsynced
    }

    /// Every file of which something is unsynced, was in one of the last intervals, or is possibly lost.
    pub(super) fn unsynced_files(&mut self, moment: &Moment, at: Instant) -> std::io::Result<Of> {
        let mut files = Vec::new();
        let mut known = HashSet::new();
        let Sampler { backlogs, names, .. } = self;
        let present = backlogs.look(moment, |key| names.role_of(key));
        let together = backlogs.roles(at);
        let greatest = std::mem::take(&mut backlogs.most);
        let kept = &moment.kept;
        for file in kept {
            let Some((server, id)) = whose(file) else { continue };
            let now = present.get(&(server, id)).copied().unwrap_or_default();
            let most = greatest.get(&(server, id)).copied().unwrap_or_default();
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
        Ok(Unsynced { rows: files, together, dropped })
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

    /// Makes room: first of files that stand idle and have nothing unsynced or are deleted, then of whichever
    /// owner has most, at last of servers that have ended.
    fn reclaim_unsynced(&mut self, kept: &[Kept]) -> std::io::Result<()> {
        let slot = |file: &Kept| Some((file.slot, (whose(file)?, file.written)));
        let before = std::mem::replace(&mut self.backlogs.slots, kept.iter().filter_map(slot).collect());
        let free = record::UNSYNCED_FILES.saturating_sub(kept.len());
        if free >= ENOUGH_FREE {
            return Ok(());
        }
        let (mut clean, mut deleted, mut ended, mut dirty) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
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
            let importance = (info.role.is_serial(), !is_idle, file.lost > 0, file.bytes);
            let owner = self.servers.owner(key.0);
            dirty.push(room::Held { slot, owner, is_active: !is_idle, importance });
            if is_idle && !info.open {
                ended.push(slot);
            }
        }
        let missing = LEFT_FREE.saturating_sub(free + clean.len() + deleted.len());
        let mut given_up = room::of_the_greatest(dirty, missing);
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
        self.backlogs.together.retain(|(server, _), _| !gone.contains(server));
        self.backlogs.filled.retain(|(server, _)| !gone.contains(server));
        self.probe.free_unsynced(&slots, true)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_intervals_than_are_told_apart_none_is_forgotten() {
        let mut backlogs = Backlogs::new(Engines::builtin());
        let key = (ServerId::NONE, FileId { device: 1, inode: 2, generation: 3, weak: false, part: false });
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
