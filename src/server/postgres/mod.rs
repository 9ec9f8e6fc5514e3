//! PostgreSQL: what is known of such a server without a connection ([`version`], [`settings`], [`adapter`]),
//! and what it counts itself ([`status`]).

pub(super) mod adapter;
pub(super) mod configuration;
pub(super) mod settings;
pub mod status;
pub(super) mod version;
