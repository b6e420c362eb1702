//! The things that what-if stands on: some of them it shares with admission.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::admit::entry::ProviderTable;
use crate::admit::plan::Planner;
use hooklatch_store::Store;

/// The things that what-if stands on.
pub struct WhatIfParts {
    pub store: Store,
    pub planner: Planner,
    pub entries: Arc<ProviderTable>,
    /// Longest time that the handlers of one event may take.
    pub handler_timeout: Duration,
    /// Turns of those that run handlers in a transaction, which admission takes, too.
    pub turns: Arc<Semaphore>,
}
