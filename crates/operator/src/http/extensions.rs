//! The extensions that requests and answers carry from the edge to the routes and back.

use std::net::IpAddr;
use std::sync::Arc;

use super::room::{ConnectionRoom, ConnectionSlot};

/// Address that a request came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The connection of a request, and the room it is in.
#[derive(Clone)]
pub(super) struct Neighbours {
    pub room: Arc<ConnectionRoom>,
    pub slot: Arc<ConnectionSlot>,
}

/// Marks an answer to somebody we know. An answer with an outcome needs no such mark.
#[derive(Debug, Clone, Copy)]
pub struct KnownCaller;
