//! Loads and attaches: tries the mode that works best here, proves that it counts, and falls back to the
//! next.

use std::fmt;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, OpenObject};

use super::aio;
use super::choice;
use super::config::ProbeConfig;
use super::contract::record::{FIRST_FILE_SLOT, UNSYNCED_FILES};
use super::contract::types::rodata;
use super::contract::{OBJECT_TYPES, OpenSyncMaps, OpenSyncSkel, SyncSkel, SyncSkelBuilder};
use super::features::{self, Features, WaitStorage};
use super::globals;
use super::libbpf_log;
use super::min_core_btf::{self, MinimizedBtf};
use super::net::{self, Net};
use super::programs::{AttachedProgram, Hooks};
use super::requests::{Requests, ops_for};
use super::ring;
use super::self_test;
use super::slots::FreeSlots;
use super::unsynced;
use crate::host::{self, Skips};
use crate::model::{self, AttachMode, Op, Via};

/// Nothing could be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Each mode that was tried, what failed, and the error number if there was one.
    #[error("no probe could be attached: {}", Failures(.0))]
    NoMode(Vec<Failure>),
    #[error(transparent)]
    Libbpf(#[from] libbpf_rs::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Why a mode does not work here.
#[derive(Clone, Debug)]
pub struct Failure {
    pub mode: AttachMode,
    /// What was being done.
    pub step: String,
    pub cause: String,
    /// Of the cause, where it is an error of the kernel's.
    pub errno: Option<i32>,
    /// The cause is what the kernel's verifier said.
    pub refused: bool,
}

impl Failure {
    /// The step and its cause.
    pub fn reason(&self) -> String {
        format!("{}: {}", self.step, self.cause)
    }
}

struct Failures<'a>(&'a [Failure]);

impl fmt::Display for Failures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, failure) in self.0.iter().enumerate() {
            let gap = if i > 0 { "; " } else { "" };
            write!(f, "{gap}{}: {}", failure.mode.name(), failure.reason())?;
        }
        Ok(())
    }
}

/// The loaded object with its links.
pub struct Attached {
    pub mode: AttachMode,
    /// The other modes, and why not.
    pub(crate) not_chosen: Vec<(AttachMode, String)>,
    pub(super) features: Features,
    pub programs: Vec<AttachedProgram>,
    pub(super) hooks: Hooks,
    pub(crate) by_thread: bool,
    /// The maps that `WaitProbe` shares are there.
    pub(super) watch_waits: bool,
    pub(super) slots: FreeSlots,
    pub(super) links: Vec<Link>,
    pub(super) net: Net,
    pub(super) rings: Requests,
    pub(super) aio: Requests,
    pub(super) task_iterator: Link,
    /// Process ids as the programs see them are those that this process sees.
    pub(super) in_initial_pid_namespace: bool,
    pub(super) skel: Box<SyncSkel<'static>>,
}

impl Attached {
    /// The operations that are watched.
    pub fn ops(&self) -> &[Op] {
        &self.hooks.ops
    }

    /// Where syncs outside of the watched calls are counted.
    pub fn net(&self) -> &model::Net {
        self.net.state()
    }

    /// Whether requests of rings are watched.
    pub(crate) fn rings(&self) -> &Requests {
        &self.rings
    }

    /// The same of libaio.
    pub(crate) fn aio(&self) -> &Requests {
        &self.aio
    }

    /// As the calls of the self-test have shown; None unless the configuration prepared for the waits.
    pub(crate) fn wait_storage(&self) -> Option<WaitStorage> {
        self.watch_waits.then(|| match (self.features.task_storage, globals::storage_refused(&self.skel)) {
            (false, _) => WaitStorage::Hash,
            (true, true) => WaitStorage::HashBecauseRefused,
            (true, false) => WaitStorage::Task,
        })
    }
}

/// Attaches the programs of the best mode that passes its self-test.
pub(super) fn attach(config: &ProbeConfig) -> Result<Attached, AttachError> {
    libbpf_log::capture();
    let features = Features::probe();
    let modes = match &config.mode {
        Some(mode) => std::slice::from_ref(mode),
        None => choice::order(config.preemptible),
    };
    let types = min_core_btf::minimize(OBJECT_TYPES);
    let mut failures: Vec<Failure> = Vec::new();
    for &mode in modes {
        if mode == AttachMode::Fentry
            && let Some(error) = features::fentry_refused()
        {
            let (step, cause) = ("load".to_owned(), error.to_string());
            failures.push(Failure { mode, step, cause, errno: error.raw_os_error(), refused: false });
            continue;
        }
        let attempt = try_mode(mode, config, features, types.as_ref()).and_then(|mut attached| {
            match self_test::run(&mut attached.skel, &config.ops) {
                Ok(()) => Ok(attached),
                Err(cause) => {
                    Err(Failure { mode, step: "self-test".to_owned(), cause, errno: None, refused: false })
                }
            }
        });
        match attempt {
            Ok(mut attached) => {
                attached.not_chosen =
                    failures.iter().map(|failure| (failure.mode, failure.reason())).collect();
                if config.mode.is_none() {
                    attached.not_chosen.extend(choice::untried(mode, config.preemptible));
                }
                return Ok(attached);
            }
            Err(failure) => failures.push(failure),
        }
    }
    Err(AttachError::NoMode(failures))
}

/// A step of attaching, and why it failed.
type FailedStep = (String, libbpf_rs::Error);

fn at<T>(step: &str, result: libbpf_rs::Result<T>) -> Result<T, FailedStep> {
    result.map_err(|error| (step.to_owned(), error))
}

fn try_mode(
    mode: AttachMode,
    config: &ProbeConfig,
    features: Features,
    types: Option<&MinimizedBtf>,
) -> Result<Attached, Failure> {
    if mode == AttachMode::Fentry && config.ops.contains(&Op::Sync) {
        return Err(Failure {
            mode,
            step: "sync".to_owned(),
            cause: "its function is not one that fentry can watch".to_owned(),
            errno: None,
            refused: false,
        });
    }
    let failed = |(step, error): FailedStep| Failure {
        mode,
        step,
        cause: format!("{error:#}"),
        errno: errno_of(&error),
        refused: false,
    };
    let skips = if config.preemptible { host::skips() } else { Skips::None };
    let mut hooks = Hooks { ops: config.ops.clone(), prefixes: choice::programs(mode, skips) };
    let mut net = Net::of_this_host(&config.ops);
    let mut rings = ring::wanted(&config.ops, types.is_some_and(|types| types.has_ring_requests));
    let mut aio = aio::wanted(&config.ops, &features, types.is_none_or(|types| types.has_aio));

    let mut object = open(types).map_err(failed)?;
    let rodata = object.maps.rodata_data.as_deref_mut().expect("the object has .rodata");
    set_constants(rodata, config, features);
    size_maps(&mut object.maps, config, features, &rings, &aio).map_err(failed)?;
    choose_programs(&mut object, config, &hooks, &net, &rings, &aio);
    let said = libbpf_log::count();
    let refused = |error| {
        let failure = failed(("load".to_owned(), error));
        match libbpf_log::refusal_since(said) {
            Some(cause) => Failure { cause, refused: true, ..failure },
            None => failure,
        }
    };
    let mut skel: Box<SyncSkel<'static>> = Box::new(object.load().map_err(refused)?);

    // All that the programs look up is in place before the first of them runs.
    let slots = fill_maps(&skel, config).map_err(failed)?;
    let task_iterator = at("attach list_in_flight", skel.progs.list_in_flight.attach()).map_err(failed)?;
    let links = hooks.attach(&mut skel, &mut net, &mut rings, &mut aio);
    let links = links.map_err(|(name, error)| failed((format!("attach {name}"), error)))?;
    for (via, requests) in [(Via::IoUring, &rings), (Via::Aio, &aio)] {
        if requests.are_watched() {
            hooks.ops.extend(ops_for(via, &config.ops));
        }
    }
    let programs = hooks.programs(&mut skel).map_err(|error| Failure {
        mode,
        step: "the loaded programs".to_owned(),
        cause: error.to_string(),
        errno: error.raw_os_error(),
        refused: false,
    })?;
    Ok(Attached {
        mode,
        not_chosen: Vec::new(),
        features,
        programs,
        hooks,
        by_thread: config.by_thread,
        watch_waits: config.watch_waits,
        slots,
        links,
        net,
        rings,
        aio,
        task_iterator,
        in_initial_pid_namespace: host::in_initial_pid_namespace(),
        skel,
    })
}

/// The object lives as long as the process; a failed attempt leaves these few bytes behind.
fn open(types: Option<&MinimizedBtf>) -> Result<OpenSyncSkel<'static>, FailedStep> {
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut builder = SyncSkelBuilder::default();
    if let Some(types) = types {
        at("open", builder.obj_builder.btf_custom_path(types.path()).map(drop))?;
    }
    at("open", builder.open(storage))
}

/// What the verifier takes for granted when it prunes branches.
fn set_constants(rodata: &mut rodata, config: &ProbeConfig, features: Features) {
    let targets = &config.targets;
    rodata.typed_task = features.typed_task;
    rodata.task_storage = features.task_storage;
    rodata.task_registers = features.task_registers;
    (rodata.watched_syncs, rodata.watched_writes) = net::watched_numbers(&config.ops);
    rodata.all_writes = config.ops.contains(&Op::Write);
    rodata.programs_skipped = config.preemptible;
    let requested = [Via::IoUring, Via::Aio].into_iter().flat_map(|via| ops_for(via, &config.ops));
    rodata.watched_ops = bits(config.ops.iter().copied().chain(requested));
    rodata.keep_threads = config.by_thread;
    rodata.watch_waits = config.watch_waits;
    rodata.histogram_slots = config.capacity.histogram_slots();
    rodata.guess_mask = config.capacity.guesses() - 1;
    rodata.call_mask = config.capacity.thread_slots() - 1;
    rodata.self_tgid = std::process::id();
    rodata.target_all = targets.all;
    rodata.target_by_map = !targets.pids.is_empty() || targets.follow_forks;
    rodata.target_comms = targets.comms.len() as u32;
    for (i, pattern) in targets.comms.iter().enumerate().take(rodata.target_comm_low.len()) {
        rodata.target_comm_low[i] = pattern.value[0];
        rodata.target_comm_high[i] = pattern.value[1];
        rodata.target_comm_low_mask[i] = pattern.mask[0];
        rodata.target_comm_high_mask[i] = pattern.mask[1];
    }
    rodata.instance_comms = targets.instances.len() as u32;
    for (i, instance) in targets.instances.iter().enumerate().take(rodata.instance_comm_low.len()) {
        rodata.instance_comm_low[i] = instance.comm.value[0];
        rodata.instance_comm_high[i] = instance.comm.value[1];
        rodata.instance_comm_low_mask[i] = instance.comm.mask[0];
        rodata.instance_comm_high_mask[i] = instance.comm.mask[1];
        rodata.instance_by_directory |= u32::from(instance.by_directory) << i;
    }
    (rodata.target_cgroup, rodata.target_cgroup_level) = targets.cgroup.unwrap_or_default();
}

fn size_maps(
    maps: &mut OpenSyncMaps,
    config: &ProbeConfig,
    features: Features,
    rings: &Requests,
    aio: &Requests,
) -> Result<(), FailedStep> {
    let (capacity, size) = (config.capacity, |step| at("size a map", step));
    size(maps.rows.set_max_entries(capacity.slots()))?;
    size(maps.grave_errors.set_max_entries(capacity.slots()))?;
    size(maps.slots.set_max_entries(capacity.slots()))?;
    size(maps.guesses.set_max_entries(capacity.guesses()))?;
    size(maps.histograms.set_max_entries(capacity.histogram_slots()))?;
    size(maps.free_hot.set_max_entries(capacity.histogram_slots()))?;
    size(maps.free_cold.set_max_entries(capacity.slots()))?;
    size(maps.free_neighbour.set_max_entries(FIRST_FILE_SLOT))?;
    size(maps.calls.set_max_entries(capacity.thread_slots()))?;
    let all_writes = config.ops.contains(&Op::Write);
    size(maps.unsynced.set_autocreate(all_writes))?;
    size(maps.unsynced_slots.set_autocreate(all_writes))?;
    size(maps.free_unsynced.set_autocreate(all_writes))?;
    size(maps.parts.set_autocreate(all_writes))?;
    if all_writes {
        size(maps.free_unsynced.set_max_entries(UNSYNCED_FILES as u32))?;
    }
    if config.watch_waits {
        size(maps.spent.set_max_entries(capacity.slots()))?;
        size(maps.waiting.set_autocreate(features.task_storage))?;
    } else {
        size(maps.waiting.set_autocreate(false))?;
        size(maps.waiting_by_thread.set_autocreate(false))?;
        size(maps.spent.set_autocreate(false))?;
        size(maps.window.set_autocreate(false))?;
    }
    size(maps.request_slots.set_autocreate(rings.are_watched()))?;
    size(maps.requests_without_slot.set_autocreate(rings.are_watched()))?;
    size(maps.aio_requests.set_autocreate(aio.are_watched()))?;
    size(maps.aio_silent.set_autocreate(aio.are_watched()))?;
    Ok(())
}

/// Which programs are loaded.
fn choose_programs(
    object: &mut OpenSyncSkel,
    config: &ProbeConfig,
    hooks: &Hooks,
    net: &Net,
    rings: &Requests,
    aio: &Requests,
) {
    let prefixes = &hooks.prefixes;
    for mut program in object.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let wanted = match name.as_str() {
            // Run on demand, attached to no hook.
            "list_in_flight" | "fill_free_list" => true,
            "follow_fork" => config.targets.follow_forks,
            "follow_exit" => config.targets.follow_forks || config.targets.forget_ended,
            name if net::is_of_it(name) => net.wants(name),
            name if ring::is_of_it(name) => rings.are_watched(),
            name if aio::is_of_it(name) => aio.are_watched() && aio::is_wanted(name, prefixes),
            name if !choice::has_its_exits(name, prefixes) => false,
            name => choice::ops_of(name, prefixes).iter().any(|op| config.ops.contains(op)),
        };
        program.set_autoload(wanted);
    }
}

fn fill_maps(skel: &SyncSkel<'static>, config: &ProbeConfig) -> Result<FreeSlots, FailedStep> {
    let mut slots = FreeSlots::new(config.capacity);
    at("fill the free lists", slots.fill(skel))?;
    if config.ops.contains(&Op::Write) {
        at("fill the free lists", unsynced::fill(&skel.maps))?;
    }
    for pid in &config.targets.pids {
        at("name the processes", skel.maps.traced.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY))?;
    }
    Ok(slots)
}

/// A bit for each.
fn bits(ops: impl Iterator<Item = Op>) -> u32 {
    ops.fold(0, |bits, op| bits | 1 << op as u32)
}

/// libbpf-rs exposes no error numbers: they are part of its message, or follow from its kinds, of which one
/// may stand for several.
fn errno_of(error: &libbpf_rs::Error) -> Option<i32> {
    let message = format!("{error:#}");
    let number = message.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    number.or(match error.kind() {
        ErrorKind::NotFound => Some(libc::ENOENT),
        ErrorKind::PermissionDenied => Some(libc::EPERM),
        ErrorKind::InvalidInput => Some(libc::EINVAL),
        ErrorKind::OutOfMemory => Some(libc::ENOMEM),
        ErrorKind::TooBig => Some(libc::E2BIG),
        ErrorKind::Unsupported => Some(libc::EOPNOTSUPP),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::ErrorExt;

    #[test]
    fn an_error_number_is_found_under_the_words_that_libbpf_rs_puts_around_it() {
        for number in [libc::EPERM, libc::EACCES, libc::ENOENT, libc::ESRCH, 524] {
            let error = libbpf_rs::Error::from_raw_os_error(number);
            assert_eq!(errno_of(&error), Some(number));
            assert_eq!(errno_of(&error.context("failed to attach BPF program")), Some(number));
        }
    }
}
