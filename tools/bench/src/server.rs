//! What tracing costs a real server under load: transactions per second, with and without, in pairs.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::snapshot::AttachMode;
use serde::Serialize;

use crate::context::Context;
use crate::cost::{CallCost, Cost};
use crate::counted;
use crate::database::{Database, Kind, RunningLoad, Workload};
use crate::modes;
use crate::proc;
use crate::progress;
use crate::section::{Bar, Section, Table};
use crate::stats::Estimate;
use crate::tracer::{SCRIPT, Tracer, bpftrace};

const MOST_PERCENT: f64 = 1.0;
/// What attaching and detaching stir up is no part of a window.
const SETTLE: Duration = Duration::from_millis(100);
/// Nor is what fsynctop does once: its first two snapshots, with the server's description and the files' names, take
/// several times as long as those of a long run.
const UNTIL_STEADY: Duration = Duration::from_millis(2_300);
/// A second, so that each window with fsynctop holds one of its snapshots, as each second of a long run does. Longer ones
/// tell less in the same time: what else makes a server faster or slower takes seconds.
const WINDOW: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_secs(3);

/// Both windows of a pair, in transactions per second.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pair {
    without: f64,
    with: f64,
}

impl Pair {
    /// Of the throughput without, in percent; positive if tracing costs something.
    fn loss(&self) -> f64 {
        (1.0 - self.with / self.without) * 100.0
    }
}

#[derive(Serialize)]
struct Series {
    server: String,
    workload: &'static str,
    tracer: String,
    pairs: Vec<Pair>,
    /// Of fsynctop.
    cost: Option<Cost>,
}

impl Series {
    fn loss(&self) -> Estimate {
        Estimate::trimmed_mean(&self.pairs.iter().map(Pair::loss).collect::<Vec<_>>())
    }

    fn without(&self) -> Estimate {
        Estimate::of(&self.pairs.iter().map(|pair| pair.without).collect::<Vec<_>>())
    }
}

/// `out`: where the parts before have left what a call costs.
pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let mode = modes::own()?;
    let (own_blocks, other_blocks) = (context.or_quick(30, 2), context.or_quick(5, 1));
    let mut all = Vec::new();
    let kinds = [Kind::MariaDb, Kind::MySql];
    for (kind, memory) in kinds.map(|kind| (kind, false)).into_iter().chain(kinds.map(|kind| (kind, true))) {
        let data = memory.then(|| context.files.path());
        let mut bench = Bench { database: Database::start(kind, data)?, context };
        let workloads =
            if memory { &[Workload::Insert][..] } else { &[Workload::Insert, Workload::Sysbench] };
        for &workload in workloads {
            let programs = context.fsynctop.parent().context("fsynctop's directory")?;
            let mut load = bench.database.load(workload, programs)?;
            sleep(WARM_UP);
            let mut tracers = vec![(Tracer::Fsynctop(mode), own_blocks)];
            if workload == Workload::Insert && !memory {
                tracers.extend([(Tracer::Bpftrace, other_blocks), (Tracer::Strace, other_blocks)]);
            }
            let place = if memory { ", data in memory" } else { "" };
            let server = format!("{} {}{place}", kind.name(), bench.database.version);
            for (tracer, blocks) in tracers {
                progress!("{server} under {}: {blocks} blocks with {}", workload.name(), tracer.name());
                let (pairs, own_time) = bench.blocks(&mut load, workload, tracer, blocks)?;
                let is_own = tracer == Tracer::Fsynctop(mode);
                let cost = is_own.then(|| Cost::measure(own_time)).transpose()?;
                let (server, workload, tracer) = (server.clone(), workload.name(), tracer.name());
                all.push(Series { server, workload, tracer, pairs, cost });
            }
        }
    }
    Ok(report(&all, mode, CallCost::read(out, mode), context.cpus))
}

struct Bench<'a> {
    database: Database,
    context: &'a Context,
}

impl Bench<'_> {
    /// In each block two windows with the tracer between two without, so that a load that gets slower or faster takes
    /// no side. And which share of one processor the tracer's own process used in the windows.
    fn blocks(
        &mut self,
        load: &mut RunningLoad,
        workload: Workload,
        tracer: Tracer,
        count: usize,
    ) -> Result<(Vec<Pair>, f64)> {
        let (mut pairs, mut own_times) = (Vec::new(), Vec::new());
        while pairs.len() < 2 * count {
            self.context.others.wait()?;
            let before = self.window(workload)?;
            let ([first, second], own_time) = self.traced_windows(workload, tracer)?;
            let after = self.window(workload)?;
            load.check()?;
            if self.context.others.are_gone() {
                pairs.extend([Pair { without: before, with: first }, Pair { without: after, with: second }]);
                own_times.push(own_time);
            }
        }
        Ok((pairs, Estimate::of(&own_times).median))
    }

    /// Transactions per second.
    fn window(&mut self, workload: Workload) -> Result<f64> {
        sleep(SETTLE);
        let (before, began) = (self.database.transactions(workload)?, Instant::now());
        sleep(WINDOW);
        let done = self.database.transactions(workload)? - before;
        ensure!(done > 0, "the server does not commit anything");
        Ok(done as f64 / began.elapsed().as_secs_f64())
    }

    fn traced_windows(&mut self, workload: Workload, tracer: Tracer) -> Result<([f64; 2], f64)> {
        let pid = self.database.pid;
        let program = match tracer {
            // No thread of MySQL has the name that the script asks for.
            Tracer::Bpftrace => bpftrace(&SCRIPT.replace("comm == \"mysqld\"", &format!("pid == {pid}")))?,
            _ => tracer.start(self.context, pid)?.into_program().context("a program")?,
        };
        if let Tracer::Fsynctop(_) = tracer {
            sleep(UNTIL_STEADY);
        }
        let (before, began) = (proc::cpu_time(program.pid())?, Instant::now());
        let rates = [self.window(workload)?, self.window(workload)?];
        let own_time =
            (proc::cpu_time(program.pid())? - before).as_secs_f64() / began.elapsed().as_secs_f64();
        let (out, err) = program.stop()?;
        let counted = match tracer {
            Tracer::Fsynctop(_) => counted::by_fsynctop(&out, pid).0,
            Tracer::Bpftrace => counted::by_bpftrace(&out),
            _ => counted::in_table(&err, 3),
        };
        ensure!(counted > 0, "{} counted no sync of the server: {out}{err}", tracer.name());
        Ok((rates, own_time))
    }
}

fn report(all: &[Series], mode: AttachMode, call_cost: Option<CallCost>, cpus: usize) -> Section {
    let mut section = Section {
        title: "A real server's throughput".into(),
        about: vec![format!(
            "Transactions per second of throw-away servers on this machine's disk, 16 connections, the binary log on and \
             synced at each commit, as the server counts them itself. The load runs on through blocks of four windows \
             of {} s: a tracer is attached in the second and third, and begins {:.1} s before them if it is fsynctop, \
             whose start is no part of what it costs to leave it running. Each half of a block is a pair. The loss is \
             the mean over the pairs without the outermost tenths, with its 95 % interval: one that reaches below zero \
             is within their noise. The script is given the server's pid here, because no thread of MySQL has the name \
             that it asks for. With its data in memory a server does not wait for a disk, so that it syncs the most, \
             and a disk's moods are out of the way.",
            WINDOW.as_secs(),
            UNTIL_STEADY.as_secs_f64(),
        )],
        values: serde_json::json!(all),
        ..Section::default()
    };
    let header = ["server", "load", "attached", "pairs", "transactions/s without", "lost with it, %"];
    let mut table = Table::new("", &header);
    for series in all {
        let Series { server, workload, tracer, pairs, .. } = series;
        let (without, loss) = (series.without(), series.loss());
        table.row([
            server.clone(),
            (*workload).to_owned(),
            tracer.clone(),
            pairs.len().to_string(),
            format!("{:.0}", without.median),
            loss.show(1),
        ]);
        if *tracer == Tracer::Fsynctop(mode).name() {
            section.bars.push(Bar::new(
                format!("{server}, {workload}: throughput lost"),
                "1 %, and within the pairs' noise",
                format!("{} %", loss.show(1)),
                loss.median < MOST_PERCENT && loss.low <= 0.0,
            ));
        }
    }
    section.tables.push(table);
    section.tables.push(costs(all, call_cost, cpus));
    section.notes.push(
        "The second table does not depend on how fast a server happens to be: it counts what tracing does, and takes what \
         each costs from the two parts above. What an attached tracer costs beside that, in the processors' caches, is not \
         in it."
            .into(),
    );
    section
}

/// What tracing does on the processors, by series.
fn costs(all: &[Series], call_cost: Option<CallCost>, cpus: usize) -> Table {
    let header = [
        "server",
        "load",
        "system calls/s",
        "syncs/s",
        "fsynctop's process, % of a processor",
        "it and its programs, % of all processors",
    ];
    let mut table = Table::new("Processor time that fsynctop takes", &header);
    for Series { server, workload, cost, .. } in all {
        let Some(cost) = cost else { continue };
        let in_all = call_cost.map(|of_calls| format!("{:.2}", 100.0 * cost.in_all(of_calls) / cpus as f64));
        table.row([
            server.clone(),
            (*workload).to_owned(),
            format!("{:.0}", cost.calls),
            format!("{:.0}", cost.syncs),
            format!("{:.2}", 100.0 * cost.own_time),
            in_all.unwrap_or_else(|| "not measured".into()),
        ]);
    }
    table
}
