//! The syncs in flight: those that began under the programs' eyes, those that hung before tracing began, and
//! other writes that hang.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, Subject};
use super::names::Names;
use super::stalls::Stalls;
use crate::engine::engines::Engines;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::clock::monotonic_ns;
use crate::linux::cpu_time::Allowance;
use crate::linux::{PROC, proc_file};
use crate::model::{InFlight, Op, Owner, Role, ServerId, Target, Via};
use crate::probe::{Calls, Probe, RunningCall, operation, record};
use crate::server::who::instances::{may_have_children, members};
use crate::threads::{Looks, MIN_HANG, Processes, StuckSync, scan, syscalls, wait_of};

/// Hanging syncs of one server, and of all, whose waits are looked at for one snapshot: two short files of
/// /proc each.
const WAITS_OF_SERVER: usize = 8;
const WAITS: usize = 32;
/// From this age on a sync in flight is looked at in /proc as well.
const DOUBTFUL: Duration = Duration::from_millis(500);

/// A sync that was under way when tracing began.
struct Earlier {
    server: ServerId,
    sync: StuckSync,
    /// When it had the age that was found.
    seen: Instant,
}

/// Servers that are scanned at the same time, the threads with those that hang, and the servers that may wait
/// for it; then the same of one owner.
const SCANS: Share = Share { threads: 2, with_abandoned: 8, queue: 1_024 };
const SCANS_OF_ONE_OWNER: Share = Share { threads: 1, with_abandoned: 2, queue: 512 };
/// Anybody may start processes that are taken for servers: of a processor, for all together.
const SHARE: f64 = 0.002;
const BURST: Duration = Duration::from_secs(2);
/// A scan skips what blocks, so one that takes longer than this hangs in something else.
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Running {
    earlier: Vec<Earlier>,
    pub stalls: Stalls,
    scans: Pool<Owner, ServerId, Vec<Earlier>>,
    engines: Arc<Engines>,
}

/// The syncs of a server that hung before the programs were there. It has thousands of threads.
fn scan_earlier(engines: &Engines, server: ServerId) -> Option<Vec<Earlier>> {
    let processes = Processes::These(members(Path::new(PROC), engines, &[server.pid]));
    let scan = scan(Path::new(PROC), &processes, &Looks::once()).ok()?;
    let seen = Instant::now();
    // What else hangs is looked for all the time.
    let syncs = scan.syncs.into_iter().filter(|sync| sync.op.makes_durable());
    Some(syncs.map(|sync| Earlier { server, sync, seen }).collect())
}

impl Running {
    pub fn new(engines: &Arc<Engines>) -> Running {
        let limits = Limits {
            all: SCANS,
            of_one_owner: SCANS_OF_ONE_OWNER,
            job_timeout: SCAN_TIMEOUT,
            allowance: Some(Allowance::new(SHARE, BURST)),
        };
        let of_scans = engines.clone();
        Running {
            earlier: Vec::new(),
            stalls: Stalls::new(engines),
            scans: Pool::new("scan-earlier", limits, move |&server| scan_earlier(&of_scans, server)),
            engines: engines.clone(),
        }
    }

    /// Processor time that scans have used so far.
    pub(crate) fn spent(&self) -> Duration {
        self.scans.spent() + self.stalls.spent()
    }

    /// Scans /proc for syncs of a server that began before the programs were there.
    pub(crate) fn find_earlier(&mut self, owner: Owner, server: ServerId) {
        // Where that is refused, these syncs stay unseen; those that begin from now on are seen all the same.
        self.scans.submit(owner, server);
    }

    /// All syncs in flight of the traced processes. Only the threads of those are walked that have any, and
    /// of the process `always`; all threads if there may be syncs without a row.
    pub fn list(
        &mut self,
        probe: &mut Probe,
        ledger: &Ledger,
        names: &Names,
        short_of_rows: bool,
        always: Option<u32>,
    ) -> libbpf_rs::Result<Vec<InFlight>> {
        self.refresh(probe);
        let mut processes = ledger.running();
        processes.extend(always);
        // Those of a server of several processes are found among all threads of the host.
        let has_several = processes.iter().any(|&pid| may_have_children(Path::new(PROC), &self.engines, pid));
        processes.extend((short_of_rows || has_several).then_some(0));
        processes.extend(self.earlier.iter().map(|earlier| earlier.server.pid));
        let processes: Vec<u32> = processes.into_iter().collect();
        let mut calls = if processes.is_empty() { Calls::default() } else { probe.in_flight(&processes)? };
        if short_of_rows || ledger.has_running_requests() {
            probe.add_requests(&mut calls)?;
        }
        let now_ns = monotonic_ns();
        let mut all: Vec<_> =
            calls.running.iter().filter_map(|call| in_flight(call, ledger, names, now_ns)).collect();
        // A kernel that skipped an exit leaves a call behind that looks as if it hung.
        let is_doubtful = |sync: &InFlight| sync.age >= DOUBTFUL && sync.op.via() == Via::Call;
        all.retain(|sync| !is_doubtful(sync) || is_in_call(sync.tid, sync.op));
        // A thread that was still in a call, before its place was looked at: a later call than the one that
        // was found has left its mark there, even if it has ended again.
        self.earlier.retain(|earlier| !calls.seen.contains(&earlier.sync.tid));
        all.extend(self.earlier.iter().map(|earlier| {
            let role = earlier.role(names);
            let mut sync = earlier.sync.in_flight(earlier.server, role);
            sync.age += earlier.seen.elapsed();
            sync
        }));
        // One that a mount makes durable may be there already, by the programs.
        let stalls = self.stalls.in_flight(names).into_iter();
        let stalls: Vec<_> = stalls.filter(|stall| all.iter().all(|sync| sync.tid != stall.tid)).collect();
        all.extend(stalls);
        // Who samples one process many times a second asks for something else.
        if always.is_none() {
            find_out_waits(&mut all);
        }
        Ok(all)
    }

    /// Takes new scans, and drops the syncs that have ended.
    fn refresh(&mut self, probe: &Probe) {
        while let Some(found) = self.scans.poll() {
            let ops = probe.attached().ops();
            self.earlier.extend(found.into_iter().filter(|earlier| ops.contains(&earlier.sync.op)));
        }
        self.earlier.retain(Earlier::is_still_running);
    }
}

impl Earlier {
    /// The thread is in a call of the same kind, this one or a later one.
    fn is_still_running(&self) -> bool {
        is_in_call(self.sync.tid, self.sync.op)
    }

    fn role(&self, names: &Names) -> Role {
        self.sync.path.as_ref().map_or(Role::Other, |path| names.role_by_path(self.server, path))
    }
}

/// Whether the thread is inside a call of this kind, this one or a later one, as /proc has it. One whose call
/// cannot be read is believed to be.
fn is_in_call(tid: u32, op: Op) -> bool {
    match proc_file::read(Path::new(&format!("{PROC}/{tid}/syscall"))) {
        // A thread that is on a processor shows no call.
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            text.starts_with("running") || syscalls::may_be(&text, op)
        }
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// Why the oldest that hang do so, while they still do: nobody can find it out later. Writes that hang were
/// looked at when they were found.
fn find_out_waits(syncs: &mut [InFlight]) {
    let mut hanging: Vec<&mut InFlight> =
        syncs.iter_mut().filter(|sync| sync.age >= MIN_HANG && sync.op.via() == Via::Call).collect();
    hanging.sort_by_key(|sync| std::cmp::Reverse(sync.age));
    let mut of_server: BTreeMap<ServerId, usize> = BTreeMap::new();
    hanging.retain(|sync| {
        let seen = of_server.entry(sync.server).or_default();
        *seen += 1;
        *seen <= WAITS_OF_SERVER
    });
    for sync in hanging.into_iter().filter(|sync| sync.waits_for.is_none()).take(WAITS) {
        sync.waits_for = wait_of(Path::new(PROC), sync.tid).map(|wait| wait.what);
    }
}

fn in_flight(call: &RunningCall, ledger: &Ledger, names: &Names, now_ns: u64) -> Option<InFlight> {
    let own;
    // Also one that has the row of all that had no room.
    let subject = if call.slot == record::NO_SLOT || call.slot < record::FIRST_SHARED_SLOT {
        own = Subject::of(&call.id)?;
        &own
    } else {
        ledger.subject_at(call.slot, call.sequence)?
    };
    // Neighbours' syncs in flight are not shown.
    let &Subject::File { server, target, .. } = subject else { return None };
    let (role, path) = match target {
        Target::File(file) => {
            let info = names.info(&(server, file));
            (info.role, info.path.clone())
        }
        _ => (Role::Other, None),
    };
    Some(InFlight {
        server,
        tid: call.tid,
        thread: thread_name(call),
        op: operation(call.op.into())?.0,
        role,
        path,
        age: Duration::from_nanos(now_ns.saturating_sub(call.start_ns)),
        age_is_minimum: false,
        count: 1,
        waits_for: None,
    })
}

/// As the programs saw it; of a thread without a place, as /proc has it.
fn thread_name(call: &RunningCall) -> String {
    let from_proc =
        || proc_file::read_once::<64>(Path::new(&format!("{PROC}/{}/comm", call.tid))).unwrap_or_default();
    let name = if call.thread.is_empty() { from_proc() } else { call.thread.clone() };
    String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
}
