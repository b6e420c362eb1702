//! One configured provider, as the way of a request needs it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ipnet::IpNet;

use super::pauses::PauseState;
use super::templates::Templates;
use crate::fetch::Fetcher;
use crate::provider::ActiveProvider;
use hooklatch_core::config::{OnHandlerError, RetryConfig};
use hooklatch_core::current::Current;
use hooklatch_core::types::Name;

/// The configured providers by name.
pub type ProviderTable = BTreeMap<Name, Arc<ProviderEntry>>;

/// Those that are in force; a reload replaces them.
pub type Providers = Current<ProviderTable>;

/// One `[providers.NAME]` at work: how its requests are believed, and what a failing handler means.
pub struct ProviderEntry {
    /// Verifies, reads and dispatches.
    pub provider: ActiveProvider,
    /// Policy for an event whose handler failed.
    pub on_handler_error: OnHandlerError,
    /// Addresses that may send its requests; empty for any.
    pub allow_from: Vec<IpNet>,
    /// Largest body. Bytes.
    pub body_bytes_max: usize,
    /// True when the sender can act on 409.
    pub is_first_party: bool,
    /// Rules for a caller of ours; `None` for senders out there.
    pub caller: Option<CallerRules>,
    /// Delays and bounds for events whose handler failed for now.
    pub retry: RetryConfig,
    /// Fetches keys that are not in the settings, where the kind says from where.
    pub fetcher: Option<Arc<Fetcher>>,
    /// The destinations of the same configuration: what it answers is for these.
    pub destinations: Arc<Templates>,
    /// Times from the last byte read to the commit.
    pub admit_seconds: metrics::Histogram,
    /// Whether an operator has paused it. A reload keeps it, and what follows.
    pub pause: Arc<PauseState>,
    /// Number of its requests that wait for a commit.
    pub waiting_n: Arc<AtomicUsize>,
}

impl ProviderEntry {
    /// Time in which its sender has to have our answer, with a tenth for the way.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(u64::from(self.provider.spec().answer_within_ms) * 9 / 10)
    }

    /// True when requests from this address are looked at; one that is not known is none of those.
    pub fn is_allowed(&self, address: Option<IpAddr>) -> bool {
        self.allow_from.is_empty()
            || address.is_some_and(|address| self.allow_from.iter().any(|net| net.contains(&address)))
    }
}

/// Rules for the answers to a program of the team's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerRules {
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
    pub(crate) fn take(entry: &Arc<ProviderEntry>, share_n: usize) -> Option<Self> {
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
    pub fn example(kind: &crate::provider::Provider, on_handler_error: OnHandlerError) -> Self {
        let settings = hooklatch_core::config::KindSettings::default();
        let secrets = [hooklatch_core::config::Secret::new("whsec_c2VjcmV0IG9mIGFuIGV4YW1wbGU")];
        Self {
            provider: kind.judge_with(&secrets, &settings).expect("a kind"),
            on_handler_error,
            allow_from: Vec::new(),
            is_first_party: false,
            body_bytes_max: 1 << 20,
            caller: None,
            retry: RetryConfig { first_ms: 1_000, max_ms: 60_000, attempts_n: 3, age_max_ms: 3_600_000 },
            fetcher: None,
            admit_seconds: metrics::Histogram::noop(),
            destinations: Arc::new(Templates::of_names(["billing"])),
            pause: Arc::default(),
            waiting_n: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Provider;

    #[test]
    fn an_allow_list_lets_in_what_it_names_and_nothing_else() {
        let kind = Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"));
        let mut entry = ProviderEntry::example(&kind, OnHandlerError::Keep);
        let address = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        assert!(entry.is_allowed(address("192.0.2.1")) && entry.is_allowed(None), "no list");
        let nets = ["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32"];
        entry.allow_from = nets.iter().map(|net| net.parse().expect("a range")).collect();
        for good in ["192.0.2.0", "192.0.2.255", "198.51.100.7", "2001:db8:ffff::1"] {
            assert!(entry.is_allowed(address(good)), "{good}");
        }
        for bad in ["192.0.3.0", "198.51.100.8", "2001:db9::", "127.0.0.1", "::1", "::ffff:c000:0201"] {
            assert!(!entry.is_allowed(address(bad)), "{bad}");
        }
        assert!(!entry.is_allowed(None), "who is not known is not on it");
    }

    #[test]
    fn a_request_waits_for_nine_tenths_of_what_its_sender_waits() {
        for (kind, ms) in [("stripe", 18_000), ("slack", 2_700), ("shopify", 4_500)] {
            let spec = std::fs::read_to_string(format!("providers/{kind}/provider.toml")).expect("a file");
            let entry = ProviderEntry::example(&Provider::from_spec(&spec), OnHandlerError::Keep);
            assert_eq!(entry.patience(), Duration::from_millis(ms), "{kind}");
        }
    }

    #[test]
    fn a_provider_takes_its_share_of_the_queue_and_gets_back_what_is_dropped() {
        let kind = Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"));
        let entry = Arc::new(ProviderEntry::example(&kind, OnHandlerError::Keep));
        let places: Vec<_> = (0..3).map(|_| WaitingPlace::take(&entry, 2)).collect();
        assert_eq!(places.iter().filter(|place| place.is_some()).count(), 2);
        assert_eq!(entry.waiting_n.load(Ordering::Relaxed), 2, "who was refused does not wait");
        drop(places);
        assert_eq!(entry.waiting_n.load(Ordering::Relaxed), 0);
        assert!(WaitingPlace::take(&entry, 1).is_some());
    }
}
