//! What PostgreSQL counts itself: [`client`] speaks its protocol, [`reading`] is what it answered, and
//! [`counters`] what happened between two readings. [`service_file`] says where to and as whom, as its own
//! clients are told.

pub mod client;
pub mod counters;
pub mod reading;
mod role;
pub mod service_file;

pub type Connection = crate::server::asking::connection::Connection<client::Client>;
