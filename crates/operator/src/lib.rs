//! What operators and operating systems use: listeners and `/v1`, loading of a configuration, `doctor`, service manager.

pub mod doctor;
pub mod http;
pub mod load;
pub mod service;
pub mod setup;
