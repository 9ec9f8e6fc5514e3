//! The cost of one sync on a filesystem: small writes made durable in the ways that databases do it, by one
//! thread and by many. [`work`] runs the cases, [`scratch`] is the temporary file that is always removed,
//! [`place`] checks whether the directory may be used; plan and result are in
//! [`crate::sync_cost`].

pub mod journal;
pub(crate) mod judge;
mod location;
pub mod place;
pub mod render;
pub(crate) mod scratch;
pub mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::sync_cost::plan::Case;
use crate::sync_cost::{CalibrateError, Calibration, Place};

/// Runs every case of a plan in a directory; `progress` gets the number of finished cases before each. Ends
/// early if `stop` is set. All files are removed on return, also after an error.
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
            break; // an interrupted case has no meaningful figures
        }
        outcomes.push(outcome);
    }
    Ok(Calibration {
        schema: 1,
        when: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        complete: outcomes.len() == cases.len(),
        place,
        kernel: crate::host::kernel_release().unwrap_or_else(|| "unknown".into()),
        block_bytes: work::BLOCK,
        seconds_each: each.as_secs_f64(),
        outcomes,
    })
}
