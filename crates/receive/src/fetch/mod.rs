//! Keys that only the sender has: fetched from its own hosts when a request first names one, kept, and used for a
//! while when those hosts are away.
//!
//! A request makes us call a host, so every bound is here: hosts that the kind pins, https, no redirects, no private
//! address (`net.rs`), sizes, times, how many keys are kept and how many may be asked for at once. Calls are shared
//! among peers, so a stranger's share does not grow with the number of his requests. A key that verified a request is
//! kept in the database, so that a restart does not make its sender a stranger.
//!
//! Reading order: `error.rs` names a key and says why it could not be had; `budget.rs` bounds calls; `cache.rs` keeps
//! keys; `client.rs` calls; `confirmed.rs` remembers confirmations; `fetcher.rs` puts them together for one provider.
//! Nothing is verified here: `verify/` says which key it lacks, and `receive/` decides that it is fetched. A sender
//! whose keys are out of reach gets 503, never 401.

mod budget;
mod cache;
mod client;
mod confirmed;
mod error;
mod fetcher;
#[cfg(test)]
pub mod tests;

pub use error::{FetchError, WantedKey};
pub use fetcher::{Fetcher, UsedKeys};
