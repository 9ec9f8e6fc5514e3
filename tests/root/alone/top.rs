//! Needs root and tmux: the live view of real servers and of faults, in a real terminal, driven by its keys.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::exporter::Exporter;
use crate::common::faults::{FaultFs, Hung, finish, tool};
use crate::common::server::{Database, Kind};
use crate::common::terminal::{TMUX, Terminal, cells, number};
use crate::common::{Running, needs};
use serde_json::Value;

/// Two intervals, and what a machine that does other things as well needs to draw them.
const TWO_INTERVALS: Duration = Duration::from_secs(4);

fn load(database: &Database) -> Running {
    let mut command = database.load(8, 1_000_000);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Syncs of files of these names, one after the other, so many bytes written before each.
fn syncing(directory: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(tool("syncgen"));
    command.arg(directory).args(["--seconds", "600", "--write", "512"]).args(arguments);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn pid(target: &Running) -> String {
    target.0.id().to_string()
}

/// The rate in a table by role, whose columns are the role, the operation and the rate.
fn rate(screen: &str, role: &str) -> Option<f64> {
    cells(screen, role).and_then(|cells| cells.get(2).filter(|cell| **cell != "–").map(|cell| number(cell)))
}

/// How far back the picture goes, as its axis says: `-12s`.
fn seconds_drawn(screen: &str) -> f64 {
    let axis = screen.lines().find(|line| line.contains("syncs in last"));
    let begin = axis.and_then(|line| line.trim_start().strip_prefix('-')?.split_once('s'));
    begin.map_or(0.0, |(seconds, _)| number(seconds))
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn root_top_a_server_under_load_in_every_view() {
    needs(&[TMUX]);
    let database = Database::start(Kind::MariaDb, &[]);
    database.prepare();
    let _load = load(&database);
    let own = database.pid.to_string();
    let terminal = Terminal::fsynctop(120, 40, &["--pid", &own]);

    let shows_logs = |screen: &str| {
        rate(screen, "redo").is_some_and(|rate| rate > 1.0)
            && rate(screen, "binlog").is_some_and(|rate| rate > 1.0)
    };
    let screen = terminal.until("the logs' rates", shows_logs);
    assert!(screen.contains(&format!("mariadbd {own}")), "{screen}");
    assert!(screen.contains("redo ") && screen.contains("% busy"), "{screen}");
    let totals = screen.lines().nth(1).unwrap_or_default();
    assert!(![" failed", " missed"].iter().any(|bad| totals.contains(bad)), "{screen}");
    let screen = terminal.until_shown(&format!("MariaDB {}", database.version));
    assert!(screen.contains(" on "), "the device and its filesystem: {screen}");
    // The picture and its axis.
    terminal.until("a picture", |screen| screen.contains('█') && screen.contains("syncs in last"));

    terminal.keys(&["f"]);
    let screen = terminal.until_shown("[file]");
    for name in ["ib_logfile0", "binlog.000001"] {
        assert!(screen.lines().any(|line| line.contains(name) && line.contains(" % ")), "{name}: {screen}");
    }
    terminal.keys(&["s"]);
    // It is called as the metrics call it: of what has no port, by its socket.
    let socket = &database.socket;
    let name = socket.to_str().unwrap();
    terminal.until("a row by server", |screen| {
        let row =
            screen.lines().skip_while(|line| !line.starts_with("SERVER")).find(|line| line.starts_with(name));
        screen.contains("[server]")
            && row.is_some_and(|row| cells(row, name).is_some_and(|cells| cells.len() > 4))
    });
    terminal.keys(&["n"]);
    terminal.until_shown("[neighbour]");
    terminal.keys(&["l"]);
    // Which syncs take long enough for it depends on the disk.
    terminal.until("the log", |screen| screen.contains("[log]") && screen.contains("TIME▼      TOOK"));

    // The selection follows the row when the order is another.
    terminal.keys(&["r", "j"]);
    terminal.until("another row's picture", |screen| screen.contains("binlog fdatasync  "));
    terminal.keys(&["R"]);
    let screen = terminal.until("the other order", |screen| screen.contains("ROLE▼"));
    assert!(screen.lines().any(|line| line.starts_with("binlog fdatasync  ")), "{screen}");
    terminal.keys(&["R", "g"]);

    // Into the redo log's files and out again.
    terminal.keys(&["Enter"]);
    let screen = terminal.until_shown("files of redo");
    assert!(!screen.contains("binlog.000001 "), "{screen}");
    terminal.keys(&["Escape"]);
    terminal.until_shown("[role]");

    terminal.keys(&["f", "/", "binlog"]);
    terminal.until("one row", |screen| screen.contains("/binlog: 1 of "));
    terminal.keys(&["Tab"]);
    terminal.until_shown("rows that match: binlog");
    terminal.keys(&["Enter", "Escape"]);
    terminal.until("all rows", |screen| !screen.contains("binlog: 1 of"));

    terminal.keys(&["u", "u"]);
    // In the table, in the title below it and on the axis.
    terminal.until("milliseconds", |screen| {
        // The sentence on syncs that are slower than the others chooses units of its own.
        let is_figure = |line: &&str| line.contains("fdatasync") && !line.contains(" times the median ");
        let mut rows = screen.lines().filter(is_figure);
        let mut bands = screen.lines().filter(|line| line.matches('│').count() == 2);
        rows.clone().any(|row| row.contains(" syncs ") && row.contains(" ms "))
            && rows.all(|row| !row.contains("µs"))
            && bands.clone().count() > 3
            && bands
                .all(|band| band.trim_start().split('│').next().is_some_and(|label| label.ends_with("ms")))
    });
    terminal.keys(&["u", "u"]);

    terminal.keys(&["r", "c"]);
    terminal.until("sums", |screen| screen.contains("SYNCS") && screen.contains("since "));
    terminal.keys(&["c", "+"]);
    terminal.until_shown("refresh 2 s");
    terminal.keys(&["-"]);
    terminal.until_shown("refresh 1 s");

    terminal.until("some seconds to step back into", |screen| seconds_drawn(screen) >= 4.0);
    terminal.keys(&["Space"]);
    let paused = terminal.until_shown("PAUSED at ");
    std::thread::sleep(Duration::from_millis(2_500));
    let later = terminal.screen();
    assert_eq!(cells(&paused, "redo"), cells(&later, "redo"), "nothing moves while it is paused");
    let at = |screen: &str| screen.split("PAUSED at ").nth(1).unwrap()[..8].to_owned();
    // Each change of the interval cut one short: of two intervals, both may lie in the second that is shown.
    terminal.keys(&["Left"; 6]);
    terminal.until("the past", |screen| screen.contains("PAUSED at ") && at(screen) < at(&paused));
    terminal.keys(&["w"]);
    let said = terminal.until_shown("written: ");
    let file = said.split("written: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&written["schema"], &written["servers"][0]["pid"]), (&1.into(), &database.pid.into()));
    let redo = crate::common::faults::row(&written["roles"], &[("role", "redo")]);
    let shown = rate(&terminal.screen(), "redo").unwrap();
    let exact = redo["count"].as_f64().unwrap() / written["duration_seconds"].as_f64().unwrap();
    assert!((shown - exact).abs() <= 0.5 + exact * 0.005, "the file says {exact}, the screen {shown}");
    terminal.keys(&["Space"]);
    terminal.until("the present", |screen| !screen.contains("PAUSED"));

    // By thread, for which it attaches again.
    terminal.keys(&["t"]);
    terminal.until_shown("Rows by thread are not kept");
    terminal.keys(&["T"]);
    terminal.until("rows by thread", |screen| screen.contains("THREAD") && screen.contains("fdatasync"));
    terminal.keys(&["r"]);
    terminal.until("the logs' rates", shows_logs);
    terminal.keys(&["q"]);
    terminal.assert_restored(0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_the_first_figures_come_soon() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &["--names", "ib_logfile0"]);
    let terminal = Terminal::fsynctop(80, 24, &["--pid", &pid(&target)]);
    let began = Instant::now();
    terminal.until("a rate", |screen| rate(screen, "redo").is_some_and(|rate| rate > 0.0));
    let took = began.elapsed();
    println!("the first figures came after {took:?}");
    // A second on a machine that has time; this one may be building something.
    assert!(took < Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 2 }), "{took:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_what_an_exporter_remembers_is_there_at_once() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("exporter.sock");
    let socket = socket.to_str().unwrap();
    let name = format!("told{}", std::process::id());
    let other = format!("other{}", std::process::id());
    let exporter =
        Exporter::start(&["--comm", &name, "--comm", &other, "--max-cpu", "off", "--socket", socket]);
    let _target = syncing(directory.path(), &["--names", "ib_logfile0", "--comm", &name]);
    let _other = syncing(directory.path(), &["--names", "binlog.000001", "--comm", &other]);
    std::thread::sleep(Duration::from_secs(15));
    let terminal = Terminal::fsynctop(120, 40, &["--comm", &name, "--socket", socket]);
    let screen = terminal.until("the exporter's time on the axis", |screen| screen.contains("exporter│"));
    assert!(seconds_drawn(&screen) >= 10.0, "{screen}");
    assert!(cells(&screen, "binlog").is_none(), "a server that is not asked for: {screen}");
    // Its own figures go on behind them, and every step back is a second that the exporter told of.
    terminal.until("a rate of its own", |screen| rate(screen, "redo").is_some_and(|rate| rate > 0.0));
    terminal.keys(&["Space"]);
    terminal.until_shown("PAUSED at ");
    assert!(!terminal.screen().contains("from the exporter's history"));
    terminal.keys(&["{"]);
    let screen = terminal.until_shown(", from the exporter's history");
    assert!(rate(&screen, "redo").is_some_and(|rate| rate > 0.0), "{screen}");
    terminal.keys(&["f"]);
    terminal.until("the files of then", |screen| {
        screen.contains("[file]") && screen.lines().any(|line| line.contains("ib_logfile0"))
    });
    terminal.keys(&["Space", "r"]);
    terminal.until("the present", |screen| !screen.contains("PAUSED"));
    terminal.keys(&["q"]);
    terminal.assert_restored(0);
    drop(exporter);

    // One that never answers delays nothing.
    let silent = directory.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let terminal = Terminal::fsynctop(100, 30, &["--comm", &name, "--socket", silent.to_str().unwrap()]);
    let began = Instant::now();
    let screen = terminal.until("a rate", |screen| rate(screen, "redo").is_some_and(|rate| rate > 0.0));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}: it waited for the exporter", began.elapsed());
    assert!(!screen.contains("exporter│") && !screen.contains("history│"), "{screen}");
    terminal.keys(&["q"]);
    terminal.assert_restored(0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_waits_for_a_server_and_traces_it_from_its_first_sync() {
    needs(&[TMUX]);
    let name = format!("late{}", std::process::id());
    let terminal = Terminal::fsynctop(100, 30, &["--comm", &name]);
    terminal.until_shown(&format!("Waiting for a process called {name}."));
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(tool("syncgen"));
    command.arg(directory.path()).args(["--names", "ib_logfile0", "--syncs", "77", "--comm", &name]);
    let run = command.stdout(Stdio::null()).spawn().unwrap();
    assert!(finish(run, Duration::from_secs(30)).status.success());
    terminal.keys(&["c"]);
    terminal.until("all of its syncs", |screen| cells(screen, "redo").is_some_and(|cells| cells[2] == "77"));
    terminal.until_shown("exited");
    // Its figures stay to be looked at; the end is as any other.
    terminal.keys(&["q"]);
    terminal.assert_restored(0);
    terminal.until_shown(&name);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_a_delay_a_hang_and_a_failure_are_seen_within_two_intervals() {
    needs(&[TMUX, "/dev/fuse"]);
    let faults = FaultFs::mount("delay 2ms");
    let target = syncing(faults.path(), &["--names", "ib_logfile0,binlog.000001", "--keep-going"]);
    let target = Hung::new(&faults, target);
    let terminal = Terminal::fsynctop(120, 40, &["--pid", &target.pid().to_string()]);
    terminal.until("syncs of 2 ms", |screen| {
        cells(screen, "redo").is_some_and(|cells| cells.get(4).is_some_and(|p50| p50.starts_with("2.")))
    });

    // Slow: from 2 ms to 60 ms.
    faults.control("delay 60ms");
    terminal.within(TWO_INTERVALS, "syncs of 60 ms", |screen| {
        cells(screen, "redo").is_some_and(|cells| {
            let p50 = cells.get(4).and_then(|p50| p50.strip_suffix("ms")).and_then(|ms| ms.parse().ok());
            p50.is_some_and(|ms: f64| (57.0..75.0).contains(&ms))
        })
    });
    // Both populations are in the picture: bands of shades with an empty one between.
    let screen = terminal.screen();
    let bands: Vec<bool> = screen
        .lines()
        .filter(|line| line.matches('│').count() == 2)
        .map(|line| line.split('│').nth(1).unwrap().contains(['░', '▒', '▓', '█']))
        .collect();
    let runs = bands.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    // On a busy machine a single sync may stand apart from both.
    assert!(runs >= 2, "{screen}");

    // Stuck: since when, where, and what it waits for.
    faults.control("hang");
    faults.wait_for_hanging(1);
    let began = Instant::now();
    // It is stuck after one second, of which an interval may already be over.
    terminal.within(TWO_INTERVALS + Duration::from_secs(1), "a stuck sync", |screen| {
        screen.lines().any(|line| line.starts_with("STUCK for ") && line.contains("fdatasync"))
    });
    println!("a stuck sync was shown after {:?}", began.elapsed());
    let screen = terminal.until("what it waits for", |screen| {
        screen.contains("by the FUSE server") || screen.contains("the FUSE server's answer")
    });
    assert!(screen.contains("Every commit waits for the "), "{screen}");
    assert!(screen.contains("100 % busy") || screen.contains(" STUCK"), "{screen}");
    // A small screen has all of that, too.
    terminal.resize(80, 24);
    terminal.until("its file, its thread and its wait", |screen| {
        let lines: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("STUCK for ")).collect();
        lines.len() > 2
            && (lines[0].ends_with("ib_logfile0") || lines[0].ends_with("binlog.000001"))
            && lines[1].starts_with("  waits for ")
            && lines[1].contains(", thread sync-")
    });
    terminal.resize(120, 40);
    terminal.keys(&["K"]);
    terminal.until("its kernel stack", |screen| screen.contains("fuse_") && screen.contains("innermost"));
    terminal.keys(&["Escape"]);
    let age = |screen: &str| {
        let line = screen.lines().find(|line| line.starts_with("STUCK for ")).unwrap().to_owned();
        let text = line.trim_start_matches("STUCK for ").trim_start_matches("at least ").to_owned();
        text.split(" s").next().unwrap().parse::<f64>().unwrap()
    };
    let young = age(&terminal.until_shown("STUCK for "));
    terminal.until("a greater age", |screen| screen.contains("STUCK for ") && age(screen) >= young + 1.0);

    // Failed: with its name, and it stays on the screen.
    faults.control("fail EIO");
    faults.control("release EIO");
    terminal.within(TWO_INTERVALS, "a failure", |screen| {
        screen.contains("EIO") && screen.contains(" failed, last ")
    });
    faults.control("ok");
    terminal.until("no more failures", |screen| {
        cells(screen, "redo").is_some_and(|cells| cells.contains(&"0") && !cells.contains(&"EIO"))
    });
    let screen = terminal.screen();
    assert!(screen.contains(" failed, last ") && screen.contains('!'), "{screen}");
    terminal.keys(&["l"]);
    let screen = terminal.until("the log of it", |screen| screen.contains("[log]"));
    assert!(screen.lines().any(|line| line.contains("EIO") && line.contains("ib_logfile0")), "{screen}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_another_process_on_the_same_device_is_a_neighbour() {
    needs(&[TMUX]);
    // Not in /tmp, which is memory on many systems.
    let directory = tempfile::TempDir::with_prefix_in("fsynctop-", "/var/tmp").unwrap();
    let server = directory.path().join("server");
    let backup = directory.path().join("backup");
    [&server, &backup].into_iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
    let target = syncing(&server, &["--names", "ib_logfile0"]);
    let terminal = Terminal::fsynctop(120, 30, &["--pid", &pid(&target)]);
    terminal.until("a rate", |screen| rate(screen, "redo").is_some_and(|rate| rate > 0.0));
    let name = format!("bak{}", std::process::id());
    let _neighbour = syncing(&backup, &["--comm", &name]);
    terminal.keys(&["n"]);
    let screen = terminal.within(TWO_INTERVALS, "the neighbour", |screen| {
        cells(screen, &name)
            .is_some_and(|cells| cells[2] == "yes" && cells[3] != "–" && number(cells[3]) > 0.0)
    });
    println!("{screen}");
    // It is named above every table, also on a small screen.
    terminal.resize(80, 24);
    terminal.keys(&["r"]);
    terminal.until("its name", |screen| {
        let line = screen.lines().nth(2).unwrap_or_default();
        // Where the refresh is slower to save processor time, that takes the room of the device's end.
        line.starts_with("also on ") && line.contains(&format!(" {name} ")) && line.contains("/s")
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_top_colours_are_there_only_where_they_are_wanted() {
    needs(&[TMUX]);
    let directory = tempfile::tempdir().unwrap();
    let target = syncing(directory.path(), &["--names", "ib_logfile0"]);
    let colours = |arguments: &[&str]| {
        let number = pid(&target);
        let terminal = Terminal::fsynctop(100, 30, &[&["--pid", &number], arguments].concat());
        terminal.until("a picture", |screen| screen.contains("syncs in last"));
        terminal.colours()
    };
    assert!(colours(&[]).contains("\x1b[38;5;"), "256 colours");
    let assert_none = |screen: &str| {
        // tmux itself says 39 and 49: none.
        let has_one = (30..=38).any(|code| screen.contains(&format!("\x1b[{code}")));
        assert!(!has_one, "{screen:?}");
        let reversed = ["\x1b[7m", "\x1b[0;7m"].iter().any(|code| screen.contains(code));
        assert!(reversed, "the selected row: {screen:?}");
    };
    assert_none(&colours(&["--color", "never"]));
    let script = r#"NO_COLOR=1 exec "$1" --pid "$2""#;
    let program = ["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_fsynctop"), &pid(&target)];
    let terminal = Terminal::new(100, 30, &program);
    terminal.until("a picture", |screen| screen.contains("syncs in last"));
    assert_none(&terminal.colours());
    let ascii = colours(&["--no-unicode", "--color", "never"]);
    assert!(ascii.is_ascii(), "{ascii}");
}
