//! The things that what-if stands on: some of them it shares with admission.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::admit::entry::ProviderTable;
use crate::admit::plan::Planner;
use crate::store::Store;

/// The things that what-if stands on.
pub(crate) struct WhatIfParts {
    pub(crate) store: Store,
    pub(crate) planner: Planner,
    pub(crate) entries: Arc<ProviderTable>,
    /// Longest time that the handlers of one event may take.
    pub(crate) handler_timeout: Duration,
    /// Turns of those that run handlers in a transaction, which admission takes, too.
    pub(crate) turns: Arc<Semaphore>,
}
