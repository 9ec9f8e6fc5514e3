//! Drawing that several views share: what a measurement says in rows, sentences, histograms and JSON, and how
//! it looks on a terminal.

pub(crate) mod cells;
pub(crate) mod columns;
pub(crate) mod grid;
pub(crate) mod header;
pub(crate) mod histogram;
pub(crate) mod json;
pub(crate) mod json_figures;
pub(crate) mod json_schema;
mod options;
pub(crate) mod place;
pub(crate) mod ranked;
pub(crate) mod reading;
pub(crate) mod row;
pub(crate) mod rows;
mod style;

pub use columns::{Shown, Sort};
pub use options::{By, Options, Output};
pub use style::Style;
pub(crate) use style::{Paint, stdout_size};
