//! What the net below the watched calls adds to each fsync: it has a program at the filesystem's own fsync.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;

use crate::calls::{self, Column, Effort, Measured, Shape, Who};
use crate::context::Context;
use crate::load::Call;
use crate::modes;
use crate::section::Section;
use crate::tracer::Tracer;
use crate::writes::{table, values};

const CALLS: [(Call, &str); 2] = [(Call::Fsync, "fsync on tmpfs"), (Call::FsyncOnDisk, "fsync on ext4")];

pub fn section(context: &Context) -> Result<Section> {
    let disk = Ext4::mount(context.files.path())?;
    let tracers =
        modes::all().into_iter().flat_map(|mode| [Tracer::Empty(mode), Tracer::Fsynctop(mode)]).collect();
    let shapes = [Who::Server, Who::Neighbour]
        .into_iter()
        .flat_map(|who| CALLS.map(|(call, name)| calls::shape(context, call, who, 1, name)));
    let effort = Effort { cycles: context.or_quick(24, 4), rounds: 3, warm_up: None };
    let measured = calls::measure(context, Some(disk.path()), tracers, shapes.collect(), effort)?;
    Ok(of(&measured))
}

fn of(measured: &Measured) -> Section {
    let mut section = Section {
        title: "Added to each fsync by the net".into(),
        about: vec![format!(
            "tmpfs has no tracepoint at its own fsync, so the figures above are without the net that counts what comes there \
             outside of the watched calls. Here the same is measured on ext4 beside tmpfs: the fsync of a file that has \
             nothing to be written, on a loop device in memory, mounted without barriers so that no device is asked to flush. \
             The two empty programs are three on ext4: one more on the net's hook. {}.",
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

/// The difference between the two filesystems.
fn note(measured: &Measured, mode: AttachMode) -> Option<String> {
    let (own, empty) = (measured.at(Tracer::Fsynctop(mode))?, measured.at(Tracer::Empty(mode))?);
    let column = |who: Who, call: Call| -> Option<&Column> {
        let is_it = |shape: &Shape| shape.who == who && shape.round.call == call;
        Some(&measured.columns[measured.shapes.iter().position(is_it)?])
    };
    let by_net = |who: Who, tracer: usize| {
        let [disk, memory] = [Call::FsyncOnDisk, Call::Fsync].map(|call| column(who, call));
        Some(disk?.added(tracer).median - memory?.added(tracer).median)
    };
    Some(format!(
        "{}: on ext4, fsynctop adds {:.0} ns more to a traced fsync than on tmpfs, and {:.0} ns more to a neighbour\'s; an \
         empty program on the net\'s hook adds {:.0} ns and {:.0} ns.",
        mode.name(),
        by_net(Who::Server, own)?,
        by_net(Who::Neighbour, own)?,
        by_net(Who::Server, empty)?,
        by_net(Who::Neighbour, empty)?,
    ))
}

/// A filesystem on a loop device whose file is in memory. Unmounted when dropped.
struct Ext4(tempfile::TempDir);

impl Ext4 {
    /// `memory`: a directory on tmpfs.
    fn mount(memory: &Path) -> Result<Ext4> {
        let (image, place) = (memory.join("ext4"), tempfile::tempdir_in(memory)?);
        std::fs::File::create(&image)?.set_len(64 << 20)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop,nobarrier"]).arg(&image).arg(place.path()))?;
        Ok(Ext4(place))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg(self.path())); // what is left then is said by umount
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
