//! Restored databases: a database that is a copy of an earlier state of its installation. How a copy is made on SQLite,
//! how a start detects that it runs on one (`state.rs`), and how it is taken over without repeating any effect.
//!
//! Idempotency keys never change: an event that a sender sends once more gets the keys that it had, so the destination
//! recognizes them. Counters (numbers of events, firings of signals, further runs) would give the same keys to other
//! things, and continue above all that may have been given: see [`Store::restore_take_over`]. `docs/backup.md` explains
//! it to operators.

mod state;

use self::state::{identity, restore_note};
use crate::audit::{AuditEntry, append};
use crate::db::{DbResult, Executor, Row, StoreError};
use crate::handle::Store;
use crate::message::message_state;
use hooklatch_core::types::{MessageState, UnixMs};

pub(crate) use state::{DatabaseIdentity, IDENTITY, restore_identity, state_of};
pub use state::{RestoreState, WitnessFinding, WitnessState};

/// The newest events that are looked at, and most messages of a kind that are counted.
const LOOKED_N_MAX: i64 = 100_000;
const DAY_MS: i64 = 86_400_000;
/// 2026-01-01: since then the seconds of a restore are counted.
const EPOCH_S: i64 = 1_767_225_600;
/// Numbers of events that no installation uses up in a second.
const NUMBERS_PER_S: i64 = 262_144;
/// Messages of one transaction.
const MARKED_N_MAX: u32 = 5_000;
/// The actor in the audit log: the command has no token.
const ACTOR: &str = "restore-check";

/// What a restored database knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreFacts {
    /// Id of the installation.
    pub installation_id: String,
    /// The newest moment that it knows of: nothing that was committed before is missing.
    pub newest_at_ms: UnixMs,
    /// Restores before this one.
    pub restores_n: u64,
    /// Traces of each provider among the newest events.
    pub providers: Vec<ProviderTrace>,
    /// Messages that are open, by destination and state.
    pub open: Vec<OpenCount>,
    /// Events that wait to be dispatched again.
    pub retry_n: u64,
    /// Operations that were running.
    pub operations_n: u64,
    /// Tokens that were made at run time and are good.
    pub tokens_n: u64,
    /// Number of the newest row of the audit log; 0: it has none.
    pub audit_seq: i64,
}

/// The last that is known of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderTrace {
    /// Name of the provider.
    pub provider: String,
    /// Time when its newest event was received.
    pub newest_at_ms: UnixMs,
    /// Events of the day before the newest moment.
    pub day_n: u64,
}

/// Open messages of one destination in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCount {
    /// Name of the destination.
    pub destination: String,
    /// State that they are in.
    pub state: MessageState,
    /// Number of them, counted up to a bound.
    pub messages_n: u64,
    /// When the oldest of those that were sent before was sent first.
    pub first_sent_at_ms: Option<UnixMs>,
}

/// Senders' clocks may be ahead of ours by so much. Milliseconds.
const AHEAD_MS: i64 = 10_000;
/// For so long after a restore an event that does not say when it happened may be one of before. Milliseconds.
const UNDATED_MS: i64 = 259_200_000;

/// Time of which no records are left: requests of that time were acknowledged, and their messages may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostTime {
    /// The newest moment that the restored tables know of.
    pub from_ms: UnixMs,
    /// The moment when the restore was taken over.
    pub until_ms: UnixMs,
    /// What an operator ordered since then has a generation above this one.
    pub restored_s: i64,
}

impl LostTime {
    /// Time since when an event may have been known to the installation that was, if it may: one that was `created` at
    /// its sender before that ended, or that was here before. One without a time may be, for three days.
    pub fn may_have_seen(&self, created_at_ms: Option<UnixMs>, received_at_ms: UnixMs) -> Option<UnixMs> {
        let undated_until_ms = self.until_ms.saturating_add(UNDATED_MS);
        let may_be = match created_at_ms {
            _ if received_at_ms <= self.until_ms => true,
            Some(at_ms) => at_ms.saturating_sub(AHEAD_MS) <= self.until_ms,
            None => received_at_ms <= undated_until_ms,
        };
        let since_ms = created_at_ms.map_or(self.from_ms, |at_ms| at_ms.saturating_sub(AHEAD_MS));
        may_be.then(|| since_ms.clamp(self.from_ms, self.until_ms.max(self.from_ms)))
    }
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

impl Store {
    /// What a restored database knows, as it is now.
    pub async fn restore_facts(&self) -> Result<RestoreFacts, StoreError> {
        snapshot!(self.restore_facts())
    }

    /// The times that restores took away, the newest last. Each counts for itself: what the first one may have seen
    /// may have been sent long before the last one.
    pub async fn lost_times(&self) -> Result<Vec<LostTime>, StoreError> {
        alone!(self, reader, "lost_times", |db| {
            let sql =
                "/* lost_times */ SELECT from_ms, until_ms, restored_s FROM restores ORDER BY restored_s";
            let one = |row: &Row| {
                Ok(LostTime {
                    from_ms: row.int("from_ms")?,
                    until_ms: row.int("until_ms")?,
                    restored_s: row.int("restored_s")?,
                })
            };
            db.fetch(sql, &[]).await?.iter().map(one).collect()
        })
    }

    /// Takes a restored database over. No node may run on it meanwhile. After an interruption, call it again.
    ///
    /// Open messages count as sent with an unknown outcome: at the time of the backup for the expiry of their keys, and
    /// at the time of the restore for the earliest query about them. `unknown` of their destination decides about them.
    /// Numbers of events, firings of signals and further runs continue above the number of seconds since 2026: an
    /// installation restored earlier from the same backup began lower, and none counts faster than that.
    pub async fn restore_take_over(&self, order: TakeOver) -> Result<TakenOver, StoreError> {
        let newest_at_ms: UnixMs = alone!(self.reader.newest_at())?;
        let from_ms = order.from_ms.unwrap_or(newest_at_ms);
        let restored_s = (order.now_ms / 1_000).saturating_sub(EPOCH_S).max(1);
        let lost = LostTime { from_ms, until_ms: order.until_ms.max(from_ms), restored_s };
        let (mut after, mut messages_n) = (Some(-1), 0);
        while let Some(place) = after {
            let (next, n): (Option<i64>, u64) = together!(self.restore_mark(place, &lost))?;
            after = next;
            messages_n += n;
        }
        let now = identity(&self.parts.backend).await?;
        let (witnessed_n, now_ms) = (self.witness_seen_n().await?, order.now_ms);
        let taken: TakenOver = together!(self.restore_finish(&order, &lost, witnessed_n, now.as_ref()))?;
        self.witness_end(now_ms, false).await?;
        Ok(TakenOver { messages_n, ..taken })
    }

    /// Records that nothing is missing: the same database in another place.
    pub async fn restore_is_moved(&self, reason: &str, now_ms: UnixMs) -> Result<(), StoreError> {
        let now = identity(&self.parts.backend).await?;
        let (reason, witnessed_n) = (reason.to_owned(), self.witness_seen_n().await?);
        together!(self, writer, "restore_moved", |db| {
            let sql = "/* restore_moved */ UPDATE installation
                SET backup_at_ms = NULL, witnessed_n = GREATEST(witnessed_n, $1) + 1";
            db.execute(sql, &[witnessed_n.into()]).await?;
            if let Some(now) = &now {
                restore_note(db, now).await?;
            }
            append(db, now_ms, &[entry("restore_moved", reason)]).await
        })?;
        self.witness_end(now_ms, false).await
    }
}

async fn restore_facts(db: &mut Executor<'_>) -> DbResult<RestoreFacts> {
    let newest_at_ms = newest_at(db).await?;
    let sql = "/* restore_facts */ SELECT installation_id, (SELECT COUNT(*) FROM restores) AS restores_n,
            (SELECT COALESCE(MAX(audit_seq), 0) FROM audit_log) AS audit_seq,
            (SELECT COUNT(*) FROM operations WHERE finished_at_ms IS NULL) AS operations_n,
            (SELECT COUNT(*) FROM operator_tokens WHERE revoked_at_ms IS NULL AND expires_at_ms > $1) AS tokens_n,
            (SELECT COUNT(*) FROM (
                SELECT 1 FROM processed_webhook_events WHERE state IN ('retry', 'failed', 'unreadable', 'conflict')
                    AND state = 'retry' LIMIT $2) few) AS retry_n
        FROM installation";
    let row = db.fetch_one(sql, &[newest_at_ms.into(), LOOKED_N_MAX.into()]).await?;
    let counted = |column: &str| row.int(column).map(i64::unsigned_abs);
    Ok(RestoreFacts {
        installation_id: row.text("installation_id")?,
        newest_at_ms,
        restores_n: counted("restores_n")?,
        providers: providers(db, newest_at_ms).await?,
        open: open(db).await?,
        retry_n: counted("retry_n")?,
        operations_n: counted("operations_n")?,
        tokens_n: counted("tokens_n")?,
        audit_seq: row.int("audit_seq")?,
    })
}

/// Numbers of several nodes are in the order of time to some seconds: the newest is among the last few.
async fn newest_at(db: &mut Executor<'_>) -> DbResult<UnixMs> {
    let sql = "/* restore_facts */ SELECT COALESCE(MAX(received_at_ms), (SELECT created_at_ms FROM installation)) AS at_ms
               FROM (SELECT received_at_ms FROM processed_webhook_events ORDER BY event_seq DESC LIMIT 1000) few";
    db.fetch_one(sql, &[]).await?.int("at_ms")
}

async fn providers(db: &mut Executor<'_>, newest_at_ms: UnixMs) -> DbResult<Vec<ProviderTrace>> {
    let sql = "/* restore_facts */ SELECT provider, MAX(received_at_ms) AS at_ms,
                   CAST(SUM(CASE WHEN received_at_ms > $1 THEN 1 ELSE 0 END) AS BIGINT) AS day_n
               FROM (SELECT provider, received_at_ms FROM processed_webhook_events ORDER BY event_seq DESC LIMIT $2) few
               GROUP BY provider ORDER BY provider";
    let rows = db.fetch(sql, &[newest_at_ms.saturating_sub(DAY_MS).into(), LOOKED_N_MAX.into()]).await?;
    let one = |row: &Row| {
        Ok(ProviderTrace {
            provider: row.text("provider")?,
            newest_at_ms: row.int("at_ms")?,
            day_n: row.int("day_n")?.unsigned_abs(),
        })
    };
    rows.iter().map(one).collect()
}

async fn open(db: &mut Executor<'_>) -> DbResult<Vec<OpenCount>> {
    let sql = "/* restore_facts */ SELECT destination, state, COUNT(*) AS n, MIN(first_sent_at_ms) AS first_sent_at_ms
               FROM (SELECT destination, state, first_sent_at_ms FROM outbox_queue ORDER BY message_id LIMIT $1) few
               GROUP BY destination, state ORDER BY destination, state";
    let rows = db.fetch(sql, &[LOOKED_N_MAX.into()]).await?;
    let one = |row: &Row| {
        Ok(OpenCount {
            destination: row.text("destination")?,
            state: message_state(row)?,
            messages_n: row.int("n")?.unsigned_abs(),
            first_sent_at_ms: row.int_or_null("first_sent_at_ms")?,
        })
    };
    rows.iter().map(one).collect()
}

/// Marks some of the open messages, from `place` on, as sent with an unknown outcome. Returns where to go on.
async fn restore_mark(db: &mut Executor<'_>, place: i64, lost: &LostTime) -> DbResult<(Option<i64>, u64)> {
    let sql = "/* restore_mark */ SELECT message_id FROM outbox_queue
               WHERE message_id > $1 ORDER BY message_id LIMIT $2";
    let rows = db.fetch(sql, &[place.into(), MARKED_N_MAX.into()]).await?;
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
async fn restore_finish(
    db: &mut Executor<'_>,
    order: &TakeOver,
    lost: &LostTime,
    witnessed_n: i64,
    now: Option<&DatabaseIdentity>,
) -> DbResult<TakenOver> {
    let sql = "/* restore_take_over */ INSERT INTO restores (restored_s, from_ms, until_ms, reason)
               VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let values =
        [lost.restored_s.into(), lost.from_ms.into(), lost.until_ms.into(), order.reason.as_str().into()];
    db.execute(sql, &values).await?;
    let sql = "/* restore_take_over */ UPDATE installation
               SET restored_s = GREATEST(restored_s, $1), backup_at_ms = NULL,
                   witnessed_n = GREATEST(witnessed_n, $2) + 1";
    db.execute(sql, &[lost.restored_s.into(), witnessed_n.into()]).await?;
    numbers_raise(db, lost.restored_s.saturating_mul(NUMBERS_PER_S)).await?;
    let sql = "/* restore_take_over */ UPDATE operations
               SET state = 'cancelled', cancelled_by = $1, finished_at_ms = $2 WHERE finished_at_ms IS NULL";
    let operations_n = db.execute(sql, &[ACTOR.into(), order.now_ms.into()]).await?;
    let sessions_n = db.execute("/* restore_take_over */ DELETE FROM operator_sessions", &[]).await?;
    let sql = "/* restore_take_over */ UPDATE operator_tokens SET revoked_at_ms = $1
               WHERE revoked_at_ms IS NULL AND expires_at_ms > $1";
    let tokens_n = if order.are_tokens_kept { 0 } else { db.execute(sql, &[order.now_ms.into()]).await? };
    let mut paused_n = 0;
    for name in &order.paused {
        let sql = "/* restore_take_over */ INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms)
                   VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let pause = [name.as_str().into(), ACTOR.into(), order.reason.as_str().into(), order.now_ms.into()];
        paused_n += db.execute(sql, &pause).await?;
    }
    if let Some(now) = now {
        restore_note(db, now).await?;
    }
    let taken = TakenOver {
        from_ms: lost.from_ms,
        until_ms: lost.until_ms,
        messages_n: 0,
        operations_n,
        tokens_n,
        sessions_n,
        paused_n,
    };
    let detail = format!("from {} until {}: {}", taken.from_ms, taken.until_ms, order.reason);
    append(db, order.now_ms, &[entry("restore_take_over", detail)]).await?;
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

fn entry(action: &'static str, detail: String) -> AuditEntry {
    AuditEntry { actor: ACTOR.to_owned(), action, detail, ..AuditEntry::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_may_have_been_there_counts_from_when_it_may_have_been_sent() {
        const DAY_MS: i64 = 86_400_000;
        let lost = LostTime { from_ms: 10 * DAY_MS, until_ms: 12 * DAY_MS, restored_s: 1 };
        for (what, created, received, wanted) in [
            ("it was here before the backup", None, 9 * DAY_MS, Some(10 * DAY_MS)),
            ("and says when it happened", Some(8 * DAY_MS), 9 * DAY_MS, Some(10 * DAY_MS)),
            ("from before the backup, and comes late", Some(DAY_MS), 13 * DAY_MS, Some(10 * DAY_MS)),
            ("from the lost time", Some(11 * DAY_MS), 13 * DAY_MS, Some(11 * DAY_MS - AHEAD_MS)),
            ("a clock is ahead", Some(12 * DAY_MS + AHEAD_MS), 13 * DAY_MS, Some(12 * DAY_MS)),
            ("new", Some(12 * DAY_MS + AHEAD_MS + 1), 13 * DAY_MS, None),
            ("undated, soon after", None, 15 * DAY_MS, Some(10 * DAY_MS)),
            ("undated, later", None, 15 * DAY_MS + 1, None),
        ] {
            assert_eq!(lost.may_have_seen(created, received), wanted, "{what}");
        }
        // A clock that was set back does not turn the times around.
        let odd = LostTime { from_ms: 12 * DAY_MS, until_ms: 10 * DAY_MS, restored_s: 1 };
        assert_eq!(odd.may_have_seen(None, 11 * DAY_MS), Some(12 * DAY_MS));
    }
}
