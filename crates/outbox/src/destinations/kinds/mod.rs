//! The kinds of destinations, one file each: `http/`, `nats`, `rabbitmq`, `redis`, `kafka` and `postgres_table`.
//!
//! A kind that is listed here is read, checked, named in errors, kept quiet in the log and connected to; nothing else
//! in the program names it. How to add one: docs/destinations.md.

mod http;
mod kafka;
mod nats;
mod postgres_table;
mod rabbitmq;
mod redis;

use super::kind::DestinationKind;
pub use http::BareCalls;
pub(super) use http::HttpDestination;
pub use http::{http_client, http_client_believing};

/// Every kind of destination, HTTP first: a table whose url names none of them is read as HTTP.
pub(crate) fn kinds() -> &'static [&'static dyn DestinationKind] {
    const KINDS: &[&dyn DestinationKind] = &[
        &http::Http,
        &nats::Nats,
        &rabbitmq::Rabbitmq,
        &redis::Redis,
        &kafka::Kafka,
        &postgres_table::PostgresTable,
    ];
    KINDS
}
