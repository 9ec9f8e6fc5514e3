//! Scans /proc for the processes that are selected, again and again, on a thread of its own: a host may have
//! tens of thousands of them. A server that syncs is found by its first sync; this finds those that do not,
//! or that hung before tracing began. The thread is a loop with its own pace and no jobs, so it is none of
//! `linux::blocking`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::selection::Selection;
use crate::linux::cpu_time::of_this_thread;
use crate::linux::proc_file;
use crate::model::ServerId;

/// From one scan to the next at least.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// And at most, however long a scan takes.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// For each second of processor time that a look takes, so many pass to the next: looking takes a fifth of a
/// percent of a processor at most, of the one percent that fsynctop may use in all.
const SHARE: u32 = 500;

/// Where nothing was started since the look before, another has nothing to find but a process that has become
/// another program: such looks are left out, but for every tenth.
const QUIET_SCANS: u32 = 10;

/// The thread that scans. It ends when this is dropped.
pub(crate) struct Finder {
    found: Receiver<Vec<ServerId>>,
    shared: Arc<Meter>,
    _ends_it: Sender<()>,
}

#[derive(Default)]
struct Meter {
    /// Processor time that scanning has used, in nanoseconds.
    spent: AtomicU64,
    is_paused: AtomicBool,
}

impl Finder {
    /// Starts to scan. Where everything is traced there is nothing to look for: each process counts once it
    /// syncs.
    pub fn start(selection: &Selection) -> Finder {
        let (outbox, found) = channel();
        let (ends_it, end) = channel();
        let shared = Arc::new(Meter::default());
        if !selection.is_everything() {
            let selection = selection.clone();
            let meter = shared.clone();
            let task = move || scan(&selection, &outbox, &end, &meter);
            // Without a thread, servers are found by their first sync alone.
            let _ = std::thread::Builder::new().name("find-servers".into()).spawn(task);
        }
        Finder { found, shared, _ends_it: ends_it }
    }

    /// Processor time that scanning has used so far: a small share of a processor, whatever there is to look
    /// at.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.shared.spent.load(Ordering::Relaxed))
    }

    /// While tracing is paused, nothing is looked for.
    pub fn pause(&self, is_paused: bool) {
        self.shared.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// The processes that the scan before did not find. Waits for the result of a scan until `timeout`
    /// is over.
    pub fn take(&self, timeout: Duration) -> Vec<ServerId> {
        let mut all = Vec::new();
        if !timeout.is_zero() {
            all.extend(self.found.recv_timeout(timeout).unwrap_or_default());
        }
        loop {
            match self.found.try_recv() {
                Ok(found) => all.extend(found),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return all,
            }
        }
    }
}

fn scan(selection: &Selection, outbox: &Sender<Vec<ServerId>>, end: &Receiver<()>, meter: &Meter) {
    let mut known: BTreeSet<ServerId> = BTreeSet::new();
    let mut quiet = Quiet::default();
    loop {
        let began = (Instant::now(), of_this_thread());
        if !meter.is_paused.load(Ordering::Relaxed) && quiet.is_worth_a_scan(newest()) {
            let here: BTreeSet<_> = selection.processes().iter().map(|process| process.id()).collect();
            let new = here.difference(&known).copied().collect();
            known = here;
            if outbox.send(new).is_err() {
                return;
            }
        }
        let used = of_this_thread().saturating_sub(began.1);
        meter.spent.fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
        let pause = pause_after(used);
        let left = pause.saturating_sub(began.0.elapsed());
        if end.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Whether anything was started lately.
#[derive(Default)]
struct Quiet {
    newest: Option<Vec<u8>>,
    /// Rounds since then.
    rounds: u32,
}

impl Quiet {
    /// What was started is looked at in the next round once more: it may have been another program at first.
    fn is_worth_a_scan(&mut self, newest: Option<Vec<u8>>) -> bool {
        if newest.is_none() || newest != self.newest {
            self.newest = newest;
            self.rounds = 0;
            return true;
        }
        self.rounds += 1;
        self.rounds == 1 || self.rounds.is_multiple_of(QUIET_SCANS)
    }
}

/// The number of the newest process or thread: the last field of /proc/loadavg (fs/proc/loadavg.c).
fn newest() -> Option<Vec<u8>> {
    let loadavg = proc_file::read_once::<128>(Path::new("/proc/loadavg")).ok()?;
    loadavg.split(|&b| b == b' ').nth(4).map(<[u8]>::to_vec)
}

fn pause_after(used: Duration) -> Duration {
    used.saturating_mul(SHARE).clamp(MIN_PAUSE, MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engines::Engines;
    use crate::linux::child::Sleeper;
    use crate::server::who::filter::TargetFilter;

    #[test]
    fn a_process_is_told_once_and_one_that_comes_later_is_told_then() {
        let first = Sleeper::start();
        let finder =
            Finder::start(&Selection::new(Engines::builtin(), vec![TargetFilter::Tree(std::process::id())]));
        let pids = |patience| finder.take(patience).iter().map(|id| id.pid).collect::<Vec<_>>();
        assert!(pids(Duration::from_secs(20)).contains(&first.id()));
        let second = Sleeper::start();
        let end = Instant::now() + Duration::from_secs(30);
        let mut later = Vec::new();
        while !later.contains(&second.id()) && Instant::now() < end {
            later.extend(pids(Duration::from_secs(1)));
        }
        assert!(later.contains(&second.id()) && !later.contains(&first.id()), "{later:?}");
    }

    #[test]
    fn in_a_pause_nothing_is_looked_for() {
        let finder =
            Finder::start(&Selection::new(Engines::builtin(), vec![TargetFilter::Tree(std::process::id())]));
        // What the look found that may have begun before the pause.
        finder.pause(true);
        while !finder.take(Duration::from_secs(3)).is_empty() {}
        let child = Sleeper::start();
        let seen = |patience| finder.take(patience).iter().any(|id| id.pid == child.id());
        assert!(!seen(Duration::from_secs(3)), "it was looked for");
        finder.pause(false);
        let end = Instant::now() + Duration::from_secs(30);
        while !seen(Duration::from_secs(1)) {
            assert!(Instant::now() < end, "it is not found after the pause");
        }
    }

    #[test]
    fn where_nothing_was_started_only_every_tenth_look_is_made() {
        let mut quiet = Quiet::default();
        let mut looks = |newest: Option<&str>, rounds: u32| -> Vec<u32> {
            (0..rounds).filter(|_| quiet.is_worth_a_scan(newest.map(|text| text.into()))).collect()
        };
        assert_eq!(looks(Some("12"), 22), [0, 1, 10, 20]);
        assert_eq!(looks(Some("13"), 3), [0, 1]);
        assert_eq!(looks(None, 3), [0, 1, 2], "where it cannot be told");
    }

    #[test]
    fn a_process_that_is_started_is_the_newest() {
        let before = newest().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_ne!(newest().unwrap(), before);
    }

    #[test]
    fn looking_takes_a_small_share_of_a_processor() {
        assert_eq!(pause_after(Duration::from_millis(1)), MIN_PAUSE);
        assert_eq!(pause_after(Duration::from_millis(50)), Duration::from_secs(25));
        assert_eq!(pause_after(Duration::from_secs(3)), MAX_PAUSE);
    }

    #[test]
    fn where_everything_is_traced_nothing_is_looked_for() {
        let finder = Finder::start(&Selection::new(Engines::builtin(), vec![TargetFilter::All]));
        assert_eq!(finder.take(Duration::from_secs(5)), []);
    }
}
