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
    /// Rules for a caller of ours; `None` for senders out there.
    pub caller: Option<CallerRules>,
    /// Delays and bounds for events whose handler failed for now.
    pub retry: RetryConfig,
    /// Fetches keys that are not in the settings, where the kind says from where.
    pub fetcher: Option<Arc<Fetcher>>,
    /// Times from the last byte read to the commit.
    pub admit_seconds: metrics::Histogram,
    /// Number of its requests that wait for a commit.
    pub waiting_n: AtomicUsize,
}

/// Rules for the answers to a program of the team's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallerRules {
    /// HTTP status for what was accepted, now or before.
    pub accepted_status: u16,
    /// HTTP status for other content under a key.
    pub mismatch_status: u16,
    /// Time for which keys are known. Milliseconds.
    pub kept_ms: i64,
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

#[cfg(test)]
impl ProviderEntry {
    /// A provider of this kind, without keys that are fetched.
    pub(crate) fn example(kind: &crate::provider::Provider, on_handler_error: OnHandlerError) -> Self {
        let settings = crate::config::KindSettings::default();
        let secrets = [crate::config::Secret::new("whsec_c2VjcmV0IG9mIGFuIGV4YW1wbGU")];
        Self {
            provider: kind.judge_with(&secrets, &settings).expect("a kind"),
            on_handler_error,
            is_first_party: false,
            caller: None,
            retry: RetryConfig { first_ms: 1_000, max_ms: 60_000, attempts_n: 3, age_max_ms: 3_600_000 },
            fetcher: None,
            admit_seconds: metrics::histogram!("hooklatch_admit_seconds"),
            waiting_n: AtomicUsize::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Provider;

    #[test]
    fn a_provider_takes_its_share_of_the_queue_and_gets_back_what_is_dropped() {
        let kind = Provider::from_spec(include_str!("../../providers/stripe/provider.toml"));
        let entry = Arc::new(ProviderEntry::example(&kind, OnHandlerError::Keep));
        let places: Vec<_> = (0..3).map(|_| WaitingPlace::take(&entry, 2)).collect();
        assert_eq!(places.iter().filter(|place| place.is_some()).count(), 2);
        assert_eq!(entry.waiting_n.load(Ordering::Relaxed), 2, "who was refused does not wait");
        drop(places);
        assert_eq!(entry.waiting_n.load(Ordering::Relaxed), 0);
        assert!(WaitingPlace::take(&entry, 1).is_some());
    }
}
