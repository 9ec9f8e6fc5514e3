//! What tracing costs a real server under load: transactions per second, with and without, in pairs.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::probe::Probe;
use fsynctop::snapshot::AttachMode;
use serde::Serialize;

use crate::context::Context;
use crate::cost::{CallCost, Cost};
use crate::counted;
use crate::database::{Database, Kind, RunningLoad, Workload};
use crate::floor::{Does, Floor};
use crate::modes;
use crate::proc;
use crate::progress;
use crate::section::{Bar, Section, Table};
use crate::stats::Estimate;
use crate::tracer::{SCRIPT, Tracer, bpftrace};

const MOST_PERCENT: f64 = 1.0;
/// What attaching and detaching stir up is no part of a window.
const SETTLE: Duration = Duration::from_millis(100);
/// What else makes a server faster or slower takes seconds: of windows that are shorter than that, a thousand tell more
/// than a hundred long ones. fsynctop's programs are attached in a tenth of a second.
const SHORT: Duration = Duration::from_millis(400);
/// Others take a second to begin.
const LONG: Duration = Duration::from_secs(1);
/// A server does some things once a second. Blocks that begin at the same moment of it would all find them in the same
/// window, with or without.
const PERIOD: Duration = Duration::from_secs(1);
/// What fsynctop does once is no part of what its process takes: its first two snapshots, with the server's description
/// and the files' names.
const UNTIL_STEADY: Duration = Duration::from_millis(2_300);
const PROCESS_TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);

/// With a tracer, and in the window before or after it, in transactions per second.
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

/// What there is in the windows with.
#[derive(Clone, Copy)]
enum Attachment {
    /// fsynctop's programs alone: its process is measured apart.
    Programs(AttachMode),
    Empty(AttachMode),
    /// As a control: it must come out at zero.
    Nothing(AttachMode),
    Process(Tracer),
}

impl Attachment {
    fn name(self) -> String {
        match self {
            Attachment::Programs(mode) => Tracer::Fsynctop(mode).name(),
            Attachment::Empty(mode) => Tracer::Floor(mode).name(),
            Attachment::Nothing(_) => "nothing, as a control".into(),
            Attachment::Process(tracer) => tracer.name(),
        }
    }

    fn window(self) -> Duration {
        if matches!(self, Attachment::Process(_)) { LONG } else { SHORT }
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
    /// What its process takes of all processors, beside its programs.
    process_percent: f64,
}

impl Series {
    fn loss(&self) -> Estimate {
        let losses = self.pairs.iter().map(|pair| pair.loss() + self.process_percent);
        Estimate::trimmed_mean(&losses.collect::<Vec<_>>())
    }

    fn without(&self) -> Estimate {
        Estimate::of(&self.pairs.iter().map(|pair| pair.without).collect::<Vec<_>>())
    }
}

/// `out`: where the parts before have left what a call costs.
pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let mode = modes::own()?;
    let (own_blocks, other_blocks) = (context.or_quick(60, 5), context.or_quick(5, 1));
    let mut all = Vec::new();
    let kinds = [Kind::MariaDb, Kind::MySql];
    for (kind, memory) in kinds.map(|kind| (kind, false)).into_iter().chain(kinds.map(|kind| (kind, true))) {
        let data = memory.then(|| context.files.path());
        let mut bench = Bench { database: Database::start(kind, data)?, context };
        let workloads =
            if memory { &[Workload::Insert][..] } else { &[Workload::Insert, Workload::Sysbench] };
        for &workload in workloads {
            let programs = context.fsynctop.parent().context("fsynctop's directory")?;
            let mut load = bench.database.load(workload, programs, context.files.path())?;
            sleep(WARM_UP);
            let place = if memory { ", data in memory" } else { "" };
            let server = format!("{} {}{place}", kind.name(), bench.database.version);
            let series = |attachment: Attachment, pairs, cost, process_percent| Series {
                server: server.clone(),
                workload: workload.name(),
                tracer: attachment.name(),
                pairs,
                cost,
                process_percent,
            };
            let compared = workload == Workload::Insert && !memory;
            let mut short = vec![Attachment::Programs(mode)];
            if compared {
                short.extend([Attachment::Empty(mode), Attachment::Nothing(mode)]);
            }
            progress!("{server} under {}: {own_blocks} blocks with fsynctop", workload.name());
            let pairs = bench.blocks(&mut load, &short, own_blocks)?;
            let own_time = bench.own_time(mode)?;
            let process_percent = 100.0 * own_time / context.cpus as f64;
            for (attachment, pairs) in short.into_iter().zip(pairs) {
                all.push(match attachment {
                    Attachment::Programs(_) => {
                        series(attachment, pairs, Some(Cost::measure(own_time)?), process_percent)
                    }
                    _ => series(attachment, pairs, None, 0.0),
                });
            }
            for tracer in [Tracer::Bpftrace, Tracer::Strace].into_iter().filter(|_| compared) {
                let attachment = Attachment::Process(tracer);
                progress!("{server} under {}: {other_blocks} blocks with {}", workload.name(), tracer.name());
                for pairs in bench.blocks(&mut load, &[attachment], other_blocks)? {
                    all.push(series(attachment, pairs, None, 0.0));
                }
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
    /// Which share of one processor fsynctop's process takes, at its usual interval.
    fn own_time(&mut self, mode: AttachMode) -> Result<f64> {
        let pid = self.database.pid;
        let program = crate::tracer::fsynctop(self.context, mode)?;
        sleep(UNTIL_STEADY);
        let (before, began) = (proc::cpu_time(program.pid())?, Instant::now());
        sleep(PROCESS_TIME);
        let share = (proc::cpu_time(program.pid())? - before).as_secs_f64() / began.elapsed().as_secs_f64();
        let (out, err) = program.stop()?;
        ensure!(counted::by_fsynctop(&out, pid).0 > 0, "fsynctop counted no sync of the server: {out}{err}");
        Ok(share)
    }

    /// In each block two windows with something attached between two without, so that a load that gets slower or faster
    /// takes no side. The tracers take turns.
    fn blocks(
        &mut self,
        load: &mut RunningLoad,
        attachments: &[Attachment],
        count: usize,
    ) -> Result<Vec<Vec<Pair>>> {
        let mut pairs = vec![Vec::new(); attachments.len()];
        let mut block = 0;
        while pairs.iter().any(|pairs| pairs.len() < 2 * count) {
            for (&attachment, pairs) in attachments.iter().zip(&mut pairs) {
                self.context.others.wait()?;
                sleep(PERIOD.mul_f64(evenly_spread(block)));
                block += 1;
                let before = self.window(load, attachment.window())?;
                let [first, second] = self.windows_with(load, attachment)?;
                let alone = self.context.others.are_gone();
                let after = self.window(load, attachment.window())?;
                load.check()?;
                if alone {
                    pairs.extend([
                        Pair { without: before, with: first },
                        Pair { without: after, with: second },
                    ]);
                }
            }
        }
        Ok(pairs)
    }

    fn windows_with(&mut self, load: &RunningLoad, attachment: Attachment) -> Result<[f64; 2]> {
        let attach = |mode| Probe::attach(&modes::of_servers(mode)).context("fsynctop");
        let (rates, mode) = match attachment {
            Attachment::Process(tracer) => return self.windows_with_process(load, tracer),
            Attachment::Programs(mode) => {
                let mut probe = attach(mode)?;
                let rates = self.two_windows(load, SHORT)?;
                ensure!(syncs(&mut probe)? > 0, "fsynctop counted no sync of the server");
                (rates, mode)
            }
            Attachment::Empty(mode) => {
                drop(attach(mode)?);
                let _floor = Floor::attach(mode, Does::Nothing)?;
                (self.two_windows(load, SHORT)?, mode)
            }
            Attachment::Nothing(mode) => {
                drop(attach(mode)?);
                (self.two_windows(load, SHORT)?, mode)
            }
        };
        // Attaching takes processor time, which a server makes up for, or not, in the time after it: so that is spent
        // before the window without, too.
        drop(attach(mode)?);
        Ok(rates)
    }

    fn two_windows(&mut self, load: &RunningLoad, length: Duration) -> Result<[f64; 2]> {
        Ok([self.window(load, length)?, self.window(load, length)?])
    }

    /// Transactions per second.
    fn window(&mut self, load: &RunningLoad, length: Duration) -> Result<f64> {
        sleep(SETTLE);
        let (before, began) = self.database.transactions(load)?;
        sleep(length);
        let (after, ended) = self.database.transactions(load)?;
        ensure!(after > before, "the server does not commit anything");
        Ok((after - before) as f64 / (ended - began).as_secs_f64())
    }

    fn windows_with_process(&mut self, load: &RunningLoad, tracer: Tracer) -> Result<[f64; 2]> {
        let pid = self.database.pid;
        let program = match tracer {
            // No thread of MySQL has the name that the script asks for.
            Tracer::Bpftrace => bpftrace(&SCRIPT.replace("comm == \"mysqld\"", &format!("pid == {pid}")))?,
            _ => tracer.start(self.context, pid)?.into_program().context("a program")?,
        };
        let rates = self.two_windows(load, LONG)?;
        let (out, err) = program.stop()?;
        let counted = match tracer {
            Tracer::Bpftrace => counted::by_bpftrace(&out),
            _ => counted::in_table(&err, 3),
        };
        ensure!(counted > 0, "{} counted no sync of the server: {out}{err}", tracer.name());
        Ok(rates)
    }
}

/// Between 0 and 1: however many there are of them, they lie about as far apart as they can.
fn evenly_spread(n: u32) -> f64 {
    (f64::from(n) * 0.618_033_988_75).fract() // the golden ratio
}

/// How many began while a probe was attached.
fn syncs(probe: &mut Probe) -> Result<u64> {
    let mut sum = 0;
    for slot in probe.slots_in_use() {
        sum += probe.row(slot)?.started;
    }
    Ok(sum)
}

fn report(all: &[Series], mode: AttachMode, call_cost: Option<CallCost>, cpus: usize) -> Section {
    let mut section = Section {
        title: "A real server's throughput".into(),
        about: vec![format!(
            "Transactions per second of throw-away servers on this machine's disk, 16 connections, the binary log on and \
             synced at each commit. insert-load counts what it has committed itself; sysbench's is what the server says, \
             which under load takes its time to answer. The load runs on through blocks of four windows, and something \
             is attached in the second and third: programs in windows of {} s, for what else makes a server faster or \
             slower takes longer than that; other tracers, which take a second to begin, in windows of {} s. Each half of \
             a block is a pair. The loss is the mean over the pairs without the outermost tenths, with its 95 % interval: \
             one that reaches below zero is within their noise. What fsynctop's process takes of all processors, measured \
             for {} s in the same load, is added to it. Two empty programs on the same hooks, and nothing at all, take \
             turns with fsynctop's programs: the first is what the hooks cost, whatever stands in them; the second must \
             come out at zero. The script is given the server's pid here, because no thread of MySQL has the name that it \
             asks for. With its data in memory a server does not wait for a disk, so that it syncs the most, and a disk's \
             moods are out of the way.",
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
