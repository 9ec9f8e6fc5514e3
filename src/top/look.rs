//! Looks at where stuck threads are in the kernel, on a thread of its own: what /proc says may take its time.

use std::collections::BTreeSet;
use std::path::Path;

use super::event::{Event, Waiting};
use super::source::Mail;
use crate::linux::PROC;
use crate::linux::blocking::Mailbox;
use crate::server::who::processes;
use crate::threads::{Looks, Processes, scan, waits_for};

/// Asks for the threads (pid, tid). The answers come as mail. None: there was no thread for it, so there are
/// no stacks.
pub(crate) struct Looker(Option<Mailbox<Vec<(u32, u32)>>>);

impl Looker {
    pub fn start(mail: Mail) -> Looker {
        let answer = move |threads: Vec<(u32, u32)>| mail.send(Event::Waits(look(&threads)));
        Looker(Mailbox::start("look", answer).ok())
    }

    pub fn ask(&self, threads: Vec<(u32, u32)>) {
        if let Some(mailbox) = &self.0 {
            mailbox.ask(threads);
        }
    }
}

fn look(threads: &[(u32, u32)]) -> Vec<Waiting> {
    // Of a server of several, each thread's own.
    let proc_root = Path::new(PROC);
    let pids: BTreeSet<u32> =
        threads.iter().filter_map(|&(_, tid)| processes::of_thread(proc_root, tid)).collect();
    let processes = Processes::These(pids.into_iter().collect());
    let found = scan(proc_root, &processes, &Looks::once()).unwrap_or_default();
    let server = |tid: u32| threads.iter().find(|thread| thread.1 == tid).map(|thread| thread.0);
    let wanted = found.syncs.into_iter().filter_map(|sync| Some((server(sync.tid)?, sync)));
    let waiting = wanted.map(|(pid, sync)| Waiting {
        pid,
        tid: sync.tid,
        wait: waits_for(&sync.stack, sync.wait_channel.as_deref()),
        stack: sync.stack,
        state: sync.state,
    });
    waiting.collect()
}
