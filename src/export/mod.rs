//! What was recorded, in the forms that other programs read: one long table (CSV, Parquet) and interval logs
//! of HdrHistogram.

pub(crate) mod hdr;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod table;
