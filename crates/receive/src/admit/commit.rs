//! One pass over a batch: which of the waiting requests share a transaction, then latch their events, decide what
//! follows from those that are new, commit, hand over, answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::AdmitContext;
use super::admitter::{AdmitError, AdmittedEvents, Submission};
use super::bodies::{delete_unlatched, store_large};
use super::decision::{Decision, candidate, decide, is_known_beforehand, outcome};
use super::dispatch::{Dispatched, dispatched, is_undone};
use super::entry::ProviderEntry;
use super::handover::{Committed, Reserved, hand_over, queue_gate, wake_queue};
use super::plan::{NotPlanned, Planned};
use super::room::LARGE_BYTES;
use super::templates::Rendering;
use hooklatch_core::types::{IncomingEvent, Outcome};
use hooklatch_outbox::traces::{AdmissionTimes, CommitSpan, HandlerRun};
use hooklatch_store::{Candidate, Decide, Latched, NewMessage, Plan, StoreError, Writes};

/// Most requests in one transaction; nothing is gained above (`docs/benchmarks.md`).
pub(super) const REQUESTS_N_MAX: usize = 256;
/// Most events in one transaction, unless one request alone has more.
const EVENTS_N_MAX: usize = 1_024;
/// Most bytes of events in one transaction, unless one request alone has more: a statement takes up several times
/// as much memory, and the database refuses one of a gigabyte.
const BYTES_MAX: usize = 8 << 20;
/// Cuts what waits into batches, in its order.
pub(crate) fn bounded(taken: Vec<Submission>) -> Vec<Vec<Submission>> {
    let sizes: Vec<(usize, usize)> = taken.iter().map(|one| (one.events.len(), one.bytes_n())).collect();
    let mut batches = Vec::new();
    let mut taken = taken.into_iter();
    for requests_n in cuts(&sizes) {
        batches.push(taken.by_ref().take(requests_n).collect());
    }
    batches
}

/// The number of requests that go into each batch; `sizes` are the events and bytes of each request.
fn cuts(sizes: &[(usize, usize)]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let (mut requests_n, mut events_n, mut bytes_n) = (0, 0_usize, 0_usize);
    for (events, bytes) in sizes {
        let is_full =
            events_n.saturating_add(*events) > EVENTS_N_MAX || bytes_n.saturating_add(*bytes) > BYTES_MAX;
        if is_full && requests_n > 0 {
            cuts.push(requests_n);
            (requests_n, events_n, bytes_n) = (0, 0, 0);
        }
        requests_n += 1;
        events_n = events_n.saturating_add(*events);
        bytes_n = bytes_n.saturating_add(*bytes);
    }
    if requests_n > 0 {
        cuts.push(requests_n);
    }
    cuts
}

/// Longest time that an event of a suspect batch may wait for another node's transaction. Milliseconds.
const SUSPECT_WAIT_MS: i64 = 50;
/// Longest wait of a large one, which has its transaction for itself. Milliseconds.
const LARGE_WAIT_MS: i64 = 2_000;
/// Longest time that plain handlers may hold up one transaction: it has locks, on SQLite that of the only writer. The
/// events that are left then go into another one.
const DECIDING_MAX: Duration = Duration::from_secs(1);

/// End of one pass over a batch.
pub(super) enum BatchEnd {
    /// It is committed: the answer to each request.
    Committed(Vec<Result<AdmittedEvents, AdmitError>>),
    /// These positions asked for a rejection; nothing was written.
    Rejected(HashMap<usize, String>),
    /// Handlers took too long: from this position on it is to be another transaction; nothing was written.
    Cut(usize),
}

/// One event of a batch.
struct BatchRow {
    /// Position of its request in the batch.
    request_n: usize,
    entry: Arc<ProviderEntry>,
    event: Arc<IncomingEvent>,
    event_seq: i64,
}

impl BatchRow {
    /// True when what follows from it is planned before its transaction, where that can be: then no other request waits
    /// while megabytes are parsed.
    fn is_planned_ahead(&self) -> bool {
        self.event.body.len() > LARGE_BYTES
            && decide(&self.entry, &self.event, &Latched::New, false) == Decision::Dispatch
    }

    /// Dispatches it as a new event, and plans what follows.
    fn follow(
        &self,
        context: &AdmitContext,
        is_stale: bool,
        rendering: Rendering,
    ) -> Result<Planned, NotPlanned> {
        let event = Dispatched { rendering, ..Dispatched::first(&self.event, self.event_seq) };
        let seen = event.seen(&self.event.event_type, self.entry.provider.content(&self.event));
        let handled = dispatched(self.entry.provider.handlers(), &seen, is_stale);
        context.planner.conclude(&self.entry, &event, &seen, handled)
    }
}

/// What follows from the large events of a batch, by their positions, on a thread of its own. Handlers that run here
/// write nothing, so it does no harm where an event turns out to be known already. Templates are not filled in: a
/// duplicate costs none, and so large an event is dispatched alone for them.
async fn planned_ahead(
    context: &Arc<AdmitContext>,
    rows: &Arc<[BatchRow]>,
) -> HashMap<usize, Result<Planned, NotPlanned>> {
    if !rows.iter().any(BatchRow::is_planned_ahead) {
        return HashMap::new();
    }
    let (context, rows) = (Arc::clone(context), Arc::clone(rows));
    let planning = tokio::task::spawn_blocking(move || {
        let large = rows.iter().enumerate().filter(|(_, row)| row.is_planned_ahead());
        large.map(|(n, row)| (n, row.follow(&context, false, Rendering::Later))).collect()
    });
    // What broke off is planned inside of the transaction.
    planning.await.unwrap_or_default()
}

/// Decides about one batch, on whatever thread writes it.
struct DecideBatch {
    context: Arc<AdmitContext>,
    /// Events of the batch, in the order of their numbers.
    rows: Arc<[BatchRow]>,
    /// For each event, true when a newer version of its object was seen; empty when that was not requested.
    superseded: Vec<bool>,
    /// Positions of the requests that are to be answered with an error, and why.
    rejected: HashMap<usize, String>,
    /// Position of the first request that is to go into another transaction, as handlers took too long before it.
    cut: Option<usize>,
    reserved: Reserved,
    /// What follows from large events, by their positions.
    ahead: HashMap<usize, Result<Planned, NotPlanned>>,
    /// True when one of them is to be dispatched again at once, alone.
    is_put_off: bool,
    /// Handlers that ran, by the positions of their events here; empty when tracing is off.
    runs: Vec<HandlerRun>,
}

impl Decide for DecideBatch {
    /// The messages of events that no handler takes; nothing when anything but messages may follow from one of them.
    fn unconditional(&mut self) -> Option<Writes> {
        let mut writes = Writes::default();
        // The second of two copies of one event is a duplicate, whatever the database says of the first.
        let mut seen = HashSet::with_capacity(self.rows.len());
        for (n, row) in self.rows.iter().enumerate() {
            if !is_known_beforehand(&row.entry, &row.event) {
                return None;
            }
            let handlers = row.entry.provider.handlers();
            if seen.insert(&row.event.key) && handlers.wants(&row.event.event_type) {
                match self.ahead.get(&n) {
                    Some(planned) => planned.as_ref().ok()?.clone().add_to(&mut writes),
                    None => row.follow(&self.context, false, Rendering::Later).ok()?.add_to(&mut writes),
                }
            }
        }
        Some(writes)
    }

    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan {
        let (mut writes, since) = (Writes::default(), Instant::now());
        for (n, (row, (latched, is_stale))) in self.rows.iter().zip(found).enumerate() {
            if row.request_n > 0 && since.elapsed() > DECIDING_MAX {
                self.cut = Some(row.request_n);
                return Plan::RollBack;
            }
            let (entry, event) = (&row.entry, &row.event);
            let decision = decide(entry, event, latched, *is_stale);
            self.superseded.push(decision == Decision::Superseded);
            if decision == Decision::Dispatch {
                // Planned as the newest version of its object.
                let ahead = self.ahead.remove(&n).filter(|_| !is_stale);
                let is_run = ahead.is_none() && !is_known_beforehand(entry, event);
                let began = self.context.traces.now().filter(|_| is_run);
                let followed =
                    ahead.unwrap_or_else(|| row.follow(&self.context, *is_stale, Rendering::Shared));
                HandlerRun::note(&mut self.runs, n, began, followed.is_err());
                match followed {
                    Ok(planned) => {
                        self.is_put_off |= planned.is_put_off();
                        planned.add_to(&mut writes);
                    }
                    Err(NotPlanned::Rejected(why)) => drop(self.rejected.insert(row.request_n, why)),
                    Err(NotPlanned::Failed(error)) => {
                        let dispatched = Dispatched::first(event, row.event_seq);
                        writes.updates.push(self.context.planner.failed(entry, &dispatched, &error));
                    }
                }
            } else {
                writes.updates.extend(self.context.planner.undispatched(decision, event, row.event_seq));
            }
        }
        if self.rejected.is_empty() { Plan::Write(writes) } else { Plan::RollBack }
    }

    fn lease(&mut self, messages: &mut [NewMessage]) {
        self.reserved = Reserved::take(&self.context.slots, messages);
    }
}

/// One transaction: which events are new, what their handlers want, commit. In a suspect batch each statement waits for
/// other nodes only a short time, so that the one event that does is found before the others' senders time out.
pub(crate) async fn commit(
    context: &Arc<AdmitContext>,
    batch: &[Submission],
    is_suspect: bool,
) -> Result<BatchEnd, StoreError> {
    let began = context.traces.now();
    let events_n = batch.iter().map(|one| one.events.len()).sum();
    let mut numbers = context.store.event_numbers(events_n).await?.into_iter();
    let mut rows = Vec::with_capacity(events_n);
    for (request_n, submission) in batch.iter().enumerate() {
        for (event, event_seq) in submission.events.iter().zip(&mut numbers) {
            let (entry, event) = (Arc::clone(&submission.entry), Arc::clone(event));
            rows.push(BatchRow { request_n, entry, event, event_seq });
        }
    }
    let rows: Arc<[BatchRow]> = rows.into();
    let mut candidates =
        rows.iter().map(|row| candidate(&row.entry, &row.event, row.event_seq)).collect::<Vec<Candidate>>();
    let ahead = planned_ahead(context, &rows).await;
    let is_large = candidates.iter().any(|one| one.event.body.len() > LARGE_BYTES);
    let in_parts = if is_large { store_large(context, &mut candidates).await? } else { Vec::new() };
    let lock_wait_ms = if is_suspect { Some(SUSPECT_WAIT_MS) } else { is_large.then_some(LARGE_WAIT_MS) };
    let decide = DecideBatch {
        context: Arc::clone(context),
        rows: Arc::clone(&rows),
        superseded: Vec::new(),
        rejected: HashMap::new(),
        cut: None,
        reserved: Reserved::default(),
        ahead,
        is_put_off: false,
        runs: Vec::new(),
    };
    let gate = queue_gate(context, rows.iter().map(|row| &*row.entry)).await;
    let admitted = context.store.admit(candidates, decide, lock_wait_ms).await;
    drop(gate);
    delete_unlatched(context, in_parts.iter().map(|(event_seq, event)| (*event_seq, event))).await;
    let admitted = admitted?;
    let DecideBatch { rejected, cut, reserved, superseded, is_put_off, runs, .. } = admitted.decide;
    if let Some(request_n) = cut {
        return Ok(BatchEnd::Cut(request_n));
    }
    if !rejected.is_empty() {
        return Ok(BatchEnd::Rejected(rejected));
    }
    let undone = admitted.writes.updates.into_iter().filter(is_undone).collect();
    let committed =
        Committed { messages: admitted.writes.messages, reserved, queued: admitted.queued, undone };
    hand_over(context, committed, |event_seq| {
        let found = rows.binary_search_by_key(&event_seq, |row| row.event_seq).ok()?;
        rows.get(found).map(|row| row.event.as_ref())
    });
    wake_queue(context, rows.iter().map(|row| &*row.entry));
    if is_put_off {
        context.wake_retries.notify_one();
    }
    let unknown = admitted.failure.map_or_else(String::new, |failure| failure.to_string());
    let outcomes = rows.iter().zip(admitted.latched).enumerate().map(|(position, (row, latched))| {
        let latched = latched.ok_or_else(|| AdmitError::Unavailable(unknown.clone()))?;
        let is_superseded = superseded.get(position).copied().unwrap_or_default();
        Ok(outcome(&latched, &row.event, is_superseded))
    });
    let commit = began.map(|began| CommitSpan::ended(began, rows.len(), batch.len()));
    let empty =
        AdmittedEvents { times: AdmissionTimes { commit, runs: Vec::new() }, ..AdmittedEvents::default() };
    let mut answers = vec![Ok(empty); batch.len()];
    answer_each(context, &rows, outcomes, &mut answers);
    place_runs(&rows, runs, &mut answers);
    Ok(BatchEnd::Committed(answers))
}

/// The answer to each request after the commit: the outcomes of its events, unless one of them could not be found out.
fn answer_each(
    context: &AdmitContext,
    rows: &[BatchRow],
    outcomes: impl Iterator<Item = Result<Outcome, AdmitError>>,
    answers: &mut [Result<AdmittedEvents, AdmitError>],
) {
    context.batch_events.record(f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX)));
    for (row, outcome) in rows.iter().zip(outcomes) {
        let Some(answer) = answers.get_mut(row.request_n) else { continue };
        match (outcome, answer) {
            (Ok(outcome), Ok(admitted)) => {
                context.unreadable.note(&row.event, outcome);
                admitted.events.push((row.event.key.event_id.clone(), outcome));
            }
            (Err(why), answer) => *answer = Err(why),
            (Ok(_), Err(_)) => {}
        }
    }
}

/// Gives each request the handlers that ran for its events.
fn place_runs(rows: &[BatchRow], runs: Vec<HandlerRun>, answers: &mut [Result<AdmittedEvents, AdmitError>]) {
    for run in runs {
        let Some(row) = rows.get(run.event_n) else { continue };
        let first = rows.partition_point(|one| one.request_n < row.request_n);
        if let Some(Ok(admitted)) = answers.get_mut(row.request_n) {
            admitted.times.runs.push(HandlerRun { event_n: run.event_n - first, ..run });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_by_events_and_by_bytes_unless_one_alone_is_larger() {
        const MIB: usize = 1 << 20;
        assert_eq!(cuts(&[]), Vec::<usize>::new());
        assert_eq!(cuts(&[(1, 10); 200]), [200]);
        assert_eq!(cuts(&[(1, MIB); 20]), [8, 8, 4]);
        assert_eq!(cuts(&[(1, 1), (1, 64 * MIB), (1, 1), (1, 1)]), [1, 1, 2]);
        assert_eq!(cuts(&[(600, 1), (600, 1), (400, 1), (5_000, 1)]), [1, 2, 1]);
    }
}
