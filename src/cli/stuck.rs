//! `fsynctop stuck`: the threads that are inside a sync call right now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::Args;

use super::exit::{BAD_USAGE, CONDITION, Exit, INCOMPLETE};
use super::fail_on::{self, Condition};
use super::options::{FormArgs, StyleArgs, TargetArgs, duration, typed};
use super::output::print;
use super::replay::{self, ReplayArgs};
use super::session;
use crate::engine::engines::Engines;
use crate::engine::rules::Rules;
use crate::files::open::OpenFiles;
use crate::host;
use crate::linux::PROC;
use crate::model::{InFlight, Role, ServerId};
use crate::recording::History;
use crate::render::Style;
use crate::server::what::settings::Settings;
use crate::server::who::instances::{Instances, members};
use crate::server::who::processes::{self, Unseen};
use crate::stuck::{self, Reader};
use crate::text::escape;
use crate::threads::{self, AgeFrom, Looks, Processes, Scan, Standing, StuckSync};
use crate::verdict::{State, Verdicts, of_in_flight};

#[derive(Args, Debug)]
pub struct Stuck {
    #[command(flatten)]
    pub targets: TargetArgs,
    #[command(flatten)]
    pub form: FormArgs,
    /// How long to watch
    ///
    /// A call that stands still all the while is at least that old.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Looks::default().apart))]
    pub watch: Duration,
    /// End with status 4 if a log's operation hangs: stalled, stalled=5s
    ///
    /// An operation of a log that commits wait for (redo, binlog, wal, aof) that is in flight for so long,
    /// 5 seconds if no time is given. Where /proc does not tell how long a thread has waited, it is watched
    /// for that time.
    #[arg(long, value_name = "STATE", value_parser = fail_on::stalled)]
    pub fail_on: Option<Condition>,
    /// Rules of your own for the roles of files
    #[arg(long, value_name = "FILE")]
    pub roles: Option<PathBuf>,
    #[command(flatten)]
    pub style: StyleArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

pub fn run(arguments: &Stuck, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    if let Some(history) = arguments.replay.history(&arguments.targets)? {
        return print_recorded(arguments, &history);
    }
    let rules = session::rules(engines, arguments.roles.as_deref())?;
    let engines = rules.engines();
    let unseen = processes::unseen(Path::new(PROC));
    let processes = if arguments.targets.is_given() {
        let selection = session::selection(&arguments.targets, engines)?;
        let found = selection.processes();
        if let (true, Some(why)) = (found.is_empty(), unseen) {
            return Err(session::cannot_look(&selection.describe(), why).into());
        }
        let servers: Vec<u32> = found.iter().map(|process| process.pid).collect();
        Processes::These(members(Path::new(PROC), engines, &servers))
    } else {
        // What it hides from this user is told with the result.
        if let Some(why @ Unseen::Everything) = unseen {
            return Err(session::cannot_look("a thread inside a sync call", why).into());
        }
        Processes::All
    };
    let mut seen = Seen::look(&processes, arguments.watch, &rules)?;
    let limit = arguments.fail_on.map(|condition| fail_on::thresholds(&[condition]).stalled);
    if let Some(limit) = limit
        && seen.is_undecided(limit)
    {
        seen = Seen::look(&processes, limit, &rules)?;
    }
    let verdicts = limit.map(|limit| seen.verdicts(limit));
    let may_miss_server = stuck::may_miss_server(&seen.scan, arguments.targets.is_given(), engines);
    let role_of = |pid: u32, link: &Path| seen.role(pid, link);
    let text = if arguments.form.is_json() {
        let host = host::node_name().unwrap_or_default();
        format!(
            "{}\n",
            stuck::json(&host, &seen.scan, &role_of, may_miss_server, verdicts.as_ref(), &|server| {
                seen.comm(server)
            })
        )
    } else {
        let style = arguments.style.apply(Style::for_stdout());
        let mut text = stuck::table(&seen.scan, &role_of, reader(), &style);
        let met = verdicts
            .iter()
            .flat_map(|verdicts| fail_on::lines(verdicts, &[State::Stalled], |server| seen.name(server)));
        for line in met.flat_map(|line| style.wrap(&line, 2)) {
            text.push_str(&style.finish(format!("{line}\n")));
        }
        text
    };
    print(text.as_bytes())?;
    // What was found is certain. Where nothing was, a server may hang where nobody could look.
    Ok(ExitCode::from(match verdicts {
        Some(verdicts) if !verdicts.servers.is_empty() => CONDITION,
        _ if may_miss_server => INCOMPLETE,
        _ => 0,
    }))
}

/// What was in flight at the end of what was recorded.
fn print_recorded(arguments: &Stuck, history: &History) -> anyhow::Result<ExitCode> {
    let mut m = history.last(Duration::MAX).context("its intervals cannot be read")?;
    let is_meant = replay::only(&arguments.targets, &m.servers)?;
    m.retain_servers(is_meant);
    if arguments.form.is_json() {
        let message =
            "`fsynctop once --replay --output json` has what was in flight, in `in_flight`".to_owned();
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    let style = arguments.style.apply(Style::for_stdout());
    print(stuck::recorded(&m, &style).as_bytes())?;
    let limit = arguments.fail_on.map(|condition| fail_on::thresholds(&[condition]).stalled);
    let hangs = |limit| m.in_flight.iter().any(|sync| sync.role.is_serial() && sync.age >= limit);
    Ok(ExitCode::from(if limit.is_some_and(hangs) { CONDITION } else { 0 }))
}

fn reader() -> Reader {
    match rustix::process::geteuid().is_root() {
        false => Reader::User,
        true if host::may_look_into_others() => Reader::Root,
        true => Reader::LesserRoot,
    }
}

/// What was found, and what is needed to say which files they are.
struct Seen<'a> {
    scan: Scan,
    open: BTreeMap<u32, OpenFiles>,
    /// The server that each process belongs to.
    servers: BTreeMap<u32, u32>,
    rules: &'a Rules,
}

impl Seen<'_> {
    fn look<'a>(processes: &Processes, apart: Duration, rules: &'a Rules) -> anyhow::Result<Seen<'a>> {
        let looks = Looks { apart, ..Looks::default() };
        let scan = threads::scan(Path::new(PROC), processes, &looks).context("cannot list /proc")?;
        let open = |pid: u32| OpenFiles::of_process(Path::new(PROC), pid);
        let pids: BTreeSet<u32> = scan.syncs.iter().map(|sync| sync.pid).collect();
        let mut instances = Instances::new(Path::new(PROC), rules.engines());
        let servers = pids.iter().map(|&pid| (pid, instances.first_of(pid))).collect();
        let open = pids.into_iter().map(|pid| (pid, open(pid))).collect();
        Ok(Seen { scan, open, servers, rules })
    }

    fn role(&self, pid: u32, link: &Path) -> Role {
        // Not by the server's settings: its option files may lie on the disk that hangs, and a process with
        // a thread that waits for a disk cannot even end.
        let sync = self.scan.syncs.iter().find(|sync| sync.pid == pid);
        let engine = sync.and_then(|sync| self.rules.engines().by_command(&sync.comm));
        let role = |open: &OpenFiles| open.role(link, engine.as_deref(), &Settings::default(), self.rules);
        self.open.get(&pid).map_or(Role::Other, role)
    }

    fn role_of(&self, sync: &StuckSync) -> Role {
        sync.path.as_deref().map_or(Role::Other, |path| self.role(sync.pid, path))
    }

    /// A log's operation stands still, and nothing says for how long it has.
    fn is_undecided(&self, limit: Duration) -> bool {
        let is_young = |sync: &StuckSync| match sync.age {
            Some((_, AgeFrom::Blocked)) => false,
            Some((age, AgeFrom::Watched)) => age < limit,
            None => true,
        };
        let stands = |sync: &&StuckSync| sync.standing == Standing::Unmoved && is_young(sync);
        self.scan.syncs.iter().filter(stands).any(|sync| self.role_of(sync).is_serial())
    }

    fn verdicts(&self, limit: Duration) -> Verdicts {
        let server = |pid| ServerId { pid: self.servers[&pid], start_ns: 0 };
        let in_flight: Vec<InFlight> =
            self.scan.syncs.iter().map(|sync| sync.in_flight(server(sync.pid), self.role_of(sync))).collect();
        of_in_flight(&in_flight, limit, Instant::now(), SystemTime::now())
    }

    /// The name of a server's processes.
    fn comm(&self, server: ServerId) -> Option<String> {
        let is_its = |sync: &&StuckSync| self.servers[&sync.pid] == server.pid;
        Some(self.scan.syncs.iter().find(is_its)?.comm.clone())
    }

    /// Nothing is asked of a server that hangs.
    fn name(&self, server: ServerId) -> String {
        format!("{} {}", escape(self.comm(server).unwrap_or_default().as_bytes()), server.pid)
    }
}
