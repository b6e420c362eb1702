//! Events whose handler failed for now are dispatched again, by the same code, until they work or are
//! given up. The row stays locked for the length of its transaction, so no two nodes take the same one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use super::own::handled_in_tx;
use super::plan::{Dispatched, Writes};
use super::{Admission, Entry};
use crate::handler::{HandlerError, RawEvent};
use crate::store::{DueEvent, StoreError};
use crate::types::{EventState, Name};

/// Dispatches due events.
pub(super) struct Retries {
    pub(super) admission: Arc<Admission>,
    pub(super) entries: Arc<BTreeMap<Name, Arc<Entry>>>,
}

impl Retries {
    /// Looks for due events every `poll`, takes all there are, one by one, until `stop` turns true.
    pub(super) async fn run(&self, poll: Duration, mut stop: watch::Receiver<bool>) {
        let providers: Vec<Name> = self.entries.keys().cloned().collect();
        while !*stop.borrow() {
            match self.dispatch_one(&providers).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(failure) => warn!(error = %failure, "could not look for events to dispatch again"),
            }
            // Errors of the timer and of the channel both mean: look again.
            drop(tokio::time::timeout(poll, stop.changed()).await);
        }
    }

    /// Takes one due event; `false` when none is due.
    async fn dispatch_one(&self, providers: &[Name]) -> Result<bool, StoreError> {
        let admission = &self.admission;
        let mut tx = admission.store.admission_begin().await?;
        let Some(due) = tx.event_take_due(admission.clock.now_ms(), providers).await? else {
            tx.rollback().await?;
            return Ok(false);
        };
        let Some(entry) = self.entries.get(&due.key.provider) else {
            tx.rollback().await?;
            return Ok(false);
        };
        let event = dispatched(&due);
        let handled = match entry.provider.payload_of(&due.headers, &due.body) {
            Ok(payload) => {
                let is_stale = match &due.object {
                    Some(object) if entry.provider.handlers().uses_latest() => {
                        let raised = [(&due.key.provider, object, due.key.event_id.as_str())];
                        !tx.versions_raise(&raised).await?.first().copied().unwrap_or(true)
                    }
                    _ => false,
                };
                let event_seen = raw_event(&due, payload);
                let handled = handled_in_tx(entry.provider.handlers(), tx.tx(), &event_seen, is_stale).await;
                admission.filled(&event_seen, due.generation, handled)
            }
            Err(why) => Err(HandlerError::Refused(why)),
        };
        let error = match handled {
            Ok(_) | Err(HandlerError::Ignore(_)) => {
                let mut writes = Writes::default();
                admission.plan(entry, &event, handled, &mut writes);
                match writes.store(None, &mut tx).await {
                    Ok(wrote) => {
                        tx.commit().await?;
                        info!(provider.name = %due.key.provider, event.id = due.key.event_id, attempts_n = event.attempts_n, "dispatched an event again");
                        admission.hand_over(wrote, std::iter::empty());
                        return Ok(true);
                    }
                    Err(StoreError::Query { source, .. }) => {
                        HandlerError::Retry(anyhow::anyhow!("handler left its transaction broken: {source}"))
                    }
                    Err(other) => return Err(other),
                }
            }
            Err(error) => error,
        };
        drop(tx.rollback().await);
        let update = admission.failed_update(entry, &event, &error);
        if update.state == EventState::Failed {
            warn!(provider.name = %due.key.provider, event.id = due.key.event_id, attempts_n = event.attempts_n, error = %error, "gave up on an event");
        }
        admission.store.event_retry_later(&update, due.attempts_n).await?;
        Ok(true)
    }
}

fn dispatched(due: &DueEvent) -> Dispatched<'_> {
    Dispatched {
        key: &due.key,
        event_type: &due.event_type,
        received_at_ms: due.received_at_ms,
        attempts_n: due.attempts_n.saturating_add(1),
        generation: due.generation,
        is_again: true,
    }
}

fn raw_event(due: &DueEvent, payload: bytes::Bytes) -> RawEvent {
    RawEvent {
        provider: due.key.provider.clone(),
        event_id: due.key.event_id.clone(),
        event_type: due.event_type.clone(),
        payload,
        received_at_ms: due.received_at_ms,
        attempt_n: due.attempts_n.saturating_add(1),
    }
}
