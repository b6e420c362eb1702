//! What every other crate of Hooklatch builds on: types, configuration, JSON, templates, network, times, metrics and
//! logs.
//!
//! Start with `types/` (the words of the domain as types) and `config/` (the configuration as data). `json/` reads JSON
//! by raw text, `filter/` and `template/` are the two small languages of routes, `seal.rs` encrypts what is stored,
//! `net.rs` and `tls.rs` bound whom a call may reach and who is served, `meters.rs` lists every metric, `logging.rs`
//! installs the log, and `stop.rs` is the shutdown signal. Nothing in here does what a sender, the store or a route
//! does.

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
