//! The extensions that requests and answers carry from the edge to the routes and back.

use std::net::IpAddr;
use std::sync::Arc;

use super::room::{ConnectionLimiter, ConnectionSlot};

/// Client address of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The connection of a request, and the room it is in.
#[derive(Clone)]
pub(super) struct Neighbours {
    pub limiter: Arc<ConnectionLimiter>,
    pub slot: Arc<ConnectionSlot>,
}

/// Marks a response to an authenticated caller. A response with an outcome needs no such mark.
#[derive(Debug, Clone, Copy)]
pub struct KnownCaller;
