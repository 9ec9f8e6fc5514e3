//! Exit statuses, and errors that end the program with one of them. The README has the table for users.

/// Beside 0, done.
pub const FAILED: u8 = 1;
/// A wrong option, value, environment variable or configuration file.
pub(crate) const BAD_USAGE: u8 = 2;
pub(crate) const NOTHING_TO_TRACE: u8 = 3;
/// A condition holds that the user has asked for: what `--fail-on` names, or a line of `verify` that differs.
pub(crate) const CONDITION: u8 = 4;
/// Not everything could be examined.
pub(crate) const INCOMPLETE: u8 = 5;
/// There was not enough to say: nothing to compare, no limit to hold it against.
pub(crate) const NOT_ENOUGH: u8 = 6;

/// What a shell makes of a signal.
pub(crate) const SIGNALLED: u8 = 128;

/// The same command is to be typed with sudo; `check` has the rest.
#[derive(Debug, thiserror::Error)]
#[error("Tracing needs root: sudo {command}\n(Details: fsynctop check)")]
pub(crate) struct NeedsRoot {
    pub command: String,
}

/// An error that ends the program with a status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Exit {
    pub status: u8,
    pub message: String,
}
