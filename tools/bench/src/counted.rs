//! How many syncs a tracer says it saw: a tracer that saw fewer than were made was not attached, and its
//! figures are none.

/// Columns of fsynctop's CSV: the process in front of its name, and from the end the syncs.
const PID: usize = 3;
const SYNCS_FROM_END: usize = 19;

/// From `--output csv`: the syncs of a process, and those that found no row, which may be anybody's.
pub fn by_fsynctop(out: &str, pid: u32) -> (u64, u64) {
    let (mut own, mut unattributed) = (0, 0);
    for line in out.lines() {
        let fields: Vec<_> = line.split(',').collect();
        let syncs =
            fields.len().checked_sub(SYNCS_FROM_END).and_then(|at| fields.get(at)?.parse::<u64>().ok());
        match (fields.get(PID).and_then(|field| field.parse::<u32>().ok()), syncs) {
            (Some(0), Some(syncs)) => unattributed += syncs,
            (Some(of), Some(syncs)) if of == pid => own += syncs,
            _ => {}
        }
    }
    (own, unattributed)
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
    fn fsynctops_own_table_is_understood() {
        let table = include_str!("../../../src/once/expected/role.csv");
        let (own, unattributed) = by_fsynctop(table, 31_960);
        let of_redo = 3_237;
        assert!(own > of_redo, "{own}");
        assert_eq!(unattributed, 0);
        assert_eq!(by_fsynctop(table, 1), (0, 0));
        let two = table.lines().nth(1).unwrap();
        let other = two.replace(",31960,", ",0,");
        assert_eq!(by_fsynctop(&format!("{two}\n{other}\n"), 31_960), (of_redo, of_redo));
    }
}
