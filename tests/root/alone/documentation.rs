//! Needs root: what README.md and docs/ tell users to type is typed, on a real server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::chroot::Chroot;
use crate::common::etcd::{self, Etcd};
use crate::common::exporter::Exporter;
use crate::common::postgres::Cluster;
use crate::common::redis::{REDIS, Redis};
use crate::common::server::{Database, Kind};
use crate::common::terminal::{TMUX, Terminal};
use crate::common::turn::takes_long;
use crate::common::{Running, needs, wait_until};

const FSYNCTOP: &str = env!("CARGO_BIN_EXE_fsynctop");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Longer than attaching takes; most commands would go on for as long as they say.
const A_WHILE: &str = "2";
/// Commands at a time: nearly all of their time they wait for their end.
const AT_A_TIME: usize = 4;
/// An interrupt ended it, in order.
const INTERRUPTED: i32 = 130;
/// A condition holds that was asked for.
const CONDITION: i32 = 4;
/// `stuck`: not everything could be examined, here of processes that are protected from root.
const INCOMPLETE: i32 = 5;

/// The pages, each with its command lines: those in blocks of code that begin with the program's name,
/// without the comments beside them.
fn pages() -> Vec<(String, Vec<String>)> {
    let docs = fs::read_dir(Path::new(ROOT).join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = docs.filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect();
    pages.push(Path::new(ROOT).join("README.md"));
    pages.sort();
    let lines = |path: &Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let blocks = text.split("\n```").skip(1).step_by(2);
        let lines = blocks.flat_map(|block| block.lines().skip(1));
        let commands = lines.map(|line| line.trim_start_matches("sudo "));
        // "fsynctop: …" is what it says.
        let commands = commands.filter(|line| *line == "fsynctop" || line.starts_with("fsynctop "));
        commands.map(|line| without_comment(line).to_owned()).collect()
    };
    pages.iter().map(|path| (path.strip_prefix(ROOT).unwrap().display().to_string(), lines(path))).collect()
}

/// Comments stand behind two spaces.
fn without_comment(line: &str) -> &str {
    line.split("  ").next().unwrap().trim_end()
}

struct Place {
    directory: tempfile::TempDir,
    pid: u32,
    /// When the recording that is called `before` began and ended.
    recorded: [String; 2],
}

/// A recording of the server at work, as the documentation has one. Nothing happens at either end of it, so
/// that the server's own counters can be compared.
fn record(database: &Database, here: &Path) -> [String; 2] {
    let mut record = Command::new(FSYNCTOP);
    record.args(["record", "--counters", "--waits", "--pid", &database.pid.to_string(), "-d", "5"]);
    record.arg("--output-directory").arg(here.join("before")).stdout(Stdio::null());
    let mut recorder = Running(record.spawn().unwrap());
    let name = here.join("before/all-00000000-plain.fst");
    wait_until("the first interval", || name.metadata().is_ok_and(|file| file.len() > 0));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        database.execute(&["CREATE OR REPLACE TABLE mysql.recorded (a INT) ENGINE=InnoDB"]);
    }
    assert!(recorder.0.wait().unwrap().success());
    let mut segments = Command::new(FSYNCTOP);
    segments.args(["segments", "--output", "json"]).arg(here.join("before"));
    let said = segments.output().unwrap().stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    ["start", "end"].map(|edge| said["details"][0][edge].as_str().unwrap().to_owned())
}

impl Place {
    /// The command with what its readers have and this host lacks.
    fn adapted(&self, line: &str) -> String {
        let here = self.directory.path();
        let scratch = here.join("scratch");
        line.replace("4711", &self.pid.to_string())
            .replace("/srv/scratch", scratch.to_str().unwrap())
            .replace("/srv/rec", here.join("rec").to_str().unwrap())
            .replace("record -o before", "record -o again")
            .replace(" before", &format!(" {}", here.join("before").display()))
            .replace("14:40", &self.recorded[0])
            .replace("14:50", &self.recorded[1])
            .replace("14:46:05", &self.recorded[0])
            .replace("/etc/fsynctop.cnf", here.join("fsynctop.cnf").to_str().unwrap())
            .replace("/etc/fsynctop.conf", here.join("fsynctop.conf").to_str().unwrap())
    }

    /// Ends it by an interrupt, if it does not end by itself before.
    fn run(&self, line: &str) -> (ExitStatus, String) {
        let mut command = Command::new("timeout");
        command.args(["--signal=INT", "--kill-after=60", "--preserve-status", A_WHILE, "sh", "-c"]);
        command.arg(format!("exec {}", self.adapted(line)));
        let path = std::env::var("PATH").unwrap();
        let built = Path::new(FSYNCTOP).parent().unwrap().display();
        command.env("PATH", format!("{built}:{path}")).current_dir(self.directory.path());
        let output = command.stdin(Stdio::null()).process_group(0).output().unwrap();
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs the command; what is wrong with how it ended.
    fn complaint(&self, page: &str, line: &str) -> Option<String> {
        let (status, said) = self.run(line);
        // The exporter's log may name what does not work here, and why it goes on without that.
        let (allowed, may_name_errors): (&[i32], bool) = match line.split_whitespace().nth(1) {
            Some("stuck") => (&[0, INTERRUPTED, INCOMPLETE], false),
            Some("exporter") => (&[0], true),
            // It says FAIL of a disk that is busy or slow.
            Some("calibrate") if line.contains("--for ") => (&[0, CONDITION, INTERRUPTED], false),
            _ => (&[0, INTERRUPTED], false),
        };
        let has_ended_well = status.code().is_some_and(|code| allowed.contains(&code));
        let is_right = has_ended_well && (may_name_errors || !said.contains("error"));
        (!is_right).then(|| format!("{page}: {line}: {status}: {said}"))
    }

    /// The same of many, a few at a time.
    fn complaints(&self, commands: &[(String, String)]) -> Vec<String> {
        let next = AtomicUsize::new(0);
        let work = || {
            let next = || commands.get(next.fetch_add(1, Ordering::Relaxed));
            std::iter::from_fn(next).filter_map(|(page, line)| self.complaint(page, line)).collect()
        };
        std::thread::scope(|scope| {
            let threads = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect::<Vec<_>>();
            threads.into_iter().flat_map(|thread| -> Vec<String> { thread.join().unwrap() }).collect()
        })
    }
}

#[test]
#[ignore = "needs root, a kernel with BTF, MariaDB and tmux"]
fn every_command_of_the_documentation_does_what_it_says() {
    needs(&[TMUX]);
    takes_long("each documented command runs for two seconds");
    let database = Database::start(Kind::MariaDb, &[]);
    let directory = tempfile::tempdir().unwrap();
    let recorded = record(&database, directory.path());
    let place = Place { directory, pid: database.pid, recorded };
    let here = place.directory.path();
    fs::create_dir(here.join("scratch")).unwrap();
    fs::write(here.join("fsynctop.cnf"), "[client]\nuser=root\n").unwrap();
    fs::write(here.join("load.sh"), "#!/bin/sh\ndd if=/dev/zero of=x count=1 conv=fsync status=none\n")
        .unwrap();
    fs::set_permissions(here.join("load.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(here.join("fsynctop.conf"), "[fsynctop]\nuser=postgres\n").unwrap();
    // `history` asks the exporter of this host, which listens where it does by default.
    let exporter = Exporter::start(&["--socket", "/run/fsynctop/exporter.sock"]);
    wait_until("the exporter to remember something", || {
        let history = Command::new(FSYNCTOP).arg("history").output().unwrap();
        history.status.success()
    });

    let mut wrong = Vec::new();
    let mut tried = 0;
    let (mut of_postgres, mut of_etcd, mut of_redis) = (Vec::new(), Vec::new(), Vec::new());
    let mut others = Vec::new();
    for (page, lines) in pages() {
        for line in lines {
            tried += 1;
            let is_of = |engine: &str| line.split_whitespace().any(|word| word == engine);
            if is_of("postgres") || line.contains("--service-file") {
                of_postgres.push((page.clone(), line));
                continue;
            }
            if is_of("etcd") {
                of_etcd.push((page.clone(), line));
                continue;
            }
            if is_of("redis") {
                of_redis.push((page.clone(), line));
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["fsynctop"] | ["fsynctop", "top", ..] => {
                    let line = place.adapted(&line);
                    let words: Vec<&str> = line.split_whitespace().collect();
                    let terminal = Terminal::fsynctop(110, 33, &words[1..]);
                    terminal.until_shown("redo");
                    terminal.keys(&["q"]);
                    terminal.until_shown("ended with 0");
                }
                // There is one already.
                ["fsynctop", "exporter", ..] if words.iter().all(|word| *word != "--socket") => {
                    let line = format!("{line} --no-socket --listen 127.0.0.1:0");
                    wrong.extend(place.complaint(&page, &line));
                }
                // It measures: nothing else may keep the disk busy meanwhile.
                ["fsynctop", "calibrate", ..] => {
                    let mut complaint = None;
                    wait_until("the device to be idle enough to be measured", || {
                        complaint = place.complaint(&page, &line);
                        complaint
                            .as_ref()
                            .is_none_or(|said| !said.contains("Try again when the device is idle"))
                    });
                    wrong.extend(complaint);
                }
                _ => others.push((page.clone(), line)),
            }
        }
    }
    wrong.extend(place.complaints(&others));
    drop(exporter);
    // Some are about the one server of the host.
    drop(database);
    let mut try_all = |lines: Vec<(String, String)>| wrong.extend(place.complaints(&lines));
    let cluster = Cluster::on("ext4", 512);
    let postgres = cluster.start(&[]);
    try_all(of_postgres);
    postgres.stop();
    let tree = Chroot::on(etcd::TOOL, 0, "ext4", 512);
    let _etcd = Etcd::start(&tree);
    try_all(of_etcd);
    let _redis = Redis::start(&tree, REDIS, &[]);
    try_all(of_redis);
    assert!(tried > 20, "{tried} commands found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
