//! Holds what was traced against what a server itself counted in the same time: [`edge`] reads both at one end of the
//! window, [`compare`] decides line by line, [`render`] prints.

pub mod compare;
pub mod edge;
mod redo_made;
pub mod render;

pub use compare::{Kind, Row, Verdict, Verification};
pub use edge::Edge;
