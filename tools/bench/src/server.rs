//! What tracing costs a real server under load: transactions per second, with and without, in pairs.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::snapshot::AttachMode;

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

/// What fsynctop does once is no part of what its process takes: its first two snapshots, with the server's description
/// and the files' names.
const UNTIL_STEADY: Duration = Duration::from_millis(2_300);
pub const PROCESS_TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);

/// What is measured: on a host what its users would run, in a guest what only its kernel can tell.
struct Plan {
    modes: Vec<AttachMode>,
    /// Servers, whether their data is in memory, and their loads.
    servers: Vec<(Kind, bool, &'static [Workload])>,
    blocks: usize,
    /// Beside the first load, where the data is where the plan begins.
    others: &'static [Tracer],
    blocks_of_others: usize,
    process_time: Duration,
}

impl Plan {
    fn of_host(context: &Context) -> Result<Plan> {
        let both = &[Workload::Insert, Workload::Sysbench];
        Ok(Plan {
            modes: vec![modes::own()?],
            servers: vec![
                (Kind::MariaDb, false, both),
                (Kind::MySql, false, both),
                (Kind::MariaDb, true, &[Workload::Insert]),
                (Kind::MySql, true, &[Workload::Insert]),
            ],
            blocks: context.or_quick(150, 20),
            others: &[Tracer::Bpftrace, Tracer::Strace],
            blocks_of_others: context.or_quick(5, 1),
            process_time: PROCESS_TIME,
        })
    }

    /// Instructions are counted there, so that a few windows tell as much as hundreds do elsewhere.
    fn of_guest(context: &Context) -> Plan {
        Plan {
            modes: modes::all(),
            servers: vec![(Kind::MariaDb, true, &[Workload::Insert])],
            blocks: context.or_quick(6, 2),
            others: &[], // bpftrace takes minutes to begin
            blocks_of_others: 0,
            process_time: PROCESS_TIME / 4,
        }
    }
}

/// `out`: where the parts before have left what a call costs.
pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let plan = if context.guest { Plan::of_guest(context) } else { Plan::of_host(context)? };
    let mut loaded = Loaded::new(context, &plan.modes)?;
    let mut all = Vec::new();
    let first_in_memory = plan.servers[0].1;
    for &(kind, memory, workloads) in &plan.servers {
        let data = memory.then(|| context.files.path());
        let mut database = Database::start(kind, data)?;
        for &workload in workloads {
            let programs = context.fsynctop.parent().context("fsynctop's directory")?;
            let mut load = database.load(workload, programs, context.files.path())?;
            sleep(WARM_UP);
            let place = if memory { ", data in memory" } else { "" };
            let server = format!("{} {}{place}", kind.name(), database.version);
            let own_time = own_time(context, plan.modes[0], database.pid, plan.process_time)?;
            // A guest has no perf.
            let cost = if context.guest { None } else { Some(Cost::measure(own_time)?) };
            let mut pairs = Pairs { context, database: &mut database, load: &mut load, loaded: &mut loaded };
            let mut measure = |attachments: &[Attachment], blocks: usize| -> Result<()> {
                let names: Vec<_> = attachments.iter().map(|attachment| attachment.name()).collect();
                progress!(
                    "{server} under {}: {blocks} blocks with each of: {}",
                    workload.name(),
                    names.join("; ")
                );
                for (attachment, pairs) in attachments.iter().zip(pairs.measure(attachments, blocks)?) {
                    let own_mode = match attachment {
                        Attachment::Programs(mode) => Some(*mode),
                        _ => None,
                    };
                    let process_percent = own_mode.map_or(0.0, |_| 100.0 * own_time / context.cpus as f64);
                    all.push(Series {
                        server: server.clone(),
                        workload: workload.name(),
                        tracer: attachment.name(),
                        own_mode,
                        pairs,
                        cost: own_mode.and(cost),
                        process_percent,
                    });
                }
                Ok(())
            };
            let mut own = vec![Attachment::Nothing(plan.modes[0])];
            own.extend(
                plan.modes.iter().flat_map(|&mode| [Attachment::Empty(mode), Attachment::Programs(mode)]),
            );
            measure(&own, plan.blocks)?;
            if workload == Workload::Insert && memory == first_in_memory {
                for &tracer in plan.others {
                    measure(&[Attachment::Process(tracer)], plan.blocks_of_others)?;
                }
            }
        }
    }
    if context.guest {
        return Ok(throughput::of_guest(&all));
    }
    Ok(throughput::of_host(&all, CallCost::read(out, plan.modes[0]), context.cpus))
}

/// Which share of one processor fsynctop's process takes of a server under load, at its usual interval.
fn own_time(context: &Context, mode: AttachMode, server: u32, time: Duration) -> Result<f64> {
    let program = crate::tracer::fsynctop(context, mode)?;
    sleep(UNTIL_STEADY);
    let (before, began) = (proc::cpu_time(program.pid())?, Instant::now());
    sleep(time);
    let share = (proc::cpu_time(program.pid())? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let (out, err) = program.stop()?;
    ensure!(counted::by_fsynctop(&out, server).0 > 0, "fsynctop counted no sync of the server: {out}{err}");
    Ok(share)
}
