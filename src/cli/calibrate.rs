//! `fsynctop calibrate DIR`: what one sync costs there.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::exit::{BAD_USAGE, CONDITION, Exit, FAILED, NOT_ENOUGH};
use super::options::{Form, TargetArgs, duration};
use super::output::print;
use super::progress;
use super::session;
use super::signals::End;
use crate::calibrate::judge::{Grade, judge};
use crate::calibrate::{calibrate, render};
use crate::engine::engines::Engines;
use crate::engine::profile::Profile;
use crate::model::Server;
use crate::server::what::describers::describe_all;
use crate::server::what::settings::Settings;
use crate::sync_cost::Place;
use crate::sync_cost::plan::{self, Case};
use crate::sync_cost::{CalibrateError, state};
use crate::text::escape;

/// How long describing the servers that run here may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(crate) struct Calibrate {
    /// Where to write: a directory on the filesystem to be measured
    ///
    /// Preferably not a server's own. At most 64 MB are written to at a time, and nothing stays.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// How long to measure each way: 1, 500ms
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = "1s")]
    pub each: Duration,
    /// The most threads: 1, 2, 4 and so on up to this
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Measure even if DIR belongs to a database server
    ///
    /// DIR is repeated here to confirm it.
    #[arg(long, value_name = "DIR")]
    pub production: Option<PathBuf>,
    /// Say whether it is good enough for an engine: postgres, etcd, mysql, mariadb
    ///
    /// The p99 of the engine's own way to make its log durable, against the limit in its profile
    /// (docs/engines.md): PASS, MARGINAL (above half of it) or FAIL, with which the status is 4. Where nobody
    /// gives a limit, or a sync is not known to make anything durable, there is no verdict, and the status is
    /// 6.
    #[arg(long = "for", value_name = "ENGINE")]
    pub engine: Option<String>,
    /// A profile of your own for the engine
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub profile: Vec<PathBuf>,
    /// Do not keep the result for `explain`
    #[arg(long)]
    pub no_save: bool,
    /// A table for people, JSON for programs
    #[arg(long, value_enum, default_value_t)]
    pub output: Form,
}

pub fn run(arguments: &Calibrate) -> anyhow::Result<ExitCode> {
    let targets = TargetArgs { profile: arguments.profile.clone(), ..TargetArgs::default() };
    let engines = session::engines(&targets)?;
    let profile = arguments.engine.as_deref().map(|name| profile(&engines, name)).transpose()?;
    let place = Place::inspect(&arguments.directory)?;
    let allowed = arguments.production.as_deref().is_some_and(|typed| typed == arguments.directory);
    if arguments.production.is_some() && !allowed {
        let message = "--production names another directory than the one to measure".to_owned();
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    if !allowed {
        place.refuse_if_servers(&servers(&targets, engines)?)?;
    }
    place.refuse_if_busy()?;

    // Until here a signal ends it as it ends any program: nothing was made yet that would stay.
    let stop = End::watch()?;
    let cases = plan::cases(arguments.threads);
    let bar = progress::bar(cases.len() as u64, "{wide_bar} {pos}/{len}  {msg}");
    let outcome = calibrate(place, &cases, arguments.each, &stop.requested, |done, case| {
        bar.set_position(done as u64);
        bar.set_message(name(case));
    });
    bar.finish_and_clear();
    let calibration = outcome?;

    let judgement = profile.as_ref().and_then(|profile| judge(profile, &calibration));
    let text = match arguments.output {
        Form::Table => {
            let mut table = render::table(&calibration);
            if let Some(judgement) = &judgement {
                table.push_str(&format!("\n{}\n", judgement.in_words()));
            }
            table
        }
        Form::Json => {
            let mut json = serde_json::to_value(&calibration).context("cannot encode the result")?;
            if let Some(judgement) = &judgement {
                json["judgement"] = serde_json::json!(judgement);
            }
            format!("{json}\n")
        }
    };
    print(text.as_bytes())?;
    if !calibration.complete {
        return Ok(ExitCode::from(stop.status()));
    }
    if !arguments.no_save {
        save(&calibration)?;
    }
    if let (Some(profile), None) = (&profile, &judgement) {
        let method = profile.calibrate.as_ref().map_or("", |standard| standard.method.name());
        let message =
            format!("{method} could not be measured here, so {} cannot be judged", profile.engine.title);
        return Err(Exit { status: FAILED, message }.into());
    }
    Ok(ExitCode::from(match judgement.map(|judgement| judgement.grade) {
        Some(Some(Grade::Fail)) => CONDITION,
        Some(None) => NOT_ENOUGH,
        _ => 0,
    }))
}

/// Of an engine that has a standard. InnoDB's is that of MySQL.
fn profile(engines: &Engines, name: &str) -> anyhow::Result<Profile> {
    let name = if name == "innodb" { "mysql" } else { name };
    let profile = engines.profile(name).filter(|profile| profile.calibrate.is_some());
    profile.cloned().ok_or_else(|| {
        let known = engines.profiles().iter().filter(|profile| profile.calibrate.is_some());
        let known: Vec<&str> = known.map(|profile| profile.engine.name.as_str()).collect();
        let message =
            format!("--for {name:?}: it is known how these make their log durable: {}", known.join(", "));
        Exit { status: BAD_USAGE, message }.into()
    })
}

/// Those that run, with what they were told.
fn servers(targets: &TargetArgs, engines: Arc<Engines>) -> anyhow::Result<Vec<(Server, Settings)>> {
    let selection = session::selection(targets, &engines)?;
    let servers = describe_all(&selection.processes(), session::rules(engines, None)?, PATIENCE);
    // What is not known cannot be ruled out.
    if let Some((server, _)) = servers.iter().find(|(server, _)| !server.known_by.described) {
        return Err(CalibrateError::Refused(format!(
            "process {} ({}) did not say within {} s which directories it uses, so this may be one of them. If it is \
             not, say so: --production, with the directory once more",
            server.id.pid,
            escape(server.comm.as_bytes()),
            PATIENCE.as_secs()
        ))
        .into());
    }
    Ok(servers)
}

fn save(calibration: &crate::sync_cost::Calibration) -> anyhow::Result<()> {
    let Some(directory) = state::directory() else { return Ok(()) };
    let saved = state::save(&directory, calibration);
    saved.map(drop).map_err(|error: CalibrateError| {
        let message = format!("{error}; the result stands above, but explain cannot use it (--no-save)");
        Exit { status: FAILED, message }.into()
    })
}

fn name(case: &Case) -> String {
    let what = format!("{}, {}", case.method.name(), case.pattern.name());
    match (case.threads, case.file_each) {
        (1, _) => what,
        (n, false) => format!("{what}, {n} threads on one file"),
        (n, true) => format!("{what}, {n} threads on one file each"),
    }
}
