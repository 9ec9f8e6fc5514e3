//! From the books to metric families.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::book::{Book, Place};
use super::families::{self as family, Family};
use super::neighbours::mount_label;
use super::own::Own;
use super::samples::Samples;
use super::totals::ERRNOS;
use crate::exporter::web::Figures;
use crate::model::{Amount, Backlog, Exported, Op, Role, Server, Setup, Via};
use crate::probe::build_info;
use crate::text;
use crate::text::seconds;
use crate::verdict::State;

/// Everything that is exposed. Families of which there is nothing to say are there without samples.
pub fn families(book: &Book, own: &Own) -> Vec<Samples> {
    let mut all = of_servers(book);
    all.extend(of_verdicts(own));
    all.extend(of_files(book));
    all.extend(of_neighbours(book));
    all.extend(of_tracing(book, own));
    all.extend(own.samples(book));
    let buckets = book.options().buckets.len();
    let number: usize = all.iter().map(|samples| samples.number(buckets)).sum();
    let mut samples = Samples::of(&family::SAMPLES);
    samples.add(&[], (number + 1) as f64);
    all.push(samples);
    all
}

fn of_servers(book: &Book) -> Vec<Samples> {
    let mut durations = Samples::of(&family::SYNC_DURATION);
    let mut errors = Samples::of(&family::SYNC_ERRORS);
    let mut bytes = Samples::of(&family::DURABLE_BYTES);
    let mut write_durations = Samples::of(&family::WRITE_DURATION);
    let mut written = Samples::of(&family::WRITTEN_BYTES);
    let mut failed_writes = Samples::of(&family::FAILED_WRITES);
    let mut writeback = Samples::of(&family::WRITEBACK_ERRORS);
    let mut unsynced = Samples::of(&family::UNSYNCED_BYTES);
    let mut unsynced_age = Samples::of(&family::UNSYNCED_OLDEST);
    let mut in_flight = Samples::of(&family::IN_FLIGHT);
    let mut oldest = Samples::of(&family::OLDEST_IN_FLIGHT);
    let mut storage = Samples::of(&family::STORAGE_INFO);
    let (mut info, mut pid, mut start, mut up) = (
        Samples::of(&family::SERVER_INFO),
        Samples::of(&family::SERVER_PID),
        Samples::of(&family::SERVER_START),
        Samples::of(&family::SERVER_UP),
    );
    let all_writes = watches_all_writes(book);
    for place in book.places() {
        let label = place.label.as_str();
        for (&(role, op), totals) in &place.totals.roles {
            let labels = [label, role.name(), op.what(), op.via().name()];
            durations.add_histogram(&labels, totals);
            if op.writes() {
                bytes.add(&[label, role.name(), op.via().name()], totals.bytes as f64);
            }
        }
        for (&(role, op), totals) in &place.totals.writes {
            let labels = [label, role.name(), op.what(), op.via().name()];
            write_durations.add_histogram(&labels, totals);
            if op.writes() {
                written.add(&labels, totals.bytes as f64);
            }
        }
        for (samples, by_role) in [
            (&mut errors, &place.totals.failed_syncs),
            (&mut failed_writes, &place.totals.failed_writes),
            (&mut writeback, &place.totals.writeback_errors),
        ] {
            for (role, counts) in by_role {
                for (errno, &n) in ERRNOS.iter().zip(counts) {
                    samples.add(&[label, role.name(), errno], n as f64);
                }
            }
        }
        for (role, backlog) in backlogs(place, all_writes) {
            unsynced.add(&[label, role.name()], backlog.bytes as f64);
            unsynced_age.add(&[label, role.name()], backlog.age.as_secs_f64());
        }
        for (role, count, age) in running(place) {
            in_flight.add(&[label, role], count as f64);
            oldest.add(&[label, role], age.as_secs_f64());
        }
        if let Some(server) = place.server() {
            up.add(&[label], f64::from(u8::from(place.is_alive)));
            add_info(&mut info, label, server);
            for stack in server.data_storage() {
                let durable = server.durability_of(Some(&stack.mount));
                let layers = text::escape(stack.layers.join(" ").as_bytes());
                storage.add(&[label, &mount_label(&stack.mount), &layers, durable.name()], 1.0);
            }
            pid.add(&[label], f64::from(server.id.pid));
            start.add(&[label], start_time(server, book));
        }
    }
    vec![
        durations,
        errors,
        bytes,
        write_durations,
        written,
        failed_writes,
        writeback,
        unsynced,
        unsynced_age,
        in_flight,
        oldest,
        up,
        info,
        storage,
        pid,
        start,
    ]
}

fn watches_all_writes(book: &Book) -> bool {
    book.last().is_some_and(|snapshot| snapshot.setup.ops.contains(&Op::Write))
}

/// Each state of each server, so that one that is rare is there before it comes.
fn of_verdicts(own: &Own) -> Vec<Samples> {
    let mut verdicts = Samples::of(&family::VERDICT);
    let mut since = Samples::of(&family::VERDICT_SINCE);
    for server in own.verdicts.iter().flat_map(|told| told.now()) {
        for state in State::ALL {
            verdicts.add(&[&server.name, state.name()], f64::from(u8::from(state == server.state)));
        }
        since.add(&[&server.name], since_1970(server.since()));
    }
    vec![verdicts, since]
}

/// Roles of which syncs were seen, or are expected, with what is in flight.
fn running(place: &Place) -> impl Iterator<Item = (&'static str, u64, Duration)> {
    let seen = place.totals.roles.iter().filter(|(_, totals)| totals.latencies.is_some());
    let mut roles: Vec<_> = seen.map(|(&(role, _), _)| role).chain(place.in_flight.keys().copied()).collect();
    roles.extend(expected(place));
    roles.sort_unstable();
    roles.dedup();
    roles.into_iter().map(|role| {
        let (count, age) = place.in_flight.get(&role).copied().unwrap_or_default();
        (role.name(), count, age)
    })
}

/// Of the logs of a server that is known from the start, of other roles once there was any. Nothing where
/// writes are not watched.
fn backlogs(place: &Place, all_writes: bool) -> BTreeMap<Role, Backlog> {
    if !all_writes {
        return BTreeMap::new();
    }
    let mut all = place.unsynced.clone();
    for &role in expected(place) {
        all.entry(role).or_default();
    }
    all
}

/// The logs of which syncs will come.
fn expected(place: &Place) -> &[Role] {
    place.server().filter(|server| server.is_database()).map_or(&[], Server::logs)
}

fn add_info(info: &mut Samples, label: &str, server: &Server) {
    let path = |path: &Option<PathBuf>| {
        path.as_ref().map(|path| text::escape(path.as_os_str().as_encoded_bytes())).unwrap_or_default()
    };
    let name =
        |name: &Option<String>| name.as_ref().map(|name| text::escape(name.as_bytes())).unwrap_or_default();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let known = &server.known_by;
    info.add(
        &[
            label,
            &name(&server.version),
            &text::escape(server.comm.as_bytes()),
            &name(&known.uuid),
            &number(known.server_id),
            &path(&server.datadir),
            &path(&server.socket),
            &number(known.port.map(u64::from)),
            &name(&server.container),
            &name(&server.device),
            &server.mount.as_deref().map(mount_label).unwrap_or_default(),
            &name(&server.filesystem),
        ],
        1.0,
    );
}

/// In seconds since 1970.
fn start_time(server: &Server, book: &Book) -> f64 {
    since_1970(book.boot_time() + Duration::from_nanos(server.id.start_ns))
}

fn of_files(book: &Book) -> Vec<Samples> {
    let mut syncs = Samples::of(&family::FILE_SYNCS);
    let mut time = Samples::of(&family::FILE_SYNC_SECONDS);
    for place in book.places() {
        for (role, op, path, work) in place.totals.files.iter() {
            let labels = [place.label.as_str(), role.name(), op.what(), op.via().name(), &path];
            syncs.add(&labels, work.count as f64);
            time.add(&labels, seconds(work.sum_ns));
        }
    }
    vec![syncs, time]
}

fn of_neighbours(book: &Book) -> Vec<Samples> {
    let mut syncs = Samples::of(&family::NEIGHBOUR_SYNCS);
    let mut time = Samples::of(&family::NEIGHBOUR_SYNC_SECONDS);
    let mut untimed = Samples::of(&family::NEIGHBOUR_UNTIMED_SYNCS);
    for (device, mount, comm, its) in book.neighbours.iter() {
        let labels = [device, mount, comm];
        syncs.add(&labels, its.work.count as f64);
        time.add(&labels, seconds(its.work.sum_ns));
        untimed.add(&labels, its.untimed as f64);
    }
    vec![syncs, time, untimed]
}

fn of_tracing(book: &Book, own: &Own) -> Vec<Samples> {
    let mut up = Samples::of(&family::UP);
    up.add(&[], f64::from(u8::from(own.is_tracing)));
    let mut lost = Samples::of(&family::LOST);
    let counts = &book.lost;
    for loss in counts.losses() {
        if let (Exported::Kind, Amount::Count(n)) = (loss.exported, loss.amount) {
            lost.add(&[loss.name], n as f64);
        }
    }
    let mut paused = Samples::of(&family::PAUSED);
    // In a pause there are no snapshots.
    let since = book.last().map_or(Duration::ZERO, |last| last.taken.elapsed());
    let goes_on = if own.is_paused { since } else { Duration::ZERO };
    paused.add(&[], (counts.paused + goes_on).as_secs_f64());
    let mut unsynced_unknown = Samples::of(&family::UNSYNCED_UNKNOWN);
    if watches_all_writes(book) {
        unsynced_unknown.add(&[], book.unsynced_dropped as f64);
    }
    let mut nameless = Samples::of(&family::NAMELESS_FILES);
    nameless.add(&[], counts.names as f64);
    let mut attached = Samples::of(&family::ATTACH_INFO);
    let mut taken = Samples::of(&family::SNAPSHOT_TIME);
    if let Some(snapshot) = book.last() {
        add_attached(&mut attached, &snapshot.setup);
        taken.add(&[], since_1970(snapshot.taken_wall));
    }
    let mut tested = Samples::of(&family::SELF_TEST);
    if let Some(time) = own.self_test {
        tested.add(&[], since_1970(time));
    }
    let mut interval = Samples::of(&family::SNAPSHOT_INTERVAL);
    interval.add(&[], own.interval.as_secs_f64());
    vec![up, lost, paused, unsynced_unknown, nameless, attached, tested, taken, interval]
}

fn add_attached(attached: &mut Samples, setup: &Setup) {
    let ops: Vec<_> = setup.ops.iter().filter(|op| op.via() == Via::Call).map(|op| op.name()).collect();
    let reasons: Vec<_> =
        setup.not_chosen.iter().map(|(mode, reason)| format!("{}: {reason}", mode.name())).collect();
    let reasons = text::shorten_middle(&text::escape_sentence(&reasons.join("; ")), 200, "…");
    attached.add(&[setup.mode.name(), &text::escape(setup.kernel.as_bytes()), &ops.join(","), &reasons], 1.0);
}

impl Own {
    fn samples(&self, book: &Book) -> Vec<Samples> {
        let one = |family: &'static Family, value: f64| {
            let mut samples = Samples::of(family);
            samples.add(&[], value);
            samples
        };
        let mut build = Samples::of(&family::BUILD_INFO);
        let info = build_info();
        let (commit, date) = (info.commit.unwrap_or_default(), info.commit_date.unwrap_or_default());
        let architecture = std::env::consts::ARCH;
        build.add(&[info.version, architecture, info.target, commit, date, &info.libbpf, info.objects], 1.0);
        let mut all = vec![
            build,
            one(&family::MAP_BYTES, self.map_bytes as f64),
            one(&family::HISTORY_BYTES, self.history_bytes as f64),
            one(&family::HISTORY_SECONDS, self.history_length.as_secs_f64()),
            one(&family::HISTORY_SHORT, f64::from(u8::from(self.history_is_short))),
        ];
        all.extend(of_web(&self.web));
        if let Some(process) = &self.web_process {
            all.push(one(&family::WEB_CPU, process.cpu_seconds));
            all.push(one(&family::WEB_RESIDENT, process.resident_bytes as f64));
        }
        if let Some(recording) = &self.recording {
            let written = recording.written;
            all.extend([
                one(&family::RECORDING_FAILING, f64::from(u8::from(recording.is_failing))),
                one(&family::RECORDING_WRITTEN, written.bytes as f64),
                one(&family::RECORDING_SIZE, written.size as f64),
                one(&family::RECORDING_INTERVALS, written.intervals as f64),
                one(&family::RECORDING_LOST, written.lost as f64),
                one(&family::RECORDING_WAITING, recording.waiting as f64),
            ]);
            let last = recording.last_ns.map(|ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns));
            all.extend(last.map(|time| one(&family::RECORDING_LAST, since_1970(time))));
        }
        if let Some(process) = &self.recorder {
            all.push(one(&family::RECORDER_CPU, process.cpu_seconds));
            all.push(one(&family::RECORDER_RESIDENT, process.resident_bytes as f64));
        }
        if let Some(process) = &self.process {
            all.extend([
                one(&family::PROCESS_CPU, process.cpu_seconds),
                one(&family::PROCESS_RESIDENT, process.resident_bytes as f64),
                one(&family::PROCESS_VIRTUAL, process.virtual_bytes as f64),
                one(&family::PROCESS_FDS, process.open_fds as f64),
                one(&family::PROCESS_THREADS, process.threads as f64),
                one(&family::PROCESS_START, since_1970(book.boot_time() + process.started)),
            ]);
            all.extend(process.max_fds.map(|most| one(&family::PROCESS_MAX_FDS, most as f64)));
        }
        all
    }
}

fn of_web(web: &Figures) -> Vec<Samples> {
    let one = |family: &'static Family, value: f64| {
        let mut samples = Samples::of(family);
        samples.add(&[], value);
        samples
    };
    let by = |family: &'static Family, values: &[(&str, u64)]| {
        let mut samples = Samples::of(family);
        values.iter().for_each(|&(label, n)| samples.add(&[label], n as f64));
        samples
    };
    let made = web.made;
    let mut requests = Samples::of(&family::REQUESTS);
    web.requests().for_each(|(code, n)| requests.add(&[&code.to_string()], n as f64));
    vec![
        one(&family::SCRAPES, made.count as f64),
        one(&family::SCRAPE_SECONDS, made.total.as_secs_f64()),
        one(&family::EXPOSITION_BYTES, made.last_bytes as f64),
        requests,
        one(&family::CONNECTIONS, web.connections as f64),
        by(
            &family::CONNECTIONS_DROPPED,
            &[
                ("refused", web.refused),
                ("gave_way", web.gave_way),
                ("timed_out", web.timed_out),
                ("failed_handshake", web.failed_handshakes),
            ],
        ),
        one(&family::DENIED, web.denied as f64),
        by(&family::RELOADS, &[("ok", web.reloads), ("failed", web.failed_reloads)]),
    ]
}

fn since_1970(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Microseconds are what a float of this size can hold.
    since.as_micros() as f64 / 1e6
}
