//! Compares the traced syncs with a server's own counters of the same window: [`edge`] reads both at one
//! end of it, [`compare`] judges line by line, [`render`] prints.

pub mod compare;
pub mod edge;
mod redo_made;
pub mod render;
mod written;

pub(crate) use edge::Edge;
