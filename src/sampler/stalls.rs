//! Writes that hang and are not durable. The programs keep nothing of a write while it goes on, and InnoDB
//! that waits for the write of a page comes to no sync: so the threads of each server are looked at in /proc
//! now and then. Anybody may start processes that are taken for servers, so what that costs has an allowance,
//! owners take turns, and who has written nothing for long comes after those who have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::names::Names;
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::cpu_time::Allowance;
use crate::linux::proc_file;
use crate::model::{InFlight, Owner, Role, ServerId};
use crate::server::who::instances::members;
use crate::threads::{Looks, MIN_HANG, Processes, StuckSync, scan};

/// After each scan of a server, as many times as long as that took, so that a server of thousands of threads
/// takes no more of a processor than a small one.
const REST: u32 = 500;
const MIN_REST: Duration = Duration::from_secs(2);
const MAX_REST: Duration = Duration::from_secs(60);
/// How often it is asked whether a scan is due.
const EVERY: Duration = Duration::from_millis(500);
/// Of one server. More threads that hang in writes say nothing new.
const MAX_STALLS: usize = 64;
/// Servers that are scanned at the same time, the threads with those that hang, and the servers that may wait
/// for it; then the same of one owner.
const SCANS: Share = Share { threads: 2, with_abandoned: 8, queue: 256 };
const SCANS_OF_ONE_OWNER: Share = Share { threads: 1, with_abandoned: 2, queue: 64 };
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);
/// Of a processor, for the servers that have written lately together, and for all others.
const ACTIVE_SHARE: f64 = 0.002;
const IDLE_SHARE: f64 = 0.001;
const BURST: Duration = Duration::from_millis(500);

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

type Scans = Pool<Owner, ServerId, Found>;

/// When a server is to be scanned again, and among which.
struct Turn {
    due: Instant,
    is_active: bool,
}

pub struct Stalls {
    active: Scans,
    idle: Scans,
    turns: BTreeMap<ServerId, Turn>,
    next: Instant,
    hanging: Vec<Stall>,
}

fn find(proc_root: &Path, engines: &Engines, server: ServerId) -> Found {
    let began = Instant::now();
    let processes = Processes::These(members(proc_root, engines, &[server.pid]));
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
    pub fn new(engines: &Arc<Engines>) -> Stalls {
        let scans = |share| {
            let engines = engines.clone();
            let limits = Limits {
                all: SCANS,
                of_one_owner: SCANS_OF_ONE_OWNER,
                job_timeout: SCAN_TIMEOUT,
                allowance: Some(Allowance::new(share, BURST)),
            };
            Pool::new("scan-writes", limits, move |&server| Some(find(Path::new(PROC), &engines, server)))
        };
        Stalls {
            active: scans(ACTIVE_SHARE),
            idle: scans(IDLE_SHARE),
            turns: BTreeMap::new(),
            next: Instant::now(),
            hanging: Vec::new(),
        }
    }

    /// It is time for [`Stalls::look`].
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Processor time that scans have used so far.
    pub fn spent(&self) -> Duration {
        self.active.spent() + self.idle.spent()
    }

    /// Begins the scans that are due of these servers, which are all there are, and takes in what others
    /// found. With each: whose it is, and whether it has synced or written lately.
    pub fn look(&mut self, servers: &BTreeMap<ServerId, (Owner, bool)>, now: Instant) {
        self.next = now + EVERY;
        while let Some(found) = self.active.poll().or_else(|| self.idle.poll()) {
            self.take(found, now);
        }
        self.turns.retain(|server, _| servers.contains_key(server));
        self.hanging.retain(|stall| servers.contains_key(&stall.server));
        let mut due = Vec::new();
        for (&server, &(owner, is_active)) in servers {
            let turn = self.turns.entry(server).or_insert(Turn { due: now, is_active });
            if is_active && !turn.is_active {
                // It may have waited among those that are idle.
                turn.due = now;
            }
            turn.is_active = is_active;
            if turn.due <= now {
                due.push((turn.due, server, owner, is_active));
            }
        }
        // Whoever waits longest, since there may be no room for all.
        due.sort_by_key(|&(since, ..)| since);
        // Of these, too many wait already.
        let mut refused: BTreeSet<(bool, Owner)> = BTreeSet::new();
        for (_, server, owner, is_active) in due {
            if refused.contains(&(is_active, owner)) {
                continue;
            }
            let scans = if is_active { &self.active } else { &self.idle };
            if scans.submit(owner, server) {
                // One that is given up has no result.
                self.turns.insert(server, Turn { due: now + SCAN_TIMEOUT, is_active });
            } else {
                refused.insert((is_active, owner));
            }
        }
    }

    fn take(&mut self, Found { server, stalls, took }: Found, now: Instant) {
        if let Some(turn) = self.turns.get_mut(&server) {
            turn.due = now + (took * REST).clamp(MIN_REST, MAX_REST);
        }
        self.hanging.retain(|stall| stall.server != server);
        self.hanging.extend(stalls);
    }

    /// Those that still hang.
    pub fn in_flight(&mut self, names: &Names) -> Vec<InFlight> {
        self.hanging.retain(|stall| {
            let now = Call::of(Path::new(PROC), stall.sync.pid, stall.sync.tid);
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
