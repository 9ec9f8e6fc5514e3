//! The keys that fsynctop.toml may have: options of the command line whose worst effect is another picture.
//! None of them writes a file, starts a program, or sends anything anywhere.

/// Where a key may stand, and for which actions it holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As the long option.
    pub name: &'static str,
    /// None: at the top of the file. Else in the table of this action.
    pub table: Option<&'static str>,
    pub actions: &'static [&'static str],
}

/// What traces. `stuck` is none of them: without options it examines every process, whatever is traced.
const TRACING: &[&str] =
    &["top", "once", "record", "check", "explain", "verify", "exporter", "events", "status"];
const LONG: &[&str] = &["top", "once", "record", "exporter", "events"];
const NAMING: &[&str] = &["top", "once", "record", "exporter", "events", "status"];
const PAINTED: &[&str] =
    &["top", "once", "history", "segments", "check", "explain", "events", "stuck", "status"];
const DRAWN: &[&str] = &["top", "once", "history", "segments", "explain", "events", "stuck", "status"];
const SHOWING_STUCK: &[&str] = &["top", "once", "history"];
const WITH_ROLES: &[&str] =
    &["top", "once", "record", "check", "explain", "verify", "exporter", "events", "stuck", "status"];

const WITH_PROFILES: &[&str] = &[
    "top",
    "once",
    "record",
    "check",
    "explain",
    "verify",
    "exporter",
    "events",
    "stuck",
    "status",
    "calibrate",
];

const fn everywhere(name: &'static str, actions: &'static [&'static str]) -> Key {
    Key { name, table: None, actions }
}

/// In the order of the documentation.
pub const KEYS: [Key; 31] = [
    everywhere("comm", TRACING),
    everywhere("cgroup", TRACING),
    everywhere("all", TRACING),
    everywhere("engine", TRACING),
    everywhere("ops", TRACING),
    everywhere("writes", TRACING),
    everywhere("attach", TRACING),
    everywhere("roles", WITH_ROLES),
    everywhere("profile", WITH_PROFILES),
    everywhere("max-files", TRACING),
    everywhere("max-histograms", TRACING),
    everywhere("max-cpu", LONG),
    everywhere("server-name", NAMING),
    everywhere("color", PAINTED),
    everywhere("no-unicode", DRAWN),
    everywhere("stuck-after", SHOWING_STUCK),
    Key { name: "interval", table: Some("top"), actions: &["top"] },
    Key { name: "by", table: Some("top"), actions: &["top"] },
    Key { name: "no-mouse", table: Some("top"), actions: &["top"] },
    Key { name: "by", table: Some("once"), actions: &["once"] },
    Key { name: "sort", table: Some("once"), actions: &["once"] },
    Key { name: "limit", table: Some("once"), actions: &["once"] },
    Key { name: "columns", table: Some("once"), actions: &["once"] },
    Key { name: "histogram", table: Some("once"), actions: &["once"] },
    Key { name: "last", table: Some("history"), actions: &["history"] },
    Key { name: "above", table: Some("events"), actions: &["events"] },
    Key { name: "stalled", table: Some("events"), actions: &["events"] },
    Key { name: "slow", table: Some("events"), actions: &["events"] },
    Key { name: "slow-for", table: Some("events"), actions: &["events"] },
    Key { name: "interval", table: Some("events"), actions: &["events"] },
    Key { name: "per-minute", table: Some("events"), actions: &["events"] },
];

/// Which processes is one choice: what says it last says all of it.
pub(super) const TARGETS: [&str; 4] = ["comm", "cgroup", "all", "engine"];

/// Must not depend on the directory in which fsynctop is started.
pub(super) const PATHS: [&str; 3] = ["cgroup", "roles", "profile"];

impl Key {
    /// As it is written in a sentence: `comm`, `[top] interval`.
    pub fn title(&self) -> String {
        match self.table {
            None => self.name.to_owned(),
            Some(table) => format!("[{table}] {}", self.name),
        }
    }

    pub(super) fn is_target(&self) -> bool {
        TARGETS.contains(&self.name)
    }
}
