//! Threads that describe servers. Whoever starts a process called `mysqld` makes work for them, as much as he likes, so
//! they have an allowance of processor time of their own, take the work of the user first who has caused the least, and
//! are replaced where they hang.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::linux::cpu_time::{Allowance, of_this_thread};
use crate::linux::proc_file;
use crate::model::{Server, ServerId};
use crate::server::describe::{Roles, describe};
use crate::server::processes::ThreadGroup;
use crate::server::settings::Settings;

const PROC: &str = "/proc";
/// Servers that are described at the same time.
const DESCRIBERS: usize = 4;
/// Threads that hang are given up and replaced, so many of them.
const MAX_GIVEN_UP: usize = 12;
/// A description that takes longer than this hangs: it looks at its own time, but not while the kernel keeps it waiting.
const HANGS_AFTER: Duration = Duration::from_secs(4);
/// Of one user, so many are described at the same time, and so many threads may be given up.
const MAX_OF_ONE_OWNER: usize = 2;
const MAX_GIVEN_UP_FOR_ONE_OWNER: usize = 4;
/// Servers that may wait to be described: of one user, and of all.
const MAX_WAITING_OF_ONE_OWNER: usize = 512;
const MAX_WAITING: usize = 4_096;
/// All descriptions together: two thousand servers at once, and then half a percent of a processor.
const SHARE: f64 = 0.005;
const BURST: Duration = Duration::from_secs(10);
/// A user who has caused less than this is served also when the allowance is used up, for as much again.
const LITTLE: Duration = Duration::from_millis(50);
/// What a user has caused is halved as often as this.
const FORGIVE_EVERY: Duration = Duration::from_secs(60);

type Description = (ServerId, Server, Settings);
type Describe = dyn Fn(ServerId) -> (Server, Settings) + Send + Sync;

pub struct Describers {
    shared: Arc<Shared>,
    described: Receiver<Description>,
    outbox: Sender<Description>,
}

struct Shared {
    describe: Box<Describe>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<(ServerId, Owner)>,
    /// By the number of the thread: what it works on.
    working: HashMap<usize, Work>,
    threads: usize,
    next_thread: usize,
    /// Processor time that each user has caused, halved from time to time.
    caused: HashMap<Owner, Duration>,
    forgiven: Instant,
    allowance: Allowance,
    ended: bool,
}

/// A user's number; None: the process has gone.
type Owner = Option<u32>;

struct Work {
    owner: Owner,
    since: Instant,
    /// It hangs, and another thread has taken its place.
    given_up: bool,
}

impl Describers {
    /// `describe` may block; it runs on these threads only.
    pub fn new(describe: impl Fn(ServerId) -> (Server, Settings) + Send + Sync + 'static) -> Describers {
        let (outbox, described) = channel();
        let state = State {
            waiting: Vec::new(),
            working: HashMap::new(),
            threads: 0,
            next_thread: 0,
            caused: HashMap::new(),
            forgiven: Instant::now(),
            allowance: Allowance::new(SHARE, BURST),
            ended: false,
        };
        let shared =
            Shared { describe: Box::new(describe), state: Mutex::new(state), changed: Condvar::new() };
        Describers { shared: Arc::new(shared), described, outbox }
    }

    /// False: too many wait; it may be asked for later.
    pub fn ask(&self, id: ServerId) -> bool {
        self.ask_for(id, owner(id.pid))
    }

    fn ask_for(&self, id: ServerId, owner: Owner) -> bool {
        let mut state = self.shared.lock();
        let theirs = state.waiting.iter().filter(|(_, waiting)| *waiting == owner).count();
        if theirs >= MAX_WAITING_OF_ONE_OWNER || state.waiting.len() >= MAX_WAITING {
            return false;
        }
        state.waiting.push((id, owner));
        self.add_threads(&mut state);
        drop(state);
        self.shared.changed.notify_one();
        true
    }

    /// A server that has ended need not be described.
    pub fn forget(&self, id: ServerId) -> bool {
        let mut state = self.shared.lock();
        let before = state.waiting.len();
        state.waiting.retain(|(waiting, _)| *waiting != id);
        before != state.waiting.len()
    }

    /// A description that is done, if there is one. To be called now and then: it also replaces threads that hang.
    pub fn take(&self) -> Option<Description> {
        let mut state = self.shared.lock();
        self.add_threads(&mut state);
        drop(state);
        self.described.try_recv().ok()
    }

    /// The same, waiting for one until `patience` is over.
    pub fn wait(&self, patience: Duration) -> Option<Description> {
        let end = Instant::now() + patience;
        loop {
            self.add_threads(&mut self.shared.lock());
            let left = end.saturating_duration_since(Instant::now());
            match self.described.recv_timeout(left.min(HANGS_AFTER / 8)) {
                Ok(description) => return Some(description),
                Err(_) if left.is_zero() => return None,
                Err(_) => {}
            }
        }
    }

    /// Processor time that was used for descriptions so far.
    pub fn spent(&self) -> Duration {
        self.shared.lock().allowance.spent()
    }

    /// As many as there is work for; not joined, for one may hang for ever.
    fn add_threads(&self, state: &mut State) {
        let mut given_up = state.working.values().filter(|work| work.given_up).count();
        for work in state.working.values_mut() {
            if !work.given_up && given_up < MAX_GIVEN_UP && work.since.elapsed() >= HANGS_AFTER {
                work.given_up = true;
                given_up += 1;
                state.threads -= 1;
            }
        }
        let busy = state.working.values().filter(|work| !work.given_up).count();
        let wanted = (busy + state.waiting.len()).min(DESCRIBERS);
        while state.threads < wanted {
            let (shared, outbox, number) = (self.shared.clone(), self.outbox.clone(), state.next_thread);
            let thread = std::thread::Builder::new().name("describe".into());
            if thread.spawn(move || shared.work(number, &outbox)).is_err() {
                return;
            }
            state.next_thread += 1;
            state.threads += 1;
        }
    }
}

/// Describes processes, and returns after `patience` at the latest; those that were not described until then are known by
/// process and name only (`known_by.described` is false). What has ended meanwhile is left out.
pub fn describe_all(
    processes: &[ThreadGroup],
    roles: Arc<dyn Roles>,
    patience: Duration,
) -> Vec<(Server, Settings)> {
    let end = Instant::now() + patience;
    let describers = Describers::new(move |id| describe(Path::new(PROC), id, &*roles));
    let mut asked = processes.iter().filter(|process| describers.ask(process.id())).count();
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

impl Drop for Describers {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, number: usize, outbox: &Sender<Description>) {
        while let Some(id) = self.next(number) {
            let before = of_this_thread();
            let (server, settings) = (self.describe)(id);
            let used = of_this_thread().saturating_sub(before);
            let given_up = {
                let mut state = self.lock();
                state.allowance.spend(used);
                let work = state.working.remove(&number);
                *state.caused.entry(work.as_ref().and_then(|work| work.owner)).or_default() += used;
                work.is_some_and(|work| work.given_up)
            };
            self.changed.notify_all();
            if outbox.send((id, server, settings)).is_err() || given_up {
                return;
            }
        }
    }

    /// The next server that this thread is to describe; waits for one. None: there is to be no more.
    fn next(&self, number: usize) -> Option<ServerId> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            let now = Instant::now();
            if let Some((id, owner)) = state.choose(now) {
                state.working.insert(number, Work { owner, since: now, given_up: false });
                return Some(id);
            }
            // With nothing to do, until somebody calls; else until the allowance has recovered a little.
            let pause = if state.waiting.is_empty() { Duration::from_secs(3_600) } else { BURST / 50 };
            (state, _) = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Of those whose owner is not described too often at the same time, the first of the owner who caused the least.
    fn choose(&mut self, now: Instant) -> Option<(ServerId, Owner)> {
        if now.duration_since(self.forgiven) >= FORGIVE_EVERY {
            self.forgiven = now;
            self.caused.retain(|_, time| {
                *time /= 2;
                *time > Duration::from_millis(1)
            });
        }
        let has_room = self.allowance.has_room(now);
        if self.waiting.is_empty() || self.allowance.overdrawn() > BURST {
            return None;
        }
        let has_place = |owner: Owner| {
            let theirs = || self.working.values().filter(|work| work.owner == owner);
            let given_up = theirs().filter(|work| work.given_up).count();
            given_up < MAX_GIVEN_UP_FOR_ONE_OWNER && theirs().count() - given_up < MAX_OF_ONE_OWNER
        };
        let caused = |owner: &Owner| self.caused.get(owner).copied().unwrap_or_default();
        let (at, _) = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, (_, owner))| has_place(*owner) && (has_room || caused(owner) < LITTLE))
            .min_by_key(|(at, (_, owner))| (caused(owner), *at))?;
        Some(self.waiting.remove(at))
    }
}

/// The user whose process it is: what /proc/PID belongs to would be root, where a server has given up root's rights.
fn owner(pid: u32) -> Owner {
    let status = proc_file::read_once::<1024>(&Path::new(PROC).join(format!("{pid}/status"))).ok()?;
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn id(pid: u32) -> ServerId {
        ServerId { pid, start_ns: 1 }
    }

    fn described(describers: &Describers, number: usize) -> Vec<u32> {
        (0..number).map(|_| describers.wait(LONG).expect("in time").0.pid).collect()
    }

    /// Descriptions of processes below 100 hang until the sender is dropped.
    fn describers() -> (Describers, Sender<()>) {
        let (release, hang) = channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let describe = move |id: ServerId| {
            if id.pid < 100 {
                while hang.lock().unwrap().recv_timeout(Duration::from_millis(1))
                    == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                {}
            }
            (Server::new(id, "mysqld".into()), Settings::default())
        };
        (Describers::new(describe), release)
    }

    #[test]
    fn servers_of_one_user_that_hang_keep_nobody_else_from_being_described() {
        let (describers, release) = describers();
        for pid in 0..50 {
            assert!(describers.ask_for(id(pid), Some(1000)));
        }
        for pid in 100..200 {
            assert!(describers.ask_for(id(pid), Some(27)));
        }
        let mut pids = described(&describers, 100);
        pids.sort_unstable();
        assert_eq!(pids, (100..200).collect::<Vec<_>>());
        assert_eq!(describers.shared.lock().working.len(), MAX_OF_ONE_OWNER);
        drop(release);
        assert_eq!(described(&describers, 50).len(), 50);
    }

    #[test]
    fn threads_that_hang_are_replaced_up_to_a_limit_for_each_user() {
        let (describers, release) = describers();
        for pid in 0..50 {
            assert!(describers.ask_for(id(pid), Some(1000)));
        }
        let given_up = || {
            let mut state = describers.shared.lock();
            for work in state.working.values_mut() {
                work.since -= HANGS_AFTER;
            }
            drop(state);
            assert!(describers.take().is_none());
            std::thread::sleep(Duration::from_millis(20));
            describers.shared.lock().working.values().filter(|work| work.given_up).count()
        };
        let end = Instant::now() + LONG;
        while given_up() < MAX_GIVEN_UP_FOR_ONE_OWNER {
            assert!(Instant::now() < end, "no thread was given up");
        }
        (0..10).for_each(|_| assert_eq!(given_up(), MAX_GIVEN_UP_FOR_ONE_OWNER));
        assert!(describers.ask_for(id(100), Some(27)));
        assert_eq!(described(&describers, 1), [100]);
        drop(release);
        // Those that were given up hand in what they have, and end.
        assert_eq!(described(&describers, 50).len(), 50);
        assert!(describers.shared.lock().threads <= DESCRIBERS);
    }

    #[test]
    fn the_user_who_has_caused_the_least_comes_first_and_the_allowance_bounds_all() {
        let (describers, _release) = describers();
        let mut state = describers.shared.lock();
        let now = Instant::now();
        for (pid, owner) in [(1, 1000), (2, 1000), (3, 27), (4, 0)] {
            state.waiting.push((id(pid), Some(owner)));
        }
        state.caused =
            HashMap::from([(Some(1000), Duration::from_secs(9)), (Some(0), Duration::from_secs(1))]);
        let order: Vec<_> = (0..4).map(|_| state.choose(now).unwrap().0.pid).collect();
        assert_eq!(order, [3, 4, 1, 2]);
        // The time of the past is halved, and then forgotten.
        state.choose(now + FORGIVE_EVERY);
        assert_eq!(state.caused[&Some(1000)], Duration::from_millis(4_500));
        state.waiting.push((id(5), None));
        // Where it is used up, only those who have caused little are served, and not for ever.
        state.waiting.insert(0, (id(6), Some(1000)));
        state.allowance.spend(BURST + Duration::from_secs(1));
        assert_eq!(state.choose(now), Some((id(5), None)));
        assert_eq!(state.choose(now), None);
        state.waiting.push((id(7), Some(7)));
        state.allowance.spend(BURST);
        assert_eq!(state.choose(now), None);
        assert_eq!(state.choose(now + Duration::from_secs(10_000)), Some((id(7), Some(7))));
    }

    #[test]
    fn one_user_does_not_take_all_the_room_to_wait() {
        let (describers, _release) = describers();
        let accepted = (0..2 * MAX_WAITING as u32).filter(|_| describers.ask_for(id(1), Some(1000))).count();
        assert!(accepted <= MAX_WAITING_OF_ONE_OWNER + MAX_OF_ONE_OWNER, "{accepted}");
        assert!(describers.ask_for(id(100), Some(27)));
        assert_eq!(described(&describers, 1), [100]);
    }

    #[test]
    fn the_owner_of_a_process_is_its_user() {
        assert_eq!(owner(std::process::id()), Some(rustix::process::getuid().as_raw()));
        assert_eq!(owner(1 << 30), None);
    }
}
