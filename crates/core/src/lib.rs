//! What every other crate of Hooklatch builds on: types, configuration, JSON, templates, network, times, metrics and logs.
//!
//! Nothing in here knows a sender, a table or a route.

pub mod backoff;
pub mod config;
pub mod current;
pub mod database_url;
pub mod disk;
pub mod figures;
pub mod filter;
pub mod json;
pub mod logging;
pub mod meters;
pub mod mistakes;
pub mod net;
pub mod plain;
pub mod seal;
pub mod stop;
pub mod template;
pub mod times;
pub mod tls;
pub mod types;
