//! Destinations, where messages go: which kinds there are, how a `[destinations.NAME]` is read, and how one message is
//! sent to one destination.
//!
//! Read `kinds/mod.rs` first: the data that each kind of destination has, and the list of kinds, one file each (HTTP is
//! a folder). `parse.rs` reads a table of the configuration with the kind that its url names. `destination.rs` is a
//! destination that is ready: it sends one message and returns the outcome, and it may ask whether an earlier attempt
//! took effect. `broker.rs` has the connection that all kinds but HTTP share, `envelope.rs` what goes along with a
//! body.
//!
//! Nothing in here retries, stores or decides: that is `policy/` and what calls it.

mod broker;
mod destination;
mod envelope;
mod kinds;
mod parse;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use destination::{Destination, ready};
pub use kinds::{BareCalls, http_client, http_client_trusting};
pub use parse::destination as parse_destination;

use crate::policy::CallAnswer;
use broker::Broker;
use hooklatch_core::config::DestinationConfig;
use hooklatch_core::types::Name;
pub(crate) use kinds::HttpDestination;
use kinds::KINDS;

/// The reason why a destination cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The address of this destination is not one that messages can be sent to; the mistake, without the address.
    #[error("destination `{0}`: url cannot be used: {1}")]
    Url(Name, String),
    /// A configured header of this destination is not a header.
    #[error(
        "destination `{0}`: `{1}` is not a header name, or its value has characters a header cannot carry"
    )]
    Header(Name, String),
    /// The key of this destination that holds a template, such as `query.url`, and the mistake in it.
    #[error("destination `{0}`: {1} is not a template: {2}")]
    Template(Name, &'static str, String),
    /// The client could not be made; as a rule, no certificate authorities were found.
    #[error("could not make an HTTP client{}: {why}", name.as_ref().map(|name| format!(" for destination `{name}`")).unwrap_or_default())]
    Client {
        /// Name of the destination, if it is for one.
        name: Option<Name>,
        /// Error text of the library.
        why: String,
    },
}

/// The settings that a client is made of.
pub(crate) struct ClientSettings<'a> {
    /// Its name in the configuration.
    pub(crate) name: &'a Name,
    /// The values of its keys.
    pub(crate) config: &'a DestinationConfig,
    /// Longest that one call may take, from connecting to the last byte.
    pub(crate) timeout: Duration,
}

/// Longest time for which a connection is used, however busy it is: then another one is made, to the address that the
/// destination's name has by then. A server that was replaced may stay up and answer.
pub(crate) const CONNECTION_AGE_MAX: Duration = Duration::from_mins(1);

/// The client of one destination.
pub(crate) enum DestinationClient {
    /// Calls, each with an answer that has a status and a body.
    Http(Box<HttpDestination>),
    /// Publishes, and gets a yes or no.
    Broker(Box<dyn Broker>),
}

/// Outcome of one call.
pub(crate) struct CallOutcome {
    /// The answer that the policy judges.
    pub(crate) answer: CallAnswer,
    /// The piece of the answer that is stored, where the destination has `capture`.
    pub(crate) response: Option<String>,
}

impl From<CallAnswer> for CallOutcome {
    fn from(answer: CallAnswer) -> Self {
        Self { answer, response: None }
    }
}

/// The destination's answer about an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The effect is there.
    Happened,
    /// The effect is not there.
    DidNotHappen,
    /// No answer that can be relied on.
    Unclear(String),
}

/// The result of connecting to a destination without sending anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeEnd {
    /// Both sides trust each other, as far as can be seen without a request.
    Trusted {
        /// End of its certificate's validity, unless it cannot be read. Unix seconds.
        not_after_s: Option<i64>,
    },
    /// Its name is not found, its address may not be called, or nothing listens there.
    Unreached(String),
    /// It was not done in this time. Milliseconds.
    Silent(u64),
    /// We do not trust its certificate.
    Untrusted(String),
    /// It does not trust ours, or will not have a connection without one.
    NotTaken(String),
    /// What it speaks is not TLS of our versions.
    NoTls(String),
}

/// A handshake, and the destinations that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Names of the destinations that are called there with the same TLS.
    pub destinations: Vec<String>,
    /// Host, with the port where one is written.
    pub host: String,
    pub end: HandshakeEnd,
}

/// What was looked at, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handshakes {
    pub done: Vec<Handshake>,
    /// Destinations that are called through a proxy, or at a host that each message names.
    pub elsewhere_n: usize,
    /// Destinations beyond the most that are looked at.
    pub left_n: usize,
}

/// Beginnings of the log targets that are not to be written.
pub fn silent_log_targets() -> Vec<&'static str> {
    KINDS.iter().flat_map(|kind| kind.silent).copied().collect()
}
