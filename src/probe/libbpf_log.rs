//! libbpf's messages while it loads and attaches, kept instead of printed: a mode that fails does not concern
//! the user where another one works, and where none does we explain the cause in our own words.

use std::collections::VecDeque;
use std::sync::{Mutex, Once};

use libbpf_rs::{PrintLevel, set_print};

use crate::linux::lock;

/// The latest messages are kept, up to so many bytes: a verifier's log can be megabytes long, and ends with
/// the reason.
const MAX_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Log {
    messages: VecDeque<String>,
    bytes: usize,
    /// How many there were, with those that are kept no more.
    count: usize,
}

static LOG: Mutex<Log> = Mutex::new(Log { messages: VecDeque::new(), bytes: 0, count: 0 });

impl Log {
    fn push(&mut self, mut message: String) {
        if message.len() > MAX_BYTES {
            let least = message.len() - MAX_BYTES;
            let from = (least..).find(|&at| message.is_char_boundary(at)).unwrap_or(message.len());
            message.drain(..from);
        }
        self.bytes += message.len();
        self.count += 1;
        self.messages.push_back(message);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// Those after the first `count`.
    fn since(&self, count: usize) -> String {
        let wanted = self.count.saturating_sub(count).min(self.messages.len());
        self.messages.range(self.messages.len() - wanted..).map(String::as_str).collect()
    }
}

/// From now on libbpf's warnings come here instead of to standard error.
pub(super) fn capture() {
    static CAPTURED: Once = Once::new();
    CAPTURED.call_once(|| {
        set_print(Some((PrintLevel::Info, |_, message| lock(&LOG).push(message))));
    });
}

/// Takes the messages since the last call.
pub(crate) fn take_libbpf_log() -> String {
    let mut log = lock(&LOG);
    log.bytes = 0;
    std::mem::take(&mut log.messages).into_iter().collect()
}

/// How many messages there have been.
pub(super) fn count() -> usize {
    lock(&LOG).count
}

/// Which program the kernel's verifier has refused since so many messages, and its reason.
pub(super) fn refusal_since(count: usize) -> Option<String> {
    refusal(&lock(&LOG).since(count))
}

/// libbpf loads a program that was refused once more, for the verifier's log. Its last line that is no
/// statistic is the reason.
fn refusal(log: &str) -> Option<String> {
    const STATISTICS: [&str; 5] =
        ["processed ", "verification time ", "stack depth ", "peak_states ", "mark_read "];
    let (before, _) = log.rsplit_once("-- END PROG LOAD LOG --")?;
    let (head, said) = before.rsplit_once("-- BEGIN PROG LOAD LOG --")?;
    let program = head.rsplit_once("prog '")?.1.split('\'').next()?;
    let said = said.rsplit_once('\n').map_or(said, |(said, _end)| said);
    let is_reason = |line: &&str| !line.is_empty() && !STATISTICS.iter().any(|start| line.starts_with(start));
    let reason = said.lines().map(str::trim).rfind(is_reason)?;
    Some(format!("the kernel's verifier refuses {program}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_messages_are_kept_and_the_end_of_a_long_one() {
        let mut log = Log::default();
        log.push("first\n".into());
        (0..100).for_each(|_| log.push("x".repeat(1_000)));
        log.push("last\n".into());
        assert!(log.bytes <= MAX_BYTES && log.bytes > MAX_BYTES - 2_000, "{}", log.bytes);
        assert_ne!(log.messages.front().unwrap(), "first\n");
        assert_eq!(log.messages.back().unwrap(), "last\n");
        log.push("é".repeat(MAX_BYTES) + "the reason");
        assert_eq!(log.messages.len(), 1);
        assert!(log.bytes <= MAX_BYTES && log.messages[0].ends_with("the reason"));
        assert_eq!(log.count, 103);
        log.push("one ".into());
        log.push("two".into());
        assert_eq!(
            (log.since(103), log.since(104), log.since(105)),
            ("one two".into(), "two".into(), "".into())
        );
        assert_eq!(log.since(0), log.messages.iter().map(String::as_str).collect::<String>());
    }

    #[test]
    fn the_verifiers_reason_is_its_last_line_that_is_no_statistic() {
        let log = "libbpf: prog 'begin_submit': BPF program load failed: Permission denied\n\
            libbpf: prog 'begin_submit': -- BEGIN PROG LOAD LOG --\n\
            0: R1=ctx() R10=fp0\n; (line of the source)\n\
            combined stack size of 4 calls is 576. Too large\n\
            verification time 5512 usec\nstack depth 72+216+288\n\
            processed 4025 insns (limit 1000000) max_states_per_insn 6 total_states 230 peak_states 230 mark_read 9\n\
            libbpf: prog 'begin_submit': -- END PROG LOAD LOG --\n\
            libbpf: prog 'begin_submit': failed to load: -EACCES\n";
        let expected =
            "the kernel's verifier refuses begin_submit: combined stack size of 4 calls is 576. Too large";
        assert_eq!(refusal(log).as_deref(), Some(expected));
        assert_eq!(refusal("libbpf: failed to load object 'sync_bpf'\n"), None);
        assert_eq!(refusal(&log.replace("-- END PROG LOAD LOG --", "")), None);
    }
}
