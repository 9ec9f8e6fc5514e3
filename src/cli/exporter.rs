//! `fsynctop exporter`: from arguments to a daemon.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::args::{LongRunArgs, TraceArgs, duration};
use super::{FAILED, check, session, settings};
use crate::exporter::daemon::{self, Tracing};
use crate::exporter::figures::Figures;
use crate::exporter::status::AtStart;
use crate::exporter::web::address::ListenAddress;
use crate::exporter::{log, privileges};
use crate::host;
use crate::live::{Live, Options};

pub const AFTER_HELP: &str = "\
Each option can also be given by an environment variable (--max-files: FSYNCTOP_MAX_FILES; several values with commas
between them) and in the file of --config (max-files = 65536; listen = [\"127.0.0.1:9871\"]). The command line comes
before the environment, and that before the file.

Pages: /metrics, /status (the verdicts of `fsynctop check` as JSON), /-/healthy, /-/ready.
SIGHUP reads the web configuration anew; so does a change of its files. SIGTERM ends it.";

#[derive(Args, Debug)]
#[command(next_help_heading = "Serving")]
pub struct Exporter {
    /// Where to listen, may be given several times: 127.0.0.1:9871, [::1]:9871, :9871 for all addresses
    /// [default: the sockets that systemd has opened, else 127.0.0.1:9871]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<ListenAddress>,
    /// TLS, client certificates and users, in the format that Prometheus' exporters share; read anew when it changes
    #[arg(long, value_name = "FILE")]
    pub web_config_file: Option<PathBuf>,
    /// Options in TOML, by their names here
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// From one regular snapshot to the next; each scrape takes a fresh one
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub interval: Duration,
    #[command(flatten)]
    pub long_run: LongRunArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
}

pub fn run(arguments: Exporter) -> anyhow::Result<ExitCode> {
    for name in settings::unknown_variables() {
        log::warning(format_args!("the environment variable {name} is no option of the exporter"));
    }
    let rules = session::rules(arguments.trace.roles.as_deref())?;
    session::require_host_pids()?;
    let selection = session::selection(&arguments.trace.targets)?;
    let config = session::probe_config(&arguments.trace, &selection, false)?;
    let map_bytes = config.capacity.map_bytes();
    let mut verdicts = host::checks(map_bytes);
    verdicts.push(check::budget(&config));

    let options = daemon::Options {
        listen: arguments.listen,
        web_config_file: arguments.web_config_file,
        at_start: AtStart { verdicts, map_bytes },
        interval: arguments.interval,
    };
    let trace = arguments.trace;
    let long_run =
        Options { interval: arguments.interval, max_cpu: arguments.long_run.max_cpu.0, ..Options::default() };
    let attach = move |_statistics| {
        let found = Arc::new(OnceLock::new());
        let tell = found.clone();
        let make = move || -> anyhow::Result<_> {
            let probe = session::attach(&trace, &config)?;
            privileges::keep_needed().context("cannot give up capabilities")?;
            // There is one attach: it is empty.
            let _ = tell.set(check::call_storage(probe.attached()));
            Ok(session::sampler(probe, rules))
        };
        let live = Live::start(make, selection, long_run).map_err(|error| format!("{error:#}"))?;
        let live = Arc::new(live);
        let found = found.get().cloned().into_iter().collect();
        Ok(Tracing { metrics: Box::new(Figures { live: live.clone() }), live, found })
    };
    match daemon::run(options, attach) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(message) => {
            message.lines().for_each(log::error);
            Ok(ExitCode::from(FAILED))
        }
    }
}
