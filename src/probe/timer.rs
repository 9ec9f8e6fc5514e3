//! Samples how many syncs of the logs are in flight, in a timer's interrupt (`bpf/timer.bpf.c`): an object of
//! its own, loaded only while `explain` runs.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, libbpf_sys};

use super::attach::Attached;
use super::wait::{WaitError, failed};

#[allow(clippy::all, clippy::unwrap_used, unsafe_op_in_unsafe_fn, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/timer.skel.rs"));
}
use skeleton::{TimerSkel, TimerSkelBuilder};

/// The programs as they were compiled (ELF).
#[cfg(test)]
pub(super) static TIMER_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timer.bpf.o"));

/// The constants of `bpf/timer.bpf.c`.
mod limits {
    include!(concat!(env!("OUT_DIR"), "/timer.constants.rs"));
}
pub(crate) use limits::{LOGS, SLOTS_OF_LOG};

/// Between two samples, in nanoseconds. No multiple of the kernel's ticks, which a load may be in step with.
const PERIOD_NS: u64 = 1_009_000;

/// What was sampled so far; it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerSamples {
    pub taken: u64,
    /// The time that the samples represent.
    pub time_ns: u64,
    /// The squares of the times that each stands for, in µs², added up.
    pub squares_us: u64,
    pub logs: [LogSamples; LOGS],
}

/// The samples of one log. Each sample is weighted by the time since the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSamples {
    /// The number in flight, and its square.
    pub sum_ns: u64,
    pub squares_ns: u64,
    /// With more than one in flight.
    pub several_ns: u64,
    /// The most at once since the probe was attached.
    pub most: u64,
}

/// Samples as long as it lives.
pub struct TimerProbe {
    _link: Link,
    skel: Box<TimerSkel<'static>>,
}

impl TimerProbe {
    /// Samples beside the sync calls. No log has rows before [`TimerProbe::watch`].
    pub(super) fn attach(attached: &Attached) -> Result<TimerProbe, WaitError> {
        if !attached.watch_waits {
            return Err(WaitError::NotWatched);
        }
        // The object lives as long as the process.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open =
            TimerSkelBuilder::default().open(storage).map_err(failed("open the timer's program"))?;
        let theirs = &attached.skel.maps;
        let share = |result: libbpf_rs::Result<()>| result.map_err(failed("share a map"));
        share(open.maps.spent.reuse_fd(theirs.spent.as_fd()))?;
        share(open.maps.window.set_autocreate(false))?;
        share(open.maps.waiting.set_autocreate(false))?;
        share(open.maps.waiting_by_thread.set_autocreate(false))?;
        let skel: Box<TimerSkel<'static>> =
            Box::new(open.load().map_err(failed("load the timer's program"))?);
        let event = open_timer(a_processor())?;
        let link = skel.progs.take_sample.attach_perf_event(event.as_raw_fd());
        let link = link.map_err(failed("attach to a timer"))?;
        // It closes the event.
        std::mem::forget(event);
        Ok(TimerProbe { _link: link, skel })
    }

    /// From now on these slots are the rows of a log; more than [`SLOTS_OF_LOG`] are left out. A row that is
    /// among them again keeps its position, so that no sample misses it.
    pub fn watch(&mut self, log: usize, slots: &[u32]) {
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else { return };
        let places = &mut bss.log_slots[log];
        let slots = &slots[..slots.len().min(SLOTS_OF_LOG)];
        for place in places.iter_mut().filter(|place| **place != 0) {
            if !slots.contains(place) {
                set(place, 0);
            }
        }
        for &slot in slots {
            if !places.contains(&slot)
                && let Some(free) = places.iter_mut().find(|place| **place == 0)
            {
                set(free, slot);
            }
        }
    }

    pub fn read(&self) -> TimerSamples {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has a .bss");
        // SAFETY: the kernel changes these words at any moment; each is read once.
        let raw = unsafe { std::ptr::from_ref(&bss.samples).read_volatile() };
        let logs = raw.log.map(|log| LogSamples {
            sum_ns: log.sum_ns,
            squares_ns: log.squares_ns,
            several_ns: log.several_ns,
            most: log.most,
        });
        TimerSamples { taken: raw.taken, time_ns: raw.time_ns, squares_us: raw.squares_us, logs }
    }
}

fn set(place: &mut u32, slot: u32) {
    // SAFETY: a word that only this side writes; the program reads it at any moment.
    unsafe { std::ptr::from_mut(place).write_volatile(slot) };
}

/// The first processor on which this process may run, which is one that is online. One is enough: the
/// interrupt comes whatever the processor is doing, and sees the syncs of all.
fn a_processor() -> i32 {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap_or(0) as i32
}

/// A timer of one processor, which also runs while that is idle.
fn open_timer(cpu: i32) -> std::io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(libbpf_sys::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = PERIOD_NS;
    let any_process = -1;
    let no_group = -1;
    // SAFETY: the attributes outlive the call, and say their size.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            any_process,
            cpu,
            no_group,
            libc::c_ulong::from(libbpf_sys::PERF_FLAG_FD_CLOEXEC),
        )
    };
    if event < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(event as i32) })
}
