//! Redis and Valkey: what such a server counts itself, and what it was told ([`status`]). Nothing of its
//! settings can be read without a connection: it writes its title over its command line.

pub(super) mod adapter;
pub mod status;
