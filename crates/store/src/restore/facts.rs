//! Facts about a restored database, for the operator who restored it.
//!
//! The time of which a restore lost the records.

use crate::db::{DbResult, Executor, Row, StoreError};
use crate::handle::Store;
use crate::message::message_state;
use hooklatch_core::types::{MessageState, UnixMs};

/// The newest events that are looked at, and most messages of a kind that are counted.
const LOOKED_N_MAX: i64 = 100_000;
const DAY_MS: i64 = 86_400_000;

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

impl Store {
    /// What a restored database knows, as it is now.
    pub async fn restore_facts(&self) -> Result<RestoreFacts, StoreError> {
        snapshot!(self.restore_facts())
    }
}

async fn restore_facts(db: &mut Executor<'_>) -> DbResult<RestoreFacts> {
    let newest_at_ms = newest_at(db).await?;
    let sql = "/* restore_facts */ SELECT installation_id, (SELECT COUNT(*) FROM restores) AS restores_n,
            (SELECT COALESCE(MAX(audit_seq), 0) FROM audit_log) AS audit_seq,
            (SELECT COUNT(*) FROM operations WHERE finished_at_ms IS NULL) AS operations_n,
            (SELECT COUNT(*) FROM operator_tokens WHERE revoked_at_ms IS NULL AND expires_at_ms > $1) AS tokens_n
        FROM installation";
    let row = db.fetch_one(sql, &[newest_at_ms.into()]).await?;
    let counted = |row: &Row, column: &str| row.int(column).map(i64::unsigned_abs);
    let sql = "/* restore_facts */ SELECT COUNT(*) AS n FROM (
                   SELECT 1 FROM processed_webhook_events WHERE state IN ('retry', 'failed', 'unreadable', 'conflict')
                       AND state = 'retry' LIMIT $1) few";
    let retry = db.fetch_one(sql, &[LOOKED_N_MAX.into()]).await?;
    Ok(RestoreFacts {
        installation_id: row.text("installation_id")?,
        newest_at_ms,
        restores_n: counted(&row, "restores_n")?,
        providers: providers(db, newest_at_ms).await?,
        open: open(db).await?,
        retry_n: counted(&retry, "n")?,
        operations_n: counted(&row, "operations_n")?,
        tokens_n: counted(&row, "tokens_n")?,
        audit_seq: row.int("audit_seq")?,
    })
}

/// Numbers of several nodes are in the order of time to some seconds: the newest is among the last few.
pub(super) async fn newest_at(db: &mut Executor<'_>) -> DbResult<UnixMs> {
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

impl Store {
    /// The times that restores took away, the newest last. Each counts for itself: what the first one may have seen
    /// may have been sent long before the last one.
    pub async fn lost_times(&self) -> Result<Vec<LostTime>, StoreError> {
        alone!(self.reader.lost_times())
    }
}

async fn lost_times(db: &mut Executor<'_>) -> DbResult<Vec<LostTime>> {
    let sql = "/* lost_times */ SELECT from_ms, until_ms, restored_s FROM restores ORDER BY restored_s";
    let rows = db.fetch(sql, &[]).await?;
    let one = |row: &Row| {
        Ok(LostTime {
            from_ms: row.int("from_ms")?,
            until_ms: row.int("until_ms")?,
            restored_s: row.int("restored_s")?,
        })
    };
    rows.iter().map(one).collect()
}

#[cfg(test)]
mod lost_time_tests {
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
