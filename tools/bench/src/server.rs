//! What tracing costs a real server under load: transactions per second, with and without, in pairs.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::snapshot::AttachMode;
use serde::Serialize;

use crate::context::Context;
use crate::counted;
use crate::database::{Database, Kind, RunningLoad, Workload};
use crate::modes;
use crate::progress;
use crate::section::{Bar, Section, Table};
use crate::stats::Estimate;
use crate::tracer::{SCRIPT, Tracer, bpftrace};

const MOST_PERCENT: f64 = 1.0;
/// What attaching and detaching stir up is no part of a window.
const SETTLE: Duration = Duration::from_millis(100);
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
}

impl Series {
    fn loss(&self) -> Estimate {
        Estimate::trimmed_mean(&self.pairs.iter().map(Pair::loss).collect::<Vec<_>>())
    }

    fn without(&self) -> Estimate {
        Estimate::of(&self.pairs.iter().map(|pair| pair.without).collect::<Vec<_>>())
    }
}

pub fn section(context: &Context) -> Result<Section> {
    let mode = modes::own()?;
    let (own_pairs, other_pairs) = (context.or_quick(100, 5), context.or_quick(10, 2));
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
            let mut tracers = vec![(Tracer::Fsynctop(mode), own_pairs)];
            if workload == Workload::Insert && !memory {
                // How much of it is the hooks, whatever runs on them.
                tracers.push((Tracer::Floor(mode), own_pairs));
                tracers.extend([(Tracer::Bpftrace, other_pairs), (Tracer::Strace, other_pairs)]);
            }
            let place = if memory { ", data in memory" } else { "" };
            let server = format!("{} {}{place}", kind.name(), bench.database.version);
            for (tracer, pairs) in tracers {
                progress!("{server} under {}: {pairs} pairs with {}", workload.name(), tracer.name());
                let pairs = bench.pairs(&mut load, workload, tracer, pairs)?;
                all.push(Series {
                    server: server.clone(),
                    workload: workload.name(),
                    tracer: tracer.name(),
                    pairs,
                });
            }
        }
    }
    Ok(report(&all, mode))
}

struct Bench<'a> {
    database: Database,
    context: &'a Context,
}

impl Bench<'_> {
    /// Every other pair the other way round, so that a load that gets slower or faster takes no side.
    fn pairs(
        &mut self,
        load: &mut RunningLoad,
        workload: Workload,
        tracer: Tracer,
        count: usize,
    ) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        while pairs.len() < count {
            self.context.others.wait()?;
            let pair = if pairs.len() % 2 == 0 {
                let without = self.window(workload)?;
                Pair { without, with: self.traced_window(workload, tracer)? }
            } else {
                let with = self.traced_window(workload, tracer)?;
                Pair { with, without: self.window(workload)? }
            };
            load.check()?;
            if self.context.others.are_gone() {
                pairs.push(pair);
            }
        }
        Ok(pairs)
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

    fn traced_window(&mut self, workload: Workload, tracer: Tracer) -> Result<f64> {
        let pid = self.database.pid;
        if let Tracer::Floor(_) = tracer {
            let running = tracer.start(self.context, pid)?;
            let rate = self.window(workload)?;
            running.stop(0)?;
            return Ok(rate);
        }
        let program = match tracer {
            // No thread of MySQL has the name that the script asks for.
            Tracer::Bpftrace => bpftrace(&SCRIPT.replace("comm == \"mysqld\"", &format!("pid == {pid}")))?,
            _ => tracer.start(self.context, pid)?.into_program().context("a program")?,
        };
        let rate = self.window(workload)?;
        let (out, err) = program.stop()?;
        let counted = match tracer {
            Tracer::Fsynctop(_) => counted::by_fsynctop(&out, pid).0,
            Tracer::Bpftrace => counted::by_bpftrace(&out),
            _ => counted::in_table(&err, 3),
        };
        ensure!(counted > 0, "{} counted no sync of the server: {out}{err}", tracer.name());
        Ok(rate)
    }
}

fn report(all: &[Series], mode: AttachMode) -> Section {
    let mut section = Section {
        title: "A real server's throughput".into(),
        about: vec![format!(
            "Transactions per second of throw-away servers on this machine's disk, 16 connections, the binary log on and \
             synced at each commit, as the server counts them itself. The load runs on while a tracer is attached for a \
             window of {} s, and not attached for the next; every other pair is the other way round. The loss is the mean \
             over the pairs without the outermost tenths, with its 95 % interval: one that reaches below zero is within \
             their noise. The script is given the server's pid here, because no thread of MySQL has the name that it asks \
             for. Empty programs on fsynctop's hooks show how much of a loss is the hooks'. With its data in memory a \
             server does not wait for a disk, so that it syncs the most, and a disk's moods are out of the way.",
            WINDOW.as_secs()
        )],
        values: serde_json::json!(all),
        ..Section::default()
    };
    let header = ["server", "load", "attached", "pairs", "transactions/s without", "lost with it, %"];
    let mut table = Table::new("", &header);
    for series in all {
        let Series { server, workload, tracer, pairs } = series;
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
    section
}
