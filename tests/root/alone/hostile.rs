//! Needs root: what a user without rights can do to fsynctop by a process that calls itself `mysqld`. He
//! chooses its command line, its environment, its option files and how many of them there are.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::measured::Measured;
use crate::common::{Running, needs};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const NOBODY: u32 = 65_534;
/// The program needs some 60 MB where it was not optimised; each of the attacks took it beyond a gigabyte.
const MAX_MEMORY: u64 = 150 << 20;

/// Calls itself mysqld, does what it was told, says so, and waits.
const PROLOGUE: &str = "
import ctypes, mmap, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, b'mysqld', 0, 0, 0)
";
const EPILOGUE: &str = "
print('ready', flush=True)
time.sleep(600)
";

/// A process of a user without rights.
fn attacker(attack: &str, arguments: &[&str]) -> Running {
    let mut child = Command::new("setpriv")
        .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"])
        .args(["/usr/bin/python3", "-c", &format!("{PROLOGUE}{attack}{EPILOGUE}")])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Running(child)
}

/// Files that anybody may read.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    directory
}

fn defaults_file(path: &Path) -> String {
    format!("--defaults-file={}", path.display())
}

/// Option files of which each includes all others, and the directory as well.
fn files_that_include_each_other(directory: &Path) -> PathBuf {
    let path = |number: u32| directory.join(format!("{number}.cnf"));
    let includes: String = (0..30).map(|number| format!("!include {}\n", path(number).display())).collect();
    for number in 0..30 {
        let text = format!("[mysqld]\nport={number}\n{includes}!includedir {}\n", directory.display());
        fs::write(path(number), text).unwrap();
    }
    path(0)
}

struct Ended {
    status: ExitStatus,
    output: String,
    /// Of user space and the kernel together.
    cpu: Duration,
    memory: u64,
}

/// Runs fsynctop to its end, which must come within a minute.
fn fsynctop(arguments: &[&str]) -> Ended {
    let output = tempfile::NamedTempFile::new().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(arguments)
        .stdout(output.reopen().unwrap())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let (status, cpu, memory) = ended(child, Duration::from_secs(60));
    Ended { status, output: fs::read_to_string(output.path()).unwrap(), cpu, memory }
}

/// Waits for the end, and looks meanwhile at what it has used.
fn ended(mut child: Child, within: Duration) -> (ExitStatus, Duration, u64) {
    let end = Instant::now() + within;
    let (mut cpu, mut memory) = (Duration::ZERO, 0);
    loop {
        let process = procfs::process::Process::new(child.id() as i32).unwrap();
        if let Ok(stat) = process.stat() {
            let ticks = Duration::from_secs(stat.utime + stat.stime) / procfs::ticks_per_second() as u32;
            cpu = cpu.max(ticks);
        }
        memory = memory.max(process.status().ok().and_then(|status| status.vmhwm).unwrap_or(0) << 10);
        if let Some(status) = child.try_wait().unwrap() {
            return (status, cpu, memory);
        }
        if Instant::now() >= end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it has not ended after {within:?}; it used {cpu:?} and {} MB", memory >> 20);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn an_environment_of_gigabytes_is_not_read() {
    needs(&[]);
    // struct prctl_mm_map (include/uapi/linux/prctl.h): the environment is now a mapping of 3 GB without any
    // pages.
    let attack = "
size = 3 << 30
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
at = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, 0x4022, -1, 0)
fields = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
start_code, end_code, start_stack = (int(fields[n - 3]) for n in (26, 27, 28))
start_data, end_data, start_brk, arg_start, arg_end = (int(fields[n - 3]) for n in (45, 46, 47, 48, 49))
brk = libc.sbrk
brk.restype = ctypes.c_void_p
map = struct.pack('=12QQIi', start_code, end_code, start_data, end_data, start_brk, brk(0), start_stack,
                  arg_start, arg_end, at, at + size, 0, 0, 0, -1)
map = map[:88] + struct.pack('=QIi', 0, 0, -1)
if libc.prctl(35, 14, ctypes.create_string_buffer(map), len(map), 0):
    raise OSError(ctypes.get_errno(), 'PR_SET_MM_MAP')
";
    let process = attacker(attack, &[]);
    let pid = process.0.id().to_string();
    let ended = fsynctop(&["once", "-d", "2", "--pid", &pid]);
    assert!(ended.status.success(), "{}", ended.output);
    println!("{} MB", ended.memory >> 20);
    assert!(ended.memory < MAX_MEMORY, "{} MB", ended.memory >> 20);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn option_files_that_include_each_other_burn_no_processor_and_keep_nobody_from_being_described() {
    needs(&[]);
    let directory = directory();
    let first = defaults_file(&files_that_include_each_other(directory.path()));
    let attackers: Vec<_> = (0..6).map(|_| attacker("", &[&first])).collect();
    // A server of another user, which comes last.
    let victim = Command::new("/usr/bin/python3")
        .args(["-c", &format!("{PROLOGUE}{EPILOGUE}"), "--no-defaults", "--datadir=/srv/victim"])
        .stdout(Stdio::null())
        .spawn();
    let victim = Running(victim.unwrap());
    let ended = fsynctop(&["once", "-i", "1", "-n", "8", "--output", "json", "--comm", "mysqld"]);
    assert!(ended.status.success(), "{}", ended.output);
    let last = Measured::parse(ended.output.lines().last().unwrap());
    let servers = last.0["servers"].as_array().unwrap();
    let server = |pid: u32| servers.iter().find(|server| server["pid"] == pid).unwrap();
    assert_eq!(server(victim.0.id())["datadir"], "/srv/victim");
    assert!(attackers.iter().all(|attacker| server(attacker.0.id())["alive"] == true));
    assert!(ended.cpu < Duration::from_secs(6), "{:?} of a processor in 8 s", ended.cpu);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn option_files_with_names_without_end_take_no_memory() {
    needs(&[]);
    let directory = directory();
    for file in 0..400 {
        let names: String = (0..5_000).map(|name| format!("{:0>200}{file}_{name}=1\n", "")).collect();
        fs::write(directory.path().join(format!("{file}.cnf")), format!("[mysqld]\n{names}")).unwrap();
    }
    let first = directory.path().join("my.cnf");
    fs::write(&first, format!("!includedir {}\n", directory.path().display())).unwrap();
    let process = attacker("", &[&defaults_file(&first)]);
    let pid = process.0.id().to_string();
    // Long enough to read all of them, if all were read.
    let ended = fsynctop(&["once", "-d", "20", "--pid", &pid]);
    assert!(ended.status.success(), "{}", ended.output);
    assert!(ended.memory < MAX_MEMORY, "{} MB", ended.memory >> 20);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_writer_of_a_fifo_that_is_named_as_an_option_file_goes_on_waiting() {
    needs(&[]);
    let directory = directory();
    let fifo = directory.path().join("my.cnf");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let process = attacker("", &[&defaults_file(&fifo)]);
    let mut writer = Running(
        Command::new("sh")
            .args(["-c", "exec 3>\"$0\"; echo through"])
            .arg(&fifo)
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let pid = process.0.id().to_string();
    assert!(fsynctop(&["once", "-d", "2", "--pid", &pid]).status.success());
    assert_eq!(writer.0.try_wait().unwrap(), None, "fsynctop has opened the FIFO");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn no_subcommand_waits_for_a_description_without_an_end() {
    needs(&[]);
    let directory = directory();
    let first = defaults_file(&files_that_include_each_other(directory.path()));
    let _attackers: Vec<_> = (0..4).map(|_| attacker("", &[&first])).collect();
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    // Whatever each says of such servers, it says it.
    for arguments in [
        &["check"][..],
        &["stuck", "--comm", "mysqld"],
        &["verify", "--comm", "mysqld", "-d", "1"],
        &["explain", "--comm", "mysqld", "-d", "1"],
        &["calibrate", "--no-save", "--each", "20ms", "--threads", "2", place],
    ] {
        let began = Instant::now();
        let ended = fsynctop(arguments);
        assert!(ended.status.code().is_some(), "{arguments:?}: {:?}", ended.status);
        println!("{arguments:?}: {:?}, {:?}", ended.status.code(), began.elapsed());
    }
}
