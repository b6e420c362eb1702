//! The committer: one task, one transaction at a time, shared by everything that waits.
//!
//! It never waits for company: when a commit ends, what queued meanwhile is the next batch. What cannot be
//! committed is `batch.rs`'s matter. This task is never cancelled; it ends when the last [`super::Admitter`]
//! is gone and the queue is empty.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::batch::{Pass, REQUESTS_N_MAX, bounded};
use super::failures::is_failure;
use super::in_hand::InHand;
use super::plan::{self, Dispatched, Writes};
use super::{Admission, AdmitError, Admitted, Entry, Submission};
use crate::store::{self, EventUpdate, Latched, NewMessage, StoreError};
use crate::types::{IncomingEvent, Outcome};

/// How long an event of a suspect batch may wait for another node's transaction. Milliseconds.
const SUSPECT_WAIT_MS: i64 = 50;

/// One event: its request's position in the batch, its provider, itself.
type Row<'a> = (usize, &'a Entry, &'a IncomingEvent);

/// Commits what waits, together.
pub(crate) struct Committer {
    admission: Arc<Admission>,
    waiting: mpsc::Receiver<Submission>,
}

impl Committer {
    pub(super) fn new(admission: Arc<Admission>, waiting: mpsc::Receiver<Submission>) -> Self {
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

impl Admission {
    /// One transaction: who is new, what their handlers want, commit.
    /// In a suspect batch each statement waits for other nodes but shortly, so that the one event that does is
    /// found before the others' senders have lost patience.
    pub(super) async fn commit_once(
        &self,
        batch: &[Submission],
        is_suspect: bool,
    ) -> Result<Pass, StoreError> {
        let rows: Vec<Row<'_>> = batch
            .iter()
            .enumerate()
            .flat_map(|(n, one)| one.events.iter().map(move |event| (n, one.entry.as_ref(), event)))
            .collect();
        if !is_suspect && let Some(messages) = self.messages_beforehand(&rows) {
            return self.commit_at_once(batch, &rows, messages).await;
        }
        let mut tx = self.store.admission_begin().await?;
        let found = match self.admit_rows(&mut tx, &rows, is_suspect).await {
            Ok(found) => found,
            Err(failure) => {
                // A failed transaction holds nothing worth waiting for; its own error is the one to report.
                drop(tx.rollback().await);
                return Err(failure);
            }
        };
        if !found.rejected.is_empty() {
            tx.rollback().await?;
            return Ok(Pass::Rejected(found.rejected));
        }
        tx.commit().await?;
        self.hand_over(found.wrote, rows.iter().map(|(_, _, event)| *event));
        self.note_kept(rows.iter().map(|(_, _, event)| *event).zip(&found.outcomes));
        Ok(Self::committed(batch, &rows, found.outcomes.into_iter().map(Ok)))
    }

    /// The messages of events that no handler takes, in case the events are new; `None` when anything but
    /// messages may follow from one of them.
    fn messages_beforehand(&self, rows: &[Row<'_>]) -> Option<Vec<NewMessage>> {
        let mut writes = Writes::default();
        // Of two copies of one event the second is a duplicate, whatever the database says of the first.
        let mut seen = HashSet::with_capacity(rows.len());
        for (_, entry, event) in rows {
            if !plan::is_known_beforehand(entry, event) {
                return None;
            }
            let handlers = entry.provider.handlers();
            if seen.insert(&event.key) && handlers.wants(&event.event_type) {
                let event_seen = plan::raw_event(event, 1);
                let routed = self.dispatched(entry, &event_seen, false);
                self.plan(entry, &Dispatched::first(event), routed, &mut writes);
            }
        }
        // A lane's row is locked and asked for its numbers: more than one statement.
        let is_plain =
            writes.updates.is_empty() && writes.messages.iter().all(|message| message.lane.is_none());
        is_plain.then_some(writes.messages)
    }

    /// All in one step for the database: a quarter of the round trips.
    async fn commit_at_once(
        &self,
        batch: &[Submission],
        rows: &[Row<'_>],
        mut messages: Vec<NewMessage>,
    ) -> Result<Pass, StoreError> {
        let in_hand = self.take_slots(&mut messages);
        let events: Vec<&IncomingEvent> = rows.iter().map(|(_, _, event)| *event).collect();
        let states: Vec<_> = rows.iter().map(|(_, entry, event)| plan::initial_state(entry, event)).collect();
        let at_once = self.store.admit_at_once(&events, &states, &messages).await?;
        let is_new = |(_, latched): &(&&IncomingEvent, &Option<Latched>)| **latched == Some(Latched::New);
        let new = events.iter().zip(&at_once.latched).filter(is_new).map(|(event, _)| *event);
        self.hand_over(Wrote { messages, in_hand, paused: at_once.paused, failed: Vec::new() }, new);
        let unknown = at_once.failure.map_or_else(String::new, |failure| failure.to_string());
        let outcomes = at_once.latched.iter().zip(&events).map(|(latched, event)| match latched {
            Some(latched) => Ok(plan::outcome(latched, event, false)),
            None => Err(AdmitError::Unavailable(unknown.clone())),
        });
        Ok(Self::committed(batch, rows, outcomes))
    }

    /// What each request hears after the commit: what was found, unless that could not be found out for one of its
    /// events.
    fn committed(
        batch: &[Submission],
        rows: &[Row<'_>],
        outcomes: impl Iterator<Item = Result<Outcome, AdmitError>>,
    ) -> Pass {
        metrics::histogram!("hooklatch_batch_events")
            .record(f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX)));
        let mut answers = vec![Ok(Admitted { events: Vec::new() }); batch.len()];
        for ((n, _, event), outcome) in rows.iter().zip(outcomes) {
            let Some(answer) = answers.get_mut(*n) else { continue };
            match (outcome, answer) {
                (Ok(outcome), Ok(admitted)) => admitted.events.push((event.key.event_id.clone(), outcome)),
                (Err(why), answer) => *answer = Err(why),
                (Ok(_), Err(_)) => {}
            }
        }
        Pass::Committed(answers)
    }

    async fn admit_rows(
        &self,
        tx: &mut store::Admission,
        rows: &[Row<'_>],
        is_suspect: bool,
    ) -> Result<Found, StoreError> {
        if is_suspect {
            tx.lock_wait_set(SUSPECT_WAIT_MS).await?;
        }
        let events: Vec<&IncomingEvent> = rows.iter().map(|(_, _, event)| *event).collect();
        let states: Vec<_> = rows.iter().map(|(_, entry, event)| plan::initial_state(entry, event)).collect();
        let latched = tx.events_insert(&events, &states).await?;
        let stale = self.raise_versions(tx, rows, &latched).await?;

        let mut found = Found::default();
        let mut writes = Writes::default();
        for (((n, entry, event), latched), is_stale) in rows.iter().zip(&latched).zip(stale) {
            let handlers = entry.provider.handlers();
            let is_superseded = is_stale && handlers.wants_latest_only(&event.event_type);
            found.outcomes.push(plan::outcome(latched, event, is_superseded));
            let is_dispatched =
                *latched == Latched::New && event.unreadable.is_none() && handlers.wants(&event.event_type);
            if !is_dispatched {
                self.note_unreadable(latched, event, &mut writes);
                continue;
            }
            let dispatched = Dispatched::first(event);
            if is_superseded {
                writes.updates.push(self.superseded(&dispatched));
                continue;
            }
            let event_seen = plan::raw_event(event, 1);
            let handled = self.dispatched(entry, &event_seen, is_stale);
            if let Some(why) = plan::rejection(entry, &handled) {
                found.rejected.insert(*n, why);
            }
            self.plan(entry, &dispatched, handled, &mut writes);
        }
        if found.rejected.is_empty() {
            found.wrote = writes.store(Some(self), tx).await?;
        }
        Ok(found)
    }

    /// Raises the versions of new events whose provider cares, and says which of `rows` are stale.
    pub(super) async fn raise_versions(
        &self,
        tx: &mut store::Admission,
        rows: &[Row<'_>],
        latched: &[Latched],
    ) -> Result<Vec<bool>, StoreError> {
        let mut stale = vec![false; rows.len()];
        let mut raised = Vec::new();
        let mut positions = Vec::new();
        for (position, ((_, entry, event), latched)) in rows.iter().zip(latched).enumerate() {
            if let (Latched::New, true, Some(object)) =
                (latched, entry.provider.handlers().uses_latest(), &event.object)
            {
                raised.push((&event.key.provider, object, event.key.event_id.as_str()));
                positions.push(position);
            }
        }
        if raised.is_empty() {
            return Ok(stale);
        }
        let is_newest = tx.versions_raise(&raised).await?;
        for (position, is_newest) in positions.into_iter().zip(is_newest) {
            if let Some(one) = stale.get_mut(position) {
                *one = !is_newest;
            }
        }
        Ok(stale)
    }

    /// Says why an unreadable event is one.
    pub(super) fn note_unreadable(&self, latched: &Latched, event: &IncomingEvent, writes: &mut Writes) {
        if let (Latched::New, Some(why)) = (latched, &event.unreadable) {
            let state = crate::types::EventState::Unreadable;
            writes.updates.push(self.update(&Dispatched::never(event), state, Some(why.clone())));
        }
    }

    /// Counts what is kept of unreadable events, once that is committed.
    pub(super) fn note_kept<'a>(&self, found: impl Iterator<Item = (&'a IncomingEvent, &'a Outcome)>) {
        let is_kept = |(_, outcome): &(&IncomingEvent, &Outcome)| **outcome == Outcome::Unreadable;
        found.filter(is_kept).for_each(|(event, _)| self.unreadable.add(event));
    }

    /// The row of an event whose object has moved on.
    pub(super) fn superseded(&self, event: &Dispatched<'_>) -> store::EventUpdate {
        let why = "a newer version of its object was seen before it".to_owned();
        self.update(event, crate::types::EventState::Superseded, Some(why))
    }
}

/// What a pass found, row by row.
#[derive(Default)]
struct Found {
    outcomes: Vec<Outcome>,
    rejected: HashMap<usize, String>,
    wrote: Wrote,
}

/// Messages that will be there with the commit, and what is to be done about them after it.
#[derive(Default)]
pub(super) struct Wrote {
    pub(super) messages: Vec<NewMessage>,
    pub(super) in_hand: InHand,
    pub(super) paused: HashSet<String>,
    /// Events whose dispatch failed.
    pub(super) failed: Vec<EventUpdate>,
}

impl Writes {
    /// Writes what was planned, messages first, each set in one statement. With `slots`, what there are slots for
    /// is written as leased, and must be handed over after the commit.
    pub(super) async fn store(
        self,
        slots: Option<&Admission>,
        tx: &mut store::Admission,
    ) -> Result<Wrote, StoreError> {
        let mut wrote = Wrote { messages: self.messages, ..Wrote::default() };
        if !wrote.messages.is_empty() {
            wrote.in_hand = slots.map_or_else(InHand::default, |slots| slots.take_slots(&mut wrote.messages));
            wrote.paused = tx.messages_insert(&wrote.messages).await?;
        }
        if !self.updates.is_empty() {
            tx.events_update(&self.updates).await?;
            wrote.failed = self.updates.into_iter().filter(is_failure).collect();
        }
        Ok(wrote)
    }
}

impl<'a> Dispatched<'a> {
    /// An event that is dispatched for the first time.
    pub(super) fn first(event: &'a IncomingEvent) -> Self {
        Self { attempts_n: 1, ..Self::never(event) }
    }

    /// An event that is not dispatched.
    pub(super) fn never(event: &'a IncomingEvent) -> Self {
        Self {
            key: &event.key,
            event_type: &event.event_type,
            received_at_ms: event.received_at_ms,
            attempts_n: 0,
            generation: 0,
            is_again: false,
        }
    }
}
