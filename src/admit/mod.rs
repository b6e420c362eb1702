//! Admission: from read events to one commit, and the answer that it allows.
//!
//! A request hands its events to a queue and awaits a one-shot answer; it never touches the database
//! itself, because a client that hangs up cancels it. `committer.rs` takes what waits and commits it
//! together; events with a transactional handler go through `transactional.rs`, each request in a transaction of its
//! own; `retry.rs` dispatches again what failed for now. `plan.rs` decides, without I/O, what is written.

mod batch;
mod committer;
mod failures;
mod fair;
mod handover;
mod plan;
mod retry;
mod room;
mod templates;
mod transactional;
mod unreadable;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::config::{OnHandlerError, RetryConfig};
use crate::fetch::Fetcher;
use crate::logging::Lines;
use crate::provider::ActiveProvider;
use crate::store::Store;
use crate::types::{Clock, IncomingEvent, Name, Outcome};
pub(crate) use committer::UnderWay;
pub(crate) use failures::Destinations;
pub(crate) use handover::{Start, TakeSlot};
pub(crate) use room::{Held, Room};
pub(crate) use templates::Templates;
pub(crate) use unreadable::Unreadable;

/// One `[providers.NAME]`, ready: how it is believed and what a failing handler means.
pub(crate) struct ProviderEntry {
    /// Verifies, reads and dispatches.
    pub provider: ActiveProvider,
    /// What a failing handler means for its event.
    pub on_handler_error: OnHandlerError,
    /// Whether the sender can act on 409.
    pub is_first_party: bool,
    /// How failing handlers are tried again.
    pub retry: RetryConfig,
    /// Fetches keys that are not in the settings, where the kind says from where.
    pub fetcher: Option<Arc<Fetcher>>,
    /// From the last byte read to the commit.
    pub admit_seconds: metrics::Histogram,
    /// How many of its requests wait for a commit.
    pub waiting_n: AtomicUsize,
}

/// The place of one request among those of its provider that wait; dropping it gives it back.
struct Place(Arc<ProviderEntry>);

impl Place {
    /// `None` when the provider has taken up its share of the queue.
    fn take(entry: &Arc<ProviderEntry>, share_n: usize) -> Option<Self> {
        let place = Self(Arc::clone(entry));
        // Counted first, so that the drop below and this are one.
        (entry.waiting_n.fetch_add(1, Ordering::Relaxed) < share_n).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting_n.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What admission found, event by event, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The provider's id and what was found.
    pub events: Vec<(String, Outcome)>,
}

/// Why nothing was admitted. The sender may send all of it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdmitError {
    /// The queue is full.
    #[error("queue of requests waiting for a commit is full")]
    Saturated,
    /// The database did not confirm in time.
    #[error("database did not confirm: {0}")]
    Unavailable(String),
    /// A handler failed and its provider asks for a rejection then.
    #[error("handler failed and the provider is set to reject: {0}")]
    Rejected(String),
}

/// One request's events on their way to a commit.
struct Submission {
    entry: Arc<ProviderEntry>,
    events: Vec<Arc<IncomingEvent>>,
    answer: oneshot::Sender<Result<Admitted, AdmitError>>,
    since: Instant,
    /// The memory it takes up, whoever still waits for it.
    _held: Held,
    _place: Place,
}

/// What every part of admission shares.
pub(crate) struct AdmitContext {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Part of every idempotency key.
    pub(crate) installation_id: Uuid,
    /// What messages are made of, where a destination has templates.
    pub(crate) templates: Templates,
    /// Where messages may go.
    pub(crate) destinations: Destinations,
    /// How much is kept of what could not be read.
    pub(crate) unreadable: Unreadable,
    /// Which lines about failed dispatches are written.
    pub(crate) lines: Arc<Lines>,
    /// Longest that the transactional handlers of one request may take together.
    pub(crate) handler_timeout: Duration,
    /// Whose turn it is among those that run handlers in a transaction, at admission or again: there are fewer turns than
    /// connections, so that nobody else waits for handlers; on SQLite, whose only writer they hold, for one at most.
    pub(crate) turns: Arc<Semaphore>,
    /// Asked for slots before messages are committed.
    pub(crate) take_slot: TakeSlot,
    /// Called after a commit that wrote messages which no slot was taken for.
    pub(crate) wake_outbox: Box<dyn Fn() + Send + Sync>,
    /// How long the shared batch takes.
    pub(crate) under_way: UnderWay,
    /// How many events are in a batch.
    pub(crate) batch_events: metrics::Histogram,
    /// Told when an event may be due that was not before.
    pub(crate) wake_retries: Notify,
}

/// The entrance to admission. Cloning is cheap; when the last clone is dropped, the tasks finish what
/// waits and end.
#[derive(Clone)]
pub(crate) struct Admitter {
    admission: Arc<AdmitContext>,
    shared_queue: mpsc::Sender<Submission>,
    own_queue: mpsc::Sender<Submission>,
    answer_timeout: Duration,
    /// Most requests of one provider that may wait.
    share_n: usize,
}

/// The tasks behind an [`Admitter`]; the app spawns and awaits them.
pub(crate) struct AdmitTasks {
    pub(crate) committer: committer::Committer,
    pub(crate) own: transactional::TransactionalAdmission,
}

/// Makes the entrance and its tasks. `queue_n` requests may wait in each queue; of several providers each leaves a
/// quarter of that to the others.
pub(crate) fn admitter(
    admission: Arc<AdmitContext>,
    queue_n: usize,
    answer_timeout: Duration,
    has_several_providers: bool,
) -> (Admitter, AdmitTasks) {
    let queue_n = queue_n.max(1);
    let share_n = if has_several_providers { queue_n - queue_n / 4 } else { queue_n };
    let (shared_queue, shared_waiting) = mpsc::channel(queue_n);
    // The other half waits in the providers' lines.
    let (own_queue, own_waiting) = mpsc::channel(queue_n.div_ceil(2));
    let tasks = AdmitTasks {
        committer: committer::Committer::new(Arc::clone(&admission), shared_waiting),
        own: transactional::TransactionalAdmission::new(Arc::clone(&admission), own_waiting, queue_n / 2),
    };
    (Admitter { admission, shared_queue, own_queue, answer_timeout, share_n }, tasks)
}

impl Admitter {
    /// Admits the events of one request atomically. Cancelling this future cancels only the waiting: what
    /// was submitted is committed or not, and the sender's next copy finds out. `held` goes with the events.
    pub(crate) async fn admit(
        &self,
        entry: &Arc<ProviderEntry>,
        mut events: Vec<IncomingEvent>,
        mut held: Held,
    ) -> Result<Admitted, AdmitError> {
        self.admission.cut_unreadable(&mut events);
        if !held.add(events.len().saturating_mul(room::EVENT_BYTES)) {
            return Err(AdmitError::Saturated);
        }
        let handlers = entry.provider.handlers();
        let is_own =
            events.iter().any(|e| e.unreadable.is_none() && handlers.needs_transaction(&e.event_type));
        let queue = if is_own { &self.own_queue } else { &self.shared_queue };
        let place = Place::take(entry, self.share_n).ok_or(AdmitError::Saturated)?;
        if events.iter().any(|event| event.window_ms.is_some()) {
            let numbered = self.admission.store.signals_number(&mut events);
            let numbered = tokio::time::timeout(self.answer_timeout, numbered).await;
            numbered
                .map_err(|_| AdmitError::Unavailable("no answer about a signal in time".to_owned()))?
                .map_err(|why| AdmitError::Unavailable(why.to_string()))?;
        }
        let (answer, answered) = oneshot::channel();
        let submission = Submission {
            entry: Arc::clone(entry),
            events: events.into_iter().map(Arc::new).collect(),
            answer,
            since: Instant::now(),
            _held: held,
            _place: place,
        };
        queue.try_send(submission).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => AdmitError::Saturated,
            mpsc::error::TrySendError::Closed(_) => AdmitError::Unavailable("stopping".to_owned()),
        })?;
        match tokio::time::timeout(self.answer_timeout, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(AdmitError::Unavailable("admission ended without an answer".to_owned())),
            Err(_) => Err(AdmitError::Unavailable("no commit within the answer timeout".to_owned())),
        }
    }
}

/// Dispatches events in `retry` again when they are due, until the returned future is dropped by `stop`.
pub(crate) async fn run_retries(
    admission: Arc<AdmitContext>,
    entries: Arc<std::collections::BTreeMap<Name, Arc<ProviderEntry>>>,
    poll: Duration,
    stop: crate::stop::Stop,
) {
    retry::Retries { admission, entries }.run(poll, stop).await;
}

impl AdmitContext {
    /// Waits for the turn to run handlers in a transaction.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}

impl Submission {
    /// Whether nobody waits for the answer any more: the sender hung up or was told to come again, so what is not
    /// written yet need not be.
    fn is_given_up(&self) -> bool {
        let is_given_up = self.answer.is_closed();
        if is_given_up {
            let provider = self.entry.provider.name().to_string();
            metrics::counter!("hooklatch_requests_given_up_total", "provider" => provider).increment(1);
        }
        is_given_up
    }

    /// What its events take up in a statement. Bytes.
    fn bytes_n(&self) -> usize {
        self.events.iter().map(|event| event.body.len() + event.headers.len()).sum()
    }

    fn settle(self, result: Result<Admitted, AdmitError>) {
        self.entry.admit_seconds.record(self.since.elapsed().as_secs_f64());
        // The request may have gone; what was committed stands, and its next copy is a duplicate.
        drop(self.answer.send(result));
    }
}
