//! Options from other places than the command line: fsynctop.toml for every action, and for the exporter the
//! environment and a file of its own.

pub(super) mod config;
pub(super) mod exporter;
pub mod keys;
pub(super) mod options;
mod places;
pub(super) mod report;
