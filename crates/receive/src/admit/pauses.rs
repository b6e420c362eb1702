//! Providers that an operator has paused, as this node knows them: their events are latched, stored and answered, and
//! not dispatched. They wait as `retry`, in the order in which they were received, and the ordinary retries dispatch
//! them once the pause has ended, one after the other, one node at a time. Until the last of them is dispatched new
//! events queue behind them, so that an object's events keep their order (for an hour at most, see
//! `crates/store/src/decision/pauses.rs`).
//!
//! Every node reads the pauses once a second. An event that a node admits before it has seen a pause is dispatched at
//! once; retries look in the transaction that takes the event, and are never early.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::timeout;
use tracing::{info, warn};

use super::context::AdmitContext;
use super::entry::{ProviderTable, Providers};
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
    while !stop.is_set() {
        let entries = providers.get();
        let now_ms = context.clock.steady_ms();
        match load_pauses(&context.store, &entries, (now_ms, &context.queue_gate)).await {
            Ok(true) => {
                info!("pauses of providers ended; their events are dispatched");
                context.wake_retries.notify_one();
            }
            Ok(false) => {}
            Err(failure) => {
                warn!(error = %failure, "could not look which providers are paused; those of the last look are");
            }
        }
        tokio::select! {
            () = context.wake_pauses.notified() => {}
            _ = stop.pause(if entries.values().any(|entry| entry.pause.is_queueing()) { EVERY_QUEUEING } else { EVERY }) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
