//! How many syncs a tracer says it saw: a tracer that saw fewer than were made was not attached, and its figures are none.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The syncs of a process, from `--output json`; a lost one is an error.
pub fn by_fsynctop(out: &str, pid: u32) -> Result<u64> {
    let mut total = 0;
    for line in out.lines() {
        let interval: Value = serde_json::from_str(line).with_context(|| format!("fsynctop said {line}"))?;
        let lost = interval["lost"].as_object().context("no `lost` in fsynctop's JSON")?;
        ensure!(lost.values().all(|lost| lost == 0), "fsynctop lost syncs: {}", interval["lost"]);
        let roles = interval["roles"].as_array().context("no `roles` in fsynctop's JSON")?;
        let counts = roles.iter().filter(|row| row["pid"] == pid).filter_map(|row| row["count"].as_u64());
        total += counts.sum::<u64>();
    }
    Ok(total)
}

/// The sum of `@syncs[FD]: COUNT`.
pub fn by_bpftrace(out: &str) -> u64 {
    let counts = out.lines().filter_map(|line| line.strip_prefix("@syncs[")?.split_once("]: "));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// From a table whose lines hold the call's name: the numbers in the column that is counted from 0.
pub fn in_table(text: &str, column: usize) -> u64 {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_syncs = rows.filter(|cells| cells.contains(&"fsync") || cells.contains(&"fdatasync"));
    of_syncs.filter_map(|cells| cells.get(column)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_tracer_prints_is_understood() {
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
                      ------ ----------- ----------- --------- --------- ----------------\n \
                      99.99    0.345678           3    123456           fsync\n  \
                      0.01    0.000012           1         9           futex\n";
        assert_eq!(in_table(strace, 3), 123_456);
        let perf =
            "   syscall            calls  errors  total\n   fdatasync           1934      0     1.0 \n";
        assert_eq!(in_table(perf, 1), 1_934);
        assert_eq!(by_bpftrace("Attaching 5 probes...\n\n@syncs[3]: 40\n@syncs[12]: 2\n"), 42);
    }

    #[test]
    fn other_processes_do_not_count_and_losses_are_errors() {
        let line = |lost: u32| {
            format!(
                r#"{{"lost":{{"files":{lost}}},"roles":[{{"pid":7,"count":3}},{{"pid":8,"count":5}},{{"pid":7,"count":4}}]}}"#
            )
        };
        assert_eq!(by_fsynctop(&format!("{}\n{}\n", line(0), line(0)), 7).unwrap(), 14);
        assert!(by_fsynctop(&line(1), 7).is_err());
    }
}
