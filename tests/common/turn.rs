//! When a test may run, and how long it took.
//!
//! Most tests that need root trace processes of their own and run beside each other. Those of
//! `tests/root/alone` are about the host as a whole (its neighbours, processors, memory or exporter), so each
//! has it to itself. A lock sees to that, whatever the number of test threads and of test runs: see `Turn`.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Names the file to which each test that took a turn appends a line, for tools/test-times. It does not begin
/// with FSYNCTOP, because the exporter warns of variables that look like its options.
const TIMES: &str = "TEST_TIMES";

/// How the names of tests that run alone begin.
const ALONE: &str = "alone::";

/// The lock that a test holds until its thread ends: shared, or exclusive for one that runs alone.
struct Turn {
    _lock: File,
    name: String,
    asked: Instant,
    began: Instant,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
    static REASON: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Waits for the calling test's turn, unless it has it.
pub fn take() {
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(Turn::take);
    });
}

/// Fails a test of which nothing keeps the others away. A thread that a test started has its test's turn.
pub fn must_be_taken() {
    let is_a_tests_own = std::thread::current().name().is_some_and(|name| name.contains("::"));
    let taken = TURN.with_borrow(Option::is_some);
    assert!(taken || !is_a_tests_own, "this test took no turn: it begins with common::needs");
}

/// Why the calling test takes more than half a minute. The summary of a test run names it with this reason.
pub fn takes_long(reason: &'static str) {
    REASON.set(Some(reason));
}

/// The file is in a directory that only root may write to, because whoever holds the lock stops all tests.
fn lock_file() -> PathBuf {
    PathBuf::from("/run/lock").canonicalize().unwrap_or_else(|_| "/run".into()).join("fsynctop-tests")
}

impl Turn {
    fn take() -> Turn {
        let asked = Instant::now();
        let path = lock_file();
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let lock = lock.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let operation = match name.starts_with(ALONE) {
            true => FlockOperation::LockExclusive,
            false => FlockOperation::LockShared,
        };
        while let Err(error) = flock(&lock, operation) {
            assert_eq!(error, rustix::io::Errno::INTR, "{}", path.display());
        }
        Turn { _lock: lock, name, asked, began: Instant::now() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(path) = std::env::var_os(TIMES) else { return };
        let seconds = |duration: Duration| duration.as_secs_f64();
        let (took, waited) = (self.began.elapsed(), self.began - self.asked);
        let reason = REASON.try_with(Cell::get).ok().flatten().unwrap_or_default();
        let line = format!("{:.3}\t{:.3}\t{}\t{reason}\n", seconds(took), seconds(waited), self.name);
        let file = OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
