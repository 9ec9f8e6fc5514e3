//! Processor time that answering clients takes. It is no part of what tracing may take (`--max-cpu`): nobody
//! who may connect to the exporter is to be able to end the tracing, and longer intervals would not make
//! answers cheaper. The web server has limits of its own (`exporter::web::limits`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::linux::cpu_time::of_this_thread;

/// Nanoseconds, of all threads.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Does some work for clients.
pub(crate) fn for_clients<T>(work: impl FnOnce() -> T) -> T {
    let mut meter = Meter::start();
    let outcome = work();
    meter.settle();
    outcome
}

/// Meters a thread that does nothing but answer clients.
#[derive(Debug)]
pub(crate) struct Meter {
    settled: Duration,
}

impl Meter {
    /// From now on, on the calling thread.
    pub fn start() -> Meter {
        Meter { settled: of_this_thread() }
    }

    /// Up to now; on the same thread.
    pub fn settle(&mut self) {
        let now = of_this_thread();
        let spent = now.saturating_sub(self.settled);
        self.settled = now;
        SPENT.fetch_add(spent.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// What was spent for clients, up to where it was settled.
pub fn spent() -> Duration {
    Duration::from_nanos(SPENT.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_for_clients_is_what_the_thread_has_spent_on_it() {
        let (before, begun) = (spent(), of_this_thread());
        let hundred = Duration::from_millis(100);
        for_clients(|| {
            while of_this_thread() < begun + hundred {
                std::hint::spin_loop();
            }
        });
        // other tests may spend some at the same time
        assert!(spent() - before >= hundred - Duration::from_millis(5), "{:?}", spent() - before);
    }
}
