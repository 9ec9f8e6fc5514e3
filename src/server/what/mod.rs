//! What is known of a server without a connection to it: [`describe()`](describe::describe) gathers it, on
//! the threads of [`describers`]. What it was told is [`settings`], which product it is [`product`], and what
//! of a description is one engine's own its [`adapter`].

pub mod adapter;
pub(crate) mod container;
pub mod describe;
pub(crate) mod describers;
pub(crate) mod known_by;
pub(crate) mod launch;
pub(super) mod open_log;
pub mod product;
pub mod roles;
pub mod settings;
pub(super) mod settings_files;
pub(crate) mod titles;
pub(crate) mod version;
