//! The date of the pages: that of the sources, so that two builds of them are equal.

use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};

/// SOURCE_DATE_EPOCH, as packagers set it (reproducible-builds.org); else the last commit's date.
pub fn of_the_sources() -> anyhow::Result<String> {
    if let Ok(seconds) = std::env::var("SOURCE_DATE_EPOCH") {
        let seconds = seconds
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH is no number of seconds: {seconds}"))?;
        return day(seconds).with_context(|| format!("SOURCE_DATE_EPOCH is beyond all dates: {seconds}"));
    }
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "log", "-1", "--format=%ct"])
        .output()
        .context("cannot ask git for the date of the sources; set SOURCE_DATE_EPOCH")?;
    if !git.status.success() {
        let why = String::from_utf8_lossy(&git.stderr);
        bail!("git does not know the date of the sources: {}; set SOURCE_DATE_EPOCH", why.trim());
    }
    let seconds = String::from_utf8_lossy(&git.stdout).trim().parse().context("git gives no date")?;
    day(seconds).context("the last commit is beyond all dates")
}

fn day(seconds: u64) -> Option<String> {
    // humantime has no years of five digits.
    let time = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .filter(|_| seconds < 253_402_300_800)?;
    Some(humantime::format_rfc3339_seconds(time).to_string()[..10].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_a_day_in_utc() {
        assert_eq!(day(0).as_deref(), Some("1970-01-01"));
        assert_eq!(day(1_790_000_000).as_deref(), Some("2026-09-21"));
        assert_eq!(day(u64::MAX), None);
    }
}
