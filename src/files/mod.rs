//! From a kernel identity to a path and a role: [`resolve`] finds the path, [`settings`] reads what the server was
//! told, [`classify`] decides the role by the rules in `rules.toml`.

pub mod classify;
pub mod option_file;
pub mod option_reader;
pub mod resolve;
pub mod rules;
pub mod settings;
