//! What the files are called and what they are to the server. A name comes three times: at once from the
//! kernel's own record, checked and completed by a worker through /proc, and again when a file that is still
//! synced was renamed. A worker may block on a file system that hangs: the sampler never waits for one but at
//! the very end, and another takes its place.

mod worker;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use crate::engine::rules::Rules;
use crate::files::classify::Candidate;
use crate::files::resolve::{CUT_OFF, Resolved};
use crate::linux::PROC;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::cpu_time::Allowance;
use crate::linux::mounts;
use crate::linux::rooted::strip_root;
use crate::model::{Engine, FileId, FileInfo, Owner, Role, ServerId};
use crate::probe::FileEvent;
use crate::server::what::settings::Settings;
use crate::server::who::owner;
use crate::server::who::processes;

use super::devices::Devices;
pub(crate) use worker::FileKey;
use worker::{Answer, Request, confirm};
pub(super) use worker::{FoundOpen, find_open};

/// One worker, and up to eight where they hang in a file system. More requests than may wait are made again
/// when their files are synced again.
const WORKERS: Share = Share { threads: 1, with_abandoned: 8, queue: 4_096 };
/// Of them, what one owner's files may take: whoever makes files by the thousand, or has them on a filesystem
/// that hangs, keeps nobody else's from being named.
const OF_ONE_OWNER: Share = Share { threads: 1, with_abandoned: 2, queue: 1_024 };
/// A worker that takes longer to confirm a name hangs.
const CONFIRM_TIMEOUT: Duration = Duration::from_millis(500);
/// So many of the latest names wait for the end of their syncs.
const LATEST: u64 = 1_024;
/// With so many requests of an owner waiting, names that need no confirmation are not put to the worker at
/// once.
const HURRIED: usize = 64;
/// With so many, files are not looked at again.
const BUSY: usize = 256;
/// A file that is still synced is looked at again after this time: it may have been unlinked, or a directory
/// above it renamed. (The kernel side tells when it is renamed itself.)
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// So many files a second at most are looked at again, at some 50 µs each: with many of them, each less
/// often.
const LOOKS_PER_SECOND: u32 = 100;

/// What confirming names may take: twenty thousand files at once, and then twice as much as
/// [`LOOKS_PER_SECOND`]. Whoever makes files that are synced makes work here; beyond this, files keep the
/// names that the kernel side sent. Others than services of the system may take half of the share, and a
/// tenth of the burst.
const SHARE: f64 = 0.01;
const BURST: Duration = Duration::from_secs(10);
const SHARE_OF_STRANGERS: f64 = SHARE / 2.0;
const BURST_OF_STRANGERS: Duration = Duration::from_secs(1);

/// Device names, mount points and filesystems that are kept though no file has them.
const MAX_TEXTS: usize = 1_024;

struct Named {
    info: Arc<FileInfo>,
    /// The thread that has, or had, the descriptor.
    holder: u32,
    fd: i32,
    mount_id: i32,
    /// Of the components of the name: tells it from another.
    hash: u64,
    /// The components from the file upwards, each ended by a NUL, until the path is confirmed.
    components: Option<Box<[u8]>>,
    /// They reach up to the mount's root.
    complete: bool,
    is_directory: bool,
    /// A rule asks for the first bytes before one decides without them, and they were not read yet.
    wants_content: bool,
    /// The worker has confirmed the path.
    verified: bool,
    /// How many names were learnt before.
    number: u64,
    looked: Instant,
}

/// Each device, mount point and filesystem is kept once, however many files lie there.
#[derive(Clone)]
struct Mounted {
    device: Arc<str>,
    point: Option<Arc<Path>>,
    filesystem: Option<Arc<str>>,
}

/// The registry of names.
pub struct Names {
    rules: Arc<Rules>,
    /// Looked up for each row of each snapshot: by a hash that is quicker than the standard one. It is seeded
    /// anew in each process, so that who chooses inode numbers does not know which of them collide.
    named: IndexMap<FileKey, Named, foldhash::fast::RandomState>,
    hasher: RandomState,
    texts: HashSet<Arc<str>>,
    points: HashSet<Arc<Path>>,
    /// The mounts that were seen, by server and the kernel's number.
    mounts: HashMap<(ServerId, i32), Mounted>,
    devices: Devices,
    /// None: of no engine that is told by its command.
    engines: HashMap<ServerId, Option<Arc<Engine>>>,
    settings: HashMap<ServerId, Arc<Settings>>,
    /// None: in no chroot.
    roots: HashMap<ServerId, Option<PathBuf>>,
    none: Arc<Settings>,
    owners: HashMap<ServerId, Owner>,
    workers: Pool<Owner, Request, Answer>,
    allowance: Allowance,
    /// Of all but services of the system.
    of_strangers: Allowance,
    learnt: u64,
    learnt_before_tick: u64,
    /// When the rows were begun to be read, and how long ago a file was looked at that is now to be looked at
    /// again: the same for all rows.
    tick: Instant,
    look_again: Duration,
    unknown: Arc<FileInfo>,
    unknown_part: Arc<FileInfo>,
}

impl Names {
    pub fn new(rules: Arc<Rules>) -> Names {
        let limits = Limits {
            all: WORKERS,
            of_one_owner: OF_ONE_OWNER,
            job_timeout: CONFIRM_TIMEOUT,
            allowance: None,
        };
        let unknown = FileInfo::nameless(Role::Other);
        let engines = rules.engines().clone();
        Names {
            rules,
            named: IndexMap::default(),
            hasher: RandomState::default(),
            texts: HashSet::new(),
            points: HashSet::new(),
            mounts: HashMap::new(),
            devices: Devices::default(),
            engines: HashMap::new(),
            settings: HashMap::new(),
            roots: HashMap::new(),
            none: Arc::new(Settings::default()),
            owners: HashMap::new(),
            workers: Pool::new("names", limits, move |request| Some(confirm(&engines, request))),
            allowance: Allowance::new(SHARE, BURST),
            of_strangers: Allowance::new(SHARE_OF_STRANGERS, BURST_OF_STRANGERS),
            learnt: 0,
            learnt_before_tick: 0,
            tick: Instant::now(),
            look_again: LOOK_AGAIN,
            unknown: Arc::new(unknown),
            unknown_part: Arc::new(FileInfo::nameless(Role::Doublewrite)),
        }
    }

    /// The name that a file had when it was first synced. The role follows at once from name and settings.
    pub(crate) fn learn(&mut self, key: FileKey, event: &FileEvent) {
        let hash = self.hasher.hash_one(&event.components);
        if let Some(known) = self.named.get_mut(&key)
            && (known.mount_id, known.hash) == (event.mount_id, hash)
        {
            // A row that was made anew tells the same name again: what was found out about it stands.
            (known.holder, known.fd) = (event.tid, event.fd);
            return;
        }
        let is_directory = event.mode & libc::S_IFMT == libc::S_IFDIR;
        if let Some(path) = of_no_filesystem(event, key.1) {
            self.enter_nameless(key, event.fd);
            let named = self.named.get_mut(&key).expect("just entered");
            (named.holder, named.mount_id, named.hash) = (event.tid, event.mount_id, hash);
            named.info = Arc::new(FileInfo { path: Some(path), ..(*named.info).clone() });
            return;
        }
        let mount = self.mounts.get(&(key.0, event.mount_id)).cloned();
        let mounted = mount.as_ref().and_then(|mount| mount.point.as_deref()).unwrap_or(Path::new("/"));
        let mut path = if event.complete { mounted } else { Path::new(CUT_OFF) }.to_owned();
        path.extend(event.components.iter().rev().map(|name| OsStr::from_bytes(name)));
        // The kernel knows nothing of a chroot. Two paths for one file would be two series.
        if let Some(inside) = self.root_of(key.0).and_then(|root| strip_root(&path, root)) {
            path = inside;
        }
        path.shrink_to_fit();
        self.find_engine(key.0);
        let (role, wants_content) = self.role(&key, &path, is_directory, None);
        // The kernel's own name is complete where the mount is known. Confirming it can wait until the file
        // is synced again, where files come faster than the worker confirms them.
        let hurried = !wants_content && mount.is_some() && self.pending(key.0) >= HURRIED;
        let (device, mount_point, filesystem) =
            mount.map_or((None, None, None), |mount| (Some(mount.device), mount.point, mount.filesystem));
        let info = FileInfo {
            path: Some(path),
            role,
            device: self.device_below(event.below).or(device),
            below: event.below,
            mount: mount_point,
            filesystem,
            open: true,
            unlinked: false,
        };
        let named = Named {
            info: Arc::new(info),
            holder: event.tid,
            fd: event.fd,
            mount_id: event.mount_id,
            hash,
            components: Some(join(&event.components)),
            complete: event.complete,
            is_directory,
            wants_content,
            verified: false,
            number: self.learnt,
            looked: Instant::now(),
        };
        self.learnt += 1;
        self.named.insert(key, named);
        if !hurried {
            self.ask(key, wants_content);
        }
    }

    /// What the device of an overlay's layer is called, whose mount the server itself need not see.
    fn device_below(&mut self, below: Option<u32>) -> Option<Arc<str>> {
        Some(shared(&mut self.texts, self.devices.name(below?).as_str()))
    }

    /// The directory in which a server is chrooted; looked at when its first file is named.
    fn root_of(&mut self, server: ServerId) -> Option<&Path> {
        let look = || mounts::root_of(Path::new(PROC), server.pid);
        self.roots.entry(server).or_insert_with(look).as_deref()
    }

    /// A file whose name was never sent is looked up by the descriptor of its row.
    pub(crate) fn learn_by_descriptor(&mut self, key: FileKey, fd: i32) {
        self.enter_nameless(key, fd);
        self.ask(key, true);
    }

    /// Its engine decides which rules hold; looked at when its first file is named.
    fn find_engine(&mut self, server: ServerId) {
        let look = || {
            let process = processes::find(Path::new(PROC), server.pid)?;
            self.rules.engines().by_command(&process.comm)
        };
        self.engines.entry(server).or_insert_with(look);
    }

    fn enter_nameless(&mut self, key: FileKey, fd: i32) {
        self.find_engine(key.0);
        // The kernel side sends no name of a pipe, which has none in any directory.
        let is_pipe = Some(key.1.device) == mounts::device_of_pipes();
        let path = is_pipe.then(|| PathBuf::from(format!("pipe:[{}]", key.1.inode)));
        let info = match path {
            None => self.unknown_file(&key).clone(),
            path => Arc::new(FileInfo { path, ..FileInfo::nameless(Role::Other) }),
        };
        let named = Named {
            info,
            holder: key.0.pid,
            fd,
            mount_id: -1,
            hash: 0,
            components: None,
            complete: false,
            is_directory: false,
            wants_content: true,
            verified: false,
            number: self.learnt,
            looked: Instant::now(),
        };
        self.learnt += 1;
        self.named.entry(key).or_insert(named);
    }

    pub(crate) fn know_owner(&mut self, server: ServerId, owner: Owner) {
        self.owners.insert(server, owner);
    }

    /// Who answers for a server; looked at when its first file is named, if nobody has said so.
    fn owner(&mut self, server: ServerId) -> Owner {
        let look = || owner::of_process(Path::new(PROC), server.pid);
        *self.owners.entry(server).or_insert_with(look)
    }

    /// Requests about files of the same owner that wait.
    fn pending(&mut self, server: ServerId) -> usize {
        let owner = self.owner(server);
        self.workers.pending_of(&owner)
    }

    /// A file that no row is about, as somebody found it among a server's open ones.
    pub(crate) fn learn_open(&mut self, found: FoundOpen) {
        self.enter_nameless(found.answer.key, found.fd);
        self.take(found.answer);
    }

    /// Whose file this is, by the names that are known: an overlay's is meant by that of the layer below it,
    /// too. Goes through all names.
    pub(crate) fn owner_of(&self, file: FileId) -> Option<FileKey> {
        let is_it = |(key, named): &(&FileKey, &Named)| {
            let lies_there = named.info.below == Some(file.device)
                && (key.1.inode, key.1.generation) == (file.inode, file.generation);
            !key.1.part && (key.1 == file || lies_there)
        };
        // The one that synced it first, but one that lives before any that has ended.
        let of = |open: bool| self.named.iter().filter(is_it).find(|(_, named)| named.info.open == open);
        of(true).or_else(|| of(false)).map(|(key, _)| *key)
    }

    /// A file was synced: it is looked at if that is due, if need be by the descriptor of its row. Its role.
    pub fn attend(&mut self, key: FileKey, fd: i32) -> Role {
        match self.named.get(&key) {
            None => self.learn_by_descriptor(key, fd),
            Some(named) => {
                let role = named.info.role;
                let is_due =
                    !named.verified || self.tick.saturating_duration_since(named.looked) >= self.look_again;
                let undecided = named.wants_content || role == Role::Other;
                let first_bytes = undecided && !named.is_directory;
                if is_due && self.pending(key.0) < BUSY {
                    self.ask(key, first_bytes);
                }
                return role;
            }
        }
        Role::Other
    }

    pub fn info(&self, key: &FileKey) -> &Arc<FileInfo> {
        self.named.get(key).map_or_else(|| self.unknown_file(key), |named| &named.info)
    }

    fn unknown_file(&self, key: &FileKey) -> &Arc<FileInfo> {
        if key.1.part { &self.unknown_part } else { &self.unknown }
    }

    pub(crate) fn role_of(&self, key: &FileKey) -> Role {
        self.info(key).role
    }

    /// The role of a path that belongs to no row.
    pub(crate) fn role_by_path(&self, server: ServerId, path: &Path) -> Role {
        self.role_in(server, path, false, None).0
    }

    /// Processor time that was used to confirm names.
    pub fn spent(&self) -> Duration {
        self.allowance.spent()
    }

    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// The rows are about to be read: those of the names learnt so far will be known.
    pub(crate) fn begin_tick(&mut self) {
        self.learnt_before_tick = self.learnt;
        self.tick = Instant::now();
        self.look_again = LOOK_AGAIN + Duration::from_secs(self.named.len() as u64) / LOOKS_PER_SECOND;
    }

    /// Forgets the names of the files that are not `wanted`, but for those whose rows, or the ends of whose
    /// syncs, may still come.
    pub fn retain(&mut self, wanted: impl Fn(&FileKey) -> bool) {
        let latest = self.learnt_before_tick.saturating_sub(LATEST);
        self.named.retain(|key, named| named.number >= latest || wanted(key));
    }

    /// The server has gone: nothing of it is open any more.
    pub(crate) fn server_ended(&mut self, server: ServerId) {
        for (_, named) in self.named.iter_mut().filter(|(key, named)| key.0 == server && named.info.open) {
            named.info = Arc::new(FileInfo { open: false, ..(*named.info).clone() });
        }
    }

    /// These servers are remembered no longer.
    pub fn forget(&mut self, gone: &HashSet<ServerId>) {
        self.named.retain(|(server, _), _| !gone.contains(server));
        self.mounts.retain(|(server, _), _| !gone.contains(server));
        self.engines.retain(|server, _| !gone.contains(server));
        self.settings.retain(|server, _| !gone.contains(server));
        self.roots.retain(|server, _| !gone.contains(server));
        self.owners.retain(|server, _| !gone.contains(server));
    }

    /// What the server is, as far as that is known, and its settings: they come before names.
    pub(crate) fn set_server(&mut self, server: ServerId, engine: Option<Arc<Engine>>, settings: Settings) {
        self.engines.insert(server, engine);
        self.settings.insert(server, Arc::new(settings));
        let keys: Vec<_> = self.named.keys().filter(|key| key.0 == server).copied().collect();
        for key in keys {
            let named = &self.named[&key];
            let Some(path) = named.info.path.clone() else { continue };
            let (role, wants_content) = self.role(&key, &path, named.is_directory, None);
            let named = self.named.get_mut(&key).expect("just seen");
            // What the content said stands until it is looked at with these settings.
            let is_known = !wants_content || (named.wants_content && role != Role::Other);
            if is_known && role != named.info.role {
                named.info = Arc::new(FileInfo { role, ..(*named.info).clone() });
            }
            named.wants_content = wants_content;
        }
    }

    /// Takes what the workers found out.
    pub fn collect(&mut self) {
        while let Some(answer) = self.workers.poll() {
            self.take(answer);
        }
    }

    /// Waits for the workers, so that the last files have their names, but not for ever, and not for those
    /// that hang.
    pub fn settle(&mut self, timeout: Duration) {
        let end = Instant::now() + timeout;
        while self.workers.pending() > 0 {
            match self.workers.wait(end.saturating_duration_since(Instant::now()).min(CONFIRM_TIMEOUT)) {
                Some(answer) => self.take(answer),
                None if Instant::now() >= end => return,
                None => {}
            }
        }
        self.collect();
    }

    fn take(&mut self, answer: Answer) {
        let Answer { key, mount_id, resolved, first_bytes, unlinked, used } = answer;
        self.allowance.spend(used);
        // One that is remembered no longer is a stranger's, at worst.
        if !matches!(self.owners.get(&key.0), Some(Owner::System(_))) {
            self.of_strangers.spend(used);
        }
        let Some(named) = self.named.get(&key) else { return };
        let (before, was_directory) = (named.info.clone(), named.is_directory);
        let mut info = (*before).clone();
        let mut is_directory = was_directory;
        let mut wants_content = named.wants_content;
        // What the kernel said of a file at its sync is right: one of another kind is another file.
        let is_told = named.mount_id >= 0;
        let is_it = |found: &Resolved| found.is_directory.is_none_or(|is| !is_told || is == was_directory);
        let resolved = resolved.filter(is_it);
        let verified = resolved.is_some();
        if let Some(found) = resolved {
            let mounted = Mounted {
                device: shared(&mut self.texts, found.device.as_str()),
                point: found.mount.map(|point| shared(&mut self.points, point.as_path())),
                filesystem: found.filesystem.map(|filesystem| shared(&mut self.texts, filesystem.as_str())),
            };
            is_directory = found.is_directory.unwrap_or(is_directory);
            info.unlinked = found.deleted;
            if info.path.as_deref() != Some(&*found.path) {
                // A copy of exactly its size, and not of the worker's memory.
                info.path = Some(found.path.as_path().to_owned());
            }
            info.device = self.device_below(info.below).or_else(|| Some(mounted.device.clone()));
            info.mount.clone_from(&mounted.point);
            info.filesystem.clone_from(&mounted.filesystem);
            self.mounts.insert((key.0, mount_id), mounted);
        }
        info.unlinked |= unlinked;
        info.open &= !info.unlinked;
        if let Some(path) = &info.path {
            let (role, wants) = self.role(&key, path, is_directory, first_bytes.as_deref());
            // Content that was read once is not read again: what it decided stands until a name says
            // otherwise.
            let is_as_before = before.path.as_ref() == Some(path) && was_directory == is_directory;
            let stands = wants && !wants_content && is_as_before;
            if !stands && (role != Role::Other || info.role == Role::Other) {
                info.role = role;
            }
            wants_content = wants && !stands;
        }
        let named = self.named.get_mut(&key).expect("looked up above");
        named.verified |= verified;
        if verified {
            named.components = None;
        }
        named.is_directory = is_directory;
        named.wants_content = wants_content;
        named.looked = Instant::now();
        if *named.info != info {
            named.info = Arc::new(info);
        }
    }

    /// The role, and whether a rule asks for the first bytes that might decide otherwise.
    fn role(&self, key: &FileKey, path: &Path, is_directory: bool, first: Option<&[u8]>) -> (Role, bool) {
        match key.1.part {
            true => (Role::Doublewrite, false),
            false => self.role_in(key.0, path, is_directory, first),
        }
    }

    /// The same of a path. An empty file says nothing yet.
    fn role_in(
        &self,
        server: ServerId,
        path: &Path,
        is_directory: bool,
        first: Option<&[u8]>,
    ) -> (Role, bool) {
        let settings = self.settings.get(&server).unwrap_or(&self.none);
        let engine = self.engines.get(&server).and_then(|engine| engine.as_deref());
        let asks = Cell::new(false);
        let first_bytes = || {
            asks.set(true);
            first.map(<[u8]>::to_vec)
        };
        let candidate = Candidate { path, is_directory, engine, settings, first_bytes: &first_bytes };
        let role = self.rules.classify(&candidate);
        (role, asks.get() && first.is_none_or(<[u8]>::is_empty))
    }

    fn ask(&mut self, key: FileKey, first_bytes: bool) {
        let owner = self.owner(key.0);
        let is_service = matches!(owner, Owner::System(_));
        let has_room = self.allowance.has_room(self.tick);
        if !has_room || !is_service && !self.of_strangers.has_room(self.tick) {
            return;
        }
        let Some(named) = self.named.get_mut(&key) else { return };
        named.looked = Instant::now();
        let request = Request {
            key,
            holder: named.holder,
            fd: named.fd,
            mount_id: named.mount_id,
            components: named.components.clone(),
            complete: named.complete,
            known: named.info.path.clone().filter(|_| named.verified),
            first_bytes,
        };
        // Where too many wait, it is asked for again.
        self.workers.submit(owner, request);
    }
}

/// The one copy of a text that files share.
fn shared<T: ?Sized + Eq + std::hash::Hash>(known: &mut HashSet<Arc<T>>, text: &T) -> Arc<T>
where
    for<'a> Arc<T>: From<&'a T>,
{
    if let Some(text) = known.get(text) {
        return text.clone();
    }
    // Those of file systems that are mounted no longer go, before there are many.
    if known.len() >= MAX_TEXTS {
        known.retain(|text| Arc::strong_count(text) > 1);
    }
    let text: Arc<T> = text.into();
    known.insert(text.clone());
    text
}

/// What /proc/PID/fd calls what lies on no filesystem that is mounted, and has no name in a directory.
fn of_no_filesystem(event: &FileEvent, file: FileId) -> Option<PathBuf> {
    match event.mode & libc::S_IFMT {
        libc::S_IFSOCK => Some(format!("socket:[{}]", file.inode).into()),
        // "[eventfd]"
        0 => Some(format!("anon_inode:{}", String::from_utf8_lossy(event.components.first()?)).into()),
        _ => None,
    }
}

fn join(components: &[Vec<u8>]) -> Box<[u8]> {
    components.iter().flat_map(|name| name.iter().copied().chain([0])).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
