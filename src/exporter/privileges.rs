//! Drops the user and the capabilities that attaching needs and watching does not.
//!
//! Both belong to threads, and a new thread has those of the one that starts it. So the thread that
//! attaches gives them up before it starts others, and every other thread is started by one that has given
//! them up: [`forever`] on the main thread at once, [`keep_needed`] there as soon as the attaching thread has
//! begun, and on the attaching thread as soon as it has attached.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::confine::User;
use crate::probe;

/// What describing servers and naming files needs: other users' /proc/PID/{fd,maps,root}, and the directories
/// behind them.
const NEEDED: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH);

/// From now on, no program that this thread or a later one would execute gets more rights than it has itself,
/// and one of another user than root gets none.
pub fn forever() -> io::Result<()> {
    set_no_new_privs(true)?;
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    Ok(())
}

/// Why rights could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    #[error(
        "cannot become user {user} instead of root: {source}; that needs CAP_SETUID and CAP_SETGID, or start it as \
         another user with the capabilities that `fsynctop check` names"
    )]
    User { user: User, source: io::Error },
    #[error("cannot give up capabilities: {0}")]
    Capabilities(#[from] io::Error),
}

/// Takes all capabilities but the needed ones from the calling thread, for good, and makes it this user's if
/// it is root's. Threads that it starts from now on have no more than it has.
pub fn keep_needed(user: User) -> Result<(), RightsError> {
    let needed = if bpf_needs_no_right()? { NEEDED } else { NEEDED.union(CapabilitySet::BPF) };
    keep(needed, Some(user))
}

/// Takes all capabilities from the calling thread, for good, and makes it this user's if it is root's.
pub fn keep_none(user: Option<User>) -> Result<(), RightsError> {
    keep(CapabilitySet::empty(), user)
}

fn keep(kept: CapabilitySet, user: Option<User>) -> Result<(), RightsError> {
    let own = capabilities(None).map_err(io::Error::from)?;
    let _ = clear_ambient_capability_set();
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for bit in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << bit);
            if !kept.contains(one) && remove_capability_from_bounding_set(one) == Err(Errno::INVAL) {
                break; // beyond the last one that this kernel knows
            }
        }
    }
    if let Some(user) = user {
        user.replace_root().map_err(|source| RightsError::User { user, source: source.into() })?;
    }
    let kept = own.permitted.intersection(kept);
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
    Ok(set_capabilities(None, sets).map_err(io::Error::from)?)
}

/// True if the calls on open maps work without CAP_BPF: tried on a thread that has no capability.
fn bpf_needs_no_right() -> io::Result<bool> {
    // Where the switch is off, the call works now and might not tomorrow.
    let switch = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    if switch.is_ok_and(|value| value.trim() == "0") {
        return Ok(false);
    }
    let task = || keep_none(None).is_ok() && probe::may_use_open_maps();
    // Not for work that may block: a thread whose capabilities are its own, and gone with it.
    let thread = std::thread::Builder::new().name("try-bpf".into()).spawn(task)?;
    Ok(thread.join().unwrap_or(false))
}

/// The names of the capabilities that the calling thread has, and of nothing else; "none".
pub fn in_words() -> String {
    let Ok(own) = capabilities(None) else { return "unknown".into() };
    let names: Vec<String> = own.permitted.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
