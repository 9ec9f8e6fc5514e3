//! Which processes are traced ([`filter`], [`processes`], [`selection`], [`finder`], [`executables`]), which
//! of them are one server ([`instances`]), and what is known of them without a connection
//! ([`describe()`](describe::describe), on the threads of [`describers`]; what they were told is
//! [`settings`]). What a server is called is [`naming`], by what it is known again [`identity`], and which of
//! its claims the kernel confirms [`proof`]. [`owner`] says whose a process is where something is shared out,
//! [`shares`] who gives way. [`status`] is how servers are asked what they count themselves, over a
//! connection. What only one engine has is in a directory of its own: [`mysql`], [`postgres`], [`etcd`],
//! [`redis`]; [`product`] says which it is.

pub(crate) mod container;
pub mod describe;
pub(crate) mod describers;
pub mod etcd;
pub(crate) mod executables;
pub mod filter;
pub(crate) mod finder;
pub(crate) mod identity;
pub(crate) mod instances;
pub(crate) mod known_by;
pub(crate) mod launch;
pub(crate) mod listening;
pub mod mysql;
pub mod naming;
pub(crate) mod owner;
pub mod postgres;
pub mod processes;
pub(crate) mod product;
mod proof;
pub mod redis;
pub mod selection;
pub mod settings;
mod settings_files;
pub(crate) mod shares;
pub mod status;
pub(crate) mod titles;
pub(crate) mod version;
