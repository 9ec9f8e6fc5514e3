//! Which of the loaded programs go to which hooks, and bringing them there.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut, TracepointCategory};

use super::choice;
use super::flags;
use super::program_info;
use super::skeleton::SyncSkel;
use crate::model::Op;
use libbpf_rs::skel::Skel;

/// A program that is attached.
pub struct AttachedProgram {
    pub name: String,
    /// Whose calls it watches: one operation, or several that it serves alike.
    pub ops: Vec<Op>,
    pub is_exit: bool,
    pub fd: OwnedFd,
    /// Instructions after the verifier.
    pub instructions: usize,
}

/// What is to be watched, and by programs of which names.
pub(super) struct Hooks {
    pub ops: Vec<Op>,
    pub prefixes: [&'static str; 2],
}

impl Hooks {
    /// Attaches every program that was loaded for a hook. An error comes with the program's name.
    pub fn attach(&self, skel: &mut SyncSkel) -> Result<Vec<Link>, (String, libbpf_rs::Error)> {
        let mut links = Vec::new();
        // Nothing is begun before everything is watched: else a thread that is seen at the first operation's entry would
        // seem to have skipped that of the second, where there is none yet.
        flags::set_stopped(skel, true);
        // Exits first: a call that is under way then ends without an entry, which is known, instead of leaving a start
        // behind that a later exit would take for its own.
        for exits in [true, false] {
            for mut program in skel.object_mut().progs_mut().filter(belongs_to_a_hook) {
                let name = name_of(&program);
                if is_exit(&name) == exits {
                    self.attach_program(&mut program, &mut links).map_err(|error| (name, error))?;
                }
            }
        }
        flags::set_stopped(skel, false);
        Ok(links)
    }

    fn attach_program(&self, program: &mut ProgramMut, links: &mut Vec<Link>) -> libbpf_rs::Result<()> {
        let watched = self.watched_by(program);
        if watched.len() < 2 {
            links.push(program.attach()?);
            return Ok(());
        }
        // One tracepoint for each; libbpf by itself attaches a program once.
        for op in watched.iter().filter(|op| self.ops.contains(op)) {
            let tracepoint = format!("sys_enter_{}", op.name());
            links.push(program.attach_tracepoint(TracepointCategory::Syscalls, tracepoint)?);
        }
        Ok(())
    }

    /// The programs that watch calls, as they were loaded.
    pub fn programs(&self, skel: &mut SyncSkel) -> std::io::Result<Vec<AttachedProgram>> {
        let mut programs = Vec::new();
        for program in skel.object_mut().progs_mut().filter(belongs_to_a_hook) {
            let (name, ops) = (name_of(&program), self.watched_by(&program));
            if ops.is_empty() {
                continue; // it follows processes
            }
            let fd = program.as_fd().try_clone_to_owned()?;
            let instructions = program_info::read(fd.as_fd()).instructions;
            programs.push(AttachedProgram { instructions, is_exit: is_exit(&name), name, ops, fd });
        }
        Ok(programs)
    }

    fn watched_by(&self, program: &ProgramMut) -> Vec<Op> {
        choice::ops_of(&name_of(program), &self.prefixes).collect()
    }
}

fn name_of(program: &ProgramMut) -> String {
    program.name().to_string_lossy().into_owned()
}

fn is_exit(name: &str) -> bool {
    ["exit_", "fexit_", "kretprobe_"].iter().any(|prefix| name.starts_with(prefix))
}

/// The other programs run when they are wanted: one by its iterator, one by a call.
fn belongs_to_a_hook(program: &ProgramMut) -> bool {
    let name = program.name();
    program.autoload() && ["list_in_flight", "hand_out", "find_running"].iter().all(|other| name != *other)
}
