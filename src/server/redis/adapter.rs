//! Redis and Valkey: of what they are, their profiles know all that can be told without a connection.

use crate::server::what::adapter::Adapter;

pub(in crate::server) struct Redis;

/// Where clients connect to if no other port is given.
pub(in crate::server) const DEFAULT_PORT: u16 = 6379;

impl Adapter for Redis {
    fn profiles(&self) -> &'static [&'static str] {
        &["redis", "valkey"]
    }
}
