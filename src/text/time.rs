//! Moments in RFC 3339, in UTC. A clock that is wrong, or a recording, can have years for which that has no
//! words: those become the nearest that it has.

use std::time::{Duration, SystemTime};

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
