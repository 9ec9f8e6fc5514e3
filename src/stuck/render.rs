//! What `fsynctop stuck` prints: a table, oldest first, or JSON.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::scan::{AgeFrom, Scan, Standing, StuckSync};
use super::waits::waits_for;
use crate::snapshot::Role;

/// Which role a path has in the process with this pid.
pub type RoleOf<'a> = &'a dyn Fn(u32, &Path) -> Role;

const COLUMNS: [&str; 7] = ["AGE", "PID", "TID", "THREAD", "OP", "ROLE", "FILE"];

/// The table, or a sentence where there is nothing to show; each thread's kernel stack below its line.
pub fn table(scan: &Scan, role_of: RoleOf) -> String {
    let mut text = String::new();
    if scan.syncs.is_empty() {
        text.push_str("No thread is inside a sync call right now");
        let _ = match scan.finished {
            0 => writeln!(text, "."),
            n => writeln!(text, ": {n} finished within {}.", duration(scan.watched)),
        };
    } else {
        let rows: Vec<[String; 7]> = scan.syncs.iter().map(|sync| row(sync, role_of)).collect();
        let widths: [usize; 7] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
        });
        push_line(&mut text, &COLUMNS.map(str::to_owned), &widths);
        for (sync, row) in scan.syncs.iter().zip(&rows) {
            push_line(&mut text, row, &widths);
            push_below(&mut text, sync);
        }
        text.push('\n');
        text.push_str(&summary(scan));
    }
    push_what_is_missing(&mut text, scan);
    text
}

fn row(sync: &StuckSync, role_of: RoleOf) -> [String; 7] {
    let role = sync.path.as_deref().map_or("-", |path| role_of(sync.pid, path).name());
    let file = match (&sync.path, sync.fd) {
        (Some(path), _) => escape(path.as_os_str().as_bytes()),
        (None, Some(fd)) => format!("descriptor {fd}"),
        (None, None) => "-".to_owned(),
    };
    [
        sync.age.map_or_else(|| "?".to_owned(), |(age, _)| format!("≥ {}", duration(age))),
        sync.pid.to_string(),
        sync.tid.to_string(),
        escape(sync.thread.as_bytes()),
        sync.op.name().to_owned(),
        role.to_owned(),
        file,
    ]
}

fn push_line(text: &mut String, cells: &[String; 7], widths: &[usize; 7]) {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .enumerate()
        // ages and numbers stand to the right
        .map(|(at, (cell, &width))| {
            let space = " ".repeat(width - cell.chars().count());
            if at < 3 { format!("{space}{cell}") } else { format!("{cell}{space}") }
        })
        .collect();
    text.push_str(padded.join("  ").trim_end());
    text.push('\n');
}

fn push_below(text: &mut String, sync: &StuckSync) {
    let mut facts = vec![format!("process {}", escape(sync.comm.as_bytes()))];
    if let Some(mount) = &sync.mount {
        let source = escape(mount.source.as_os_str().as_bytes());
        facts.push(format!("{} on {source}", escape(mount.filesystem.as_bytes())));
    }
    facts.push(match waits_for(&sync.stack, sync.wait_channel.as_deref()) {
        Some(wait) => format!("waits for {} ({})", wait.what, wait.frame),
        None => match sync.wait_channel.as_deref() {
            Some(channel) => format!("waits in {channel}"),
            None => format!("state {}, what it waits for is not readable", sync.state),
        },
    });
    let standing = match sync.standing {
        Standing::Unmoved => Some("has not run since the first look"),
        Standing::Moving => Some("ran between the looks: one slow sync or several"),
        Standing::SeenOnce => None,
    };
    facts.extend(standing.map(str::to_owned));
    // String's formatter cannot fail
    let _ = writeln!(text, "    {}", facts.join(" · "));
    for frame in &sync.stack {
        let _ = writeln!(text, "      {}", escape(frame.as_bytes()));
    }
}

fn summary(scan: &Scan) -> String {
    let count = |standing| scan.syncs.iter().filter(|sync| sync.standing == standing).count();
    let (unmoved, moving, once) =
        (count(Standing::Unmoved), count(Standing::Moving), count(Standing::SeenOnce));
    let watched = duration(scan.watched);
    let mut parts = Vec::new();
    if unmoved > 0 {
        parts.push(format!("{} not moved for {watched}", of_syncs(unmoved, "has", "have")));
    }
    if moving > 0 {
        parts.push(format!("{} in flight and moving", of_syncs(moving, "is", "are")));
    }
    if once > 0 {
        parts.push(format!("{} in flight", of_syncs(once, "is", "are")));
    }
    if scan.finished > 0 {
        parts.push(format!("{} finished meanwhile", scan.finished));
    }
    let mut text = format!("{}.\n", parts.join(", "));
    let known = |from| scan.syncs.iter().any(|sync| sync.age.is_some_and(|(_, known)| known == from));
    let from = match (known(AgeFrom::Blocked), known(AgeFrom::Watched)) {
        (true, false) => "the time since the thread last ran",
        (false, true) => "the time since the first look",
        (true, true) => "the time since the thread last ran, or since the first look",
        (false, false) => return text,
    };
    let _ = writeln!(text, "Ages are minimums ({from}): /proc does not tell when a call began.");
    text
}

fn of_syncs(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 sync {one}") } else { format!("{n} syncs {many}") }
}

fn push_what_is_missing(text: &mut String, scan: &Scan) {
    if scan.unreadable > 0 {
        let _ = writeln!(
            text,
            "{} not readable: that takes root (CAP_SYS_PTRACE), and a security module may forbid even that.",
            of_threads(scan.unreadable)
        );
    }
    if scan.blocked > 0 {
        let processes =
            if scan.blocked == 1 { "1 process".into() } else { format!("{} processes", scan.blocked) };
        let _ = writeln!(text, "{processes} did not answer in time and may be stuck in more than a sync.");
    }
    let without_stack = scan.syncs.iter().filter(|sync| sync.stack.is_empty()).count();
    if without_stack > 0 {
        let _ = writeln!(text, "Kernel stacks need root (CAP_SYS_ADMIN).");
    }
}

fn of_threads(n: usize) -> String {
    if n == 1 { "1 thread is".into() } else { format!("{n} threads are") }
}

/// Three significant digits at most, in the unit that fits.
fn duration(age: Duration) -> String {
    let seconds = age.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The same as one JSON object. Its `in_flight` has the fields that a measurement's has, and more.
pub fn json(scan: &Scan, role_of: RoleOf) -> Value {
    let in_flight: Vec<Value> = scan
        .syncs
        .iter()
        .map(|sync| {
            let wait = waits_for(&sync.stack, sync.wait_channel.as_deref());
            json!({
                "pid": sync.pid,
                "tid": sync.tid,
                "comm": sync.comm,
                "thread": sync.thread,
                "op": sync.op,
                "role": sync.path.as_deref().map(|path| role_of(sync.pid, path)),
                "fd": sync.fd,
                "path": sync.path.as_ref().map(|path| path.to_string_lossy()),
                "device": sync.mount.as_ref().map(|mount| mount.source.to_string_lossy()),
                "device_number": sync.mount.as_ref().map(|m| format!("{}:{}", m.device.0, m.device.1)),
                "mount": sync.mount.as_ref().map(|mount| mount.point.to_string_lossy()),
                "filesystem": sync.mount.as_ref().map(|mount| &mount.filesystem),
                "age_seconds": sync.age.map(|(age, _)| age.as_secs_f64()),
                "age_is_minimum": true,
                "age_from": sync.age.map(|(_, from)| match from {
                    AgeFrom::Blocked => "blocked",
                    AgeFrom::Watched => "watched",
                }),
                "moved": match sync.standing {
                    Standing::Unmoved => Some(false),
                    Standing::Moving => Some(true),
                    Standing::SeenOnce => None,
                },
                "state": sync.state.to_string(),
                "waits_for": wait.map(|wait| wait.what),
                "wait_channel": sync.wait_channel,
                "stack": sync.stack,
            })
        })
        .collect();
    json!({
        "schema": 1,
        "watched_seconds": scan.watched.as_secs_f64(),
        "in_flight": in_flight,
        "finished": scan.finished,
        "unreadable_threads": scan.unreadable,
        "blocked_processes": scan.blocked,
    })
}

/// What a process controls, made harmless for a terminal: control and direction characters and what is no UTF-8
/// as \xNN or \u{N}.
fn escape(bytes: &[u8]) -> String {
    let mut plain = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => plain.push_str("\\\\"),
                c if c.is_ascii_control() => plain.push_str(&format!("\\x{:02x}", c as u32)),
                c if c.is_control() || invisible(c) => plain.push_str(&format!("\\u{{{:x}}}", c as u32)),
                c => plain.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| plain.push_str(&format!("\\x{byte:02x}")));
    }
    plain
}

/// Characters that reorder or hide text.
fn invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mountinfo::Mount;
    use crate::snapshot::Op;

    fn sync() -> StuckSync {
        StuckSync {
            pid: 70,
            tid: 71,
            thread: "ib_log_flush".into(),
            comm: "mysqld".into(),
            op: Op::Fdatasync,
            fd: Some(3),
            path: Some("/var/lib/mysql/#innodb_redo/#ib_redo5".into()),
            mount: Some(Mount {
                device: (254, 16),
                point: "/var".into(),
                filesystem: "ext4".into(),
                source: "/dev/vdb".into(),
            }),
            state: 'D',
            stack: vec!["jbd2_log_wait_commit".into(), "ext4_sync_file".into()],
            wait_channel: Some("jbd2_log_wait_commit".into()),
            standing: Standing::Unmoved,
            age: Some((Duration::from_millis(3210), AgeFrom::Blocked)),
        }
    }

    fn scan(syncs: Vec<StuckSync>) -> Scan {
        Scan { syncs, watched: Duration::from_millis(200), ..Scan::default() }
    }

    fn redo(pid: u32, _: &Path) -> Role {
        assert_eq!(pid, 70);
        Role::Redo
    }

    #[test]
    fn a_stuck_sync_is_a_line_its_wait_and_its_stack() {
        let expected = "    AGE  PID  TID  THREAD        OP         ROLE  FILE
≥ 3.2 s   70   71  ib_log_flush  fdatasync  redo  /var/lib/mysql/#innodb_redo/#ib_redo5
    process mysqld · ext4 on /dev/vdb · waits for the journal commit (jbd2_log_wait_commit) · has not run since \
the first look
      jbd2_log_wait_commit
      ext4_sync_file

1 sync has not moved for 200 ms.
Ages are minimums (the time since the thread last ran): /proc does not tell when a call began.
";
        assert_eq!(table(&scan(vec![sync()]), &redo), expected);
    }

    #[test]
    fn nothing_stuck_is_a_sentence() {
        assert_eq!(table(&scan(vec![]), &redo), "No thread is inside a sync call right now.\n");
        let hidden = Scan { unreadable: 2, blocked: 1, ..scan(vec![]) };
        let text = table(&hidden, &redo);
        assert!(text.contains("2 threads are not readable"), "{text}");
        assert!(text.contains("1 process did not answer"), "{text}");
        let busy = table(&Scan { finished: 3, ..scan(vec![]) }, &redo);
        assert_eq!(busy, "No thread is inside a sync call right now: 3 finished within 200 ms.\n");
    }

    #[test]
    fn what_a_process_controls_cannot_reach_the_terminal() {
        let hostile = StuckSync {
            thread: "\u{1b}[2J".into(),
            comm: "a\nb".into(),
            path: Some(std::ffi::OsStr::from_bytes(b"/x\x1b]0;y\x07/\xff\xe2\x80\xae").into()),
            stack: vec![],
            wait_channel: None,
            age: None,
            ..sync()
        };
        let text = table(&scan(vec![hostile]), &redo);
        assert!(text.contains(r"/x\x1b]0;y\x07/\xff\u{202e}"), "{text}");
        assert!(text.contains(r"process a\x0ab"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
        assert!(text.contains("Kernel stacks need root"), "{text}");
    }

    #[test]
    fn json_has_the_fields_of_a_measurement_and_the_wait() {
        let value = json(&scan(vec![sync()]), &redo);
        let first = &value["in_flight"][0];
        assert_eq!(first["op"], "fdatasync");
        assert_eq!(first["role"], "redo");
        assert_eq!(first["age_seconds"], 3.21);
        assert_eq!(first["age_is_minimum"], true);
        assert_eq!(first["waits_for"], "the journal commit");
        assert_eq!(first["moved"], false);
        assert_eq!(first["device_number"], "254:16");
        assert_eq!(value["watched_seconds"], 0.2);
    }

    #[test]
    fn a_moving_sync_is_told_from_an_unmoved_one() {
        let moving = StuckSync { standing: Standing::Moving, ..sync() };
        let text = table(&Scan { finished: 4, ..scan(vec![sync(), moving]) }, &redo);
        let line = "1 sync has not moved for 200 ms, 1 sync is in flight and moving, 4 finished meanwhile.";
        assert!(text.contains(line), "{text}");
    }
}
