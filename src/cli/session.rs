//! What the program was asked, resolved once: which engines, rules and processes, and how to trace them. From
//! there to a sampler that does.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use super::command::Traced;
use super::exit::{BAD_USAGE, Exit, FAILED, NOTHING_TO_TRACE, NeedsRoot};
use super::options::{NameArgs, TargetArgs, TraceArgs};
use super::progress;
use super::shell;
use crate::engine::engines::Engines;
use crate::engine::rules::Rules;
use crate::host::{self, Status, Verdict};
use crate::linux::PROC;
use crate::model::{Engine, Server};
use crate::probe::{
    AttachError, Capacity, CommPattern, Failure, InstancePattern, Probe, ProbeConfig, Targets, record,
    take_libbpf_log,
};
use crate::sampler::Sampler;
use crate::server::who::executables;
use crate::server::who::filter::{FilterError, TargetFilter};
use crate::server::who::main_class::{self, LAUNCHER};
use crate::server::who::naming;
use crate::server::who::processes::{self, ThreadGroup, Unseen};
use crate::server::who::selection::Selection;

/// What an action that traces was asked.
#[derive(Clone)]
pub(crate) struct Session {
    /// With the engines that they are about.
    pub rules: Arc<Rules>,
    pub selection: Selection,
    pub config: ProbeConfig,
    verbose: bool,
}

impl Session {
    /// What the arguments select; by default the servers of all engines.
    pub fn of(arguments: &TraceArgs, engines: Arc<Engines>) -> anyhow::Result<Session> {
        let rules = rules(engines, arguments.roles.as_deref())?;
        require_host_pids()?;
        let selection = selection(&arguments.targets, rules.engines())?;
        Session::with(arguments, rules, selection)
    }

    pub fn with(arguments: &TraceArgs, rules: Arc<Rules>, selection: Selection) -> anyhow::Result<Session> {
        let mut config = ProbeConfig {
            targets: targets(&selection)?,
            ops: arguments.ops.clone(),
            mode: arguments.attach.0,
            preemptible: host::may_skip_programs(),
            by_thread: false,
            watch_waits: false,
            capacity: Capacity {
                files: arguments.max_files,
                histograms: arguments.max_histograms,
                ..Capacity::default()
            },
        };
        config.watch(arguments.writes.ops());
        Ok(Session { rules, selection, config, verbose: arguments.verbose })
    }

    pub fn engines(&self) -> &Arc<Engines> {
        self.rules.engines()
    }

    /// Attaches and begins to count, or says what is in the way and what to do about it.
    pub fn start(&self) -> anyhow::Result<Sampler> {
        require_root()?;
        Ok(self.sampler(self.attach()?))
    }

    /// The second half of [`Session::start`]: what needs fewer rights than attaching does.
    pub fn sampler(&self, probe: Probe) -> Sampler {
        let kernel = host::kernel_release().unwrap_or_else(|| "unknown".into());
        let mut sampler = Sampler::of_probe(probe, self.rules.clone(), kernel);
        sampler.set_of_anybody(self.config.targets.all);
        sampler
    }

    /// The first half of [`Session::start`].
    pub fn attach(&self) -> anyhow::Result<Probe> {
        let attached = host::tracefs::with_tracefs_if_possible(|| Probe::attach(&self.config));
        self.print_libbpf_log();
        match attached {
            Ok(probe) => Ok(probe),
            Err(AttachError::NoMode(failures)) => Err(self.no_mode(&failures).into()),
            Err(other) => Err(other).context("cannot trace"),
        }
    }

    fn no_mode(&self, failures: &[Failure]) -> Exit {
        let verdicts = host::checks(self.config.map_bytes());
        let mut message = "cannot trace: no way of attaching works here".to_owned();
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for failure in failures {
            let reason = explain_failure(failure, &verdicts);
            match reasons.iter_mut().find(|(same, _)| *same == reason) {
                Some((_, modes)) => modes.push(failure.mode.name()),
                None => reasons.push((reason, vec![failure.mode.name()])),
            }
        }
        for (reason, modes) in reasons {
            message.push_str(&format!("\n  {}: {reason}", modes.join(" and ")));
        }
        message.push_str("\n`fsynctop check` lists what works, -v shows what libbpf said; `fsynctop stuck` needs no tracing.");
        Exit { status: FAILED, message }
    }

    /// What libbpf and the kernel said while attaching, if that was asked for.
    pub fn print_libbpf_log(&self) {
        let log = take_libbpf_log();
        if self.verbose {
            log.lines().for_each(|line| eprintln!("fsynctop: {line}"));
        }
    }
}

/// The engines that are known: with the user's own profiles.
pub(crate) fn engines(arguments: &TargetArgs) -> anyhow::Result<Arc<Engines>> {
    let mut engines = Engines::with_user_files(&arguments.profile).map_err(bad_configuration)?;
    executables::add_names(&mut engines, record::COMM_PATTERNS);
    Ok(engines)
}

/// The rules of the roles, with the user's own in front.
pub(crate) fn rules(engines: Arc<Engines>, file: Option<&Path>) -> anyhow::Result<Arc<Rules>> {
    Ok(Arc::new(Rules::of_engines(engines, file).map_err(bad_configuration)?))
}

/// The servers of the engines that were asked for, or else of those that are meant by default. Those that are
/// known by their main class are found by number, as they run now.
fn servers(
    arguments: &TargetArgs,
    engines: &Arc<Engines>,
    by_default: fn(&Engine) -> bool,
) -> anyhow::Result<Vec<TargetFilter>> {
    let mut servers = Vec::new();
    for name in &arguments.engine {
        let Some(engine) = engines.called(name) else {
            let message = format!("there is no engine {name:?}: there are {}", engines.names());
            return Err(bad_configuration(message).into());
        };
        if !engine.has_processes() {
            let message = format!(
                "{} is a library, and its databases are part of other programs: select those by --pid or --comm",
                engine.title
            );
            return Err(bad_configuration(message).into());
        }
        servers.push(engine);
    }
    if arguments.engine.is_empty() {
        servers.extend(engines.with_processes().filter(|engine| by_default(engine)).cloned());
    }
    let (running, unknown) = main_class::running(engines, &servers);
    if unknown > 0 {
        eprintln!(
            "fsynctop: warning: {unknown} Java processes could not be looked at, or were too many: a server among them is \
             selected by --pid alone"
        );
    }
    if running.is_empty() && servers.iter().all(|engine| engine.commands.is_empty()) {
        let message = format!(
            "there is no {} now, and one that comes later is called {LAUNCHER} like any Java program: start it first, or \
             trace all of them with --comm {LAUNCHER}",
            Selection::new(engines.clone(), vec![TargetFilter::Servers(servers)]).name()
        );
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    }
    let with = |wanted: fn(&Engine) -> bool| servers.iter().filter(move |engine| wanted(engine)).cloned();
    let of_java: Vec<_> = with(|engine| !engine.main_classes.is_empty()).collect();
    let named: Vec<_> = with(|engine| !engine.commands.is_empty()).collect();
    let mut filters = Vec::new();
    // Of a Java server that starts later nothing is promised.
    if !named.is_empty() {
        filters.push(TargetFilter::Servers(named));
    }
    if !running.is_empty() {
        filters.push(TargetFilter::Running { engines: of_java, servers: running });
    }
    Ok(filters)
}

/// What the arguments select; by default the servers of all engines.
pub(crate) fn selection(arguments: &TargetArgs, engines: &Arc<Engines>) -> anyhow::Result<Selection> {
    selection_of(arguments, engines, |_| true)
}

/// The same; by default the servers of those engines that an action knows to ask.
pub(crate) fn selection_of(
    arguments: &TargetArgs,
    engines: &Arc<Engines>,
    by_default: fn(&Engine) -> bool,
) -> anyhow::Result<Selection> {
    let proc_root = Path::new(PROC);
    // On the command line clap refuses them. One may also stand in the exporter's file.
    if !arguments.pid.is_empty() && !arguments.comm.is_empty() {
        let message = "--pid cannot be used with --comm: select processes by number or by name";
        return Err(bad_configuration(message).into());
    }
    let mut filters = Vec::new();
    if !arguments.pid.is_empty() {
        filters.push(TargetFilter::pids(proc_root, engines, &arguments.pid).map_err(refused)?);
    }
    if !arguments.comm.is_empty() {
        filters.push(TargetFilter::comms(&arguments.comm).map_err(refused)?);
    }
    if let Some(cgroup) = &arguments.cgroup {
        filters.push(TargetFilter::cgroup(proc_root, cgroup).map_err(refused)?);
    }
    if arguments.all {
        filters.push(TargetFilter::All);
    }
    if filters.is_empty() || !arguments.engine.is_empty() {
        filters.extend(servers(arguments, engines, by_default)?);
    }
    Ok(Selection::new(engines.clone(), filters))
}

/// The processes that are asked for; without any, a command and all that it starts. Whether any are.
pub(super) fn with_command(
    targets: &TargetArgs,
    engines: &Arc<Engines>,
    command: Option<&Traced>,
) -> anyhow::Result<(Selection, bool)> {
    let own = targets.is_given();
    Ok(match command {
        Some(command) if !own => {
            (Selection::new(engines.clone(), vec![TargetFilter::Tree(command.pid())]), own)
        }
        _ => (selection(targets, engines)?, own),
    })
}

/// A selection that cannot be traced: because it is wrong, or because nothing of that kind is there.
fn refused(error: FilterError) -> Exit {
    if let (FilterError::NoProcess(pid), Some(why)) = (&error, processes::unseen(Path::new(PROC))) {
        return cannot_look(&format!("process {pid}"), why);
    }
    let status = match error {
        FilterError::NoProcess(_) | FilterError::NoCgroup(_) | FilterError::EmptyCgroup(_) => {
            NOTHING_TO_TRACE
        }
        FilterError::NoCgroups => FAILED,
        FilterError::EmptyComm
        | FilterError::LongComm { .. }
        | FilterError::NulInComm(_)
        | FilterError::NotALeader { .. } => BAD_USAGE,
    };
    Exit { status, message: error.to_string() }
}

/// A process may be there though it was not found.
pub(crate) fn cannot_look(what: &str, why: Unseen) -> Exit {
    Exit { status: FAILED, message: format!("cannot tell whether there is {what}: {why}.") }
}

/// The error of an action that has nothing to do its work on. `hint`: what else would help.
pub(crate) fn nothing_selected(work: &str, selection: &Selection, hint: &str) -> anyhow::Error {
    if let Some(why) = processes::unseen(Path::new(PROC)) {
        return cannot_look(&selection.describe(), why).into();
    }
    // Who asks for MySQL may have MariaDB.
    let engines = selection.engines();
    let all = TargetFilter::Servers(engines.with_processes().cloned().collect());
    let others = Selection::new(engines.clone(), vec![all]).processes();
    let others = match progress::names(&others) {
        none if none.is_empty() => like_a_server(&executables::look_alikes(Path::new(PROC))),
        some => format!(" What runs here is {some}.{}", try_instead(&others, engines)),
    };
    let message = format!(
        "nothing to {work}: there is no {}.{others}{hint} --pid, --comm, --cgroup and --all select other processes.",
        selection.name()
    );
    Exit { status: NOTHING_TO_TRACE, message }.into()
}

/// How one engine is selected, of those that run here: " Try `fsynctop once mariadb`."
fn try_instead(others: &[ThreadGroup], engines: &Engines) -> String {
    let engine = others.iter().find_map(|process| engines.by_command(&process.comm));
    engine.map(|engine| format!(" --engine {} selects it.", engine.name)).unwrap_or_default()
}

/// A hint to what may be one by another name, or have one inside.
fn like_a_server(alike: &[ThreadGroup]) -> String {
    let names = progress::names(alike);
    match alike {
        [] => String::new(),
        [one] => format!(" {names} looks like one, or has one inside: --pid {} selects it.", one.pid),
        [one, ..] => {
            format!(" {names} look like some, or have one inside: --pid {} selects the first.", one.pid)
        }
    }
}

/// The same for the kernel side.
fn targets(selection: &Selection) -> anyhow::Result<Targets> {
    let instances =
        InstancePattern::all_of(selection.engines().profiles().iter().map(|profile| &*profile.engine));
    let mut targets = Targets { instances, ..Targets::default() };
    for filter in selection.filters() {
        match filter {
            TargetFilter::Comms(_) | TargetFilter::Servers(_) => {
                targets.comms.extend(filter.names().into_iter().map(CommPattern::new));
            }
            TargetFilter::Pids(pids) => targets.pids.extend(pids),
            TargetFilter::Running { servers, .. } => {
                targets.pids.extend(servers.iter().map(|server| server.pid));
                targets.forget_ended = true;
            }
            TargetFilter::Cgroups(cgroups) => {
                targets.cgroup = cgroups.first().map(|cgroup| (cgroup.id, cgroup.level));
            }
            TargetFilter::Members { pids, .. } => {
                targets.pids.extend(pids);
                targets.follow_forks = true;
            }
            TargetFilter::Tree(pid) => {
                targets.pids.push(*pid);
                targets.follow_forks = true;
            }
            TargetFilter::All => targets.all = true,
        }
    }
    let most = record::COMM_PATTERNS;
    if targets.instances.len() > most {
        let message = format!("the engines with several processes have more than {most} commands");
        return Err(bad_configuration(message).into());
    }
    if targets.comms.len() > most {
        let message = format!(
            "at most {most} process names can be watched for, and these are {}: name fewer with --comm, or \
             fewer engines with --engine",
            targets.comms.len()
        );
        return Err(bad_configuration(message).into());
    }
    Ok(targets)
}

/// What was asked for cannot be right, whatever the host is like.
pub(crate) fn bad_configuration(error: impl std::fmt::Display) -> Exit {
    Exit { status: BAD_USAGE, message: error.to_string() }
}

/// Tracing needs the host's own process numbers: in another PID namespace every filter would select the wrong
/// ones.
pub(crate) fn require_host_pids() -> anyhow::Result<()> {
    let verdict = host::pid_namespace();
    if verdict.status != Status::Fail {
        return Ok(());
    }
    let cure = verdict.cure.map(|cure| format!(" To do: {cure}.")).unwrap_or_default();
    let message = format!("cannot trace: this PID namespace is {}.{cure}", verdict.detail);
    Err(Exit { status: FAILED, message }.into())
}

/// Whoever is not root need only be told so.
pub(crate) fn require_root() -> anyhow::Result<()> {
    if !host::lacks_root() {
        return Ok(());
    }
    let command = shell::words(std::iter::once("fsynctop".into()).chain(std::env::args_os().skip(1)));
    Err(NeedsRoot { command }.into())
}

/// Says which of the names that were given no server has.
pub(crate) fn tell_unmatched(servers: &[Arc<Server>], names: &NameArgs) {
    for sentence in naming::unmatched(servers, &names.server_name) {
        eprintln!("fsynctop: {sentence}");
    }
}

/// The step that failed and why, in words that say what to do where the error number tells.
pub(crate) fn explain_failure(failure: &Failure, verdicts: &[Verdict]) -> String {
    match failure.errno {
        Some(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            let refused = failure.refused.then_some(failure.cause.as_str());
            format!("{}: {}", failure.step, host::explain_load_error(&error, verdicts, refused))
        }
        None => failure.reason(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AttachMode;

    #[test]
    fn processes_are_selected_by_number_or_by_name_and_not_by_both() {
        let own = TargetArgs { pid: vec![std::process::id()], ..TargetArgs::default() };
        assert!(selected(&own).is_ok());
        let both = TargetArgs { comm: vec!["mysqld".into()], ..own };
        let error = selected(&both).unwrap_err();
        assert_eq!(error.downcast_ref::<Exit>().map(|exit| exit.status), Some(BAD_USAGE));
    }

    #[test]
    fn what_looks_like_a_server_is_named_where_there_is_none() {
        let process = |pid, comm: &str| ThreadGroup { pid, comm: comm.into(), start_ticks: 0 };
        let one = [process(7, "k3s-server")];
        assert_eq!(
            like_a_server(&one),
            " k3s-server 7 looks like one, or has one inside: --pid 7 selects it."
        );
        let two = [process(7, "k3s-server"), process(8, "mysqld-9.9")];
        let said = like_a_server(&two);
        assert!(said.contains("k3s-server 7 and mysqld-9.9 8 look like some"), "{said}");
        assert_eq!(like_a_server(&[]), "");
    }

    fn selected(arguments: &TargetArgs) -> anyhow::Result<Selection> {
        selection(arguments, &engines(arguments)?)
    }

    fn names(arguments: &TargetArgs) -> String {
        selected(arguments).unwrap().name()
    }

    fn wrong(arguments: &TargetArgs) -> String {
        let error = selected(arguments).and_then(|selection| targets(&selection)).unwrap_err();
        let exit = error.downcast_ref::<Exit>().unwrap();
        assert_eq!(exit.status, BAD_USAGE);
        exit.message.clone()
    }

    #[test]
    fn servers_are_those_of_all_engines_or_of_the_ones_that_are_asked_for() {
        let of = |engines: &[&str]| TargetArgs {
            engine: engines.iter().map(|&name| name.to_owned()).collect(),
            ..TargetArgs::default()
        };
        // Those of Java are found where they run, and not promised.
        assert_eq!(names(&of(&[])), "server of MySQL, MariaDB, PostgreSQL, etcd, Redis or Valkey");
        assert_eq!(names(&of(&["postgres", "etcd"])), "server of PostgreSQL or etcd");
        let with_another = TargetArgs { comm: vec!["dd".into()], ..of(&["etcd"]) };
        assert_eq!(selected(&with_another).unwrap().describe(), "a process called dd or a server of etcd");
        assert!(
            wrong(&of(&["oracle"])).starts_with("there is no engine \"oracle\": there are mysql, mariadb,")
        );
        assert!(wrong(&of(&["sqlite"])).starts_with("SQLite is a library"));
        let asked = selection_of(&of(&[]), &Engines::builtin(), |engine| engine.name == "mysql").unwrap();
        assert_eq!(asked.name(), "server of MySQL");
    }

    #[test]
    fn engines_of_the_users_own_are_found_too_and_as_many_names_as_the_kernel_side_has_room_for() {
        let directory = tempfile::tempdir().unwrap();
        let profile = |number: usize| {
            let path = directory.path().join(format!("{number}.toml"));
            let text = format!("name = \"n{number}\"\ntitle = \"N{number}\"\ncommands = [\"own{number}\"]\n");
            std::fs::write(&path, text).unwrap();
            path
        };
        let with =
            |profiles| TargetArgs { profile: (0..profiles).map(profile).collect(), ..TargetArgs::default() };
        assert!(names(&with(1)).starts_with("server of N0, MySQL, "), "{}", names(&with(1)));
        assert!(selected(&with(1)).and_then(|selection| targets(&selection)).is_ok());
        let most = record::COMM_PATTERNS;
        let message = wrong(&with(most));
        assert!(
            message.starts_with(&format!("at most {most} process names can be watched for")),
            "{message}"
        );
        let few = TargetArgs { engine: vec!["n0".into()], ..with(most) };
        assert_eq!(names(&few), "server of N0");
    }

    #[test]
    fn a_step_is_shown_whole_whatever_is_in_its_name() {
        let failure = Failure {
            mode: AttachMode::Tracepoint,
            step: "attach syscalls:sys_enter_fsync".into(),
            cause: "No such file or directory (os error 2)".into(),
            errno: Some(libc::ENOENT),
            refused: false,
        };
        let shown = explain_failure(&failure, &[]);
        assert!(shown.starts_with("attach syscalls:sys_enter_fsync: "), "{shown}");
    }
}
