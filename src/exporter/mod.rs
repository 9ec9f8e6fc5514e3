//! `fsynctop exporter`: the daemon that Prometheus asks.

pub mod collect;
pub mod source;
