//! [`Store::admit`]: which way a batch goes.

use std::sync::Arc;

use super::batch::{Batch, Inserted};
use super::types::{AdmittedBatch, Candidate, Decide, Quick, Writes};
use super::{postgres, sqlite};
use crate::stop::to_end;
use crate::store::db::postgres::Postgres;
use crate::store::db::{Backend, StoreError};
use crate::store::event::Latched;
use crate::store::handle::Store;

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
    ) -> Result<Box<AdmittedBatch<D>>, StoreError> {
        decide.lease(&mut writes.messages);
        let batch = Batch::new(candidates);
        let (inserted, paused) = postgres::admitted_at_once(db, &batch, &writes.messages, &self.ring)
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
