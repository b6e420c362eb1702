//! The open transaction of one batch, statement by statement.

use std::collections::HashSet;
use std::sync::Arc;

use super::batch::{self, EventInsert, ExistingRows};
use super::{Candidate, Writes, lanes_wanted, message_rows, postgres, sqlite};
use crate::db::limit::limited;
use crate::db::{DbResult, Executor, StoreError, Tx};
use crate::event::{
    DueEvent, DueLookup, EventRow, EventUpdate, Latched, event_get, event_take_due, events_update,
    payload_in_parts, payload_redacted, payload_whole_keep,
};
use crate::handle::Store;
use crate::lane::lanes_extend;
use crate::message::NewMessage;
use crate::numbers::EventNumbers;
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{EventKey, IncomingEvent, Name, ObjectVersion, UnixMs};

/// Events that one look puts aside at most.
const PUT_ASIDE_N_MAX: u32 = 100;

/// One open transaction. Dropping it rolls back.
pub struct AdmissionTx {
    pub(crate) tx: Tx,
    pub(crate) ring: KeyRing,
    pub(crate) numbers: Arc<EventNumbers>,
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

impl AdmissionTx {
    /// The transaction, for a transactional handler.
    pub fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    /// Writes what was decided, messages first. Says which destinations are paused, if any message has a lease.
    pub async fn write(&mut self, writes: &Writes) -> Result<HashSet<String>, StoreError> {
        let paused = self.messages_insert(&writes.messages).await?;
        if !writes.updates.is_empty() {
            self.events_update(&writes.updates).await?;
        }
        Ok(paused)
    }

    /// The numbers of those rows that were not inserted, because they existed already.
    pub(crate) async fn rows_insert(&mut self, rows: Vec<EventInsert>) -> Result<Vec<i64>, StoreError> {
        let is_redacted = |row: &&EventInsert| row.event.redacted.is_some();
        let redacted: Vec<(i64, Arc<IncomingEvent>)> =
            rows.iter().filter(is_redacted).map(|row| (row.event_seq, Arc::clone(&row.event))).collect();
        let in_parts: Vec<(i64, u32)> =
            rows.iter().filter_map(|row| Some((row.event_seq, row.event.stored_parts_n?))).collect();
        let answer = if self.tx.is_postgres() {
            match self.tx.pg() {
                Ok(db) => limited(postgres::events_insert(db, &rows, &self.ring)).await,
                Err(error) => Err(error),
            }
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
            match self.tx.executor() {
                Ok(mut executor) => versions_raise(&mut executor, &highest).await,
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
                Ok(db) => limited(postgres::messages_insert(db, &rows, &self.ring)).await,
                Err(error) => Err(error),
            }
        } else {
            let (messages, paused, ring) = (messages.to_vec(), paused.clone(), self.ring.clone());
            let insert = move |db: &mut rusqlite::Connection| {
                let lanes = lanes_wanted(&messages);
                sqlite::messages_insert(db, &message_rows(&messages, &paused, &lanes, &places), &ring)
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
