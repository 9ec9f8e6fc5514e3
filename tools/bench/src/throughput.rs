//! A server's throughput with and without tracing, as tables and goals.

use fsynctop::model::AttachMode;
use serde::Serialize;

use crate::cost::{CallCost, Cost};
use crate::pairs::{LONG, Pair, SHORT};
use crate::section::{Goal, Section, Table, Verdict};
use crate::server::PROCESS_TIME;
use crate::stats::Estimate;

/// Of throughput, beyond what two empty programs on the same hooks take.
const MOST_PERCENT: f64 = 1.0;
/// An interval wider than this does not say whether the goal is met.
const WIDEST_PERCENT: f64 = 2.0;

#[derive(Serialize)]
pub struct Series {
    pub server: String,
    pub workload: &'static str,
    pub tracer: String,
    /// Of fsynctop.
    pub own_mode: Option<AttachMode>,
    pub compared_with: String,
    pub pairs: Vec<Pair>,
    /// Of fsynctop.
    pub cost: Option<Cost>,
    /// What its process takes of all processors, beside its programs.
    pub process_percent: f64,
}

impl Series {
    fn loss(&self) -> Estimate {
        Pair::loss(&self.pairs).map(|loss| loss + self.process_percent)
    }

    fn without(&self) -> Estimate {
        Estimate::of(&self.pairs.iter().map(|pair| pair.without).collect::<Vec<_>>())
    }
}

pub fn section(all: &[Series], call_cost: Option<CallCost>, cpus: usize) -> Section {
    let mut section = Section {
        title: "A real server's throughput".into(),
        about: vec![format!(
            "Transactions per second of throw-away servers on this machine's disk, 16 connections, the binary log on and \
             synced at each commit. insert-load counts what it has committed itself; sysbench's is what the server says, \
             which under load takes its time to answer. The load runs on through blocks of four windows; what is measured \
             is attached in the second and third, and what it is compared with in the first and fourth. Programs, which \
             are loaded before, have windows of {} s; other tracers, which take a second to begin, have windows of {} s. \
             Each half of a block is a pair. The loss is the mean over the pairs (of the ratios' logarithms, without the \
             outermost tenths, which hold the windows without a single commit), with its 95 % interval. fsynctop's \
             programs are compared with two empty programs on the same hooks, and these with nothing: so what fsynctop \
             adds is apart from what the hooks cost whoever uses them. What fsynctop's process takes of all processors, \
             measured for {} s under the same load, is part of its loss. Nothing compared with nothing is a control, \
             which must come out at zero. The script is given the server's pid here, because no thread of MySQL has the \
             name that it asks for. With its data in memory a server does not wait for a disk: it syncs the most, and \
             the disk's own variation is out of the way.",
            SHORT.as_secs_f64(),
            LONG.as_secs(),
            PROCESS_TIME.as_secs(),
        )],
        values: serde_json::json!(all),
        ..Section::default()
    };
    section.tables.push(losses(all));
    for series in all.iter().filter(|series| series.own_mode.is_some()) {
        let beyond = series.loss();
        section.goals.push(Goal::new(
            format!(
                "{}, {}: throughput lost beyond what two empty programs lose",
                series.server, series.workload
            ),
            "1 %",
            format!("{} %", beyond.show(1)),
            verdict(beyond),
        ));
    }
    section.tables.push(costs(all, call_cost, cpus));
    if all.iter().any(|series| series.own_mode == Some(AttachMode::Tracepoint)) {
        section.notes.push(
            "What two empty programs lose is the cost of the hooks: as long as any syscall tracepoint is in use, each of \
             a server's system calls is slower (the part above), and for each sync a server makes dozens of others. \
             fentry, which this kernel does not have, costs only the calls that are watched: the last table of this \
             page's part about other kernels says how much less that is."
                .into(),
        );
    }
    section.notes.push(
        "The second table does not depend on how fast a server happens to be: it counts what tracing does, and multiplies \
         by what each costs according to the two parts above. It does not include what an attached tracer costs beside \
         that in the processors' caches."
            .into(),
    );
    section
}

fn verdict(beyond: Estimate) -> Verdict {
    if beyond.high - beyond.low > WIDEST_PERCENT {
        return Verdict::Unresolved;
    }
    Verdict::of(beyond.median <= MOST_PERCENT)
}

fn losses(all: &[Series]) -> Table {
    let header =
        ["server", "load", "attached", "compared with", "pairs", "transactions/s without", "lost with it, %"];
    let mut table = Table::new("", &header);
    for series in all {
        let Series { server, workload, tracer, compared_with, pairs, .. } = series;
        table.row([
            server.clone(),
            (*workload).to_owned(),
            tracer.clone(),
            compared_with.clone(),
            pairs.len().to_string(),
            format!("{:.0}", series.without().median),
            series.loss().show(1),
        ]);
    }
    table
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
