//! One measurement as a JSON object on one line.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use super::json_figures::{Figures, by_name};
use super::json_schema as schema;
use super::row::{About, Key, Row};
use super::rows::{everyone, rows};
use super::{By, Options, reading};
use crate::linux::mountinfo::format_device;
use crate::model::durability;
use crate::model::{
    Backlog, DeviceRow, FileRow, Interval, Op, Server, ServerId, StorageStack, Table, Target, ThreadRow,
    UnsyncedRole, UnsyncedRow,
};
use crate::text::{errno, is_deceptive, length, rfc3339, seconds};

/// Writes the object and a newline.
pub(crate) fn write(m: &Interval, out: &mut impl Write) -> io::Result<()> {
    write_visible(&of(m), out)
}

/// A measurement with at most so many files, and threads: those that come first in a table of them.
pub(crate) fn limited(m: &Interval, options: &Options, limit: usize) -> schema::Measurement {
    let rows = |by| rows(m, &everyone(m), &Options { by, ..options.clone() });
    let (files, writes, threads) = (rows(By::File), rows(By::Writes), rows(By::Thread));
    let rows_left_out = Interval { files: Table::default(), threads: Table::default(), ..m.clone() };
    let rest = |rows: &[Row]| {
        let rest = rows.get(limit..).unwrap_or_default();
        schema::Rest { rows: rest.len() as u64, count: rest.iter().map(|row| row.stats.count).sum() }
    };
    let all_writes = m.setup.ops.contains(&Op::Write);
    let left_out = schema::LeftOut {
        files: rest(&files),
        writes: all_writes.then(|| rest(&writes)),
        threads: m.setup.by_thread.then(|| rest(&threads)),
    };
    let of_files = |rows: &[Row]| rows.iter().take(limit).filter_map(|row| file_of(row, m)).collect();
    let of_threads = || threads.iter().take(limit).filter_map(|row| thread_of(row, m)).collect();
    schema::Measurement {
        left_out: Some(left_out),
        files: of_files(&files),
        writes: all_writes.then(|| of_files(&writes)),
        threads: m.setup.by_thread.then(of_threads),
        ..of(&rows_left_out)
    }
}

fn file_of(row: &Row, m: &Interval) -> Option<schema::FileRow<Figures>> {
    let About::File(file) = &row.about else { return None };
    let (server, op) = (row.server()?, row.op()?);
    let (target, info, stats) = (file.target, file.info.clone(), row.stats.clone());
    Some(file_row(&FileRow { server, target, op, info, stats }, m))
}

fn thread_of(row: &Row, m: &Interval) -> Option<schema::ThreadRow> {
    let (Key::Thread(server, tid, start, op), About::Thread(name)) = (&row.key, &row.about) else {
        return None;
    };
    let (server, tid, start, op, name) = (*server, *tid, *start, *op, name.clone());
    Some(thread_row(&ThreadRow { server, tid, start, name, op, stats: row.stats.clone() }, m))
}

fn file_row(row: &FileRow, m: &Interval) -> schema::FileRow<Figures> {
    file(row, Figures::of(Some(row.op), &row.stats, m))
}

fn thread_row(row: &ThreadRow, m: &Interval) -> schema::ThreadRow {
    schema::ThreadRow {
        pid: row.server.pid,
        tid: row.tid,
        thread: row.name.clone(),
        op: row.op.into(),
        figures: Figures::of(Some(row.op), &row.stats, m),
    }
}

/// Writes one object that is safe on a terminal, and a newline.
pub(crate) fn write_visible(object: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let mut json = serde_json::Serializer::with_formatter(&mut *out, Visible);
    object.serialize(&mut json)?;
    out.write_all(b"\n")
}

/// A measurement in the shape of schema 1.
pub(crate) fn of(m: &Interval) -> schema::Measurement {
    schema::Measurement {
        schema: 1,
        start: rfc3339(m.span.start),
        end: rfc3339(m.span.end),
        duration_seconds: length(m.span.duration),
        attach: m.setup.mode,
        kernel: m.setup.kernel.clone(),
        host: m.setup.host.clone(),
        lost: m.lost,
        not_watched: durability::not_watched(&m.setup.ops).map(|way| way.name).collect(),
        unwatched_counted_on: m.setup.net.filesystems.clone(),
        note: m.setup.note.clone(),
        servers: m.servers.iter().map(|server| self::server(server, m)).collect(),
        roles: m
            .roles
            .iter()
            .map(|row| schema::RoleRow {
                pid: row.server.pid,
                role: row.role,
                op: row.op.into(),
                figures: Figures::of(Some(row.op), &row.stats, m),
            })
            .collect(),
        files: m.files.iter().map(|row| file_row(row, m)).collect(),
        failed: failed(m),
        writes: m
            .setup
            .ops
            .contains(&Op::Write)
            .then(|| m.all_writes().map(|row| file_row(row, m)).collect()),
        devices: m.devices.iter().map(|row| device(row, m)).collect(),
        unsynced: unsynced_where_watched(m, || unsynced_roles(m)),
        unsynced_files: unsynced_where_watched(m, || m.unsynced.rows.iter().map(unsynced_file).collect()),
        unsynced_unknown_bytes: unsynced_where_watched(m, || m.unsynced.dropped),
        threads: m.setup.by_thread.then(|| m.threads.iter().map(|row| thread_row(row, m)).collect()),
        left_out: None,
        in_flight: m
            .in_flight
            .iter()
            .map(|sync| {
                let (path, path_bytes) = split(sync.path.as_deref());
                schema::InFlight {
                    pid: sync.server.pid,
                    tid: sync.tid,
                    thread: sync.thread.clone(),
                    op: sync.op.into(),
                    role: sync.role,
                    path,
                    path_bytes,
                    age_seconds: length(sync.age),
                    age_is_minimum: sync.age_is_minimum,
                    waits_for: sync.waits_for.clone(),
                }
            })
            .collect(),
        neighbours: m
            .neighbours
            .iter()
            .map(|row| schema::Neighbour {
                device: row.device.clone(),
                device_number: format_device(row.device_number),
                comm: row.comm.clone(),
                untimed: row.stats.untimed,
                figures: Figures::of(None, &row.stats, m),
            })
            .collect(),
        verdicts: None,
    }
}

pub(crate) fn device(row: &DeviceRow, m: &Interval) -> schema::Device {
    let (mount, mount_bytes) = split(row.mount.as_deref());
    schema::Device {
        device: row.name.clone(),
        device_number: format_device(row.number),
        mount,
        mount_bytes,
        written_bytes: row.written_bytes,
        read_bytes: row.read_bytes,
        submitted_bytes: m.setup.ops.contains(&Op::Write).then_some(row.submitted_bytes),
    }
}

fn server(server: &Server, m: &Interval) -> schema::Server {
    let (product, version) = match server.version.as_deref().map(|version| version.split_once(' ')) {
        Some(Some((name, version))) => (Some(name.to_owned()), Some(version.to_owned())),
        Some(None) => (server.version.clone(), None),
        None => (None, None),
    };
    let (datadir, datadir_bytes) = split(server.datadir.as_deref());
    schema::Server {
        pid: server.id.pid,
        start_since_boot_seconds: seconds(server.id.start_ns),
        name: server.name.clone(),
        comm: server.comm.clone(),
        engine: server.engine.as_ref().map(|engine| engine.name.clone()),
        server: product,
        version,
        datadir: datadir.map(|datadir| schema::Datadir { datadir, datadir_bytes }),
        container: server.container.clone(),
        ports: server.ports.clone(),
        socket: split(server.socket.as_deref()).0,
        device: server.device.clone(),
        filesystem: server.filesystem.clone(),
        storage: server.data_storage().map(|one| stack(server, one)).collect(),
        seccomp_filters: server.seccomp_filters,
        notes: server.notes.clone(),
        alive: server.alive,
        unwatched: m.unwatched_of(server.id),
        io: m.io_of(server.id).map(|io| schema::Io {
            read_bytes: io.read_bytes,
            written_bytes: io.written_bytes,
            cancelled_bytes: io.cancelled_bytes,
        }),
    }
}

fn file<F>(row: &FileRow, figures: F) -> schema::FileRow<F> {
    let (path, path_bytes) = split(row.info.path.as_deref());
    let (mount, mount_bytes) = split(row.info.mount.as_deref());
    let (target, id, number) = match row.target {
        Target::File(id) => ("file", Some(id), Some(id.device)),
        Target::Filesystem(number) => ("filesystem", None, Some(number)),
        Target::NoFile => ("none", None, None),
        Target::BadDescriptor => ("bad_descriptor", None, None),
        Target::Unattributed => ("unattributed", None, None),
        // A shared row counts nothing, and a measurement leaves those out.
        Target::Gone(_) | Target::Shared(_) => ("gone", None, None),
    };
    schema::FileRow {
        pid: row.server.pid,
        role: row.info.role,
        op: row.op.into(),
        target,
        path,
        path_bytes,
        device: row.info.device.clone(),
        device_number: number.map(format_device),
        mount,
        mount_bytes,
        filesystem: row.info.filesystem.clone(),
        inode: id.map(|id| id.inode),
        generation: id.map(|id| id.generation),
        identity_weak: id.map(|id| id.weak),
        open: row.info.open,
        figures,
    }
}

fn unsynced_where_watched<T>(m: &Interval, of: impl FnOnce() -> T) -> Option<T> {
    m.setup.ops.contains(&Op::Write).then(of)
}

pub(crate) fn unsynced_roles(m: &Interval) -> Vec<schema::UnsyncedRole> {
    let of = |row: &UnsyncedRole| schema::UnsyncedRole {
        pid: row.server.pid,
        role: row.role,
        durable: reading::durability(m, row.server, row.role).name(),
        backlog: backlog(row.now, row.most, row.possibly_lost),
    };
    m.unsynced.roles().iter().map(of).collect()
}

fn stack(server: &Server, stack: &StorageStack) -> schema::Stack {
    let (mount, mount_bytes) = split(Some(&stack.mount));
    let durability = server.durability_of(Some(&stack.mount));
    schema::Stack {
        mount,
        mount_bytes,
        layers: stack.layers.clone(),
        durable: durability.name(),
        because: durability.because().map(str::to_owned),
    }
}

fn unsynced_file(row: &UnsyncedRow) -> schema::UnsyncedFile {
    let (path, path_bytes) = split(row.info.path.as_deref());
    let id = if let Target::File(id) = row.target { Some(id) } else { None };
    schema::UnsyncedFile {
        pid: row.server.pid,
        role: row.info.role,
        path,
        path_bytes,
        device_number: id.map(|id| format_device(id.device)),
        inode: id.map(|id| id.inode),
        generation: id.map(|id| id.generation),
        open: row.info.open,
        backlog: backlog(row.now, row.most, row.possibly_lost),
    }
}

fn backlog(now: Backlog, most: Backlog, possibly_lost: u64) -> schema::Backlog {
    let age = |of: Backlog| (of.bytes > 0).then(|| length(of.age));
    schema::Backlog {
        bytes: now.bytes,
        oldest_seconds: age(now),
        max_bytes: most.bytes,
        max_oldest_seconds: age(most),
        sync_failed: possibly_lost > 0,
        possibly_lost_bytes: possibly_lost,
    }
}

/// What failed beside the syncs.
pub(crate) fn failed(m: &Interval) -> schema::Failed {
    let (writeback, others): (Vec<&FileRow>, Vec<&FileRow>) =
        m.failures.iter().partition(|row| row.op == Op::Writeback);
    let failures = |row: &FileRow| {
        file(row, schema::Failures { count: row.stats.count, errors: by_name(&row.stats.errors) })
    };
    schema::Failed {
        failures: others.into_iter().map(failures).collect(),
        writeback_errors: writeback.into_iter().flat_map(writeback_errors).collect(),
    }
}

/// One for each errno.
fn writeback_errors(row: &FileRow) -> impl Iterator<Item = schema::WritebackError> {
    row.stats.errors.iter().map(|(&number, &count)| {
        let is_known = row.server != ServerId::NONE;
        let schema::FileRow { target, path, path_bytes, device, device_number, mount, mount_bytes, .. } =
            file(row, ());
        let id = if let Target::File(id) = row.target { Some(id) } else { None };
        schema::WritebackError {
            pid: is_known.then_some(row.server.pid),
            role: is_known.then_some(row.info.role),
            target,
            path,
            path_bytes,
            device,
            device_number,
            mount,
            mount_bytes,
            filesystem: row.info.filesystem.clone(),
            inode: id.map(|id| id.inode),
            generation: id.map(|id| id.generation),
            error: errno(number),
            count,
        }
    })
}

/// A path as a string, and its bytes in hexadecimal where it is not UTF-8: then each invalid byte stands in
/// the string as `\xff`, and the bytes tell what it was.
pub(crate) fn split(path: Option<&Path>) -> (Option<String>, Option<String>) {
    let Some(path) = path else { return (None, None) };
    if let Some(text) = path.to_str() {
        return (Some(text.to_owned()), None);
    }
    let bytes = path.as_os_str().as_bytes();
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    (Some(text), Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Compact JSON that is safe on a terminal: characters that control it or deceive its reader are written as
/// JSON's own `\u009b`, which means the same to every parser.
struct Visible;

impl serde_json::ser::Formatter for Visible {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_deceptive) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let mut chars = from.chars();
            if let Some(c) = chars.next() {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
