//! What was written, and how much of it for each byte of the logs.

use std::collections::BTreeMap;

use super::scene::Scene;
use crate::model::{DeviceRow, FileId, FileRow, Role, Target};
use crate::text::{bytes, percent};

/// Below this the logs say next to nothing of what they bring about.
const LEAST_LOGGED: u64 = 64 << 10;
/// A part of what is written that is worth a sentence.
const WORTH_SAYING: f64 = 0.05;
/// Where less than this is written beside the logs, the pages that they speak of have not been written yet.
const HARDLY_ANY: f64 = 0.01;

/// "5.1 bytes for each byte of the redo log and the binary log; the doublewrite buffer is 48 % of them."
/// Data pages are written later than what the logs say of them: a short interval may have more of either, or
/// no page.
pub(super) fn amplification(scene: &Scene) -> Option<String> {
    let mut all = 0;
    let (mut logged, mut doublewrite, mut is_part) = (0, 0, false);
    let mut logs: BTreeMap<Role, u64> = BTreeMap::new();
    for row in scene.m.all_writes().filter(|row| row.server == scene.server) {
        all += row.stats.bytes;
        match row.info.role {
            log if log.is_serial() => *logs.entry(log).or_default() += row.stats.bytes,
            Role::Doublewrite => {
                doublewrite += row.stats.bytes;
                is_part |= matches!(row.target, Target::File(FileId { part: true, .. }));
            }
            _ => {}
        }
    }
    logged += logs.values().sum::<u64>();
    if !scene.watches_all_writes() || logged < LEAST_LOGGED {
        return None;
    }
    let has_pages = logs.keys().any(|log| matches!(log, Role::Redo | Role::Wal));
    let logs = logs.iter().filter(|(_, bytes)| **bytes > 0).map(|(log, _)| log.in_a_sentence());
    let logs = logs.collect::<Vec<_>>().join(" and ");
    if ((all - logged) as f64) < HARDLY_ANY * all as f64 {
        let later = if has_pages { ": the pages that were changed are written later" } else { "" };
        let share = percent(logged as f64 / all as f64);
        return Some(format!("{} were written in all, {share} of them to {logs}{later}.", bytes(all)));
    }
    let times = all as f64 / logged as f64;
    let share = doublewrite as f64 / all as f64;
    // What was written to a part of a file before its place was known is among that file's.
    let is_whole = !is_part || scene.m.tells_doublewrite_apart(scene.server);
    let of_them = match share {
        share if is_whole && share >= WORTH_SAYING => {
            format!("; the doublewrite buffer is {} of them", percent(share))
        }
        _ => String::new(),
    };
    Some(format!("{} were written in all, {times:.1} bytes for each byte of {logs}{of_them}.", bytes(all)))
}

/// Where less was written, nobody asks how much.
const LEAST_ACCOUNTED: u64 = 16 << 20;
/// Less says little of a device: what is written now was submitted before.
const LEAST_SUBMITTED: u64 = 1 << 20;

/// "/dev/vda wrote 156 MB meanwhile, 1.3 bytes for each byte that was written to files on it: …"
pub(super) fn of_devices(scene: &Scene) -> Vec<String> {
    if !scene.watches_all_writes() {
        return by_accounts(scene).into_iter().collect();
    }
    let devices = scene.m.devices.iter().filter(|device| {
        let is_its = |row: &FileRow| row.server == scene.server && row.device_number() == Some(device.number);
        device.submitted_bytes >= LEAST_SUBMITTED && scene.m.all_writes().any(is_its)
    });
    let sentence = |device: &DeviceRow| {
        let times = device.written_bytes as f64 / device.submitted_bytes as f64;
        let name = scene.options.style.name(device.name.as_bytes());
        format!(
            "{name} wrote {} meanwhile, {times:.1} bytes for each byte written to files on it: the filesystem's own and \
             other processes' are among them, what is still in memory is not.",
            bytes(device.written_bytes)
        )
    };
    devices.map(sentence).collect()
}

/// Where writes are not watched: what the kernel accounts to the server's processes, and to the devices.
fn by_accounts(scene: &Scene) -> Option<String> {
    let io = scene.m.io_of(scene.server).filter(|io| io.written_bytes >= LEAST_ACCOUNTED)?;
    let is_its = |device: &&DeviceRow| {
        let is_on_it = |row: &FileRow| row.device_number() == Some(device.number);
        scene.m.files_of(scene.server).iter().any(is_on_it)
    };
    let wrote = |device: &DeviceRow| {
        let name = scene.options.style.name(device.name.as_bytes());
        format!("; {name} wrote {}, for all processes", bytes(device.written_bytes))
    };
    let devices: String = scene.m.devices.iter().filter(is_its).map(wrote).collect();
    Some(format!("The server wrote {} to files{devices} (--writes all: by file).", bytes(io.written_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Interval, Op, ServerIo, fixture};
    use crate::render::Options;
    use std::sync::Arc;

    fn written(of: &[(Role, Op, u64)]) -> Interval {
        let mut m = fixture::quiet();
        Arc::make_mut(&mut m.setup).ops.push(Op::Write);
        for (number, &(role, op, bytes)) in of.iter().enumerate() {
            let mut stats = fixture::stats(&[(1, 1_000)]);
            stats.bytes = bytes;
            let row: FileRow = fixture::row(fixture::MYSQL, number as u64, "/d/file", role, op, stats);
            if op.makes_durable() { m.files.push(row) } else { m.writes.push(row) }
        }
        m
    }

    fn said(m: &Interval) -> Option<String> {
        amplification(&Scene { m, server: fixture::MYSQL, options: &Options::default() })
    }

    #[test]
    fn without_its_writes_a_server_has_what_the_kernel_accounts_to_it() {
        let mut m = written(&[(Role::Redo, Op::Fsync, 0)]);
        Arc::make_mut(&mut m.setup).ops.retain(|&op| op != Op::Write);
        let file = m.files[0].clone();
        m.devices = vec![DeviceRow {
            number: file.device_number().unwrap(),
            name: "/dev/vda".into(),
            mount: None,
            written_bytes: 156_000_000,
            read_bytes: 0,
            submitted_bytes: 0,
        }]
        .into();
        let said =
            |m: &Interval| of_devices(&Scene { m, server: fixture::MYSQL, options: &Options::default() });
        assert_eq!(said(&m), Vec::<String>::new());
        let io = |written_bytes| ServerIo {
            server: fixture::MYSQL,
            read_bytes: 0,
            written_bytes,
            cancelled_bytes: 0,
        };
        m.io = vec![io(61_000_000)].into();
        assert_eq!(
            said(&m),
            [
                "The server wrote 61 MB to files; /dev/vda wrote 156 MB, for all processes (--writes all: by file)."
            ]
        );
        m.io = vec![io(1_000)].into();
        assert_eq!(said(&m), Vec::<String>::new());
    }

    #[test]
    fn what_is_written_is_held_against_the_logs() {
        let mut m = written(&[
            (Role::Redo, Op::DsyncWrite, 300_000),
            (Role::Binlog, Op::Write, 100_000),
            (Role::Doublewrite, Op::Write, 980_000),
            (Role::Tablespace, Op::IoUringWrite, 660_000),
        ]);
        let whole = "2.0 MB were written in all, 5.1 bytes for each byte of the redo log and the binary log; the \
                     doublewrite buffer is 48 % of them.";
        assert_eq!(said(&m).as_deref(), Some(whole));
        // A part of a file, and not told apart from the beginning on.
        let row = m.writes.iter_mut().find(|row| row.info.role == Role::Doublewrite).unwrap();
        if let Target::File(id) = &mut row.target {
            id.part = true;
        }
        let without = whole.split_once("; the").unwrap().0.to_owned() + ".";
        assert_eq!(said(&m), Some(without));
        Arc::make_mut(&mut m.setup).ops.extend([Op::IoUringWrite, Op::AioWrite]);
        Arc::make_mut(&mut m.servers[0]).doublewrite_apart_since = Some(std::time::Duration::ZERO);
        assert_eq!(said(&m).as_deref(), Some(whole));
        Arc::make_mut(&mut m.setup).ops.retain(|&op| op != Op::Write);
        assert_eq!(said(&m), None, "nothing is known of the others");
    }

    #[test]
    fn a_device_is_held_against_what_was_written_to_files_on_it() {
        let mut m = written(&[(Role::Redo, Op::Write, 100 << 20)]);
        let Target::File(file) = m.writes[0].target else { unreachable!() };
        let device = |number, written_bytes| DeviceRow {
            number,
            name: "/dev/v\nda".into(),
            mount: None,
            written_bytes,
            read_bytes: 0,
            submitted_bytes: 100 << 20,
        };
        m.devices = vec![device(file.device, 130 << 20), device(file.device + 1, 1 << 20)].into();
        let said = of_devices(&Scene { m: &m, server: fixture::MYSQL, options: &Options::default() });
        assert_eq!(
            said,
            [
                "/dev/v\\nda wrote 136 MB meanwhile, 1.3 bytes for each byte written to files on it: the filesystem's own and \
              other processes' are among them, what is still in memory is not."
            ]
        );
        m.devices[0].submitted_bytes = 1_000;
        let said = of_devices(&Scene { m: &m, server: fixture::MYSQL, options: &Options::default() });
        assert!(said.is_empty(), "{said:?}");
    }

    #[test]
    fn logs_that_say_next_to_nothing_are_held_against_nothing() {
        assert_eq!(said(&written(&[(Role::Tablespace, Op::Write, 1 << 30)])), None);
        assert_eq!(said(&written(&[(Role::Redo, Op::Write, 1_000), (Role::Undo, Op::Write, 1 << 20)])), None);
        let one = said(&written(&[(Role::Redo, Op::Write, 100_000), (Role::Undo, Op::Write, 50_000)]));
        assert_eq!(
            one.as_deref(),
            Some("150 kB were written in all, 1.5 bytes for each byte of the redo log.")
        );
        let no_page = written(&[(Role::Redo, Op::Write, 1_000_000), (Role::Other, Op::Write, 8_000)]);
        let to_the_log = "1.0 MB were written in all, 99 % of them to the redo log: the pages that were changed are written \
                          later.";
        assert_eq!(said(&no_page).as_deref(), Some(to_the_log));
    }
}
