//! What MySQL and MariaDB count themselves: [`client`] speaks their protocol, [`reading`] is what they
//! answered ([`sessions`]: whose connections there are), and [`counters`] what happened between two readings.
//! [`options`] reads the option files of their clients.

pub mod client;
pub mod counters;
pub(crate) mod engine_status;
pub(crate) mod gtid;
pub mod options;
pub mod reading;
pub(crate) mod sessions;
mod told;

pub type Connection = crate::server::asking::connection::Connection<client::Client>;
pub type Status = crate::server::asking::choose::Status<client::Client>;
pub type Chosen = crate::server::asking::choose::Chosen<client::Client>;
