//! Classifies waits by the symbol names in their kernel stacks. The rules are data (`rules.toml`).

use serde::Deserialize;

use super::symbols::Symbols;
use super::{Committer, Phase};
use crate::model::{MAX_FRAMES, MAX_NAME};
use crate::sampler::waited::Told;

const BUILTIN: &str = include_str!("rules.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    wait: Vec<WaitRule>,
    committer: Vec<CommitterRule>,
}

#[derive(Debug, Deserialize)]
struct WaitRule {
    phase: Phase,
    #[serde(flatten)]
    names: Names,
}

#[derive(Debug, Deserialize)]
struct CommitterRule {
    state: CommitterName,
    #[serde(flatten)]
    names: Names,
}

/// Functions that decide: seen in a stack, and read in the kernel's source.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    #[serde(default)]
    frames: Vec<String>,
    #[serde(default)]
    guesses: Vec<String>,
}

impl Names {
    fn have(&self, function: &str) -> bool {
        self.frames.iter().chain(&self.guesses).any(|pattern| is_like(function, pattern))
    }
}

/// The states that a stack can reveal.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CommitterName {
    Checkpoint,
    OpenHandles,
    DataPages,
    DeviceFlush,
    LogBlocks,
}

impl Rules {
    pub fn builtin() -> Rules {
        toml::from_str(BUILTIN).expect("the built-in rules are tested")
    }

    /// The phase of a thread with this stack. `frames`: symbol names in any order, without compiler
    /// suffixes.
    pub(crate) fn phase_of<'a>(&self, frames: impl Iterator<Item = &'a str> + Clone) -> Phase {
        let decides = |rule: &&WaitRule| frames.clone().any(|frame| rule.names.have(frame));
        self.wait.iter().find(decides).map_or(Phase::Other, |rule| rule.phase)
    }

    /// What a stack says. `frames`: addresses, innermost first.
    pub fn tell(&self, symbols: &Symbols, frames: &[u64]) -> Told {
        let phase = self.phase_of(frames.iter().filter_map(|&address| symbols.name(address)));
        (phase, functions(frames, symbols).into())
    }

    /// The state of a committer that is in a function of this name.
    pub fn committer_in(&self, function: &str) -> Option<Committer> {
        let rule = self.committer.iter().find(|rule| rule.names.have(function))?;
        Some(match rule.state {
            CommitterName::Checkpoint => Committer::Checkpoint,
            CommitterName::OpenHandles => Committer::OpenHandles,
            CommitterName::DataPages => Committer::Data,
            CommitterName::DeviceFlush => Committer::Flush,
            CommitterName::LogBlocks => Committer::LogBlocks,
        })
    }
}

/// Outermost first, from the system call to the wait, without the frames of the tracing itself.
fn functions(frames: &[u64], symbols: &Symbols) -> Vec<String> {
    let mut names: Vec<String> = frames
        .iter()
        .take(MAX_FRAMES)
        .map(|&address| symbols.name(address).map_or_else(|| format!("{address:#x}"), at_most))
        .collect();
    // Frames beyond the switch to another thread belong to the tracing.
    if let Some(at) = names.iter().position(|name| name == "__schedule") {
        names.drain(..at);
    }
    names.reverse();
    names
}

fn at_most(name: &str) -> String {
    let end = (0..=name.len().min(MAX_NAME)).rfind(|&at| name.is_char_boundary(at));
    name[..end.unwrap_or(0)].to_owned()
}

fn is_like(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_guess_was_seen_and_each_stack_that_was_seen_is_understood() {
        let rules = Rules::builtin();
        let seen =
            include_str!("stacks.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let stacks: Vec<(Vec<&str>, &str)> = seen
            .map(|line| {
                let (frames, phase) = line.split_once(" [").expect("frames and a phase");
                (frames.split(' ').collect(), phase.trim_end_matches(']'))
            })
            .collect();
        for (frames, phase) in &stacks {
            assert_eq!(rules.phase_of(frames.iter().copied()).title(), *phase, "{frames:?}");
        }
        let all: Vec<&str> = stacks.iter().flat_map(|(frames, _)| frames.iter().copied()).collect();
        for pattern in rules.wait.iter().flat_map(|rule| &rule.names.frames) {
            assert!(all.iter().any(|frame| is_like(frame, pattern)), "no stack has {pattern}: it is a guess");
        }
        assert!(rules.committer.iter().all(|rule| rule.names.frames.is_empty()), "their stacks are not kept");
    }

    /// Stacks as the kernel shows them, innermost frame first, from schedule outwards.
    #[test]
    fn every_phase_that_is_a_wait_has_a_rule() {
        let rules = Rules::builtin();
        let not_waits = [Phase::RunQueue, Phase::OnCpu, Phase::Other];
        for phase in Phase::ALL.into_iter().filter(|phase| !not_waits.contains(phase)) {
            assert!(rules.wait.iter().any(|rule| rule.phase == phase), "no rule leads to {phase:?}");
        }
    }

    #[test]
    fn stacks_of_each_filesystem_say_what_is_waited_for() {
        let rules = Rules::builtin();
        for (expected, stack) in [
            (
                Phase::JournalCommit,
                "schedule jbd2_log_wait_commit ext4_fsync_journal ext4_sync_file do_fsync",
            ),
            (Phase::DeviceFlush, "io_schedule submit_bio_wait blkdev_issue_flush ext4_sync_file do_fsync"),
            (
                Phase::DataPages,
                "io_schedule folio_wait_bit_common folio_wait_writeback __filemap_fdatawait_range \
                 file_write_and_wait_range ext4_sync_file",
            ),
            // Waiting for a commit in order to make room is journal space, not a commit; so is the lock
            // around it.
            (
                Phase::JournalSpace,
                "schedule jbd2_log_wait_commit jbd2_log_do_checkpoint __jbd2_log_wait_for_space \
                 add_transaction_credits start_this_handle ext4_do_writepages do_writepages",
            ),
            (
                Phase::JournalSpace,
                "schedule mutex_lock_io __jbd2_log_wait_for_space add_transaction_credits do_writepages",
            ),
            (Phase::MetadataBuffer, "io_schedule bit_wait_io do_get_write_access ext4_reserve_inode_write"),
            (Phase::LogForce, "schedule xlog_wait_on_iclog xfs_log_force_seq xfs_file_fsync"),
            (Phase::LogForce, "schedule btrfs_sync_log btrfs_sync_file do_fsync"),
            (Phase::RemoteFilesystem, "schedule request_wait_answer fuse_simple_request fuse_fsync_common"),
            (Phase::Lock, "schedule rwsem_down_write_slowpath down_write fuse_fsync do_fsync"),
            (Phase::DataPages, "io_schedule __folio_lock writeback_iter do_writepages"),
            (Phase::DeviceQueue, "io_schedule rq_qos_wait wbt_wait submit_bio_noacct do_writepages"),
            // Writes with O_DIRECT, and the flush that makes them durable.
            (
                Phase::DataPages,
                "schedule io_schedule_timeout __iomap_dio_rw iomap_dio_rw ext4_file_write_iter vfs_write",
            ),
            (
                Phase::DeviceFlush,
                "io_schedule submit_bio_wait blkdev_issue_flush iomap_dio_complete iomap_dio_rw",
            ),
            (
                Phase::MetadataWrite,
                "io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit fsync_buffers_list \
                 generic_buffers_fsync_noflush ext4_fsync_nojournal",
            ),
            (Phase::Other, "schedule something_new do_fsync"),
        ] {
            assert_eq!(rules.phase_of(stack.split_whitespace()), expected, "{stack}");
        }
    }

    #[test]
    fn the_committers_functions_are_distinguished() {
        let rules = Rules::builtin();
        assert_eq!(rules.committer_in("jbd2_journal_commit_transaction"), Some(Committer::LogBlocks));
        assert_eq!(rules.committer_in("jbd2_journal_wait_updates"), Some(Committer::OpenHandles));
        assert_eq!(rules.committer_in("kjournald2"), None);
    }
}
