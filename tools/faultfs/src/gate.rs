//! Where every sync passes: answered at once, later, with an error, or kept until it is released.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fuser::{Errno, ReplyEmpty};

use crate::rules::{Behaviour, Command, Rules, parse};

#[derive(Clone, Copy)]
pub enum Sync {
    Fsync,
    Fdatasync,
    Fsyncdir,
}

/// An answer still owed; a trait so that the gate's own tests need no kernel.
pub trait Answer: Send + 'static {
    fn answer(self, result: Result<(), i32>);
}

impl Answer for ReplyEmpty {
    fn answer(self, result: Result<(), i32>) {
        match result {
            Ok(()) => self.ok(),
            Err(errno) => self.error(Errno::from_i32(errno)),
        }
    }
}

struct State<A> {
    rules: Rules,
    hanging: Vec<(String, Instant, A)>,
    /// Set when the file system goes away: nothing may hang any more.
    closing: bool,
    fsyncs: u64,
    fdatasyncs: u64,
    fsyncdirs: u64,
    failed: u64,
}

pub struct Gate<A> {
    state: Mutex<State<A>>,
}

impl<A: Answer> Gate<A> {
    pub fn new() -> Self {
        let rules = Rules::default();
        let hanging = Vec::new();
        Gate {
            state: Mutex::new(State {
                rules,
                hanging,
                closing: false,
                fsyncs: 0,
                fdatasyncs: 0,
                fsyncdirs: 0,
                failed: 0,
            }),
        }
    }

    /// Passes one sync of the file called `name`. Never blocks: the caller serves other requests meanwhile.
    pub fn pass(&self, sync: Sync, name: &str, answer: A) {
        let arrived = Instant::now();
        let mut state = self.lock();
        match sync {
            Sync::Fsync => state.fsyncs += 1,
            Sync::Fdatasync => state.fdatasyncs += 1,
            Sync::Fsyncdir => state.fsyncdirs += 1,
        }
        let behaviour = if state.closing { Behaviour::Fail(libc::EIO) } else { state.rules.of(name) };
        match behaviour {
            Behaviour::Ok => answer.answer(Ok(())),
            Behaviour::Fail(errno) => {
                state.failed += 1;
                answer.answer(Err(errno));
            }
            Behaviour::Hang => state.hanging.push((name.to_owned(), arrived, answer)),
            Behaviour::Delay(delay) => {
                // A thread for each: syncs are delayed independently of one another, as a slow disk with a
                // deep queue would.
                thread::spawn(move || {
                    thread::sleep(delay.saturating_sub(arrived.elapsed()));
                    answer.answer(Ok(()));
                });
            }
        }
    }

    /// Carries out what was written to `.control`: nothing of it unless every line is understood.
    pub fn command(&self, text: &str) -> Result<(), String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let commands = lines.map(parse).collect::<Result<Vec<_>, _>>()?;
        for command in commands {
            match command {
                Command::Set(behaviour, prefix) => self.lock().rules.set(behaviour, prefix),
                Command::Release(errno) => self.release(errno),
            }
        }
        Ok(())
    }

    /// Fails every sync that hangs and lets none hang from now on.
    pub fn close(&self) {
        self.lock().closing = true;
        self.release(Some(libc::EIO));
    }

    /// What reading `.control` shows: the rules, then the counts, then each sync that hangs with its age.
    pub fn report(&self) -> String {
        let state = self.lock();
        let mut text = format!(
            "{}fsync {}\nfdatasync {}\nfsyncdir {}\nfailed {}\nhanging {}\n",
            state.rules,
            state.fsyncs,
            state.fdatasyncs,
            state.fsyncdirs,
            state.failed,
            state.hanging.len()
        );
        for (name, since, _) in &state.hanging {
            let age = Duration::from_millis(since.elapsed().as_millis() as u64);
            text += &format!("  {name:?} for {}\n", humantime::format_duration(age));
        }
        text
    }

    fn release(&self, errno: Option<i32>) {
        let hanging = {
            let mut state = self.lock();
            state.rules.stop_hanging();
            let hanging = std::mem::take(&mut state.hanging);
            state.failed += if errno.is_some() { hanging.len() as u64 } else { 0 };
            hanging
        };
        for (_, _, answer) in hanging {
            answer.answer(errno.map_or(Ok(()), Err));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    impl Answer for Sender<Result<(), i32>> {
        fn answer(self, result: Result<(), i32>) {
            self.send(result).expect("the test still listens");
        }
    }

    #[test]
    fn a_hanging_sync_is_answered_when_released_and_not_before() {
        let gate = Gate::new();
        gate.command("hang\n").expect("a known command");
        let (sender, answers) = channel();
        gate.pass(Sync::Fsync, "a", sender.clone());
        assert!(answers.try_recv().is_err());
        assert!(gate.report().contains("hanging 1\n  \"a\" for "), "{}", gate.report());
        gate.command("release ENOSPC").expect("a known command");
        assert_eq!(answers.try_recv(), Ok(Err(libc::ENOSPC)));
        gate.pass(Sync::Fsync, "a", sender);
        assert_eq!(answers.try_recv(), Ok(Ok(())), "released: the rule has ended too");
        assert!(gate.report().contains("ok\nfsync 2\nfdatasync 0\nfsyncdir 0\nfailed 1\nhanging 0\n"));
    }

    #[test]
    fn a_delay_is_never_shorter_than_asked_for() {
        let gate = Gate::new();
        let (sender, answers) = channel();
        let started = Instant::now();
        gate.pass(Sync::Fdatasync, "slow-20ms-x", sender);
        assert!(started.elapsed() < Duration::from_millis(20), "the gate itself must not wait");
        assert_eq!(answers.recv(), Ok(Ok(())));
        assert!(started.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn nothing_hangs_once_closed() {
        let gate = Gate::new();
        let (sender, answers) = channel();
        gate.pass(Sync::Fsyncdir, "hang-x", sender.clone());
        gate.close();
        gate.pass(Sync::Fsyncdir, "hang-x", sender);
        assert_eq!((answers.try_recv(), answers.try_recv()), (Ok(Err(libc::EIO)), Ok(Err(libc::EIO))));
    }

    #[test]
    fn a_text_with_one_bad_line_changes_nothing() {
        let gate: Gate<Sender<_>> = Gate::new();
        assert!(gate.command("delay 1s\nexplode\n").is_err());
        assert!(gate.report().starts_with("ok\n"));
    }
}
