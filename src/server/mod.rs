//! Which processes are traced ([`filter`], [`processes`], [`selection`], [`finder`]), and what is known of them without a
//! connection ([`describe()`](describe::describe), on the threads of [`describers`]; what they were told is [`settings`]).
//! [`status`] is what they count themselves, over a connection.

pub mod container;
pub mod describe;
pub mod describers;
pub mod filter;
pub mod finder;
pub mod known_by;
pub mod listening;
pub mod option_file;
pub mod option_reader;
pub mod processes;
pub mod selection;
pub mod settings;
pub mod status;
pub mod version;
