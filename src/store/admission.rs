//! Admission: events are latched first, then whatever follows from those that are new is decided, and all of it is there
//! with one commit.
//!
//! [`Store::admit`] is the whole of it in one call. What can be known of a batch before it is latched decides how:
//!
//! - on SQLite one closure does everything on the writer's thread, decisions included;
//! - on PostgreSQL one statement does, where no decision depends on what is new;
//! - otherwise an open transaction ([`AdmissionTx`]) does it step by step: where handlers decide on PostgreSQL, where a
//!   handler writes in the same transaction, and where an event met something else than its own copy.

mod batch;
mod postgres;
mod rows;
mod sqlite;
mod transaction;

use std::collections::HashSet;
use std::sync::Arc;

use batch::{Batch, Inserted};
pub(super) use batch::{EventInsert, Holder};
pub(super) use postgres::STATEMENTS;
use rows::{MessageInsert, lanes_wanted, message_rows};
pub use transaction::AdmissionTx;

use super::db::Backend;
use super::db::postgres::Postgres;
use super::{EventUpdate, Latched, NewMessage, Store, StoreError};
use crate::stop::to_end;
use crate::types::{EventState, IncomingEvent};

/// An event that asks to be admitted.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The event.
    pub event: Arc<IncomingEvent>,
    /// Its number, should it be new.
    pub event_seq: i64,
    /// The state its row is born with, so that the usual case needs no second write.
    pub state: EventState,
    /// Whether it raises the highest version that was seen of its object, should it be new.
    pub is_raising: bool,
}

/// What is to be written of new events.
#[derive(Debug, Default)]
pub struct Writes {
    /// Calls to make.
    pub messages: Vec<NewMessage>,
    /// Rows that are to say something else than what they were born with.
    pub updates: Vec<EventUpdate>,
}

/// What was decided about a batch.
#[derive(Debug)]
pub enum Plan {
    /// This is to be there with the commit.
    Write(Writes),
    /// Nothing is to be written, not even the events.
    RollBack,
}

/// Decides what follows from events. Pure: it may be asked on any thread, in the middle of a transaction.
pub trait Decide: Send + Sized + 'static {
    /// What follows from those events that are new, where that does not depend on which they are. Asked once, first.
    fn known(&mut self) -> Option<Writes>;

    /// What follows, event by event: what was found, and whether a newer version of its object had been seen.
    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan;

    /// Called with messages that are about to be written: those that are to be handed over get their lease.
    fn lease(&mut self, messages: &mut [NewMessage]);
}

/// What [`Store::admit`] did.
#[derive(Debug)]
pub struct Admitted<D> {
    /// Who decided.
    pub decide: D,
    /// What was found, event by event; `None` where that could not be asked any more. What is new is committed, whatever
    /// became of the rest. Empty: it was decided that nothing be written.
    pub latched: Vec<Option<Latched>>,
    /// What was written; of messages known beforehand only those of events that were new.
    pub writes: Writes,
    /// The destinations that are paused: messages to those were written without their lease.
    pub paused: HashSet<String>,
    /// Why the rest could not be asked.
    pub failure: Option<StoreError>,
}

impl<D> Admitted<D> {
    /// Nothing so far.
    fn of(decide: D) -> Self {
        let writes = Writes::default();
        Self { decide, latched: Vec::new(), writes, paused: HashSet::new(), failure: None }
    }
}

/// What a dialect's quick way came to.
enum Quick<D> {
    Done(Box<Admitted<D>>),
    /// Nothing was written: an event met something that takes more than one look.
    Slow(D),
}

impl Store {
    /// Admits a batch: latches its events, asks `decide`, writes what it says, and commits. In a suspect batch each
    /// statement waits for another node's row `lock_wait_ms` at most.
    pub async fn admit<D: Decide>(
        &self,
        candidates: Vec<Candidate>,
        mut decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<Admitted<D>, StoreError> {
        let candidates: Arc<[Candidate]> = candidates.into();
        let quick = match &self.0.backend {
            Backend::Sqlite(db) => {
                let quick = sqlite::admitted(db, Arc::clone(&candidates), decide).await;
                self.0.backend.note(&quick);
                quick?
            }
            Backend::Postgres(_) if lock_wait_ms.is_some() => Quick::Slow(decide),
            Backend::Postgres(db) => match decide.known().filter(Writes::is_plain) {
                Some(writes) => self.admit_at_once(db, &candidates, decide, writes).await.map(Quick::Done)?,
                None => Quick::Slow(decide),
            },
        };
        match quick {
            Quick::Done(admitted) => Ok(*admitted),
            Quick::Slow(decide) => self.admit_slowly(&candidates, decide, lock_wait_ms).await,
        }
    }

    /// All in one statement, which is a transaction by itself.
    async fn admit_at_once<D: Decide>(
        &self,
        db: &Postgres,
        candidates: &[Candidate],
        mut decide: D,
        mut writes: Writes,
    ) -> Result<Box<Admitted<D>>, StoreError> {
        decide.lease(&mut writes.messages);
        let batch = Batch::new(candidates);
        let (inserted, paused) = postgres::admitted_at_once(db, &batch, &writes.messages)
            .await
            .map_err(StoreError::from_commit)
            .inspect_err(|_| db.writer().trust().doubt())?;
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
        Ok(Box::new(Admitted { decide, latched, writes, paused, failure }))
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

    /// Step by step.
    async fn admit_slowly<D: Decide>(
        &self,
        candidates: &[Candidate],
        decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<Admitted<D>, StoreError> {
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

impl Writes {
    /// Whether one statement can write it: a lane's row is locked and asked for its numbers.
    fn is_plain(&self) -> bool {
        self.updates.is_empty() && self.messages.iter().all(|message| message.lane.is_none())
    }
}
