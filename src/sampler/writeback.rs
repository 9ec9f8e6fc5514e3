//! Writeback errors: whose file each is of. One that a row is about is known; else it is looked for among the
//! open files of the traced servers, by a thread that may block, and of those traced processes that nothing
//! was heard of yet: whoever writes and never syncs leaves no row. What is no traced process's is told by its
//! numbers only: the names of other processes' files are not our business.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Sampler;
use super::devices::Devices;
use super::names::{FoundOpen, Names, find_open};
use crate::engine::engines::Engines;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::cpu_time::{Allowance, of_this_thread};
use crate::model::{Errors, FileId, FileInfo, FileRow, Op, Role, ServerId, Stats, Target};
use crate::server::who::processes::{self, ThreadGroup};
use crate::server::who::selection::Selection;

/// One search at a time; a thread more may hang.
const SEARCHES: Share = Share { threads: 1, with_abandoned: 2, queue: 1 };
/// For all servers together.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// A search that takes longer hangs: the files that it was for are nobody's.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Servers whose open files are looked at; the latest first.
const SERVERS: usize = 256;
/// Files of a server that are told apart.
const FILES: usize = 1_024;

/// To find the processes that are selected, a file of each process of the host is read: whoever causes
/// errors again and again makes work here.
const LISTING_SHARE: f64 = 0.002;
const LISTING_BURST: Duration = Duration::from_secs(1);

/// What is looked for, and where.
struct Search {
    /// Tells it from others.
    begun: Instant,
    files: Vec<FileId>,
    servers: Vec<ServerId>,
    /// Beside these servers.
    selection: Option<Selection>,
}

struct Found {
    begun: Instant,
    open: Vec<FoundOpen>,
    /// Processor time that it took to list processes.
    listing: Duration,
}

pub(super) struct Writeback {
    /// How many changes there were when the files were last read.
    read_at: u64,
    /// Changes of which it is not known yet whose they are.
    open: BTreeMap<Target, Errors>,
    searches: Pool<(), Search, Found>,
    /// Since when, and for which files.
    searching: Option<(Instant, Vec<FileId>)>,
    /// The processes that are traced.
    selection: Option<Selection>,
    listing: Allowance,
    rows: BTreeMap<(ServerId, Target), Errors>,
    /// What stands for names where no server is known.
    nameless: BTreeMap<Target, Arc<FileInfo>>,
}

fn search(engines: &Engines, search: &Search) -> Option<Found> {
    let until = Instant::now() + SEARCH_TIME;
    let mut left = search.files.clone();
    let mut open = Vec::new();
    let mut look = |servers: &[ServerId]| {
        for server in servers {
            if left.is_empty() {
                break;
            }
            let found = find_open(engines, *server, &left, until);
            left.retain(|file| found.iter().all(|found| found.answer.key.1 != *file));
            open.extend(found);
        }
        !left.is_empty()
    };
    let mut listing = Duration::ZERO;
    if look(&search.servers)
        && let Some(selection) = &search.selection
    {
        let before = of_this_thread();
        let others = unheard_of(selection, &search.servers);
        listing = of_this_thread().saturating_sub(before);
        look(&others);
    }
    Some(Found { begun: search.begun, open, listing })
}

/// The processes that are selected, but for these servers; the latest first.
fn unheard_of(selection: &Selection, servers: &[ServerId]) -> Vec<ServerId> {
    let is_known = |id: &ServerId| servers.iter().any(|server| processes::same_server(*id, *server));
    let mut others: Vec<ServerId> = selection.processes().iter().map(ThreadGroup::id).collect();
    others.sort_by_key(|id| std::cmp::Reverse(id.start_ns));
    others.into_iter().filter(|id| !is_known(id)).take(SERVERS).collect()
}

impl Writeback {
    pub fn new(engines: Arc<Engines>) -> Writeback {
        let limits = Limits::for_one_owner(SEARCHES, SEARCH_TIMEOUT);
        Writeback {
            read_at: 0,
            open: BTreeMap::new(),
            searches: Pool::new("writeback", limits, move |asked| search(&engines, asked)),
            searching: None,
            selection: None,
            listing: Allowance::new(LISTING_SHARE, LISTING_BURST),
            rows: BTreeMap::new(),
            nameless: BTreeMap::new(),
        }
    }

    /// Whether the name of this file is shown.
    pub(crate) fn knows(&self, server: ServerId, file: FileId) -> bool {
        self.rows.contains_key(&(server, Target::File(file)))
    }

    fn enter(&mut self, target: Target, errno: i32, changes: u64) {
        *self.open.entry(target).or_default().entry(errno).or_default() += changes;
    }

    /// It is known whose file this is.
    fn settle(&mut self, target: Target, key: (ServerId, Target)) {
        let Some(errors) = self.open.remove(&target) else { return };
        // Whose files fail by the thousand has one row for each filesystem, too.
        let first = FileId { device: 0, inode: 0, generation: 0, weak: false, part: false };
        let files = (key.0, Target::File(first))..(key.0, Target::Filesystem(0));
        let is_full = || !self.rows.contains_key(&key) && self.rows.range(files).count() >= FILES;
        let key = match key.1 {
            Target::File(file) if is_full() => (key.0, Target::Filesystem(file.device)),
            _ => key,
        };
        add(self.rows.entry(key).or_default(), &errors);
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

    /// What was not found is nobody's. Returns whose the others are.
    fn end_search(&mut self, begun: Instant, found: Vec<FoundOpen>, names: &mut Names) -> Vec<ServerId> {
        let mut owners = Vec::new();
        // The answer to a search that was given up comes too late.
        let Some((_, files)) = self.searching.take_if(|(since, _)| *since == begun) else { return owners };
        for open in found {
            let (server, file) = open.answer.key;
            names.learn_open(open);
            self.settle(Target::File(file), (server, Target::File(file)));
            owners.push(server);
        }
        files.into_iter().for_each(|file| self.is_nobodys(Target::File(file)));
        owners
    }

    /// Servers that are remembered no longer: their files are one for each role, as in the ledger.
    pub(super) fn fold_ended(&mut self, gone: &HashSet<ServerId>, names: &Names) {
        let is_gone = |(server, _): &&(ServerId, Target)| gone.contains(server);
        let keys: Vec<_> = self.rows.keys().filter(is_gone).copied().collect();
        for key in keys {
            let role = match key.1 {
                Target::File(file) => names.role_of(&(key.0, file)),
                _ => Role::Other,
            };
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
            for error in self.probe.take_writeback_errors()? {
                self.writeback.enter(error.target, error.errno, error.changes);
            }
            self.writeback.read_at = total;
        }
        if self.writeback.open.is_empty() {
            return Ok(());
        }
        if let Some(found) = self.writeback.searches.poll() {
            self.end_writeback_search(found);
        }
        self.writeback.settle_known(&self.names);
        match self.writeback.searching {
            None => self.search_writeback(),
            Some((begun, _)) if begun.elapsed() >= SEARCH_TIMEOUT => {
                self.writeback.end_search(begun, Vec::new(), &mut self.names);
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
        let may_list = self.writeback.listing.has_room(begun);
        let selection = self.writeback.selection.clone().filter(|_| may_list);
        let has_where = !servers.is_empty() || selection.is_some();
        // Where too many hang, it is not found out.
        let search = Search { begun, files, servers, selection };
        if !has_where || !self.writeback.searches.submit((), search) {
            self.writeback.end_search(begun, Vec::new(), &mut self.names);
        }
    }

    fn end_writeback_search(&mut self, found: Found) {
        self.writeback.listing.spend(found.listing);
        let owners = self.writeback.end_search(found.begun, found.open, &mut self.names);
        owners.into_iter().for_each(|server| self.expect_server(server));
    }

    /// The processes that are traced: among them is looked for whoever has a file open that could not be
    /// written back.
    pub(crate) fn set_selection(&mut self, selection: &Selection) {
        self.writeback.selection = Some(selection.clone());
    }

    /// Waits for a search that is under way, but not for ever.
    pub(super) fn settle_writeback(&mut self, patience: Duration) {
        if self.writeback.searching.is_some()
            && let Some(found) = self.writeback.searches.wait(patience)
        {
            self.end_writeback_search(found);
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
