//! The outbox: takes messages that are due, makes their calls, writes what came of them.
//!
//! `worker.rs` leases and sends, `settle.rs` writes outcomes in batches, `policy.rs` decides what an answer
//! means (pure), `destinations/` speak to the far side. No transaction and no row lock is open while a
//! call is under way; what a worker may still write is decided by its fencing token alone.

mod destinations;
mod policy;
mod settle;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

pub(crate) use destinations::http_client;

use crate::config::{DestinationConfig, OutboxConfig};
use crate::store::Store;
use crate::types::{Clock, Name};

/// Why a destination cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DestinationError {
    /// The URL is not one.
    #[error("destinations.{name}.url is not an http or https url")]
    Url {
        /// Which destination.
        name: Name,
    },
    /// A header cannot be sent.
    #[error("destinations.{name}.headers: `{header}` is not a header with a value that can be sent")]
    Header {
        /// Which destination.
        name: Name,
        /// Which header.
        header: String,
    },
    /// The HTTP client could not be made.
    #[error("could not make an HTTP client: {0}")]
    Client(String),
}

/// Sends what is due. Made by the app, run until it is told to stop.
pub(crate) struct Outbox {
    store: Store,
    clock: Clock,
    config: OutboxConfig,
    destinations: BTreeMap<Name, Arc<destinations::Destination>>,
    node: String,
    waker: Waker,
}

/// Tells a running outbox that there is something new. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waker(Arc<Notify>);

impl Waker {
    /// Looks again at once. Called after a commit that wrote messages; polling finds what this misses.
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }
}

impl Outbox {
    /// Sends to `destinations` as `node`. Messages for other destinations are left alone: another node may
    /// know them.
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        config: OutboxConfig,
        destinations: BTreeMap<Name, DestinationConfig>,
        node: String,
    ) -> Result<Self, DestinationError> {
        let client = http_client()?;
        let mut ready = BTreeMap::new();
        for (name, config) in destinations {
            let destination = destinations::Destination::new(name.clone(), config, client.clone())?;
            ready.insert(name, Arc::new(destination));
        }
        Ok(Self { store, clock, config, destinations: ready, node, waker: Waker::default() })
    }

    /// The handle that wakes it.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}
