//! The client of a destination: calls over HTTP, or a broker.

use super::broker::Broker;
use super::kinds::HttpDestination;

/// The client of one destination.
pub(super) enum DestinationClient {
    /// Calls, each with an answer that has a status and a body.
    Http(Box<HttpDestination>),
    /// Publishes, and hears yes or no.
    Broker(Box<dyn Broker>),
}
