//! The open transaction of one batch, step by step.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::batch::{self, Batch, EventInsert, Holder};
use super::rows::{lanes_wanted, message_rows};
use super::{Admitted, Candidate, Decide, Plan, Writes, postgres, sqlite};
use crate::store::apart::Conflicting;
use crate::store::db::limit::limited;
use crate::store::db::{DbError, DbResult, Door};
use crate::store::event::{event_get, event_take_due, events_update};
use crate::store::lane::lanes_extend;
use crate::store::{DueEvent, EventRow, EventUpdate, Latched, NewMessage, StoreError, Tx};
use crate::types::{EventKey, IncomingEvent, Name, ObjectVersion, UnixMs};

/// One open transaction. Dropping it rolls back.
pub struct AdmissionTx {
    pub(in crate::store) tx: Tx,
}

impl AdmissionTx {
    pub(in crate::store) fn new(tx: Tx) -> Self {
        Self { tx }
    }

    /// The transaction, for a transactional handler.
    pub fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    pub(super) async fn admit<D: Decide>(
        &mut self,
        candidates: &[Candidate],
        decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<Admitted<D>, StoreError> {
        if let Some(wait_ms) = lock_wait_ms {
            in_tx!(self.tx, lock_wait_set(wait_ms))?;
        }
        let latched = self.events_insert(candidates).await?;
        let stale = self.versions_raise(candidates, &latched).await?;
        let found: Vec<(Latched, bool)> = latched.iter().cloned().zip(stale).collect();
        let (decide, plan) = decided(decide, found).await;
        let mut admitted = Admitted::of(decide);
        match plan {
            Plan::Write(writes) => admitted.writes = writes,
            Plan::RollBack => return Ok(admitted),
        }
        admitted.decide.lease(&mut admitted.writes.messages);
        admitted.paused = self.write(&admitted.writes).await?;
        admitted.latched = latched.into_iter().map(Some).collect();
        Ok(admitted)
    }

    /// Writes what was decided, messages first. Says which destinations are paused, if any message has a lease.
    pub async fn write(&mut self, writes: &Writes) -> Result<HashSet<String>, StoreError> {
        let paused = self.messages_insert(&writes.messages).await?;
        if !writes.updates.is_empty() {
            self.events_update(&writes.updates).await?;
        }
        Ok(paused)
    }

    /// Inserts what nobody has, each with its state, and says of each what was found, in the given order.
    /// They are sorted before the insert, so that two nodes with the same events cannot deadlock.
    pub async fn events_insert(&mut self, candidates: &[Candidate]) -> Result<Vec<Latched>, StoreError> {
        let batch = Batch::new(candidates);
        let lost = self.rows_insert(batch.rows()).await?;
        self.judge(&batch, &batch.inserted(&lost)).await
    }

    /// The numbers of those rows that were not inserted, because somebody had them.
    pub(in crate::store) async fn rows_insert(
        &mut self,
        rows: Vec<EventInsert>,
    ) -> Result<Vec<i64>, StoreError> {
        let answer = if self.tx.is_postgres() {
            match self.tx.pg() {
                Ok(db) => limited(postgres::events_insert(db, &rows)).await,
                Err(error) => Err(error),
            }
        } else {
            self.tx.run_sqlite(move |db| sqlite::events_insert(db, &rows)).await
        };
        self.tx.noted("events_insert", answer)
    }

    /// What stands where these events would have been, by their position.
    pub(in crate::store) async fn events_holders(
        &mut self,
        events: &[Arc<IncomingEvent>],
    ) -> Result<Vec<Holder>, StoreError> {
        let answer = if self.tx.is_postgres() {
            match self.tx.pg() {
                Ok(db) => limited(postgres::events_holders(db, events)).await,
                Err(error) => Err(error),
            }
        } else {
            let events = events.to_vec();
            self.tx.run_sqlite(move |db| sqlite::events_holders(db, &events)).await
        };
        self.tx.noted("events_holders", answer)
    }

    /// Says of each event what was found, once `inserted` are in.
    pub(super) async fn judge(
        &mut self,
        batch: &Batch<'_>,
        inserted: &batch::Inserted,
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
                // Neither inserted nor there: somebody deleted it in between.
                (None, None) => {
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

    /// What is there instead of those at the positions `lost`; what is to be kept of it is added to `conflicts`.
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

    /// Raises the versions of new events, and says of each whether a newer one had been seen.
    pub async fn versions_raise(
        &mut self,
        candidates: &[Candidate],
        latched: &[Latched],
    ) -> Result<Vec<bool>, StoreError> {
        let raised = batch::raised(candidates, latched);
        if raised.is_empty() {
            return Ok(vec![false; candidates.len()]);
        }
        let highest = batch::highest(candidates, &raised);
        let answer = if self.tx.is_postgres() {
            match self.tx.pg() {
                Ok(db) => limited(postgres::versions_raise(db, &highest)).await,
                Err(error) => Err(error),
            }
        } else {
            match self.tx.door() {
                Ok(mut door) => versions_raise(&mut door, &highest).await,
                Err(error) => Err(error),
            }
        };
        let is_newest = self.tx.noted("versions_raise", answer)?;
        Ok(batch::stale(candidates, &raised, &is_newest))
    }

    /// Raises the version of one object, and says whether a newer one had been seen.
    pub async fn version_raise(
        &mut self,
        provider: &Name,
        object: &ObjectVersion,
        event_seq: i64,
    ) -> Result<bool, StoreError> {
        let raise = batch::Raise {
            provider: provider.as_str(),
            object: &object.object,
            version: object.version,
            event_seq,
        };
        let is_newest = in_tx!(self.tx, versions_raise(&[raise]))?;
        Ok(!is_newest.first().copied().unwrap_or(true))
    }

    /// Writes messages, due at once, leased as they say, or when their turn comes: those of one lane in the given
    /// order. Says which destinations are paused, if any message has a lease: those to them are written without.
    async fn messages_insert(&mut self, messages: &[NewMessage]) -> Result<HashSet<String>, StoreError> {
        if messages.is_empty() {
            return Ok(HashSet::new());
        }
        let has_leases = messages.iter().any(|message| message.lease.is_some());
        let paused: HashSet<String> =
            if has_leases { in_tx!(self.tx, paused_names())? } else { HashSet::new() };
        let lanes = lanes_wanted(messages);
        let used_at_ms = messages.first().map_or(0, |message| message.created_at_ms);
        let places =
            if lanes.is_empty() { Vec::new() } else { in_tx!(self.tx, lanes_extend(&lanes, used_at_ms))? };
        let answer = if self.tx.is_postgres() {
            let rows = message_rows(messages, &paused, &lanes, &places);
            match self.tx.pg() {
                Ok(db) => limited(postgres::messages_insert(db, &rows)).await,
                Err(error) => Err(error),
            }
        } else {
            let (messages, paused) = (messages.to_vec(), paused.clone());
            let insert = move |db: &mut rusqlite::Connection| {
                let lanes = lanes_wanted(&messages);
                sqlite::messages_insert(db, &message_rows(&messages, &paused, &lanes, &places))
            };
            self.tx.run_sqlite(insert).await
        };
        self.tx.noted("messages_insert", answer)?;
        Ok(paused)
    }

    /// Writes where events stand, in the order of their keys.
    pub async fn events_update(&mut self, updates: &[EventUpdate]) -> Result<(), StoreError> {
        let mut sorted: Vec<&EventUpdate> = updates.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        in_tx!(self.tx, events_update(&sorted))
    }

    /// One event's row, as this transaction sees it.
    pub async fn event_get(&mut self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        in_tx!(self.tx, event_get(key))
    }

    /// Takes the longest due event in `retry` of these providers, locked until the transaction ends;
    /// nobody waits for one that another node has.
    pub async fn event_take_due(
        &mut self,
        now_ms: UnixMs,
        providers: &[Name],
    ) -> Result<Option<DueEvent>, StoreError> {
        in_tx!(self.tx, event_take_due(now_ms, providers))
    }

    /// Commits. Only after `Ok` may a sender hear 200.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await
    }

    /// Leaves nothing behind.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.roll_back().await
    }
}

/// Asks on a thread where handlers may take their time: one that blocks a worker of the runtime can keep everything else
/// from running, the timers included that would give it up.
async fn decided<D: Decide>(mut decide: D, found: Vec<(Latched, bool)>) -> (D, Plan) {
    let asked = tokio::task::spawn_blocking(move || {
        let plan = decide.decide(&found);
        (decide, plan)
    });
    match asked.await {
        Ok(answer) => answer,
        // It is never cancelled, so it panicked: whoever contains that is above.
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and everything with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// For the rest of this transaction: how long a statement waits for a row that another one holds. Milliseconds;
/// nothing changes on SQLite, which has one writer.
async fn lock_wait_set(db: &mut Door<'_>, wait_ms: i64) -> DbResult<()> {
    if !db.is_postgres() {
        return Ok(());
    }
    let sql = "/* lock_wait_set */ SELECT set_config('lock_timeout', $1, true) AS was";
    db.fetch(sql, &[format!("{wait_ms}ms").into()]).await.map(drop)
}

/// The destinations that are paused.
async fn paused_names(db: &mut Door<'_>) -> DbResult<HashSet<String>> {
    let rows = db.fetch("/* paused_names */ SELECT destination FROM destination_pauses", &[]).await?;
    rows.iter().map(|row| row.text("destination")).collect()
}

/// Raises these versions; of each whether it is the newest that was seen.
async fn versions_raise(db: &mut Door<'_>, versions: &[batch::Raise<'_>]) -> DbResult<Vec<bool>> {
    let mut is_newest = Vec::with_capacity(versions.len());
    for raise in versions {
        let values =
            [raise.provider.into(), raise.object.into(), raise.version.into(), raise.event_seq.into()];
        is_newest.push(db.fetch_optional(batch::VERSION_RAISE, &values).await?.is_some());
    }
    Ok(is_newest)
}
