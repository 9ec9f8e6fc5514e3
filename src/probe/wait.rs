//! The wait probes: an object of their own, attached beside the sync calls and only for `explain` and for
//! `record --waits`. The two share the maps that tell which threads are in a traced sync.

use std::collections::HashMap;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject};

use super::array::MappedArray;
use super::attach::Attached;
use super::contract::{Record, view};
use super::{features, globals, min_core_btf, programs};
use crate::linux::clock::monotonic_ns;
use crate::model::{Committer, WaitLosses};
use skeleton::types;

#[allow(clippy::all, clippy::unwrap_used, unsafe_op_in_unsafe_fn, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/wait.skel.rs"));
}
use skeleton::{WaitSkel, WaitSkelBuilder};

// SAFETY: integers and arrays of them.
unsafe impl Record for types::wait_key {}
// SAFETY: the same.
unsafe impl Record for types::wait_total {}
// SAFETY: the same.
unsafe impl Record for types::stack {}
// SAFETY: the same.
unsafe impl Record for types::clock {}
// SAFETY: the same.
unsafe impl Record for types::writer_key {}

/// The programs as they were compiled (ELF).
pub static WAIT_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wait.bpf.o"));
/// The names of the types that they know, for [`min_core_btf::minimize`].
pub static WAIT_OBJECT_TYPES: &str = include_str!(concat!(env!("OUT_DIR"), "/wait.types"));

/// The constants of `bpf/waiting.h` and `bpf/clock.h`.
#[allow(dead_code, reason = "not all are needed here")]
mod constants {
    include!(concat!(env!("OUT_DIR"), "/wait.constants.rs"));
}
pub(crate) use constants::{CLOCKS as MAX_FILESYSTEMS, COMMITTER_STATES};
use constants::{CLOCKS_OF_DISK, COMMITTER_IDLE, COMMITTER_RANGES};

const _: () = assert!(Committer::ALL.len() == COMMITTER_STATES + 1, "all of the kernel side's, and other");

/// Programs of the second level; the first level works without them.
const SECOND_LEVEL: [&str; 5] =
    ["issue_request", "requeue_request", "complete_request", "start_commit", "start_handle"];

/// In [`Waits::not_attached`]: the clocks of level two, which several programs drive together.
pub(crate) const CLOCKS: &str = "clocks";

/// Why the waits cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The sync calls were attached without `ProbeConfig::watch_waits`.
    #[error("the probes of the sync calls were attached without the waits")]
    NotWatched,
    #[error("{step}: {source}")]
    Libbpf { step: String, source: libbpf_rs::Error },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Where the time of one row's syncs went, in the window. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotTime {
    /// The row's slot; below the number of operations: syncs without a row, by operation.
    pub slot: u32,
    /// From start to end of each sync.
    pub total_ns: u64,
    pub cpu_ns: u64,
    /// Could have run, but no processor was free.
    pub queued_ns: u64,
    pub waits: u64,
    /// Syncs that have begun and not ended.
    pub in_flight: i64,
}

/// The waits of one row's syncs at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotWait {
    pub slot: u32,
    /// Key into [`Waits::stacks`]; 0: unknown.
    pub stack: u64,
    pub ns: u64,
    pub waits: u64,
    /// What the committer of its filesystem did meanwhile, by state; all 0 where there is none.
    pub under: [u64; COMMITTER_STATES],
}

/// What the wait probes need to know about this host.
#[derive(Clone, Debug, Default)]
pub struct WaitPlan {
    /// Filesystems with a journal or log. More than [`MAX_FILESYSTEMS`] are left out.
    pub filesystems: Vec<WatchedFilesystem>,
    /// Functions of the kernel, [begin, end), and what a committer is doing in there (an index of the
    /// states). More than [`COMMITTER_RANGES`] are left out.
    pub committer_functions: Vec<(u64, u64, usize)>,
}

/// Device numbers are (major << 20) | minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFilesystem {
    /// Of the superblock.
    pub device: u32,
    /// The whole disks that it lies on.
    pub disks: Vec<u32>,
    /// No thread of its own commits: the state of its disks tells what is waited for.
    pub by_device: bool,
}

/// What the journal of one filesystem did in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    pub device: u32,
    pub by_device: bool,
    /// 0 where there is no thread that commits.
    pub commits: u64,
    /// Cache flushes of its disks, and writes that are to be on disk when they end; whoever asked for them.
    pub flushes: u64,
    /// Writes of metadata to its disks, which those to the log are.
    pub log_writes: u64,
    /// jbd2 handles started by each process.
    pub writers: Vec<Writer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    pub pid: u32,
    pub comm: String,
    pub handles: u64,
}

/// All that was seen in the window.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub window: Duration,
    pub times: Vec<SlotTime>,
    pub waits: Vec<SlotWait>,
    /// Addresses of the kernel, innermost frame first.
    pub stacks: HashMap<u64, Vec<u64>>,
    pub journals: Vec<JournalCounts>,
    /// (program, reason) of those that could not be attached: what they measure is missing.
    pub not_attached: Vec<(String, String)>,
    pub lost: WaitLosses,
}

impl Waits {
    pub(crate) fn is_attached(&self, program: &str) -> bool {
        !self.not_attached.iter().any(|(name, _)| name == program)
    }
}

/// The attached wait probes. Dropping it detaches them.
pub struct WaitProbe {
    /// Dropped first: detached before anything that the programs use goes.
    _links: Vec<Link>,
    iterator: Link,
    programs: Vec<OwnedFd>,
    spent: MappedArray,
    slots: u32,
    filesystems: Vec<WatchedFilesystem>,
    not_attached: Vec<(String, String)>,
    start_ns: u64,
    end_ns: u64,
    skel: Box<WaitSkel<'static>>,
}

impl WaitProbe {
    /// Attaches beside the sync calls. Nothing counts before [`WaitProbe::begin`].
    pub(super) fn attach(attached: &Attached, slots: u32, plan: &WaitPlan) -> Result<WaitProbe, WaitError> {
        if !attached.watch_waits {
            return Err(WaitError::NotWatched);
        }
        let mut not_attached = Vec::new();
        let mut skel = match load(attached, plan, true) {
            Ok(skel) => skel,
            // If the kernel refuses the smaller part as well, its error for that is the one to report.
            Err(error) => {
                let skel = load(attached, plan, false)?;
                not_attached.push((CLOCKS.to_owned(), error.to_string()));
                skel
            }
        };
        let filesystems: Vec<_> = plan.filesystems.iter().take(MAX_FILESYSTEMS).cloned().collect();
        name_filesystems(&skel, &filesystems).map_err(failed("name the filesystems"))?;
        let mut links = Vec::new();
        let mut programs = Vec::new();
        let mut iterator = None;
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !program.autoload() {
                not_attached.push((name, "it needs the clocks of level two".to_owned()));
                continue;
            }
            let link = match program.attach() {
                Ok(link) => link,
                Err(error) if SECOND_LEVEL.contains(&name.as_str()) => {
                    not_attached.push((name, format!("{error:#}")));
                    continue;
                }
                Err(error) => return Err(failed(&format!("attach {name}"))(error)),
            };
            if name == "cut_open_syncs" {
                iterator = Some(link);
                continue;
            }
            links.push(link);
            programs.push(program.as_fd().try_clone_to_owned()?);
        }
        let iterator = iterator.expect("the object has its iterator");
        let spent = MappedArray::new(&skel.maps.spent, size_of::<types::spent>())?;
        Ok(WaitProbe {
            _links: links,
            iterator,
            programs,
            spent,
            slots,
            filesystems,
            not_attached,
            start_ns: 0,
            end_ns: 0,
            skel,
        })
    }

    /// From now on time counts. Syncs in flight that began to wait before the probes were there are looked
    /// up.
    pub fn begin(&mut self) -> Result<(), WaitError> {
        self.cut_open_syncs()?;
        self.set_boundary(|probe, ns| probe.start_ns = ns)
    }

    /// From now on no time counts; the syncs in flight are cut off.
    pub fn end(&mut self) -> Result<(), WaitError> {
        self.set_boundary(|probe, ns| probe.end_ns = ns)?;
        self.cut_open_syncs()
    }

    /// Sets a boundary of the window to a moment in the near future and waits for it. With the present
    /// moment, what happens between reading the clock and updating the map would be counted by some programs
    /// and not by others.
    fn set_boundary(&mut self, set: impl Fn(&mut WaitProbe, u64)) -> Result<(), WaitError> {
        let mut lead = 1_000_000;
        loop {
            let at = monotonic_ns() + lead;
            set(self, at);
            self.set_window()?;
            let left = at.saturating_sub(monotonic_ns());
            if left > 0 {
                std::thread::sleep(Duration::from_nanos(left));
                return Ok(());
            }
            // We were preempted; try again with a longer lead.
            lead *= 2;
        }
    }

    fn set_window(&self) -> Result<(), WaitError> {
        // struct window
        let window = [self.start_ns, self.end_ns].map(u64::to_ne_bytes).concat();
        let set = self.skel.maps.window.update(&0u32.to_ne_bytes(), &window, MapFlags::ANY);
        set.map_err(|source| WaitError::Libbpf { step: "set the window".into(), source })
    }

    fn cut_open_syncs(&self) -> Result<(), WaitError> {
        let failed = |source| WaitError::Libbpf { step: "look at the syncs in flight".into(), source };
        let mut nothing = Vec::new();
        Iter::new(&self.iterator).map_err(failed)?.read_to_end(&mut nothing)?;
        Ok(())
    }

    /// Everything that was seen in the window, up to now.
    pub fn read(&mut self) -> Result<Waits, WaitError> {
        let end_ns = if self.end_ns > 0 { self.end_ns } else { monotonic_ns() };
        let (times, all) = self.totals()?;
        let mut waits = Waits {
            window: Duration::from_nanos(end_ns.saturating_sub(self.start_ns)),
            times,
            waits: all,
            lost: self.losses(),
            not_attached: self.not_attached.clone(),
            journals: self.journals()?,
            ..Waits::default()
        };
        for key in self.skel.maps.stacks.keys() {
            if let Some(hash) = number(&key)
                && let Some(frames) = self.stack(hash)?
            {
                waits.stacks.insert(hash, frames);
            }
        }
        Ok(waits)
    }

    /// Up to now. The programs go on: they add entries to their maps and take none out, so that each is
    /// found; what is counted meanwhile may be missing, and is there the next time.
    pub(crate) fn totals(&mut self) -> Result<(Vec<SlotTime>, Vec<SlotWait>), WaitError> {
        let (mut times, mut waits) = (Vec::new(), Vec::new());
        for slot in 0..self.slots {
            let spent: types::spent = self.spent.read(slot)?;
            if spent.total_ns > 0 || spent.waits > 0 {
                let types::spent { total_ns, cpu_ns, queued_ns, waits: n, in_flight, .. } = spent;
                times.push(SlotTime { slot, total_ns, cpu_ns, queued_ns, waits: n, in_flight });
            }
        }
        self.spent.unmap();
        let failed = |source| WaitError::Libbpf { step: "read the waits".into(), source };
        let maps = &self.skel.maps;
        let all = maps.waits.keys().map(|key| (&maps.waits, key));
        for (map, key) in all.chain(maps.waits_by_op.keys().map(|key| (&maps.waits_by_op, key))) {
            let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(failed)? else { continue };
            let (Some(key), Some(total)) = (view::<types::wait_key>(&key), view::<types::wait_total>(&value))
            else {
                continue;
            };
            waits.push(SlotWait {
                slot: key.slot,
                stack: key.stack,
                ns: total.ns,
                waits: total.waits,
                under: total.under,
            });
        }
        Ok((times, waits))
    }

    /// Its addresses, innermost frame first.
    pub(crate) fn stack(&self, hash: u64) -> Result<Option<Vec<u64>>, WaitError> {
        let failed = |source| WaitError::Libbpf { step: "read the stacks".into(), source };
        let value = self.skel.maps.stacks.lookup(&hash.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        let stack = value.and_then(|value| view::<types::stack>(&value));
        Ok(stack.map(|stack| stack.frame.iter().copied().take_while(|&ip| ip != 0).collect()))
    }

    /// Gives the place of a wait to others; its total begins anew. For slots without a sync in flight: a
    /// program may be adding to that of another.
    pub(crate) fn forget(&self, slot: u32, stack: u64) -> Result<(), WaitError> {
        // struct wait_key
        let key = [&slot.to_ne_bytes()[..], &[0; 4], &stack.to_ne_bytes()].concat();
        self.skel.maps.waits.delete(&key).map_err(failed("make room for waits"))
    }

    /// (program, reason), as [`Waits::not_attached`].
    pub(crate) fn not_attached(&self) -> &[(String, String)] {
        &self.not_attached
    }

    fn journals(&self) -> Result<Vec<JournalCounts>, WaitError> {
        let failed = |source| WaitError::Libbpf { step: "read the journals".into(), source };
        let maps = &self.skel.maps;
        let mut journals = Vec::new();
        for (i, filesystem) in (0u32..).zip(&self.filesystems) {
            let value = maps.clocks.lookup(&i.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
            let Some(clock) = value.and_then(|value| view::<types::clock>(&value)) else { continue };
            let commits = maps.commits.lookup(&(i + 1).to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
            journals.push(JournalCounts {
                device: filesystem.device,
                by_device: filesystem.by_device,
                commits: commits.and_then(|value| number(&value)).unwrap_or(0),
                flushes: clock.flushes_done,
                log_writes: clock.logs_done,
                writers: Vec::new(),
            });
        }
        for key in maps.writers.keys() {
            let handles = maps.writers.lookup(&key, MapFlags::ANY).map_err(failed)?;
            let (Some(key), Some(handles)) =
                (view::<types::writer_key>(&key), handles.and_then(|value| number(&value)))
            else {
                continue;
            };
            let name = key.comm.split(|&b| b == 0).next().unwrap_or_default();
            let comm = String::from_utf8_lossy(name).into_owned();
            if let Some(journal) = (key.clock as usize).checked_sub(1).and_then(|i| journals.get_mut(i)) {
                journal.writers.push(Writer { pid: key.tgid, comm, handles });
            }
        }
        for journal in &mut journals {
            journal.writers.sort_by_key(|writer| std::cmp::Reverse(writer.handles));
        }
        Ok(journals)
    }

    pub(crate) fn losses(&self) -> WaitLosses {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has a .bss");
        // SAFETY: the kernel changes these words at any moment; each is read once.
        let raw = unsafe { std::ptr::from_ref(&bss.lost).read_volatile() };
        let skipped = self.programs.iter().map(|fd| programs::info(fd.as_fd()).runs_skipped).sum();
        WaitLosses {
            stacks: raw.stacks,
            waits: raw.waits,
            unplaced: raw.unplaced,
            unplaced_ns: raw.unplaced_ns,
            writers: raw.writers,
            skipped,
            syncs: 0,
        }
    }
}

pub(super) fn failed(step: &str) -> impl Fn(libbpf_rs::Error) -> WaitError + use<> {
    let step = step.to_owned();
    move |source| WaitError::Libbpf { step: step.clone(), source }
}

/// `clocks`: with those of level two.
fn load(attached: &Attached, plan: &WaitPlan, clocks: bool) -> Result<Box<WaitSkel<'static>>, WaitError> {
    // The object lives as long as the process.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut builder = WaitSkelBuilder::default();
    let types = min_core_btf::minimize(WAIT_OBJECT_TYPES);
    if let Some(types) = &types {
        builder.obj_builder.btf_custom_path(types.path()).map_err(failed("open the wait probes"))?;
    }
    let mut open = builder.open(storage).map_err(failed("open the wait probes"))?;
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the object has .rodata");
    rodata.task_storage = attached.features.task_storage;
    rodata.clocks_allowed = clocks;
    rodata.queue_before_request = features::queue_before_request();
    rodata.by_thread = !attached.features.task_storage || globals::storage_refused(&attached.skel);
    let functions = plan.committer_functions.iter().take(COMMITTER_RANGES);
    for (i, &(begin, end, state)) in functions.enumerate() {
        (rodata.range_begin[i], rodata.range_end[i], rodata.range_state[i]) = (begin, end, state as u32);
    }
    let theirs = &attached.skel.maps;
    let share = |result: libbpf_rs::Result<()>| result.map_err(failed("share a map"));
    if attached.features.task_storage {
        share(open.maps.waiting.reuse_fd(theirs.waiting.as_fd()))?;
    } else {
        share(open.maps.waiting.set_autocreate(false))?;
    }
    share(open.maps.waiting_by_thread.reuse_fd(theirs.waiting_by_thread.as_fd()))?;
    share(open.maps.spent.reuse_fd(theirs.spent.as_fd()))?;
    share(open.maps.window.reuse_fd(theirs.window.as_fd()))?;
    for mut program in open.open_object_mut().progs_mut() {
        let needs_clocks = program.name().to_string_lossy().ends_with("_request");
        program.set_autoload(clocks || !needs_clocks);
    }
    Ok(Box::new(open.load().map_err(failed("load the wait probes"))?))
}

/// Before anything is attached.
fn name_filesystems(skel: &WaitSkel<'_>, filesystems: &[WatchedFilesystem]) -> libbpf_rs::Result<()> {
    let mut disks: HashMap<u32, Vec<u32>> = HashMap::new();
    for (clock, filesystem) in (1u32..).zip(filesystems) {
        skel.maps.filesystems.update(
            &filesystem.device.to_ne_bytes(),
            &clock.to_ne_bytes(),
            MapFlags::ANY,
        )?;
        let mut value = vec![0; skel.maps.clocks.value_size() as usize];
        let state = std::mem::offset_of!(types::clock, state);
        value[state..state + 4].copy_from_slice(&(COMMITTER_IDLE as u32).to_ne_bytes());
        let by_device = std::mem::offset_of!(types::clock, by_device);
        value[by_device..by_device + 4].copy_from_slice(&u32::from(filesystem.by_device).to_ne_bytes());
        skel.maps.clocks.update(&(clock - 1).to_ne_bytes(), &value, MapFlags::ANY)?;
        for &disk in &filesystem.disks {
            disks.entry(disk).or_default().push(clock);
        }
    }
    for (disk, mut clocks) in disks {
        clocks.resize(CLOCKS_OF_DISK, 0);
        let clocks: Vec<u8> = clocks.iter().flat_map(|clock| clock.to_ne_bytes()).collect();
        skel.maps.disks.update(&disk.to_ne_bytes(), &clocks, MapFlags::ANY)?;
    }
    Ok(())
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_ne_bytes)
}
