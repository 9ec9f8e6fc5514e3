//! Looks at where stuck threads are in the kernel, on a thread of its own: what /proc says may take its time.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

use super::event::{Event, Waiting};
use super::source::Mail;
use crate::threads::{Looks, Processes, scan, waits_for};

/// Asks for the threads (pid, tid). The answers come as mail.
pub struct Looker(Sender<Vec<(u32, u32)>>);

impl Looker {
    pub fn start(mail: Mail) -> Looker {
        let (ask, asked) = channel::<Vec<(u32, u32)>>();
        let task = move || {
            while let Ok(mut threads) = asked.recv() {
                // Only the newest question matters.
                while let Ok(newer) = asked.try_recv() {
                    threads = newer;
                }
                mail.send(Event::Waits(look(&threads)));
            }
        };
        // Without a thread there are no stacks.
        let _ = std::thread::Builder::new().name("look".into()).spawn(task);
        Looker(ask)
    }

    pub fn ask(&self, threads: Vec<(u32, u32)>) {
        let _ = self.0.send(threads);
    }
}

fn look(threads: &[(u32, u32)]) -> Vec<Waiting> {
    let pids: BTreeSet<u32> = threads.iter().map(|(pid, _)| *pid).collect();
    let processes = Processes::These(pids.into_iter().collect());
    let found = scan(Path::new("/proc"), &processes, &Looks::once()).unwrap_or_default();
    let wanted = found.syncs.into_iter().filter(|sync| threads.contains(&(sync.pid, sync.tid)));
    let waiting = wanted.map(|sync| Waiting {
        pid: sync.pid,
        tid: sync.tid,
        wait: waits_for(&sync.stack, sync.wait_channel.as_deref()),
        stack: sync.stack,
        state: sync.state,
    });
    waiting.collect()
}
