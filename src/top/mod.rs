//! `fsynctop top`: the live view in a terminal. Snapshots and keys change a state, the state is drawn, and
//! [`terminal`] alone talks to a terminal or waits for anything.

mod cells;
mod event;
mod filter;
#[cfg(test)]
mod fixture;
mod heatmap;
mod hung;
mod keys;
mod layout;
mod log;
mod look;
mod overlay;
mod palette;
#[cfg(test)]
mod parts_tests;
mod past;
mod rows;
mod screen;
mod source;
mod state;
mod stuck;
pub mod terminal;
mod trail;
mod view;
mod write;

pub use event::{Earlier, Extras, Standing};
pub use palette::Colors;
pub use source::{Start, StartError};
pub use state::Options;
pub use view::View;
