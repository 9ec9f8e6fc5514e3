//! PostgreSQL: what is known of such a server without a connection ([`version`], [`settings`], [`describe`]),
//! and what it counts itself ([`status`]).

pub(super) mod configuration;
pub(super) mod describe;
pub(super) mod settings;
pub mod status;
pub(super) mod version;
