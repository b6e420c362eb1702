//! How a batch is admitted: [`Store::admit`] chooses the way. The last one is an open transaction, statement by
//! statement: insert the events, look up the existing rows of the others, decide, and write.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracing::error;

use super::batch::{self, Batch, EventInsert, ExistingRows, Inserted};
use super::beside::ConflictingEvent;
use super::{
    AdmittedBatch, Candidate, Decide, FastPath, Plan, Queued, Writes, lanes_wanted, message_rows, postgres,
    sqlite,
};
use crate::db::limit::limited;
use crate::db::postgres::Postgres;
use crate::db::{Backend, DbError, DbResult, Executor, StoreError, Tx};
use crate::event::{
    DueEvent, DueLookup, EventRow, EventUpdate, Latched, event_get, event_take_due, events_update,
    payload_in_parts, payload_redacted, payload_whole_keep,
};
use crate::handle::Store;
use crate::lane::lanes_extend;
use crate::message::NewMessage;
use crate::numbers::EventNumbers;
use hooklatch_core::seal::KeyRing;
use hooklatch_core::stop::ignore_result;
use hooklatch_core::types::{EventKey, IncomingEvent, Name, ObjectVersion, UnixMs};

/// Events that one look puts aside at most.
const PUT_ASIDE_N_MAX: u32 = 100;

/// One open transaction. Dropping it rolls back.
pub struct AdmissionTx {
    pub(super) tx: Tx,
    pub(super) ring: KeyRing,
    numbers: Arc<EventNumbers>,
    /// Redacted events whose row was inserted, with its number.
    redacted: Vec<(i64, Arc<IncomingEvent>)>,
    /// True when events that cannot be read were put aside.
    has_put_aside: bool,
}

impl Store {
    /// Opens the transaction of one batch. Call it in a task that is not cancelled: a dropped transaction is rolled
    /// back and its connection closed.
    pub async fn admission_begin(&self) -> Result<AdmissionTx, StoreError> {
        let tx = self.parts.backend.begin("admission_begin", purpose!(writer)).await;
        self.parts.backend.note(&tx);
        tx.map(|tx| AdmissionTx {
            tx,
            ring: self.ring.clone(),
            numbers: Arc::clone(&self.parts.numbers),
            redacted: Vec::new(),
            has_put_aside: false,
        })
    }
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
                let (all, ring) = (Arc::clone(&candidates), self.ring.clone());
                let quick = db.transact("admit", move |db| sqlite::admit(db, &all, decide, &ring)).await;
                self.parts.backend.note(&quick);
                quick?
            }
            Backend::Postgres(_) if lock_wait_ms.is_some() => FastPath::Slow(decide),
            Backend::Postgres(db) => match decide.unconditional().filter(Writes::is_plain) {
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
        let (inserted, queued) = postgres::admitted_at_once(db, &batch, &writes.messages, &self.ring)
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
        Ok(Box::new(AdmittedBatch { decide, latched, writes, queued, failure }))
    }

    async fn judge_rest(&self, batch: &Batch<'_>, inserted: &Inserted) -> Result<Vec<Latched>, StoreError> {
        let mut tx = self.admission_begin().await?;
        match tx.judge(batch, inserted).await {
            Ok(latched) => tx.commit().await.map(|()| latched),
            Err(failure) => {
                ignore_result(tx.rollback()).await;
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
                ignore_result(tx.rollback()).await;
                Err(failure)
            }
        }
    }
}

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
        admitted.queued = self.write(&admitted.writes).await?;
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

impl AdmissionTx {
    /// The transaction, for a transactional handler.
    pub fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    /// Writes what was decided, messages first.
    pub async fn write(&mut self, writes: &Writes) -> Result<Queued, StoreError> {
        let queued = self.messages_insert(&writes.messages).await?;
        if !writes.updates.is_empty() {
            self.events_update(&writes.updates).await?;
        }
        Ok(queued)
    }

    /// The numbers of those rows that were not inserted, because they existed already.
    pub(crate) async fn rows_insert(&mut self, rows: Vec<EventInsert>) -> Result<Vec<i64>, StoreError> {
        let is_redacted = |row: &&EventInsert| row.event.redacted.is_some();
        let redacted: Vec<(i64, Arc<IncomingEvent>)> =
            rows.iter().filter(is_redacted).map(|row| (row.event_seq, Arc::clone(&row.event))).collect();
        let in_parts: Vec<(i64, u32)> =
            rows.iter().filter_map(|row| Some((row.event_seq, row.event.stored_parts_n?))).collect();
        let answer = if self.tx.is_postgres() {
            async { limited(postgres::events_insert(self.tx.pg()?, &rows, &self.ring)).await }.await
        } else {
            let ring = self.ring.clone();
            self.tx.run_sqlite(move |db| sqlite::events_insert(db, &rows, &ring)).await
        };
        let lost = self.tx.noted("events_insert", answer)?;
        for (event_seq, event) in redacted.into_iter().filter(|(event_seq, _)| !lost.contains(event_seq)) {
            let values_n = event.redacted.as_ref().map_or(0, |redacted| redacted.values_n);
            in_tx!(self.tx, payload_redacted(event_seq, values_n))?;
            self.redacted.push((event_seq, event));
        }
        for (event_seq, parts_n) in in_parts.into_iter().filter(|(event_seq, _)| !lost.contains(event_seq)) {
            in_tx!(self.tx, payload_in_parts(event_seq, parts_n))?;
        }
        Ok(lost)
    }

    /// Returns what stands where these events would have been, by their position.
    pub(crate) async fn events_holders(
        &mut self,
        events: &[Arc<IncomingEvent>],
    ) -> Result<Vec<ExistingRows>, StoreError> {
        let answer = if self.tx.is_postgres() {
            async { limited(postgres::events_holders(self.tx.pg()?, events)).await }.await
        } else {
            let events = events.to_vec();
            self.tx.run_sqlite(move |db| sqlite::events_holders(db, &events)).await
        };
        self.tx.noted("events_holders", answer)
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
            async { limited(postgres::versions_raise(self.tx.pg()?, &highest)).await }.await
        } else {
            async { versions_raise(&mut self.tx.executor()?, &highest).await }.await
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
        let raise = batch::VersionRaise {
            provider: provider.as_str(),
            object: &object.object,
            version: object.version,
            event_seq,
        };
        let is_newest = in_tx!(self.tx, versions_raise(&[raise]))?;
        Ok(!is_newest.first().copied().unwrap_or(true))
    }

    /// Writes messages, due at once, leased as they say, or when their turn comes: those of one lane in the given
    /// order.
    async fn messages_insert(&mut self, messages: &[NewMessage]) -> Result<Queued, StoreError> {
        if messages.is_empty() {
            return Ok(Queued::default());
        }
        let has_leases = messages.iter().any(|message| message.lease.is_some());
        let paused: HashSet<String> =
            if has_leases { in_tx!(self.tx, paused_names())? } else { HashSet::new() };
        let lanes = lanes_wanted(messages);
        let used_at_ms = messages.first().map_or(0, |message| message.created_at_ms);
        let places =
            if lanes.is_empty() { Vec::new() } else { in_tx!(self.tx, lanes_extend(&lanes, used_at_ms))? };
        let rows = message_rows(messages, &paused, &lanes, &places);
        let queued = Queued::of(paused.clone(), &rows);
        let answer = if self.tx.is_postgres() {
            async { limited(postgres::messages_insert(self.tx.pg()?, &rows, &self.ring)).await }.await
        } else {
            let (messages, ring) = (messages.to_vec(), self.ring.clone());
            let insert = move |db: &mut rusqlite::Connection| {
                let lanes = lanes_wanted(&messages);
                sqlite::messages_insert(db, &message_rows(&messages, &paused, &lanes, &places), &ring)
            };
            self.tx.run_sqlite(insert).await
        };
        self.tx.noted("messages_insert", answer)?;
        Ok(queued)
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
    /// it does not wait for one that another node has. Those whose keys cannot be read are put aside on the way.
    pub async fn event_take_due(
        &mut self,
        now_ms: UnixMs,
        providers: &[Name],
    ) -> Result<Option<DueEvent>, StoreError> {
        for _ in 0..PUT_ASIDE_N_MAX {
            match in_tx!(self.tx, event_take_due(now_ms, providers, &self.ring))? {
                DueLookup::None => return Ok(None),
                DueLookup::Event(due) => return Ok(Some(*due)),
                DueLookup::PutAside => self.has_put_aside = true,
            }
        }
        Ok(None)
    }

    /// True when it has put aside events that cannot be read: that stands only once it is committed.
    pub fn has_put_aside(&self) -> bool {
        self.has_put_aside
    }

    /// Commits. Only after `Ok` may a sender get 200.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        for (event_seq, event) in std::mem::take(&mut self.redacted) {
            in_tx!(self.tx, payload_whole_keep(event_seq, &event, &self.ring))?;
        }
        self.tx.commit().await
    }

    /// Rolls back, so that nothing is left of it.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.roll_back().await
    }
}

/// The destinations that are paused.
async fn paused_names(db: &mut Executor<'_>) -> DbResult<HashSet<String>> {
    let rows = db.fetch("/* paused_names */ SELECT destination FROM destination_pauses", &[]).await?;
    rows.iter().map(|row| row.text("destination")).collect()
}

/// Raises these versions; of each whether it is the newest that was seen.
async fn versions_raise(db: &mut Executor<'_>, versions: &[batch::VersionRaise<'_>]) -> DbResult<Vec<bool>> {
    let mut is_newest = Vec::with_capacity(versions.len());
    for raise in versions {
        let values =
            [raise.provider.into(), raise.object.into(), raise.version.into(), raise.event_seq.into()];
        is_newest.push(db.fetch_optional(batch::VERSION_RAISE, &values).await?.is_some());
    }
    Ok(is_newest)
}
