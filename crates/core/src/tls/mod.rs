//! TLS of our own listeners: certificates and keys from files, read again when those change, and who a client says it
//! is.
//!
//! Reading order: `files.rs` (what the files make), `listener.rs` (the configuration that counts now), `client.rs` (the
//! certificate of a client), `pinned.rs` (how we ask our own listener). Whom our calls believe is not here: that is each destination's own
//! (`crates/outbox/src/destinations/kinds/http/client.rs`).

mod client;
mod files;
mod listener;
mod pinned;
#[cfg(test)]
mod tests;

pub use client::{client_certificate, not_after_s};
pub use files::server_config;
pub use listener::ListenerTls;
pub use pinned::pinned_client;
