//! The same on the thread of SQLite's only writer, which needs no lock.

use rusqlite::{Connection, OptionalExtension, params};

use super::{EXTEND, Lane};
use crate::db::DbResult;
use hooklatch_core::types::UnixMs;

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

/// Moves the head of each of these lanes to the first message that is left in it, and makes that one due if it waited.
pub(crate) fn lanes_advance(db: &Connection, lanes: &[Lane], now_ms: UnixMs) -> DbResult<()> {
    for (destination, lane) in lanes {
        let values = params![destination, lane, now_ms];
        let head_seq: Option<i64> =
            db.prepare_cached(HEAD)?.query_row(values, |row| row.get("head_seq")).optional()?;
        db.prepare_cached(TURN)?.execute(params![destination, lane, head_seq, now_ms])?;
    }
    Ok(())
}
