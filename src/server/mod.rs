//! Database servers: [`who`] they are among the processes of the host, [`what`] they are as far as that can
//! be seen without a connection, and [`asking`] them for their own counters over one. What only one engine
//! has is in a folder of its own: [`mysql`], [`postgres`], [`etcd`], [`redis`]; [`adapters`] lists them.

pub(crate) mod adapters;
pub mod asking;
pub mod etcd;
pub mod mysql;
pub mod postgres;
pub mod redis;
pub mod what;
pub mod who;
