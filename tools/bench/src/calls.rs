//! The cost of a tracer for each system call: blocks with something attached, each between two blocks with nothing.

use anyhow::Result;
use fsynctop::snapshot::AttachMode;
use serde::Serialize;
use std::time::Duration;

use crate::context::Context;
use crate::floor::Floor;
use crate::load::{Call, Files, Load, Round};
use crate::others;
use crate::progress;
use crate::stats::{Estimate, median};
use crate::tracer::Tracer;

/// A load whose calls are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub call: Call,
    /// Else it is a neighbour: a process of another name.
    pub traced: bool,
    /// A thread on each, with a file of its own.
    pub cpus: usize,
}

impl Shape {
    pub fn name(&self) -> String {
        let who = if self.traced { "traced" } else { "neighbour" };
        let cpus = if self.cpus == 1 { "1 CPU".into() } else { format!("{} CPUs", self.cpus) };
        format!("{who}, {cpus}")
    }
}

/// The shapes of a call that this machine allows.
pub fn shapes(context: &Context, call: Call) -> Vec<Shape> {
    let cpus = if context.cpus > 1 { vec![1, 2] } else { vec![1] };
    let of = |traced| cpus.iter().map(move |&cpus| Shape { call, traced, cpus });
    of(true).chain(of(false)).collect()
}

/// What can be attached here.
pub fn tracers(context: &Context) -> Vec<Tracer> {
    let modes = modes();
    let mut tracers: Vec<_> =
        modes.into_iter().flat_map(|mode| [Tracer::Floor(mode), Tracer::Fsynctop(mode)]).collect();
    if !context.guest {
        tracers.extend([Tracer::Bpftrace, Tracer::Strace, Tracer::PerfTrace]);
    }
    tracers
}

/// The modes in which empty programs can be attached.
pub fn modes() -> Vec<AttachMode> {
    let mut modes = vec![AttachMode::Fentry, AttachMode::Tracepoint];
    modes.retain(|&mode| match Floor::attach(mode) {
        Ok(_) => true,
        Err(error) => {
            progress!("{} is not to be had here: {error:#}", mode.name());
            false
        }
    });
    modes
}

/// Nanoseconds for each call, in each block.
#[derive(Debug, Serialize)]
pub struct Column {
    pub nothing: Vec<f64>,
    /// By tracer, in their order: what is added to the mean of the blocks before and after.
    pub added: Vec<Vec<f64>>,
}

impl Column {
    pub fn added(&self, tracer: usize) -> Estimate {
        Estimate::of(&self.added[tracer])
    }
}

pub struct Measured {
    pub tracers: Vec<Tracer>,
    pub shapes: Vec<Shape>,
    /// By shape.
    pub columns: Vec<Column>,
    pub cycles: usize,
    pub rounds: usize,
    pub round: Duration,
}

impl Measured {
    /// The figures of one call.
    pub fn of(&self, call: Call) -> impl Iterator<Item = (&Shape, &Column)> {
        self.shapes.iter().zip(&self.columns).filter(move |(shape, _)| shape.call == call)
    }

    /// "12 blocks of 3 rounds of 50 ms".
    pub fn effort(&self) -> String {
        format!("{} blocks of {} rounds of {} ms each", self.cycles, self.rounds, self.round.as_millis())
    }
}

struct Loads<'a> {
    traced: Load,
    neighbour: Load,
    shapes: &'a [Shape],
    rounds: usize,
    round: Duration,
}

impl Loads<'_> {
    /// The median over the rounds, by shape, and how many syncs the traced process made.
    fn block(&mut self) -> Result<(Vec<f64>, u64)> {
        let mut times = vec![Vec::new(); self.shapes.len()];
        let mut syncs = 0;
        for _ in 0..self.rounds {
            for (times, shape) in times.iter_mut().zip(self.shapes) {
                let load = if shape.traced { &mut self.traced } else { &mut self.neighbour };
                let done = load.run(&Round {
                    call: shape.call,
                    threads: shape.cpus,
                    cpus: shape.cpus,
                    files: Files::Own,
                    duration: self.round,
                    rate: None,
                })?;
                times.push(done.ns_per_call);
                if shape.traced && shape.call != Call::Getppid {
                    syncs += done.calls;
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
        let running = tracer.start(context, self.traced.pid())?;
        let programs = others::programs();
        let (times, syncs) = self.block()?;
        let alone = others::programs() == programs;
        running.stop(syncs)?;
        Ok(alone.then_some(times))
    }
}

/// Nothing, one tracer, nothing, the next tracer, …, and so on for some cycles, each beginning with another tracer.
pub fn measure(context: &Context, shapes: Vec<Shape>) -> Result<Measured> {
    let tracers = tracers(context);
    let (cycles, rounds) = (context.or_quick(12, 4), 3);
    let round = Duration::from_millis(context.or_quick(50, 30));
    let mut loads = Loads {
        traced: Load::start("mysqld", context.files.path())?,
        neighbour: Load::start("backup", context.files.path())?,
        shapes: &shapes,
        rounds,
        round,
    };
    let empty = || Column { nothing: Vec::new(), added: vec![Vec::new(); tracers.len()] };
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
                column.added[i].push(with[s] - (before[s] + after[s]) / 2.0);
                column.nothing.push(after[s]);
            }
            before = after;
        }
    }
    drop(loads);
    Ok(Measured { tracers, shapes, columns, cycles, rounds, round })
}
