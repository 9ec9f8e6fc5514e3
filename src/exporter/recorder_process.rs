//! The process that records: it has the folder of the recording, a lane to the prober, and nothing else. What
//! it hangs in, its disk, holds up nobody but itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::confine::{User, landlock, seccomp};
use super::link::{Assignment, Lane, LinkError, Recorded, take_over_recorder};
use super::{log, privileges};
use crate::recording::folder::Folder;
use crate::recording::unpack_intervals;
use crate::recording::writer::Writer;
use crate::text::{causes, shorten_middle};

/// The recorder of an exporter that has just ended may be writing them for so long: that is no failure yet.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Bytes of an error that are told: a question is not longer than this by much.
const MAX_ERROR: usize = 500;

/// Records until the prober ends, or says that it does.
pub fn run() -> anyhow::Result<()> {
    // The executable's name would be "exe".
    rustix::thread::set_name(c"fsynctop-record").context("cannot name the process")?;
    // The terminal and systemd signal all processes; the prober decides.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default()).context("cannot handle signals")?;
    }
    let lane = take_over_recorder().context("the prober has sent nothing that can be used")?;
    let assignment = lane.assignment().context("the prober does not say what to record")?;
    let mut recorded = Recorded::default();
    let (mut writer, confined) = match begin(&lane, &assignment, &mut recorded) {
        Ok(begun) => begun,
        Err(error) => {
            // The prober says it.
            recorded.error = Some(shorten_middle(&causes(error.chain()), MAX_ERROR, "…"));
            recorded.gave_up = true;
            let _ = lane.intervals(recorded);
            return Ok(());
        }
    };
    recorded.error = None;
    recorded.confined = confined;
    recorded.device = writer.device();
    loop {
        recorded.written = writer.written();
        let next = match lane.intervals(recorded.clone()) {
            Ok(next) => next,
            Err(LinkError::Ended) => {
                writer.finish()?;
                bail!("the process that traces has ended, so the one that records ends too");
            }
            Err(error) if lane.is_broken() => {
                writer.finish()?;
                bail!("{error}, so the process that records ends");
            }
            Err(error) => {
                log::warning(&error);
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
        };
        for interval in unpack_intervals(next.intervals) {
            match writer.push(&interval) {
                Ok(()) => {
                    recorded.error = None;
                    let since_1970 = interval.span.end.duration_since(SystemTime::UNIX_EPOCH);
                    recorded.last_ns = since_1970.ok().and_then(|since| since.as_nanos().try_into().ok());
                }
                Err(error) => recorded.error = Some(shorten_middle(&error.to_string(), MAX_ERROR, "…")),
            }
        }
        recorded.taken = next.number;
        if next.ends {
            return Ok(writer.finish()?);
        }
    }
}

/// Opens the folder, gives up everything else, and goes on with what is recorded there.
fn begin(lane: &Lane, assignment: &Assignment, recorded: &mut Recorded) -> anyhow::Result<(Writer, String)> {
    let path = Path::new(OsStr::from_bytes(&assignment.folder));
    let (uid, gid) = assignment.user;
    let user = User { uid, gid };
    let mut folder = Folder::create_for(path, uid, gid)?;
    privileges::keep_none(Some(user))?;
    let own = geteuid();
    if own.is_root() {
        bail!("the process that records must not be root's");
    }
    // Other processes of the same user can neither read its memory nor trace it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid tracing")?;
    folder.may_be_written().with_context(|| {
        let own = own.as_raw();
        format!("user {own} records, and may not write to it: `chown {own}` it, or take another folder")
    })?;
    wait_for(&mut folder, lane, recorded)?;
    let rights = privileges::in_words();
    let landlock = landlock::allow_folder(&folder).context("cannot set up Landlock")?;
    seccomp::apply(seccomp::Process::Recorder).context("cannot filter system calls")?;
    let confined =
        format!("user {}, rights: {rights}, Landlock: {landlock}, system calls filtered", own.as_raw());
    Ok((Writer::begin(folder, assignment.limit)?, confined))
}

/// For as long as another process has it: one of an exporter that has ended may hang with its disk.
fn wait_for(folder: &mut Folder, lane: &Lane, recorded: &mut Recorded) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match folder.lock() {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                if begun.elapsed() > LAST_WORDS {
                    recorded.error = Some(error.to_string());
                }
                // It takes a second where nothing is to be done.
                if lane.intervals(recorded.clone())?.ends {
                    return Err(error.into());
                }
            }
            locked => return Ok(locked?),
        }
    }
}
