//! `docs/metrics.md`, out of the table of the families and the buckets.

use std::fmt::Write as _;
use std::time::Duration;

use super::book::{DESCRIBE_TIMEOUT, MAX_SERVERS, RESERVED};
use super::buckets::{Buckets, DEFAULT};
use super::busiest::{HALF_LIFE, LEAVING, PACE};
use super::families::{ALL, Family};
use super::neighbours::MAX_NEIGHBOURS;
use super::totals::ERRNOS;
use crate::model::{Op, Role, Via};

pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("| metric | type | unit | labels |\n|---|---|---|---|\n");
    for family in ALL {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            page,
            "| [`{0}`](#{0}) | {1} | {2} | {3} |",
            family.name,
            family.kind.name(),
            if family.unit.is_empty() { "–" } else { family.unit },
            if labels.is_empty() { "–".into() } else { labels.join(", ") }
        );
    }
    page.push_str(&labels());
    page.push_str(&buckets());
    page.push_str(NATIVE);
    page.push_str("\n## Each metric\n");
    for family in ALL {
        describe(family, &mut page);
    }
    page
}

fn describe(family: &Family, page: &mut String) {
    let _ = write!(page, "\n### {}\n\n{}", family.name, family.help);
    if !family.notes.is_empty() {
        let _ = write!(page, " {}", family.notes);
    }
    page.push('\n');
}

const INTRODUCTION: &str = "\
# Metrics

What `fsynctop exporter` serves at `/metrics`. This page is made from the code: \
`FSYNCTOP_UPDATE_EXPECTED=1 cargo test --lib the_page_of_the_metrics` writes it, and a test fails where it differs.

Counters begin at zero when the exporter attaches its probes and go back only when it is started anew. They hold every \
sync that was traced: the last ones of a server that ended, of a file that was deleted, and of the time between two \
snapshots. A count stays under the labels that were valid when it was counted: a file whose role is found out after \
its first syncs keeps those under `role=\"other\"`. Whole numbers are exact up to 2^53.

";

const NATIVE: &str = "
## Native histograms

In the protobuf format each histogram also has native buckets ([how to store them](exporter.md#native-histograms)): \
schema 4, that is 16 exponential buckets per power of two. Each of the kernel's buckets is counted where its midpoint \
lies, so that a quantile, whatever is interpolated, is off by 6.8 % at most; the count and the sum are exact. What took \
less than 256 ns is in the zero bucket, which ends at 260 ns; what took longer than 18 minutes counts as 18 minutes. \
There are as many native buckets as the kernel has at most, 514, which make a series 4 KB longer; for Prometheus it is \
one series and one sample, however many are filled.
";

/// Of several seconds or minutes.
fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

fn labels() -> String {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let names = |roles: &[Role]| quoted(&roles.iter().map(|role| role.name()).collect::<Vec<_>>());
    format!(
        "
## Labels

**`server`** is the first of these that is known: the name given by `--server-name`; the pod's or container's name; \
the TCP port for clients; the socket; the data directory; the name of the process. It is chosen once for each data \
directory and kept for as long as the exporter runs, whatever process serves the directory and on which port; while one \
does, another joins it only if it belongs to the same user or to root. It never holds a pid. The same is chosen again when the exporter is started anew. A new server waits for it up to {describe}, \
and its syncs with it. Where two servers would have the same, the one that \
[can prove it](verdicts.md#whom-to-believe) keeps it, and each other one gets the next in that list behind it, as in \
`3306 /srv/b`; a process of a user that only says that a port or a directory is its own is called `3306 (uid 1001)`. \
A server that is renamed, because another has the better claim to its name or because its own was confirmed, takes \
its counts along: the series of its old name end, or begin anew. {servers} servers have labels of their own, \
{reserved} of which are kept for services of the system; then those that ended longest ago make room, their series \
end, and if all run, whichever owner has most of them makes room for others ([security.md](security.md#shares)). \
Servers without a label share `other`. `unknown` stands for syncs that found no row \
(`fsynctop_lost_total{{kind=\"files\"}}`), and for writeback errors of files that no traced server has open and of \
devices' metadata.

**`role`** is what a file is to its server: {all} ([roles.md](roles.md)).

**`op`** is the operation: of {syncs} those that `--ops` names; `dsync_write`, a write that is durable when it returns; and \
among all writes also {writes}. **`via`** is how it was asked for: {vias}.

**`errno`** is one of {errnos}, which alerts tell apart; all others, and failures whose errno is not known \
(`fsynctop_lost_total{{kind=\"errors\"}}`), are {other}. A filesystem in user space may fail with any number, and \
would else make as many series.

**`path`**, and every other name that a traced process chose: control characters, bytes that are no UTF-8, and \
characters that deceive their reader are written as `\\n`, `\\xff`, `\\u{{202e}}`, a backslash as `\\\\`, before \
Prometheus' own quoting. Paths are those inside the server's root, and longer ones lose their middle.

## What is there from the start

`rate()` and `increase()` see nothing of a series before its second sample: the first failure of a disk would go \
unnoticed. So there are zeros from the moment that a server is known: of the histogram for the logs that its \
engine's commits wait for (of {commits}), of \
`fsynctop_sync_errors_total`, `fsynctop_failed_writes_total` and `fsynctop_writeback_errors_total` for each `errno` \
in the roles that its engine has of {durable}, of the gauges of syncs in flight for \
the same logs, and of `fsynctop_lost_total` for every kind. A file's series begins with its first sync.

## Which files and neighbours have series of their own

Those that take most of the time, where time counts half after {half_life}; up to a limit, `--file-limit` for the paths \
of each server and {neighbours} for neighbours. While places are free, whoever comes takes one. After that a path takes the place \
of the idlest one if it took more than its share, which is the time of all divided by one more than the limit, and twice \
as much as the idlest. One place of a server changes hands every {pace} at most; that of a log or of one of the few \
files that every server has is never lost to a table.

A sync is counted once: in the series that its path had at that moment, else in `other`. The series that lost its place \
stands still for {leaving} and then ends, so there are up to {extra} more series than the limit. What it had counted is not \
moved to `other`, where `rate()` would take it for new syncs. If the path gets a place again, its series goes on from the \
count that it ended with, or, where that is no longer remembered, from zero, which Prometheus takes for the reset of a \
counter. So `sum(rate())` and `sum(increase())` over all paths are never negative and count nothing twice, if scrapes are \
less than {leaving} apart; but the sum of the counters themselves falls when a series ends. A sum that does not is \
`fsynctop_sync_duration_seconds_count` and `_sum`, by role.
",
        all = names(&Role::ALL),
        commits = names(&Role::SERIAL),
        durable = names(&Role::DURABLE),
        syncs = quoted(&Op::SYNCS.map(Op::what)),
        writes = quoted(&[Op::Write, Op::Fallocate].map(Op::what)),
        errnos = quoted(&ERRNOS[..ERRNOS.len() - 1]),
        other = quoted(&ERRNOS[ERRNOS.len() - 1..]),
        vias = quoted(&[Via::Call, Via::IoUring, Via::Aio].map(Via::name)),
        describe = in_words(DESCRIBE_TIMEOUT),
        servers = MAX_SERVERS,
        reserved = RESERVED,
        neighbours = MAX_NEIGHBOURS,
        half_life = in_words(HALF_LIFE),
        pace = in_words(PACE),
        leaving = in_words(LEAVING),
        extra = LEAVING.as_secs() / PACE.as_secs(),
    )
}

fn buckets() -> String {
    let mut text = "
## Buckets

The kernel side counts latencies in a histogram of 16 steps per power of two. Each `le` is a boundary of it, the one \
nearest to a round figure, so that every count is a sum of whole buckets and exact; `--buckets` takes others, which \
are snapped to the nearest boundary and shown as they are counted. No default is more than 2.5 times the one before. \
A boundary belongs to the bucket above it: \
`le=\"0.001015808\"` counts the syncs that took less than 1,015,808 ns, that is, 1,015,807 ns or less.

| meant | `le` |
|---|---|
"
    .to_owned();
    for (meant, shown) in DEFAULT.into_iter().zip(Buckets::default().seconds()) {
        let _ =
            writeln!(text, "| {} | {shown} |", crate::text::duration_in_words((meant * 1e9).round() as u64));
    }
    text
}
