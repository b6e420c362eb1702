//! x
pub mod config;
pub mod types;
