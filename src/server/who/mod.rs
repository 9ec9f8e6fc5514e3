//! Which processes are traced ([`filter`], [`processes`], [`selection`], [`finder`], [`executables`],
//! [`main_class`]), and which of them are one server ([`instances`]). What a server is called is [`naming`],
//! by what it is known again [`identity`], where it listens [`listening`], and which of its claims the kernel
//! confirms [`proof`]. [`owner`] says whose a process is where something is shared out, [`shares`] who gives
//! way.

pub(crate) mod executables;
pub mod filter;
pub(crate) mod finder;
pub(crate) mod identity;
pub(crate) mod instances;
pub(crate) mod listening;
pub(crate) mod main_class;
pub mod naming;
pub(crate) mod owner;
pub mod processes;
pub(super) mod proof;
pub mod selection;
pub(crate) mod shares;
