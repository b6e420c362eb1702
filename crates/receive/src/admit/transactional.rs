//! Transactional handlers: each request in a transaction of its own.
//!
//! What a handler writes into the user's own tables must be there exactly when its event is. So one transaction holds
//! all of it, in this order: the events are latched, the handlers run with that same transaction, what follows from
//! their answers is written, and one commit makes everything true at once. A copy of the event finds the latch and runs
//! nothing.
//!
//! When a handler fails, all of it is rolled back, and the events are admitted again in a new transaction without the
//! one that failed, which is kept as `retry` or `failed`. For this a request may take several passes. Each pass either
//! commits, or adds at least one failed event, or is one of a few repetitions, so there is an end. A user's failing SQL
//! can never poison the shared batch, because it is never in it.
//!
//! Handlers hold a connection, on SQLite the only writer. That is why providers take turns ([`FairQueue`]), why the
//! handlers of one request have a bounded time together over all passes, and why there are fewer such transactions than
//! connections.
//!
//! One thing cannot be rolled back: a handler that commits the transaction itself. Then its event is there although
//! nothing that was to follow is, and the next pass would take it for a duplicate. `committed_by_handler` finds that
//! out and keeps the event as failed, with the reason, instead of losing it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::error;

use super::AdmitContext;
use super::admitter::{AdmitError, AdmittedEvents, Submission};
use super::bodies::{delete_unlatched, stored_in_parts};
use super::decision::{Decision, candidate, decide, outcome};
use super::dispatch::{Dispatched, broken, handled_in_tx, is_broken, record_panic, with_panic_counted};
use super::entry::ProviderEntry;
use super::handover::{Committed, hand_over, queue_gate, wake_queue, write};
use super::plan::{NotPlanned, Planned, rejects};
use super::room::LARGE_BYTES;
use super::templates::Rendering;
use crate::handler::{HandlerError, RawEvent};
use hooklatch_core::stop;
use hooklatch_core::types::{EventState, IncomingEvent, Name};
use hooklatch_outbox::traces::{AdmissionTimes, CommitSpan, HandlerRun};
use hooklatch_store::{self as store, Candidate, Latched, StoreError, Writes};

/// Lines of waiting things, one for each provider, that are served in turns.
pub(super) struct FairQueue<T> {
    /// Those that are not empty; the next one first.
    lines: VecDeque<(Name, VecDeque<T>)>,
    waiting_n: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), waiting_n: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Number of those that wait, over all lines.
    pub(crate) fn waiting_n(&self) -> usize {
        self.waiting_n
    }

    /// Goes to the end of its provider's line.
    pub(crate) fn push(&mut self, provider: Name, one: T) {
        self.waiting_n += 1;
        match self.lines.iter_mut().find(|(name, _)| *name == provider) {
            Some((_, line)) => line.push_back(one),
            None => self.lines.push_back((provider, VecDeque::from([one]))),
        }
    }

    /// The next one; its provider's turn comes again after that of all others.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (provider, mut line) = self.lines.pop_front()?;
        let one = line.pop_front();
        if !line.is_empty() {
            self.lines.push_back((provider, line));
        }
        self.waiting_n = self.waiting_n.saturating_sub(1);
        one
    }
}

/// Most requests in a transaction of their own at once.
const CONCURRENT_N: usize = 4;
/// Most times that a request is tried again whose transaction the database gave up for another one's sake.
const REPEATS_N_MAX: u32 = 3;

/// Admits requests whose events have transactional handlers.
pub struct TransactionalAdmission {
    context: Arc<AdmitContext>,
    waiting: mpsc::Receiver<Submission>,
    /// Most requests that wait here in their providers' lines; more wait in the queue.
    lines_n_max: usize,
}

impl TransactionalAdmission {
    pub fn new(context: Arc<AdmitContext>, waiting: mpsc::Receiver<Submission>, lines_n_max: usize) -> Self {
        Self { context, waiting, lines_n_max: lines_n_max.max(1) }
    }

    /// Runs until the entrance is closed and the queue is empty.
    pub async fn run(&mut self) {
        let concurrent_n = self.context.store.handlers_n().min(CONCURRENT_N);
        let mut lines = FairQueue::default();
        let (mut under_way, mut preparing) = (JoinSet::new(), JoinSet::new());
        let mut is_open = true;
        loop {
            while under_way.len() < concurrent_n
                && let Some(submission) = lines.pop()
            {
                let context = Arc::clone(&self.context);
                under_way.spawn(async move { admit(&context, submission).await });
            }
            tokio::select! {
                next = self.waiting.recv(), if is_open && lines.waiting_n() < self.lines_n_max => match next {
                    Some(submission) if submission.is_large() => {
                        let context = Arc::clone(&self.context);
                        preparing.spawn(async move { prepared(&context, submission).await });
                    }
                    Some(submission) => lines.push(submission.entry.provider.name().clone(), submission),
                    None => is_open = false,
                },
                Some(ended) = preparing.join_next() => match ended {
                    Ok(Some(submission)) => lines.push(submission.entry.provider.name().clone(), submission),
                    Ok(None) => {}
                    Err(error) => note_end(Err(error)),
                },
                Some(ended) = under_way.join_next() => note_end(ended),
                else => break,
            }
        }
    }
}

/// Stores the bodies of large events before the transaction begins; `None` when that failed, and the request is
/// answered.
async fn prepared(context: &AdmitContext, mut submission: Submission) -> Option<Submission> {
    let stored = async {
        submission.numbers = context.store.event_numbers(submission.events.len()).await?;
        for (event, event_seq) in submission.events.iter_mut().zip(&submission.numbers) {
            *event = stored_in_parts(context, event, *event_seq).await?;
        }
        Ok::<(), StoreError>(())
    };
    match stored.await {
        Ok(()) => {
            submission.parsed = parsed(&submission).await;
            Some(submission)
        }
        Err(failure) => {
            delete_unlatched(context, submission.numbers.iter().copied().zip(&submission.events)).await;
            submission.settle(Err(AdmitError::Unavailable(failure.to_string())));
            None
        }
    }
}

/// Parses large events for their transactional handlers, on a thread that serves no requests. What panics is parsed
/// again by its dispatch, which contains that.
async fn parsed(submission: &Submission) -> HashMap<usize, RawEvent> {
    let (entry, events) = (Arc::clone(&submission.entry), submission.events.clone());
    let parsing = tokio::task::spawn_blocking(move || {
        let large = events.iter().enumerate().filter(|(_, event)| event.body.len() > LARGE_BYTES);
        let parsed = large.map(|(n, event)| {
            let seen = Dispatched::first(event, 0).seen(&event.event_type, entry.provider.content(event));
            entry.provider.handlers().parse_ahead(&seen);
            (n, seen)
        });
        parsed.collect()
    });
    parsing.await.unwrap_or_default()
}

/// Counts the panic of a request's task. The request that waited for it gets no answer from it.
fn note_end(ended: Result<(), JoinError>) {
    if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
        record_panic("transactional", panic.as_ref());
    }
}

/// The reason why one pass ended without a commit.
enum TransactionError {
    /// The handlers of these events failed; they are kept, without what the handlers did.
    Handlers(HashMap<usize, HandlerError>),
    Rejected(String),
    Store(StoreError),
}

impl From<StoreError> for TransactionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One request on its way.
struct TransactionalRequest<'a> {
    context: &'a AdmitContext,
    entry: &'a ProviderEntry,
    events: &'a [Arc<IncomingEvent>],
    /// Numbers of the events, in their order.
    numbers: Vec<i64>,
    /// Positions of the events whose handlers failed in an earlier pass, and why.
    failed: HashMap<usize, HandlerError>,
    /// Time that is left for all handlers of the request together, over all passes.
    left: Duration,
    /// Positions of the events whose handlers ran in this pass.
    ran: Vec<usize>,
    /// Positions of the events whose handlers had run when one of them left a transaction that was not the one it was
    /// given: what it did with that one is not known.
    ended: Option<Vec<usize>>,
    /// Handlers that ran, those that failed in an earlier pass included; empty when tracing is off.
    runs: Vec<HandlerRun>,
    /// Events that were parsed before, by their positions.
    parsed: HashMap<usize, RawEvent>,
}

/// Admits one request, in as many passes as it takes, and answers it.
async fn admit(context: &AdmitContext, mut submission: Submission) {
    let _turn = context.turn().await;
    let drawn = submission.numbers.iter().copied();
    if submission.is_given_up() {
        return delete_unlatched(context, drawn.zip(&submission.events)).await;
    }
    let numbers = if submission.numbers.is_empty() {
        match context.store.event_numbers(submission.events.len()).await {
            Ok(numbers) => numbers,
            Err(failure) => return submission.settle(Err(AdmitError::Unavailable(failure.to_string()))),
        }
    } else {
        submission.numbers.clone()
    };
    let mut request = TransactionalRequest {
        context,
        entry: &submission.entry,
        events: &submission.events,
        numbers,
        failed: HashMap::new(),
        left: context.handler_timeout,
        ran: Vec::new(),
        ended: None,
        runs: Vec::new(),
        parsed: std::mem::take(&mut submission.parsed),
    };
    let mut repeats_n = 0;
    // Each pass adds at least one failed event or is counted, so this ends.
    let result = loop {
        match request.pass().await {
            Ok(admitted) => break Ok(admitted),
            Err(TransactionError::Handlers(more)) => request.failed.extend(more),
            Err(TransactionError::Rejected(why)) => break Err(AdmitError::Rejected(why)),
            Err(TransactionError::Store(StoreError::Conflict { .. })) if repeats_n < REPEATS_N_MAX => {
                repeats_n += 1;
            }
            Err(TransactionError::Store(failure)) => {
                error!(error = %failure, "could not commit; the sender was asked to retry");
                break Err(AdmitError::Unavailable(failure.to_string()));
            }
        }
    };
    delete_unlatched(context, drawn.zip(&submission.events)).await;
    submission.settle(result);
}

impl TransactionalRequest<'_> {
    /// One transaction, from its beginning to its commit or rollback.
    async fn pass(&mut self) -> Result<AdmittedEvents, TransactionError> {
        let began = self.context.traces.now();
        let _gate = queue_gate(self.context, std::iter::once(self.entry)).await;
        let mut tx = self.context.store.admission_begin().await?;
        self.ran.clear();
        self.runs.retain(|run| run.is_failed);
        match self.written(&mut tx).await {
            Ok((mut admitted, committed)) => match tx.commit().await {
                Ok(()) => {
                    hand_over(self.context, committed, |event_seq| {
                        let position = self.numbers.binary_search(&event_seq).ok()?;
                        self.events.get(position).map(Arc::as_ref)
                    });
                    wake_queue(self.context, std::iter::once(self.entry));
                    for (event, (_, outcome)) in self.events.iter().zip(&admitted.events) {
                        self.context.unreadable.note(event, *outcome);
                    }
                    let commit = began.map(|began| CommitSpan::ended(began, self.events.len(), 1));
                    admitted.times = AdmissionTimes { commit, runs: std::mem::take(&mut self.runs) };
                    Ok(admitted)
                }
                Err(failure) => Err(blame_handlers(failure, &self.ran)),
            },
            Err(error) => {
                stop::ignore_result(tx.rollback()).await;
                match error {
                    TransactionError::Store(failure) => Err(blame_handlers(failure, &self.ran)),
                    other => Err(other),
                }
            }
        }
    }

    /// Latches the events, runs the handlers of those that are new, and writes what follows.
    async fn written(
        &mut self,
        tx: &mut store::AdmissionTx,
    ) -> Result<(AdmittedEvents, Committed), TransactionError> {
        let (context, entry) = (self.context, self.entry);
        let numbered = self.events.iter().zip(&self.numbers);
        let candidates: Vec<Candidate> =
            numbered.map(|(event, event_seq)| candidate(entry, event, *event_seq)).collect();
        let latched = tx.events_insert(&candidates).await?;
        let stale = tx.versions_raise(&candidates, &latched).await?;
        let mut admitted = AdmittedEvents::default();
        let mut writes = Writes::default();
        for (n, ((candidate, latched), is_stale)) in candidates.iter().zip(&latched).zip(stale).enumerate() {
            let (event, event_seq) = (&*candidate.event, candidate.event_seq);
            let decision = decide(entry, event, latched, is_stale);
            let outcome = outcome(latched, event, decision == Decision::Superseded);
            admitted.events.push((event.key.event_id.clone(), outcome));
            if let Some((event_seq, error)) = self.committed_by_handler(tx, n, event, latched).await? {
                let dispatched = Dispatched::first(event, event_seq);
                writes.updates.push(context.planner.failed(entry, &dispatched, &error));
                continue;
            }
            if decision != Decision::Dispatch {
                writes.updates.extend(context.planner.undispatched(decision, event, event_seq));
                continue;
            }
            if let Some(error) = self.failed.get(&n) {
                if rejects(entry) {
                    return Err(TransactionError::Rejected(error.to_string()));
                }
                let dispatched = Dispatched::first(event, event_seq);
                writes.updates.push(context.planner.failed(entry, &dispatched, error));
            } else {
                self.follow(tx, n, candidate, is_stale).await?.add_to(&mut writes);
            }
        }
        Ok((admitted, write(tx, writes, Some(&context.slots)).await?))
    }

    /// The failure under which a known event is kept, with the number of its row; `None` as a rule. It is there when an
    /// earlier pass of this request wrote the row and a handler committed it before its messages and state were
    /// written.
    async fn committed_by_handler(
        &self,
        tx: &mut store::AdmissionTx,
        n: usize,
        event: &IncomingEvent,
        latched: &Latched,
    ) -> Result<Option<(i64, HandlerError)>, StoreError> {
        let Some(ran) = &self.ended else { return Ok(None) };
        let is_wanted = self.entry.provider.handlers().wants(&event.event_type);
        if *latched != Latched::Duplicate || event.unreadable.is_some() || !is_wanted {
            return Ok(None);
        }
        // Another node's copy of the event would have arrived at another time.
        let Some(row) = tx.event_get(&event.key).await? else { return Ok(None) };
        if row.received_at_ms != event.received_at_ms || row.state != EventState::Handled {
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

    /// Runs the handlers of the `n`th event, and plans what follows; the error says that they failed.
    async fn follow(
        &mut self,
        tx: &mut store::AdmissionTx,
        n: usize,
        candidate: &Candidate,
        is_stale: bool,
    ) -> Result<Planned, TransactionError> {
        if self.left.is_zero() {
            return Err(self.out_of_time());
        }
        self.ran.push(n);
        // Its transaction is its own.
        let rendering = Rendering::Alone;
        let event = Dispatched { rendering, ..Dispatched::first(&candidate.event, candidate.event_seq) };
        let seen = self.parsed.remove(&n).unwrap_or_else(|| {
            event.seen(&candidate.event.event_type, self.entry.provider.content(&candidate.event))
        });
        let (since, began) = (Instant::now(), self.context.traces.now());
        let handlers = self.entry.provider.handlers();
        let handled = handled_in_tx(handlers, self.left, tx.tx(), &seen, is_stale).await;
        let handled = with_panic_counted(handled);
        self.left = self.left.saturating_sub(since.elapsed());
        let is_failed = matches!(&handled, Err(error) if !matches!(error, HandlerError::Ignore(_)));
        HandlerRun::note(&mut self.runs, n, began, is_failed);
        let failed = |error| TransactionError::Handlers(HashMap::from([(n, error)]));
        match handled {
            // Never a rejection: what the handler wrote may stand, and is looked for in the next pass.
            Err(error) if is_broken(&error) => {
                self.ended = Some(self.ran.clone());
                Err(failed(error))
            }
            handled => {
                self.context.planner.conclude(self.entry, &event, &seen, handled).map_err(|why| match why {
                    NotPlanned::Rejected(why) => TransactionError::Rejected(why),
                    NotPlanned::Failed(error) => failed(error),
                })
            }
        }
    }

    /// Every event that has not failed yet, when the time is up: those that ran would have to run again.
    fn out_of_time(&self) -> TransactionError {
        let limit = self.context.handler_timeout;
        let late =
            || HandlerError::Retry(anyhow::anyhow!("handlers of its request took longer than {limit:?}"));
        let others = (0..self.events.len()).filter(|n| !self.failed.contains_key(n));
        TransactionError::Handlers(others.map(|n| (n, late())).collect())
    }
}

/// A statement refused after handlers ran is theirs: they may have swallowed an error that aborted the
/// transaction, or left a deferred constraint broken.
fn blame_handlers(failure: StoreError, ran: &[usize]) -> TransactionError {
    match failure {
        StoreError::Query { source, .. } if !ran.is_empty() => {
            TransactionError::Handlers(ran.iter().map(|n| (*n, broken(&source))).collect())
        }
        failure => TransactionError::Store(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_take_turns_even_when_one_sends_more() {
        let name = |text: &str| Name::parse(text).expect("a name");
        let mut fair = FairQueue::default();
        for n in 1..=3 {
            fair.push(name("a"), format!("a{n}"));
        }
        fair.push(name("b"), "b1".to_owned());
        let first = fair.pop();
        fair.push(name("c"), "c1".to_owned());
        let rest: Vec<String> = std::iter::from_fn(|| fair.pop()).collect();
        assert_eq!(
            (first.as_deref(), rest),
            (Some("a1"), ["b1", "a2", "c1", "a3"].map(str::to_owned).to_vec())
        );
        assert_eq!(fair.waiting_n(), 0);
    }
}
