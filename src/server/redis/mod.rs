//! Redis and Valkey: what such a server counts itself, and what it was told ([`status`]). Nothing of its
//! settings can be read without a connection: it writes its title over its command line.

pub mod status;

/// Where clients connect to if no other port is given.
pub(in crate::server) const DEFAULT_PORT: u16 = 6379;
