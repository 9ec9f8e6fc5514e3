//! What one sync costs on a filesystem: small writes made durable in the ways that databases do it, alone and by many
//! threads. [`work`] does it, [`scratch`] is the file that never stays behind, [`place`] decides whether this may be done
//! here; what is measured, and the result, are [`calibration`](crate::calibration)'s.

pub mod journal;
mod location;
pub mod place;
pub mod render;
pub mod scratch;
pub mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::calibration::plan::Case;
use crate::calibration::{CalibrateError, Calibration, Place};

/// What all files together take at most.
pub const MOST_BYTES: u64 = 64 << 20;
/// One write: a block of a redo log, or a small group of events of a binary log.
pub const BLOCK: usize = 4096;

/// Measures every case of a plan in a directory, saying before each how many are done. Ends early when `stop` is set;
/// what it made is gone when this returns, however it returns.
pub fn calibrate(
    place: Place,
    cases: &[Case],
    each: Duration,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize, &Case),
) -> Result<Calibration, CalibrateError> {
    scratch::remove_leftovers(&place.directory);
    let mut outcomes = Vec::new();
    for (done, case) in cases.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress(done, case);
        let outcome = work::run(&place, *case, each, stop)?;
        if stop.load(Ordering::Relaxed) {
            break; // a case that was cut short says little
        }
        outcomes.push(outcome);
    }
    Ok(Calibration {
        schema: 1,
        when: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        complete: outcomes.len() == cases.len(),
        place,
        kernel: crate::host::kernel_release().unwrap_or_else(|| "unknown".into()),
        block_bytes: BLOCK,
        seconds_each: each.as_secs_f64(),
        outcomes,
    })
}
