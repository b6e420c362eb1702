//! One configured provider, as the way of a request needs it, and whether an operator has paused it.
//!
//! Events of a paused provider are latched, stored and answered, and not dispatched. They wait as `retry`, in the order
//! in which they were received, and the ordinary retries dispatch them once the pause has ended, one after the other,
//! one node at a time. Until the last of them is dispatched new events queue behind them, so that an object's events
//! keep their order (for an hour at most, see `crates/store/src/decision/pauses.rs`).
//!
//! Every node looks once a second whether pauses have changed, and reads them if so. An event that a node admits before
//! it has seen a pause is dispatched at once; retries look in the transaction that takes the event, and are never early.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ipnet::IpNet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::AdmitContext;
use super::templates::Templates;
use crate::fetch::Fetcher;
use crate::provider::ActiveProvider;
use hooklatch_core::config::{OnHandlerError, RetryConfig};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Name, UnixMs};
use hooklatch_store::{ProviderPause, Store, StoreError};

/// Time between two looks; shorter while events queue behind those that waited for the end of a pause.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_QUEUEING: Duration = Duration::from_millis(100);

/// Longest time that admission is kept waiting when events stop to queue; then it is tried again at the next look.
const GATE_TIMEOUT: Duration = Duration::from_millis(50);

/// What a provider's entry knows of its pause.
#[derive(Debug, Default)]
pub struct PauseState(RwLock<KnownPause>);

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct KnownPause {
    /// Why new events have to wait; `None` when they do not.
    reason: Option<Arc<str>>,
    /// When the last pause ended.
    ended_at_ms: Option<UnixMs>,
}

impl PauseState {
    /// Why new events have to wait, for the row of one; `None` when they are dispatched.
    pub fn reason(&self) -> Option<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).reason.clone()
    }

    /// True when the pause has ended and new events queue behind those that waited for its end.
    pub(super) fn is_queueing(&self) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.ended_at_ms.is_some() && known.reason.is_some()
    }

    /// Sets what is known; true when events need not wait any more that had to.
    fn set(&self, pause: Option<&ProviderPause>) -> bool {
        let known = pause.map(KnownPause::of).unwrap_or_default();
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_over = held.ended_at_ms != known.ended_at_ms && known.ended_at_ms.is_some();
        *held = known;
        is_over
    }
}

impl KnownPause {
    fn of(pause: &ProviderPause) -> Self {
        let ProviderPause { actor, reason, ended_at_ms, is_holding, .. } = pause;
        let reason = match ended_at_ms {
            _ if !is_holding => None,
            None => Some(format!("provider paused by {actor}: {reason}")),
            Some(_) => Some("provider was paused: events from before are dispatched first".to_owned()),
        };
        Self { reason: reason.map(Arc::from), ended_at_ms: *ended_at_ms }
    }
}

/// Reads which providers are paused; true when a pause has ended since the last look. The last events that queue behind
/// those that waited are committed before a newer one does not queue any more, so that none overtakes them.
pub async fn load_pauses(
    store: &Store,
    entries: &ProviderTable,
    (now_ms, gate): (UnixMs, &tokio::sync::RwLock<()>),
) -> Result<bool, StoreError> {
    let mut pauses = store.provider_pauses(now_ms).await?;
    let holds = |name: &Name| pauses.iter().any(|one| one.is_holding && one.provider == name.as_str());
    let mut entered = None;
    if entries.iter().any(|(name, entry)| entry.pause.is_queueing() && !holds(name)) {
        let Ok(gate) = timeout(GATE_TIMEOUT, gate.write()).await else { return Ok(false) };
        entered = Some(gate);
        pauses = store.provider_pauses(now_ms).await?;
    }
    let mut is_over = false;
    for (name, entry) in entries {
        is_over |= entry.pause.set(pauses.iter().find(|pause| pause.provider == name.as_str()));
    }
    drop(entered);
    Ok(is_over)
}

/// Keeps what is known of pauses up to date, until `stop` turns true.
pub async fn run_pauses(context: Arc<AdmitContext>, providers: Providers, mut stop: Stop) {
    let mut looks = context.store.node().subscribe();
    while !stop.is_set() {
        let (entries, now_ms) = (providers.get(), context.clock.steady_ms());
        // What changes from here on, a later look shows.
        let found = looks.latest().map(|look| look.pauses);
        let loaded = load_pauses(&context.store, &entries, (now_ms, &context.queue_gate)).await;
        let seen = if loaded.is_ok() { found } else { None };
        match loaded {
            Ok(true) => {
                info!("pauses of providers ended; their events are dispatched");
                context.wake_retries.notify_one();
            }
            Ok(false) => {}
            Err(failure) => {
                warn!(error = %failure, "could not look which providers are paused; those of the last look are");
            }
        }
        let is_queueing = entries.values().any(|entry| entry.pause.is_queueing());
        let every = if is_queueing { EVERY_QUEUEING } else { EVERY };
        tokio::select! {
            () = context.wake_pauses.notified() => {}
            () = looks.until(every, |look| (is_queueing || Some(look.pauses) != seen).then_some(look.at)) => {}
            () = stop.wait() => {}
        }
    }
}

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
    pub(crate) fn example(kind: &crate::provider::Provider, on_handler_error: OnHandlerError) -> Self {
        use crate::provider::Kind;
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

    fn pause(ended_at_ms: Option<UnixMs>, is_holding: bool) -> ProviderPause {
        let (actor, reason) = ("ann".to_owned(), "a bad deploy".to_owned());
        ProviderPause { provider: "stripe".to_owned(), actor, reason, ended_at_ms, is_holding }
    }

    #[test]
    fn events_wait_while_a_pause_lasts_and_behind_those_that_waited() {
        let state = PauseState::default();
        let reason = |state: &PauseState| state.reason().map(|reason| reason.to_string());
        assert_eq!(reason(&state), None);
        assert!(!state.set(Some(&pause(None, true))));
        assert_eq!(reason(&state).as_deref(), Some("provider paused by ann: a bad deploy"));
        assert!(state.set(Some(&pause(Some(9), true))), "it has ended");
        assert!(!state.set(Some(&pause(Some(9), true))), "it ended before");
        assert!(reason(&state).is_some_and(|reason| reason.contains("dispatched first")));
        assert!(!state.set(Some(&pause(Some(9), false))));
        assert_eq!(reason(&state), None);
    }

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
