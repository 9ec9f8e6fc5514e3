//! What etcd counts itself, as it tells anybody at `/metrics`: [`client`] asks, in the HTTP of [`http`],
//! [`metrics`] takes the page apart, and [`reading`] is what of it is of use.

pub mod client;
mod http;
mod metrics;
pub mod reading;

pub type Connection = crate::server::asking::connection::Connection<client::Client>;
