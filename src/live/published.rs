//! What is published, and what a follower of it has not taken yet.

use std::sync::{Arc, Mutex};

use crate::linux::lock;
use crate::model::{Interval, Snapshot};

/// A snapshot, and what happened since the one before it in the same stream. The interval of the first one
/// has no length: it holds what was counted while the probes were being attached.
#[derive(Clone, Debug)]
pub struct Published {
    pub snapshot: Arc<Snapshot>,
    pub interval: Arc<Interval>,
    before: Arc<Snapshot>,
}

impl Published {
    pub fn first(snapshot: Arc<Snapshot>) -> Published {
        let before = Snapshot::empty(snapshot.taken, snapshot.taken_wall, snapshot.setup.clone());
        Published::after(Arc::new(before), snapshot)
    }

    pub fn after(before: Arc<Snapshot>, snapshot: Arc<Snapshot>) -> Published {
        let interval = Arc::new(Interval::between(&before, &snapshot));
        Published { snapshot, interval, before }
    }
}

/// What one follower has not taken yet. However long it takes none of it, and however many files come and go
/// meanwhile, this holds two snapshots: the interval between them is made once it is asked for.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Waiting>>);

struct Waiting {
    published: Published,
    /// Snapshots have followed of which the interval does not know.
    is_longer: bool,
}

impl Slot {
    pub fn put(&self, new: &Published) {
        let mut slot = lock(&self.0);
        let waiting = match slot.take() {
            Some(Waiting { published, .. }) => {
                Waiting { published: Published { before: published.before, ..new.clone() }, is_longer: true }
            }
            None => Waiting { published: new.clone(), is_longer: false },
        };
        *slot = Some(waiting);
    }

    pub fn take(&self) -> Option<Published> {
        let waiting = lock(&self.0).take()?;
        let Published { snapshot, before, .. } = waiting.published.clone();
        Some(if waiting.is_longer { Published::after(before, snapshot) } else { waiting.published })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::*;
    use crate::model::fixture::{MYSQL, quiet, row, stats};
    use crate::model::{Op, Role};

    #[test]
    fn a_follower_that_is_late_gets_one_interval_of_all_that_it_missed() {
        let begin = Instant::now();
        // Each second another file is synced, and the one before has no row any more.
        let snapshot = |second: u64| {
            let file = |inode| row(MYSQL, inode, "/d/f", Role::Redo, Op::Fsync, stats(&[(1, 1_000)]));
            let files = (second > 0).then(|| file(second)).into_iter().collect();
            let taken = begin + Duration::from_secs(second);
            Arc::new(Snapshot { files, ..Snapshot::empty(taken, SystemTime::UNIX_EPOCH, quiet().setup) })
        };
        let slot = Slot::default();
        assert!(slot.take().is_none());
        slot.put(&Published::first(snapshot(0)));
        slot.put(&Published::after(snapshot(0), snapshot(1)));
        let first = slot.take().unwrap();
        assert_eq!((first.interval.span.duration, first.interval.total().count), (Duration::from_secs(1), 1));
        for second in 1..500 {
            slot.put(&Published::after(snapshot(second), snapshot(second + 1)));
        }
        let late = slot.take().unwrap();
        assert_eq!(late.interval.span.duration, Duration::from_secs(499));
        assert!(late.interval.files.len() <= 2, "{} rows", late.interval.files.len());
        assert!(slot.take().is_none());
    }
}
