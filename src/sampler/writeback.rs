//! Writeback errors: whose file each is of. One that a row is about is known; else the traced servers are
//! asked whether they have it open, by a thread that may block. What is no traced server's is told by its
//! numbers only: the names of other processes' files are not our business.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Sampler;
use super::devices::Devices;
use super::names::{FoundOpen, Names, find_open};
use crate::linux::blocking::{Limits, Pool, Share};
use crate::model::{Errors, FileId, FileInfo, FileRow, Op, Role, ServerId, Stats, Target};

/// One search at a time; a thread more may hang.
const SEARCHES: Share = Share { threads: 1, with_abandoned: 2, queue: 1 };
/// For all servers together.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// A search that takes longer hangs: the files that it was for are nobody's.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Servers whose open files are looked at; the latest first.
const SERVERS: usize = 256;

/// What is looked for, and where.
struct Search {
    /// Tells it from others.
    begun: Instant,
    files: Vec<FileId>,
    servers: Vec<ServerId>,
}

type Found = (Instant, Vec<FoundOpen>);

pub(super) struct Writeback {
    /// How many changes there were when the files were last read.
    read_at: u64,
    /// Changes that are in `rows` or in `open`, by file and errno.
    taken: BTreeMap<(Target, i32), u64>,
    /// Changes of which it is not known yet whose they are.
    open: BTreeMap<Target, Errors>,
    searches: Pool<(), Search, Found>,
    /// Since when, and for which files.
    searching: Option<(Instant, Vec<FileId>)>,
    rows: BTreeMap<(ServerId, Target), Errors>,
    /// What stands for names where no server is known.
    nameless: BTreeMap<Target, Arc<FileInfo>>,
}

impl Default for Writeback {
    fn default() -> Self {
        let limits = Limits::for_one_owner(SEARCHES, SEARCH_TIMEOUT);
        Writeback {
            read_at: 0,
            taken: BTreeMap::new(),
            open: BTreeMap::new(),
            searches: Pool::new("writeback", limits, search),
            searching: None,
            rows: BTreeMap::new(),
            nameless: BTreeMap::new(),
        }
    }
}

fn search(search: &Search) -> Option<Found> {
    let until = Instant::now() + SEARCH_TIME;
    let mut left = search.files.clone();
    let mut all = Vec::new();
    for server in &search.servers {
        let found = find_open(*server, &left, until);
        left.retain(|file| found.iter().all(|found| found.answer.key.1 != *file));
        all.extend(found);
        if left.is_empty() {
            break;
        }
    }
    Some((search.begun, all))
}

impl Writeback {
    /// Whether the name of this file is shown.
    pub(crate) fn knows(&self, server: ServerId, file: FileId) -> bool {
        self.rows.contains_key(&(server, Target::File(file)))
    }

    fn enter(&mut self, target: Target, errno: i32, changes: u64) {
        let taken = self.taken.entry((target, errno)).or_default();
        if changes > *taken {
            *self.open.entry(target).or_default().entry(errno).or_default() += changes - *taken;
            *taken = changes;
        }
    }

    /// It is known whose file this is.
    fn settle(&mut self, target: Target, key: (ServerId, Target)) {
        if let Some(errors) = self.open.remove(&target) {
            add(self.rows.entry(key).or_default(), &errors);
        }
    }

    fn is_nobodys(&mut self, target: Target) {
        self.settle(target, (ServerId::NONE, target));
    }

    /// Settles what needs no search: files that have a name, and devices.
    fn settle_known(&mut self, names: &Names) {
        let open: Vec<Target> = self.open.keys().copied().collect();
        for target in open {
            match target {
                Target::File(file) => {
                    if let Some((server, file)) = names.owner_of(file) {
                        self.settle(target, (server, Target::File(file)));
                    }
                }
                _ => self.is_nobodys(target),
            }
        }
    }

    /// What was not found is nobody's.
    fn end_search(&mut self, (begun, found): Found, names: &mut Names) {
        // The answer to a search that was given up comes too late.
        let Some((_, files)) = self.searching.take_if(|(since, _)| *since == begun) else { return };
        for open in found {
            let (server, file) = open.answer.key;
            names.learn_open(open);
            self.settle(Target::File(file), (server, Target::File(file)));
        }
        files.into_iter().for_each(|file| self.is_nobodys(Target::File(file)));
    }

    /// Servers that are remembered no longer: their files are one for each role, as in the ledger.
    pub(super) fn fold_ended(&mut self, gone: &HashSet<ServerId>, names: &Names) {
        let is_gone = |(server, _): &&(ServerId, Target)| gone.contains(server);
        let keys: Vec<_> = self.rows.keys().filter(is_gone).copied().collect();
        for key in keys {
            let Target::File(file) = key.1 else { continue };
            let role = names.role_of(&(key.0, file));
            if let Some(errors) = self.rows.remove(&key) {
                add(self.rows.entry((ServerId::ENDED, Target::Gone(role))).or_default(), &errors);
            }
        }
    }

    fn info(
        &mut self,
        (server, target): (ServerId, Target),
        names: &Names,
        devices: &mut Devices,
    ) -> Arc<FileInfo> {
        match target {
            Target::File(file) if server != ServerId::NONE => names.info(&(server, file)).clone(),
            Target::Gone(role) => {
                Arc::new(FileInfo { open: false, unlinked: true, ..FileInfo::nameless(role) })
            }
            _ => self.nameless.entry(target).or_insert_with(|| nameless(target, devices)).clone(),
        }
    }
}

fn add(sum: &mut Errors, errors: &Errors) {
    for (&errno, &n) in errors {
        *sum.entry(errno).or_default() += n;
    }
}

fn nameless(target: Target, devices: &mut Devices) -> Arc<FileInfo> {
    let (number, mount) = match target {
        Target::Filesystem(number) => (Some(number), Devices::mount(number)),
        Target::File(file) => (Some(file.device), None),
        _ => (None, None),
    };
    let (point, filesystem) = mount.unzip();
    Arc::new(FileInfo {
        device: number.map(|number| devices.name(number).into()),
        mount: point.map(Into::into),
        filesystem: filesystem.map(Into::into),
        ..FileInfo::nameless(Role::Other)
    })
}

impl Sampler {
    /// Reads the errors, if there is anything new, and finds out whose they are.
    pub(super) fn read_writeback(&mut self) -> std::io::Result<()> {
        let total = self.probe.writeback_error_count();
        if total != self.writeback.read_at {
            for error in self.probe.writeback_errors().map_err(std::io::Error::other)? {
                self.writeback.enter(error.target, error.errno, error.changes);
            }
            self.writeback.read_at = total;
        }
        if self.writeback.open.is_empty() {
            return Ok(());
        }
        if let Some(found) = self.writeback.searches.poll() {
            self.writeback.end_search(found, &mut self.names);
        }
        self.writeback.settle_known(&self.names);
        match self.writeback.searching {
            None => self.search_writeback(),
            Some((begun, _)) if begun.elapsed() >= SEARCH_TIMEOUT => {
                self.writeback.end_search((begun, Vec::new()), &mut self.names);
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn search_writeback(&mut self) {
        let is_file = |target: &Target| if let Target::File(file) = target { Some(*file) } else { None };
        let files: Vec<FileId> = self.writeback.open.keys().filter_map(is_file).collect();
        if files.is_empty() {
            return;
        }
        let servers = self.servers.list();
        let alive = servers.iter().rev().filter(|server| server.alive);
        let servers: Vec<ServerId> = alive.take(SERVERS).map(|server| server.id).collect();
        let begun = Instant::now();
        self.writeback.searching = Some((begun, files.clone()));
        // Where too many hang, it is not found out.
        if servers.is_empty() || !self.writeback.searches.submit((), Search { begun, files, servers }) {
            self.writeback.end_search((begun, Vec::new()), &mut self.names);
        }
    }

    /// Waits for a search that is under way, but not for ever.
    pub(super) fn settle_writeback(&mut self, patience: Duration) {
        if self.writeback.searching.is_some()
            && let Some(found) = self.writeback.searches.wait(patience)
        {
            self.writeback.end_search(found, &mut self.names);
        }
    }

    pub(super) fn writeback_rows(&mut self) -> Vec<FileRow> {
        let rows: Vec<_> = self.writeback.rows.iter().map(|(key, errors)| (*key, errors.clone())).collect();
        let row = |(key, errors): ((ServerId, Target), Errors)| {
            let info = self.writeback.info(key, &self.names, &mut self.devices);
            let stats = Stats { count: errors.values().sum(), errors, ..Stats::default() };
            FileRow { server: key.0, target: key.1, op: Op::Writeback, info, stats }
        };
        rows.into_iter().map(row).collect()
    }
}
