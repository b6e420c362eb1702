//! The entrance: a request hands its events to a queue and awaits a one-shot answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::admitted::{AdmitError, AdmittedEvents};
use super::committer::Committer;
use super::context::AdmitContext;
use super::entry::{ProviderEntry, WaitingPlace};
use super::room::{EVENT_BYTES, HeldMemory, LARGE_BYTES};
use super::submission::Submission;
use super::transactional::TransactionalAdmission;
use hooklatch_core::types::IncomingEvent;
use hooklatch_outbox::traces::RequestTrace;

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
            let numbered = self.context.store.signals_number(&mut events);
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
