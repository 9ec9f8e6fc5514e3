//! A process of a test that does nothing, and ends with the test.

use std::process::{Child, Command, Stdio};

pub(crate) struct Sleeper(Child);

impl Sleeper {
    /// Returns once it executes `sleep`. `spawn` returns earlier: the kernel lets a parent go on before it
    /// has given the child its new name and arguments.
    pub(crate) fn start() -> Self {
        Self::of(&mut Command::new("sleep"))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let child = command.arg("600").stdin(Stdio::null()).spawn().expect("sleep can be started");
        let sleeper = Self(child);
        let read = |file: &str| std::fs::read(format!("/proc/{}/{file}", sleeper.id())).unwrap_or_default();
        while read("comm") != b"sleep\n" || read("cmdline").is_empty() {
            std::thread::yield_now();
        }
        sleeper
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills it. It stays a zombie until it is dropped.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("a child can be killed");
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
