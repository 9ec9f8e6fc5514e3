//! `fsynctop stuck`: the threads that are inside a sync call right now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::exit::INCOMPLETE;
use super::options::{FormArgs, StyleArgs, TargetArgs, duration};
use super::output::print;
use super::session;
use crate::files::open::OpenFiles;
use crate::render::Style;
use crate::server::processes::{self, Unseen};
use crate::server::settings::Settings;
use crate::stuck;
use crate::threads::{self, Looks, Processes};

const PROC: &str = "/proc";

#[derive(Args, Debug)]
pub struct Stuck {
    #[command(flatten)]
    pub targets: TargetArgs,
    #[command(flatten)]
    pub form: FormArgs,
    /// How long to watch
    ///
    /// A call that stands still all the while is at least that old.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = "200ms")]
    pub watch: Duration,
    /// Rules of your own for the roles of files
    #[arg(long, value_name = "FILE")]
    pub roles: Option<PathBuf>,
    #[command(flatten)]
    pub style: StyleArgs,
}

pub fn run(arguments: &Stuck) -> anyhow::Result<ExitCode> {
    let rules = session::rules(arguments.roles.as_deref())?;
    let unseen = processes::unseen(Path::new(PROC));
    let processes = if arguments.targets.is_given() {
        let selection = session::selection(&arguments.targets)?;
        let found = selection.processes();
        if let (true, Some(why)) = (found.is_empty(), unseen) {
            return Err(session::cannot_look(&selection.describe(), why).into());
        }
        Processes::These(found.iter().map(|process| process.pid).collect())
    } else {
        // What it hides from this user is told with the result.
        if let Some(why @ Unseen::Everything) = unseen {
            return Err(session::cannot_look("a thread inside a sync call", why).into());
        }
        Processes::All
    };
    let looks = Looks { apart: arguments.watch, ..Looks::default() };
    let scan = threads::scan(Path::new(PROC), &processes, &looks).context("cannot list /proc")?;
    // Not by the server's settings: its option files may lie on the disk that hangs, and a process with a
    // thread that waits for a disk cannot even end.
    let settings = Settings::default();
    let open = |pid: u32| OpenFiles::of_process(Path::new(PROC), pid);
    let pids: BTreeSet<u32> = scan.syncs.iter().map(|sync| sync.pid).collect();
    let open: BTreeMap<u32, OpenFiles> = pids.into_iter().map(|pid| (pid, open(pid))).collect();
    let role_of = |pid: u32, link: &Path| open[&pid].role(link, &settings, &rules);
    let text = if arguments.form.is_json() {
        format!("{}\n", stuck::json(&scan, &role_of))
    } else {
        let style = arguments.style.apply(Style::for_stdout());
        stuck::table(&scan, &role_of, &style)
    };
    print(text.as_bytes())?;
    // Also where a sync was found: others may hang where nobody could look.
    Ok(if scan.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}
