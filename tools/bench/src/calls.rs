//! The cost of a tracer for each system call: blocks with something attached, each between two blocks with
//! nothing.

use anyhow::{Context as _, Result};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

use crate::context::Context;
use crate::load::{Call, Files, Load, Round};
use crate::modes;
use crate::others;
use crate::progress;
use crate::stats::{Estimate, lower_quartile, median};
use crate::tracer::{self, Tracer};

/// Long enough for the last new files to be named.
const AFTER_WARM_UP: Duration = Duration::from_millis(500);

/// Who makes the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A server, of one process.
    Server,
    /// One of the processes of a server, of which this program is the first: both execute the same file.
    Member,
    /// A process of another name, which is not traced.
    Neighbour,
}

impl Who {
    pub fn is_traced(self) -> bool {
        self != Who::Neighbour
    }

    fn shown(self) -> &'static str {
        match self {
            Who::Server => "traced",
            Who::Member => "traced, one of many processes",
            Who::Neighbour => "neighbour",
        }
    }

    /// What the process is called.
    fn command(self) -> &'static str {
        match self {
            Who::Server => "mysqld",
            Who::Member => "postgres",
            Who::Neighbour => "backup",
        }
    }
}

/// A load whose calls are timed.
#[derive(Clone, Debug)]
pub struct Shape {
    pub name: String,
    pub who: Who,
    pub round: Round,
}

/// The shapes of a call that this machine allows: a thread on each processor, with a file of its own.
pub fn shapes(context: &Context, call: Call) -> Vec<Shape> {
    let cpus = if context.cpus > 1 { vec![1, 2] } else { vec![1] };
    let of = |who: Who| {
        cpus.iter().map(move |&cpus| {
            let name = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
            shape(context, call, who, cpus, &name)
        })
    };
    of(Who::Server).chain(of(Who::Neighbour)).collect()
}

/// A call in a thread on each of some processors; `name` comes after who makes it.
pub fn shape(context: &Context, call: Call, who: Who, cpus: usize, name: &str) -> Shape {
    let duration = Duration::from_millis(context.or_quick(50, 30));
    let round = Round { call, threads: cpus, cpus, files: Files::Own, duration, rate: None };
    Shape { name: format!("{}, {name}", who.shown()), who, round }
}

/// What can be attached here.
pub fn tracers(context: &Context) -> Vec<Tracer> {
    let mut tracers: Vec<_> = modes::all()
        .into_iter()
        .flat_map(|mode| [Tracer::Empty(mode), Tracer::Clock(mode), Tracer::Fsynctop(mode)])
        .collect();
    tracers.push(Tracer::Bpftrace);
    if !context.guest {
        tracers.extend([Tracer::Strace, Tracer::PerfTrace]);
        tracers.extend(tracer::perf_has_bpf_summary().then_some(Tracer::PerfTraceBpf));
    }
    tracers
}

/// Nanoseconds for each call, in each block.
#[derive(Debug, Serialize)]
pub struct Column {
    pub nothing: Vec<f64>,
    /// By tracer, in their order.
    pub with: Vec<Vec<f64>>,
    /// The same less the mean of the blocks before and after.
    pub added: Vec<Vec<f64>>,
}

impl Column {
    /// What a tracer adds while the machine runs at its faster speed. A virtual one whose processors are
    /// shared runs at one speed for a second and at another for the next, a seventh apart, so that of two
    /// medians either may be at either speed; of two lower quartiles both are at the faster one.
    pub fn added(&self, tracer: usize) -> Estimate {
        Estimate::of_cycles(self.with[tracer].len(), |cycles| self.added_in(tracer, cycles))
    }

    /// How many times what another tracer adds, to this load or another.
    pub fn ratio(&self, tracer: usize, other: &Column, other_tracer: usize) -> Estimate {
        Estimate::of_cycles(self.with[tracer].len(), |cycles| {
            self.added_in(tracer, cycles) / other.added_in(other_tracer, cycles)
        })
    }

    fn added_in(&self, tracer: usize, cycles: &[usize]) -> f64 {
        let all = self.with.len();
        let with = cycles.iter().map(|&cycle| self.with[tracer][cycle]);
        let nothing = cycles.iter().flat_map(|&cycle| &self.nothing[cycle * all..(cycle + 1) * all]);
        lower_quartile(&mut with.collect::<Vec<_>>())
            - lower_quartile(&mut nothing.copied().collect::<Vec<_>>())
    }

    pub fn nothing(&self) -> f64 {
        lower_quartile(&mut self.nothing.clone())
    }
}

/// How often everything is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Blocks with each tracer.
    pub cycles: usize,
    /// In each block, of each shape.
    pub rounds: usize,
    /// What the traced process does once a tracer is attached, before anything counts.
    pub warm_up: Option<Round>,
}

pub struct Measured {
    pub tracers: Vec<Tracer>,
    pub shapes: Vec<Shape>,
    /// By shape.
    pub columns: Vec<Column>,
    pub effort: Effort,
}

impl Measured {
    /// The position of a tracer's figures in each column.
    pub fn at(&self, tracer: Tracer) -> Option<usize> {
        self.tracers.iter().position(|&other| other == tracer)
    }

    /// The figures of one call.
    pub fn of(&self, call: Call) -> impl Iterator<Item = (&Shape, &Column)> {
        self.shapes.iter().zip(&self.columns).filter(move |(shape, _)| shape.round.call == call)
    }

    /// "12 blocks of 3 rounds of 50 ms each".
    pub fn effort(&self) -> String {
        let Effort { cycles, rounds, .. } = self.effort;
        let milliseconds = self.shapes.first().map_or(0, |shape| shape.round.duration.as_millis());
        format!("{cycles} blocks of {rounds} rounds of {milliseconds} ms each")
    }
}

struct Loads<'a> {
    server: Load,
    /// Only where it is needed: it is in everybody's view of this host.
    member: Option<Load>,
    neighbour: Load,
    shapes: &'a [Shape],
    effort: Effort,
}

/// What was counted of those that are traced.
#[derive(Clone, Copy, Default)]
struct Syncs {
    server: u64,
    member: u64,
}

impl Loads<'_> {
    /// The median over the rounds, by shape, and how many syncs the traced processes made.
    fn block(&mut self) -> Result<(Vec<f64>, Syncs)> {
        let mut times = vec![Vec::new(); self.shapes.len()];
        let mut syncs = Syncs::default();
        for _ in 0..self.effort.rounds {
            for (times, shape) in times.iter_mut().zip(self.shapes) {
                let load = match shape.who {
                    Who::Server => &mut self.server,
                    Who::Member => self.member.as_mut().context("one of many processes")?,
                    Who::Neighbour => &mut self.neighbour,
                };
                let done = load.run(&shape.round)?;
                times.push(done.ns_per_call);
                let counted = if shape.round.call.counts() { done.calls } else { 0 };
                match shape.who {
                    Who::Server => syncs.server += counted,
                    Who::Member => syncs.member += counted,
                    Who::Neighbour => {}
                }
            }
        }
        Ok((times.iter_mut().map(|times| median(times)).collect(), syncs))
    }

    /// A block with nothing attached, while nobody else traces either.
    fn nothing(&mut self, context: &Context) -> Result<Vec<f64>> {
        loop {
            context.others.wait()?;
            let times = self.block()?.0;
            if context.others.are_gone() {
                return Ok(times);
            }
        }
    }

    /// A block with a tracer attached. None if others began or ended tracing meanwhile.
    fn traced_by(&mut self, context: &Context, tracer: Tracer) -> Result<Option<Vec<f64>>> {
        let running = tracer.start(context, self.server.pid())?;
        let mut warmed_up = 0;
        if let Some(round) = &self.effort.warm_up {
            warmed_up = self.server.run(round)?.calls;
            std::thread::sleep(AFTER_WARM_UP);
        }
        let programs = others::programs();
        let (times, syncs) = self.block()?;
        let alone = others::programs() == programs;
        running.stop(warmed_up + syncs.server, (std::process::id(), syncs.member))?;
        Ok(alone.then_some(times))
    }
}

/// Nothing, one tracer, nothing, the next tracer, …, and so on for some cycles, each beginning with another
/// tracer.
///
/// `disk`: where the calls are made that are to be made on a disk.
pub fn measure(
    context: &Context,
    disk: Option<&Path>,
    tracers: Vec<Tracer>,
    shapes: Vec<Shape>,
    effort: Effort,
) -> Result<Measured> {
    let start = |who: Who| Load::start_split(who.command(), context.files.path(), disk);
    let has_member = shapes.iter().any(|shape| shape.who == Who::Member);
    let mut loads = Loads {
        server: start(Who::Server)?,
        member: has_member.then(|| start(Who::Member)).transpose()?,
        neighbour: start(Who::Neighbour)?,
        shapes: &shapes,
        effort,
    };
    let cycles = effort.cycles;
    let none = || vec![Vec::new(); tracers.len()];
    let empty = || Column { nothing: Vec::new(), with: none(), added: none() };
    let mut columns: Vec<_> = shapes.iter().map(|_| empty()).collect();
    loads.block()?; // what is slow only once
    let mut before = loads.nothing(context)?;
    for cycle in 0..cycles {
        progress!("cycle {} of {cycles}", cycle + 1);
        for i in 0..tracers.len() {
            let i = (i + cycle) % tracers.len();
            let (with, after) = loop {
                let with = loads.traced_by(context, tracers[i])?;
                let after = loads.nothing(context)?;
                match with {
                    Some(with) => break (with, after),
                    None => before = after,
                }
            };
            for (s, column) in columns.iter_mut().enumerate() {
                column.with[i].push(with[s]);
                column.added[i].push(with[s] - (before[s] + after[s]) / 2.0);
                column.nothing.push(after[s]);
            }
            before = after;
        }
    }
    drop(loads);
    Ok(Measured { tracers, shapes, columns, effort })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that runs at two speeds, as it likes: each tracer's cost is that at the faster one, and
    /// their ratio holds.
    #[test]
    fn two_speeds_of_the_machine_do_not_mix() {
        let slow = [[true, true, false], [false, true, true], [true, false, true], [false, true, true]];
        let at = |cycle: usize, tracer: usize, ns: f64| ns * if slow[cycle][tracer] { 1.25 } else { 1.0 };
        let with = |tracer: usize, ns: f64| (0..4).map(|cycle| at(cycle, tracer, ns)).collect::<Vec<_>>();
        let nothing = (0..8).map(|block| if block % 2 == 0 { 100.0 } else { 125.0 }).collect();
        let column = Column { nothing, with: vec![with(0, 300.0), with(2, 400.0)], added: Vec::new() };
        assert_eq!((column.nothing(), column.added(0).median, column.added(1).median), (100.0, 200.0, 300.0));
        assert_eq!(column.ratio(1, &column, 0).median, 1.5);
    }
}
