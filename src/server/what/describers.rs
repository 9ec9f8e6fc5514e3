//! Threads that describe servers. Anybody can make work for them by starting processes called `mysqld`, so
//! they have a budget of processor time of their own, each owner has a share of it, and the owner who has
//! caused the least work comes first.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::linux::PROC;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::cpu_time::Allowance;
use crate::model::{Owner, Server, ServerId};
use crate::server::what::describe::describe;
use crate::server::what::roles::Roles;
use crate::server::what::settings::Settings;
use crate::server::who::owner;
use crate::server::who::processes::ThreadGroup;

/// Servers that are described at the same time, and of one owner; then the threads that there may be, those
/// that hang included; then the servers that may wait.
const ALL: Share = Share { threads: 4, with_abandoned: 16, queue: 4_096 };
const OF_ONE_OWNER: Share = Share { threads: 2, with_abandoned: 4, queue: 512 };
/// A description that takes longer than this hangs: it looks at its own time, but not while the kernel keeps
/// it waiting.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(4);
/// All descriptions together: two thousand servers at once, and then half a percent of a processor.
const CPU_SHARE: f64 = 0.005;
const CPU_BURST: Duration = Duration::from_secs(10);

type Description = (ServerId, Server, Settings);

/// Anybody may start a process called `mysqld`, and as many as they like: each owner's have a share of the
/// threads.
pub(crate) struct Describers(Pool<Owner, ServerId, Description>);

impl Describers {
    /// `describe` may block; it runs on these threads only.
    pub(crate) fn new(
        describe: impl Fn(ServerId) -> (Server, Settings) + Send + Sync + 'static,
    ) -> Describers {
        let limits = Limits {
            all: ALL,
            of_one_owner: OF_ONE_OWNER,
            job_timeout: DESCRIBE_TIMEOUT,
            allowance: Some(Allowance::new(CPU_SHARE, CPU_BURST)),
        };
        Describers(Pool::new("describe", limits, move |&id| {
            let (server, settings) = describe(id);
            Some((id, server, settings))
        }))
    }

    /// False: too many wait; it may be asked for later.
    pub(crate) fn ask(&self, owner: Owner, id: ServerId) -> bool {
        self.0.submit(owner, id)
    }

    /// A server that has ended need not be described. Whether it waited for that.
    pub(crate) fn forget(&self, id: ServerId) -> bool {
        self.0.retain(|waiting| *waiting != id) > 0
    }

    /// A description that is done, if there is one. To be called now and then: it also replaces threads that
    /// hang.
    pub(crate) fn take(&self) -> Option<Description> {
        self.0.poll()
    }

    /// The same, waiting for one until `timeout` is over.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Description> {
        self.0.wait(timeout)
    }

    /// Processor time that was used for descriptions so far.
    pub(crate) fn spent(&self) -> Duration {
        self.0.spent()
    }
}

/// Describes processes, and returns after `timeout` at the latest; those that were not described until then
/// are known by process and name only (`known_by.described` is false). What has ended meanwhile is left out.
pub(crate) fn describe_all(
    processes: &[ThreadGroup],
    roles: Arc<dyn Roles>,
    timeout: Duration,
) -> Vec<(Server, Settings)> {
    let end = Instant::now() + timeout;
    let describers = Describers::new(move |id| describe(Path::new(PROC), id, &*roles));
    let mut asked = processes
        .iter()
        .filter(|process| describers.ask(owner::of_process(Path::new(PROC), process.pid), process.id()))
        .count();
    let mut described = HashMap::new();
    while asked > 0 {
        let Some((id, server, settings)) = describers.wait(end.saturating_duration_since(Instant::now()))
        else {
            break;
        };
        asked -= 1;
        described.insert(id, (server, settings));
    }
    let of = |process: &ThreadGroup| {
        let bare = || (Server::new(process.id(), process.comm.clone()), Settings::default());
        described.remove(&process.id()).unwrap_or_else(bare)
    };
    processes.iter().map(of).filter(|(server, _)| server.alive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mysqlds_of_one_owner_do_not_take_all_the_room_to_wait() {
        let (_release, hang) = std::sync::mpsc::channel::<()>();
        let hang = std::sync::Mutex::new(hang);
        let describers = Describers::new(move |id| {
            let _ = hang.lock().map(|hang| hang.recv());
            (Server::new(id, "mysqld".into()), Settings::default())
        });
        let id = ServerId { pid: std::process::id(), start_ns: 1 };
        let accepted = (0..ALL.queue).filter(|_| describers.ask(Owner::User(1001), id)).count();
        assert!(
            (OF_ONE_OWNER.queue..=OF_ONE_OWNER.queue + OF_ONE_OWNER.threads).contains(&accepted),
            "{accepted}"
        );
        assert!(describers.ask(Owner::System(27), id), "of another owner there is still room");
    }
}
