//! What is attached while a load runs: nothing, the floor, fsynctop, and what people use instead of it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fsynctop::host;
use fsynctop::model::AttachMode;
use rustix::process::{Pid, Signal, kill_process};

use crate::context::Context;
use crate::counted;
use crate::floor::{Does, Floor};

/// No tracer takes longer to attach, or to end.
const LONG: Duration = Duration::from_secs(60);
/// A process that sleeps where it waits for events at so many looks in a row has done all that comes before.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

pub const SCRIPT: &str = include_str!("../../../examples/sync-histogram.bt");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Two programs that do nothing: what the hooks cost.
    Empty(AttachMode),
    /// Two programs that read the clock: what any latency costs.
    Clock(AttachMode),
    /// Counts by descriptor in a hash and reads the clock; by tracepoint.
    Counts,
    Fsynctop(AttachMode),
    /// Every write is an operation.
    AllWrites(AttachMode),
    Bpftrace,
    Strace,
    PerfTrace,
    /// Counted in the kernel; only some builds of perf have it.
    PerfTraceBpf,
}

impl Tracer {
    pub fn name(self) -> String {
        match self {
            Tracer::Empty(mode) => format!("two empty programs, {}", mode.name()),
            Tracer::Clock(mode) => format!("two that read the clock, {}", mode.name()),
            Tracer::Counts => "two that read the clock, one of which counts by descriptor in a hash".into(),
            Tracer::Fsynctop(mode) => format!("fsynctop, {}", mode.name()),
            Tracer::AllWrites(mode) => format!("fsynctop --writes all, {}", mode.name()),
            Tracer::Bpftrace => "bpftrace, sync-histogram.bt".into(),
            Tracer::Strace => "strace -f -c".into(),
            Tracer::PerfTrace => "perf trace -s".into(),
            Tracer::PerfTraceBpf => "perf trace -s --bpf-summary".into(),
        }
    }

    /// Attached and counting when it returns. `pid`: the traced process, called "mysqld".
    pub fn start(self, context: &Context, pid: u32) -> Result<Running> {
        let kind = match self {
            Tracer::Empty(mode) => Kind::Floor(Floor::attach(mode, Does::Nothing)?),
            Tracer::Clock(mode) => Kind::Floor(Floor::attach(mode, Does::ReadClock)?),
            Tracer::Counts => Kind::Floor(Floor::attach(AttachMode::Tracepoint, Does::CountDescriptors)?),
            Tracer::Fsynctop(mode) => Kind::Program(fsynctop(context, mode, &[])?),
            Tracer::AllWrites(mode) => Kind::Program(fsynctop(context, mode, &["--writes", "all"])?),
            Tracer::Bpftrace => Kind::Program(bpftrace(&SCRIPT.replace("\n\n", "\n"))?),
            Tracer::Strace => {
                let mut command = Command::new("strace");
                command.args(["-f", "-c", "-p", &pid.to_string()]);
                Kind::Program(Program::start(command, &[libc::SYS_wait4])?)
            }
            Tracer::PerfTrace => {
                let mut command = Command::new("perf");
                command.args(["trace", "-s", "-p", &pid.to_string()]);
                Kind::Program(Program::start(command, &POLLS)?)
            }
            Tracer::PerfTraceBpf => {
                let mut command = Command::new("perf");
                command.args(["trace", "-s", "--bpf-summary", "-a"]);
                Kind::Program(Program::start(command, &POLLS)?)
            }
        };
        Ok(Running { tracer: self, pid, kind })
    }
}

/// Where programs wait for events.
#[cfg(target_arch = "x86_64")]
pub const POLLS: [i64; 4] = [libc::SYS_poll, libc::SYS_ppoll, libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
#[cfg(not(target_arch = "x86_64"))]
pub const POLLS: [i64; 2] = [libc::SYS_ppoll, libc::SYS_epoll_pwait];

/// fsynctop as it runs for long, at its usual interval.
pub fn fsynctop(context: &Context, mode: AttachMode, options: &[&str]) -> Result<Program> {
    let mut command = Command::new(&context.fsynctop);
    command.args(["once", "-i", "1", "--max-cpu", "off", "--output", "csv", "--attach", mode.name()]);
    command.args(options);
    Program::start(command, &POLLS)
}

/// Since Linux 6.16, and only if it was built with it.
pub fn perf_has_bpf_summary() -> bool {
    let help = Command::new("perf").args(["trace", "-h"]).stdin(Stdio::null()).output();
    help.is_ok_and(|help| {
        [help.stdout, help.stderr].iter().any(|text| String::from_utf8_lossy(text).contains("--bpf-summary"))
    })
}

fn end_of(text: &str) -> &str {
    text.char_indices().rev().nth(500).map_or(text, |(at, _)| &text[at..])
}

/// Runs a script; its text is given on the command line.
pub fn bpftrace(script: &str) -> Result<Program> {
    let mut command = Command::new("bpftrace");
    command.args(["-e", script]);
    Program::start(command, &POLLS)
}

enum Kind {
    Floor(#[expect(dead_code, reason = "detached when dropped")] Floor),
    Program(Program),
}

/// A tracer at work. Dropping it detaches it.
pub struct Running {
    tracer: Tracer,
    pid: u32,
    kind: Kind,
}

impl Running {
    /// The process, if it is one.
    pub fn into_program(self) -> Option<Program> {
        match self.kind {
            Kind::Program(program) => Some(program),
            Kind::Floor(_) => None,
        }
    }

    /// Detaches, and compares what was counted with what the traced process did. `also`: what another server,
    /// by its number, did meanwhile, which fsynctop alone can count.
    pub fn stop(self, syncs: u64, also: (u32, u64)) -> Result<()> {
        let Kind::Program(program) = self.kind else { return Ok(()) };
        let (out, err) = program.stop()?;
        let name = self.tracer.name();
        let (counted, right) = match self.tracer {
            Tracer::Empty(_) | Tracer::Clock(_) | Tracer::Counts => return Ok(()),
            Tracer::Fsynctop(_) | Tracer::AllWrites(_) => {
                // A kernel that preempts programs skips some, which is said in another place than this table.
                let least = |syncs: u64| if host::may_skip_programs() { syncs / 100 * 99 } else { syncs };
                let is_right = |pid: u32, syncs: u64| {
                    let (own, unattributed) = counted::by_fsynctop(&out, pid);
                    own <= syncs && own + unattributed >= least(syncs)
                };
                let (own, _) = counted::by_fsynctop(&out, self.pid);
                (own, is_right(self.pid, syncs) && is_right(also.0, also.1))
            }
            Tracer::Bpftrace => {
                // Others on this machine may have a process of the script's name, too.
                let counted = counted::by_bpftrace(&out);
                (counted, counted >= syncs)
            }
            Tracer::Strace => {
                let counted = counted::in_table(&err, 3);
                (counted, counted == syncs)
            }
            Tracer::PerfTrace | Tracer::PerfTraceBpf => {
                // Of what it loses it says so; that is its affair, not the measurement's.
                let counted = counted::in_table(&err, 1);
                (counted, syncs == 0 || counted > 0)
            }
        };
        ensure!(
            right,
            "{name} counted {counted} of {syncs} syncs; it said …{}",
            end_of(&format!("{out}{err}"))
        );
        Ok(())
    }
}

/// A program that traces until it is told to end, with what it prints.
pub struct Program {
    child: Child,
    out: File,
    err: File,
}

impl Program {
    /// Waits until it sleeps in one of these system calls. That it then really counts is shown by what it
    /// counted.
    pub fn start(mut command: Command, waits_in: &[i64]) -> Result<Program> {
        let name = Path::new(command.get_program()).display().to_string();
        let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {name}; `tools/dependencies bench` installs it"))?;
        let mut program = Program { child, out, err };
        let deadline = Instant::now() + LONG;
        let mut looks = 0;
        while looks < LOOKS {
            if let Some(status) = program.child.try_wait()? {
                bail!("{name} ended with {status}: {}", program.said()?.1);
            }
            ensure!(Instant::now() < deadline, "{name} is not ready after {LONG:?}: {}", program.said()?.1);
            looks = if sleeps_in(program.pid(), waits_in) { looks + 1 } else { 0 };
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(program)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ctrl-C, and what it printed on standard output and error.
    pub fn stop(mut self) -> Result<(String, String)> {
        self.interrupt();
        let deadline = Instant::now() + LONG;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "a tracer did not end after {LONG:?}: {}", self.said()?.1);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.said()
    }

    fn interrupt(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::INT); // it may have ended already
        }
    }

    /// What it has printed so far.
    pub fn said(&mut self) -> Result<(String, String)> {
        let read = |file: &mut File| -> Result<String> {
            let mut bytes = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok((read(&mut self.out)?, read(&mut self.err)?))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn sleeps_in(pid: u32, calls: &[i64]) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = text.split(' ').next().and_then(|number| number.trim().parse::<i64>().ok());
    number.is_some_and(|number| calls.contains(&number))
}
