//! The entrance: a request hands its events to a queue as a [`Submission`] and awaits a one-shot answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::AdmitContext;
use super::committer::Committer;
use super::entry::{ProviderEntry, WaitingPlace};
use super::room::{EVENT_BYTES, HeldMemory, LARGE_BYTES};
use super::transactional::TransactionalAdmission;
use crate::handler::RawEvent;
use hooklatch_core::types::{IncomingEvent, Outcome};
use hooklatch_outbox::traces::{AdmissionTimes, AdmittedRequest, RequestTrace};

/// The outcome of a request that was admitted, event by event, in the order of the request.
#[derive(Debug, Clone, Default)]
pub struct AdmittedEvents {
    /// Id of the event, as the sender or we gave it, and what was found.
    pub events: Vec<(String, Outcome)>,
    /// How they were admitted; empty when tracing is off.
    pub times: AdmissionTimes,
}

impl AdmittedEvents {
    /// The strongest outcome of the events; `None` where there are none.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        Outcome::strongest(self.events.iter().map(|(_, outcome)| *outcome))
    }
}

/// The reason why nothing was admitted. The sender may send all of it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// The queue is full, or the provider has taken up its share of it.
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
pub struct Submission {
    pub entry: Arc<ProviderEntry>,
    pub events: Vec<Arc<IncomingEvent>>,
    /// Numbers of the events, in their order, once their bodies are stored in parts; else empty.
    pub numbers: Vec<i64>,
    /// Large events with transactional handlers, parsed for those, by their positions.
    pub parsed: HashMap<usize, RawEvent>,
    pub answer: oneshot::Sender<Result<AdmittedEvents, AdmitError>>,
    pub since: Instant,
    /// Its way, where it is traced.
    pub trace: Option<RequestTrace>,
    /// The memory that it takes up, also when no caller waits for it any more.
    pub(super) _held: HeldMemory,
    /// Its place among the requests of its provider that wait.
    pub(super) _place: WaitingPlace,
}

impl Submission {
    /// True when no caller waits for the answer any more: the sender hung up or was asked to send again, so what is not
    /// written yet need not be.
    pub(crate) fn is_given_up(&self) -> bool {
        let is_given_up = self.answer.is_closed();
        if is_given_up {
            let provider = self.entry.provider.name().to_string();
            metrics::counter!("hooklatch_requests_given_up_total", "provider" => provider).increment(1);
        }
        is_given_up
    }

    /// True when it has an event whose body may be stored in parts.
    pub(crate) fn is_large(&self) -> bool {
        self.events.iter().any(|event| event.body.len() > LARGE_BYTES)
    }

    /// Size of its events in a statement. Bytes.
    pub(crate) fn bytes_n(&self) -> usize {
        self.events.iter().map(|event| event.body.len() + event.headers.len()).sum()
    }

    /// Answers the request that waits.
    pub fn settle(self, result: Result<AdmittedEvents, AdmitError>) {
        self.entry.admit_seconds.record(self.since.elapsed().as_secs_f64());
        // The request may have gone; what was committed stands, and its next copy is a duplicate.
        if let (Err(Ok(admitted)), Some(trace)) = (self.answer.send(result), self.trace) {
            let AdmittedEvents { events, times } = admitted;
            let provider = self.entry.provider.name().clone();
            trace.admitted(AdmittedRequest { provider, status: None, event_type: None, events, times });
        }
    }
}

/// The entrance to admission. Cloning is cheap; when the last clone is dropped, the tasks finish what
/// waits and end.
#[derive(Clone)]
pub struct Admitter {
    context: Arc<AdmitContext>,
    shared_queue: mpsc::Sender<Submission>,
    large_queue: mpsc::Sender<Submission>,
    transactional_queue: mpsc::Sender<Submission>,
    answer_timeout: Duration,
    /// Most requests of one provider that may wait at once.
    share_n: Arc<AtomicUsize>,
    queue_n: usize,
}

/// The tasks behind an [`Admitter`]; the app spawns and awaits them.
pub struct AdmitTasks {
    pub committer: Committer,
    /// Commits large requests, one by one.
    pub large: Committer,
    pub transactional: TransactionalAdmission,
}

/// Makes the entrance and its tasks. `queue_n` requests may wait in each queue; of several providers each leaves a
/// quarter of that to the others.
pub fn admitter(
    context: Arc<AdmitContext>,
    queue_n: usize,
    answer_timeout: Duration,
    providers_n: usize,
) -> (Admitter, AdmitTasks) {
    let queue_n = queue_n.max(1);
    let (shared_queue, shared_waiting) = mpsc::channel(queue_n);
    let (large_queue, large_waiting) = mpsc::channel(queue_n);
    // The other half waits in the providers' lines.
    let (transactional_queue, transactional_waiting) = mpsc::channel(queue_n.div_ceil(2));
    let tasks = AdmitTasks {
        committer: Committer::new(Arc::clone(&context), shared_waiting, false),
        large: Committer::new(Arc::clone(&context), large_waiting, true),
        transactional: TransactionalAdmission::new(Arc::clone(&context), transactional_waiting, queue_n / 2),
    };
    let share_n = Arc::new(AtomicUsize::new(queue_n));
    let admitter = Admitter {
        context,
        shared_queue,
        large_queue,
        transactional_queue,
        answer_timeout,
        share_n,
        queue_n,
    };
    admitter.share_by(providers_n);
    (admitter, tasks)
}

impl Admitter {
    /// Shares the queue among so many providers.
    pub(crate) fn share_by(&self, providers_n: usize) {
        let others_n = if providers_n > 1 { self.queue_n / 4 } else { 0 };
        self.share_n.store(self.queue_n - others_n, Ordering::Relaxed);
    }

    /// Admits the events of one request atomically. Cancelling this future cancels only the waiting: what was submitted
    /// is committed or not, and the sender's next copy finds out. `held` goes with the events, and this side records
    /// `trace` only when no caller awaits the answer any more.
    pub async fn admit(
        &self,
        entry: &Arc<ProviderEntry>,
        mut events: Vec<IncomingEvent>,
        mut held: HeldMemory,
        trace: Option<RequestTrace>,
    ) -> Result<AdmittedEvents, AdmitError> {
        self.context.store.node().wake().await;
        self.context.unreadable.cut(&self.context.lines, &mut events);
        if !held.add(events.len().saturating_mul(EVENT_BYTES)) {
            return Err(AdmitError::Saturated);
        }
        let handlers = entry.provider.handlers();
        let is_transactional =
            events.iter().any(|e| e.unreadable.is_none() && handlers.needs_transaction(&e.event_type));
        let bytes_n: usize = events.iter().map(|event| event.body.len()).sum();
        let queue = match (is_transactional, bytes_n > LARGE_BYTES) {
            (true, _) => &self.transactional_queue,
            (false, true) => &self.large_queue,
            (false, false) => &self.shared_queue,
        };
        let patience = self.answer_timeout.min(entry.patience());
        let place =
            WaitingPlace::take(entry, self.share_n.load(Ordering::Relaxed)).ok_or(AdmitError::Saturated)?;
        if events.iter().any(|event| event.window_ms.is_some()) {
            let numbered = Box::pin(self.context.store.signals_number(&mut events));
            let numbered = tokio::time::timeout(patience, numbered).await;
            numbered
                .map_err(|_| AdmitError::Unavailable("no answer about a signal in time".to_owned()))?
                .map_err(|why| AdmitError::Unavailable(why.to_string()))?;
        }
        let (answer, answered) = oneshot::channel();
        let submission = Submission {
            entry: Arc::clone(entry),
            events: events.into_iter().map(Arc::new).collect(),
            numbers: Vec::new(),
            parsed: HashMap::new(),
            answer,
            since: Instant::now(),
            trace,
            _held: held,
            _place: place,
        };
        queue.try_send(submission).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => AdmitError::Saturated,
            mpsc::error::TrySendError::Closed(_) => AdmitError::Unavailable("stopping".to_owned()),
        })?;
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(AdmitError::Unavailable("admission ended without an answer".to_owned())),
            Err(_) => Err(AdmitError::Unavailable("no commit within the answer timeout".to_owned())),
        }
    }
}
