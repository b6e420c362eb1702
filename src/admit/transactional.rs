//! Transactional handlers: each request in a transaction of its own.
//!
//! Insert first, then the handler with that same transaction, then effects, one commit. When the handler
//! fails, all of it is rolled back and the event is admitted again without it, as `retry` or `failed`: a
//! user's failing SQL can never poison a shared batch. Providers take turns, and the handlers of one request have
//! a bounded time together.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::error;

use super::failures::{contained, panic_told};
use super::fair::Fair;
use super::handover::Written;
use super::plan::{self, Dispatched, Fate};
use super::{AdmitContext, AdmitError, Admitted, ProviderEntry, Submission};
use crate::config::OnHandlerError;
use crate::handler::{Handled, HandlerError, Handlers, RawEvent, panic_text};
use crate::stop;
use crate::store::{self, Candidate, Latched, StoreError, Writes};
use crate::types::{EventState, IncomingEvent};

/// Most requests in a transaction of their own at once.
const CONCURRENT_N: usize = 4;
/// How often a request is tried again whose transaction the database gave up for another one's sake.
const REPEATS_N_MAX: u32 = 3;

/// Admits requests whose events have transactional handlers.
pub(crate) struct TransactionalAdmission {
    admission: Arc<AdmitContext>,
    waiting: mpsc::Receiver<Submission>,
    /// Most requests that wait here in their providers' lines; more wait in the queue.
    lines_n_max: usize,
}

impl TransactionalAdmission {
    pub(super) fn new(
        admission: Arc<AdmitContext>,
        waiting: mpsc::Receiver<Submission>,
        lines_n_max: usize,
    ) -> Self {
        Self { admission, waiting, lines_n_max: lines_n_max.max(1) }
    }

    /// Runs until the entrance is closed and the queue is empty.
    pub(crate) async fn run(&mut self) {
        let concurrent_n = self.admission.store.handlers_n().min(CONCURRENT_N);
        let mut lines = Fair::default();
        let mut under_way = JoinSet::new();
        let mut is_open = true;
        loop {
            while under_way.len() < concurrent_n
                && let Some(submission) = lines.pop()
            {
                let admission = Arc::clone(&self.admission);
                under_way.spawn(async move { admission.admit_own(submission).await });
            }
            tokio::select! {
                next = self.waiting.recv(), if is_open && lines.waiting_n() < self.lines_n_max => match next {
                    Some(submission) => {
                        let provider = submission.entry.provider.name().clone();
                        lines.push(&provider, submission);
                    }
                    None => is_open = false,
                },
                Some(ended) = under_way.join_next() => note_end(ended),
                else => break,
            }
        }
    }
}

/// Whoever waited for a request whose task panicked hears that there is no answer.
fn note_end(ended: Result<(), JoinError>) {
    if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
        panic_told("own", panic.as_ref());
    }
}

/// How one pass ended without a commit.
enum AttemptError {
    /// The handlers of these events failed; they are kept, without what the handlers did.
    Handlers(HashMap<usize, HandlerError>),
    Rejected(String),
    Store(StoreError),
}

impl From<StoreError> for AttemptError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One request on its way.
struct Own<'a> {
    entry: &'a ProviderEntry,
    events: &'a [Arc<IncomingEvent>],
    /// Their numbers.
    numbers: Vec<i64>,
    /// Events whose handlers failed in an earlier pass.
    failed: HashMap<usize, HandlerError>,
    /// What is left of the time that all handlers of the request have together, over all passes.
    left: Duration,
    /// The positions whose transactional handlers ran in this pass.
    ran: Vec<usize>,
    /// Those that had run when one of them left a transaction that was not the one it was given: what it did with that
    /// one is not known.
    ended: Option<Vec<usize>>,
}

impl Own<'_> {
    /// Every event that has not failed yet, when the time is up: those that ran would have to run again.
    fn out_of_time(&self, limit: Duration) -> AttemptError {
        let late =
            || HandlerError::Retry(anyhow::anyhow!("handlers of its request took longer than {limit:?}"));
        let others = (0..self.events.len()).filter(|n| !self.failed.contains_key(n));
        AttemptError::Handlers(others.map(|n| (n, late())).collect())
    }
}

impl AdmitContext {
    async fn admit_own(&self, submission: Submission) {
        let _turn = self.turn().await;
        if submission.is_given_up() {
            return;
        }
        let numbers = match self.store.event_numbers(submission.events.len()).await {
            Ok(numbers) => numbers,
            Err(failure) => return submission.settle(Err(AdmitError::Unavailable(failure.to_string()))),
        };
        let mut own = Own {
            entry: &submission.entry,
            events: &submission.events,
            numbers,
            failed: HashMap::new(),
            left: self.handler_timeout,
            ran: Vec::new(),
            ended: None,
        };
        let mut repeats_n = 0;
        // Each pass adds at least one failed event or is counted, so this ends.
        let result = loop {
            match self.own_pass(&mut own).await {
                Ok(admitted) => break Ok(admitted),
                Err(AttemptError::Handlers(more)) => own.failed.extend(more),
                Err(AttemptError::Rejected(why)) => break Err(AdmitError::Rejected(why)),
                Err(AttemptError::Store(StoreError::Conflict { .. })) if repeats_n < REPEATS_N_MAX => {
                    repeats_n += 1;
                }
                Err(AttemptError::Store(failure)) => {
                    error!(error = %failure, "could not commit; the sender was told to try again");
                    break Err(AdmitError::Unavailable(failure.to_string()));
                }
            }
        };
        submission.settle(result);
    }

    async fn own_pass(&self, own: &mut Own<'_>) -> Result<Admitted, AttemptError> {
        let mut tx = self.store.admission_begin().await?;
        own.ran.clear();
        match self.own_rows(&mut tx, own).await {
            Ok((admitted, written)) => match tx.commit().await {
                Ok(()) => {
                    self.hand_over(written, |event_seq| {
                        let position = own.numbers.binary_search(&event_seq).ok()?;
                        own.events.get(position).map(Arc::as_ref)
                    });
                    for (event, (_, outcome)) in own.events.iter().zip(&admitted.events) {
                        self.note_kept(event, *outcome);
                    }
                    Ok(admitted)
                }
                Err(failure) => Err(blame_handlers(failure, &own.ran)),
            },
            Err(setback) => {
                stop::to_end(tx.rollback()).await;
                match setback {
                    AttemptError::Store(failure) => Err(blame_handlers(failure, &own.ran)),
                    other => Err(other),
                }
            }
        }
    }

    async fn own_rows(
        &self,
        tx: &mut store::AdmissionTx,
        own: &mut Own<'_>,
    ) -> Result<(Admitted, Written), AttemptError> {
        let (entry, events) = (own.entry, own.events);
        let of = |(event, event_seq): (&Arc<IncomingEvent>, &i64)| plan::candidate(entry, event, *event_seq);
        let candidates: Vec<Candidate> = events.iter().zip(&own.numbers).map(of).collect();
        let latched = tx.events_insert(&candidates).await?;
        let stale = tx.versions_raise(&candidates, &latched).await?;
        let mut admitted = Admitted { events: Vec::new() };
        let mut writes = Writes::default();
        for (n, ((candidate, latched), is_stale)) in candidates.iter().zip(&latched).zip(stale).enumerate() {
            let (event, event_seq) = (&candidate.event, candidate.event_seq);
            let fate = plan::fate(entry, event, latched, is_stale);
            let outcome = plan::outcome(latched, event, fate == Fate::Superseded);
            admitted.events.push((event.key.event_id.clone(), outcome));
            if let Some((event_seq, error)) = self.committed_by_handler(tx, own, (n, event), latched).await? {
                let dispatched = Dispatched::first(event, event_seq);
                writes.updates.push(self.failed_update(entry, &dispatched, &error));
                continue;
            }
            if fate != Fate::Dispatch {
                writes.updates.extend(self.undispatched(fate, event, event_seq));
                continue;
            }
            let dispatched = Dispatched::first(event, event_seq);
            if let Some(error) = own.failed.get(&n) {
                if entry.on_handler_error == OnHandlerError::Reject {
                    return Err(AttemptError::Rejected(error.to_string()));
                }
                writes.updates.push(self.failed_update(entry, &dispatched, error));
            } else {
                let handled = self.own_handled(tx, own, (n, event), is_stale).await?;
                self.plan(entry, &dispatched, handled, &mut writes);
            }
        }
        Ok((admitted, self.write(tx, writes, true).await?))
    }

    /// Why an event that is known already is to be kept as failed all the same: an earlier pass of this request wrote
    /// its row, and a handler committed that, although nothing of what was to follow was there yet.
    async fn committed_by_handler(
        &self,
        tx: &mut store::AdmissionTx,
        own: &Own<'_>,
        (n, event): (usize, &IncomingEvent),
        latched: &Latched,
    ) -> Result<Option<(i64, HandlerError)>, StoreError> {
        let Some(ran) = &own.ended else { return Ok(None) };
        let is_wanted = own.entry.provider.handlers().wants(&event.event_type);
        if *latched != Latched::Duplicate || event.unreadable.is_some() || !is_wanted {
            return Ok(None);
        }
        // Another node's copy of the event would have arrived at another time.
        let Some(row) = tx.event_get(&event.key).await? else { return Ok(None) };
        if row.received_at_ms != event.received_at_ms || row.state != EventState::Done {
            return Ok(None);
        }
        let why = if ran.contains(&n) {
            // Not again: what it wrote is there.
            let why = "a handler committed the transaction that it was given; what it wrote stands, its effects do not";
            HandlerError::Refused(why.to_owned())
        } else {
            HandlerError::Retry(anyhow::anyhow!(
                "a handler of its request committed before this event's turn"
            ))
        };
        Ok(Some((row.event_seq, why)))
    }

    /// What the handlers of one event answered, if they did not fail.
    async fn own_handled(
        &self,
        tx: &mut store::AdmissionTx,
        own: &mut Own<'_>,
        (n, event): (usize, &IncomingEvent),
        is_stale: bool,
    ) -> Result<Handled, AttemptError> {
        if own.left.is_zero() {
            return Err(own.out_of_time(self.handler_timeout));
        }
        own.ran.push(n);
        let event_seen = plan::raw_event(event, 1);
        let since = Instant::now();
        let handlers = own.entry.provider.handlers();
        let handled = handled_in_tx((handlers, own.left), tx.tx(), &event_seen, is_stale).await;
        own.left = own.left.saturating_sub(since.elapsed());
        let handled = contained("dispatch", || self.filled(&event_seen, 0, handled));
        if is_broken(&handled) {
            own.ended = Some(own.ran.clone());
        } else if let Some(why) = plan::rejection(own.entry, &handled) {
            return Err(AttemptError::Rejected(why));
        }
        match handled {
            Err(error) if !matches!(error, HandlerError::Ignore(_)) => {
                Err(AttemptError::Handlers(HashMap::from([(n, error)])))
            }
            handled => Ok(handled),
        }
    }

    /// The row of an event whose handler failed, whatever the handler had done rolled back.
    pub(super) fn failed_update(
        &self,
        entry: &ProviderEntry,
        event: &Dispatched<'_>,
        error: &HandlerError,
    ) -> store::EventUpdate {
        match error {
            HandlerError::Retry(_) => self.retry_update(entry, event, error),
            _ => self.update(event, EventState::Failed, Some(error.to_string())),
        }
    }
}

/// What a handler left is not the transaction that it was given.
#[derive(Debug, thiserror::Error)]
#[error("handler left its transaction broken: {0}")]
struct Broken(StoreError);

/// Whether a handler ended the transaction that it was given, so that what it wrote may stand: running it again would
/// write that again.
pub(super) fn is_ended(error: &HandlerError) -> bool {
    let HandlerError::Retry(error) = error else { return false };
    error.downcast_ref().is_some_and(|Broken(error)| error.is_of_no_transaction())
}

fn is_broken(handled: &Handled) -> bool {
    matches!(handled, Err(HandlerError::Retry(error)) if error.is::<Broken>())
}

/// Plain handlers may block, and one that blocks a worker of the runtime can keep everything else from running.
fn off_the_workers<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

/// Runs the handlers of one event inside `tx`; a panic or a time-out is an error of this event alone.
pub(super) async fn handled_in_tx(
    (handlers, limit): (&Handlers, Duration),
    tx: &mut store::Tx,
    event: &RawEvent,
    is_stale: bool,
) -> Handled {
    if !handlers.needs_transaction(&event.event_type) {
        return off_the_workers(|| handlers.dispatch(event, is_stale));
    }
    let broken = |error: StoreError| HandlerError::Retry(anyhow::Error::new(Broken(error)));
    tx.handler_begins().await.map_err(broken)?;
    let run = AssertUnwindSafe(handlers.dispatch_in_tx(tx, event, is_stale)).catch_unwind();
    match tokio::time::timeout(limit, run).await {
        Ok(Ok(Err(error))) if !matches!(error, HandlerError::Ignore(_)) => Err(error),
        // What follows is written where its event was, or not at all.
        Ok(Ok(handled)) => tx.handler_ended().await.map_err(broken).and(handled),
        Ok(Err(panic)) => {
            tx.abandon();
            Err(HandlerError::Retry(anyhow::anyhow!("handler panicked: {}", panic_text(panic.as_ref()))))
        }
        Err(_) => {
            tx.abandon();
            Err(HandlerError::Retry(anyhow::anyhow!("handler took longer than {limit:?}")))
        }
    }
}

/// A statement refused after handlers ran is theirs: they may have swallowed an error that aborted the
/// transaction, or left a deferred constraint broken.
fn blame_handlers(failure: StoreError, ran: &[usize]) -> AttemptError {
    match failure {
        StoreError::Query { source, .. } if !ran.is_empty() => {
            let of = |n: &usize| {
                (*n, HandlerError::Retry(anyhow::anyhow!("handler left its transaction broken: {source}")))
            };
            AttemptError::Handlers(ran.iter().map(of).collect())
        }
        failure => AttemptError::Store(failure),
    }
}
