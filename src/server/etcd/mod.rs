//! etcd: what is known of such a server without a connection ([`settings`], [`adapter`]), and what it counts
//! itself ([`status`]).

pub(crate) mod adapter;
pub(super) mod settings;
pub mod status;
