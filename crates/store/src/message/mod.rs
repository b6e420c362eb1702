//! Messages: one call to make each, from the commit that writes them to the settlement that ends them. Here are claims,
//! extensions and settlements: what workers do with messages.
//!
//! `types.rs` has a message at each stage; `postgres.rs` and `sqlite.rs` are the twins of claims and settlements;
//! `claimed.rs` turns a claimed row into a message that can be sent. Admission writes messages (`admission/`),
//! operators see them (`queries/messages.rs`) and decide about them (`decision/`), and retention prunes them
//! (`retention/`).

/// True of a leased row of which nothing was sent before this claim: the claim itself set when its key was used first.
/// Given back unsent, it leaves no such time behind, from which the key's validity and the age of retries would run.
macro_rules! claim_was_first {
    () => {
        "first_sent_at_ms = leased_at_ms AND attempts_n = attempts_before_n + 1 AND COALESCE(last_result, '') <> 'unknown'"
    };
}

mod claimed;
mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;
mod types;

use self::claimed::{Claimed, ClaimedRow};
use self::types::{Now, lanes_of};
use crate::db::limit::{OPERATION_LIMIT, limited, whole};
use crate::db::{Backend, DbError, DbResult, Executor, Purpose, StoreError};
use crate::handle::Store;
use crate::lane;
use hooklatch_core::seal::SealedPlace;
use hooklatch_core::types::{MessageId, Name, UnixMs};
use uuid::Uuid;

#[cfg(any(test, feature = "testing"))]
pub(super) use postgres::STATEMENTS;
pub use types::{
    InitialLease, LeaseWant, LeasedMessage, LostClaims, MessageCount, MessageRow, NewMessage, NextWant,
    SettleTo, Settled, Settlement,
};
pub(crate) use types::{message_rows, message_state};

impl Store {
    /// Claims due messages of the wanted destinations, each for `lease_ms`, counting and recording an
    /// attempt before any byte leaves. A lease that ended without a settlement is due like any other. A message
    /// that cannot be read is held, with the reason, and blocks no other. `node` names who claims them; a
    /// name of its own for each claim lets [`Store::message_release`] identify them.
    pub async fn message_lease(
        &self,
        wants: &[LeaseWant],
        now_ms: UnixMs,
        lease_ms: i64,
        node: &str,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let wants: Vec<LeaseWant> = wants.iter().filter(|want| want.free_n > 0).cloned().collect();
        if wants.is_empty() {
            return Ok(Vec::new());
        }
        let installation_id = self.installation_id().await?;
        let (node, now) = (node.to_owned(), self.now(now_ms));
        let rows: Vec<ClaimedRow> = match &self.parts.backend {
            Backend::Postgres(_) => alone!(self, worker, "message_lease", |db| {
                limited(postgres::message_lease(db.pg()?, &wants, now, lease_ms, &node)).await
            })?,
            Backend::Sqlite(_) => {
                let names: Vec<String> = wants.iter().map(|want| want.destination.to_string()).collect();
                // Looking costs the only writer nothing, and most looks find nothing.
                let any_due = alone!(self, reader, "message_is_any_due", |db| {
                    db.fetch_optional(sqlite::IS_ANY_DUE, &[names.into(), now_ms.into()]).await
                })?;
                if any_due.is_none() {
                    return Ok(Vec::new());
                }
                let work = move |db: &mut rusqlite::Connection| {
                    sqlite::message_lease(db, &wants, now_ms, lease_ms, &node)
                };
                self.on_writer("message_lease", work).await?
            }
        };
        Ok(self.readable(rows, &installation_id, now_ms).await)
    }

    /// The claimed messages that can be sent; the others are held or put off.
    async fn readable(
        &self,
        rows: Vec<ClaimedRow>,
        installation_id: &Uuid,
        now_ms: UnixMs,
    ) -> Vec<LeasedMessage> {
        let claimed = Claimed::of(rows, installation_id, now_ms, &self.ring);
        self.locked_put_off(&claimed.locked).await;
        if !claimed.unreadable.is_empty() {
            for one in &claimed.unreadable {
                let (message_id, error) = (one.message_id, one.error.as_deref().unwrap_or_default());
                tracing::error!(message.id = %message_id, error, "message cannot be read; it is held");
            }
            // If this fails, their leases expire, and they are claimed again.
            if let Err(error) = self.message_settle(&claimed.unreadable).await {
                tracing::warn!(%error, "could not hold the messages that cannot be read");
            }
        }
        claimed.messages
    }

    /// Postpones messages that cannot be decrypted. If this fails, their leases expire, and they are claimed again.
    async fn locked_put_off(&self, locked: &[Settlement]) {
        let Some(first) = locked.first() else { return };
        let (messages_n, error) = (locked.len(), first.error.as_deref().unwrap_or_default());
        tracing::error!(message.id = %first.message_id, messages_n, error, "messages do not open; they are looked at again later");
        metrics::counter!("hooklatch_unopened_total", "of" => "message").increment(messages_n as u64);
        if let Err(error) = self.message_settle(locked).await {
            tracing::warn!(%error, "could not put off the messages that do not open");
        }
    }

    /// The settlements as they are written: their answers sealed, if there is a key for it.
    fn sealed(&self, settlements: &[Settlement]) -> Result<Vec<Settlement>, StoreError> {
        let mut written = settlements.to_vec();
        if self.ring.is_on() {
            for one in &mut written {
                let place = SealedPlace::of_answer(one.message_id.number(), one.attempt_n);
                let Some(clear) = &one.response else { continue };
                let sealed = self.ring.seal_text(&place, clear).map_err(DbError::from);
                one.response =
                    Some(sealed.map_err(|error| StoreError::from_db("message_settle", error))?.into_owned());
            }
        }
        Ok(written)
    }

    /// Releases messages claimed by calls whose response was lost: none of them was sent. Returns their number.
    pub async fn message_release(&self, lost: &LostClaims, now_ms: UnixMs) -> Result<u64, StoreError> {
        let (lost, now) = (lost.clone(), self.now(now_ms));
        together!(self, writer, "message_release", |db| {
            // The rows are locked from the first statement on.
            let destinations: Vec<String> = lost.destinations.iter().map(Name::to_string).collect();
            let values = [
                destinations.into(),
                lost.holders.clone().into(),
                now.ms.into(),
                i64::from(now.is_theirs).into(),
                lost.age_ms.into(),
            ];
            if db.is_postgres() {
                // By the index of what is due, however little is leased: it may be one of millions that wait.
                db.batch("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off").await?;
            }
            let rows = db.fetch(LOST, &values).await?;
            let Some(first) = rows.first() else { return Ok(0) };
            let now_ms = first.int("now_ms")?;
            let ids = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<Vec<i64>>>()?;
            let values = [ids.into(), now_ms.into()];
            db.execute(LOST_ATTEMPTS, &values).await?;
            db.execute(LOST_BACK, &values).await
        })
    }

    /// Prolongs the lease of a message to `lease_ms` from now while its call is under way; `false` when it is no
    /// longer this worker's: then nothing was changed.
    pub async fn message_extend(
        &self,
        message_id: MessageId,
        attempt_n: u32,
        now_ms: UnixMs,
        lease_ms: i64,
    ) -> Result<bool, StoreError> {
        let now = self.now(now_ms);
        alone!(self, writer, "message_extend", |db| {
            let values = [
                message_id.number().into(),
                attempt_n.into(),
                now.ms.into(),
                i64::from(now.is_theirs).into(),
                lease_ms.into(),
            ];
            Ok(db.execute(EXTEND, &values).await? == 1)
        })
    }

    /// Writes the results of attempts. `false` for each whose token is no longer the message's: then nothing
    /// of it was written.
    pub async fn message_settle(&self, settlements: &[Settlement]) -> Result<Vec<bool>, StoreError> {
        if settlements.is_empty() { Ok(Vec::new()) } else { self.settle(settlements, Purpose::Worker).await }
    }

    /// Writes the results of attempts as [`Store::message_settle`] does, and takes the next message of each lane whose
    /// head they end in the same commit: then it is this node's at once. It leaves out what one statement cannot settle
    /// on PostgreSQL.
    pub async fn message_settle_next(
        &self,
        settlements: &[Settlement],
        want: NextWant,
    ) -> Result<Settled, StoreError> {
        let (installation_id, now_ms) = (self.installation_id().await?, want.now_ms);
        let (written, rows, is_more) = match &self.parts.backend {
            Backend::Postgres(_) if !postgres::is_for_next(settlements) => {
                (vec![None; settlements.len()], Vec::new(), false)
            }
            Backend::Postgres(_) => {
                let (all, now) = (settlements.to_vec(), self.now(now_ms));
                alone!(self, worker, "message_settle", |db| {
                    limited(postgres::settle_next(db.pg()?, &all, &want, now)).await
                })?
            }
            Backend::Sqlite(_) => {
                let (settled, ring) = (self.sealed(settlements)?, self.ring.clone());
                let work = move |db: &mut rusqlite::Connection| {
                    sqlite::settle_next(db, &settled, ring.key_id(), &want)
                };
                self.on_writer("message_settle", work).await?
            }
        };
        Ok(Settled { written, next: self.readable(rows, &installation_id, now_ms).await, is_more })
    }

    /// Settles one that could not be settled together with others: it may wait for a lock, and the others do not wait
    /// for it.
    pub async fn message_settle_apart(&self, settlement: &Settlement) -> Result<bool, StoreError> {
        let settled = self.settle(std::slice::from_ref(settlement), Purpose::Writer).await?;
        Ok(settled.first().copied().unwrap_or_default())
    }

    async fn settle(&self, settlements: &[Settlement], purpose: Purpose) -> Result<Vec<bool>, StoreError> {
        const OP: &str = "message_settle";
        let (written, is_own_clock, ring) =
            (self.sealed(settlements)?, self.is_own_clock(), self.ring.clone());
        let backend = &self.parts.backend;
        match backend {
            // One statement where it can be.
            Backend::Postgres(_) if postgres::is_one_statement(settlements) => {
                backend
                    .alone(
                        OP,
                        purpose,
                        work!(|db| message_settle(db, &written, is_own_clock, ring.key_id()).await),
                    )
                    .await
            }
            Backend::Postgres(_) => {
                backend
                    .together(
                        OP,
                        purpose,
                        work!(|db| message_settle(db, &written, is_own_clock, ring.key_id()).await),
                    )
                    .await
            }
            Backend::Sqlite(_) => {
                self.on_writer(OP, move |db| sqlite::message_settle(db, &written, ring.key_id())).await
            }
        }
    }

    fn now(&self, ms: UnixMs) -> Now {
        Now { ms, is_theirs: self.is_own_clock() }
    }

    /// One whole transaction on SQLite's only writer, in one hop.
    async fn on_writer<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&mut rusqlite::Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let backend = self.parts.backend.clone();
        whole(op, OPERATION_LIMIT, async move {
            let Backend::Sqlite(db) = &backend else {
                let why = "this is for SQLite, and PostgreSQL is what there is";
                return Err(StoreError::from_db(op, DbError::unsaid(why)));
            };
            let answer = async {
                let turn = db.writer.turn().await;
                let _turn = turn.map_err(|error| StoreError::from_db(op, error))?;
                db.transact(op, work).await
            };
            let answer = answer.await;
            backend.note(&answer);
            answer
        })
        .await
    }
}

/// Settles on PostgreSQL, in a transaction unless one statement is enough.
async fn message_settle(
    db: &mut Executor<'_>,
    settlements: &[Settlement],
    is_own_clock: bool,
    key_id: Option<&str>,
) -> DbResult<Vec<bool>> {
    let lanes = lanes_of(settlements);
    lane::lanes_lock(db, &lanes).await?;
    let settled = postgres::message_settle(db.pg()?, settlements, is_own_clock, key_id).await?;
    lane::lanes_advance(db, &lanes, settlements.first().map_or(0, |one| one.settled_at_ms)).await?;
    Ok(settled)
}

const EXTEND: &str = "/* message_extend */ UPDATE outbox_queue
    SET visible_at_ms = CASE WHEN CAST($4 AS BIGINT) = 1 THEN {clock_ms} ELSE $3 END + CAST($5 AS BIGINT)
    WHERE message_id = $1 AND attempts_n = $2 AND state IS NOT DISTINCT FROM 'leased'";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const RARE_STATEMENTS: &[(&str, &str)] = &[
    ("message_extend", EXTEND),
    ("message_release", LOST),
    ("message_release attempts", LOST_ATTEMPTS),
    ("message_release back", LOST_BACK),
];

/// Both conditions on the state: the second one lets the index of what is due be used. And a question of its own for
/// the time: a clock that goes on while the statement runs would be asked for each row, and no index could be used for
/// it.
const LOST: &str = "/* message_release */ SELECT message_id,
        CASE WHEN CAST($4 AS BIGINT) = 1 THEN {clock_ms} ELSE $3 END AS now_ms
    FROM outbox_queue
    WHERE destination = ANY($1) AND state = 'leased' AND state IN ('ready', 'leased')
      AND visible_at_ms >= (SELECT CASE WHEN CAST($4 AS BIGINT) = 1 THEN {clock_ms} ELSE $3 END - CAST($5 AS BIGINT))
      AND node = ANY($2)
    ORDER BY message_id FOR UPDATE";
const LOST_ATTEMPTS: &str =
    "/* message_release */ INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms,
        finished_at_ms, result, error)
    SELECT message_id, attempts_n, shard, COALESCE(node, ''), COALESCE(leased_at_ms, created_at_ms),
        CAST($2 AS BIGINT), 'released',
        'the answer to its claim was lost'
    FROM outbox_queue WHERE message_id = ANY($1)
    ON CONFLICT (message_id, attempt_n) DO NOTHING";
const LOST_BACK: &str = concat!(
    "/* message_release */ UPDATE outbox_queue
    SET state = 'ready', visible_at_ms = $2, attempts_before_n = attempts_before_n + 1,
        last_result = CASE last_result WHEN 'unknown' THEN 'unknown' ELSE 'released' END,
        last_error = 'handed back: the answer to its claim was lost',
        last_ended_at_ms = COALESCE(last_ended_at_ms, $2),
        first_sent_at_ms = CASE WHEN NOT (",
    claim_was_first!(),
    ") THEN first_sent_at_ms END,
        key_valid_until_ms = CASE WHEN NOT (",
    claim_was_first!(),
    ") THEN key_valid_until_ms END
    WHERE message_id = ANY($1) AND state IS NOT DISTINCT FROM 'leased'"
);
