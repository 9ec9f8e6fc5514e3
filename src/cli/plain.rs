//! `fsynctop` without an action: the live view; and the old forms of `once` and `history`, which were options
//! of it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::history::{self, History};
use super::once::{self, Once};
use super::options::duration;
use super::top::{self, Top};
use crate::engine::engines::Engines;
use crate::render::Output;

/// Takes what `once` and `history` take, so that the old forms go on working.
#[derive(Args, Debug)]
pub struct Plain {
    /// The old form of `fsynctop once`
    #[arg(long)]
    pub once: bool,
    /// The old form of `fsynctop history --last`
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, conflicts_with_all = [
        "duration", "count", "wait", "by", "sort", "limit", "columns", "histogram", "command", "word", "comm", "cgroup", "all", "engine", "profile", "ops",
        "writes", "attach", "verbose", "roles", "max_files", "max_histograms", "max_cpu", "fail_on", "replay"
    ])]
    pub last: Option<Duration>,
    #[command(flatten)]
    pub measure: Once,
}

impl Plain {
    /// The action that is meant.
    pub(crate) fn action(&self) -> &'static str {
        match self.last {
            Some(_) => "history",
            None if self.asks_for_one_measurement() => "once",
            None => "top",
        }
    }

    /// What is asked for is no live view.
    pub(crate) fn asks_for_one_measurement(&self) -> bool {
        let measure = &self.measure;
        self.once
            || measure.duration.is_some()
            || measure.count.is_some()
            || measure.sort.is_some()
            || measure.limit.is_some()
            || !measure.columns.is_empty()
            || measure.histogram
            || measure.output != Output::Table
            || measure.output_file.is_some()
            || !measure.fail_on.is_empty()
            || !measure.command.is_empty()
    }
}

pub fn run(plain: Plain, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    let one_measurement = plain.asks_for_one_measurement();
    let Plain { last, measure, .. } = plain;
    if let Some(last) = last {
        return history::run(&History::of_measurement(measure, last));
    }
    if one_measurement {
        return once::run(&measure, engines);
    }
    let top = Top {
        interval: measure.interval.unwrap_or(top::INTERVAL),
        by: measure.by.into(),
        stuck_after: measure.stuck_after,
        style: measure.style,
        names: measure.names,
        no_mouse: false,
        socket: measure.socket,
        replay: measure.replay,
        trace: measure.trace,
        long_run: measure.long_run,
    };
    top::run(top, engines)
}
