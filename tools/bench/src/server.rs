//! What tracing costs a real server under load: transactions per second, with and without, in pairs.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;

use crate::context::Context;
use crate::cost::{CallCost, Cost};
use crate::counted;
use crate::database::{Database, Kind, Workload};
use crate::modes;
use crate::pairs::{Attachment, Loaded, Pairs};
use crate::proc;
use crate::progress;
use crate::section::Section;
use crate::throughput::{self, Series};
use crate::tracer::Tracer;

/// What fsynctop does once is no part of what its process takes: its first two snapshots, with the server's
/// description and the files' names.
const UNTIL_STEADY: Duration = Duration::from_millis(2_300);
pub const PROCESS_TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);

/// Each with its data on disk or in memory, and what is done with it.
const SERVERS: [(Kind, bool, &[Workload]); 4] = [
    (Kind::MariaDb, false, &[Workload::Insert, Workload::Sysbench]),
    (Kind::MySql, false, &[Workload::Insert, Workload::Sysbench]),
    (Kind::MariaDb, true, &[Workload::Insert]),
    (Kind::MySql, true, &[Workload::Insert]),
];

/// `out`: where the parts before have left what a call costs.
pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let mode = modes::own()?;
    let (own_blocks, control_blocks) = (context.or_quick(150, 20), context.or_quick(40, 5));
    let other_blocks = context.or_quick(5, 1);
    let mut loaded = Loaded::new(context, mode)?;
    let mut all = Vec::new();
    for &(kind, memory, workloads) in SERVERS.iter().take(context.or_quick(SERVERS.len(), 1)) {
        let data = memory.then(|| context.files.path());
        let mut database = Database::start(kind, data)?;
        for &workload in workloads.iter().take(context.or_quick(workloads.len(), 1)) {
            let programs = context.fsynctop.parent().context("fsynctop's directory")?;
            let mut load = database.load(workload, programs, context.files.path())?;
            sleep(WARM_UP);
            let place = if memory { ", data in memory" } else { "" };
            let server = format!("{} {}{place}", kind.name(), database.version);
            let with_others = workload == Workload::Insert && !memory;
            let own_time = own_time(context, mode, database.pid, &[])?;
            let all_writes_time = self::own_time(context, mode, database.pid, &["--writes", "all"])?;
            let cost = Cost::measure(own_time)?;
            let mut pairs = Pairs { context, database: &mut database, load: &mut load, loaded: &mut loaded };
            let mut measure = |attachments: &[Attachment], blocks| -> Result<()> {
                let names: Vec<_> = attachments.iter().map(|attachment| attachment.name(mode)).collect();
                progress!(
                    "{server} under {}: {blocks} blocks with each of: {}",
                    workload.name(),
                    names.join("; ")
                );
                for (attachment, pairs) in attachments.iter().zip(pairs.measure(attachments, blocks)?) {
                    let own_mode = (*attachment == Attachment::Programs).then_some(mode);
                    let process_time = match attachment {
                        Attachment::Programs => own_time,
                        Attachment::AllWrites => all_writes_time,
                        _ => 0.0,
                    };
                    all.push(Series {
                        server: server.clone(),
                        workload: workload.name(),
                        tracer: attachment.name(mode),
                        own_mode,
                        compared_with: attachment.compared_with(mode),
                        pairs,
                        cost: own_mode.map(|_| cost),
                        process_percent: 100.0 * process_time / context.cpus as f64,
                    });
                }
                Ok(())
            };
            measure(&[Attachment::Programs, Attachment::AllWrites, Attachment::Empty], own_blocks)?;
            measure(&[Attachment::Nothing], control_blocks)?;
            for tracer in [Tracer::Bpftrace, Tracer::Strace].into_iter().filter(|_| with_others) {
                measure(&[Attachment::Process(tracer)], other_blocks)?;
            }
        }
    }
    Ok(throughput::section(&all, CallCost::read(out, mode), context.cpus))
}

/// Which share of one processor fsynctop's process takes of a server under load, at its usual interval.
fn own_time(context: &Context, mode: AttachMode, server: u32, options: &[&str]) -> Result<f64> {
    let program = crate::tracer::fsynctop(context, mode, options)?;
    sleep(UNTIL_STEADY);
    let (before, began) = (proc::cpu_time(program.pid())?, Instant::now());
    sleep(PROCESS_TIME);
    let share = (proc::cpu_time(program.pid())? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let (out, err) = program.stop()?;
    ensure!(counted::by_fsynctop(&out, server).0 > 0, "fsynctop counted no sync of the server: {out}{err}");
    Ok(share)
}
