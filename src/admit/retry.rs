//! Events whose handler failed for now are dispatched again, by the same code, until they work or are
//! given up. The row stays locked for the length of its transaction, so no two nodes take the same one.
//!
//! Each provider has a line of its own, so that slow handlers delay nobody else; and whatever goes wrong with an
//! event puts off that event, so that none is ever in the way of another.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::{info, warn};

use super::failures::{contained, panic_told, panicked};
use super::handover::Written;
use super::plan::Dispatched;
use super::transactional::{handled_in_tx, is_ended};
use super::{AdmitContext, ProviderEntry};
use crate::handler::{HandlerError, RawEvent};
use crate::stop::{self, Stop};
use crate::store::{self, DueEvent, StoreError, Writes};
use crate::types::{EventState, Name};

/// Most providers whose events are dispatched again at once: each holds a connection.
const LINES_N_MAX: usize = 3;

/// Dispatches due events.
#[derive(Clone)]
pub(super) struct Retries {
    pub(super) admission: Arc<AdmitContext>,
    pub(super) entries: Arc<BTreeMap<Name, Arc<ProviderEntry>>>,
}

/// An event taken out, with the transaction that has its row locked.
struct Taken {
    tx: store::AdmissionTx,
    due: DueEvent,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Retries {
    /// Looks for due events every `poll`, and when it is told to, takes all there are, a line for each provider, until `stop` turns true.
    pub(super) async fn run(&self, poll: Duration, mut stop: Stop) {
        let mut lines = JoinSet::new();
        let mut busy: HashMap<Id, Name> = HashMap::new();
        while !stop.is_set() {
            let is_free = |name: &&Name| busy.values().all(|one| one != *name);
            let free: Vec<Name> = self.entries.keys().filter(is_free).cloned().collect();
            if lines.len() < LINES_N_MAX && !free.is_empty() {
                match self.take(&free).await {
                    Ok(Some(taken)) => {
                        let provider = taken.due.key.provider.clone();
                        let line = self.clone().line(taken, stop.clone());
                        busy.insert(lines.spawn(line).id(), provider);
                        continue;
                    }
                    Ok(None) => {}
                    Err(failure) => warn!(error = %failure, "could not look for events to dispatch again"),
                }
            }
            tokio::select! {
                Some(ended) = lines.join_next_with_id() => note_end(&mut busy, ended),
                () = self.admission.wake_retries.notified() => {}
                _ = stop.pause(poll) => {}
            }
        }
        while let Some(ended) = lines.join_next_with_id().await {
            note_end(&mut busy, ended);
        }
    }

    /// Takes the longest due event of these providers; `None` when none is due.
    async fn take(&self, providers: &[Name]) -> Result<Option<Taken>, StoreError> {
        let turn = self.admission.turn().await;
        let mut tx = self.admission.store.admission_begin().await?;
        match tx.event_take_due(self.admission.clock.steady_ms(), providers).await {
            Ok(Some(due)) => Ok(Some(Taken { tx, due, _turn: turn })),
            Ok(None) => tx.rollback().await.map(|()| None),
            Err(failure) => {
                stop::to_end(tx.rollback()).await;
                Err(failure)
            }
        }
    }

    /// Dispatches one provider's due events, one after the other, until none is due.
    async fn line(self, mut taken: Taken, stop: Stop) {
        loop {
            let provider = [taken.due.key.provider.clone()];
            if let Err(failure) = self.dispatch(taken).await {
                // Not even that it failed could be written: the database is away, and is asked again in a while.
                warn!(error = %failure, provider.name = %provider[0], "could not put off an event");
                return;
            }
            if stop.is_set() {
                return;
            }
            match self.take(&provider).await {
                Ok(Some(next)) => taken = next,
                Ok(None) => return,
                Err(failure) => {
                    warn!(error = %failure, "could not look for events to dispatch again");
                    return;
                }
            }
        }
    }

    /// Dispatches one event; whatever goes wrong puts it off, or aside when it was the last time.
    async fn dispatch(&self, taken: Taken) -> Result<(), StoreError> {
        let Taken { tx, due, _turn } = taken;
        let Some(entry) = self.entries.get(&due.key.provider) else { return tx.rollback().await };
        let once = AssertUnwindSafe(self.dispatch_once(tx, entry, &due)).catch_unwind();
        let error = match once.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if is_ended(&error) => HandlerError::Refused(error.to_string()),
            Ok(Err(error)) => error,
            Err(panic) => panicked("retry", panic.as_ref()),
        };
        let update = self.admission.failed_update(entry, &dispatched(&due), &error);
        self.admission.store.event_retry_later(&update, due.attempts_n).await?;
        self.admission.tell_failed(&[update]);
        Ok(())
    }

    /// In one transaction; nothing of it is left when it fails.
    async fn dispatch_once(
        &self,
        mut tx: store::AdmissionTx,
        entry: &ProviderEntry,
        due: &DueEvent,
    ) -> Result<(), HandlerError> {
        let written = self.written(&mut tx, entry, due).await;
        let written = match written {
            Ok(written) => tx.commit().await.map_err(|failure| broken(&failure)).map(|()| written),
            Err(error) => {
                stop::to_end(tx.rollback()).await;
                Err(error)
            }
        }?;
        if written.failed.is_empty() {
            info!(provider.name = %due.key.provider, event.id = due.key.event_id, attempts_n = due.attempts_n.saturating_add(1), "dispatched an event again");
        }
        self.admission.hand_over(written, |_| None);
        Ok(())
    }

    async fn written(
        &self,
        tx: &mut store::AdmissionTx,
        entry: &ProviderEntry,
        due: &DueEvent,
    ) -> Result<Written, HandlerError> {
        let admission = &self.admission;
        let event = dispatched(due);
        let mut writes = Writes::default();
        if let Some(why) = &due.broken {
            writes.updates.push(admission.update(&event, EventState::Failed, Some(why.clone())));
            return admission.write(tx, writes, false).await.map_err(|failure| broken(&failure));
        }
        let payload = entry.provider.payload_of(&due.headers, &due.body).map_err(HandlerError::Refused)?;
        let is_stale = match &due.object {
            Some(object) if entry.provider.handlers().uses_latest() => {
                let is_stale = tx.version_raise(&due.key.provider, object, due.event_seq).await;
                is_stale.map_err(|failure| broken(&failure))?
            }
            _ => false,
        };
        let event_seen = raw_event(due, payload);
        let handlers = (entry.provider.handlers(), admission.handler_timeout);
        let handled = handled_in_tx(handlers, tx.tx(), &event_seen, is_stale).await;
        let handled = contained("retry", || admission.filled(&event_seen, due.generation, handled));
        match handled {
            Err(error) if !matches!(error, HandlerError::Ignore(_)) => return Err(error),
            handled => admission.plan(entry, &event, handled, &mut writes),
        }
        admission.write(tx, writes, false).await.map_err(|failure| broken(&failure))
    }
}

/// The event's own, whatever the database says: it is tried again later, like any that failed.
fn broken(failure: &StoreError) -> HandlerError {
    HandlerError::Retry(anyhow::anyhow!("its transaction could not be committed: {failure}"))
}

fn note_end(busy: &mut HashMap<Id, Name>, ended: Result<(Id, ()), JoinError>) {
    let id = match ended {
        Ok((id, ())) => id,
        Err(error) => {
            let id = error.id();
            if let Ok(panic) = error.try_into_panic() {
                panic_told("retry", panic.as_ref());
            }
            id
        }
    };
    busy.remove(&id);
}

fn dispatched(due: &DueEvent) -> Dispatched<'_> {
    Dispatched {
        key: &due.key,
        event_seq: due.event_seq,
        next_place: due.next_place,
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
