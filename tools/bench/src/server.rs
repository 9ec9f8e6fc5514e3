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
use crate::database::{Database, Kind, Workload};
use crate::modes;
use crate::pairs::{Attachment, LONG, Loaded, Pair, Pairs, SHORT};
use crate::proc;
use crate::progress;
use crate::section::{Bar, Section, Table};
use crate::stats::Estimate;
use crate::tracer::Tracer;

const MOST_PERCENT: f64 = 1.0;
/// What fsynctop does once is no part of what its process takes: its first two snapshots, with the server's description
/// and the files' names.
const UNTIL_STEADY: Duration = Duration::from_millis(2_300);
const PROCESS_TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct Series {
    server: String,
    workload: &'static str,
    tracer: String,
    pairs: Vec<Pair>,
    /// Of fsynctop.
    cost: Option<Cost>,
    /// What its process takes of all processors, beside its programs.
    process_percent: f64,
}

impl Series {
    fn loss(&self) -> Estimate {
        Pair::loss(&self.pairs).map(|loss| loss + self.process_percent)
    }

    fn without(&self) -> Estimate {
        Estimate::of(&self.pairs.iter().map(|pair| pair.without).collect::<Vec<_>>())
    }
}

/// `out`: where the parts before have left what a call costs.
pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let mode = modes::own()?;
    let (own_blocks, other_blocks) = (context.or_quick(150, 20), context.or_quick(5, 1));
    let mut loaded = Loaded::new(context, mode)?;
    let mut all = Vec::new();
    let kinds = [Kind::MariaDb, Kind::MySql];
    for (kind, memory) in kinds.map(|kind| (kind, false)).into_iter().chain(kinds.map(|kind| (kind, true))) {
        let data = memory.then(|| context.files.path());
        let mut database = Database::start(kind, data)?;
        let workloads =
            if memory { &[Workload::Insert][..] } else { &[Workload::Insert, Workload::Sysbench] };
        for &workload in workloads {
            let programs = context.fsynctop.parent().context("fsynctop's directory")?;
            let mut load = database.load(workload, programs, context.files.path())?;
            sleep(WARM_UP);
            let place = if memory { ", data in memory" } else { "" };
            let server = format!("{} {}{place}", kind.name(), database.version);
            let with_others = workload == Workload::Insert && !memory;
            let own_time = own_time(context, mode, database.pid)?;
            let cost = Cost::measure(own_time)?;
            let pid = database.pid;
            let mut pairs = Pairs { context, database: &mut database, load: &mut load, loaded: &mut loaded };
            let mut measure = |attachments: &[Attachment], blocks| -> Result<()> {
                progress!(
                    "{server} under {} ({pid}): {blocks} blocks with {}",
                    workload.name(),
                    attachments[0].name(mode)
                );
                for (attachment, pairs) in attachments.iter().zip(pairs.measure(attachments, blocks)?) {
                    let is_own = *attachment == Attachment::Programs;
                    all.push(Series {
                        server: server.clone(),
                        workload: workload.name(),
                        tracer: attachment.name(mode),
                        pairs,
                        cost: is_own.then_some(cost),
                        process_percent: if is_own { 100.0 * own_time / context.cpus as f64 } else { 0.0 },
                    });
                }
                Ok(())
            };
            measure(&[Attachment::Programs, Attachment::Empty, Attachment::Nothing], own_blocks)?;
            for tracer in [Tracer::Bpftrace, Tracer::Strace].into_iter().filter(|_| with_others) {
                measure(&[Attachment::Process(tracer)], other_blocks)?;
            }
        }
    }
    Ok(report(&all, mode, CallCost::read(out, mode), context.cpus))
}

/// Which share of one processor fsynctop's process takes of a server under load, at its usual interval.
fn own_time(context: &Context, mode: AttachMode, server: u32) -> Result<f64> {
    let program = crate::tracer::fsynctop(context, mode)?;
    sleep(UNTIL_STEADY);
    let (before, began) = (proc::cpu_time(program.pid())?, Instant::now());
    sleep(PROCESS_TIME);
    let share = (proc::cpu_time(program.pid())? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let (out, err) = program.stop()?;
    ensure!(counted::by_fsynctop(&out, server).0 > 0, "fsynctop counted no sync of the server: {out}{err}");
    Ok(share)
}

fn report(all: &[Series], mode: AttachMode, call_cost: Option<CallCost>, cpus: usize) -> Section {
    let mut section = Section {
        title: "A real server's throughput".into(),
        about: vec![format!(
            "Transactions per second of throw-away servers on this machine's disk, 16 connections, the binary log on and \
             synced at each commit. insert-load counts what it has committed itself; sysbench's is what the server says, \
             which under load takes its time to answer. The load runs on through blocks of four windows, and something \
             is attached in the second and third: programs, loaded before, in windows of {} s; other tracers, which take \
             a second to begin, in windows of {} s. Each half of a block is a pair. The loss is the mean over the pairs \
             (of the ratios' logarithms, without the outermost tenths), with its 95 % interval: one that reaches below \
             zero is within their noise. What fsynctop's process takes of all processors, measured for {} s in the same \
             load, is added to it. Two empty programs on the same hooks, and nothing at all, take turns with fsynctop's \
             programs: the first is what the hooks cost, whatever stands in them; the second must come out at zero. The \
             script is given the server's pid here, because no thread of MySQL has the name that it asks for. With its \
             data in memory a server does not wait for a disk, so that it syncs the most, and a disk's moods are out of \
             the way.",
            SHORT.as_secs_f64(),
            LONG.as_secs(),
            PROCESS_TIME.as_secs(),
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
