//! What was recorded, in the forms that other programs read: one long table (CSV) and interval logs of
//! HdrHistogram.

pub(crate) mod hdr;
pub(crate) mod table;
