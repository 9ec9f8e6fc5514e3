//! Sentences on what went wrong: failed syncs, stuck ones, and what was missed.

use super::{Scene, Sentence};
use crate::once::rows::nameless;
use crate::once::style::Paint;
use crate::once::{Options, header};
use crate::snapshot::{FileRow, Lost, Measurement, ServerId};
use crate::text::{count, end_of_path, errno, interval};

/// Files with errors named one by one.
const FAILED_SHOWN: usize = 3;

/// How many syncs hang, and the one that hangs longest.
pub(super) fn stuck(scene: &Scene) -> Option<Sentence> {
    let stuck = header::stuck(scene.m, &[scene.server], scene.options);
    let oldest = stuck.first()?;
    let (age, which) = (header::age(oldest), header::describe_sync(oldest, &scene.options.style));
    let waits = if oldest.role.is_serial() { " Every commit waits for this log." } else { "" };
    let text = match stuck.len() {
        1 => format!("One sync is stuck {age}: {which}.{waits}"),
        n => format!("{} syncs are stuck, the oldest {age}: {which}.{waits}", count(n as u64)),
    };
    Some(Sentence { text, paint: Paint::Stuck })
}

/// Which syncs failed, where, with what, and what that means.
pub(super) fn failures(scene: &Scene) -> Vec<Sentence> {
    let mut failed: Vec<&FileRow> = scene
        .m
        .files
        .iter()
        .filter(|row| row.server == scene.server && row.stats.error_count() > 0)
        .collect();
    if failed.is_empty() {
        return Vec::new();
    }
    failed
        .sort_by_key(|row| (!row.stats.errors.contains_key(&libc::EIO), u64::MAX - row.stats.error_count()));
    let total: u64 = failed.iter().map(|row| row.stats.error_count()).sum();
    let mut parts: Vec<String> =
        failed.iter().take(FAILED_SHOWN).map(|row| failure(row, scene.options)).collect();
    if failed.len() > FAILED_SHOWN {
        parts.push(format!("and {} more files", count((failed.len() - FAILED_SHOWN) as u64)));
    }
    let syncs = if total == 1 { "sync" } else { "syncs" };
    let mut sentences = vec![format!("{} {syncs} failed: {}.", count(total), parts.join("; "))];
    for (number, meaning) in MEANINGS {
        if failed.iter().any(|row| row.stats.errors.contains_key(&number)) {
            sentences.push(format!("{}: {meaning}", errno(number)));
        }
    }
    sentences.into_iter().map(|text| Sentence { text, paint: Paint::Error }).collect()
}

/// What a failed sync means to the person on call.
const MEANINGS: [(i32, &str); 5] = [
    (
        libc::EIO,
        "the page cache can no longer be trusted: the kernel may have dropped what it could not write, and a later \
         sync can succeed without it. Check the device before anything else.",
    ),
    (libc::ENOSPC, "the filesystem had no room for what was to be written."),
    (libc::EDQUOT, "a quota left no room for what was to be written."),
    (libc::EROFS, "the filesystem is read-only, perhaps since an error of its own."),
    (libc::EBADF, "the server synced a descriptor that was not open."),
];

fn failure(row: &FileRow, options: &Options) -> String {
    let style = &options.style;
    let named: Vec<String> =
        row.stats.errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number))).collect();
    let path = row.info.path.as_ref().map(|path| style.name(path.as_os_str().as_encoded_bytes()));
    let path = path.map(|path| match options.longest_path {
        Some(columns) => end_of_path(&path, columns, style.ellipsis()),
        None => path,
    });
    let file = nameless(row).or(path).unwrap_or_default();
    format!("{} on {file} ({} {})", named.join(", "), row.info.role.name(), row.op.name())
}

/// `Nothing failed, nothing is stuck, nothing was missed.`, as far as it is true; then what was missed.
pub(super) fn confidence(m: &Measurement, options: &Options) -> Vec<Sentence> {
    let total = m.total();
    let everyone: Vec<ServerId> = m.in_flight.iter().map(|sync| sync.server).collect();
    let mut fine = Vec::new();
    if total.error_count() == 0 && m.lost.errors == 0 {
        fine.push("nothing failed");
    }
    if header::stuck(m, &everyone, options).is_empty() {
        fine.push("nothing is stuck");
    }
    if m.lost.is_zero() {
        fine.push("nothing was missed");
    }
    let mut sentences = Vec::new();
    if !fine.is_empty() {
        sentences.push(format!("N{}.", fine.join(", ").trim_start_matches('n')));
    }
    sentences.extend(missed(&m.lost, total.count));
    sentences.into_iter().map(Sentence::plain).collect()
}

/// Each kind of loss in words, and what it does to the figures.
fn missed(lost: &Lost, counted: u64) -> Vec<String> {
    let mut sentences = Vec::new();
    let not_counted = lost.preempted + lost.threads;
    if not_counted > 0 {
        let why = [
            (lost.preempted, "because the kernel skipped a probe that it had preempted"),
            (lost.threads, "because there was no memory for a thread's state"),
        ];
        let why: Vec<String> =
            why.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{} {why}", count(*n))).collect();
        sentences.push(format!(
            "Syncs missed: {}. {} counted + {} lost = {}.",
            why.join(", "),
            count(counted),
            count(not_counted),
            count(counted + not_counted)
        ));
    }
    if !lost.paused.is_zero() {
        sentences.push(format!(
            "For {} nothing was traced, to keep within the limit of processor time (--max-cpu).",
            interval(lost.paused)
        ));
    }
    let rest = [
        (lost.files, "syncs are in the totals, but in no file's row: the map of the files was full."),
        (
            lost.events,
            "syncs are counted without their latency bucket, which the quantiles lack: a ring was full.",
        ),
        (lost.names, "file names did not arrive, because a ring was full; the files are counted."),
        (lost.errors, "failed syncs are counted without their errno: the map of the errors was full."),
        (
            lost.processes,
            "processes of the command were not followed, so their syncs are missing: a map was full.",
        ),
    ];
    let said = rest.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n)));
    sentences.extend(said);
    sentences
}
