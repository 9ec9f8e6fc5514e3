//! Aggregates waits by slot and stack into seconds by server, role, operation and phase.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::rules::Rules;
use super::symbols::Symbols;
use super::{Committer, Phase};
use crate::model::{Op, Role, ServerId};
use crate::probe::{COMMITTER_STATES, WaitLosses, Waits};

/// The server, role and operation of some syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    pub server: ServerId,
    pub role: Role,
    pub op: Op,
}

/// Nanoseconds of one (server, role, operation).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// From start to end of the syncs, measured in the calls themselves.
    pub measured: u64,
    /// Level one, measured by the scheduler hooks.
    pub phases: BTreeMap<Phase, u64>,
    /// Level two, for those waits of level one that have one.
    pub under: BTreeMap<(Phase, Committer), u64>,
}

impl Part {
    pub fn accounted(&self) -> u64 {
        self.phases.values().sum()
    }

    /// Device cache flushes of both levels.
    pub fn flush(&self) -> u64 {
        let under = self.under.iter().filter(|((_, state), _)| *state == Committer::Flush);
        self.phases.get(&Phase::DeviceFlush).copied().unwrap_or(0) + under.map(|(_, ns)| ns).sum::<u64>()
    }

    fn add(&mut self, other: &Part) {
        self.measured += other.measured;
        for (&phase, ns) in &other.phases {
            *self.phases.entry(phase).or_default() += ns;
        }
        for (&key, ns) in &other.under {
            *self.under.entry(key).or_default() += ns;
        }
    }
}

/// A stack with its time, for `--folded` and the flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub who: Who,
    pub phase: Phase,
    /// Outermost first; empty if there is no stack.
    pub frames: Vec<String>,
    pub ns: u64,
}

/// How the time of a window's syncs was spent.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub window: Duration,
    pub parts: BTreeMap<Who, Part>,
    pub stacks: Vec<Stack>,
    pub lost: WaitLosses,
    /// Syncs whose waits are unknown.
    pub syncs_unseen: u64,
}

impl Account {
    /// `who`: the owner of a slot. Unknown slots are counted under no server and the role `other`.
    pub fn new(waits: &Waits, symbols: &Symbols, rules: &Rules, who: impl Fn(u32) -> Option<Who>) -> Account {
        let unknown = |slot: u32| Who {
            server: ServerId::NONE,
            role: Role::Other,
            op: Op::ALL.get(slot as usize).copied().unwrap_or(Op::Fsync),
        };
        let mut slots: HashMap<u32, Who> = HashMap::new();
        let mut owner = |slot: u32| *slots.entry(slot).or_insert_with(|| who(slot).unwrap_or(unknown(slot)));
        let mut account = Account { window: waits.window, lost: waits.lost, ..Account::default() };
        let mut stacks: BTreeMap<(Who, Phase, u64), u64> = BTreeMap::new();
        for time in &waits.times {
            let who = owner(time.slot);
            let part = account.parts.entry(who).or_default();
            part.measured += time.total_ns;
            for (phase, ns) in [(Phase::OnCpu, time.cpu_ns), (Phase::RunQueue, time.queued_ns)] {
                *part.phases.entry(phase).or_default() += ns;
                *stacks.entry((who, phase, 0)).or_default() += ns;
            }
        }
        let mut phases: HashMap<u64, Phase> = HashMap::new();
        for wait in &waits.waits {
            let who = owner(wait.slot);
            let phase = *phases.entry(wait.stack).or_insert_with(|| {
                let frames = waits.stacks.get(&wait.stack).map(Vec::as_slice).unwrap_or_default();
                rules.phase_of(frames.iter().filter_map(|&address| symbols.name(address)))
            });
            let part = account.parts.entry(who).or_default();
            *part.phases.entry(phase).or_default() += wait.ns;
            *stacks.entry((who, phase, wait.stack)).or_default() += wait.ns;
            if phase.has_committer() {
                add_under(part, phase, wait.ns, &wait.under);
            }
        }
        account.stacks = stacks
            .into_iter()
            .filter(|(_, ns)| *ns > 0)
            .map(|((who, phase, stack), ns)| {
                let frames = waits.stacks.get(&stack).map(Vec::as_slice).unwrap_or_default();
                Stack { who, phase, frames: names(frames, symbols), ns }
            })
            .collect();
        for part in account.parts.values_mut() {
            part.phases.retain(|_, ns| *ns > 0);
        }
        account
    }

    /// For how long each role's syncs of one server waited for cache flushes of devices, in nanoseconds.
    pub(crate) fn flush_waits(&self, server: ServerId) -> BTreeMap<Role, u64> {
        let mut waits = BTreeMap::new();
        for (who, part) in self.parts.iter().filter(|(who, _)| who.server == server) {
            *waits.entry(who.role).or_default() += part.flush();
        }
        waits
    }

    /// The sum of all parts.
    pub fn total(&self) -> Part {
        let mut total = Part::default();
        self.parts.values().for_each(|part| total.add(part));
        total
    }

    /// The sum of the parts as a share of the measured time; 1 if nothing was missed. None: nothing was
    /// measured.
    pub fn accounted_share(&self) -> Option<f64> {
        let total = self.total();
        (total.measured > 0).then(|| total.accounted() as f64 / total.measured as f64)
    }
}

/// The committer's states during a wait; time that its clock did not cover is `other`. All zero: no second
/// level.
fn add_under(part: &mut Part, phase: Phase, ns: u64, under: &[u64; COMMITTER_STATES]) {
    let seen: u64 = under.iter().sum();
    if seen == 0 {
        return;
    }
    for (state, &ns) in Committer::ALL.into_iter().zip(under).filter(|(_, ns)| **ns > 0) {
        *part.under.entry((phase, state)).or_default() += ns;
    }
    if ns > seen {
        *part.under.entry((phase, Committer::Other)).or_default() += ns - seen;
    }
}

/// Outermost first, from the system call to the wait, without the frames of the tracing itself.
fn names(frames: &[u64], symbols: &Symbols) -> Vec<String> {
    let mut names: Vec<String> = frames
        .iter()
        .map(|&address| symbols.name(address).map_or_else(|| format!("{address:#x}"), str::to_owned))
        .collect();
    // Frames beyond the switch to another thread belong to the tracing.
    if let Some(at) = names.iter().position(|name| name == "__schedule") {
        names.drain(..at);
    }
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{SlotTime, SlotWait};

    fn who(role: Role) -> Who {
        Who { server: ServerId { pid: 7, start_ns: 0 }, role, op: Op::Fdatasync }
    }

    fn waits() -> Waits {
        let mut under = [0; COMMITTER_STATES];
        under[Committer::Flush as usize] = 500;
        under[Committer::LogBlocks as usize] = 250;
        Waits {
            window: Duration::from_secs(1),
            times: vec![
                SlotTime { slot: 300, total_ns: 1_000, cpu_ns: 100, queued_ns: 50, waits: 2 },
                SlotTime { slot: 301, total_ns: 2_000, cpu_ns: 2_000, queued_ns: 0, waits: 0 },
            ],
            waits: vec![
                SlotWait { slot: 300, stack: 1, ns: 800, waits: 1, under },
                SlotWait { slot: 300, stack: 0, ns: 40, waits: 1, under },
            ],
            stacks: HashMap::from([(1, vec![])]),
            ..Waits::default()
        }
    }

    #[test]
    fn the_parts_add_up_to_what_was_measured_and_say_if_they_do_not() {
        let of = |slot| (slot == 300).then_some(who(Role::Redo));
        let account = Account::new(&waits(), &Symbols::default(), &Rules::builtin(), of);
        let redo = &account.parts[&who(Role::Redo)];
        assert_eq!((redo.measured, redo.accounted()), (1_000, 990));
        let expected = [(Phase::RunQueue, 50), (Phase::OnCpu, 100), (Phase::Other, 840)];
        assert_eq!(redo.phases, BTreeMap::from(expected));
        // A slot without a known owner is counted all the same.
        assert_eq!(account.total().measured, 3_000);
        assert!((account.accounted_share().unwrap() - 2_990.0 / 3_000.0).abs() < 1e-9);
    }

    #[test]
    fn flushes_of_both_levels_are_one_sum_and_level_two_adds_up_to_its_wait() {
        let mut part = Part::default();
        let mut under = [0; COMMITTER_STATES];
        under[Committer::Flush as usize] = 500;
        under[Committer::LogBlocks as usize] = 250;
        part.phases.insert(Phase::DeviceFlush, 30);
        add_under(&mut part, Phase::JournalCommit, 800, &under);
        assert_eq!(part.flush(), 530);
        assert_eq!(part.under.values().sum::<u64>(), 800);
        // No clock, no second level.
        let mut none = Part::default();
        add_under(&mut none, Phase::JournalCommit, 800, &[0; COMMITTER_STATES]);
        assert!(none.under.is_empty());
    }
}
