//! `fsynctop exporter`: the daemon that Prometheus asks.

<<<<<<< HEAD
pub mod collect;
=======
pub mod daemon;
pub mod figures;
pub mod log;
mod notify;
pub mod privileges;
>>>>>>> 64f2acc998df35f7db534f6ba9f4d0b7e1d62a48
pub mod source;
pub mod status;
mod watching;
pub mod web;
