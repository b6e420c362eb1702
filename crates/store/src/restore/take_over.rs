//! Takes a restored database over: its work continues, and nothing gets an id or a key that something else had.
//!
//! The rows that change when a restored database is taken over.
//!
//! The types of a restore that is taken over.

use super::facts::{LostTime, newest_at};
use super::standing::{DatabaseIdentity, identity, restore_note};
use crate::audit::{AuditEntry, append};
use crate::db::{DbResult, Executor, StoreError};
use crate::handle::Store;
use hooklatch_core::types::UnixMs;

/// 2026-01-01: since then the seconds of a restore are counted.
const EPOCH_S: i64 = 1_767_225_600;
/// Numbers of events that no installation uses up in a second.
const NUMBERS_PER_S: i64 = 262_144;
/// Messages of one transaction.
const MARKED_N_MAX: u32 = 5_000;

impl Store {
    /// Takes a restored database over. No node may run on it meanwhile. After an interruption, call it again.
    ///
    /// Open messages count as sent with an unknown outcome: at the time of the backup for the expiry of their keys, and
    /// at the time of the restore for the earliest query about them. `unknown` of their destination decides about them.
    /// Numbers of events, firings of signals and further runs continue above the number of seconds since 2026: an
    /// installation restored earlier from the same backup began lower, and none counts faster than that.
    pub async fn restore_take_over(&self, word: TakeOver) -> Result<TakenOver, StoreError> {
        let newest_at_ms: UnixMs = alone!(self.reader.newest_moment())?;
        let from_ms = word.from_ms.unwrap_or(newest_at_ms);
        let restored_s = (word.now_ms / 1_000).saturating_sub(EPOCH_S).max(1);
        let lost = LostTime { from_ms, until_ms: word.until_ms.max(from_ms), restored_s };
        let event_seq = restored_s.saturating_mul(NUMBERS_PER_S);
        let (mut after, mut messages_n) = (Some(-1), 0);
        while let Some(place) = after {
            let (next, n): (Option<i64>, u64) = together!(self.restore_mark(place, &lost, MARKED_N_MAX))?;
            after = next;
            messages_n += n;
        }
        let now = identity(&self.parts.backend).await?;
        let (witnessed_n, now_ms) = (self.witness_seen_n().await?, word.now_ms);
        let taking = TakeOverRecord { word, lost, event_seq, witnessed_n };
        let taken: TakenOver = together!(self.restore_finish(&taking, now.as_ref()))?;
        self.witness_end(now_ms, false).await?;
        Ok(TakenOver { messages_n, ..taken })
    }

    /// Records that nothing is missing: the same database in another place.
    pub async fn restore_is_moved(&self, reason: &str, now_ms: UnixMs) -> Result<(), StoreError> {
        let now = identity(&self.parts.backend).await?;
        let (reason, witnessed_n) = (reason.to_owned(), self.witness_seen_n().await?);
        let moving = MoveRecord { reason, witnessed_n, now_ms };
        together!(self.restore_moved(now.as_ref(), &moving))?;
        self.witness_end(now_ms, false).await
    }
}

async fn newest_moment(db: &mut Executor<'_>) -> DbResult<UnixMs> {
    newest_at(db).await
}

/// The actor in the audit log: the command has no token.
const ACTOR: &str = "restore-check";

/// Marks some of the open messages, from `place` on, as sent with an unknown outcome. Returns where to go on.
pub(super) async fn restore_mark(
    db: &mut Executor<'_>,
    place: i64,
    lost: &LostTime,
    limit: u32,
) -> DbResult<(Option<i64>, u64)> {
    let sql = "/* restore_mark */ SELECT message_id FROM outbox_queue
               WHERE message_id > $1 ORDER BY message_id LIMIT $2";
    let rows = db.fetch(sql, &[place.into(), limit.into()]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<_>>()?;
    let last = ids.last().copied();
    // The lease of a node that is gone ends now, and its call is one more with an unknown outcome. What was sent in
    // the time that is lost began at its start at the earliest (so long the destination may have known the key), and
    // ended at its end at the latest (from then on it may be asked).
    let sql = "/* restore_mark */ UPDATE outbox_queue
               SET state = CASE WHEN state = 'leased' THEN 'ready' ELSE state END,
                   visible_at_ms = CASE WHEN state = 'leased' THEN LEAST(visible_at_ms, $2) ELSE visible_at_ms END,
                   first_sent_at_ms = COALESCE(first_sent_at_ms, $2), last_result = 'unknown',
                   last_ended_at_ms = CASE WHEN last_ended_at_ms > $3 THEN last_ended_at_ms ELSE $3 END,
                   last_error = 'it may have been sent since the backup that was restored'
               WHERE message_id = ANY($1) AND state IN ('ready', 'leased', 'waiting')";
    let values = [ids.clone().into(), lost.from_ms.into(), lost.until_ms.into()];
    let changed_n = db.execute(sql, &values).await?;
    // Of what is held or dead, too: an operator may have had it sent meanwhile.
    let sql = "/* restore_mark */ UPDATE outbox_queue
               SET sent_under = COALESCE(LEAST(sent_under, 'restored'), sent_under, 'restored')
               WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.into()]).await?;
    Ok((last, changed_n))
}

/// Everything else, as one transaction: with it the database is taken over.
pub(super) async fn restore_finish(
    db: &mut Executor<'_>,
    taking: &TakeOverRecord,
    now: Option<&DatabaseIdentity>,
) -> DbResult<TakenOver> {
    let word = &taking.word;
    let sql = "/* restore_take_over */ INSERT INTO restores (restored_s, from_ms, until_ms, reason)
               VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let values = [
        taking.lost.restored_s.into(),
        taking.lost.from_ms.into(),
        taking.lost.until_ms.into(),
        word.reason.as_str().into(),
    ];
    db.execute(sql, &values).await?;
    let sql = "/* restore_take_over */ UPDATE installation
               SET restored_s = GREATEST(restored_s, $1), backup_at_ms = NULL,
                   witnessed_n = GREATEST(witnessed_n, $2) + 1";
    db.execute(sql, &[taking.lost.restored_s.into(), taking.witnessed_n.into()]).await?;
    numbers_raise(db, taking.event_seq).await?;
    let sql = "/* restore_take_over */ UPDATE operations
               SET state = 'cancelled', cancelled_by = $1, finished_at_ms = $2 WHERE finished_at_ms IS NULL";
    let operations_n = db.execute(sql, &[ACTOR.into(), word.now_ms.into()]).await?;
    let sessions_n = db.execute("/* restore_take_over */ DELETE FROM operator_sessions", &[]).await?;
    let sql = "/* restore_take_over */ UPDATE operator_tokens SET revoked_at_ms = $1
               WHERE revoked_at_ms IS NULL AND expires_at_ms > $1";
    let tokens_n = if word.are_tokens_kept { 0 } else { db.execute(sql, &[word.now_ms.into()]).await? };
    let mut paused_n = 0;
    for name in &word.paused {
        let sql = "/* restore_take_over */ INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms)
                   VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let pause = [name.as_str().into(), ACTOR.into(), word.reason.as_str().into(), word.now_ms.into()];
        paused_n += db.execute(sql, &pause).await?;
    }
    if let Some(now) = now {
        restore_note(db, now).await?;
    }
    let taken = TakenOver {
        from_ms: taking.lost.from_ms,
        until_ms: taking.lost.until_ms,
        messages_n: 0,
        operations_n,
        tokens_n,
        sessions_n,
        paused_n,
    };
    let detail = format!("from {} until {}: {}", taken.from_ms, taken.until_ms, word.reason);
    append(db, word.now_ms, &[entry("restore_take_over", detail)]).await?;
    Ok(taken)
}

/// Continues the numbers of events from `event_seq`, or from where they are if that is more.
async fn numbers_raise(db: &mut Executor<'_>, event_seq: i64) -> DbResult<()> {
    let sql = if db.is_postgres() {
        "/* restore_take_over */ SELECT setval('event_blocks', GREATEST($1, (SELECT last_value FROM event_blocks))) AS n"
    } else {
        "/* restore_take_over */ UPDATE event_blocks SET next_seq = MAX(next_seq, $1) RETURNING next_seq AS n"
    };
    db.fetch_one(sql, &[event_seq.into()]).await.map(drop)
}

/// Nothing is missing: only where it is has changed.
pub(super) async fn restore_moved(
    db: &mut Executor<'_>,
    now: Option<&DatabaseIdentity>,
    moving: &MoveRecord,
) -> DbResult<()> {
    let sql = "/* restore_moved */ UPDATE installation
               SET backup_at_ms = NULL, witnessed_n = GREATEST(witnessed_n, $1) + 1";
    db.execute(sql, &[moving.witnessed_n.into()]).await?;
    if let Some(now) = now {
        restore_note(db, now).await?;
    }
    append(db, moving.now_ms, &[entry("restore_moved", moving.reason.clone())]).await
}

fn entry(action: &'static str, detail: String) -> AuditEntry {
    AuditEntry { actor: ACTOR.to_owned(), action, detail, ..AuditEntry::default() }
}

/// An operator's decision about a restored database.
#[derive(Debug, Clone)]
pub struct TakeOver {
    /// The newest moment that it knows of; `None`: that of its newest event.
    pub from_ms: Option<UnixMs>,
    /// The moment when nothing was acknowledged any more by whom it was restored from.
    pub until_ms: UnixMs,
    /// Destinations that are paused, so that an operator looks before anything is sent.
    pub paused: Vec<String>,
    /// True when tokens that were made at run time stay good: some of them may have been revoked since.
    pub are_tokens_kept: bool,
    /// Reason, for the audit log.
    pub reason: String,
    /// When it is ordered, as it is now.
    pub now_ms: UnixMs,
}

/// What was done to take a restored database over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Time that the restore took away, and when it was taken over.
    pub from_ms: UnixMs,
    /// The end of it.
    pub until_ms: UnixMs,
    /// Open messages of which it is unknown whether they were sent.
    pub messages_n: u64,
    /// Operations that were running, and were cancelled.
    pub operations_n: u64,
    /// Tokens that were revoked.
    pub tokens_n: u64,
    /// Sessions of operators that were ended.
    pub sessions_n: u64,
    /// Destinations that were paused.
    pub paused_n: u64,
}

/// The record that is written: the decision, and the numbers that follow from it.
#[derive(Debug, Clone)]
pub(super) struct TakeOverRecord {
    pub word: TakeOver,
    pub lost: LostTime,
    /// Where the numbers of events go on.
    pub event_seq: i64,
    /// What the witness has seen.
    pub(super) witnessed_n: i64,
}

/// The record that is written when nothing is missing.
#[derive(Debug, Clone)]
pub(super) struct MoveRecord {
    pub reason: String,
    /// What the witness has seen.
    pub(super) witnessed_n: i64,
    pub now_ms: UnixMs,
}
