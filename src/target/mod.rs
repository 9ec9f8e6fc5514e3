//! Which processes are traced ([`filter`], [`processes`], [`selection`], [`finder`]), and what is known of them without a
//! connection ([`describe()`](describe::describe), on the threads of [`describers`]).

pub mod container;
pub mod describe;
pub mod describers;
pub mod filter;
pub mod finder;
pub mod known_by;
pub mod listening;
pub mod processes;
pub mod selection;
pub mod version;
