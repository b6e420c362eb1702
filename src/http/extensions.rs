//! The extensions that requests and answers carry from the edge to the routes and back.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

use super::room::{ConnectionRoom, ConnectionSlot};

/// Address that a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The time at which the connection of a request ends: what is still being told then stops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionEnd(pub(super) Instant);

/// The connection of a request, and the room it is in.
#[derive(Clone)]
pub(super) struct Neighbours {
    pub(super) room: Arc<ConnectionRoom>,
    pub(super) slot: Arc<ConnectionSlot>,
}

/// Marks an answer to somebody we know. An answer with an outcome needs no such mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownCaller;
