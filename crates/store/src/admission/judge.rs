//! A batch in an open transaction, step by step: insert the events, look up the existing rows of the others, decide,
//! and write.
//!
//! [`Store::admit`] chooses how a batch is admitted.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::error;

use super::batch::{Batch, Inserted};
use super::beside::ConflictingEvent;
use super::transaction::AdmissionTx;
use super::{AdmittedBatch, Candidate, Decide, FastPath, Plan, Writes, postgres, sqlite};
use crate::db::postgres::Postgres;
use crate::db::{Backend, DbError, DbResult, Executor, StoreError};
use crate::event::Latched;
use crate::handle::Store;
use hooklatch_core::stop::to_end;
use hooklatch_core::types::IncomingEvent;

impl AdmissionTx {
    pub async fn admit<D: Decide>(
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

    /// Inserts the new ones, each with its state, and returns for each what was found, in the given order.
    /// They are sorted before the insert, so that two nodes with the same events cannot deadlock.
    pub async fn events_insert(&mut self, candidates: &[Candidate]) -> Result<Vec<Latched>, StoreError> {
        let batch = Batch::new(candidates);
        let lost = self.rows_insert(batch.rows()).await?;
        self.judge(&batch, &batch.inserted(&lost)).await
    }

    /// Returns for each event what was found, after `inserted` were inserted.
    pub async fn judge(
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
                // Neither inserted nor there: it was deleted in between, or another event has its number, because
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
                        conflicts.push(ConflictingEvent::of(candidate, first_event_id, event.on_conflict));
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
        conflicts: &mut Vec<ConflictingEvent<'a>>,
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
            let Some(latched) = self.compare_existing(candidate, holder, conflicts).await? else { continue };
            found.insert(*position, latched);
        }
        Ok(found)
    }
}

/// Calls handlers on a thread where they may block: one that blocks a worker of the runtime can keep everything
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
async fn lock_wait_set(db: &mut Executor<'_>, wait_ms: i64) -> DbResult<()> {
    if !db.is_postgres() {
        return Ok(());
    }
    let sql = "/* lock_wait_set */ SELECT set_config('lock_timeout', $1, true) AS was";
    db.fetch(sql, &[format!("{wait_ms}ms").into()]).await.map(drop)
}

impl Store {
    /// Admits a batch: latches its events, asks `decide`, writes what it says, and commits. In a suspect batch each
    /// statement waits for another node's row `lock_wait_ms` at most.
    pub async fn admit<D: Decide>(
        &self,
        candidates: Vec<Candidate>,
        mut decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<AdmittedBatch<D>, StoreError> {
        let candidates: Arc<[Candidate]> = candidates.into();
        // What is kept of a redacted event depends on what follows from it; a body in parts is claimed.
        let is_special = |one: &Candidate| one.event.redacted.is_some() || one.event.stored_parts_n.is_some();
        if candidates.iter().any(is_special) {
            return self.admit_slowly(&candidates, decide, lock_wait_ms).await;
        }
        let quick = match &self.parts.backend {
            Backend::Sqlite(db) => {
                let quick = sqlite::admitted(db, Arc::clone(&candidates), decide, self.ring.clone()).await;
                self.parts.backend.note(&quick);
                quick?
            }
            Backend::Postgres(_) if lock_wait_ms.is_some() => FastPath::Slow(decide),
            Backend::Postgres(db) => match decide.known().filter(Writes::is_plain) {
                Some(writes) => {
                    self.admit_at_once(db, &candidates, decide, writes).await.map(FastPath::Done)?
                }
                None => FastPath::Slow(decide),
            },
        };
        match quick {
            FastPath::Done(admitted) => Ok(*admitted),
            FastPath::Slow(decide) => self.admit_slowly(&candidates, decide, lock_wait_ms).await,
        }
    }

    /// All in one statement, which is a transaction by itself.
    async fn admit_at_once<D: Decide>(
        &self,
        db: &Postgres,
        candidates: &[Candidate],
        mut decide: D,
        mut writes: Writes,
    ) -> Result<Box<AdmittedBatch<D>>, StoreError> {
        decide.lease(&mut writes.messages);
        let batch = Batch::new(candidates);
        let (inserted, paused) = postgres::admitted_at_once(db, &batch, &writes.messages, &self.ring)
            .await
            .map_err(StoreError::from_commit)
            .inspect_err(|_| db.shared.health().mark_suspect())?;
        let (latched, failure) = if inserted.is_all() {
            (batch.surely(&inserted), None)
        } else {
            // What is new is committed. What is not has written nothing, and may leave a record of a conflict.
            match self.judge_rest(&batch, &inserted).await {
                Ok(latched) => (latched.into_iter().map(Some).collect(), None),
                Err(failure) => (batch.surely(&inserted), Some(failure)),
            }
        };
        writes.messages.retain(|message| inserted.has(message.message_id.event_seq()));
        Ok(Box::new(AdmittedBatch { decide, latched, writes, paused, failure }))
    }

    async fn judge_rest(&self, batch: &Batch<'_>, inserted: &Inserted) -> Result<Vec<Latched>, StoreError> {
        let mut tx = self.admission_begin().await?;
        match tx.judge(batch, inserted).await {
            Ok(latched) => tx.commit().await.map(|()| latched),
            Err(failure) => {
                to_end(tx.rollback()).await;
                Err(failure)
            }
        }
    }

    /// Admits step by step in an open transaction.
    async fn admit_slowly<D: Decide>(
        &self,
        candidates: &[Candidate],
        decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<AdmittedBatch<D>, StoreError> {
        let mut tx = self.admission_begin().await?;
        match tx.admit(candidates, decide, lock_wait_ms).await {
            Ok(admitted) if admitted.latched.is_empty() && !candidates.is_empty() => {
                tx.rollback().await.map(|()| admitted)
            }
            Ok(admitted) => tx.commit().await.map(|()| admitted),
            Err(failure) => {
                // A failed transaction holds nothing worth waiting for; its own error is the one to report.
                to_end(tx.rollback()).await;
                Err(failure)
            }
        }
    }
}
