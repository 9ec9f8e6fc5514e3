//! What help and pages say of the program, held against what it goes by: a line for each sentence with a
//! figure or a list of names in it. Whoever changes a constant is told which sentences to change; whoever
//! writes a figure into a help text is asked for its line.

mod figures;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use figures::*;
use source::*;

use super::manual::{self, Manual};
use super::one_server::has_counters;
use super::{exit, root};
use crate::exporter::collect::Buckets;
use crate::exporter::web::address;
use crate::exporter::web::limits::{self, Phase};
use crate::live::budget::Limit;
use crate::model::{AttachMode, Op, Role, SATURATED, Via};
use crate::once::timeline;
use crate::sync_cost::plan;
use crate::verdict::{State, Thresholds};
use crate::{host, live, recording};

/// Pages, each with a sentence as the code makes it. `ACTION --help` stands for the help and the manual page
/// of an action, `--help` for those of any.
#[rustfmt::skip] // a line for each sentence
fn said() -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    macro_rules! say {
        ($page:literal, $($sentence:tt)*) => {
            said.push(($page, format!($($sentence)*)))
        };
    }

    let logs = Role::SERIAL.map(Role::name);
    let syncs = Op::SYNCS.map(Op::name);
    let [counting, _] = engines(has_counters);
    // Those that have processes of their own.
    let [engines, engine_names] = engines(|engine| engine.has_processes());
    let buckets: Vec<f64> = Buckets::default().seconds().collect();
    let history = recording::Options::default();
    let kept = history.length.as_secs_f64();
    let history_mb = mb(history.bytes as f64);
    let port = address::DEFAULT;
    let nobody = of("exporter/confine/user.rs", "NOBODY");
    let thresholds = Thresholds::default();
    let [stalled, slow, slow_for, idle] =
        [thresholds.stalled, thresholds.slow, thresholds.slow_for, thresholds.idle_after]
            .map(|limit| limit.as_secs_f64());
    let threads: u32 = default("calibrate", "threads").parse().unwrap();
    let calibrates = plan::cases(threads).len() as f64 * default_seconds("calibrate", "each");
    let calibrates = if (20.0..=40.0).contains(&calibrates) { "half a minute" } else { "not half a minute" };
    let margin = if of("calibrate/judge.rs", "MARGIN") == 0.5 { "half" } else { "not half" };
    let scratch = mb(of("calibrate/work.rs", "MAX_BYTES"));
    let enough = of("verdict/slow.rs", "ENOUGH");
    let budget = Limit::default();
    let condition = exit::CONDITION;
    let ten = of("cli/once.rs", "DEFAULT_DURATION");
    let engine_ports = |file| of(file, "DEFAULT_PORT").to_string();
    let oldest = format!("{}.{}", host::OLDEST.0, host::OLDEST.1);
    let version = env!("CARGO_PKG_VERSION");

    // Help and manual pages.
    let serial = list(&logs, ", ", ", ");
    say!("--help", "the sync calls of {} and others", list(&engines, ", ", ", "));
    say!("--help", "{}; several with commas between them", list(&engine_names, ", ", " or "));
    say!("--help", "for the last {} minutes", minutes(kept));
    say!("once --help", "5m [default: {}s]", n(ten));
    say!("once --help", "{} seconds, another time", head(ten));
    say!("--help", "{} seconds of all servers, by role", word(ten));
    say!("--help", "{} seconds of one engine's servers", word(ten));
    say!("explain --help", "{} seconds of all servers", word(default_seconds("explain", "duration")));
    let half_minute = if default_seconds("verify", "duration") == 30.0 { "half a minute" } else { "another time" };
    say!("verify --help", "{half_minute} of the one server");
    say!("history --help", "the last {} minutes", minutes(default_seconds("history", "last")));
    say!("--help", "for Prometheus, on {port}");
    say!("exporter --help", "on {port}, all servers");
    say!("calibrate --help", "{calibrates}");
    say!("once --help", "what fits the terminal, or {}.", n(of("cli/once.rs", "ROWS")));
    say!("once --help", "End with status {condition} if this holds");
    say!("once --help", "stalled={}s, an operation of a log that commits wait for ({serial})", n(stalled));
    say!("once --help", "slow={}ms, a 99th percentile of such a log's syncs above that", ms(slow));
    say!("once --help", "{} + signal if a signal ended it", exit::SIGNALLED);
    say!("record --help", "{} + signal if a signal ended it", exit::SIGNALLED);
    let seconds_of_tier = word(recording::folder::Tier::TenSeconds.length().map_or(0.0, |length| length.as_secs_f64()));
    say!("record --help", "of older times {seconds_of_tier} seconds, and then minutes, are kept as one");
    say!("exporter --help", "of older times {seconds_of_tier} seconds, and then minutes, are kept as one");
    say!("segments --help", "as intervals of {seconds_of_tier} seconds, then of a minute");
    say!("once --help", "status {condition} if one of these holds");
    say!("stuck --help", "status {condition} if a log hangs that long");
    say!("status --help", "status {condition} for a slow one, too");
    say!("status --help", "End with status {condition} if a server is in one of these states");
    let look = word(of("cli/status.rs", "LOOK"));
    say!("status --help", "without one, from {look} seconds of tracing");
    say!("status --help", "without one, it traces for {look} seconds, which needs root");
    say!("status --help", "as much as {look} seconds of `fsynctop once`");
    say!("once --help", "With -- COMMAND, {condition} comes before the command's own status");
    say!("stuck --help", "End with status {condition} if a log's operation hangs");
    say!("stuck --help", "a log that commits wait for ({serial}) that is in flight for so long, {} seconds if", n(stalled));
    say!("exporter --help", "Where to listen [default: {port}]");
    say!("exporter --help", "which the packages make, or {nobody} where that user is missing.");
    say!("exporter --help", "Other programs may run as {nobody}, too.");
    say!("exporter --help", "Without it, there are {} from {} µs to {:.0} s.", buckets.len(), (buckets[0] * 1e6).round(), buckets[buckets.len() - 1]);
    say!("exporter --help", "It takes {history_mb} MB of memory at most");
    say!("exporter --help", "Without this, {}, or none", recording::remote::SOCKET);
    say!("exporter --help", "(max-files = {}; listen = [\"{port}\"])", default("exporter", "max-files"));
    let shortest = timeline::step(Duration::ZERO).as_secs();
    say!("history --help", "[default: {shortest} seconds or more, by --last]");
    let (limit, least) = (recording::writer::LIMIT >> 20, recording::writer::LEAST_LIMIT >> 20);
    assert_eq!(default("record", "limit"), format!("{limit}M"));
    say!("docs/recordings.md", "the {} that took most time have a row", n(of("recording/writer.rs", "FILES")));
    say!("docs/recordings.md", "with less than {} % of the filesystem free", n(100.0 * of("recording/writer.rs", "LEAST_FREE")));
    say!("docs/recordings.md", "up to {} intervals wait in memory", n(of("recording/queue.rs", "MAX_INTERVALS")));
    say!("docs/recordings.md", "{limit} MB unless --limit says otherwise, and {least} MB at least");
    say!("exporter --help", "what the history takes is {history_mb} MB at most");
    say!("calibrate --help", "waits behind it for {calibrates}. At most {scratch} MB");
    say!("calibrate --help", "At most {scratch} MB are written to at a time, and nothing stays");
    say!("calibrate --help", "MARGINAL (above {margin} of it) or FAIL, with which the status is {condition}");
    say!("calibrate --help", "there is no verdict, and the status is {}.", exit::NOT_ENOUGH);
    say!("--help", "[default: {}; PostgreSQL: {}; etcd, Redis, Valkey: each that it listens on]", engine_ports("server/mysql/adapter.rs"), engine_ports("server/postgres/adapter.rs"));

    // README.
    say!("README.md", "({}; [docs/engines.md]", list(&engines, ", ", ", "));
    say!("README.md", "`verify` ends with {} if the process is neither {}", exit::NOTHING_TO_TRACE, list(&counting, ", ", " nor "));
    say!("README.md", "servers and files of {},", list(&engines, ", ", " and "));
    say!("README.md", "It needs Linux {oldest} or later");
    say!("README.md", "with git and Rust {} or later. `make`", env!("CARGO_PKG_RUST_VERSION"));
    say!("README.md", "with git and Rust {} or later (from rustup", env!("CARGO_PKG_RUST_VERSION"));
    say!("README.md", "It has the version of that commit, {version}, and");
    say!("README.md", "dist/fsynctop_{version}-1_amd64.deb");
    say!("README.md", "dist/fsynctop-{version}-1.x86_64.rpm");
    say!("README.md", "dist/fsynctop-{version}-x86_64-linux.tar.gz");
    say!("README.md", "localhost/fsynctop:{version}");
    say!("README.md", "# Prometheus metrics on {port}, and a history of the last {} minutes", minutes(kept));
    say!("README.md", "# {} seconds of every database server on the host", word(ten));
    say!("README.md", "`fsynctop once --fail-on stalled,failing,slow` | exit status {condition},");
    say!("README.md", "each log that its commits wait for ({}) one call at a time", log_names());
    say!("README.md", "At {} % commits begin to queue for it", percent(SATURATED));
    say!("README.md", "within {:.1} %", (1000.0 / 2.0 / of("model/histogram.rs", "STEPS")).ceil() / 10.0);
    say!("README.md", "Below {} syncs there is no p99", n(enough));
    say!("README.md", "one that hangs for {} second is in flight", a(of("threads/scan.rs", "MIN_HANG")));
    say!("README.md", "if asked {} (`--ops`)", quoted(&syncs[2..], ", "));

    // Pages.
    say!("docs/configuration.md", "unless it is a regular file of {} kB at most", kb(of("cli/settings/places.rs", "MAX_BYTES")));
    say!("docs/configuration.md", "`--profile`, which may have {} kB", kb(of("engine/source.rs", "LARGEST")));

    // Shares.
    let (labels, reserved) = (of("exporter/collect/book.rs", "MAX_SERVERS"), of("exporter/collect/book.rs", "RESERVED"));
    say!("docs/security.md", "| names and verdicts of servers | {labels} | whoever has most gives way | {reserved} |");
    say!("docs/metrics.md", "{labels} servers have labels of their own, {reserved} of which are kept");
    let gone = of("exporter/verdict/making.rs", "MOST_GONE");
    say!("docs/security.md", "none has any more | {gone} | its own oldest go first | {} |", gone / 4.0);
    let queues = |file: &str, all: &str, one: &str| [all, one].map(|name| n(of(file, &format!("{name}.queue"))));
    let [all, one] = queues("server/what/describers.rs", "ALL", "OF_ONE_OWNER");
    say!("docs/security.md", "| servers that wait to be described | {all} | {one} |");
    let [all, one] = queues("sampler/running.rs", "SCANS", "SCANS_OF_ONE_OWNER");
    say!("docs/security.md", "| searches for syncs that hung before | {all} | {one} |");
    let [all, one] = queues("sampler/stalls.rs", "SCANS", "SCANS_OF_ONE_OWNER");
    say!("docs/security.md", "of active servers and of idle ones | {all} | {one} |");
    let [all, one] = queues("sampler/names/mod.rs", "WORKERS", "OF_ONE_OWNER");
    say!("docs/security.md", "to have their names confirmed | {all} | {one} |");
    let lines: f64 = default("events", "per-minute").parse().unwrap();
    let [one, services] = ["OF_ONE_OWNER", "RESERVED"].map(|name| lines * of("events/limit.rs", name));
    say!("docs/security.md", "of verdicts and of operations | {lines} | {one} | {services} |");
    let [all, one] = ["MAX_OF_ALL", "MAX_OF_ONE"].map(|name| n(of("exporter/web/lobby.rs", name)));
    say!("docs/security.md", "as many that wait to scrape | {all} | {one} |");
    say!("docs/exporter.md", "| clients that wait for their turn to connect | {one} of each user");
    say!("docs/exporter.md", "IPv6 /48), {all} of all, in turns;");
    for (what, limit) in [
        ("calls in flight of threads without a place of their own", "CALLS_WITHOUT_SLOT"),
        ("requests of io_uring in flight without a place of their own", "REQUESTS_WITHOUT_SLOT"),
        ("requests of libaio in flight", "AIO_REQUESTS"),
        ("for which each file has room", "ERRORS"),
        ("all of FUSE being one", "WRITEBACK_FILES"),
        ("files with unsynced bytes (`--writes all`)", "UNSYNCED_FILES"),
    ] {
        let all = record(limit);
        say!("docs/security.md", "{what} | {} | seven eighths | {} |", n(all), n(all / 16.0));
    }
    say!("docs/security.md", "owners fall into {} shares", record("SHARES"));
    let cost = of("sampler/shares.rs", "COST");
    say!("docs/security.md", "some {} µs each", n((cost * 1e6).round()));
    let (part, share) = (of("sampler/shares.rs", "PART"), budget.share);
    say!("docs/security.md", "({} a second with {} %)", n((part * share / cost).round()), percent(share));
    assert_eq!((part, of("sampler/shares.rs", "AT_ONCE")), (0.5, 0.5), "half");
    let files = record("UNSYNCED_FILES");
    say!("docs/unsynced.md", "or {} of one [owner]", n(files / 8.0 * 7.0));
    say!("docs/unsynced.md", "When fewer than {} would be free", n(files / 16.0 * 3.0));
    let incident = |name| of("recording/incident.rs", name);
    let incidents = |name| of("recording/incidents.rs", name);
    say!("docs/verdicts.md", "with less than {} s between them are one", n(incident("JOINED_WITHIN")));
    say!("docs/verdicts.md", "at least {} times its usual one and at least {} ms, for {} s", n(incident("SLOW_TIMES")), n(1e3 * incidents("SLOW_FROM")), n(incident("SLOW_FOR")));
    say!("docs/verdicts.md", "the same of their p99, from {} ms on, where {} or more ended in each interval", n(1e3 * incidents("SLOW_TAIL_FROM")), n(incidents("TAIL_OF")));
    say!("docs/verdicts.md", "a log is busy for {} % of the time, for {} s", n(100.0 * SATURATED), n(incident("SATURATED_FOR")));
    say!("docs/verdicts.md", "Neighbours are looked at for the {} servers", n(incidents("MAX_LOOKED_AT")));
    say!("docs/verdicts.md", "if they are {} s long together", n(of("recording/usual.rs", "LONG_ENOUGH")));
    say!("docs/verdicts.md", "it is known from the {} on", if of("recording/usual.rs", "ENOUGH") == 10.0 { "tenth" } else { "another" });
    say!("docs/verdicts.md", "({} threads of a server, {} in all)", n(of("sampler/running.rs", "WAITS_OF_SERVER")), n(of("sampler/running.rs", "WAITS")));
    say!("docs/verdicts.md", "At most {} incidents are kept", n(incidents("MAX_KEPT")));
    say!("docs/verdicts.md", "up to {one} of each user in a queue of their own");
    let per_second_accepted = n(1.0 / limits::ACCEPTED.each.as_secs_f64());
    say!("docs/verdicts.md", "of {}, which is emptied {per_second_accepted} times a second", n(of("cli/exporter.rs", "WAITING")));
    say!("docs/security.md", "by more than {per_second_accepted} connections a second");
    say!("docs/building.md", "Rust {} or later; clang", env!("CARGO_PKG_RUST_VERSION"));
    say!("docs/kubernetes.md", "**Kernel** {oldest} or later with BTF");
    say!("docs/exporter.md", "`--max-files {} --listen {port} --listen", default("exporter", "max-files"));
    say!("docs/exporter.md", "(`LISTEN_FDS`), else on {port}");
    say!("docs/exporter.md", "| connections at a time | {}. A new one", limits::CONNECTIONS);
    say!("docs/exporter.md", "| passwords that wait to be checked | {}, of one network (IPv4 /24, IPv6 /64) {};", of("exporter/web/queue.rs", "WAITING"), of("exporter/web/queue.rs", "SHARE"));
    say!("docs/exporter.md", "request line and headers | {} s altogether, {} KB, {} headers", s(Phase::Request.limit()), kb(limits::HEADER_BYTES as f64), limits::HEADERS);
    say!("docs/exporter.md", "| to make an answer | {} s, then 503", s(limits::ANSWER_TIMEOUT));
    say!("docs/exporter.md", "| to take an answer | {} s |", s(Phase::Response.limit()));
    say!("docs/exporter.md", "| idle between requests | {} s |", s(Phase::Idle.limit()));
    let rates = [limits::NEW_CONNECTIONS, limits::HANDSHAKES, limits::REQUESTS];
    say!("docs/exporter.md", "requests | {} each second, after a burst of {};", list(&rates.map(per_second), ", ", ", "), list(&rates.map(|rate| rate.burst.to_string()), ", ", ", "));
    say!("docs/exporter.md", "served again for {} ms or {} times as long as it took, whichever is longer, up to a second;", ms(of("exporter/web/answers.rs", "YOUNG")), of("exporter/web/answers.rs", "TIMES_ITS_COST"));
    say!("docs/exporter.md", "A bcrypt cost above {} is refused", of("exporter/web/settings.rs", "MAX_BCRYPT_COST"));
    say!("docs/exporter.md", "within one check of the hash and {} seconds.", word(of("exporter/web/auth.rs", "MAX_PAUSE")));
    say!("docs/exporter.md", "It keeps a snapshot of each interval for {} minutes (`--history`), in {history_mb} MB at most", minutes(kept));
    say!("docs/exporter.md", "over a local socket, `{}` (`--socket`)", recording::remote::SOCKET);
    let clients = of("exporter/history_socket.rs", "MAX_CLIENTS");
    say!("docs/exporter.md", "{} clients are answered at a time, each within {} s altogether", head(clients), n(of("exporter/history_socket.rs", "CLIENT_TIMEOUT")));
    say!("docs/exporter.md", "it waits {} s and reads {} MB at most", n(of("recording/remote.rs", "PATIENCE")), mb(of("recording/remote.rs", "LARGEST_ANSWER")));
    say!("docs/exporter.md", "else the user called fsynctop, which the packages make, else {nobody} (nobody)");
    say!("docs/exporter.md", "requests in progress are answered ({} s)", n(of("exporter/web/doors.rs", "LAST_ANSWERS")));
    say!("docs/exporter.md", "Servers that come and go get {} lines a minute", of("exporter/server_log.rs", "LINES"));
    say!("docs/exporter.md", "after a minute, {} had labels and verdicts of their own", of("exporter/collect/book.rs", "MAX_SERVERS"));

    say!("examples/exporter.toml", "#listen = [\"{port}\"]");
    say!("examples/exporter.toml", "#user = \"{nobody}:{nobody}\"");
    say!("examples/exporter.toml", "#socket = \"{}\"", recording::remote::SOCKET);

    say!("docs/verdicts.md", "a log that commits wait for ({}) has been in flight for {} s", quoted(&logs, ", "), n(stalled));
    say!("docs/verdicts.md", "has been above {} ms for a minute, at {} syncs a second or more", ms(slow), n(thresholds.min_rate));
    say!("docs/verdicts.md", "| stalled | {} s |", n(stalled));
    say!("docs/verdicts.md", "| slow | {} ms |", ms(slow));
    say!("docs/verdicts.md", "| slow for | {} s | the time is divided into {} parts", n(slow_for), word(of("verdict/slow.rs", "PARTS")));
    say!("docs/verdicts.md", "| at least | {} syncs a second |", n(thresholds.min_rate));
    say!("docs/verdicts.md", "in a sync for {} % of the time", percent(SATURATED));
    say!("docs/verdicts.md", "| idle after | {} s |", n(idle));
    say!("docs/verdicts.md", "({} syncs are still needed)", n(enough));
    say!("docs/verdicts.md", "{} files of a server are told apart", head(of("verdict/failures.rs", "MOST")));
    say!("docs/verdicts.md", "how many more files have failed (at most {})", of("verdict/failures.rs", "MOST"));
    let grace = of("verdict/verdicts.rs", "GRACE");
    say!("docs/verdicts.md", "older than three intervals and {} seconds is `unknown`", word(grace));
    say!("docs/verdicts.md", "three intervals and {} seconds ({} s by default)", word(grace), n(3.0 * default_seconds("exporter", "interval") + grace));
    say!("docs/verdicts.md", "looked up every {} seconds", word(of("files/still_open.rs", "LOOK_AGAIN")));
    say!("docs/verdicts.md", "every {} seconds or more seldom", word(of("sampler/stalls.rs", "MIN_REST")));
    say!("docs/verdicts.md", "They have {} places, and turns, of their own", limits::CONNECTIONS);
    say!("docs/verdicts.md", "looks for a new snapshot {} times a second", word((1.0 / of("exporter/stage.rs", "LOOK_EVERY")).round()));
    say!("docs/verdicts.md", "Where that user is {nobody},");
    say!("docs/verdicts.md", "in flight for `--above` ({} s)", n(default_seconds("events", "above")));
    say!("docs/verdicts.md", "more lines than `--per-minute` ({}) came", default("events", "per-minute"));
    say!("docs/verdicts.md", "asked once in {} seconds at most", word(of("events/sessions.rs", "SELDOM")));
    let patience = if of("events/sessions.rs", "PATIENCE") == 0.5 { "half a second" } else { "another time" };
    say!("docs/verdicts.md", "the server says so within {patience}:");
    say!("docs/verdicts.md", "of that, what applies |");
    let vias = [Via::Call, Via::IoUring, Via::Aio, Via::Kernel].map(Via::name);
    say!("docs/verdicts.md", "`via` ({});", quoted(&vias, ", "));
    say!("docs/verdicts.md", "ends with status {condition} if one of these holds");
    say!("docs/verdicts.md", "| {} | only `stuck`: nothing was found", exit::INCOMPLETE);

    say!("docs/json.md", "**Rows** are per operation ({}, and `dsync_write`", quoted(&syncs, ", "));
    say!("docs/json.schema.json", "{}, dsync_write; of writes also write and fallocate", syncs.join(", "));
    say!("docs/json.md", "(`via`: `{}`, a system call of its own, `{}`, or `{}`, which is libaio)", vias[0], vias[1], vias[2]);
    let [fentry, kprobe, tracepoint] =
        [AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint].map(AttachMode::name);
    say!("docs/json.md", "**`attach`** is `{fentry}`, `{kprobe}` or `{tracepoint}`");
    say!("docs/json.md", "For the logs that commits wait for ({}), each", quoted(&logs, ", "));
    say!("docs/json.md", "`busy` (for {}, as far", quoted(&logs, " and "));
    say!("docs/json.md", "at most {:.1} % from the truth", (1000.0 / 2.0 / of("model/histogram.rs", "STEPS")).ceil() / 10.0);
    say!("docs/json.md", "({} files of all traced processes together)", n(record("UNSYNCED_FILES")));
    say!("docs/roles.md", "{} servers have a place, shared out by", n(record("PARTS")));
    say!("docs/json.md", "it keeps {} files apart, the logs first", of("recording/limit.rs", "MOST_UNSYNCED"));
    say!("docs/json.md", "each second remembers the {} files that took most time", history.files);
    say!("docs/json.md", "only the latest {} are", n(retained()));
    say!("docs/json.md", "`unexamined` names up to {} of these processes", word(of("stuck/render.rs", "MOST_NAMED")));
    say!("docs/json.md", "the exit status is {}. With", exit::INCOMPLETE);
    say!("docs/json.md", "the exit status is {condition}.");

    say!("docs/metrics.md", "for the logs that commits wait for ({}), of which", quoted(&logs, ", "));
    say!("docs/metrics.md", "(`role=~\"{}\"`)", logs.join("|"));
    say!("docs/runbooks/FsynctopSyncStuck.md", "Of a log that commits wait for ({}), no commit", quoted(&logs, ", "));

    let left = |divisor: f64| n(record("UNSYNCED_FILES") / divisor);
    say!("docs/unsynced.md", "more than {} files of all traced processes together", left(1.0));
    say!("docs/unsynced.md", "When fewer than {} of the {} are free", left(4.0), left(1.0));
    say!("docs/unsynced.md", "of an interval of {} minutes or more", minutes(of("model/unsynced.rs", "PEAKS_REMEMBERED")));
    say!("docs/unsynced.md", "of the logs only (`redo` and {})", quoted(&logs[1..], ", "));

    say!("docs/calibrate.md", "writes blocks of {} kB", kb(of("calibrate/work.rs", "BLOCK")));
    say!("docs/calibrate.md", "2, 4, 8 … {threads} threads");
    say!("docs/calibrate.md", "fsynctop calibrate /srv/scratch # {calibrates}");
    say!("docs/calibrate.md", "more than {} % busy during the second before", percent(of("calibrate/place.rs", "MAX_BUSY")));
    say!("docs/calibrate.md", "All its files together take at most {scratch} MB");
    say!("docs/calibrate.md", "at most {margin} of the limit");
    let milliseconds = |name| (of("calibrate/judge.rs", name) * 1e4).round() / 10.0;
    let [flash, turn] = ["FLASH_SECONDS", "TURN_SECONDS"].map(milliseconds);
    say!("docs/calibrate.md", "below {flash} ms, good for flash; from {turn} ms on");
    say!("docs/calibrate.md", "no verdict, and the exit status is {}.", exit::NOT_ENOUGH);
    say!("docs/calibrate.md", "**FAIL**: above it; the exit status is {condition}.");

    say!("docs/verify.md", "is not {}, and so has no counters", list(&counting, ", ", " or "));
    say!("docs/verify.md", "{condition} if one differs, {} if there was no count", exit::NOT_ENOUGH);
    say!("docs/verify.md", "{} if it failed ({}: there is no server", exit::FAILED, exit::NOTHING_TO_TRACE);
    let [connect, answer] =
        ["CONNECT_TIMEOUT", "ANSWER_TIMEOUT"].map(|name| of("server/asking/connection.rs", name));
    say!("docs/verify.md", "a timeout of {} second to connect and {} for each reading", word(connect), word(answer));
    let mysql = |file: &str, name| of(&format!("server/mysql/status/client/{file}.rs"), name);
    say!("docs/verify.md", "exceeds {} MB, {} rows or {} columns, because", mb(mysql("mod", "ANSWER_BYTES")), n(mysql("rows", "ROWS")), mysql("rows", "COLUMNS"));
    let postgres = |file: &str, name| of(&format!("server/postgres/status/client/{file}.rs"), name);
    say!("docs/verify.md", "An answer may have {} MB, {} rows and {} columns", mb(postgres("mod", "ANSWER_BYTES")), n(postgres("rows", "ROWS")), postgres("rows", "COLUMNS"));
    let etcd = |file: &str, name| of(&format!("server/etcd/status/{file}.rs"), name);
    say!("docs/verify.md", "An answer may have {} MB, {} lines of {} kB, and a header of {} kB with {} fields", mb(etcd("client", "ANSWER_BYTES")), n(etcd("http", "LINES")), kb(etcd("http", "LINE_BYTES")), kb(etcd("http", "HEAD_BYTES")), etcd("http", "HEADERS"));
    say!("docs/verify.md", "be its start, within {} seconds", word(etcd("reading", "START_TOLERANCE")));
    let redis = |file: &str, name| of(&format!("server/redis/status/{file}.rs"), name);
    say!("docs/verify.md", "An answer may have {} kB, all answers of a reading together {} MB", kb(redis("resp", "TEXT_BYTES")), mb(redis("client", "ANSWER_BYTES")));
    say!("docs/verify.md", "`uptime_in_seconds`, within {} seconds", word(redis("reading", "START_TOLERANCE")));
    say!("docs/verify.md", "tries up to {} TCP ports", word(of("server/asking/find.rs", "MAX_PORTS")));
    say!("docs/verify.md", "then to up to {} TCP ports", word(of("server/asking/find.rs", "MAX_PORTS")));
    let handed_in = of("server/postgres/status/reading.rs", "HANDED_IN_SECONDS");
    let early = of("verify/postgres.rs", "EARLY_SECONDS");
    say!("docs/verify.md", "up to {} seconds, for a moment in which no process has been at work for {} seconds", n(handed_in + early), word(handed_in));

    say!("docs/security.md", "else {nobody} (nobody) | the same |");
    let questions = word(variants("exporter/link/words.rs", "Question"));
    say!("docs/security.md", "There are {questions} questions. Two are");
    say!("docs/security.md", "through one of the {questions} questions");
    let lanes = of("exporter/link/spawn.rs", "LANES") + clients;
    say!("docs/security.md", "on each of {} lanes allow", word(lanes));
    say!("docs/security.md", "A question has at most {} kB, an answer {} MB;", kb(of("exporter/link/words.rs", "LONGEST_QUESTION")), mb(of("exporter/link/lane.rs", "LONGEST_ANSWER")));
    say!("docs/security.md", "waits for {} times as long as the answer took in processor time, up to a second", word(of("exporter/link/answers.rs", "PAUSE")));
    say!("docs/security.md", "does not answer for {} seconds", word(of("exporter/web_process.rs", "SILENCE")));
    say!("docs/security.md", "does not ask for {} seconds", word(of("exporter/daemon.rs", "SILENCE")));
    say!("docs/security.md", "at most {} kB until it has let us in and {} MB (PostgreSQL: {} MB, etcd: {} MB, Redis: {} MB)", kb(mysql("mod", "LOGIN_BYTES")), mb(mysql("mod", "ANSWER_BYTES")), mb(postgres("mod", "ANSWER_BYTES")), mb(etcd("client", "ANSWER_BYTES")), mb(redis("client", "ANSWER_BYTES")));
    say!("docs/security.md", "writes files of its own, at most {scratch} MB,");

    say!("docs/explain.md", "a thread samples every {} ms", ms(of("explain/commit_watch.rs", "EVERY")));
    say!("docs/explain.md", "the sum of {} standard errors", word(of("explain/factors/log.rs", "STANDARD_ERRORS")));
    say!("docs/explain.md", "if {} changes or more (`rdb_changes", of("explain/audit/mod.rs", "MIN_TRANSACTIONS"));
    say!("docs/explain.md", "watches the traced syncs for {} seconds", word(default_seconds("explain", "duration")));

    // The table of what fsynctop waits for, and what else has a limit.
    say!("docs/architecture.md", "| threads of one process, in a scan | {} ms without", ms(crate::threads::Looks::default().deadline.as_secs_f64()));
    say!("docs/architecture.md", "| a scan of the sampler's as a whole | {} s |", n(of("sampler/running.rs", "SCAN_TIMEOUT")));
    say!("docs/architecture.md", "| a scan of the sampler's as a whole | {} s |", n(of("sampler/stalls.rs", "SCAN_TIMEOUT")));
    say!("docs/architecture.md", "| {} s; abandoned after {} s |", n(of("server/what/describe.rs", "MAX_TIME")), n(of("server/what/describers.rs", "DESCRIBE_TIMEOUT")));
    for file in ["one_server.rs", "check.rs"] {
        let name = if file == "check.rs" { "DEADLINE" } else { "DESCRIBE_TIMEOUT" };
        say!("docs/architecture.md", "before a view begins | {} s; `calibrate`: {} s |", n(of(&format!("cli/{file}"), name)), n(of("cli/calibrate.rs", "PATIENCE")));
    }
    say!("docs/architecture.md", "| a server's socket | {} s to connect, {} s for an answer |", n(connect), n(answer));
    say!("docs/architecture.md", "| a file's name to be confirmed | {} ms |", ms(of("sampler/names/mod.rs", "CONFIRM_TIMEOUT")));
    say!("docs/architecture.md", "is of | {} s; abandoned after {} s |", n(of("sampler/writeback.rs", "SEARCH_TIME")), n(of("sampler/writeback.rs", "SEARCH_TIMEOUT")));
    say!("docs/architecture.md", "is still open | {} ms; abandoned after {} s |", ms(of("files/still_open.rs", "SEARCH_TIME")), n(of("files/still_open.rs", "SEARCH_TIMEOUT")));
    say!("docs/architecture.md", "for `explain` | {} s each |", n(of("explain/commit_watch.rs", "STORAGE_TIMEOUT")));
    say!("docs/architecture.md", "for its answer | {} s, and {} s |", n(of("exporter/history_socket.rs", "CLIENT_TIMEOUT")), n(of("recording/remote.rs", "PATIENCE")));
    say!("docs/architecture.md", "by its web process | {} s for a page, {} s for a sign of life |", n(of("exporter/web_process.rs", "ANSWER_TIMEOUT")), n(of("exporter/link/lane.rs", "LIFE_TIMEOUT")));
    say!("docs/architecture.md", "| {} s to take an answer; {} s of silence end both |", n(of("exporter/link/answers.rs", "TAKE_TIMEOUT")), n(of("exporter/daemon.rs", "SILENCE")));
    let retention = live::Options::default().retention;
    say!("docs/architecture.md", "for {} minutes and up to {} of them (`Live`), or up to {} for as long", minutes(retention.length.map_or(0.0, |length| length.as_secs_f64())), retention.most, n(retained()));
    say!("docs/architecture.md", "`--max-cpu` ({} % of a processor, averaged over a minute)", percent(budget.share));
    say!("docs/architecture.md", "{} of a processor for describing servers, {} percent for confirming names", if of("server/what/describers.rs", "CPU_SHARE") == 0.005 { "half a percent" } else { "not half a percent" }, word(of("sampler/names/mod.rs", "SHARE") * 100.0));
    say!("docs/architecture.md", "after {} seconds or after {} second of processor time", word(of("server/what/describe.rs", "MAX_TIME")), word(of("server/what/describe.rs", "MAX_CPU_TIME")));
    assert_eq!(
        (of("server/who/finder.rs", "SHARE"), of("sampler/stalls.rs", "REST")),
        (500.0, 500.0),
        "it rests five hundred times"
    );
    let (active, idle) = (of("sampler/stalls.rs", "ACTIVE_SHARE"), of("sampler/stalls.rs", "IDLE_SHARE"));
    say!("docs/architecture.md", "{} % of a processor for the servers that have synced or written within {} minutes and {} % for all others", percent(active), word(of("sampler/servers.rs", "IDLE_AFTER") / 60.0), percent(idle));
    say!("docs/architecture.md", "{} % and {} % for looking at the threads of servers (above), {} % for what hung before", percent(active), percent(idle), percent(of("sampler/running.rs", "SHARE")));
    say!("docs/architecture.md", "Numbers below {}, and those", of("server/who/owner.rs", "FIRST_USER"));
    say!("docs/architecture.md", "every {} seconds, less often where that takes longer", word(of("sampler/stalls.rs", "MIN_REST")));
    say!("docs/architecture.md", "at least {} second and at most {} minute; one", a(of("server/who/finder.rs", "MIN_PAUSE")), a(of("server/who/finder.rs", "MAX_PAUSE") / 60.0));
    say!("docs/architecture.md", "two to {} times longer in each step", word(of("live/budget.rs", "GREATEST_STEP")));
    say!("docs/architecture.md", "(or {} times what was asked for)", word(of("live/budget.rs", "LONGER_AT_LEAST")));
    say!("docs/architecture.md", "or for up to {} after relapses", word(of("live/budget.rs", "MAX_PAUSE")));
    say!("docs/architecture.md", "a burst of {} seconds, then a share", word(of("server/what/describers.rs", "CPU_BURST")));
    say!("docs/architecture.md", "{} % each, after a burst of one second", percent(of("files/still_open.rs", "SEARCH_SHARE")));
    say!("docs/architecture.md", "an array of {} slots of 128 bytes (`bpf/request_slots.h`)", n(record("REQUEST_SLOTS")));
    say!("docs/architecture.md", "followed up to {} requests or events", n(record("AIO_REQUESTS")));
    say!("docs/architecture.md", "in a small hash ({} entries;", n(record("WRITEBACK_FILES")));
    say!("docs/architecture.md", "of up to {} servers, the youngest first, for a second at most", of("sampler/writeback.rs", "SERVERS"));
    said
}

/// Servers that have ended which `once` tells apart.
fn retained() -> f64 {
    crate::sampler::Retention::default().most as f64
}

/// "the redo log and the binary log, the WAL, the AOF".
fn log_names() -> String {
    let names = Role::SERIAL.map(Role::in_a_sentence);
    list(&names, ", ", ", ").replacen(", ", " and ", 1)
}

/// Figures of these are measured ones, and held against docs/overhead.md in manual/.
const COSTS: &str = "what it costs";

/// Help of each option and of the action itself, and what its manual page has beside that.
fn help(manual: &Manual) -> Vec<(String, String)> {
    let command = root::command();
    let action = command.find_subcommand(manual.action).unwrap_or(&command);
    let title = |part: &str| format!("fsynctop {} --help, {part}", manual.action);
    let about = action.get_long_about().or(action.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut texts = vec![(title("its beginning"), about), (title("notes"), manual.notes.join(" "))];
    for (what, rows) in
        [("exit statuses", manual.exit), ("files", manual.files), ("environment", manual.environment)]
    {
        texts.extend(rows.iter().map(|(_, text)| (title(what), (*text).to_owned())));
    }
    texts.extend(manual.costs.iter().map(|text| (title(COSTS), (*text).to_owned())));
    texts.extend(manual.examples.iter().map(|example| (title("examples"), example.what.to_owned())));
    for option in action.get_arguments().filter(|option| !option.is_hide_set()) {
        let text = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
        texts.push((title(option.get_id().as_str()), text));
    }
    texts.iter().map(|(title, text)| (title.clone(), flat(text))).collect()
}

fn is_about(page: &str, manual: &Manual) -> bool {
    page == "--help" || page.strip_suffix(" --help") == Some(manual.action)
}

#[test]
fn what_is_said_is_so() {
    let mut pages: BTreeMap<&str, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (page, sentence) in said() {
        let text = pages.entry(page).or_insert_with(|| match page.ends_with("--help") {
            false => flat(&read(page)),
            true => {
                let manuals = manual::all().filter(|manual| is_about(page, manual));
                let texts = manuals.flat_map(help).map(|(_, text)| text);
                texts.collect::<Vec<_>>().join("\n")
            }
        });
        if !text.contains(&flat(&sentence)) {
            wrong.push(format!("{page} does not say: {sentence}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Figures in help that are no limit and no default: examples of values, other programs' names and numbers.
const EXAMPLES: [&str; 30] = [
    "14:46, \"10m ago\"",
    "\"2026-11-29 14:46:05\"",
    "14:46:05Z",
    "64M, 1G",
    "eight hours, a gigabyte at most",
    "ten minutes of it",
    "server-1, name-7.ibd",
    "metric and alert has: 3306, orders",
    "servers of these names only: 3306, orders",
    "mysql, mysqld, 4711",
    "a PID (`fsynctop 4711`)",
    "10, 90s, 5m",
    "90s, 10m, 2h",
    "1, 500ms",
    "1, 2, 4 and so on up to this",
    "3306=orders",
    "/var/lib/mysql2=billing",
    "127.0.0.1:9871, [::1]:9871, :9871 for all addresses",
    "127.0.0.1:9872 or [::1]:9872",
    "/api/v1/verdict",
    "(2%/5m)",
    "stalled=5s",
    "the 20 busiest files",
    "a snapshot every two seconds",
    "what stands still for five seconds",
    "five minutes of one of several",
    "99th percentile",
    "The p99",
    "of version 1",
    "fsynctop.toml(5)",
];

/// Words and digits that may be a figure of the program's own.
fn figures(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let places = text.split(' ').scan(0, |at, word| {
        let place = *at..*at + word.len();
        *at += word.len() + 1;
        Some((place, word))
    });
    places.filter(|(_, word)| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let is_number = word.contains(|c: char| c.is_ascii_digit());
        is_number || bare == "half" || WORDS[2..].contains(&bare.as_str())
    })
}

#[test]
fn every_figure_of_the_help_is_held_against_the_code() {
    let said = said();
    let mut unheld = BTreeSet::new();
    let mut held = 0;
    for manual in manual::all() {
        for (title, text) in help(manual).into_iter().filter(|(title, _)| !title.ends_with(COSTS)) {
            let sentences =
                said.iter().filter(|(page, _)| is_about(page, manual)).map(|(_, text)| flat(text));
            let known: Vec<String> = sentences.chain(EXAMPLES.map(str::to_owned)).collect();
            let covered: Vec<Range<usize>> = known
                .iter()
                .flat_map(|sentence| text.match_indices(&**sentence))
                .map(|(at, sentence)| at..at + sentence.len())
                .collect();
            for (place, word) in figures(&text) {
                if covered.iter().any(|range| range.start < place.end && place.start < range.end) {
                    held += 1;
                } else {
                    unheld.insert(format!("{title}: {word:?} in {text:?}"));
                }
            }
        }
    }
    assert!(held > 30, "{held}");
    let unheld: Vec<String> = unheld.into_iter().collect();
    assert!(unheld.is_empty(), "neither in said() nor in EXAMPLES:\n{}", unheld.join("\n"));
}

/// What is written by hand as a default, where clap shows none.
#[test]
fn a_default_of_the_help_is_claps_own_or_is_held_against_the_code() {
    let said = said();
    for manual in manual::all() {
        let sentences: Vec<&String> =
            said.iter().filter(|(page, _)| is_about(page, manual)).map(|(_, sentence)| sentence).collect();
        for (title, text) in help(manual) {
            for default in text.match_indices("[default: ").map(|(at, _)| &text[at..]) {
                let default = &default[..=default.find(']').expect("it ends")];
                let has_figure = default.contains(|c: char| c.is_ascii_digit());
                let is_held = sentences.iter().any(|sentence| sentence.contains(default));
                assert!(!has_figure || is_held, "{title}: {default} is in no line of said()");
            }
        }
    }
}

/// The list of those that a user may be given, by the README and by the page of each action.
#[test]
fn exit_statuses_are_those_of_the_program() {
    let of = |manual: &Manual| manual.exit.iter().map(|(status, _)| *status).collect::<BTreeSet<_>>();
    let program = of(manual::of("").unwrap());
    let known = [
        0,
        exit::FAILED,
        exit::BAD_USAGE,
        exit::NOTHING_TO_TRACE,
        exit::CONDITION,
        exit::INCOMPLETE,
        exit::NOT_ENOUGH,
    ];
    let known: Vec<String> = known.iter().map(u8::to_string).collect();
    let signal = format!("{} + signal", exit::SIGNALLED);
    assert_eq!(program, known.iter().map(String::as_str).chain([&*signal]).collect::<BTreeSet<_>>());
    let readme = read("README.md");
    let (_, table) = readme.split_once("| exit status | |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    assert_eq!(program, rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect::<BTreeSet<_>>());
    let command = root::command();
    for manual in manual::all() {
        for status in of(manual) {
            assert!(program.contains(status) || status == "any", "{:?} may end with {status}", manual.action);
        }
        let Some(action) = command.find_subcommand(manual.action) else { continue };
        let has = |long: &str| action.get_arguments().any(|option| option.get_long() == Some(long));
        let may_hold = has("fail-on") || has("for") || ["verify", "segments"].contains(&manual.action);
        assert_eq!(of(manual).contains("4"), may_hold, "{:?}", manual.action);
        if has("pid") {
            assert!(of(manual).contains("3"), "{:?} with a --pid that is nobody's", manual.action);
        }
        let variables = manual.environment.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(variables.contains(&"MYSQL_PWD"), has("password"), "{:?}", manual.action);
    }
}

/// The states, worst first, each with its row.
#[test]
fn the_page_of_verdicts_has_every_state() {
    let page = read("docs/verdicts.md");
    let (_, table) = page.split_once("| state | what was seen | until |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let rows: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    let mut states = State::ALL.to_vec();
    states.sort_by(|a, b| b.cmp(a));
    assert_eq!(rows, states.iter().map(|state| state.name()).collect::<Vec<_>>());
}
