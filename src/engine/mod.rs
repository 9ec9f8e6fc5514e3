//! What is known of each database engine, as data.

pub mod rules;
