//! One configured provider, as the way of a request needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::{OnHandlerError, RetryConfig};
use crate::fetch::Fetcher;
use crate::provider::ActiveProvider;

/// One `[providers.NAME]` at work: how its requests are believed, and what a failing handler means.
pub(crate) struct ProviderEntry {
    /// Verifies, reads and dispatches.
    pub provider: ActiveProvider,
    /// Policy for an event whose handler failed.
    pub on_handler_error: OnHandlerError,
    /// True when the sender can act on 409.
    pub is_first_party: bool,
    /// Delays and bounds for events whose handler failed for now.
    pub retry: RetryConfig,
    /// Fetches keys that are not in the settings, where the kind says from where.
    pub fetcher: Option<Arc<Fetcher>>,
    /// Times from the last byte read to the commit.
    pub admit_seconds: metrics::Histogram,
    /// Number of its requests that wait for a commit.
    pub waiting_n: AtomicUsize,
}

/// The place of one request among those of its provider that wait; dropping it gives it back.
pub(super) struct WaitingPlace(Arc<ProviderEntry>);

impl WaitingPlace {
    /// `None` when the provider has taken up its share of the queue.
    pub(super) fn take(entry: &Arc<ProviderEntry>, share_n: usize) -> Option<Self> {
        let place = Self(Arc::clone(entry));
        // Counted first, so that the drop below and this are one.
        (entry.waiting_n.fetch_add(1, Ordering::Relaxed) < share_n).then_some(place)
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.0.waiting_n.fetch_sub(1, Ordering::Relaxed);
    }
}
