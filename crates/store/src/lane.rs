//! Lanes: messages of one key, in order, one at a time. Here are the numbers of new messages, and which message of a
//! lane is next. An operation locks the lanes' rows first, in the same order everywhere, and messages after them. The
//! head of a lane is its lowest number left in the queue. [`sqlite`] is the twin for the writer's thread.

use std::collections::HashMap;

use super::db::{DbError, DbResult, Executor, Value};
use hooklatch_core::types::UnixMs;

/// A destination and a lane of it. Their order, byte by byte, is the one in which they are locked.
pub(crate) type Lane = (String, String);

const EXTEND: &str = "/* lanes_extend */ INSERT INTO outbox_lanes (destination, lane, tail_seq, used_at_ms)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (destination, lane) DO UPDATE SET tail_seq = outbox_lanes.tail_seq + excluded.tail_seq,
        used_at_ms = excluded.used_at_ms
    RETURNING head_seq, tail_seq";
/// The same for several on PostgreSQL, which inserts in the order of the arrays.
const EXTEND_ALL: &str = "/* lanes_extend */ INSERT INTO outbox_lanes (destination, lane, tail_seq, used_at_ms)
    SELECT destination, lane, n, $4 FROM unnest($1::text[], $2::text[], $3::bigint[]) AS t (destination, lane, n)
    ON CONFLICT (destination, lane) DO UPDATE SET tail_seq = outbox_lanes.tail_seq + excluded.tail_seq,
        used_at_ms = excluded.used_at_ms
    RETURNING destination, lane, head_seq, tail_seq";
const LOCK: &str = "/* lanes_lock */ SELECT 1 AS locked FROM outbox_lanes
    WHERE destination = $1 AND lane = ANY($2) ORDER BY lane FOR UPDATE";
/// The new head's message is asked for by a question of its own: in a join, what the planner believes of the queue's
/// size would decide which side is read first.
const HEADS: &str = "/* lanes_advance */ UPDATE outbox_lanes
    SET head_seq = COALESCE((SELECT MIN(q.lane_seq) FROM outbox_queue q
                             WHERE q.destination = outbox_lanes.destination AND q.lane = outbox_lanes.lane
                               AND q.lane IS NOT NULL), tail_seq + 1),
        used_at_ms = GREATEST(used_at_ms, CAST($3 AS BIGINT))
    WHERE destination = $1 AND lane = ANY($2)
    RETURNING (SELECT q.message_id FROM outbox_queue q
               WHERE q.destination = outbox_lanes.destination AND q.lane = outbox_lanes.lane
                 AND q.lane_seq = outbox_lanes.head_seq AND q.lane IS NOT NULL) AS message_id";
/// `IS NOT DISTINCT FROM`: unlike `=` it leads to no index of all that waits.
const TURNS: &str = "/* lanes_advance */ UPDATE outbox_queue
    SET state = 'ready', visible_at_ms = LEAST(CAST($2 AS BIGINT), {clock_ms})
    WHERE message_id = ANY($1) AND state IS NOT DISTINCT FROM 'waiting'";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("lanes_extend", EXTEND),
    ("lanes_extend all", EXTEND_ALL),
    ("lanes_lock", LOCK),
    ("lanes_advance heads", HEADS),
    ("lanes_advance turns", TURNS),
];

/// Adds `n` places at the end of each lane, in the given order; gives back head and new tail of each.
pub(crate) async fn lanes_extend(
    db: &mut Executor<'_>,
    lanes: &[(&str, &str, i64)],
    now_ms: UnixMs,
) -> DbResult<Vec<(i64, i64)>> {
    if db.is_postgres() && lanes.len() > 1 {
        return lanes_extend_all(db, lanes, now_ms).await;
    }
    let mut found = Vec::with_capacity(lanes.len());
    for (destination, lane, n) in lanes {
        let values = [(*destination).into(), (*lane).into(), (*n).into(), now_ms.into()];
        let row = db.fetch_one(EXTEND, &values).await?;
        found.push((row.int("head_seq")?, row.int("tail_seq")?));
    }
    Ok(found)
}

async fn lanes_extend_all(
    db: &mut Executor<'_>,
    lanes: &[(&str, &str, i64)],
    now_ms: UnixMs,
) -> DbResult<Vec<(i64, i64)>> {
    let destinations: Vec<String> = lanes.iter().map(|(destination, ..)| (*destination).to_owned()).collect();
    let names: Vec<String> = lanes.iter().map(|(_, lane, _)| (*lane).to_owned()).collect();
    let numbers: Vec<i64> = lanes.iter().map(|(.., n)| *n).collect();
    let values = [destinations.into(), names.into(), numbers.into(), now_ms.into()];
    let mut places = HashMap::with_capacity(lanes.len());
    for row in db.fetch(EXTEND_ALL, &values).await? {
        let lane = (row.text("destination")?, row.text("lane")?);
        places.insert(lane, (row.int("head_seq")?, row.int("tail_seq")?));
    }
    let place = |(destination, lane, _): &(&str, &str, i64)| {
        places.get(&((*destination).to_owned(), (*lane).to_owned())).copied().ok_or_else(DbError::vanished)
    };
    lanes.iter().map(place).collect()
}

/// Locks these lanes, which are sorted.
pub(crate) async fn lanes_lock(db: &mut Executor<'_>, lanes: &[Lane]) -> DbResult<()> {
    // SQLite has one writer, and this is it.
    if !db.is_postgres() {
        return Ok(());
    }
    for (destination, names) in by_destination(lanes) {
        db.execute(LOCK, &[destination.into(), names.into()]).await?;
    }
    Ok(())
}

/// Moves the head of each of these lanes to the first message that is left in it, and makes that one due if it waited,
/// now by whichever clock is behind: no caller waits for a clock. The lanes are locked, and sorted.
pub(crate) async fn lanes_advance(db: &mut Executor<'_>, lanes: &[Lane], now_ms: UnixMs) -> DbResult<()> {
    let mut heads: Vec<i64> = Vec::new();
    for (destination, names) in by_destination(lanes) {
        let values: [Value; 3] = [destination.into(), names.into(), now_ms.into()];
        for row in db.fetch(HEADS, &values).await? {
            heads.extend(row.int_or_null("message_id")?);
        }
    }
    if !heads.is_empty() {
        db.execute(TURNS, &[heads.into(), now_ms.into()]).await?;
    }
    Ok(())
}

/// Sorted lanes, those of each destination together.
fn by_destination(lanes: &[Lane]) -> Vec<(&str, Vec<String>)> {
    lanes
        .chunk_by(|one, next| one.0 == next.0)
        .filter_map(|chunk| {
            Some((chunk.first()?.0.as_str(), chunk.iter().map(|lane| lane.1.clone()).collect()))
        })
        .collect()
}

/// Numbers and heads of lanes on the thread of SQLite's only writer, which needs no lock.
pub(crate) mod sqlite {
    use rusqlite::{Connection, OptionalExtension, params};

    use super::{DbResult, EXTEND, Lane, UnixMs};

    const HEAD: &str = "/* lanes_advance */ UPDATE outbox_lanes
    SET head_seq = COALESCE((SELECT MIN(q.lane_seq) FROM outbox_queue q WHERE q.destination = ?1 AND q.lane = ?2),
                            tail_seq + 1),
        used_at_ms = MAX(used_at_ms, ?3)
    WHERE destination = ?1 AND lane = ?2
    RETURNING head_seq";
    /// `+`: the index of all that waits is not for this.
    const TURN: &str = "/* lanes_advance */ UPDATE outbox_queue SET state = 'ready', visible_at_ms = ?4
    WHERE destination = ?1 AND lane = ?2 AND lane_seq = ?3 AND +state = 'waiting'";

    /// Adds `n` places at the end of each lane, in the given order; gives back head and new tail of each.
    pub(crate) fn lanes_extend(
        db: &Connection,
        lanes: &[(&str, &str, i64)],
        now_ms: UnixMs,
    ) -> DbResult<Vec<(i64, i64)>> {
        let mut extend = db.prepare_cached(EXTEND)?;
        let one = |(destination, lane, n): &(&str, &str, i64)| {
            extend.query_row(params![destination, lane, n, now_ms], |row| {
                Ok((row.get("head_seq")?, row.get("tail_seq")?))
            })
        };
        Ok(lanes.iter().map(one).collect::<rusqlite::Result<_>>()?)
    }

    /// Moves the head of each of these lanes to the first message that is left in it, and makes that one due if it
    /// waited: the lanes whose head did, with its place.
    pub(crate) fn lanes_advance(
        db: &Connection,
        lanes: &[Lane],
        now_ms: UnixMs,
    ) -> DbResult<Vec<(Lane, i64)>> {
        let mut turned = Vec::new();
        for (destination, lane) in lanes {
            let values = params![destination, lane, now_ms];
            let head_seq: Option<i64> =
                db.prepare_cached(HEAD)?.query_row(values, |row| row.get("head_seq")).optional()?;
            let turn = params![destination, lane, head_seq, now_ms];
            if db.prepare_cached(TURN)?.execute(turn)? > 0
                && let Some(head_seq) = head_seq
            {
                turned.push(((destination.clone(), lane.clone()), head_seq));
            }
        }
        Ok(turned)
    }
}
