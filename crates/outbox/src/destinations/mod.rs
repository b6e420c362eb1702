//! Destinations, where messages go: which kinds there are, how a `[destinations.NAME]` is read, and how one message is
//! sent to one destination.
//!
//! Read `kind.rs` first: the trait that each kind of destination implements. `kinds/` has the list and the kinds, one
//! file each (HTTP is a folder). `parse.rs` reads a table of the configuration with the kind that its url names;
//! `template_field.rs` is its tool. `destination.rs` is a destination that is ready: it sends one message and returns
//! the outcome (`outcome.rs`), and it may ask whether an earlier attempt took effect.
//! `client.rs` is what a kind connects to (made of `client_settings.rs`; `error.rs` says why it cannot), `broker.rs`
//! the connection that all kinds but HTTP share, `envelope.rs` what goes along with a body, `times.rs` how long a call
//! may take. `handshake.rs` has the result of a look without a request. `silent.rs` keeps the log lines of libraries
//! away.
//!
//! Nothing in here retries, stores or decides: that is `policy/` and what calls it.

mod broker;
mod client;
mod client_settings;
mod destination;
mod envelope;
mod error;
mod handshake;
mod kind;
mod kinds;
mod outcome;
mod parse;
mod silent;
mod template_field;
#[cfg(test)]
mod tests;
mod times;

pub(crate) use destination::{Destination, ready};
pub use error::DestinationError;
pub use handshake::{Handshake, HandshakeEnd, Handshakes};
pub use kinds::BareCalls;
pub use kinds::{http_client, http_client_believing};
pub(crate) use outcome::Asked;
pub use parse::destination as parse_destination;
pub use silent::silent_log_targets;
