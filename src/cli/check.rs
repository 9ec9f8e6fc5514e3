//! `fsynctop check`: would tracing work here, and if not, why. Tries each way of attaching for real.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, Args};

use super::exit::FAILED;
use super::options::{ColorArgs, FormArgs, TraceArgs};
use super::output::print;
use super::session::{self, Session};
use super::settings::config::{Configuration, is_given};
use super::settings::report;
use crate::engine::engines::Engines;
use crate::engine::rules::Rules;
use crate::files::open::OpenFiles;
use crate::host::{self, Status, Verdict, tracefs};
use crate::linux::PROC;
use crate::model::durability::{self, Way};
use crate::model::{AttachMode, Net, Op, Role, Server};
use crate::probe::{AttachError, Attached, Probe, ProbeConfig, Requests, WaitStorage};
use crate::recording::remote;
use crate::render::Style;
use crate::server::what::describe::in_words;
use crate::server::what::describers::describe_all;
use crate::server::what::settings::Settings;
use crate::server::who::processes;
use crate::server::who::selection::Selection;
use crate::text::{escape, escape_sentence};

/// How long the servers may take to be described: one that hangs must not make this hang.
const DEADLINE: Duration = Duration::from_secs(5);
/// How many of them are.
const SERVERS: usize = 64;

#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub form: FormArgs,
    #[command(flatten)]
    pub color: ColorArgs,
}

pub fn run(
    arguments: &Check,
    engines: Arc<Engines>,
    configuration: &Configuration,
    given: &ArgMatches,
) -> anyhow::Result<ExitCode> {
    let rules = session::rules(engines, arguments.trace.roles.as_deref())?;
    let selection = session::selection(&arguments.trace.targets, rules.engines())?;
    let session = Session::with(&arguments.trace, rules, selection)?;
    let config = &session.config;

    let mut verdicts = host::checks(config.map_bytes());
    let chosen = probes(config, arguments.trace.verbose, &mut verdicts);
    let works = chosen.is_some() && host::pid_namespace().status != Status::Fail;
    session.print_libbpf_log();
    let ops = chosen.as_ref().map_or(&config.ops, |(_, ops)| ops);
    verdicts.extend(not_watched(ops));
    verdicts.extend(chosen.as_ref().map(|(net, ops)| counted_only(net, ops)));
    verdicts.extend(chosen.as_ref().map(|(net, _)| writeback(net)));
    verdicts.push(budget(config));
    verdicts.extend(report::verdicts(configuration, &|id| is_given(given, id)));
    verdicts.extend(servers(&session.selection, &session.rules));
    verdicts.extend(not_recording());

    let text = if arguments.form.is_json() {
        format!("{}\n", host::json(&verdicts))
    } else {
        let style = arguments.color.apply(Style::for_stdout());
        let mut text = host::table(&verdicts, style.color);
        text.push_str(match works {
            true => "\nTracing works here.\n",
            false => "\nTracing does not work here; `fsynctop stuck` needs none of this.\n",
        });
        text
    };
    print(text.as_bytes())?;
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Where an exporter runs on this host that should record and does not.
fn not_recording() -> Option<Verdict> {
    let why = remote::standing(Path::new(remote::SOCKET)).ok()?.not_recording?;
    let cure = "`journalctl -u fsynctop-exporter` has more; --no-record switches it off";
    Some(Verdict::warn("recording", escape_sentence(&why)).cured_by(cure))
}

/// A verdict for each way of attaching, and one for the way that would be taken; None if there is none. A way
/// that does not work is no failure as long as another does.
fn probes(config: &ProbeConfig, verbose: bool, verdicts: &mut Vec<Verdict>) -> Option<(Net, Vec<Op>)> {
    let mut ways = vec![(AttachMode::Fentry, "fentry"), (AttachMode::Tracepoint, "tracepoints")];
    if config.preemptible || config.mode == Some(AttachMode::Kprobe) {
        ways.insert(1, (AttachMode::Kprobe, "kprobe"));
    }
    let mut tried = Vec::new();
    for (mode, name) in ways {
        let config = ProbeConfig { mode: Some(mode), ..config.clone() };
        let outcome = tracefs::with_tracefs_if_possible(|| Probe::attach(&config));
        tried.push((mode, name, outcome));
    }
    let works = tried.iter().any(|(_, _, outcome)| outcome.is_ok());
    let mut found = Vec::new();
    let mut reasons = Vec::new();
    for (mode, name, outcome) in tried {
        found.push(match outcome {
            Ok(probe) => {
                let programs = &probe.attached().programs;
                let sizes: Vec<_> =
                    programs.iter().map(|p| format!("{} {} instructions", p.name, p.instructions)).collect();
                let sizes = if verbose { format!(" ({})", sizes.join(", ")) } else { String::new() };
                Verdict::ok(name, format!("works{sizes}"))
            }
            Err(error) => {
                let reason = reason(&error, mode, verdicts);
                reasons.push((mode, reason.clone()));
                if works { Verdict::warn(name, reason) } else { Verdict::fail(name, reason) }
            }
        });
    }
    verdicts.extend(found);
    let config = ProbeConfig { watch_waits: true, ..config.clone() };
    let chosen = tracefs::with_tracefs_if_possible(|| Probe::attach(&config)).ok()?;
    verdicts.push(attach(chosen.attached(), &reasons));
    verdicts.extend(wait_storage(chosen.attached()));
    let attached = chosen.attached();
    for (name, what, requests) in
        [("io_uring", "in rings", attached.rings()), ("libaio", "through libaio", attached.aio())]
    {
        verdicts.extend(requested(name, what, requests));
    }
    Some((chosen.attached().net().clone(), chosen.attached().ops().to_vec()))
}

/// The way that would be taken, and why not another: in the words of `reasons` for a way that was tried
/// before.
fn attach(attached: &Attached, reasons: &[(AttachMode, String)]) -> Verdict {
    let why: Vec<_> = attached
        .not_chosen
        .iter()
        .map(|other| reasons.iter().find(|(mode, _)| *mode == other.0).unwrap_or(other))
        .map(|(mode, why)| format!("{}: {why}", mode.name()))
        .collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    let chosen = format!("{}{why}", attached.mode.name());
    if host::skips().any_of(attached.mode) {
        let follows =
            "this kernel may preempt its programs and then skip others; such calls are counted as lost";
        Verdict::warn("attach", format!("{chosen}: {follows}"))
    } else {
        Verdict::ok("attach", chosen)
    }
}

fn reason(error: &AttachError, mode: AttachMode, verdicts: &[Verdict]) -> String {
    let AttachError::NoMode(failures) = error else { return error.to_string() };
    let Some(failure) = failures.iter().find(|failure| failure.mode == mode) else {
        return error.to_string();
    };
    session::explain_failure(failure, verdicts)
}

/// Nothing else depends on it.
fn requested(name: &'static str, what: &str, requests: &Requests) -> Option<Verdict> {
    Some(match requests {
        Requests::Attached => Verdict::ok(name, format!("syncs and durable writes {what} are watched")),
        Requests::NotAskedFor => return None,
        Requests::Refused(why) => {
            Verdict::warn(name, format!("syncs and durable writes {what} are not watched ({why})"))
        }
    })
}

/// As the calls of the self-test have found it.
fn wait_storage(attached: &Attached) -> Option<Verdict> {
    const NAME: &str = "task storage";
    Some(match attached.wait_storage()? {
        WaitStorage::Task => {
            Verdict::ok(NAME, "what a sync waits for (explain) is kept in the thread itself")
        }
        WaitStorage::Hash => Verdict::ok(
            NAME,
            "not to be had: a hash keeps what a sync waits for (explain; Linux 5.13 has task storage)",
        ),
        WaitStorage::HashBecauseRefused => Verdict::ok(
            NAME,
            "this kernel has it and refuses it (Linux 7 does on processors without cmpxchg16b): a hash keeps what a \
             sync waits for (explain)",
        ),
    })
}

/// A line for each way to make data durable that this version never watches, and one for those that each
/// option asks for.
fn not_watched(ops: &[Op]) -> Vec<Verdict> {
    const NAME: &str = "not watched";
    let (asked, never): (Vec<&Way>, Vec<&Way>) =
        durability::not_watched(ops).partition(|way| way.option().is_some());
    let mut verdicts: Vec<_> =
        never.iter().map(|way| Verdict::warn(NAME, format!("{}: {}", way.called, way.what))).collect();
    for option in ["--writes", "--ops"] {
        let calls: Vec<_> =
            asked.iter().filter(|way| way.option() == Some(option)).map(|way| way.called).collect();
        if !calls.is_empty() {
            verdicts.push(Verdict::ok(NAME, format!("{}: not asked for ({option})", calls.join(", "))));
        }
    }
    verdicts
}

/// Where ways that are not watched are at least counted.
fn counted_only(net: &Net, ops: &[Op]) -> Verdict {
    const NAME: &str = "unwatched";
    let ways: Vec<_> = durability::counted_below(ops).map(|way| way.called).collect();
    let ways = if ways.is_empty() { "ways that are not known".to_owned() } else { ways.join(", ") };
    let on = net.filesystems.join(", ");
    match (&net.refused, on.is_empty()) {
        (None, false) => Verdict::ok(NAME, format!("{ways}: counted on {on}, and not timed")),
        (None, true) => Verdict::warn(NAME, format!("{ways}: not counted, no filesystem here shows them")),
        (Some(why), true) => Verdict::warn(NAME, format!("{ways}: not counted ({why})")),
        (Some(why), false) => {
            Verdict::warn(NAME, format!("{ways}: counted on {on}, and not timed; not elsewhere ({why})"))
        }
    }
}

/// Whether the kernel tells when it could not write what had been written before.
fn writeback(net: &Net) -> Verdict {
    const NAME: &str = "writeback errors";
    match &net.writeback_refused {
        _ if net.writeback => Verdict::ok(NAME, "noticed when they happen, also of files that nobody syncs"),
        why => {
            let why = why.as_deref().unwrap_or("not attached");
            Verdict::warn(NAME, format!("not noticed, only syncs report them ({why})"))
        }
    }
}

pub(crate) fn budget(config: &ProbeConfig) -> Verdict {
    let capacity = config.capacity;
    let megabytes = config.map_bytes().div_ceil(1 << 20);
    let detail = format!(
        "maps take {megabytes} MB of kernel memory for {} files, {} of them with histograms of their own; \
         the process itself about 15 MB and 4 KB more for each file that it has seen",
        capacity.files, capacity.histograms
    );
    Verdict::ok("budget", detail)
}

/// A verdict for each server. What is known of one without its memory and its files is told even if those
/// hang.
fn servers(selection: &Selection, rules: &Arc<Rules>) -> Vec<Verdict> {
    let found = selection.processes();
    if found.is_empty() {
        if let Some(why) = processes::unseen(Path::new(PROC)) {
            return vec![Verdict::warn("server", format!("unknown: {why}"))];
        }
        let detail = format!("none: there is no {}", selection.name());
        return vec![Verdict::warn("server", detail).cured_by("start one, or trace with --wait")];
    }
    let (shown, more) = found.split_at(found.len().min(SERVERS));
    let mut verdicts: Vec<_> = describe_all(shown, rules.clone(), DEADLINE)
        .iter()
        .map(|(server, settings)| match server.known_by.described {
            true => described(server, settings, rules),
            false => hung(server),
        })
        .collect();
    if !more.is_empty() {
        verdicts.push(Verdict::ok("server", format!("{} more, which were not looked at", more.len())));
    }
    verdicts
}

fn described(server: &Server, settings: &Settings, rules: &Rules) -> Verdict {
    let open = OpenFiles::of_server(Path::new(PROC), rules.engines(), server.id.pid);
    let mut roles: BTreeMap<Role, usize> = BTreeMap::new();
    for link in open.links() {
        *roles.entry(open.role(link, server.engine.as_deref(), settings, rules)).or_default() += 1;
    }
    let files: Vec<_> = roles.iter().map(|(role, n)| format!("{n} {}", role.name())).collect();
    let files = if files.is_empty() { "none that can be seen".to_owned() } else { files.join(", ") };
    Verdict::ok("server", format!("{}; open files: {files}", in_words(server)))
}

fn hung(server: &Server) -> Verdict {
    let name = escape(server.comm.as_bytes());
    let detail = format!(
        "{name} {}: its memory or its files did not answer within {} s",
        server.id.pid,
        DEADLINE.as_secs()
    );
    Verdict::warn("server", detail).cured_by("`fsynctop stuck` shows which of its syncs hang, and in what")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_what_is_not_watched_is_counted_is_never_more_than_was_attached() {
        let said = |filesystems: &[&str], refused: Option<&str>| {
            let filesystems = filesystems.iter().map(|&name| name.to_owned()).collect();
            let net = Net { filesystems, refused: refused.map(str::to_owned), ..Net::default() };
            let all_but_one: Vec<Op> = Op::ALL.into_iter().filter(|op| *op != Op::Msync).collect();
            let verdict = counted_only(&net, &all_but_one);
            (verdict.status, verdict.detail)
        };
        let ways = "msync";
        let why = "xfs_file_fsync: not permitted";
        let expected = [
            (said(&["ext4", "xfs"], None), Status::Ok, "counted on ext4, xfs, and not timed"),
            (said(&[], None), Status::Warn, "not counted, no filesystem here shows them"),
            (said(&[], Some(why)), Status::Warn, "not counted (xfs_file_fsync: not permitted)"),
            (
                said(&["ext4"], Some(why)),
                Status::Warn,
                "counted on ext4, and not timed; not elsewhere (xfs_file_fsync: not permitted)",
            ),
        ];
        for (said, status, detail) in expected {
            assert_eq!(said, (status, format!("{ways}: {detail}")));
        }
    }
}
