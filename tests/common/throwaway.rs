//! Servers that are thrown away with the test.

use std::fmt::Debug;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::faults::signal;
use super::{Running, wait_until};

/// A server that is killed when this is dropped, and what it says.
pub struct Throwaway {
    running: Running,
    log: PathBuf,
}

impl Throwaway {
    /// `log`: the file for its output.
    pub fn start(mut command: Command, log: PathBuf) -> Throwaway {
        let output = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let program = command.get_program().to_owned();
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Throwaway { running: Running(child), log }
    }

    /// Waits until it is ready; that it ends before is told with what it says.
    pub fn wait_until(&self, what: &str, mut is_ready: impl FnMut() -> bool) {
        let executable = format!("/proc/{}/exe", self.pid());
        wait_until(what, || {
            assert!(Path::new(&executable).exists(), "it has ended: {}", self.log());
            is_ready()
        });
    }

    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it by a signal to end, which it does without an error.
    pub fn stop(mut self, name: &str) {
        signal(self.pid(), name);
        let status = self.running.0.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// What a server counts, once it has stood still for as long as `quiet` says. None: it cannot be at rest yet.
pub fn at_rest<T: Debug + PartialEq>(
    quiet: impl Fn(&T) -> Option<Duration>,
    mut count: impl FnMut() -> T,
) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    let (mut counted, mut since) = (count(), Instant::now());
    while quiet(&counted).is_none_or(|quiet| since.elapsed() < quiet) {
        assert!(Instant::now() < deadline, "the server does not come to rest: {counted:?}");
        std::thread::sleep(Duration::from_millis(100));
        let now = count();
        if now != counted {
            (counted, since) = (now, Instant::now());
        }
    }
    counted
}
