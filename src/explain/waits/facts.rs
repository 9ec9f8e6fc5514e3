//! The two or three facts that matter, each a sentence with its figures; nothing that the figures do not carry.

use super::{Account, Committer, Journal, Phase};
use crate::render::Style;
use crate::text;

/// A cause below this share of the time in syncs is not worth a sentence.
const WORTH_A_SENTENCE: f64 = 0.10;
/// From this share on, a neighbour's syncs are worth one.
const MUCH_OF_A_JOURNAL: f64 = 0.20;
const MOST: usize = 3;

/// The greatest first.
pub fn facts(account: &Account, journals: &[Journal], style: &Style) -> Vec<String> {
    let total = account.total();
    let all = total.accounted();
    if all == 0 {
        return Vec::new();
    }
    let under = |wanted: Committer| -> u64 {
        total.under.iter().filter(|((_, state), _)| *state == wanted).map(|(_, ns)| ns).sum()
    };
    let phase = |wanted| total.phases.get(&wanted).copied().unwrap_or(0);
    let causes = [
        (
            total.flush(),
            "the device to flush its cache, which only a faster or a power-protected device shortens",
        ),
        (
            phase(Phase::DataPages) + under(Committer::Data),
            "data pages to be written, which is how fast the device takes writes",
        ),
        (under(Committer::LogBlocks), "the blocks of the journal to be written"),
        (
            phase(Phase::JournalSpace) + under(Committer::Checkpoint),
            "room in the journal: it is too small for what is written, or its checkpoints are too slow",
        ),
        (
            under(Committer::OpenHandles),
            "other writers to finish with the transaction that is being committed",
        ),
        (
            phase(Phase::RunQueue) + under(Committer::Queued),
            "a free processor: there is more to run than processors",
        ),
        (phase(Phase::Lock), "a lock: syncs of the same file or filesystem, one after the other"),
        (phase(Phase::RemoteFilesystem), "the server of a FUSE or network filesystem"),
        (phase(Phase::MetadataWrite), "metadata to be read or written, outside any journal"),
        (phase(Phase::DeviceQueue), "room in the device's queue: more is written than it takes"),
        (phase(Phase::Memory), "memory"),
    ];
    let mut causes: Vec<_> =
        causes.into_iter().filter(|(ns, _)| *ns as f64 >= WORTH_A_SENTENCE * all as f64).collect();
    causes.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let mut facts: Vec<String> = causes
        .into_iter()
        .map(|(ns, what)| {
            let share = text::percent(ns as f64 / all as f64);
            format!("{share} of the time in syncs ({}) went by waiting for {what}.", text::duration(ns))
        })
        .collect();
    facts.truncate(MOST - 1);
    facts.extend(journals.iter().filter_map(|journal| neighbour(journal, style)));
    facts.truncate(MOST);
    facts
}

/// A neighbour whose syncs make a good part of a journal's commits.
fn neighbour(journal: &Journal, style: &Style) -> Option<String> {
    let (name, n) = journal.neighbours.first()?;
    let all = journal.syncs + journal.neighbour_syncs();
    let share = *n as f64 / all.max(1) as f64;
    (share >= MUCH_OF_A_JOURNAL).then(|| {
        format!(
            "{} of the syncs on {} come from {}, which is not traced: the journal commits, and the device flushes, for \
             it too.",
            text::percent(share),
            style.name(journal.device.as_bytes()),
            style.name(name.as_bytes())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Part, Who};
    use super::*;
    use crate::model::{Op, Role, ServerId};

    fn account(phases: &[(Phase, u64)], under: &[((Phase, Committer), u64)]) -> Account {
        let who = Who { server: ServerId { pid: 7, start_ns: 0 }, role: Role::Redo, op: Op::Fdatasync };
        let part = Part {
            measured: phases.iter().map(|(_, ns)| ns).sum(),
            phases: phases.iter().copied().collect(),
            under: under.iter().copied().collect(),
        };
        Account { parts: [(who, part)].into(), ..Account::default() }
    }

    #[test]
    fn a_flush_that_hides_in_a_commit_is_the_first_fact() {
        let account = account(
            &[
                (Phase::JournalCommit, 800_000_000),
                (Phase::DataPages, 150_000_000),
                (Phase::OnCpu, 50_000_000),
            ],
            &[((Phase::JournalCommit, Committer::Flush), 700_000_000)],
        );
        let facts = facts(&account, &[], &Style::default());
        assert!(facts[0].starts_with("70 % of the time in syncs (700ms)"), "{facts:?}");
        assert!(facts[0].contains("flush its cache"));
        assert!(facts[1].starts_with("15 %") && facts[1].contains("data pages"));
        assert_eq!(facts.len(), 2, "what is little is not told");
    }

    #[test]
    fn a_neighbour_is_named_when_its_syncs_are_many() {
        let account = account(&[(Phase::JournalCommit, 1_000)], &[]);
        let journal = |n| Journal {
            device: "/dev/vda1".into(),
            filesystem: None,
            mount: None,
            commits: Some(5),
            device_flushes: 10,
            log_writes: 0,
            syncs: 60,
            neighbours: vec![("xtrabackup".into(), n)],
            writers: None,
        };
        let told = facts(&account, &[journal(40)], &Style::default());
        assert!(told[0].contains("40 %") && told[0].contains("xtrabackup"), "{told:?}");
        assert_eq!(facts(&account, &[journal(4)], &Style::default()), [""; 0]);
        assert_eq!(facts(&Account::default(), &[journal(40)], &Style::default()), [""; 0]);
    }
}
