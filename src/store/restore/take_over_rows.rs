//! The rows that change when a restored database is taken over.

use super::lost_time::LostTime;
use super::standing::{DatabaseIdentity, restore_note};
use super::types::{Moving, TakenOver, Taking};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door};

/// Who is named where a person is: the command has no token.
const ACTOR: &str = "restore-check";

/// Some of the open messages, from `place` on: nobody knows any more whether they were sent. Gives back where to go on.
pub(super) async fn restore_mark(
    db: &mut Door<'_>,
    place: i64,
    lost: &LostTime,
    limit: u32,
) -> DbResult<(Option<i64>, u64)> {
    let sql = "/* restore_mark */ SELECT message_id FROM outbox_queue
               WHERE message_id > $1 ORDER BY message_id LIMIT $2";
    let rows = db.fetch(sql, &[place.into(), limit.into()]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<_>>()?;
    let last = ids.last().copied();
    // The lease of a node that is gone ends now, and its call was one more that nobody knows the end of. What was sent in
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
    // Of what is held or dead, too: a person may have had it sent meanwhile.
    let sql = "/* restore_mark */ UPDATE outbox_queue
               SET sent_under = COALESCE(LEAST(sent_under, 'restored'), sent_under, 'restored')
               WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.into()]).await?;
    Ok((last, changed_n))
}

/// Everything else, as one transaction: with it the database is taken over.
pub(super) async fn restore_finish(
    db: &mut Door<'_>,
    taking: &Taking,
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

/// Lets the numbers of events go on from `event_seq`, or from where they are if that is more.
async fn numbers_raise(db: &mut Door<'_>, event_seq: i64) -> DbResult<()> {
    let sql = if db.is_postgres() {
        "/* restore_take_over */ SELECT setval('event_blocks', GREATEST($1, (SELECT last_value FROM event_blocks))) AS n"
    } else {
        "/* restore_take_over */ UPDATE event_blocks SET next_seq = MAX(next_seq, $1) RETURNING next_seq AS n"
    };
    db.fetch_one(sql, &[event_seq.into()]).await.map(drop)
}

/// Nothing is missing: only where it is has changed.
pub(super) async fn restore_moved(
    db: &mut Door<'_>,
    now: Option<&DatabaseIdentity>,
    moving: &Moving,
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
