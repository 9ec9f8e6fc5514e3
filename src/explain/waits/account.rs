//! Aggregates waits by slot and stack into seconds by server, role, operation and phase.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rules::Rules;
use super::symbols::Symbols;
use super::{Committer, Phase};
use crate::model::{Interval, Op, Role, ServerId, WaitLosses, WaitRow};
use crate::probe::Waits;
use crate::sampler::waited::Waited;

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
        sum(self.phases.values())
    }

    /// Device cache flushes of both levels.
    pub fn flush(&self) -> u64 {
        let under = self.under.iter().filter(|((_, state), _)| *state == Committer::Flush);
        sum(self.phases.get(&Phase::DeviceFlush).into_iter().chain(under.map(|(_, ns)| ns)))
    }

    fn add(&mut self, other: &Part) {
        add(&mut self.measured, other.measured);
        for (&phase, &ns) in &other.phases {
            add(self.phases.entry(phase).or_default(), ns);
        }
        for (&key, &ns) in &other.under {
            add(self.under.entry(key).or_default(), ns);
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
}

impl Account {
    /// `who`: the owner of a slot. Unknown slots are counted under no server and the role `other`.
    pub fn new(
        waits: &Waits,
        symbols: &Symbols,
        rules: &Rules,
        mut who: impl FnMut(u32) -> Option<Who>,
    ) -> Account {
        let tell = |stack| Some(rules.tell(symbols, waits.stacks.get(&stack)?));
        let owner = |slot| who(slot).map(|Who { server, role, op }| (server, role, op));
        let mut waited = Waited::default();
        waited.take(&waits.times, &waits.waits, tell, owner);
        Account::of(waited.rows(), waits.window, waits.lost)
    }

    /// Of an interval for which they were recorded.
    pub(crate) fn recorded(m: &Interval) -> Account {
        Account::of(&m.waits, m.span.duration, m.wait_losses)
    }

    fn of(rows: &[WaitRow], window: Duration, lost: WaitLosses) -> Account {
        let mut account = Account { window, lost, ..Account::default() };
        for row in rows {
            let who = Who { server: row.server, role: row.role, op: row.op };
            let part = account.parts.entry(who).or_default();
            let Some(phase) = row.phase else {
                add(&mut part.measured, row.ns);
                continue;
            };
            if row.ns > 0 {
                add(part.phases.entry(phase).or_default(), row.ns);
                account.stacks.push(Stack { who, phase, frames: row.stack.to_vec(), ns: row.ns });
            }
            for (state, &ns) in Committer::ALL.into_iter().zip(&row.under).filter(|(_, ns)| **ns > 0) {
                add(part.under.entry((phase, state)).or_default(), ns);
            }
        }
        account
    }

    /// For how long each role's syncs of one server waited for cache flushes of devices, in nanoseconds.
    pub(crate) fn flush_waits(&self, server: ServerId) -> BTreeMap<Role, u64> {
        let mut waits = BTreeMap::new();
        for (who, part) in self.parts.iter().filter(|(who, _)| who.server == server) {
            add(waits.entry(who.role).or_default(), part.flush());
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

/// Of a recording, anything may have been written.
fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

fn sum<'a>(times: impl IntoIterator<Item = &'a u64>) -> u64 {
    times.into_iter().fold(0, |sum, ns| sum.saturating_add(*ns))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::probe::{COMMITTER_STATES, SlotTime, SlotWait};

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
                SlotTime { slot: 300, total_ns: 1_000, cpu_ns: 100, queued_ns: 50, waits: 2, in_flight: 0 },
                SlotTime { slot: 301, total_ns: 2_000, cpu_ns: 2_000, ..SlotTime::default() },
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
        let symbols = Symbols::parse(&b"10 T jbd2_log_wait_commit\n"[..]).unwrap();
        let mut waits = waits();
        waits.stacks.insert(1, vec![0x11]);
        let of = |_| Some(who(Role::Redo));
        let total = Account::new(&waits, &symbols, &Rules::builtin(), of).total();
        assert_eq!((total.phases[&Phase::JournalCommit], total.flush()), (800, 500));
        assert_eq!(total.under.values().sum::<u64>(), 800);
        // No clock, no second level.
        waits.waits.iter_mut().for_each(|wait| wait.under = [0; COMMITTER_STATES]);
        let none = Account::new(&waits, &symbols, &Rules::builtin(), of).total();
        assert!(none.under.is_empty());
    }

    #[test]
    fn an_account_is_the_same_after_it_was_recorded() {
        use crate::model::fixture::quiet;
        use crate::recording::{History, Options};

        let symbols = Symbols::parse(&b"10 T do_fsync\n20 T jbd2_log_wait_commit\n"[..]).unwrap();
        let (mut waits, rules) = (waits(), Rules::builtin());
        waits.stacks.insert(1, vec![0x21, 0x11]);
        let direct = Account::new(&waits, &symbols, &rules, |_| Some(who(Role::Redo)));
        assert_eq!(
            direct.stacks.iter().filter(|stack| stack.frames == ["do_fsync", "jbd2_log_wait_commit"]).count(),
            1
        );

        let mut waited = Waited::default();
        let (mut history, mut m) = (History::new(Options::default()), quiet());
        // In two halves.
        for part in [2, 1] {
            let mut seen = waits.clone();
            for time in &mut seen.times {
                time.total_ns /= part;
                time.cpu_ns /= part;
                time.queued_ns /= part;
            }
            for wait in &mut seen.waits {
                wait.ns /= part;
                wait.under = wait.under.map(|ns| ns / part);
            }
            let before = waited.rows().clone();
            let tell = |stack| Some(rules.tell(&symbols, waits.stacks.get(&stack)?));
            waited.take(&seen.times, &seen.waits, tell, |_| {
                Some((who(Role::Redo).server, Role::Redo, Op::Fdatasync))
            });
            m.waits = crate::model::waits_between(&before, waited.rows());
            m.span.start = m.span.end;
            m.span.end += m.span.duration;
            m.span.sequence += 1;
            history.push(&m);
        }
        let recorded = Account::recorded(&history.last(Duration::MAX).unwrap());
        assert_eq!((&recorded.parts, &recorded.stacks), (&direct.parts, &direct.stacks));
        assert_eq!(recorded.accounted_share(), direct.accounted_share());
    }
}
