//! What syncs waited for since that is watched, by whose they are: out of what the kernel side sums up by
//! slot and by stack. Slots serve one file after another, and files get to be known, so what is new in each
//! slot is added to what its owner has at that time. Pure, but for the probe that lies here.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::model::{Committer, Op, Phase, Role, ServerId, Stack, Table, WaitRow};
use crate::probe::{SlotTime, SlotWait, WaitProbe};

/// What a stack says: of what phase a wait there is, and its functions.
pub type Told = (Phase, Stack);
/// Tells that of addresses, the innermost first.
pub type Tell = Box<dyn Fn(&[u64]) -> Told + Send>;

/// Nanoseconds in all, and by the committer's state.
type Times = [u64; 1 + Committer::ALL.len()];

#[derive(Debug, Default)]
pub(crate) struct Waited {
    /// The most that was read of each.
    times: HashMap<u32, [u64; 3]>,
    waits: HashMap<(u32, u64), Times>,
    /// Which of them did not change when they were read last.
    idle: Vec<(u32, u64)>,
    told: HashMap<u64, Told>,
    rows: Table<WaitRow>,
}

/// A probe that is read with each snapshot.
pub(super) struct Kept {
    pub probe: WaitProbe,
    pub tell: Tell,
    pub waited: Waited,
}

impl Waited {
    /// Takes in totals. `tell`: what the stack with this hash says, None: nothing for now. `owner`: whose a
    /// slot is; what is of an unknown one is under no server and of the role `other`.
    pub fn take(
        &mut self,
        times: &[SlotTime],
        waits: &[SlotWait],
        mut tell: impl FnMut(u64) -> Option<Told>,
        mut owner: impl FnMut(u32) -> Option<(ServerId, Role, Op)>,
    ) {
        let mut owners = HashMap::new();
        let mut new = Vec::new();
        let mut add = |slot: u32, phase, stack, [ns, under @ ..]: Times| {
            if ns > 0 || under.iter().any(|ns| *ns > 0) {
                let (server, role, op) =
                    *owners.entry(slot).or_insert_with(|| owner(slot).unwrap_or_else(|| nobody(slot)));
                new.push(WaitRow { server, role, op, phase, stack, ns, under });
            }
        };
        for time in times {
            let now = [time.total_ns, time.cpu_ns, time.queued_ns];
            let phases = [None, Some(Phase::OnCpu), Some(Phase::RunQueue)];
            for (phase, ns) in phases.into_iter().zip(since_last(&mut self.times, time.slot, now)) {
                add(time.slot, phase, Arc::default(), alone(ns));
            }
        }
        // One that found no place by its slot may be there by its operation as well.
        let mut sums: HashMap<(u32, u64), Times> = HashMap::new();
        for wait in waits {
            let sum = sums.entry((wait.slot, wait.stack)).or_default();
            sum.iter_mut().zip(times_of(wait)).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        }
        self.idle.clear();
        for ((slot, stack), now) in sums {
            let new = since_last(&mut self.waits, (slot, stack), now);
            if new == Times::default() {
                self.idle.push((slot, stack));
                continue;
            }
            if !self.told.contains_key(&stack)
                && let Some(told) = tell(stack)
            {
                self.told.insert(stack, told);
            }
            let (phase, functions) = self.told.get(&stack).cloned().unwrap_or((Phase::Other, Arc::default()));
            let times = if phase.has_committer() { new } else { alone(new[0]) };
            add(slot, Some(phase), functions, times);
        }
        self.rows.append(new.into());
    }

    pub fn rows(&self) -> &Table<WaitRow> {
        &self.rows
    }

    /// After [`Waited::take`] of these `times`: the kernel side is told to give up the totals that did not
    /// change, of slots whose syncs have ended; its next ones begin anew. Those by operation stay.
    pub fn forget_idle(&mut self, times: &[SlotTime], forget: impl Fn(u32, u64) -> bool) {
        let busy: HashSet<u32> =
            times.iter().filter(|time| time.in_flight != 0).map(|time| time.slot).collect();
        for (slot, stack) in self.idle.drain(..) {
            let is_by_operation = (slot as usize) < Op::ALL.len();
            if !is_by_operation && !busy.contains(&slot) && forget(slot, stack) {
                self.waits.remove(&(slot, stack));
            }
        }
    }

    /// Those of servers that are remembered no longer are of [`ServerId::ENDED`].
    pub fn fold_ended(&mut self, gone: &HashSet<ServerId>) {
        if self.rows.iter().any(|row| gone.contains(&row.server)) {
            let rows =
                std::mem::take(&mut self.rows).into_iter().map(|row| match gone.contains(&row.server) {
                    true => WaitRow { server: ServerId::ENDED, ..row },
                    false => row,
                });
            self.rows = rows.collect();
        }
    }
}

/// Slots below the number of operations are of syncs without a row.
fn nobody(slot: u32) -> (ServerId, Role, Op) {
    (ServerId::NONE, Role::Other, Op::ALL.get(slot as usize).copied().unwrap_or(Op::Fsync))
}

fn alone(ns: u64) -> Times {
    let mut times = Times::default();
    times[0] = ns;
    times
}

/// Time that the committer's clock did not cover is `other`. All zero: no second level.
fn times_of(wait: &SlotWait) -> Times {
    let mut times = alone(wait.ns);
    times[1..1 + wait.under.len()].copy_from_slice(&wait.under);
    let seen: u64 = wait.under.iter().sum();
    if seen > 0 {
        times[1 + Committer::Other as usize] = wait.ns.saturating_sub(seen);
    }
    times
}

fn since_last<K: Eq + Hash, const N: usize>(
    last: &mut HashMap<K, [u64; N]>,
    key: K,
    now: [u64; N],
) -> [u64; N] {
    let before = last.entry(key).or_insert([0; N]);
    std::array::from_fn(|i| {
        let new = now[i].saturating_sub(before[i]);
        before[i] += new;
        new
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: ServerId = ServerId { pid: 7, start_ns: 0 };

    fn take(waited: &mut Waited, ns: u64, role: Role) {
        let mut under = [0; Committer::ALL.len() - 1];
        under[Committer::Flush as usize] = ns / 2;
        let time = SlotTime { slot: 300, total_ns: 2 * ns, cpu_ns: ns / 10, waits: 1, ..SlotTime::default() };
        let wait = SlotWait { slot: 300, stack: 5, ns, waits: 1, under };
        let told = |_| Some((Phase::JournalCommit, Stack::from(["f".to_owned()])));
        waited.take(&[time], &[wait], told, |_| Some((SERVER, role, Op::Fsync)));
    }

    #[test]
    fn what_is_new_belongs_to_whoever_has_the_slot_by_then() {
        let mut waited = Waited::default();
        take(&mut waited, 1_000, Role::Redo);
        let first = waited.rows().clone();
        take(&mut waited, 1_600, Role::Binlog);
        // A total that went back adds nothing.
        take(&mut waited, 1_500, Role::Undo);
        let all = waited.rows();
        assert!(first.iter().all(|row| all.contains(row)), "{all:?}");
        let of = |role, phase| {
            let row = all.iter().find(|row| (row.role, row.phase) == (role, phase)).unwrap();
            (row.ns, row.under[Committer::Flush as usize], row.under[Committer::Other as usize])
        };
        assert_eq!(of(Role::Redo, None), (2_000, 0, 0));
        assert_eq!(of(Role::Redo, Some(Phase::OnCpu)), (100, 0, 0));
        assert_eq!(of(Role::Redo, Some(Phase::JournalCommit)), (1_000, 500, 500));
        assert_eq!(of(Role::Binlog, Some(Phase::JournalCommit)), (600, 300, 300));
        assert!(all.iter().all(|row| row.role != Role::Undo));
        // Nor does one that begins anew after it was given up.
        let idle = [SlotTime { slot: 300, ..SlotTime::default() }];
        waited.forget_idle(&[SlotTime { in_flight: 1, ..idle[0] }], |_, _| panic!("it is in use"));
        take(&mut waited, 1_500, Role::Undo);
        waited.forget_idle(&idle, |slot, stack| (slot, stack) == (300, 5));
        take(&mut waited, 80, Role::Temporary);
        let row = waited
            .rows()
            .iter()
            .find(|row| row.phase == Some(Phase::JournalCommit) && row.role == Role::Temporary);
        assert_eq!(row.unwrap().ns, 80);
        waited.fold_ended(&[SERVER].into());
        assert!(waited.rows().iter().all(|row| row.server == ServerId::ENDED));
    }
}
