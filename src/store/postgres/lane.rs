//! Lanes: the numbers of new messages, and whose turn it is. Whoever comes here locks the lanes' rows first and
//! messages after them.

use sqlx::{PgConnection, Row};

use crate::types::UnixMs;

/// Adds `n` places at the end of each lane, in the given order; gives back head and new tail of each.
pub(in crate::store) async fn lanes_extend(
    db: &mut PgConnection,
    lanes: &[(&str, &str, i64)],
) -> sqlx::Result<Vec<(i64, i64)>> {
    let mut found = Vec::with_capacity(lanes.len());
    for (destination, lane, n) in lanes {
        let row = sqlx::query(
            "INSERT INTO outbox_lanes (destination, lane, tail_seq) VALUES ($1, $2, $3)
             ON CONFLICT (destination, lane) DO UPDATE SET tail_seq = outbox_lanes.tail_seq + excluded.tail_seq
             RETURNING head_seq, tail_seq",
        )
        .bind(destination)
        .bind(lane)
        .bind(n)
        .fetch_one(&mut *db)
        .await?;
        found.push((row.try_get(0)?, row.try_get(1)?));
    }
    Ok(found)
}

/// Locks the lanes of these messages, in one order for everybody.
pub(in crate::store) async fn lanes_lock(db: &mut PgConnection, message_ids: &[String]) -> sqlx::Result<()> {
    sqlx::query(
        "SELECT 1 FROM outbox_lanes WHERE (destination, lane) IN (
             SELECT destination, lane FROM outbox_messages WHERE lane IS NOT NULL AND message_id = ANY($1))
         ORDER BY destination, lane FOR UPDATE",
    )
    .bind(message_ids)
    .execute(db)
    .await
    .map(drop)
}

/// Moves the head of each of these messages' lanes to its first message that is neither done nor discarded,
/// and makes that one due if it waited, now by whichever clock is behind: nobody waits for a clock. The lanes are
/// locked.
pub(in crate::store) async fn lanes_advance(
    db: &mut PgConnection,
    message_ids: &[String],
    now_ms: UnixMs,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE outbox_lanes
         SET head_seq = COALESCE(
             (SELECT MIN(m.lane_seq) FROM outbox_messages m
              WHERE m.destination = outbox_lanes.destination AND m.lane = outbox_lanes.lane
                AND m.lane_seq >= outbox_lanes.head_seq AND m.state NOT IN ('done', 'discarded')),
             tail_seq + 1)
         WHERE (destination, lane) IN (
             SELECT destination, lane FROM outbox_messages WHERE lane IS NOT NULL AND message_id = ANY($1))",
    )
    .bind(message_ids)
    .execute(&mut *db)
    .await?;
    sqlx::query(
        "UPDATE outbox_messages SET state = 'ready', visible_at_ms = LEAST($2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
         WHERE state = 'waiting' AND lane IS NOT NULL AND (destination, lane, lane_seq) IN (
             SELECT l.destination, l.lane, l.head_seq FROM outbox_lanes l WHERE (l.destination, l.lane) IN (
                 SELECT destination, lane FROM outbox_messages WHERE lane IS NOT NULL AND message_id = ANY($1)))",
    )
    .bind(message_ids)
    .bind(now_ms)
    .execute(db)
    .await
    .map(drop)
}
