//! Which processes are traced ([`filter`], [`processes`], [`selection`], [`finder`]), which of them are one
//! server ([`instances`]), and what is known of
//! them without a connection ([`describe()`](describe::describe), on the threads of [`describers`]; what they
//! were told is [`settings`]). [`status`] is what they count themselves, over a connection;
//! [`durable_writes`] which of their files need no syncs, by both.

pub(crate) mod container;
pub mod describe;
pub(crate) mod describers;
pub mod durable_writes;
pub mod filter;
pub(crate) mod finder;
pub(crate) mod instances;
pub(crate) mod known_by;
pub(crate) mod listening;
pub mod naming;
pub(crate) mod option_file;
pub(crate) mod option_reader;
pub mod processes;
pub mod selection;
pub mod settings;
pub mod status;
pub(crate) mod titles;
pub(crate) mod version;
