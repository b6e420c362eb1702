//! Whether the database takes events, for readiness. A probe that only writes a row of its own does not know: a table may
//! be locked or renamed, a right revoked, a trigger in the way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::AdmitContext;
use hooklatch_core::types::{EventKey, EventState, IncomingEvent, MessageId, Name};
use hooklatch_store::{Candidate, Decide, Latched, NewMessage, Plan, Store, StoreError, Writes};

/// How long nothing may be admitted because of the database before an admission of our own is tried.
const FAILING_AFTER: Duration = Duration::from_secs(5);

/// How admissions ended lately.
#[derive(Default)]
pub struct AdmissionHealth {
    /// Since when a batch was given back and none was committed.
    failing_since: Mutex<Option<Instant>>,
}

impl AdmissionHealth {
    pub(crate) fn note_committed(&self) {
        *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn note_failed(&self) {
        self.failing_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }

    fn is_failing(&self) -> bool {
        let since = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() >= FAILING_AFTER)
    }
}

impl AdmitContext {
    /// True unless batches are given back and an event of our own is not taken either: one event that the database
    /// refuses, sent again and again, says nothing about the others. To be called in a task that is not cancelled.
    pub async fn is_admitting(&self) -> bool {
        !self.health.is_failing() || try_admission(&self.store, self.clock.now_ms()).await.is_ok()
    }
}

/// Longest time that it waits for another node's lock. Milliseconds.
const TRIAL_WAIT_MS: i64 = 500;

/// Admits an event that no sender can have, with a message, and rolls that back.
async fn try_admission(store: &Store, now_ms: i64) -> Result<(), StoreError> {
    let Some(event_seq) = store.event_numbers(1).await?.pop() else { return Ok(()) };
    let Ok(provider) = Name::parse("hooklatch-trial") else { return Ok(()) };
    let key = EventKey { provider, event_id: event_seq.to_string() };
    let message_id = MessageId::of(event_seq, 0);
    let messages = message_id.map(|id| NewMessage::forward(id, key.clone(), "hooklatch-trial"));
    let event = IncomingEvent::new(key, "trial".to_owned(), [0; 32], Bytes::from_static(b"{}"), now_ms);
    let candidate =
        Candidate { event: Arc::new(event), event_seq, state: EventState::Handled, is_raising: false };
    let mut tx = store.admission_begin().await?;
    let admitted =
        tx.admit(&[candidate], TrialDecision(messages.into_iter().collect()), Some(TRIAL_WAIT_MS)).await;
    tx.rollback().await?;
    admitted.map(drop)
}

/// What follows from that event.
struct TrialDecision(Vec<NewMessage>);

impl Decide for TrialDecision {
    fn unconditional(&mut self) -> Option<Writes> {
        None
    }

    fn decide(&mut self, _: &[(Latched, bool)]) -> Plan {
        Plan::Write(Writes { messages: std::mem::take(&mut self.0), updates: Vec::new() })
    }

    fn lease(&mut self, _: &mut [NewMessage]) {}
}
