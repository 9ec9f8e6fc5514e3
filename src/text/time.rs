//! Seconds as JSON, CSV and metrics have them, and moments in RFC 3339, in UTC. A clock that is wrong, or a
//! recording, can have years for which that has no words: those become the nearest that it has.

use std::time::{Duration, SystemTime};

/// Of nanoseconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// As [`seconds`]; `Duration::as_secs_f64` makes 1.3679999999999999 of 1.368.
pub(crate) fn length(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e9
}

/// To the microsecond, as measurements are dated.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(expressible(time)).to_string()
}

/// To the millisecond.
pub(crate) fn rfc3339_millis(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(expressible(time)).to_string()
}

fn expressible(time: SystemTime) -> SystemTime {
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    time.clamp(SystemTime::UNIX_EPOCH, last)
}
