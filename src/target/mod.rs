//! Which processes are traced ([`filter`], [`processes`], [`selection`], [`finder`]), and what is known of them without a connection
//! ([`describe`]).

pub mod container;
pub mod describe;
pub mod filter;
pub mod finder;
pub mod known_by;
pub mod listening;
pub mod processes;
pub mod selection;
pub mod version;
