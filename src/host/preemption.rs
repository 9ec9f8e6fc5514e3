//! The kernel's preemption model: while a BPF program is preempted, the kernel skips the same program's
//! other runs on that CPU.

use std::fs::{self, File};
use std::io::Read;

use super::btf;
use super::kernel;
use super::roots::Roots;
use super::verdict::Verdict;
use crate::model::AttachMode;

pub const NAME: &str = "preemption";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    None,
    Voluntary,
    /// Built without kernel preemption; whether none or voluntary is unknown, and irrelevant here.
    NoneOrVoluntary,
    Full,
    Lazy,
    RealTime,
    /// PREEMPT_DYNAMIC, with no source for the model in use.
    Dynamic,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Model::None => "none",
            Model::Voluntary => "voluntary",
            Model::NoneOrVoluntary => "none or voluntary",
            Model::Full => "full",
            Model::Lazy => "lazy",
            Model::RealTime => "real-time",
            Model::Dynamic => "dynamic, unknown which",
        }
    }

    fn by_name(name: &str) -> Option<Model> {
        Some(match name {
            "none" => Model::None,
            "voluntary" => Model::Voluntary,
            "full" => Model::Full,
            "lazy" => Model::Lazy,
            _ => return None,
        })
    }

    /// BPF programs may be preempted.
    pub fn preempts(self) -> bool {
        !matches!(self, Model::None | Model::Voluntary | Model::NoneOrVoluntary)
    }
}

/// The kinds of programs that this kernel may skip after preempting one. kprobe.multi programs are never
/// skipped: they run with preemption disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skips {
    None,
    Fentry,
    FentryAndTracepoints,
}

impl Skips {
    pub(crate) fn any_of(self, mode: AttachMode) -> bool {
        match mode {
            AttachMode::Fentry => self != Skips::None,
            AttachMode::Tracepoint => self == Skips::FentryAndTracepoints,
            AttachMode::Kprobe => false,
        }
    }
}

pub fn skips(roots: &Roots) -> Skips {
    if !find(roots).0.preempts() {
        Skips::None
    } else if btf::may_have(roots, FAULTABLE) {
        Skips::FentryAndTracepoints
    } else {
        Skips::Fentry
    }
}

/// Kernels with this function run the programs of syscall tracepoints with preemption enabled (7.2 does,
/// 6.12 does not).
const FAULTABLE: &str = "trace_call_bpf_faultable";

/// The model, and the source of that information. /sys/kernel/debug/sched/preempt has the current model of
/// a dynamic kernel, but lockdown denies it even to root.
pub fn find(roots: &Roots) -> (Model, &'static str) {
    if let Some(model) = roots.read_sys("kernel/debug/sched/preempt").ok().and_then(|text| current_of(&text))
    {
        return (model, "debugfs");
    }
    let version = roots.read_proc("version").unwrap_or_default();
    match built_as(&version) {
        Some(Model::Dynamic) => {}
        Some(model) => return (model, "/proc/version"),
        None => {
            let model = config(roots).as_deref().and_then(configured);
            return (model.unwrap_or(Model::NoneOrVoluntary), "the kernel's configuration");
        }
    }
    let command_line = roots.read_proc("cmdline").unwrap_or_default();
    if let Some(model) = asked_for(&command_line) {
        return (model, "the kernel's command line");
    }
    match config(roots).as_deref().and_then(configured) {
        Some(model) => (model, "the kernel's configuration, as booted"),
        None => (Model::Dynamic, "/proc/version"),
    }
}

/// Parses "none voluntary (full) lazy": the model in use is in parentheses.
fn current_of(preempt: &str) -> Option<Model> {
    let (_, after) = preempt.split_once('(')?;
    Model::by_name(after.split_once(')')?.0)
}

/// Parses "#1 SMP PREEMPT_DYNAMIC Debian ...". None: built without kernel preemption.
fn built_as(version: &str) -> Option<Model> {
    version.split_ascii_whitespace().find_map(|word| match word {
        "PREEMPT_RT" => Some(Model::RealTime),
        "PREEMPT_DYNAMIC" => Some(Model::Dynamic),
        "PREEMPT_LAZY" => Some(Model::Lazy),
        "PREEMPT" => Some(Model::Full),
        _ => None,
    })
}

/// The last `preempt=` wins.
fn asked_for(command_line: &str) -> Option<Model> {
    let last =
        command_line.split_ascii_whitespace().filter_map(|word| word.strip_prefix("preempt=")).next_back();
    Model::by_name(last?)
}

fn configured(config: &str) -> Option<Model> {
    let set = |option: &str| config.lines().any(|line| line.strip_suffix("=y") == Some(option));
    [
        ("CONFIG_PREEMPT_RT", Model::RealTime),
        ("CONFIG_PREEMPT_LAZY", Model::Lazy),
        ("CONFIG_PREEMPT", Model::Full),
        ("CONFIG_PREEMPT_VOLUNTARY", Model::Voluntary),
        ("CONFIG_PREEMPT_NONE", Model::None),
    ]
    .into_iter()
    .find_map(|(option, model)| set(option).then_some(model))
}

/// /boot/config-RELEASE, or /proc/config.gz if the kernel provides it.
fn config(roots: &Roots) -> Option<String> {
    let release = kernel::release(roots)?;
    if let Ok(text) = fs::read_to_string(roots.boot.join(format!("config-{release}"))) {
        return Some(text);
    }
    let mut text = String::new();
    let packed = File::open(roots.proc.join("config.gz")).ok()?;
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).ok()?;
    Some(text)
}

pub fn check(roots: &Roots) -> Verdict {
    let (model, source) = find(roots);
    let found = format!("{} (from {source})", model.name());
    let which = match skips(roots) {
        Skips::None => return Verdict::ok(NAME, found),
        Skips::Fentry => "fentry programs",
        Skips::FentryAndTracepoints => "fentry and tracepoint programs",
    };
    Verdict::ok(NAME, format!("{found}: the kernel may preempt {which}, and then skips other runs of them"))
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;
    use std::io::Write;

    const DYNAMIC: (&str, &str) = ("proc/version", "Linux version 6.12 (x) #1 SMP PREEMPT_DYNAMIC Debian\n");
    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.12.0\n");

    fn model(files: &[(&str, &str)]) -> Model {
        let (_keep, roots) = fixture(files);
        find(&roots).0
    }

    #[test]
    fn debugfs_knows_best() {
        let current = ("sys/kernel/debug/sched/preempt", "none voluntary full (lazy)\n");
        assert_eq!(model(&[DYNAMIC, current, ("proc/cmdline", "preempt=none")]), Model::Lazy);
    }

    #[test]
    fn a_dynamic_kernel_is_what_it_was_booted_as() {
        assert_eq!(
            model(&[DYNAMIC, ("proc/cmdline", "ro preempt=full preempt=voluntary")]),
            Model::Voluntary
        );
        let config = ("boot/config-6.12.0", "# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT_LAZY=y\n");
        assert_eq!(model(&[DYNAMIC, RELEASE, config]), Model::Lazy);
        assert_eq!(model(&[DYNAMIC, RELEASE]), Model::Dynamic);
    }

    #[test]
    fn a_kernel_that_is_not_dynamic_says_what_it_is() {
        let version = |text| model(&[("proc/version", text)]);
        assert_eq!(version("Linux #1 SMP PREEMPT_RT Debian"), Model::RealTime);
        assert_eq!(version("Linux #1 SMP PREEMPT Debian"), Model::Full);
        assert_eq!(version("Linux #1 SMP Debian"), Model::NoneOrVoluntary);
        let config = ("boot/config-6.12.0", "CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_VOLUNTARY_BUILD=y\n");
        assert_eq!(model(&[("proc/version", "Linux #1 SMP"), RELEASE, config]), Model::Voluntary);
    }

    #[test]
    fn the_packed_configuration_is_read() {
        let (keep, roots) = fixture(&[DYNAMIC, RELEASE]);
        let packed = File::create(keep.path().join("proc/config.gz")).unwrap();
        let mut packer = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        packer.write_all(b"CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n").unwrap();
        packer.finish().unwrap();
        assert_eq!(find(&roots).0, Model::None);
        assert_eq!(check(&roots).status, Status::Ok);
    }

    #[test]
    fn what_a_preemptible_kernel_skips_follows_from_its_functions() {
        let preemptible = ("proc/version", "Linux #1 SMP PREEMPT Debian");
        let with = |functions| fixture(&[preemptible, ("sys/kernel/btf/vmlinux", functions)]);
        let skipped = |functions| skips(&with(functions).1);
        assert_eq!(skipped("\0trace_call_bpf\0"), Skips::Fentry);
        assert_eq!(skipped("\0trace_call_bpf\0trace_call_bpf_faultable\0"), Skips::FentryAndTracepoints);
        assert_eq!(skips(&fixture(&[preemptible]).1), Skips::FentryAndTracepoints, "unknown");
        assert_eq!(skips(&fixture(&[("proc/version", "Linux #1 SMP")]).1), Skips::None);
    }
}
