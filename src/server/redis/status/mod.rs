//! What Redis counts itself, as INFO has it, and its settings: [`client`] asks, in the protocol of [`resp`],
//! and [`reading`] is what of the answers is of use.

pub mod client;
pub mod reading;
mod resp;

pub type Connection = crate::server::asking::connection::Connection<client::Client>;
