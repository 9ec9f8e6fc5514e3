//! etcd: what is known of such a server without a connection ([`settings`], [`describe`]), and what it counts
//! itself ([`status`]).

pub(crate) mod describe;
pub(super) mod settings;
pub mod status;
