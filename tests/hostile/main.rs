//! Peers that lie to the clients of the servers' own counters: none may take memory or time without bound. A
//! program of its own, because its peak memory is what is judged, and its processes go by servers' names.

#[path = "../common/mod.rs"]
mod common;

mod etcd;
mod postgres;
mod redis;
mod server;
