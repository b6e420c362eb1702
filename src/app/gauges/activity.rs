//! The counts of this node since its start, and how much of them is in the table of all nodes.

use std::sync::{Mutex, PoisonError};

use tracing::warn;

use hooklatch_core::types::UnixMs;
use hooklatch_outbox::NodeCalls;
use hooklatch_receive::CountedRequests;
use hooklatch_store::{ActivityCounts, Store};

/// The counts of requests and attempts of this node.
pub(crate) struct NodeActivity {
    requests: CountedRequests,
    calls: NodeCalls,
    /// The totals that were added to the table.
    saved: Mutex<ActivityCounts>,
}

impl NodeActivity {
    pub(crate) fn new(requests: CountedRequests, calls: NodeCalls) -> Self {
        Self { requests, calls, saved: Mutex::default() }
    }

    fn totals(&self) -> ActivityCounts {
        let mut totals = self.requests.totals();
        totals.extend(self.calls.totals());
        totals
    }

    /// What is not in the table yet.
    pub(crate) fn unsaved(&self) -> ActivityCounts {
        self.unsaved_of(self.totals())
    }

    fn unsaved_of(&self, mut totals: ActivityCounts) -> ActivityCounts {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        totals.retain(|key, total| {
            let saved_n = saved.get(key).copied().unwrap_or_default();
            *total = total.saturating_sub(saved_n);
            *total > 0
        });
        totals
    }

    /// Forgets what was added for providers and destinations that are gone: when one comes back, it counts from 0.
    pub(crate) fn forget_removed(&self) {
        let totals = self.totals();
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| totals.contains_key(key));
    }

    /// Adds to the table what is not in it yet. What failed is added the next time.
    pub(crate) async fn save(&self, store: &Store, now_ms: UnixMs) {
        let totals = self.totals();
        match store.activity_add(self.unsaved_of(totals.clone()), now_ms).await {
            Ok(()) => *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = totals,
            Err(error) => warn!(%error, "could not save the counts of requests and attempts"),
        }
    }
}
