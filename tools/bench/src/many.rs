//! What a tracer adds to each fsync of a process that is one of a server's many.

use anyhow::Result;
use fsynctop::model::AttachMode;

use crate::calls::{self, Column, Effort, Measured, Who};
use crate::context::Context;
use crate::load::Call;
use crate::modes;
use crate::section::Section;
use crate::tracer::Tracer;
use crate::writes::{table, values};

/// Each beside what it is compared with.
const SHAPES: [(Who, Call, &str); 4] = [
    (Who::Server, Call::Fsync, "fsync"),
    (Who::Member, Call::Fsync, "fsync"),
    (Who::Server, Call::FirstOfThread, "first fsync of a thread"),
    (Who::Member, Call::FirstOfProcess, "first fsync of a process"),
];

pub fn section(context: &Context) -> Result<Section> {
    let tracers = modes::all()
        .into_iter()
        .flat_map(|mode| [Tracer::Empty(mode), Tracer::Clock(mode), Tracer::Fsynctop(mode)])
        .collect();
    let shapes = SHAPES.map(|(who, call, name)| calls::shape(context, call, who, 1, name));
    let effort = Effort { cycles: context.or_quick(24, 4), rounds: 3, warm_up: None };
    Ok(of(&calls::measure(context, None, tracers, shapes.to_vec(), effort)?))
}

fn of(measured: &Measured) -> Section {
    let mut section = Section {
        title: "Added to each fsync of a server of many processes".into(),
        about: vec![format!(
            "The same for a process called `postgres`, whose server is found by the way up its parents and kept: once for \
             each process, so its first sync is measured apart, beside the first one of a thread of a server of one process. \
             A first sync is timed alone, two readings of the clock included, in a thread or a process that was made for it. \
             The new process is two steps below the first one of its server; PostgreSQL's are one. {}.",
            measured.effort()
        )],
        tables: vec![table(measured)],
        values: values(measured),
        ..Section::default()
    };
    for mode in [AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint] {
        section.notes.extend(note(measured, mode));
    }
    section
}

fn note(measured: &Measured, mode: AttachMode) -> Option<String> {
    let own = measured.at(Tracer::Fsynctop(mode))?;
    let column = |who: Who, call: Call| -> Option<&Column> {
        let (_, column) = measured.of(call).find(|(shape, _)| shape.who == who)?;
        Some(column)
    };
    let ratio = |member: Call, server: Call| {
        let (member, server) = (column(Who::Member, member)?, column(Who::Server, server)?);
        Some(member.ratio(own, server, own).show(2))
    };
    Some(format!(
        "{}: to a sync of one of many processes fsynctop adds {} times what it adds to one of a server of one process; to \
         the first sync of such a process, {} times what it adds to the first one of a thread.",
        mode.name(),
        ratio(Call::Fsync, Call::Fsync)?,
        ratio(Call::FirstOfProcess, Call::FirstOfThread)?,
    ))
}
