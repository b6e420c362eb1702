//! The things that what-if stands on: some of them it shares with admission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::admit::entry::ProviderEntry;
use crate::admit::plan::Planner;
use crate::store::Store;
use crate::types::Name;

/// The things that what-if stands on.
pub(crate) struct WhatIfParts {
    pub(crate) store: Store,
    pub(crate) planner: Planner,
    pub(crate) entries: Arc<BTreeMap<Name, Arc<ProviderEntry>>>,
    /// Longest time that the handlers of one event may take.
    pub(crate) handler_timeout: Duration,
    /// Turns of those that run handlers in a transaction, which admission takes, too.
    pub(crate) turns: Arc<Semaphore>,
}
