//! libbpf's messages while it loads and attaches, kept instead of printed: a mode that fails does not concern
//! the user where another one works, and where none does we explain the cause in our own words.

use std::collections::VecDeque;
use std::sync::{Mutex, Once};

use libbpf_rs::{PrintLevel, set_print};

/// The latest messages are kept, up to so many bytes: a verifier's log can be megabytes long, and ends with
/// the reason.
const MAX_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Log {
    messages: VecDeque<String>,
    bytes: usize,
}

static LOG: Mutex<Log> = Mutex::new(Log { messages: VecDeque::new(), bytes: 0 });

impl Log {
    fn push(&mut self, mut message: String) {
        if message.len() > MAX_BYTES {
            let least = message.len() - MAX_BYTES;
            let from = (least..).find(|&at| message.is_char_boundary(at)).unwrap_or(message.len());
            message.drain(..from);
        }
        self.bytes += message.len();
        self.messages.push_back(message);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

/// From now on libbpf's warnings come here instead of to standard error.
pub(super) fn capture() {
    static CAPTURED: Once = Once::new();
    CAPTURED.call_once(|| {
        set_print(Some((PrintLevel::Info, |_, message| lock().push(message))));
    });
}

/// Takes the messages since the last call.
pub(crate) fn take_libbpf_log() -> String {
    let log = std::mem::take(&mut *lock());
    log.messages.into_iter().collect()
}

fn lock() -> std::sync::MutexGuard<'static, Log> {
    // Nothing can leave a list of messages half changed.
    LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
    }
}
