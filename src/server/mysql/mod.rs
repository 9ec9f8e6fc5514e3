//! MySQL and MariaDB: what is known of such a server without a connection ([`version`], [`settings`],
//! [`adapter`]), and what it counts itself ([`status`]); [`durable_writes`]: which of its files need no
//! syncs, by both.

pub(super) mod adapter;
pub(crate) mod doublewrite;
pub mod durable_writes;
pub(crate) mod option_file;
pub(super) mod option_reader;
pub mod settings;
pub mod status;
pub mod version;
