//! The table, which reads like pg_test_fsync's: one line for each way, operations per second and the time of
//! each.

use std::fmt::Write;

use crate::sync_cost::plan::{Case, Pattern};
use crate::sync_cost::{Calibration, Figures, Outcome, Place};
use crate::text::{absence, capitalize, count, duration, escape, escape_sentence};

/// The table; JSON is the type's own.
pub fn table(calibration: &Calibration) -> String {
    let place = &calibration.place;
    let mut text = String::new();
    // String's formatter cannot fail.
    let _ = writeln!(
        text,
        "{}: {} on {}, Linux {}, {} kB per write, {} s each",
        escape(place.directory.as_os_str().as_encoded_bytes()),
        place.filesystem,
        escape(place.device.as_bytes()),
        escape(calibration.kernel.as_bytes()),
        calibration.block_bytes / 1024,
        calibration.seconds_each,
    );
    for pattern in Pattern::ALL {
        let like = match pattern {
            Pattern::Overwritten => "One thread, blocks overwritten, like a redo log:",
            Pattern::Appended => "One thread, blocks appended, like a binary log:",
        };
        section(&mut text, calibration, like, "", |case| {
            (case.threads == 1 && case.pattern == pattern).then(|| case.method.name().to_owned())
        });
    }
    for (file_each, heading) in [(false, "on one file"), (true, "on one file each")] {
        let heading = format!("{heading}, blocks appended, fdatasync:");
        section(&mut text, calibration, "By threads ", &heading, |case| {
            (case.threads > 1 && case.file_each == file_each).then(|| format!("{} threads", case.threads))
        });
    }
    if let Some(why) = not_durable(place) {
        let _ = writeln!(text, "\n{why} The figures say nothing of a disk.");
    }
    if !calibration.complete {
        text.push_str("\nInterrupted: what is missing was not measured.\n");
    }
    text
}

/// Why the figures mean nothing, or may.
pub(super) fn not_durable(place: &Place) -> Option<String> {
    let storage = place.storage.as_ref()?;
    let said = absence::durable_on(storage, " there", &escape_sentence(storage.because()?))?;
    Some(format!("{}.", capitalize(&said)))
}

fn section(
    text: &mut String,
    calibration: &Calibration,
    heading: &str,
    rest: &str,
    name: impl Fn(&Case) -> Option<String>,
) {
    let rows: Vec<(String, &Outcome)> =
        calibration.outcomes.iter().filter_map(|outcome| Some((name(&outcome.case)?, outcome))).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{heading}{rest}\n  {:<22} {:>11} {:>12} {:>9} {:>9} {:>9} {:>11}",
        "", "ops/sec", "usecs/op", "p50", "p99", "max", "per commit"
    );
    for (name, outcome) in rows {
        let line = match (&outcome.figures, &outcome.refused) {
            (Some(figures), _) => figures_of(figures),
            (None, Some(why)) => why.clone(),
            (None, None) => "nothing was measured".to_owned(),
        };
        let _ = writeln!(text, "  {name:<22} {line}");
    }
}

fn figures_of(figures: &Figures) -> String {
    let latency = |seconds: f64| duration((seconds * 1e9).round() as u64);
    let per_commit = figures.syncs_per_commit().map_or("–".to_owned(), |syncs| format!("{syncs:.1}"));
    format!(
        "{:>11} {:>12} {:>9} {:>9} {:>9} {per_commit:>11}",
        count(figures.syncs_per_second.round() as u64),
        count((figures.mean_seconds * 1e6).round() as u64),
        latency(figures.p50_seconds),
        latency(figures.p99_seconds),
        latency(figures.max_seconds),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::assert_expected;
    use crate::sync_cost::plan::{Method, cases};

    fn calibration() -> Calibration {
        let outcome = |(number, case): (usize, Case)| {
            let refused =
                (case.method == Method::ODirect).then(|| "O_DIRECT + fdatasync is not supported here".into());
            let n = number as f64 + 1.0;
            let figures = Figures {
                syncs: 1_000,
                syncs_per_second: 1_234.5 * n,
                mean_seconds: 0.000_81 / n,
                p50_seconds: 0.000_7 / n,
                p99_seconds: 0.003,
                max_seconds: 0.012,
                journal_commits: (case.pattern == Pattern::Appended)
                    .then_some(1_000 / u64::from(case.threads)),
            };
            Outcome { case, figures: refused.is_none().then_some(figures), refused }
        };
        Calibration {
            schema: 1,
            when: "2026-01-01T00:00:00Z".into(),
            place: Place {
                directory: "/srv/a\nb".into(),
                filesystem: "ext4".into(),
                device: "/dev/vda1".into(),
                kernel_device: Some("vda1".into()),
                mount_options: "rw".into(),
                filesystem_id: 1,
                storage: Some(crate::model::Durability::Yes),
            },
            kernel: "6.12.0-1-amd64".into(),
            block_bytes: 4096,
            seconds_each: 1.0,
            outcomes: cases(4).into_iter().enumerate().map(outcome).collect(),
            complete: true,
        }
    }

    #[test]
    fn the_table_looks_like_this() {
        assert_expected("src/calibrate/expected/table.txt", &table(&calibration()));
        let cut = Calibration { complete: false, ..calibration() };
        assert!(table(&cut).ends_with("Interrupted: what is missing was not measured.\n"));
    }

    #[test]
    fn the_object_has_every_figure_and_can_be_read_again() {
        let calibration = calibration();
        let json = serde_json::to_value(&calibration).unwrap();
        assert_eq!(json["outcomes"][0]["method"], "fsync");
        assert_eq!(json["outcomes"][0]["pattern"], "overwritten");
        assert_eq!(json["outcomes"][0]["p99_seconds"], 0.003);
        assert_eq!(json["outcomes"][4]["syncs"], serde_json::Value::Null);
        assert_eq!(serde_json::from_value::<Calibration>(json).unwrap(), calibration);
        let alone = calibration.of(Case::alone(Method::Fdatasync, Pattern::Appended)).unwrap();
        assert_eq!(alone.syncs_per_commit(), Some(1.0));
    }
}
