//! Which job is next, and which may wait: pure decisions. The owner who has used the least processor time
//! comes first, and no owner takes all threads or all the room.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::limits::{Limits, Share};
use crate::linux::cpu_time::Allowance;

/// An owner who has used less than this is served also when the allowance is used up, until it is overdrawn
/// by as much as the whole burst.
const LITTLE: Duration = Duration::from_millis(50);
/// What an owner has used is halved as often as this.
const HALVE_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct Queue<K, J> {
    /// With the number of each job, by which those that came first are known.
    waiting: HashMap<K, VecDeque<(u64, J)>>,
    len: usize,
    pushed: u64,
    /// What each owner has at work: threads, and abandoned ones.
    busy: HashMap<K, Busy>,
    used: HashMap<K, Duration>,
    halved: Instant,
    allowance: Option<Allowance>,
    spent: Duration,
    max: usize,
    each: Share,
}

#[derive(Default)]
struct Busy {
    threads: usize,
    abandoned: usize,
}

impl<K: Copy + Eq + Hash, J> Queue<K, J> {
    pub fn new(limits: &Limits) -> Queue<K, J> {
        Queue {
            waiting: HashMap::new(),
            len: 0,
            pushed: 0,
            busy: HashMap::new(),
            used: HashMap::new(),
            halved: Instant::now(),
            allowance: limits.allowance.clone(),
            spent: Duration::ZERO,
            max: limits.all.queue,
            each: limits.of_one_owner,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Jobs of an owner that wait or are at work.
    pub(crate) fn pending_of(&self, owner: &K) -> usize {
        let waiting = self.waiting.get(owner).map_or(0, VecDeque::len);
        waiting + self.busy.get(owner).map_or(0, |busy| busy.threads)
    }

    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// False: there is no room for it.
    pub fn push(&mut self, owner: K, job: J) -> bool {
        let theirs = self.waiting.get(&owner).map_or(0, VecDeque::len);
        if theirs >= self.each.queue || self.len >= self.max {
            return false;
        }
        self.waiting.entry(owner).or_default().push_back((self.pushed, job));
        self.pushed += 1;
        self.len += 1;
        true
    }

    /// Removes the jobs that are not `wanted` any more; how many.
    pub fn retain(&mut self, wanted: impl Fn(&J) -> bool) -> usize {
        let before = self.len;
        self.waiting.retain(|_, jobs| {
            jobs.retain(|(_, job)| wanted(job));
            !jobs.is_empty()
        });
        self.len = self.waiting.values().map(VecDeque::len).sum();
        before - self.len
    }

    /// The next job, which is at work from now on. None: none waits, or none may begin yet.
    pub fn pop(&mut self, now: Instant) -> Option<(K, J)> {
        self.halve(now);
        let has_room = match &mut self.allowance {
            Some(allowance) => {
                let has_room = allowance.has_room(now);
                if allowance.is_exhausted() {
                    return None;
                }
                has_room
            }
            None => true,
        };
        let used = |owner: &K| self.used.get(owner).copied().unwrap_or_default();
        let has_thread = |busy: &Busy| {
            busy.threads < self.each.threads && busy.threads + busy.abandoned < self.each.with_abandoned
        };
        let may_begin =
            |owner: &K| self.busy.get(owner).is_none_or(has_thread) && (has_room || used(owner) < LITTLE);
        let candidates = self.waiting.iter().filter(|(owner, _)| may_begin(owner));
        let (&owner, _) =
            candidates.min_by_key(|(owner, jobs)| (used(owner), jobs.front().map(|job| job.0)))?;
        let jobs = self.waiting.get_mut(&owner)?;
        let (_, job) = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&owner);
        }
        self.len -= 1;
        self.busy.entry(owner).or_default().threads += 1;
        Some((owner, job))
    }

    /// A job of this owner's hangs: another may take its thread's place.
    pub(crate) fn abandon(&mut self, owner: K) {
        let busy = self.busy.entry(owner).or_default();
        busy.threads -= 1;
        busy.abandoned += 1;
    }

    /// A job has ended, after `used` processor time.
    pub fn finish(&mut self, owner: K, used: Duration, was_abandoned: bool) {
        self.spent += used;
        if let Some(allowance) = &mut self.allowance {
            allowance.spend(used);
        }
        *self.used.entry(owner).or_default() += used;
        if let Some(busy) = self.busy.get_mut(&owner) {
            let count = if was_abandoned { &mut busy.abandoned } else { &mut busy.threads };
            *count -= 1;
            if busy.threads + busy.abandoned == 0 {
                self.busy.remove(&owner);
            }
        }
    }

    fn halve(&mut self, now: Instant) {
        if now.saturating_duration_since(self.halved) >= HALVE_EVERY {
            self.halved = now;
            self.used.retain(|_, time| {
                *time /= 2;
                *time > Duration::from_millis(1)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: Duration = Duration::from_secs(10);

    fn queue(allowance: Option<Allowance>) -> Queue<u32, &'static str> {
        let all = Share { threads: 10, with_abandoned: 20, queue: 5 };
        let of_one_owner = Share { threads: 2, with_abandoned: 3, queue: 3 };
        Queue::new(&Limits { all, of_one_owner, job_timeout: BURST, allowance })
    }

    fn next(queue: &mut Queue<u32, &'static str>) -> Option<&'static str> {
        queue.pop(Instant::now()).map(|(_, job)| job)
    }

    #[test]
    fn the_room_is_bounded_for_all_and_for_each_owner() {
        let mut queue = queue(None);
        let pushed: Vec<bool> = [1, 1, 1, 1, 2, 2, 3].map(|owner| queue.push(owner, "job")).to_vec();
        assert_eq!(pushed, [true, true, true, false, true, true, false]);
        assert_eq!((queue.len(), queue.retain(|_| false), queue.len()), (5, 5, 0));
        assert!(queue.push(1, "job"));
    }

    #[test]
    fn an_owner_whose_jobs_hang_is_served_no_longer_and_the_others_are() {
        let mut queue = queue(None);
        for job in ["a", "b", "c"] {
            assert!(queue.push(1, job));
        }
        assert!(queue.push(2, "of another"));
        assert_eq!([next(&mut queue), next(&mut queue)], [Some("a"), Some("b")]);
        // Two at a time of one owner.
        assert_eq!([next(&mut queue), next(&mut queue)], [Some("of another"), None]);
        queue.abandon(1);
        queue.abandon(1);
        assert_eq!(next(&mut queue), Some("c"));
        queue.abandon(1);
        assert!(queue.push(1, "d"));
        assert_eq!(next(&mut queue), None, "three of them hang");
        queue.finish(1, Duration::ZERO, true);
        assert_eq!(next(&mut queue), Some("d"));
    }

    #[test]
    fn the_owner_who_has_used_the_least_comes_first_and_the_past_is_forgotten() {
        let mut queue = queue(None);
        for (owner, used) in [(1, 9), (3, 1)] {
            queue.push(owner, "earlier");
            queue.pop(Instant::now()).unwrap();
            queue.finish(owner, Duration::from_secs(used), false);
        }
        for (owner, job) in [(1, "first"), (1, "second"), (2, "new"), (3, "little")] {
            assert!(queue.push(owner, job));
        }
        let order: Vec<_> = (0..4).filter_map(|_| next(&mut queue)).collect();
        assert_eq!(order, ["new", "little", "first", "second"]);
        queue.pop(Instant::now() + HALVE_EVERY);
        assert_eq!(queue.used[&1], Duration::from_millis(4_500));
        assert_eq!(queue.spent(), Duration::from_secs(10));
    }

    #[test]
    fn where_the_allowance_is_used_up_those_are_served_who_have_used_little_and_not_for_ever() {
        let mut queue = queue(Some(Allowance::new(0.005, BURST)));
        queue.push(1, "greedy");
        queue.pop(Instant::now()).unwrap();
        queue.finish(1, BURST + Duration::from_secs(1), false);
        queue.push(1, "greedy again");
        queue.push(2, "new");
        let now = Instant::now();
        assert_eq!(queue.pop(now), Some((2, "new")));
        assert_eq!(queue.pop(now), None);
        queue.finish(2, BURST, false);
        queue.push(3, "another");
        assert_eq!(queue.pop(now), None, "overdrawn by more than the burst");
        assert_eq!(queue.pop(now + Duration::from_secs(10_000)).map(|(owner, _)| owner), Some(3));
    }
}
