//! Needs root: how a run ends and what it prints, on hosts where something is missing, to files that cannot
//! be written, on terminals of any width.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::faults::{FaultFs, Series, finish, fsynctop, output, signal, stderr, stdout, tool, trace};
use crate::common::terminal::TMUX;
use crate::common::{Running, needs, sleeper, wait_until};
use fsynctop::text::width;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fsynctop");

/// A command with exactly seven syncs of a redo log, in a directory of its own.
fn seven_syncs(directory: &Path) -> Vec<String> {
    let script = r#"for i in 1 2 3 4 5 6 7; do sync --data "$1/ib_logfile0"; done"#;
    std::fs::write(directory.join("ib_logfile0"), "redo").unwrap();
    ["sh", "-c", script, "sh", directory.to_str().unwrap()].map(str::to_owned).to_vec()
}

/// Runs a script in namespaces of its own with the program as $1.
fn unshared(options: &[&str], script: &str) -> std::process::Output {
    let mut command = Command::new("unshare");
    output(command.args(options).args(["sh", "-c", script, "sh", PROGRAM]).stdin(Stdio::null()))
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_commands_own_status_is_passed_on() {
    needs(&[]);
    for (script, status) in [("exit 0", 0), ("exit 41", 41), ("kill -9 $$", 137)] {
        let output = output(fsynctop().args(["once", "--", "sh", "-c", script]));
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(stderr(&output), "");
    }
    let output = output(fsynctop().args(["once", "--", "/no/such/program"]));
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(stderr(&output).contains("cannot run /no/such/program: No such file"), "{output:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_libbpf_says_is_shown_only_when_asked_for() {
    needs(&[]);
    let attempt = |options: &[&str]| output(fsynctop().args(["check", "--attach", "kprobe"]).args(options));
    let (quiet, verbose) = (attempt(&[]), attempt(&["-v"]));
    assert!(!stderr(&quiet).contains("libbpf:") && !stdout(&quiet).contains("libbpf: "), "{quiet:?}");
    assert!(stdout(&quiet).contains("works\n") && !stdout(&quiet).contains(" instructions"), "{quiet:?}");
    assert!(stdout(&verbose).contains(" instructions"), "{verbose:?}");
    // Where it cannot be had, libbpf has something to say.
    if !stdout(&quiet).contains("kprobe         works") {
        assert!(stderr(&verbose).contains("fsynctop: libbpf: "), "{verbose:?}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_signal_prints_what_was_measured() {
    needs(&[]);
    for name in ["INT", "TERM", "HUP"] {
        let target = sleeper();
        let pid = target.0.id().to_string();
        let series = Series::start(fsynctop().args(["once", "-d", "600", "--pid", &pid]));
        let catches = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", series.pid())).unwrap();
            let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(set, 16).unwrap() & 1 != 0
        };
        wait_until("it to handle signals", catches);
        std::thread::sleep(Duration::from_millis(1500));
        signal(series.pid(), name);
        let text: Vec<String> = std::iter::from_fn(|| series.line()).collect();
        assert!(text.iter().any(|line| line.starts_with("total ")), "{name}: {text:?}");
        assert!(text[0].starts_with(&format!("sleep {pid} ")), "{name}: {text:?}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_ctrl_c_ends_the_wait_for_a_server() {
    needs(&[]);
    let mut command = fsynctop();
    command.args(["once", "--wait", "--comm", "not-there-yet"]).stderr(Stdio::piped());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    signal(child.id(), "INT");
    let output = finish(child, Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr(&output).contains("waiting for a process called not-there-yet"), "{output:?}");
    assert!(!stderr(&output).contains("panicked"));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_series_has_one_heading_and_constant_columns() {
    needs(&[]);
    let directory = tempfile::tempdir().unwrap();
    let target = Running(
        Command::new(tool("syncgen"))
            .arg(directory.path())
            .args(["--seconds", "600", "--comm", "cli-series"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let pid = target.0.id().to_string();
    let run = |format: &str| {
        let options = ["once", "-i", "0.3", "-n", "3", "--output", format, "--pid", &pid];
        let output = output(fsynctop().args(options));
        assert!(output.status.success(), "{output:?}");
        stdout(&output)
    };
    let csv = run("csv");
    let mut lines = csv.lines();
    let heading = lines.next().unwrap();
    let rows: Vec<&str> = lines.collect();
    assert!(rows.len() >= 3, "{csv}");
    for row in &rows {
        assert_ne!(*row, heading, "{csv}");
        assert_eq!(row.split(',').count(), heading.split(',').count(), "{csv}");
    }
    let json = run("json");
    let intervals: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(intervals.len(), 3);
    for pair in intervals.windows(2) {
        assert_eq!(pair[0]["end"], pair[1]["start"], "no gap between two intervals");
    }
    let table = run("table");
    assert_eq!(table.lines().filter(|line| line.starts_with("ROLE ")).count(), 3, "{table}");
    assert!(!table.contains('\x1b'), "no colours in a pipe");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_broken_pipe_ends_a_series_quietly() {
    needs(&[]);
    let target = sleeper();
    let script = r#""$1" once -i 0.2 --pid "$2" | head -1"#;
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", script, "sh", PROGRAM, &target.0.id().to_string()]);
    let output = output(&mut command);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{output:?}");
    assert_eq!(stdout(&output).lines().count(), 1);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_cannot_be_written_to_the_file_is_printed_instead() {
    needs(&[]);
    let script = r#"
        d=$(mktemp -d); trap 'umount "$d"; rmdir "$d"' EXIT
        mount -t tmpfs -o size=4k none "$d"; head -c 4096 /dev/zero >"$d/full"
        "$1" once --output json --output-file "$d/measured" -- true"#;
    let full = unshared(&["-m"], script);
    assert_eq!(full.status.code(), Some(1), "{full:?}");
    assert!(stderr(&full).contains("No space left on device"), "{full:?}");
    assert!(stderr(&full).contains("the measurement is printed instead"), "{full:?}");
    let measured: Value = serde_json::from_str(&stdout(&full)).unwrap();
    assert_eq!(measured["schema"], 1);

    let script = r#"
        d=$(mktemp -d); trap 'umount "$d"; rmdir "$d"' EXIT
        mount -t tmpfs -o size=16k none "$d"
        "$1" once -i 0.1 --output json --output-file "$d/measured" -- sleep 10 >/dev/null; s=$?
        cat "$d/measured"; exit $s"#;
    let series = unshared(&["-m"], script);
    assert_eq!(series.status.code(), Some(1), "{series:?}");
    assert!(stderr(&series).contains("No space left on device"), "{series:?}");
    let lines = stdout(&series);
    assert!(lines.ends_with('\n'), "no half a line: {lines}");
    for line in lines.lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["schema"], 1);
    }

    let script = r#"
        d=$(mktemp -d); trap 'umount "$d"; rmdir "$d"' EXIT
        mount -t tmpfs -o ro none "$d"
        "$1" once --output-file "$d/measured" -- true"#;
    let read_only = unshared(&["-m"], script);
    assert_eq!(read_only.status.code(), Some(1), "{read_only:?}");
    assert!(stderr(&read_only).contains("Read-only file system"), "{read_only:?}");
    assert_eq!(stdout(&read_only), "", "known before anything was measured");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_without_proc_nobody_is_told_that_no_server_runs() {
    needs(&[]);
    for arguments in ["once", "once --pid 1", "explain", "verify", "stuck", "stuck --comm mysqld"] {
        let script = format!("mount -t tmpfs none /proc && exec \"$1\" {arguments}");
        let ended = unshared(&["-m"], &script);
        assert_eq!(ended.status.code(), Some(1), "{arguments}: {ended:?}");
        let said = stderr(&ended);
        assert!(said.contains("/proc is not mounted here") && !said.contains("there is no"), "{said}");
    }
    let check = unshared(&["-m"], "mount -t tmpfs none /proc && exec \"$1\" check");
    assert!(stdout(&check).contains("/proc is not mounted here"), "{check:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_signal_ends_it_also_where_nobody_reads_what_it_prints() {
    needs(&[]);
    let mut once = fsynctop();
    once.args(["once", "-i", "0.02", "--output", "json", "--pid", &std::process::id().to_string()]);
    let child = once.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    // The pipe holds 64 kB.
    wait_until("it to wait for the reader", || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        call.starts_with("1 0x1 ")
    });
    std::thread::sleep(Duration::from_secs(1));
    signal(pid, "TERM");
    // It has ten seconds to end by itself. Nobody reads meanwhile.
    let begun = Instant::now();
    wait_until("its end", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") Z ") || stat.is_empty()
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(finish(child, Duration::from_secs(1)).status.code(), Some(128 + 15));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_rules_of_the_user_come_first() {
    needs(&[]);
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("roles.toml");
    std::fs::write(&rules, "[[rule]]\nrole = \"audit\"\nname = \"^ib_logfile0$\"\n").unwrap();
    let argv = seven_syncs(directory.path());
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    let (built_in, _) = trace(&[], &mut command);
    assert_eq!(role_count(&built_in, "redo"), 7);
    let (own, _) = trace(&["--roles", rules.to_str().unwrap()], &mut command);
    assert_eq!(role_count(&own, "audit"), 7);
    assert_eq!(role_count(&own, "redo"), 0);
}

fn role_count(measured: &Value, role: &str) -> u64 {
    let roles = measured["roles"].as_array().unwrap().iter().filter(|row| row["role"] == role);
    roles.map(|row| row["count"].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_who_is_not_root_is_told_the_command_to_type_and_check_has_the_rest() {
    needs(&["/usr/bin/setpriv"]);
    // Where the program was built may be closed to others.
    let directory =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir();
    let copy = directory.as_ref().unwrap().path().join("fsynctop");
    std::fs::copy(PROGRAM, &copy).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&copy);
        output(command.args(arguments).stdin(Stdio::null()))
    };
    let target = sleeper();
    let pid = target.0.id().to_string();
    let name = "3306=the orders";
    for (arguments, typed) in [
        (&["once", "--", "true"][..], "once -- true".to_owned()),
        (&["--pid", &pid], format!("--pid {pid}")),
        (&["-d", "1", "explain", &pid], format!("-d 1 explain {pid}")),
        (
            &["events", "--pid", &pid, "--server-name", name],
            format!("events --pid {pid} --server-name '{name}'"),
        ),
    ] {
        let ended = as_nobody(arguments);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let expected = format!("Tracing needs root: sudo fsynctop {typed}\n(Details: fsynctop check)\n");
        assert_eq!(stderr(&ended), expected, "{arguments:?}");
    }
    let check = as_nobody(&["check"]);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    assert!(stdout(&check).contains("FAIL  capabilities") && stdout(&check).contains("CAP_BPF"), "{check:?}");
    assert!(!stderr(&check).contains("panicked") && !stderr(&check).contains("libbpf:"), "{check:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_without_capabilities_is_told_which() {
    needs(&["/usr/bin/setpriv"]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", PROGRAM, "once", "--", "true"]);
    let once = output(command.stdin(Stdio::null()));
    assert_eq!(once.status.code(), Some(1), "{once:?}");
    for part in ["cannot trace", "CAP_BPF", "CAP_PERFMON", "run it as root", "fsynctop stuck"] {
        assert!(stderr(&once).contains(part), "no {part} in {once:?}");
    }
    assert_eq!(stderr(&once).matches("CAP_BPF (").count(), 1, "said once: {once:?}");
    assert!(!stderr(&once).contains("needs root") && !stderr(&once).contains("libbpf:"), "{once:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_terminal_shows_what_is_measured_for_as_long_as_it_is() {
    needs(&[TMUX]);
    let target = sleeper();
    let pid = target.0.id().to_string();
    for (arguments, line) in [
        (&["once", "-d", "3", &pid][..], format!("Measuring sleep {pid} for 3 s (Ctrl-C ends it early)")),
        (
            &["explain", "-d", "3", &pid],
            format!("Watching the syncs of sleep {pid} for 3 s (Ctrl-C ends it early)"),
        ),
    ] {
        let terminal = crate::common::terminal::Terminal::fsynctop(100, 60, arguments);
        terminal.until("the line and its bar", |screen| screen.contains(&line) && screen.contains("[="));
        terminal.until_shown("ended with 0");
        let screen = terminal.screen();
        assert!(!screen.contains("Ctrl-C") && !screen.contains("[="), "{screen}");
    }
    let arguments = ["once", "-i", "0.3", "-n", "2", &pid];
    let terminal = crate::common::terminal::Terminal::fsynctop(100, 60, &arguments);
    let screen = terminal.until_shown("ended with 0");
    let first = screen.lines().next().unwrap();
    assert_eq!(first, format!("Measuring sleep {pid}, a result every 300 ms (Ctrl-C ends it)"), "{screen}");
    let terminal =
        crate::common::terminal::Terminal::fsynctop(100, 60, &["once", "--", "sh", "-c", "exit 0"]);
    let screen = terminal.until_shown("ended with 0");
    let first = screen.lines().next().unwrap();
    assert_eq!(first, "Tracing `sh -c 'exit 0'` and all that it starts, until it ends", "{screen}");
    // On standard error that is no terminal there are errors alone.
    let quiet = output(fsynctop().args(["once", "-d", "0.5", &pid]));
    assert_eq!((quiet.status.code(), stderr(&quiet).as_str()), (Some(0), ""));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_tracing_works_where_tracefs_is_not_mounted() {
    needs(&[]);
    let script = r#"umount -l /sys/kernel/debug 2>/dev/null; umount -l /sys/kernel/tracing 2>/dev/null
        test ! -e /sys/kernel/tracing/events || exit 99
        "$1" once --attach tracepoint --output json -- true"#;
    let output = unshared(&["-m"], script);
    assert!(output.status.success(), "{output:?}");
    let measured: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(measured["attach"], "tracepoint");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_without_btf_the_message_names_the_kernel_option() {
    needs(&["/sys/kernel/btf/vmlinux"]);
    let script = r#"mount --bind /dev/null /sys/kernel/btf/vmlinux; "$1" once -- true; echo "once: $?"
        "$1" check; echo "check: $?""#;
    let output = unshared(&["-m"], script);
    let (out, err) = (stdout(&output), stderr(&output));
    assert!(out.contains("once: 1") && out.contains("check: 1"), "{output:?}");
    assert!(err.contains("CONFIG_DEBUG_INFO_BTF"), "{err}");
    assert!(out.contains("FAIL  BTF") && out.contains("CONFIG_DEBUG_INFO_BTF"), "{out}");
    assert!(!err.contains("panicked") && !err.contains("libbpf:"), "{err}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_in_another_pid_namespace_it_says_so_instead_of_measuring_nothing() {
    needs(&[]);
    let script = r#""$1" once -- true; echo "once: $?"; "$1" check; echo "check: $?""#;
    let output = unshared(&["-p", "-f", "--mount-proc"], script);
    let (out, err) = (stdout(&output), stderr(&output));
    assert!(out.contains("once: 1") && out.contains("check: 1"), "{output:?}");
    assert!(err.contains("PID namespace") && err.contains("--pid=host"), "{err}");
    assert!(out.contains("FAIL  PID namespace") && out.contains("Tracing does not work here"), "{out}");
}

/// syncfs: nobody else on the machine calls it, so the counts are exact on any host.
/// A real terminal of some width, and what stands on it after a command.
struct Terminal(String);

impl Terminal {
    fn screen(columns: usize, command: &str) -> String {
        let server = format!("fsynctop-test-{}-{columns}", std::process::id());
        let terminal = Terminal(server);
        let size = [columns.to_string(), "70".to_owned()];
        let shell = format!("{command}; printf 'status %s' $?; sleep 600");
        let mut start = terminal.tmux();
        start.args(["new-session", "-d", "-x", &size[0], "-y", &size[1], &shell]);
        assert!(start.env("LC_ALL", "C.UTF-8").status().unwrap().success());
        let mut screen = String::new();
        wait_until("the command to end", || {
            // -J joins the lines that the terminal wrapped, which are then too long.
            screen = stdout(&output(terminal.tmux().args(["capture-pane", "-p", "-J"])));
            screen.contains("status ")
        });
        screen
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-L", &self.0]).stdin(Stdio::null());
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").status();
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_no_line_wraps_on_a_terminal_of_any_width() {
    needs(&["/usr/bin/tmux"]);
    // A device of its own: who else syncs on the machine does not show.
    let mount = FaultFs::mount("ok");
    let directory = mount.path().join("a-directory/with-a-long-path");
    std::fs::create_dir_all(&directory).unwrap();
    for columns in [60, 80, 120, 200] {
        let load = format!("{} {} --syncs 2000", tool("syncgen").display(), directory.display());
        let command =
            format!("{PROGRAM} once --by file --color never --histogram -- sh -c 'exec {load} >/dev/null'");
        let screen = Terminal::screen(columns, &command);
        assert!(screen.contains("status 0"), "{columns}:\n{screen}");
        let lines: Vec<&str> = screen.lines().collect();
        for line in &lines {
            assert!(width(line) <= columns, "{columns}: {line:?}\n{screen}");
        }
        let heading = lines.iter().position(|line| line.starts_with("FILE ")).unwrap();
        let end = |word: &str| lines[heading].find(word).map(|at| at + word.len()).unwrap();
        let rows: Vec<&&str> =
            lines[heading + 1..].iter().take_while(|line| !line.starts_with("total")).collect();
        let total = lines[heading + 1 + rows.len()];
        assert!(!rows.is_empty(), "{screen}");
        for row in &rows {
            assert!(row.contains("sync-0"), "{columns}: {row}\n{screen}");
        }
        let column_of = |line: &str, at: usize| line.chars().take(at).last();
        let digits = |line: &str| column_of(line, end("SYNCS"));
        for row in rows.iter().map(|row| **row).chain([total]) {
            assert!(digits(row).is_some_and(|c| c.is_ascii_digit()), "SYNCS is not aligned: {row}\n{screen}");
        }
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_colours_are_for_terminals_that_want_them() {
    needs(&["/usr/bin/script"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    // script(1) gives a terminal and copies what was written to it.
    let on_a_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("script");
        let sync = format!("sync --data {}", file.path().display());
        command.args(["-qec", &format!("{PROGRAM} once -- {sync}"), "/dev/null"]).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        stdout(&output(command.envs(variables.iter().copied())))
    };
    let coloured = on_a_terminal(&[]);
    assert!(coloured.contains("\x1b["), "{coloured:?}");
    for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let plain = on_a_terminal(&variables);
        assert!(plain.contains("total") && !plain.contains('\x1b'), "{variables:?}: {plain:?}");
    }
    let ascii = on_a_terminal(&[("LC_ALL", "C"), ("NO_COLOR", "1")]);
    assert!(ascii.is_ascii() && ascii.contains("total"), "{ascii:?}");
}
