//! The output of `fsynctop stuck`: a table, oldest first, or JSON.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::unexamined::{self, Reader};
use crate::linux::mountinfo::format_device;
use crate::model::{Role, ServerId};
use crate::render::grid::{Align, Cell, Column, layout};
use crate::render::{Paint, Style};
use crate::text::{absence, duration_in_words};
use crate::threads::{AgeFrom, MIN_HANG, Scan, Standing, StuckSync, waits_for};
use crate::verdict::Verdicts;

/// The role of a path in the process with this PID.
pub(crate) type RoleOf<'a> = &'a dyn Fn(u32, &Path) -> Role;

/// The table, or a sentence if it would be empty; each thread's kernel stack is below its row, and what could
/// not be examined is the last line.
pub fn table(scan: &Scan, role_of: RoleOf, reader: Reader, style: &Style) -> String {
    let mut text = String::new();
    if scan.syncs.is_empty() {
        push_sentence(&mut text, &absence::thread(scan.is_complete()), style);
    } else {
        let rows: Vec<Vec<Cell>> = scan.syncs.iter().map(|sync| row(sync, role_of, style)).collect();
        let grid = layout(&columns(), &rows, style);
        let (heading, lines) = grid.split_once('\n').unwrap_or_default();
        text.push_str(heading);
        text.push('\n');
        for (sync, line) in scan.syncs.iter().zip(lines.lines()) {
            text.push_str(line);
            text.push('\n');
            push_details(&mut text, sync, style);
        }
        text.push('\n');
        push_summary(&mut text, scan, style);
    }
    if scan.syncs.iter().any(|sync| sync.stack.is_empty()) {
        push_sentence(&mut text, "Kernel stacks need root (CAP_SYS_ADMIN).", style);
    }
    if scan.blocked > 0 {
        let processes = if scan.blocked == 1 { "1 process" } else { &format!("{} processes", scan.blocked) };
        let sentence = format!("{processes} did not answer in time and may be stuck in more than a sync.");
        push_sentence(&mut text, &sentence, style);
    }
    if let Some(sentence) = unexamined::sentence(scan, reader) {
        push_sentence(&mut text, &sentence, style);
    }
    style.finish(text)
}

/// On a narrow terminal, columns whose content is repeated below the row are dropped first.
fn columns() -> [Column; 7] {
    let right = |title, drop_at| Column { title, align: Align::Right, roomy: 0, drop_at, flexible: false };
    let left = |title, drop_at| Column { align: Align::Left, ..right(title, drop_at) };
    [
        right("AGE", None),
        right("PID", Some(1)),
        right("TID", Some(2)),
        left("THREAD", Some(3)),
        left("OP", Some(4)),
        left("ROLE", None),
        Column { flexible: true, ..left("FILE", None) },
    ]
}

fn row(sync: &StuckSync, role_of: RoleOf, style: &Style) -> Vec<Cell> {
    let role = sync.path.as_deref().map_or("-", |path| role_of(sync.pid, path).name());
    let file = match (&sync.path, sync.fd) {
        (Some(path), _) => style.name(path.as_os_str().as_bytes()),
        (None, Some(fd)) => format!("(descriptor {fd})"),
        (None, None) => "-".to_owned(),
    };
    let cells = [
        sync.age.map_or_else(|| "?".to_owned(), |(age, _)| format!("≥ {}", duration(age))),
        sync.pid.to_string(),
        sync.tid.to_string(),
        style.name(sync.thread.as_bytes()),
        sync.op.name().to_owned(),
        role.to_owned(),
        file,
    ];
    let paint = if sync.standing == Standing::Unmoved { Paint::Stuck } else { Paint::Plain };
    let mut cells: Vec<Cell> = cells.into_iter().map(Cell::from).collect();
    cells[0].paint = paint;
    cells
}

fn push_details(text: &mut String, sync: &StuckSync, style: &Style) {
    let (comm, thread) = (style.name(sync.comm.as_bytes()), style.name(sync.thread.as_bytes()));
    let mut facts = vec![format!("process {comm} {}", sync.pid)];
    if sync.tid != sync.pid {
        facts.push(format!("thread {thread} {}", sync.tid));
    }
    if let Some(mount) = &sync.mount {
        let source = style.name(mount.source.as_bytes());
        facts.push(format!("{} on {source}", style.name(mount.filesystem.as_bytes())));
    }
    facts.push(match waits_for(&sync.stack, sync.wait_channel.as_deref()) {
        Some(wait) => format!("waits for {} ({})", wait.what, wait.frame),
        None => match sync.wait_channel.as_deref() {
            Some(channel) => format!("waits in {channel}"),
            None => format!("state {}, its wait channel is not readable", sync.state),
        },
    });
    let standing = match sync.standing {
        Standing::Moving => Some("ran between the scans: one slow call or several"),
        Standing::Unmoved | Standing::SeenOnce => None,
    };
    facts.extend(standing.map(str::to_owned));
    for line in style.wrap_at(&format!("    {}", facts.join(" · ")), " · ", 6) {
        // String's formatter cannot fail
        let _ = writeln!(text, "{line}");
    }
    for frame in &sync.stack {
        let _ = writeln!(text, "        {}", style.name(frame.as_bytes()));
    }
}

fn push_sentence(text: &mut String, sentence: &str, style: &Style) {
    for line in style.wrap(sentence, 2) {
        let _ = writeln!(text, "{line}");
    }
}

fn push_summary(text: &mut String, scan: &Scan, style: &Style) {
    let count =
        |is_meant: &dyn Fn(&StuckSync) -> bool| scan.syncs.iter().filter(|sync| is_meant(sync)).count();
    let is_old = |sync: &StuckSync| sync.age.is_some_and(|(age, _)| age >= MIN_HANG);
    let hangs = count(&|sync| sync.standing == Standing::Unmoved && is_old(sync));
    let unmoved = count(&|sync| sync.standing == Standing::Unmoved && !is_old(sync));
    let moving = count(&|sync| sync.standing == Standing::Moving);
    let once = count(&|sync| sync.standing == Standing::SeenOnce);
    let is_write = |sync: &StuckSync| sync.op.writes() || !sync.op.makes_durable();
    let what = if scan.syncs.iter().any(is_write) { "call" } else { "sync" };
    let mut parts = Vec::new();
    if hangs > 0 {
        parts.push(count_calls(hangs, what, "hangs", "hang"));
    }
    if unmoved > 0 {
        let watched = duration(scan.watched);
        parts.push(format!("{} not moved for {watched}", count_calls(unmoved, what, "has", "have")));
    }
    if moving > 0 {
        parts.push(format!("{} in flight and moving", count_calls(moving, what, "is", "are")));
    }
    if once > 0 {
        parts.push(format!("{} in flight", count_calls(once, what, "is", "are")));
    }
    if scan.finished > 0 {
        parts.push(format!("{} finished meanwhile", scan.finished));
    }
    let legend = if scan.syncs.iter().any(|sync| sync.age.is_some()) { " (≥: at least)" } else { "" };
    push_sentence(text, &format!("{}{legend}.", parts.join(", ")), style);
}

/// `what`: "sync", or "call" where there are writes among them.
fn count_calls(n: usize, what: &str, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {what} {one}") } else { format!("{n} {what}s {many}") }
}

fn duration(age: Duration) -> String {
    duration_in_words(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

/// How many processes that could not be examined are named.
const MOST_NAMED: usize = 10;

/// The scan as one JSON object. Its `in_flight` has the fields of a measurement's, and more.
/// `host`: what the host calls itself. `may_miss_server`: see there. `comm_of`: the name of a server's
/// processes.
pub fn json(
    host: &str,
    scan: &Scan,
    role_of: RoleOf,
    may_miss_server: bool,
    verdicts: Option<&Verdicts>,
    comm_of: &dyn Fn(ServerId) -> Option<String>,
) -> Value {
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
                "device_number": sync.mount.as_ref().map(|mount| format_device(mount.device)),
                "mount": sync.mount.as_ref().map(|mount| mount.mount_point.to_string_lossy()),
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
    let mut object = json!({
        "schema": 1,
        "host": host,
        "watched_seconds": scan.watched.as_secs_f64(),
        "in_flight": in_flight,
        "finished": scan.finished,
        "unreadable_threads": scan.unreadable,
        "unreadable_processes": scan.closed,
        "unexamined": scan.unexamined.iter().take(MOST_NAMED).map(|process| json!({
            "pid": process.pid,
            "comm": process.comm,
        })).collect::<Vec<_>>(),
        "hidden_processes": scan.hidden,
        "blocked_processes": scan.blocked,
        "may_miss_server": may_miss_server,
    });
    if let Some(verdicts) = verdicts {
        object["verdicts"] = json!(verdicts.report(Instant::now(), comm_of).servers);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::mountinfo::Mount;
    use crate::model::Op;
    use crate::threads::Unexamined;

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
                id: 30,
                device: 254 << 20 | 16,
                root: "/".into(),
                mount_point: "/var".into(),
                filesystem: "ext4".into(),
                source: "/dev/vdb".into(),
                options: Vec::new(),
            }),
            state: 'D',
            stack: vec!["jbd2_log_wait_commit".into(), "ext4_sync_file".into()],
            wait_channel: Some("jbd2_log_wait_commit".into()),
            standing: Standing::Unmoved,
            age: Some((Duration::from_millis(3210), AgeFrom::Blocked)),
        }
    }

    fn plain(scan: &Scan) -> String {
        table(scan, &redo, Reader::Root, &Style::default())
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
    process mysqld 70 · thread ib_log_flush 71 · ext4 on /dev/vdb · waits for the journal commit \
(jbd2_log_wait_commit)
        jbd2_log_wait_commit
        ext4_sync_file

1 sync hangs (≥: at least).
";
        assert_eq!(plain(&scan(vec![sync()])), expected);
    }

    #[test]
    fn nothing_stuck_is_a_sentence() {
        assert_eq!(plain(&scan(vec![])), "No thread is inside a sync call right now, and no write hangs.\n");
        let busy = plain(&Scan { finished: 3, ..scan(vec![]) });
        assert_eq!(busy, "No thread is inside a sync call right now, and no write hangs.\n");
    }

    #[test]
    fn what_could_not_be_examined_comes_last() {
        let unexamined = [(7, "redis\u{1b}"), (8, "postgres")];
        let unexamined =
            unexamined.map(|(pid, comm)| Unexamined { pid, comm: comm.into(), program: None }).into();
        let partial = Scan { unreadable: 2, closed: 1, unexamined, blocked: 1, ..scan(vec![]) };
        assert_eq!(
            plain(&partial),
            "No thread that could be examined is inside a sync call right now, and no write hangs.\n\
             1 process did not answer in time and may be stuck in more than a sync.\n\
             2 threads and all of 1 process hide even from root (first: redis\\x1b 7).\n"
        );
        let text = plain(&Scan { unreadable: 1, ..scan(vec![sync()]) });
        assert!(text.starts_with("    AGE "), "{text}");
        assert!(text.ends_with("1 sync hangs (≥: at least).\n1 thread hides even from root.\n"), "{text}");
    }

    #[test]
    fn programs_are_told_the_first_and_whether_a_server_may_be_missed() {
        let of = |pid| Unexamined { pid, comm: "sleep".into(), program: None };
        let partial = Scan { unreadable: 50, unexamined: (100..150).map(of).collect(), ..scan(vec![]) };
        let value = json("db1", &partial, &redo, true, None, &|_| None);
        assert_eq!(value["unexamined"].as_array().unwrap().len(), 10);
        assert_eq!((&value["unexamined"][0]["pid"], &value["may_miss_server"]), (&100.into(), &true.into()));
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
        let text = plain(&scan(vec![hostile]));
        assert!(text.contains(r"/x\x1b]0;y\x07/\xff\u{202e}"), "{text}");
        assert!(text.contains(r"process a\nb 70"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
        assert!(text.contains("Kernel stacks need root"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_file_keeps_its_name() {
        for columns in [60, 80, 120] {
            let style = Style { width: Some(columns), ..Style::default() };
            let text = table(&scan(vec![sync()]), &redo, Reader::Root, &style);
            for line in text.lines() {
                assert!(crate::text::width(line) <= columns, "{columns}: {line}");
            }
            assert!(text.contains("#ib_redo5") && text.contains("process mysqld 70"), "{text}");
        }
        let ascii = Style { unicode: false, ..Style::default() };
        let text = table(&scan(vec![sync()]), &redo, Reader::Root, &ascii);
        assert!(text.is_ascii() && text.contains("> 3.2 s"), "{text}");
    }

    #[test]
    fn colour_marks_what_does_not_move_and_changes_no_word() {
        let colourful = Style { color: true, ..Style::default() };
        let text = table(&scan(vec![sync()]), &redo, Reader::Root, &colourful);
        assert!(text.contains('\u{1b}'), "{text}");
        let mut bare = String::new();
        for (at, part) in text.split('\u{1b}').enumerate() {
            bare.push_str(if at == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(bare, plain(&scan(vec![sync()])));
    }

    #[test]
    fn json_has_the_fields_of_a_measurement_and_the_wait() {
        let value = json("db1", &scan(vec![sync()]), &redo, false, None, &|_| None);
        assert_eq!(value["host"], "db1");
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
    fn a_write_that_hangs_is_no_sync() {
        let write = StuckSync { op: Op::Write, ..sync() };
        let text = plain(&scan(vec![write]));
        assert!(text.contains("  write  ") && text.contains("1 call hangs ("), "{text}");
        let text = plain(&scan(vec![StuckSync { op: Op::DsyncWrite, ..sync() }, sync()]));
        assert!(text.contains("  dsync_write  ") && text.contains("2 calls hang ("), "{text}");
    }

    #[test]
    fn a_moving_sync_is_told_from_an_unmoved_one() {
        let moving = StuckSync { standing: Standing::Moving, ..sync() };
        let young = StuckSync { age: Some((Duration::from_millis(200), AgeFrom::Watched)), ..sync() };
        let text = plain(&Scan { finished: 4, ..scan(vec![sync(), young, moving]) });
        let line = "1 sync hangs, 1 sync has not moved for 200 ms, 1 sync is in flight and moving, 4 finished \
                    meanwhile (≥: at least).";
        assert!(text.contains(line), "{text}");
    }
}
