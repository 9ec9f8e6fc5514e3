//! Writes that hang and are not durable. The programs keep nothing of a write while it goes on, and InnoDB
//! that waits for the write of a page comes to no sync: so the threads of each server are looked at in /proc
//! now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::names::Names;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::proc_file;
use crate::model::{InFlight, Role, ServerId};
use crate::server::instances::members;
use crate::threads::{Looks, MIN_HANG, Processes, StuckSync, scan};

/// After each scan of a server, as many times as long as that took, so that a server of thousands of threads
/// takes no more of a processor than a small one.
const REST: u32 = 500;
const MIN_REST: Duration = Duration::from_secs(2);
const MAX_REST: Duration = Duration::from_secs(60);
/// How often it is asked whether a scan is due.
const EVERY: Duration = Duration::from_millis(200);
/// Of one server. More threads that hang in writes say nothing new.
const MAX_STALLS: usize = 64;
/// Servers that are scanned at the same time, the threads with those that hang, and the servers that may wait
/// for it.
const SCANS: Share = Share { threads: 2, with_abandoned: 4, queue: 64 };
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);

/// A thread that hangs in a write.
#[derive(Debug)]
struct Stall {
    server: ServerId,
    sync: StuckSync,
    /// When it had the age that was found.
    seen: Instant,
    call: Call,
}

/// What /proc shows of a thread's call; it is the same call while both are the same.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    line: Vec<u8>,
    ran: Vec<u8>,
}

impl Call {
    fn of(proc_root: &Path, pid: u32, tid: u32) -> Option<Call> {
        let read = |name: &str| proc_file::read(&proc_root.join(format!("{pid}/task/{tid}/{name}"))).ok();
        Some(Call { line: read("syscall")?, ran: read("schedstat")? })
    }
}

struct Found {
    server: ServerId,
    stalls: Vec<Stall>,
    took: Duration,
}

pub struct Stalls {
    scans: Pool<(), ServerId, Found>,
    /// When a server is to be scanned again.
    due: BTreeMap<ServerId, Instant>,
    next: Instant,
    hanging: Vec<Stall>,
}

impl Default for Stalls {
    fn default() -> Self {
        let limits = Limits::for_one_owner(SCANS, SCAN_TIMEOUT);
        Stalls {
            scans: Pool::new("scan-writes", limits, |&server| Some(find(Path::new("/proc"), server))),
            due: BTreeMap::new(),
            next: Instant::now(),
            hanging: Vec::new(),
        }
    }
}

fn find(proc_root: &Path, server: ServerId) -> Found {
    let began = Instant::now();
    let processes = Processes::These(members(proc_root, &[server.pid]));
    // Where the kernel does not tell for how long a thread has been blocked, it is seen to be for as long as
    // this.
    let looks = Looks { apart: MIN_HANG, plain_writes_only: true, ..Looks::default() };
    let syncs = scan(proc_root, &processes, &looks).map(|scan| scan.syncs).unwrap_or_default();
    let seen = Instant::now();
    let stalls = syncs.into_iter().take(MAX_STALLS).filter_map(|sync| {
        let call = Call::of(proc_root, sync.pid, sync.tid)?;
        Some(Stall { server, sync, seen, call })
    });
    Found { server, stalls: stalls.collect(), took: began.elapsed().saturating_sub(looks.apart) }
}

impl Stalls {
    /// It is time for [`Stalls::look`].
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Begins the scans that are due of these servers, which are all there are, and takes in what others
    /// found.
    pub fn look(&mut self, servers: &BTreeSet<ServerId>, now: Instant) {
        self.next = now + EVERY;
        while let Some(Found { server, stalls, took }) = self.scans.poll() {
            let rest = (took * REST).clamp(MIN_REST, MAX_REST);
            self.due.insert(server, now + rest);
            self.hanging.retain(|stall| stall.server != server);
            self.hanging.extend(stalls);
        }
        self.due.retain(|server, _| servers.contains(server));
        self.hanging.retain(|stall| servers.contains(&stall.server));
        for &server in servers {
            if self.due.get(&server).is_none_or(|&at| at <= now) && self.scans.submit((), server) {
                // One that is given up has no result.
                self.due.insert(server, now + SCAN_TIMEOUT);
            }
        }
    }

    /// Those that still hang.
    pub fn in_flight(&mut self, names: &Names) -> Vec<InFlight> {
        self.hanging.retain(|stall| {
            let now = Call::of(Path::new("/proc"), stall.sync.pid, stall.sync.tid);
            now.as_ref() == Some(&stall.call)
        });
        let role = |stall: &Stall| match &stall.sync.path {
            Some(path) => names.role_by_path(stall.server, path),
            None => Role::Other,
        };
        let shown = |stall: &Stall| {
            let mut sync = stall.sync.in_flight(stall.server, role(stall));
            sync.age += stall.seen.elapsed();
            sync
        };
        self.hanging.iter().map(shown).collect()
    }
}
