//! The committer: one task, one transaction at a time, shared by everything that waits.
//!
//! It never waits for company: when a commit ends, what queued meanwhile is the next batch. What cannot be
//! committed is `batch.rs`'s matter. This task is never cancelled; it ends when the last [`super::Admitter`]
//! is gone and the queue is empty.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::batch::{Pass, REQUESTS_N_MAX, bounded};
use super::failures::is_failure;
use super::handover::{Reserved, Written};
use super::plan::{self, Dispatched, Fate};
use super::{AdmitContext, AdmitError, Admitted, ProviderEntry, Submission};
use crate::store::{Candidate, Decide, Latched, NewMessage, Plan, StoreError, Writes};
use crate::types::{IncomingEvent, Outcome};

/// How long an event of a suspect batch may wait for another node's transaction. Milliseconds.
const SUSPECT_WAIT_MS: i64 = 50;
/// After how long a batch is one that does not end: every sender in it, and behind it, has long been told to come again.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// How long plain handlers may hold up one transaction: it has locks, on SQLite that of the only writer. Those that are left
/// then go into one of their own.
const DECIDING_MAX: Duration = Duration::from_secs(1);

/// Since when the shared batch is under way. A plain handler that does not come back keeps everybody behind it out, and
/// nobody can end it: it can only be told.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<Option<Instant>>);

impl UnderWay {
    /// Whether a batch is under way that should have ended long ago.
    pub(crate) fn is_stuck(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|since| since.elapsed() > STUCK_AFTER)
    }

    pub(super) fn note(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// Commits what waits, together.
pub(crate) struct Committer {
    admission: Arc<AdmitContext>,
    waiting: mpsc::Receiver<Submission>,
}

impl Committer {
    pub(super) fn new(admission: Arc<AdmitContext>, waiting: mpsc::Receiver<Submission>) -> Self {
        Self { admission, waiting }
    }

    /// Runs until the entrance is closed and the queue is empty.
    pub(crate) async fn run(&mut self) {
        let mut taken = Vec::with_capacity(REQUESTS_N_MAX);
        while self.waiting.recv_many(&mut taken, REQUESTS_N_MAX).await > 0 {
            for batch in bounded(std::mem::take(&mut taken)) {
                self.admission.commit_batch(batch).await;
            }
        }
    }
}

/// One event of a batch.
struct Row {
    /// The position of its request in the batch.
    request_n: usize,
    entry: Arc<ProviderEntry>,
    event: Arc<IncomingEvent>,
    event_seq: i64,
}

/// Decides about one batch, on whatever thread writes it.
struct Deciding {
    admission: Arc<AdmitContext>,
    /// In the order of their numbers.
    rows: Arc<[Row]>,
    /// Of each event whether its object has moved on; empty where nobody asked.
    superseded: Vec<bool>,
    /// Requests that are to be answered with an error, and why.
    rejected: HashMap<usize, String>,
    /// The first request that is to go into another transaction, as handlers took too long before it.
    cut: Option<usize>,
    reserved: Reserved,
}

impl Decide for Deciding {
    /// The messages of events that no handler takes; nothing when anything but messages may follow from one of them.
    fn known(&mut self) -> Option<Writes> {
        let mut writes = Writes::default();
        // Of two copies of one event the second is a duplicate, whatever the database says of the first.
        let mut seen = HashSet::with_capacity(self.rows.len());
        for row in self.rows.iter() {
            if !plan::is_known_beforehand(&row.entry, &row.event) {
                return None;
            }
            let handlers = row.entry.provider.handlers();
            if seen.insert(&row.event.key) && handlers.wants(&row.event.event_type) {
                let routed = self.admission.dispatched(&row.entry, &plan::raw_event(&row.event, 1), false);
                let dispatched = Dispatched::first(&row.event, row.event_seq);
                self.admission.plan(&row.entry, &dispatched, routed, &mut writes);
            }
        }
        Some(writes)
    }

    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan {
        let (mut writes, since) = (Writes::default(), Instant::now());
        for (row, (latched, is_stale)) in self.rows.iter().zip(found) {
            if row.request_n > 0 && since.elapsed() > DECIDING_MAX {
                self.cut = Some(row.request_n);
                return Plan::RollBack;
            }
            let (entry, event) = (&row.entry, &row.event);
            let fate = plan::fate(entry, event, latched, *is_stale);
            self.superseded.push(fate == Fate::Superseded);
            if fate == Fate::Dispatch {
                let handled = self.admission.dispatched(entry, &plan::raw_event(event, 1), *is_stale);
                if let Some(why) = plan::rejection(entry, &handled) {
                    self.rejected.insert(row.request_n, why);
                }
                let dispatched = Dispatched::first(event, row.event_seq);
                self.admission.plan(entry, &dispatched, handled, &mut writes);
            } else {
                writes.updates.extend(self.admission.undispatched(fate, event, row.event_seq));
            }
        }
        if self.rejected.is_empty() { Plan::Write(writes) } else { Plan::RollBack }
    }

    fn lease(&mut self, messages: &mut [NewMessage]) {
        self.reserved = self.admission.take_slots(messages);
    }
}

impl AdmitContext {
    /// One transaction: who is new, what their handlers want, commit.
    /// In a suspect batch each statement waits for other nodes but shortly, so that the one event that does is
    /// found before the others' senders have lost patience.
    pub(super) async fn commit_once(
        self: &Arc<Self>,
        batch: &[Submission],
        is_suspect: bool,
    ) -> Result<Pass, StoreError> {
        let events_n = batch.iter().map(|one| one.events.len()).sum();
        let mut numbers = self.store.event_numbers(events_n).await?.into_iter();
        let mut rows = Vec::with_capacity(events_n);
        for (request_n, submission) in batch.iter().enumerate() {
            for (event, event_seq) in submission.events.iter().zip(&mut numbers) {
                let (entry, event) = (Arc::clone(&submission.entry), Arc::clone(event));
                rows.push(Row { request_n, entry, event, event_seq });
            }
        }
        let rows: Arc<[Row]> = rows.into();
        let candidates = rows
            .iter()
            .map(|row| plan::candidate(&row.entry, &row.event, row.event_seq))
            .collect::<Vec<Candidate>>();
        let decide = Deciding {
            admission: Arc::clone(self),
            rows: Arc::clone(&rows),
            superseded: Vec::new(),
            rejected: HashMap::new(),
            cut: None,
            reserved: Reserved::default(),
        };
        let admitted = self.store.admit(candidates, decide, is_suspect.then_some(SUSPECT_WAIT_MS)).await?;
        let Deciding { rejected, cut, reserved, superseded, .. } = admitted.decide;
        if let Some(request_n) = cut {
            return Ok(Pass::Cut(request_n));
        }
        if !rejected.is_empty() {
            return Ok(Pass::Rejected(rejected));
        }
        let failed = admitted.writes.updates.into_iter().filter(is_failure).collect();
        let written =
            Written { messages: admitted.writes.messages, reserved, paused: admitted.paused, failed };
        self.hand_over(written, |event_seq| {
            let found = rows.binary_search_by_key(&event_seq, |row| row.event_seq).ok()?;
            rows.get(found).map(|row| row.event.as_ref())
        });
        let unknown = admitted.failure.map_or_else(String::new, |failure| failure.to_string());
        let outcomes = rows.iter().zip(admitted.latched).enumerate().map(|(position, (row, latched))| {
            let latched = latched.ok_or_else(|| AdmitError::Unavailable(unknown.clone()))?;
            let is_superseded = superseded.get(position).copied().unwrap_or_default();
            Ok(plan::outcome(&latched, &row.event, is_superseded))
        });
        Ok(Pass::Committed(self.answers(batch.len(), &rows, outcomes)))
    }

    /// What each request hears after the commit: what was found, unless that could not be found out for one of its
    /// events.
    fn answers(
        &self,
        requests_n: usize,
        rows: &[Row],
        outcomes: impl Iterator<Item = Result<Outcome, AdmitError>>,
    ) -> Vec<Result<Admitted, AdmitError>> {
        self.batch_events.record(f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX)));
        let mut answers = vec![Ok(Admitted { events: Vec::new() }); requests_n];
        for (row, outcome) in rows.iter().zip(outcomes) {
            let Some(answer) = answers.get_mut(row.request_n) else { continue };
            match (outcome, answer) {
                (Ok(outcome), Ok(admitted)) => {
                    self.note_kept(&row.event, outcome);
                    admitted.events.push((row.event.key.event_id.clone(), outcome));
                }
                (Err(why), answer) => *answer = Err(why),
                (Ok(_), Err(_)) => {}
            }
        }
        answers
    }

    /// Counts what is kept of unreadable events, once that is committed.
    pub(super) fn note_kept(&self, event: &IncomingEvent, outcome: Outcome) {
        if outcome == Outcome::Unreadable {
            self.unreadable.add(event);
        }
    }
}
