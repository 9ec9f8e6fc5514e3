//! `fsynctop top`: the live view in a terminal. Snapshots and keys change a [`state::State`]; [`screen::draw`] draws it;
//! [`terminal`] is the only part that talks to a terminal or waits for anything.

mod event;
mod filter;
#[cfg(test)]
mod fixture;
mod heatmap;
mod keys;
mod log;
mod palette;
mod past;
mod rows;
mod screen;
mod state;
mod trail;
mod view;
