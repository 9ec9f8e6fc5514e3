//! `fsynctop explain`: why commits take as long as they do. Pure: it gets figures and gives text and JSON.

pub mod audit;
pub mod commits;
pub mod factors;
