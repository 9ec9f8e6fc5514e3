//! A server's throughput with something attached, and right before or after it without.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;
use fsynctop::probe::Probe;
use serde::Serialize;

use crate::context::Context;
use crate::counted;
use crate::database::{Database, RunningLoad};
use crate::floor::{Does, Floor};
use crate::modes;
use crate::others::Ids;
use crate::stats::Estimate;
use crate::tracer::{SCRIPT, Tracer, bpftrace};

/// What attaching and detaching stir up is no part of a window.
const SETTLE: Duration = Duration::from_millis(20);
/// What else makes a server faster or slower takes longer than this, so that many short windows tell more
/// than fewer long ones. Programs that are loaded are attached in some milliseconds.
pub const SHORT: Duration = Duration::from_millis(100);
/// Other tracers take a second to begin, and stir up more.
pub const LONG: Duration = Duration::from_secs(1);
const SETTLE_LONG: Duration = Duration::from_millis(100);
/// A server does some things once a second. Blocks that begin at the same moment of it would all find them in
/// the same window, with or without.
const SPREAD: Duration = Duration::from_millis(200);
/// Blocks in a row without a single commit. A disk that is shared stands still for some tenths of a second
/// now and then.
const MOST_STALLED: u32 = 10;

/// With a tracer, and in the window before or after it, in transactions per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    pub without: f64,
    pub with: f64,
}

impl Pair {
    /// Of the throughput without, in percent, over all pairs; positive if tracing costs something. By the
    /// ratios' logarithms: of ratios that only scatter the mean is above one, by the square of their spread,
    /// so that nothing at all would come out as a gain. A server may stall for longer than a window: a ratio
    /// of nothing, or to nothing, is among the outermost tenths, which are left out, and of two such windows
    /// there is no ratio.
    pub fn loss(pairs: &[Pair]) -> Estimate {
        let committed = pairs.iter().filter(|pair| pair.without + pair.with > 0.0);
        let logarithms: Vec<_> = committed.map(|pair| (pair.without / pair.with).ln()).collect();
        Estimate::trimmed_mean(&logarithms).map(|log| (1.0 - (-log).exp()) * 100.0)
    }
}

/// What there is in the windows with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// fsynctop's programs; in the windows without them, two empty programs on the same hooks. Its process is
    /// measured apart.
    Programs,
    /// The same with all writes watched.
    AllWrites,
    /// Two empty programs; in the windows without them, nothing.
    Empty,
    /// As a control: it must come out at zero.
    Nothing,
    Process(Tracer),
}

impl Attachment {
    pub fn name(self, mode: AttachMode) -> String {
        match self {
            Attachment::Programs => Tracer::Fsynctop(mode).name(),
            Attachment::AllWrites => Tracer::AllWrites(mode).name(),
            Attachment::Empty => Tracer::Empty(mode).name(),
            Attachment::Nothing => "nothing, as a control".into(),
            Attachment::Process(tracer) => tracer.name(),
        }
    }

    /// What is attached in the windows that it is compared with.
    pub fn compared_with(self, mode: AttachMode) -> String {
        match self.is_own() {
            true => Tracer::Empty(mode).name(),
            false => "nothing".into(),
        }
    }

    fn is_own(self) -> bool {
        matches!(self, Attachment::Programs | Attachment::AllWrites)
    }
}

/// Loaded once and then attached and detached: loading takes processor time, and a server makes up for what
/// it was kept from, or does not, in the windows that follow.
pub struct Loaded {
    programs: Probe,
    all_writes: Probe,
    floor: Floor,
    ids: Ids,
}

impl Loaded {
    pub fn new(context: &Context, mode: AttachMode) -> Result<Loaded> {
        context.others.wait()?;
        let [programs, all_writes] =
            [modes::of_servers(mode), modes::all_writes_of_servers(mode)].map(|config| {
                let mut probe = Probe::attach(&config).context("fsynctop")?;
                probe.detach();
                anyhow::Ok(probe)
            });
        let mut floor = Floor::attach(mode, Does::Nothing)?;
        floor.detach();
        Ok(Loaded { programs: programs?, all_writes: all_writes?, floor, ids: context.others.new_ids() })
    }

    fn probe(&mut self, attachment: Attachment) -> &mut Probe {
        match attachment {
            Attachment::AllWrites => &mut self.all_writes,
            _ => &mut self.programs,
        }
    }

    /// How many calls these programs have counted.
    fn calls(&mut self, attachment: Attachment) -> Result<u64> {
        let probe = self.probe(attachment);
        while !probe.take_events()?.is_empty() {} // nobody else takes them
        let mut sum = 0;
        for slot in probe.slots_in_use() {
            sum += probe.row(slot)?.started;
        }
        Ok(sum)
    }
}

/// A load on a server, and what is attached beside it.
pub struct Pairs<'a> {
    pub context: &'a Context,
    pub database: &'a mut Database,
    pub load: &'a mut RunningLoad,
    pub loaded: &'a mut Loaded,
}

impl Pairs<'_> {
    /// In each block two windows with something attached are between two without it, so that a load that gets
    /// slower or faster favours neither. The attachments take turns.
    pub fn measure(&mut self, attachments: &[Attachment], blocks: usize) -> Result<Vec<Vec<Pair>>> {
        let mut pairs = vec![Vec::new(); attachments.len()];
        let (mut block, mut stalled) = (0, 0);
        while pairs.iter().any(|pairs| pairs.len() < 2 * blocks) {
            for (&attachment, pairs) in attachments.iter().zip(&mut pairs) {
                self.context.others.wait_beside(&self.loaded.ids)?;
                sleep(SPREAD.mul_f64(evenly_spread(block)));
                block += 1;
                let before = self.window_without(attachment)?;
                let [first, second] = self.windows_with(attachment)?;
                let after = self.window_without(attachment)?;
                self.load.check()?;
                stalled = if before + first + second + after > 0.0 { 0 } else { stalled + 1 };
                ensure!(stalled < MOST_STALLED, "the server does not commit anything any more");
                if self.context.others.are_gone_beside(&self.loaded.ids) {
                    pairs.extend([
                        Pair { without: before, with: first },
                        Pair { without: after, with: second },
                    ]);
                }
            }
        }
        Ok(pairs)
    }

    fn window_without(&mut self, attachment: Attachment) -> Result<f64> {
        if !attachment.is_own() {
            return self.window(attachment);
        }
        self.loaded.floor.attach_again()?;
        let rate = self.window(attachment)?;
        self.loaded.floor.detach();
        Ok(rate)
    }

    fn windows_with(&mut self, attachment: Attachment) -> Result<[f64; 2]> {
        match attachment {
            Attachment::Programs | Attachment::AllWrites => {
                let before = self.loaded.calls(attachment)?;
                self.loaded.probe(attachment).reattach()?;
                let rates = self.two_windows(attachment)?;
                self.loaded.probe(attachment).detach();
                ensure!(self.loaded.calls(attachment)? > before, "fsynctop counted no sync of the server");
                Ok(rates)
            }
            Attachment::Empty => {
                self.loaded.floor.attach_again()?;
                let rates = self.two_windows(attachment)?;
                self.loaded.floor.detach();
                Ok(rates)
            }
            Attachment::Nothing => {
                // What attaching stirs up is in this, too.
                self.loaded.floor.attach_again()?;
                self.loaded.floor.detach();
                self.two_windows(attachment)
            }
            Attachment::Process(tracer) => self.windows_with_process(tracer),
        }
    }

    fn two_windows(&mut self, attachment: Attachment) -> Result<[f64; 2]> {
        Ok([self.window(attachment)?, self.window(attachment)?])
    }

    /// Transactions per second.
    fn window(&mut self, attachment: Attachment) -> Result<f64> {
        let (settle, length) = match attachment {
            Attachment::Process(_) => (SETTLE_LONG, LONG),
            _ => (SETTLE, SHORT),
        };
        sleep(settle);
        let (before, began) = self.database.transactions(self.load)?;
        sleep(length);
        let (after, ended) = self.database.transactions(self.load)?;
        Ok((after - before) as f64 / (ended - began).as_secs_f64())
    }

    fn windows_with_process(&mut self, tracer: Tracer) -> Result<[f64; 2]> {
        let pid = self.database.pid;
        let program = match tracer {
            // No thread of MySQL has the name that the script asks for.
            Tracer::Bpftrace => bpftrace(&SCRIPT.replace("comm == \"mysqld\"", &format!("pid == {pid}")))?,
            _ => tracer.start(self.context, pid)?.into_program().context("a program")?,
        };
        let rates = self.two_windows(Attachment::Process(tracer))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_only_scatter_lose_nothing() {
        let rates = [80.0, 100.0, 125.0];
        let pairs = rates.map(|without| rates.map(|with| Pair { without, with })).concat();
        let loss = Pair::loss(&pairs);
        assert!(loss.median.abs() < 1e-9 && loss.low < -1.0 && loss.high > 1.0, "{loss:?}");
    }

    #[test]
    fn a_window_in_which_the_server_stalls_does_not_decide() {
        let mut pairs = vec![Pair { without: 100.0, with: 90.0 }; 37];
        let stalls = [(100.0, 0.0), (0.0, 90.0), (0.0, 0.0)];
        pairs.extend(stalls.map(|(without, with)| Pair { without, with }));
        let loss = Pair::loss(&pairs);
        assert!((loss.median - 10.0).abs() < 1e-9, "{loss:?}");
    }

    #[test]
    fn a_tenth_less_is_ten_percent() {
        let loss = Pair::loss(&[Pair { without: 100.0, with: 90.0 }, Pair { without: 50.0, with: 45.0 }]);
        assert!((loss.median - 10.0).abs() < 1e-9 && (loss.high - 10.0).abs() < 1e-9, "{loss:?}");
    }
}
