//! Compares the traced syncs with a server's own counters of the same window: [`edge`] reads both at one end
//! of it, [`recorded`] finds them in a recording, [`mysql`], [`postgres`], [`etcd`] and [`redis`] judge their
//! servers' lines ([`row`]), [`render`] prints.

pub mod edge;
pub mod etcd;
pub mod mysql;
pub mod postgres;
pub(crate) mod recorded;
pub mod redis;
pub mod render;
pub(crate) mod row;

pub(crate) use edge::Edge;
