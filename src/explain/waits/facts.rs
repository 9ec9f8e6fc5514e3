//! The two or three most important facts, each a sentence with the measurement that supports it.

use super::processors::{is_cause, queued_ns};
use super::{Account, Committer, Journal, Phase, Processors};
use crate::render::Style;
use crate::text;

/// A neighbour above this share of a journal's syncs gets a sentence.
const MIN_NEIGHBOUR_SHARE: f64 = 0.20;
const MAX_FACTS: usize = 3;

/// The largest first. `durable_writes`: which writes of a traced server are durable without a sync, in words.
pub fn facts(
    account: &Account,
    processors: &Processors,
    journals: &[Journal],
    durable_writes: Option<&str>,
    style: &Style,
) -> Vec<String> {
    let total = account.total();
    let all = total.accounted();
    if all == 0 {
        return Vec::new();
    }
    let under = |wanted: Committer| -> u64 {
        let of = total.under.iter().filter(|((_, state), _)| *state == wanted);
        of.fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    };
    let phase = |wanted| total.phases.get(&wanted).copied().unwrap_or(0);
    let queue = processors.queue_in_words();
    let causes = [
        (
            total.flush(),
            "the device to flush its cache; fewer syncs of others on it, power-loss protection or a faster device shorten this",
        ),
        (
            phase(Phase::DataPages).saturating_add(under(Committer::Data)),
            "data pages to be written, at the speed of the device",
        ),
        (under(Committer::LogBlocks), "the blocks of the journal to be written"),
        (
            phase(Phase::JournalSpace).saturating_add(under(Committer::Checkpoint)),
            "space in the journal: it is too small for this load, or its checkpoints are too slow",
        ),
        (under(Committer::OpenHandles), "other writers to finish with the transaction being committed"),
        (queued_ns(account), queue.as_str()),
        (phase(Phase::Lock), "a lock, because syncs of the same file or filesystem are serialised"),
        (phase(Phase::RemoteFilesystem), "the server of a FUSE or network filesystem"),
        (phase(Phase::MetadataWrite), "metadata to be read or written, outside any journal"),
        (phase(Phase::DeviceQueue), "space in the device's queue: more is written than the device accepts"),
        (phase(Phase::Memory), "memory"),
    ];
    let mut causes: Vec<_> = causes.into_iter().filter(|(ns, _)| is_cause(*ns, all)).collect();
    causes.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let mut facts: Vec<String> = causes
        .into_iter()
        .map(|(ns, what)| {
            let share = text::percent(ns as f64 / all as f64);
            format!("{share} of the time in syncs ({}) was spent waiting for {what}.", text::duration(ns))
        })
        .collect();
    facts.truncate(MAX_FACTS - 1);
    facts.extend(neighbours(journals, durable_writes, style));
    facts.truncate(MAX_FACTS);
    facts
}

/// Who else causes the commits of the journals that the syncs wait for.
pub fn neighbours<'a>(
    journals: &'a [Journal],
    durable_writes: Option<&'a str>,
    style: &'a Style,
) -> impl Iterator<Item = String> + 'a {
    journals.iter().filter_map(move |journal| neighbour(journal, durable_writes, style))
}

/// A neighbour that causes a large part of a journal's commits. None is blamed where the server's own durable
/// writes, which are not among a journal's syncs here, may be the cause.
fn neighbour(journal: &Journal, durable_writes: Option<&str>, style: &Style) -> Option<String> {
    let (name, n) = journal.neighbours.first()?;
    let all = journal.syncs + journal.neighbour_syncs();
    let share = *n as f64 / all.max(1) as f64;
    let unattributed = match journal.unattributed {
        0 => String::new(),
        n => format!(" {} more on this host were not attributed.", text::count(n)),
    };
    let device = style.name(journal.device.as_bytes());
    (share >= MIN_NEIGHBOUR_SHARE).then(|| match durable_writes {
        Some(writes) => format!(
            "Journal commits and device flushes on {device} may be for the server's own writes: {writes}. So the {} \
             of the syncs there that others make need not be the cause.{unattributed}",
            text::percent(journal.neighbour_syncs() as f64 / all as f64),
        ),
        None => format!(
            "{} of the syncs on {device} come from {}, which is not traced: journal commits and device flushes serve \
             it as well.{unattributed}",
            text::percent(share),
            style.name(name.as_bytes())
        ),
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

    fn told(account: &Account, journals: &[Journal], durable_writes: Option<&str>) -> Vec<String> {
        facts(account, &Processors::default(), journals, durable_writes, &Style::default())
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
        let facts = told(&account, &[], None);
        assert!(facts[0].starts_with("70 % of the time in syncs (700ms)"), "{facts:?}");
        assert!(facts[0].contains("flush its cache"));
        assert!(facts[1].starts_with("15 %") && facts[1].contains("data pages"));
        assert_eq!(facts.len(), 2, "small causes get no sentence");
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
            durable_writes: 0,
            neighbours: vec![("xtrabackup".into(), n)],
            unattributed: 10_900,
            writers: None,
        };
        let said = told(&account, &[journal(40)], None);
        assert!(said[0].contains("40 %") && said[0].contains("xtrabackup"), "{said:?}");
        assert!(said[0].ends_with(" 10,900 more on this host were not attributed."), "{said:?}");
        assert_eq!(told(&account, &[journal(4)], None), [""; 0]);
        assert_eq!(told(&Account::default(), &[journal(40)], None), [""; 0]);
        // Where the server's own writes are durable, they may be the cause.
        let writes = "each write of the redo log is itself durable (why)";
        let said = told(&account, &[journal(40)], Some(writes));
        assert!(
            !said[0].contains("xtrabackup") && said[0].contains("may be for the server's own"),
            "{said:?}"
        );
        assert!(said[0].contains(writes) && said[0].contains("40 %"), "{said:?}");
    }
}
