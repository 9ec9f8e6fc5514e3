//! `fsynctop stuck`: the threads that are inside a sync call right now.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use super::args::Stuck;
use super::session;
use super::{INCOMPLETE, print};
use crate::files::classify::Candidate;
use crate::render::Style;
use crate::server::settings::Settings;
use crate::stuck;
use crate::threads::{self, Looks, Processes};

pub fn run(arguments: &Stuck) -> anyhow::Result<ExitCode> {
    let rules = session::rules(arguments.roles.as_deref())?;
    let processes = if arguments.targets.is_given() {
        let selection = session::selection(&arguments.targets)?;
        Processes::These(selection.processes().iter().map(|process| process.pid).collect())
    } else {
        Processes::All
    };
    let looks = Looks { apart: arguments.watch, ..Looks::default() };
    let scan = threads::scan(Path::new("/proc"), &processes, &looks).context("cannot list /proc")?;
    // By name alone: reading the settings of a server that hangs could hang as well.
    let settings = Settings::default();
    let role_of = |_pid: u32, path: &Path| {
        rules.classify(&Candidate { path, is_directory: false, settings: &settings, first_bytes: &|| None })
    };
    let text = if arguments.form.is_json() {
        format!("{}\n", stuck::json(&scan, &role_of))
    } else {
        let mut style = Style::for_stdout();
        arguments.color.apply(&mut style);
        style.unicode &= !arguments.no_unicode;
        stuck::table(&scan, &role_of, &style)
    };
    print(text.as_bytes())?;
    // Also where a sync was found: others may hang where nobody could look.
    Ok(if scan.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}
