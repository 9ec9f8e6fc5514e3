//! The syncs in flight: those that began under the programs' eyes, and those that hung before tracing began.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::ledger::{Ledger, Subject};
use super::names::Names;
use crate::probe::{Probe, RunningCall, record};
use crate::snapshot::{InFlight, Op, Role, ServerId, Target};
use crate::stuck::{Looks, Processes, StuckSync, scan};

/// A sync that was under way when tracing began.
struct Earlier {
    server: ServerId,
    sync: StuckSync,
    seen: Instant,
}

pub struct Running {
    earlier: Vec<Earlier>,
    scans: Receiver<(ServerId, Vec<StuckSync>)>,
    outbox: Sender<(ServerId, Vec<StuckSync>)>,
}

impl Default for Running {
    fn default() -> Self {
        let (outbox, scans) = channel();
        Running { earlier: Vec::new(), scans, outbox }
    }
}

impl Running {
    /// Looks through /proc for syncs of a server that began before the programs were there. On a thread of its own:
    /// a server has thousands of threads.
    pub fn look_for_earlier(&self, server: ServerId) {
        let outbox = self.outbox.clone();
        let task = move || {
            let processes = Processes::These(vec![server.pid]);
            if let Ok(scan) = scan(Path::new("/proc"), &processes, &Looks::once()) {
                // The sampler may have ended meanwhile.
                let _ = outbox.send((server, scan.syncs));
            }
        };
        // Without a thread these syncs stay unseen; those that begin from now on are seen all the same.
        let _ = std::thread::Builder::new().name("look-earlier".into()).spawn(task);
    }

    /// All syncs in flight of the traced processes. `expected`: how many the rows say there are; the threads are
    /// walked only if there are any.
    pub fn list(
        &mut self,
        probe: &Probe,
        ledger: &Ledger,
        names: &Names,
        expected: u64,
    ) -> libbpf_rs::Result<Vec<InFlight>> {
        let calls = if expected > 0 { probe.in_flight()? } else { Vec::new() };
        let now_ns = monotonic_ns();
        let known: Vec<_> = calls.iter().filter_map(|call| in_flight(call, ledger, names, now_ns)).collect();
        self.refresh(&calls, probe);
        let mut all = known;
        all.extend(self.earlier.iter().map(|earlier| {
            let role = earlier.role(names);
            let mut sync = earlier.sync.in_flight(earlier.server, role);
            sync.age += earlier.seen.elapsed();
            sync
        }));
        Ok(all)
    }

    /// Takes new scans, and drops those that have ended or are known to the programs.
    fn refresh(&mut self, calls: &[RunningCall], probe: &Probe) {
        while let Ok((server, syncs)) = self.scans.try_recv() {
            let ops = &probe.attached().ops;
            let syncs = syncs.into_iter().filter(|sync| ops.contains(&sync.op));
            self.earlier.extend(syncs.map(|sync| Earlier { server, sync, seen: Instant::now() }));
        }
        self.earlier.retain(|earlier| {
            !calls.iter().any(|call| call.tid == earlier.sync.tid) && earlier.is_still_running()
        });
    }
}

impl Earlier {
    /// The thread is still in a call of the same kind. (It may be another one only if the programs missed its entry.)
    fn is_still_running(&self) -> bool {
        let path = format!("/proc/{}/task/{}/syscall", self.sync.pid, self.sync.tid);
        std::fs::read_to_string(path)
            .ok()
            .and_then(|text| crate::stuck::syscalls::parse(&text))
            .is_some_and(|call| call.op == self.sync.op)
    }

    fn role(&self, names: &Names) -> Role {
        self.sync.path.as_ref().map_or(Role::Other, |path| names.role_by_path(self.server, path))
    }
}

fn in_flight(call: &RunningCall, ledger: &Ledger, names: &Names, now_ns: u64) -> Option<InFlight> {
    let own;
    let subject = if call.slot == record::NO_SLOT {
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
        thread: thread_name(call, server.pid),
        op: *Op::ALL.get(usize::from(call.op))?,
        role,
        path,
        age: Duration::from_nanos(now_ns.saturating_sub(call.start_ns)),
        age_is_minimum: false,
    })
}

/// As the programs saw it; where they keep none (no task storage), as /proc has it.
fn thread_name(call: &RunningCall, pid: u32) -> String {
    let from_proc = || std::fs::read(format!("/proc/{pid}/task/{}/comm", call.tid)).unwrap_or_default();
    let name = if call.thread.is_empty() { from_proc() } else { call.thread.clone() };
    String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
}

/// The clock of `bpf_ktime_get_ns`.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
