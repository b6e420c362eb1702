//! The client of a destination: calls over HTTP, or a broker.

use std::time::Duration;

use super::broker::Broker;
use super::kinds::HttpDestination;

/// Longest time for which a connection is used, however busy it is: then another one is made, to the address that the
/// destination's name has by then. A server that was replaced may stay up and answer.
pub(super) const CONNECTION_AGE_MAX: Duration = Duration::from_mins(1);

/// The client of one destination.
pub(super) enum DestinationClient {
    /// Calls, each with an answer that has a status and a body.
    Http(Box<HttpDestination>),
    /// Publishes, and gets a yes or no.
    Broker(Box<dyn Broker>),
}
