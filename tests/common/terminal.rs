//! fsynctop in a real terminal: tmux, driven by its keys, read as it is shown.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::wait_until;

pub const TMUX: &str = "/usr/bin/tmux";
/// No test waits longer for something to be shown.
const LONG: Duration = Duration::from_secs(60);

/// A terminal of its own. What runs in it ends with it.
pub struct Terminal {
    server: String,
    directory: tempfile::TempDir,
}

impl Terminal {
    /// Runs `fsynctop ARGUMENTS` in an empty directory. When that has ended, the terminal stays and says how.
    pub fn fsynctop(columns: u16, rows: u16, arguments: &[&str]) -> Terminal {
        Terminal::program(columns, rows, env!("CARGO_BIN_EXE_fsynctop"), arguments)
    }

    /// The same of another program.
    pub fn program(columns: u16, rows: u16, program: &str, arguments: &[&str]) -> Terminal {
        let script = r#"
            stty -a >before; program=$1; shift
            sh -c 'echo $$ >pid; exec "$0" "$@"' "$program" "$@"
            echo "ended with $?"; stty -a >after; exec sleep 1000"#;
        let mut command = vec!["sh", "-c", script, "sh", program];
        command.extend(arguments);
        Terminal::new(columns, rows, &command)
    }

    pub fn new(columns: u16, rows: u16, command: &[&str]) -> Terminal {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = format!("fsynctop-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let terminal = Terminal { server, directory: tempfile::tempdir().unwrap() };
        let size = [columns.to_string(), rows.to_string()];
        let directory = terminal.directory.path().to_str().unwrap().to_owned();
        let mut tmux = terminal.command();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], "-c", &directory]);
        // The environment of whoever runs the tests decides nothing.
        let own = ["LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=xterm-256color", "NO_COLOR=", "COLORTERM="];
        for variable in own.into_iter().chain(["RUST_BACKTRACE=0"]) {
            tmux.args(["-e", variable]);
        }
        let output = tmux.args(command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        terminal
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server]).stdin(Stdio::null());
        command
    }

    pub fn tmux(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Where the program runs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// tmux's own names of keys: "q", "Escape", "C-c", "PPage", "Space".
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// With the sequences that make its colours.
    pub fn colours(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen is as it should be; returns it.
    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        self.within(LONG, what, holds)
    }

    #[track_caller]
    pub fn within(&self, time: Duration, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + time;
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "waited {time:?} in vain for {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    #[track_caller]
    pub fn until_shown(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// What tmux knows of the terminal: `alternate_on`, `cursor_flag`, `mouse_any_flag`.
    pub fn fact(&self, name: &str) -> String {
        self.tmux(&["display-message", "-p", &format!("#{{{name}}}")]).trim().to_owned()
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Of fsynctop.
    pub fn pid(&self) -> u32 {
        let mut pid = None;
        wait_until("the program to begin", || {
            pid = std::fs::read_to_string(self.file("pid")).ok().and_then(|text| text.trim().parse().ok());
            pid.is_some()
        });
        pid.unwrap()
    }

    /// Of tmux itself, which reads what is shown.
    pub fn reader(&self) -> u32 {
        self.fact("pid").parse().unwrap()
    }

    /// That fsynctop has ended so, and left the terminal as it was.
    #[track_caller]
    pub fn assert_restored(&self, status: i32) {
        self.until_shown(&format!("ended with {status}"));
        wait_until("the terminal's modes", || self.file("after").metadata().is_ok_and(|file| file.len() > 0));
        let modes = |name: &str| std::fs::read_to_string(self.file(name)).unwrap();
        assert_eq!(modes("before"), modes("after"));
        assert_eq!(self.fact("alternate_on"), "0", "the screen as it was before");
        assert_eq!(self.fact("cursor_flag"), "1", "the cursor can be seen");
        assert_eq!(self.fact("mouse_any_flag"), "0", "the mouse is the terminal's own");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").stderr(Stdio::null()).status();
    }
}

/// The line of a table that begins so, in its cells.
pub fn cells<'a>(screen: &'a str, first: &str) -> Option<Vec<&'a str>> {
    let line = screen.lines().find(|line| line.split_whitespace().next() == Some(first))?;
    Some(line.split_whitespace().collect())
}

/// `1,234` or `0.4`.
pub fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
