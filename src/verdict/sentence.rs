//! Verdicts in words.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::{Because, State, Verdict};
use crate::model::{Durability, Op, Role, Via};
use crate::text::{absence, capitalize, count, duration_in_words, errno, escape, escape_sentence, rate};

impl Verdict {
    /// In one plain sentence; names in it are escaped.
    pub fn sentence(&self) -> String {
        state(self) + &storage(self.storage.as_ref())
    }
}

/// What no state says: a server can be well on storage that makes nothing durable.
fn storage(storage: Option<&Durability>) -> String {
    let because = storage.and_then(Durability::because).map(escape_sentence).unwrap_or_default();
    let said = storage.and_then(|storage| absence::durable(storage, &because));
    said.map_or(String::new(), |said| format!(" {said}"))
}

fn state(verdict: &Verdict) -> String {
    let because = verdict.because.as_ref();
    match (verdict.state, because) {
        (State::Ok | State::Idle, _) => absence::trouble(verdict.state == State::Idle),
        (State::Unknown, because) => {
            let why = because.and_then(|because| because.unknown.as_deref());
            let why = why.map_or(String::new(), |why| format!(": {}", escape_sentence(why)));
            format!("Nothing can be said of it{why}.")
        }
        (State::Slow, Some(because)) => slow(because),
        (State::Stalled, Some(because)) => stalled(because),
        (State::Failing, Some(because)) => failing(because),
        (state, None) => format!("It is {}.", state.name()),
    }
}

fn words(time: Duration) -> String {
    duration_in_words(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn what(op: Op) -> String {
    match op.via() {
        Via::IoUring => format!("{} of io_uring", capitalize(&op.in_a_sentence())),
        Via::Aio => format!("{} of libaio", capitalize(&op.in_a_sentence())),
        Via::Call | Via::Kernel => capitalize(&op.in_a_sentence()),
    }
}

fn of_role(role: Option<Role>) -> &'static str {
    role.map_or("a file", Role::in_a_sentence)
}

fn named(path: Option<&Path>) -> String {
    path.map(|path| escape(path.as_os_str().as_bytes())).unwrap_or_default()
}

/// ` (/d/ib_logfile0, thread ib_log_flush 71)`, as far as it is known.
fn details(because: &Because) -> String {
    let thread = because.tid.map(|tid| match &because.thread {
        Some(name) => format!("thread {} {tid}", escape(name.as_bytes())),
        None => format!("thread {tid}"),
    });
    let path = because.path.as_deref().map(|path| named(Some(path)));
    let parts: Vec<String> = path.into_iter().chain(thread).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn stalled(because: &Because) -> String {
    let op = because.op.map_or("An operation".into(), what);
    let role = of_role(because.role);
    if let Some(took) = because.took {
        return format!("{op} of {role} took {}{}.", words(took), details(because));
    }
    let at_least = if because.age_is_minimum { "at least " } else { "" };
    let age = words(because.age.unwrap_or_default());
    let more = match because.more {
        0 => String::new(),
        1 => "; nor has 1 more".into(),
        more => format!("; nor have {} more", count(more)),
    };
    format!("{op} of {role} has not returned for {at_least}{age}{}{more}.", details(because))
}

fn failing(because: &Because) -> String {
    let what = match because.op {
        Some(Op::Writeback) => "The kernel could not write back what was written to".to_owned(),
        Some(op) => format!("{} of", what(op)),
        None => "An operation of".into(),
    };
    let role = of_role(because.role);
    let error = error(because.errno.unwrap_or(0));
    let verb = if because.op == Some(Op::Writeback) { ":" } else { " failed with" };
    let more = match because.more {
        0 => String::new(),
        1 => "; so has another file".into(),
        more => format!("; so have {} other files", count(more)),
    };
    format!("{what} {role}{verb} {error}{}{more}.", details(because))
}

/// By its name; 0 where the number is not known.
pub(crate) fn error(number: i32) -> String {
    if number == 0 { "an error whose number is not known".into() } else { errno(number) }
}

fn slow(because: &Because) -> String {
    let role = capitalize(of_role(because.role));
    let p99 = words(because.p99.unwrap_or_default());
    let per_second = because.per_second.unwrap_or_default();
    let per_second = rate((per_second * 1_000.0) as u64, Duration::from_secs(1_000));
    format!("{role} is slow: one sync in a hundred takes longer than {p99}, at {per_second} syncs a second.")
}
