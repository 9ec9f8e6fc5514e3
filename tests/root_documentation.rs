//! Needs root: what README.md and docs/ tell users to type is typed, on a real server.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use common::chroot::Chroot;
use common::etcd::{self, Etcd};
use common::exporter::Exporter;
use common::needs;
use common::postgres::Cluster;
use common::redis::{REDIS, Redis};
use common::server::{Database, Kind};
use common::terminal::{TMUX, Terminal};

const FSYNCTOP: &str = env!("CARGO_BIN_EXE_fsynctop");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Longer than attaching takes; most commands would go on for as long as they say.
const A_WHILE: &str = "2";
/// An interrupt ended it, in order.
const INTERRUPTED: i32 = 130;
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
}

impl Place {
    /// The command with what its readers have and this host lacks.
    fn adapted(&self, line: &str) -> String {
        let here = self.directory.path();
        let scratch = here.join("scratch");
        line.replace("4711", &self.pid.to_string())
            .replace("/srv/scratch", scratch.to_str().unwrap())
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
}

#[test]
#[ignore = "needs root, a kernel with BTF, MariaDB and tmux"]
fn every_command_of_the_documentation_does_what_it_says() {
    needs(&[TMUX]);
    let database = Database::start(Kind::MariaDb, &[]);
    let place = Place { directory: tempfile::tempdir().unwrap(), pid: database.pid };
    let here = place.directory.path();
    fs::create_dir(here.join("scratch")).unwrap();
    fs::write(here.join("fsynctop.cnf"), "[client]\nuser=root\n").unwrap();
    fs::write(here.join("load.sh"), "#!/bin/sh\ndd if=/dev/zero of=x count=1 conv=fsync status=none\n")
        .unwrap();
    fs::set_permissions(here.join("load.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(here.join("fsynctop.conf"), "[fsynctop]\nuser=postgres\n").unwrap();
    // `history` asks the exporter of this host, which listens where it does by default.
    let exporter = Exporter::start(&["--socket", "/run/fsynctop/exporter.sock"]);
    std::thread::sleep(Duration::from_secs(2));

    let mut wrong = Vec::new();
    let mut tried = 0;
    let (mut of_postgres, mut of_etcd, mut of_redis) = (Vec::new(), Vec::new(), Vec::new());
    for (page, lines) in pages() {
        for line in lines {
            tried += 1;
            if line.contains("--engine postgres") || line.contains("--service-file") {
                of_postgres.push((page.clone(), line));
                continue;
            }
            if line.contains("--engine etcd") {
                of_etcd.push((page.clone(), line));
                continue;
            }
            if line.contains("--engine redis") {
                of_redis.push((page.clone(), line));
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["fsynctop"] | ["fsynctop", "top", ..] => {
                    let terminal = Terminal::fsynctop(110, 33, &words[1..]);
                    terminal.until_shown("redo");
                    terminal.keys(&["q"]);
                    terminal.until_shown("ended with 0");
                }
                // There is one already.
                ["fsynctop", "exporter", ..] if words.iter().all(|word| *word != "--socket") => {
                    let (status, said) = place.run(&format!("{line} --no-socket --listen 127.0.0.1:0"));
                    if status.code() != Some(0) {
                        wrong.push(format!("{page}: {line}: {status}: {said}"));
                    }
                }
                _ => {
                    let (status, said) = place.run(&line);
                    let allowed = match words[1] {
                        "stuck" => [0, INTERRUPTED, INCOMPLETE],
                        _ => [0, INTERRUPTED, 0],
                    };
                    let attached = !said.contains("error");
                    if !(status.code().is_some_and(|code| allowed.contains(&code)) && attached) {
                        wrong.push(format!("{page}: {line}: {status}: {said}"));
                    }
                }
            }
        }
    }
    drop(exporter);
    // Some are about the one server of the host.
    drop(database);
    let mut try_all = |lines: Vec<(String, String)>| {
        for (page, line) in lines {
            let (status, said) = place.run(&line);
            if !status.code().is_some_and(|code| [0, INTERRUPTED].contains(&code)) {
                wrong.push(format!("{page}: {line}: {status}: {said}"));
            }
        }
    };
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
