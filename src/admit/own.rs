//! Transactional handlers: each request in a transaction of its own.
//!
//! Insert first, then the handler with that same transaction, then effects, one commit. When the handler
//! fails, all of it is rolled back and the event is admitted again without it, as `retry` or `failed`: a
//! user's failing SQL can never poison a shared batch.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::error;

use super::committer::Wrote;
use super::plan::{self, Dispatched, Writes};
use super::{Admission, AdmitError, Admitted, Entry, Submission};
use crate::handler::{Handled, HandlerError, Handlers, RawEvent, panic_text};
use crate::store::{self, Latched, StoreError};
use crate::types::IncomingEvent;

/// Most requests in a transaction of their own at once (PostgreSQL; SQLite has one writer anyway).
const CONCURRENT_N: usize = 4;
/// Longest a transactional handler may take before it counts as failed for now. It holds a connection, and
/// on SQLite the only writer.
pub(super) const HANDLER_TIMEOUT: Duration = Duration::from_secs(5);

/// Admits requests whose events have transactional handlers.
pub(crate) struct OwnAdmission {
    admission: Arc<Admission>,
    waiting: mpsc::Receiver<Submission>,
}

impl OwnAdmission {
    pub(super) fn new(admission: Arc<Admission>, waiting: mpsc::Receiver<Submission>) -> Self {
        Self { admission, waiting }
    }

    /// Runs until the entrance is closed and the queue is empty.
    pub(crate) async fn run(mut self) {
        let mut under_way = JoinSet::new();
        while let Some(submission) = self.waiting.recv().await {
            while under_way.len() >= CONCURRENT_N {
                under_way.join_next().await;
            }
            let admission = Arc::clone(&self.admission);
            under_way.spawn(async move { admission.admit_own(submission).await });
        }
        while under_way.join_next().await.is_some() {}
    }
}

/// How one pass ended without a commit.
enum Setback {
    /// The handlers of these events failed; they are kept, without what the handlers did.
    Handlers(HashMap<usize, HandlerError>),
    Rejected(String),
    Store(StoreError),
}

impl From<StoreError> for Setback {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Admission {
    async fn admit_own(&self, submission: Submission) {
        let mut failed = HashMap::new();
        // Each pass adds at least one failed event, so this ends.
        let result = loop {
            match self.own_pass(&submission.entry, &submission.events, &failed).await {
                Ok(admitted) => break Ok(admitted),
                Err(Setback::Handlers(more)) => failed.extend(more),
                Err(Setback::Rejected(why)) => break Err(AdmitError::Rejected(why)),
                Err(Setback::Store(failure)) => {
                    error!(error = %failure, "could not commit; the sender was told to try again");
                    break Err(AdmitError::Unavailable(failure.to_string()));
                }
            }
        };
        submission.settle(result);
    }

    async fn own_pass(
        &self,
        entry: &Entry,
        events: &[IncomingEvent],
        failed: &HashMap<usize, HandlerError>,
    ) -> Result<Admitted, Setback> {
        let mut tx = self.store.admission_begin().await?;
        let mut ran = Vec::new();
        match self.own_rows(&mut tx, (entry, events), failed, &mut ran).await {
            Ok((admitted, wrote)) => match tx.commit().await {
                Ok(()) => {
                    self.hand_over(wrote, events.iter());
                    Ok(admitted)
                }
                Err(failure) => Err(blame_handlers(failure, &ran)),
            },
            Err(setback) => {
                drop(tx.rollback().await);
                match setback {
                    Setback::Store(failure) => Err(blame_handlers(failure, &ran)),
                    other => Err(other),
                }
            }
        }
    }

    /// `ran` collects the positions whose transactional handlers ran in this pass.
    async fn own_rows(
        &self,
        tx: &mut store::Admission,
        (entry, events): (&Entry, &[IncomingEvent]),
        failed: &HashMap<usize, HandlerError>,
        ran: &mut Vec<usize>,
    ) -> Result<(Admitted, Wrote), Setback> {
        let rows: Vec<_> = events.iter().enumerate().map(|(n, event)| (n, entry, event)).collect();
        let all: Vec<&IncomingEvent> = events.iter().collect();
        let states: Vec<_> = events.iter().map(|event| plan::initial_state(entry, event)).collect();
        let latched = tx.events_insert(&all, &states).await?;
        let stale = self.raise_versions(tx, &rows, &latched).await?;
        let handlers = entry.provider.handlers();
        let mut admitted = Admitted { events: Vec::new() };
        let mut writes = Writes::default();
        for (((n, _, event), latched), is_stale) in rows.iter().zip(&latched).zip(stale) {
            let is_superseded = is_stale && handlers.wants_latest_only(&event.event_type);
            let outcome = plan::outcome(latched, event, is_superseded);
            admitted.events.push((event.key.event_id.clone(), outcome));
            let dispatched = Dispatched::first(event);
            if *latched != Latched::New || event.unreadable.is_some() || !handlers.wants(&event.event_type) {
                self.note_unreadable(latched, event, &mut writes);
            } else if is_superseded {
                writes.updates.push(self.superseded(&dispatched));
            } else if let Some(error) = failed.get(n) {
                writes.updates.push(self.failed_update(entry, &dispatched, error));
            } else {
                ran.push(*n);
                let event_seen = plan::raw_event(event, 1);
                let handled = handled_in_tx(handlers, tx.tx(), &event_seen, is_stale).await;
                let handled = self.filled(&event_seen, 0, handled);
                if let Some(why) = plan::rejection(entry, &handled) {
                    return Err(Setback::Rejected(why));
                }
                match handled {
                    Err(error) if !matches!(error, HandlerError::Ignore(_)) => {
                        return Err(Setback::Handlers(HashMap::from([(*n, error)])));
                    }
                    handled => self.plan(entry, &dispatched, handled, &mut writes),
                }
            }
        }
        Ok((admitted, writes.store(Some(self), tx).await?))
    }

    /// The row of an event whose handler failed, whatever the handler had done rolled back.
    pub(super) fn failed_update(
        &self,
        entry: &Entry,
        event: &Dispatched<'_>,
        error: &HandlerError,
    ) -> store::EventUpdate {
        match error {
            HandlerError::Retry(_) => self.retry_update(entry, event, error),
            _ => self.update(event, crate::types::EventState::Failed, Some(error.to_string())),
        }
    }
}

/// Runs the handlers of one event inside `tx`; a panic or a time-out is an error of this event alone.
pub(super) async fn handled_in_tx(
    handlers: &Handlers,
    tx: &mut store::Tx,
    event: &RawEvent,
    is_stale: bool,
) -> Handled {
    if !handlers.needs_transaction(&event.event_type) {
        return handlers.dispatch(event, is_stale);
    }
    let broken = |error: StoreError| {
        HandlerError::Retry(anyhow::anyhow!("handler left its transaction broken: {error}"))
    };
    tx.handler_begins().await.map_err(broken)?;
    let run = AssertUnwindSafe(handlers.dispatch_in_tx(tx, event, is_stale)).catch_unwind();
    match tokio::time::timeout(HANDLER_TIMEOUT, run).await {
        Ok(Ok(Err(error))) if !matches!(error, HandlerError::Ignore(_)) => Err(error),
        // What follows is written where its event was, or not at all.
        Ok(Ok(handled)) => tx.handler_ended().await.map_err(broken).and(handled),
        Ok(Err(panic)) => {
            tx.abandon();
            Err(HandlerError::Retry(anyhow::anyhow!("handler panicked: {}", panic_text(panic.as_ref()))))
        }
        Err(_) => {
            tx.abandon();
            Err(HandlerError::Retry(anyhow::anyhow!("handler took longer than {HANDLER_TIMEOUT:?}")))
        }
    }
}

/// A statement refused after handlers ran is theirs: they may have swallowed an error that aborted the
/// transaction, or left a deferred constraint broken.
fn blame_handlers(failure: StoreError, ran: &[usize]) -> Setback {
    match failure {
        StoreError::Query { source, .. } if !ran.is_empty() => {
            let of = |n: &usize| {
                (*n, HandlerError::Retry(anyhow::anyhow!("handler left its transaction broken: {source}")))
            };
            Setback::Handlers(ran.iter().map(of).collect())
        }
        failure => Setback::Store(failure),
    }
}
