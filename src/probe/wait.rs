//! The wait probes: an object of their own, attached beside the sync calls and only while `explain` runs. They share
//! with it what says which threads are in a traced sync.

use std::collections::HashMap;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject};

use super::array::MappedArray;
use super::attach::Attached;
use super::events::{Record, view};
use super::{flags, program_info};
use skeleton::types;

#[allow(clippy::all, unsafe_op_in_unsafe_fn, missing_docs)]
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

/// The programs as they were compiled (ELF), for those who look at their size.
pub static WAIT_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wait.bpf.o"));

/// What a committer can be doing (`enum committer` in bpf/waiting.h).
pub const COMMITTER_STATES: usize = 8;

/// What is in the way of explaining.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The sync calls were attached without it ([`super::ProbeConfig::watch_waits`]).
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
    /// Of the row; below the number of operations: syncs without a row, by operation.
    pub slot: u32,
    /// From begin to end of each sync.
    pub total_ns: u64,
    pub cpu_ns: u64,
    /// Could have run, but no processor was free.
    pub queued_ns: u64,
    pub waits: u64,
}

/// The waits of one row's syncs at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotWait {
    pub slot: u32,
    /// Key into [`Waits::stacks`]; 0: not known.
    pub stack: u64,
    pub ns: u64,
    pub waits: u64,
    /// What the committer of its filesystem did meanwhile, by state; all 0 where there is none.
    pub under: [u64; COMMITTER_STATES],
}

/// All that was seen in the window.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub window: Duration,
    pub times: Vec<SlotTime>,
    pub waits: Vec<SlotWait>,
    /// Addresses of the kernel, innermost frame first.
    pub stacks: HashMap<u64, Vec<u64>>,
    pub lost: WaitLosses,
}

/// What could not be kept. All zero: everything was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitLosses {
    /// Waits whose stack is not known.
    pub stacks: u64,
    /// Waits that found no place.
    pub waits: u64,
    pub waits_ns: u64,
    /// Runs of the scheduler's hooks that the kernel skipped.
    pub skipped: u64,
}

/// The attached wait probes. Dropping it detaches them.
pub struct WaitProbe {
    links: Vec<Link>,
    iterator: Link,
    programs: Vec<OwnedFd>,
    spent: MappedArray,
    slots: u32,
    start_ns: u64,
    end_ns: u64,
    skel: Box<WaitSkel<'static>>,
}

impl WaitProbe {
    /// Attaches beside the sync calls. Nothing counts before [`WaitProbe::begin`].
    pub(super) fn attach(attached: &Attached, slots: u32) -> Result<WaitProbe, WaitError> {
        if !attached.watch_waits {
            return Err(WaitError::NotWatched);
        }
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| WaitError::Libbpf { step, source }
        };
        // The object lives as long as the process.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = WaitSkelBuilder::default().open(storage).map_err(failed("open the wait probes"))?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the object has .rodata");
        rodata.task_storage = attached.features.task_storage;
        rodata.by_thread = !attached.features.task_storage || flags::storage_refused(attached);
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
        let skel: Box<WaitSkel<'static>> = Box::new(open.load().map_err(failed("load the wait probes"))?);

        let mut links = Vec::new();
        let mut programs = Vec::new();
        let mut iterator = None;
        let mut skel = skel;
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let link = program.attach().map_err(failed(&format!("attach {name}")))?;
            if name == "cut_open_syncs" {
                iterator = Some(link);
                continue;
            }
            links.push(link);
            programs.push(program.as_fd().try_clone_to_owned()?);
        }
        let iterator = iterator.expect("the object has its iterator");
        let spent = MappedArray::new(&skel.maps.spent, size_of::<types::spent>())?;
        Ok(WaitProbe { links, iterator, programs, spent, slots, start_ns: 0, end_ns: 0, skel })
    }

    /// From now on time counts. Syncs in flight that began to wait before the probes were there are looked up.
    pub fn begin(&mut self) -> Result<(), WaitError> {
        self.cut_open_syncs()?;
        self.start_ns = monotonic_ns();
        self.set_window()
    }

    /// Time counts no longer; the syncs in flight are cut off.
    pub fn end(&mut self) -> Result<(), WaitError> {
        self.end_ns = monotonic_ns();
        self.set_window()?;
        self.cut_open_syncs()
    }

    /// Takes the hooks away; what was counted can still be read.
    pub fn detach(&mut self) {
        self.links.clear();
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

    /// Everything that was seen in the window. After [`WaitProbe::end`].
    pub fn read(&mut self) -> Result<Waits, WaitError> {
        let mut waits = Waits {
            window: Duration::from_nanos(self.end_ns.saturating_sub(self.start_ns)),
            lost: self.losses(),
            ..Waits::default()
        };
        for slot in 0..self.slots {
            let spent: types::spent = self.spent.read(slot)?;
            if spent.total_ns > 0 {
                let types::spent { total_ns, cpu_ns, queued_ns, waits: n } = spent;
                waits.times.push(SlotTime { slot, total_ns, cpu_ns, queued_ns, waits: n });
            }
        }
        self.spent.unmap();
        let failed = |source| WaitError::Libbpf { step: "read the waits".into(), source };
        let maps = &self.skel.maps;
        for key in maps.waits.keys() {
            let Some(value) = maps.waits.lookup(&key, MapFlags::ANY).map_err(failed)? else { continue };
            let (Some(key), Some(total)) = (view::<types::wait_key>(&key), view::<types::wait_total>(&value))
            else {
                continue;
            };
            waits.waits.push(SlotWait {
                slot: key.slot,
                stack: key.stack,
                ns: total.ns,
                waits: total.waits,
                under: total.under,
            });
        }
        for key in maps.stacks.keys() {
            let Some(value) = maps.stacks.lookup(&key, MapFlags::ANY).map_err(failed)? else { continue };
            let (Some(hash), Some(stack)) = (number(&key), view::<types::stack>(&value)) else {
                continue;
            };
            waits.stacks.insert(hash, stack.frame.iter().copied().take_while(|&ip| ip != 0).collect());
        }
        Ok(waits)
    }

    fn losses(&self) -> WaitLosses {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has a .bss");
        // SAFETY: the kernel changes these words at any moment; each is read once.
        let raw = unsafe { std::ptr::from_ref(&bss.lost).read_volatile() };
        let skipped = self.programs.iter().map(|fd| program_info::read(fd.as_fd()).runs_skipped).sum();
        WaitLosses { stacks: raw.stacks, waits: raw.waits, waits_ns: raw.waits_ns, skipped }
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_ne_bytes)
}

/// The clock of the programs.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
