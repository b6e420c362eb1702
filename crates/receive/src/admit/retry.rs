//! Events whose handler failed for now are dispatched again, by the same code, until they work or are given up; and so
//! are those that waited while their provider was paused, the oldest first. The row stays locked for the length of its
//! transaction, so no two nodes take the same one.
//!
//! Each provider has a line of its own, so that slow handlers delay no other provider; and whatever goes wrong with an
//! event puts off that event, so that none is ever in the way of another.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::{info, warn};

use super::AdmitContext;
use super::dispatch::{
    Dispatched, dispatched as handled_now, handled_in_tx, is_ended, is_failure, log_undone, panicked,
    record_panic, with_panic_counted,
};
use super::entry::{ProviderEntry, Providers};
use super::handover::{Committed, hand_over, write};
use super::plan::{NotPlanned, Planned};
use super::templates::Rendering;
use crate::handler::HandlerError;
use hooklatch_core::seal::SealError;
use hooklatch_core::stop::{self, Stop};
use hooklatch_core::types::{EventState, Name};
use hooklatch_outbox::traces::DispatchedEvent;
use hooklatch_store::{self as store, DueEvent, EventUpdate, StoreError, Writes};

/// Dispatches events in `retry` again when they are due, until `stop` turns true.
pub async fn run_retries(context: Arc<AdmitContext>, providers: Providers, poll: Duration, stop: Stop) {
    Retries { context, providers }.run(poll, stop).await;
}

/// Time until an event that did not open is looked at again. Milliseconds.
const LOCKED_MS: i64 = 60_000;
/// Most providers whose events are dispatched again at once: each holds a connection.
const LINES_N_MAX: usize = 3;

/// Dispatches due events again. Cloning is cheap.
#[derive(Clone)]
struct Retries {
    context: Arc<AdmitContext>,
    providers: Providers,
}

/// An event that was taken to be dispatched, with the transaction that has its row locked.
struct TakenEvent {
    tx: store::AdmissionTx,
    due: DueEvent,
    _turn: Option<OwnedSemaphorePermit>,
}

/// What follows from an event, planned while no transaction was open.
struct PlannedAlone {
    /// The event as it was then: its number, its attempts and its generation.
    of: (i64, u32, i32),
    planned: Result<Planned, NotPlanned>,
}

/// The end of one dispatch.
enum DispatchEnd {
    Done,
    /// Its templates take long, and on SQLite a transaction keeps all others from writing: it was planned without one,
    /// and is to be taken again.
    TakeAgain(PlannedAlone),
}

/// The reason why nothing was written in one try.
enum NotWritten {
    Failed(HandlerError),
    /// It is to be planned without a transaction.
    PlanAlone {
        is_stale: bool,
    },
}

impl From<HandlerError> for NotWritten {
    fn from(error: HandlerError) -> Self {
        Self::Failed(error)
    }
}

/// The event is tried again later, like any that failed.
impl From<StoreError> for NotWritten {
    fn from(failure: StoreError) -> Self {
        let why = anyhow::anyhow!("its transaction could not be committed: {failure}");
        Self::Failed(HandlerError::Retry(why))
    }
}

impl Retries {
    /// Looks for due events every `poll` while the node's looks find any, and when it is notified. Takes all there are,
    /// in a line for each provider, until `stop` turns true.
    async fn run(&self, poll: Duration, mut stop: Stop) {
        let (mut lines, mut looks) = (JoinSet::new(), self.context.store.node().subscribe());
        let mut busy: HashMap<Id, Name> = HashMap::new();
        while !stop.is_set() {
            let is_free = |name: &&Name| busy.values().all(|one| one != *name);
            let free: Vec<Name> = self.providers.get().keys().filter(is_free).cloned().collect();
            if lines.len() < LINES_N_MAX && !free.is_empty() {
                match self.take_if_due(&free).await {
                    Ok(Some(taken)) => {
                        let provider = taken.due.key.provider.clone();
                        let line = self.clone().line(taken, stop.clone());
                        busy.insert(lines.spawn(line).id(), provider);
                        continue;
                    }
                    Ok(None) => {}
                    Err(failure) => warn!(error = %failure, "could not look for events to dispatch again"),
                }
            }
            tokio::select! {
                Some(ended) = lines.join_next_with_id() => note_end(&mut busy, ended),
                () = self.context.wake_retries.notified() => {}
                () = looks.until(poll, |look| look.event_due) => {}
                () = stop.wait() => {}
            }
        }
        while let Some(ended) = lines.join_next_with_id().await {
            note_end(&mut busy, ended);
        }
    }

    /// As [`Retries::take`], by one statement that only reads while none is due, as almost always.
    async fn take_if_due(&self, providers: &[Name]) -> Result<Option<TakenEvent>, StoreError> {
        let now_ms = self.context.clock.steady_ms();
        if self.context.store.is_event_due(now_ms, providers).await? {
            self.take(providers).await
        } else {
            Ok(None)
        }
    }

    /// Takes the longest due event of these providers; `None` when none is due.
    async fn take(&self, providers: &[Name]) -> Result<Option<TakenEvent>, StoreError> {
        let turn = self.context.turn().await;
        let mut tx = self.context.store.admission_begin().await?;
        match tx.event_take_due(self.context.clock.steady_ms(), providers).await {
            Ok(Some(due)) => Ok(Some(TakenEvent { tx, due, _turn: turn })),
            Ok(None) if tx.has_put_aside() => tx.commit().await.map(|()| None),
            Ok(None) => tx.rollback().await.map(|()| None),
            Err(failure) => {
                stop::ignore_result(tx.rollback()).await;
                Err(failure)
            }
        }
    }

    /// Dispatches one provider's due events, one after the other, until none is due.
    async fn line(self, mut taken: TakenEvent, stop: Stop) {
        let mut alone = None;
        loop {
            let provider = [taken.due.key.provider.clone()];
            alone = match self.dispatch(taken, alone.take()).await {
                Ok(DispatchEnd::Done) => None,
                Ok(DispatchEnd::TakeAgain(alone)) => Some(alone),
                Err(failure) => {
                    // Not even that it failed could be written: the database is away, and is asked again in a while.
                    warn!(error = %failure, provider.name = %provider[0], "could not put off an event");
                    return;
                }
            };
            if stop.is_set() {
                return;
            }
            match self.take(&provider).await {
                Ok(Some(next)) => taken = next,
                Ok(None) => return,
                Err(failure) => {
                    warn!(error = %failure, "could not look for events to dispatch again");
                    return;
                }
            }
        }
    }

    /// Dispatches one event; whatever goes wrong puts it off, or aside when it was the last time.
    async fn dispatch(
        &self,
        taken: TakenEvent,
        alone: Option<PlannedAlone>,
    ) -> Result<DispatchEnd, StoreError> {
        let TakenEvent { tx, due, _turn } = taken;
        let providers = self.providers.get();
        let Some(entry) = providers.get(&due.key.provider) else {
            return tx.rollback().await.map(|()| DispatchEnd::Done);
        };
        if let Some(error) = &due.locked {
            tx.rollback().await?;
            return self.put_off_unopened(&due, error).await.map(|()| DispatchEnd::Done);
        }
        let (traces, began) = (&self.context.traces, self.context.traces.now());
        let once = AssertUnwindSafe(self.dispatch_once(tx, entry, (&due, alone))).catch_unwind();
        let error = match once.await {
            Ok(Ok(())) => {
                traces.dispatched(&traced(&due), began, false);
                return Ok(DispatchEnd::Done);
            }
            Ok(Err(NotWritten::PlanAlone { is_stale })) => {
                return Ok(DispatchEnd::TakeAgain(self.plan_alone(entry, due, is_stale).await));
            }
            Ok(Err(NotWritten::Failed(error))) if is_ended(&error) => {
                HandlerError::Refused(error.to_string())
            }
            Ok(Err(NotWritten::Failed(error))) => error,
            Err(panic) => panicked("retry", panic.as_ref()),
        };
        let update = self.context.planner.failed(entry, &dispatched(&due), &error);
        self.context.store.event_retry_later(&update, due.attempts_n).await?;
        traces.dispatched(&traced(&due), began, true);
        log_undone(&self.context.lines, &[update]);
        Ok(DispatchEnd::Done)
    }

    /// Plans what follows from an event, with no transaction open and on a thread that serves no requests.
    async fn plan_alone(&self, entry: &Arc<ProviderEntry>, due: DueEvent, is_stale: bool) -> PlannedAlone {
        let (context, entry, of) = (Arc::clone(&self.context), Arc::clone(entry), place(&due));
        let planning = tokio::task::spawn_blocking(move || {
            let event = Dispatched { rendering: Rendering::Alone, ..dispatched(&due) };
            let content = entry.provider.stored_content(&due.headers, &due.body);
            let content = content.map_err(|why| NotPlanned::Failed(HandlerError::Refused(why)))?;
            let seen = event.seen(&due.event_type, content);
            let handled = handled_now(entry.provider.handlers(), &seen, is_stale);
            context.planner.conclude(&entry, &event, &seen, handled)
        });
        let planned = planning.await.unwrap_or_else(|error| {
            let error = match error.try_into_panic() {
                Ok(panic) => panicked("retry", panic.as_ref()),
                Err(error) => HandlerError::Retry(error.into()),
            };
            Err(NotPlanned::Failed(error))
        });
        PlannedAlone { of, planned }
    }

    /// Puts off an event that does not open, as often as it takes: it has done nothing wrong, and no attempt is
    /// counted.
    async fn put_off_unopened(&self, due: &DueEvent, error: &SealError) -> Result<(), StoreError> {
        let now_ms = self.context.clock.steady_ms();
        let update = EventUpdate {
            event_seq: due.event_seq,
            key: due.key.clone(),
            state: EventState::Retry,
            error: Some(error.to_string()),
            attempts_n: due.attempts_n,
            due_at_ms: Some(now_ms.saturating_add(LOCKED_MS)),
            processed_at_ms: now_ms,
        };
        self.context.store.event_retry_later(&update, due.attempts_n).await?;
        metrics::counter!("hooklatch_unopened_total", "of" => "event").increment(1);
        let provider = &due.key.provider;
        if let Some(left_out_n) = self.context.lines.may_write(provider, "locked") {
            warn!(provider.name = %provider, event.id = due.key.event_id, %error, left_out_n, "an event does not open; it is looked at again later");
        }
        Ok(())
    }

    /// Runs one dispatch in one transaction; nothing of it is left when it fails.
    async fn dispatch_once(
        &self,
        mut tx: store::AdmissionTx,
        entry: &ProviderEntry,
        (due, alone): (&DueEvent, Option<PlannedAlone>),
    ) -> Result<(), NotWritten> {
        let committed = match self.written(&mut tx, entry, (due, alone)).await {
            Ok(committed) => committed,
            Err(error) => {
                stop::ignore_result(tx.rollback()).await;
                return Err(error);
            }
        };
        tx.commit().await?;
        if !committed.undone.iter().any(is_failure) {
            info!(provider.name = %due.key.provider, event.id = due.key.event_id, attempts_n = due.attempts_n.saturating_add(1), "dispatched an event again");
        }
        hand_over(&self.context, committed, |_| None);
        Ok(())
    }

    /// Runs the handlers of the event, and writes what follows.
    async fn written(
        &self,
        tx: &mut store::AdmissionTx,
        entry: &ProviderEntry,
        (due, alone): (&DueEvent, Option<PlannedAlone>),
    ) -> Result<Committed, NotWritten> {
        let context = &*self.context;
        let event = dispatched(due);
        let mut writes = Writes::default();
        if let Some(why) = &due.broken {
            writes.updates.push(context.planner.update(&event, EventState::Failed, Some(why.clone())));
            return Ok(write(tx, writes, None).await?);
        }
        let content =
            entry.provider.stored_content(&due.headers, &due.body).map_err(HandlerError::Refused)?;
        let handlers = entry.provider.handlers();
        let is_stale = match &due.object {
            Some(object) if handlers.uses_latest() && !due.key.is_synthetic() => {
                tx.version_raise(&due.key.provider, object, due.event_seq).await?
            }
            _ => false,
        };
        if is_stale && handlers.wants_latest_only(&due.event_type) {
            writes.updates.push(context.planner.superseded(&event));
            return Ok(write(tx, writes, None).await?);
        }
        let planned = if let Some(alone) = alone.filter(|alone| alone.of == place(due)) {
            alone.planned
        } else {
            // A transactional handler holds its transaction anyway.
            let is_transactional = handlers.needs_transaction(&due.event_type);
            let rendering = if is_transactional { Rendering::Alone } else { Rendering::Shared };
            let event = Dispatched { rendering, ..event };
            let seen = event.seen(&due.event_type, content);
            let handled = handled_in_tx(handlers, context.handler_timeout, tx.tx(), &seen, is_stale).await;
            context.planner.conclude(entry, &event, &seen, with_panic_counted(handled))
        };
        match planned {
            Ok(planned) if planned.is_put_off() => return Err(NotWritten::PlanAlone { is_stale }),
            Ok(planned) => planned.add_to(&mut writes),
            Err(NotPlanned::Failed(error)) => return Err(error.into()),
            Err(NotPlanned::Rejected(why)) => return Err(HandlerError::Refused(why).into()),
        }
        Ok(write(tx, writes, None).await?)
    }
}

/// Frees the provider of a line that ended, and counts a panic in it.
fn note_end(busy: &mut HashMap<Id, Name>, ended: Result<(Id, ()), JoinError>) {
    let id = match ended {
        Ok((id, ())) => id,
        Err(error) => {
            let id = error.id();
            if let Ok(panic) = error.try_into_panic() {
                record_panic("retry", panic.as_ref());
            }
            id
        }
    };
    busy.remove(&id);
}

/// The event as its trace has it.
fn traced(due: &DueEvent) -> DispatchedEvent<'_> {
    DispatchedEvent {
        key: &due.key,
        event_type: &due.event_type,
        generation: due.generation,
        dispatch_n: due.attempts_n.saturating_add(1),
    }
}

/// The event as it was when it was taken.
fn place(due: &DueEvent) -> (i64, u32, i32) {
    (due.event_seq, due.attempts_n, due.generation)
}

/// The event, counted as dispatched once more.
fn dispatched(due: &DueEvent) -> Dispatched<'_> {
    Dispatched {
        key: &due.key,
        event_seq: due.event_seq,
        next_place: due.next_place,
        received_at_ms: due.received_at_ms,
        counted_from_ms: due.counted_from_ms,
        created_at_ms: None,
        attempts_n: due.attempts_n.saturating_add(1),
        generation: due.generation,
        is_again: true,
        rendering: Rendering::Shared,
    }
}
