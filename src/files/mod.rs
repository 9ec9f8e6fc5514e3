//! From a kernel identity to a path and a role: [`resolve`] finds the path, [`classify`] decides the role by
//! the rules in `rules.toml`.

pub mod classify;
pub mod resolve;
pub mod rules;
