//! A batch in an open transaction, step by step: what is inserted, what the others met, what is decided and written.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::error;

use super::batch::{Batch, Inserted};
use super::beside::Conflicting;
use super::transaction::AdmissionTx;
use super::types::{AdmittedBatch, Candidate, Decide, Plan};
use crate::store::db::{DbError, DbResult, Door, StoreError};
use crate::store::event::Latched;
use crate::types::IncomingEvent;

impl AdmissionTx {
    pub(super) async fn admit<D: Decide>(
        &mut self,
        candidates: &[Candidate],
        decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<AdmittedBatch<D>, StoreError> {
        if let Some(wait_ms) = lock_wait_ms {
            in_tx!(self.tx, lock_wait_set(wait_ms))?;
        }
        let latched = self.events_insert(candidates).await?;
        let stale = self.versions_raise(candidates, &latched).await?;
        let found: Vec<(Latched, bool)> = latched.iter().cloned().zip(stale).collect();
        let (decide, plan) = decided(decide, found).await;
        let mut admitted = AdmittedBatch::of(decide);
        match plan {
            Plan::Write(writes) => admitted.writes = writes,
            Plan::RollBack => return Ok(admitted),
        }
        admitted.decide.lease(&mut admitted.writes.messages);
        admitted.paused = self.write(&admitted.writes).await?;
        admitted.latched = latched.into_iter().map(Some).collect();
        Ok(admitted)
    }

    /// Inserts what nobody has, each with its state, and says of each what was found, in the given order.
    /// They are sorted before the insert, so that two nodes with the same events cannot deadlock.
    pub async fn events_insert(&mut self, candidates: &[Candidate]) -> Result<Vec<Latched>, StoreError> {
        let batch = Batch::new(candidates);
        let lost = self.rows_insert(batch.rows()).await?;
        self.judge(&batch, &batch.inserted(&lost)).await
    }

    /// Says of each event what was found, once `inserted` are in.
    pub(super) async fn judge(
        &mut self,
        batch: &Batch<'_>,
        inserted: &Inserted,
    ) -> Result<Vec<Latched>, StoreError> {
        let mut conflicts = Vec::new();
        let found = self.events_lost(batch, &batch.lost(inserted), &mut conflicts).await?;
        let mut all: Vec<Latched> = Vec::with_capacity(batch.candidates.len());
        for (position, candidate) in batch.candidates.iter().enumerate() {
            let event = &candidate.event;
            let first = batch.first_of(position);
            let earlier = batch.candidates.get(first).zip(all.get(first)).filter(|_| first != position);
            let latched = match (found.get(&position), earlier) {
                (Some(latched), _) => latched.clone(),
                (None, None) if inserted.has(candidate.event_seq) => Latched::New,
                // Neither inserted nor there: somebody deleted it in between, or another event has its number, because
                // the counter of numbers was set back. Then those after it may be taken, too.
                (None, None) => {
                    self.numbers.leave();
                    error!(
                        event.seq = candidate.event_seq,
                        "the number of an event may have been given twice: other numbers are drawn"
                    );
                    return Err(StoreError::Conflict { op: "judge", source: DbError::vanished() });
                }
                // The same key twice in one batch, and no row with it: what stands is what the earlier copy met.
                (None, Some((earlier, met))) => {
                    let (first, first_event_id) = match met {
                        Latched::Conflict { first, first_event_id } => (*first, first_event_id),
                        _ => (earlier.event.digest, &event.key.event_id),
                    };
                    if first == event.digest {
                        Latched::Duplicate
                    } else {
                        conflicts.push(Conflicting::of(candidate, first_event_id, event.on_conflict));
                        Latched::Conflict { first, first_event_id: first_event_id.clone() }
                    }
                }
            };
            all.push(latched);
        }
        self.conflicts_keep(conflicts).await?;
        Ok(all)
    }

    /// Returns what is there instead of those at the positions `lost`; what is to be kept of it is added to
    /// `conflicts`.
    async fn events_lost<'a>(
        &mut self,
        batch: &Batch<'a>,
        lost: &[usize],
        conflicts: &mut Vec<Conflicting<'a>>,
    ) -> Result<HashMap<usize, Latched>, StoreError> {
        let candidates: Vec<&'a Candidate> =
            lost.iter().filter_map(|position| batch.candidates.get(*position)).collect();
        let mut found = HashMap::with_capacity(lost.len());
        if candidates.is_empty() {
            return Ok(found);
        }
        let events: Vec<Arc<IncomingEvent>> = candidates.iter().map(|one| Arc::clone(&one.event)).collect();
        let mut holders = self.events_holders(&events).await?;
        // What is kept of replays takes places of their signed texts: in the one order in which all nodes insert.
        holders.sort_by_cached_key(|holder| {
            events.get(holder.position).map(|event| {
                (event.key.provider.clone(), event.replay_key, event.key.event_id.clone(), holder.position)
            })
        });
        for holder in holders {
            let (Some(candidate), Some(position)) =
                (candidates.get(holder.position), lost.get(holder.position))
            else {
                continue;
            };
            let Some(latched) = self.met(candidate, holder, conflicts).await? else { continue };
            found.insert(*position, latched);
        }
        Ok(found)
    }
}

/// Asks on a thread where handlers may take their time: one that blocks a worker of the runtime can keep everything
/// else from running, the timers included that would give it up.
async fn decided<D: Decide>(mut decide: D, found: Vec<(Latched, bool)>) -> (D, Plan) {
    let asked = tokio::task::spawn_blocking(move || {
        let plan = decide.decide(&found);
        (decide, plan)
    });
    match asked.await {
        Ok(answer) => answer,
        // It is never cancelled, so it panicked. The caller contains the panic.
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and everything with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Sets the time that a statement waits for a row that another transaction holds, for the rest of this transaction.
/// Milliseconds; changes nothing on SQLite, which has one writer.
async fn lock_wait_set(db: &mut Door<'_>, wait_ms: i64) -> DbResult<()> {
    if !db.is_postgres() {
        return Ok(());
    }
    let sql = "/* lock_wait_set */ SELECT set_config('lock_timeout', $1, true) AS was";
    db.fetch(sql, &[format!("{wait_ms}ms").into()]).await.map(drop)
}
