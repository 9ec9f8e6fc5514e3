//! From a kernel identity to a path and a role: [`resolve`] finds the path, [`classify`] decides the role by
//! the rules in `src/engine/`. [`open`] does with less, where nothing may wait for a filesystem.
//! [`still_open`] says which files of which something failed were closed since.

pub mod classify;
pub(crate) mod open;
pub mod resolve;
pub(crate) mod still_open;
