//! Claims and settlements on SQLite: one closure a batch on the writer's thread, in one transaction, with prepared
//! statements of one row each. No other connection writes meanwhile, so what is read first stays as it was.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::claimed::{ClaimedContent, ClaimedEvent, ClaimedPayload, ClaimedRow};
use super::types::{LeaseWant, NextWant, SettleTo, SettledRows, Settlement, lanes_of};
use crate::db::DbResult;
use crate::event::stored_body;
use crate::lane::{self, Lane};
use hooklatch_core::types::{AttemptResult, MessageId, SentUnder, UnixMs};

/// Finds a row when a claim would find anything; for a connection that only reads.
pub(super) const IS_ANY_DUE: &str = "/* message_lease */ SELECT 1 FROM json_each($1) AS want
    WHERE EXISTS (SELECT 1 FROM outbox_queue q WHERE q.destination = want.value AND q.state IN ('ready', 'leased')
                    AND q.visible_at_ms <= $2)
      AND NOT EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = want.value)
    LIMIT 1";
const DUE: &str = "/* message_lease */ SELECT message_id, generation, effect_name, lane, attempts_n, attempts_before_n,
        state = 'leased' AS is_lapsed, last_result, created_at_ms, visible_at_ms, first_sent_at_ms, key_valid_until_ms,
        last_ended_at_ms, body_bytes_n
    FROM outbox_queue
    WHERE destination = ?1 AND state IN ('ready', 'leased') AND visible_at_ms <= ?2
      AND NOT EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = ?1)
    ORDER BY visible_at_ms, message_id LIMIT ?3";
/// The next of a lane, as [`DUE`] has it.
const NEXT: &str =
    "/* message_settle */ SELECT message_id, generation, effect_name, lane, attempts_n, attempts_before_n,
        FALSE AS is_lapsed, last_result, created_at_ms, visible_at_ms, first_sent_at_ms, key_valid_until_ms,
        last_ended_at_ms, body_bytes_n
    FROM outbox_queue
    WHERE destination = ?1 AND lane = ?2 AND lane_seq = ?3 AND +state = 'ready' AND body_bytes_n <= ?4
      AND NOT EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = ?1)";
const LAPSED: &str = "/* message_lease */ INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms,
        finished_at_ms, result, error)
    SELECT message_id, attempts_n, shard, COALESCE(node, ''), COALESCE(leased_at_ms, created_at_ms), ?2, 'unknown',
        'lease ended without a settlement'
    FROM outbox_queue WHERE message_id = ?1
    ON CONFLICT (message_id, attempt_n) DO NOTHING";
const LEASE: &str = "/* message_lease */ UPDATE outbox_queue
    SET state = 'leased', attempts_n = ?2, visible_at_ms = ?3, leased_at_ms = ?4, node = ?5, last_result = ?6,
        last_ended_at_ms = ?7, first_sent_at_ms = ?8, key_valid_until_ms = ?9
    WHERE message_id = ?1";
const EVENT: &str = "/* message_lease */ SELECT provider, event_id, event_type FROM processed_webhook_events
    WHERE event_seq = ?1";
const CONTENT: &str = "/* message_lease */ SELECT method, path, headers, body, key_id FROM outbox_contents WHERE message_id = ?1";
const PAYLOAD: &str = concat!(
    "/* message_lease */ SELECT headers, COALESCE(whole, ",
    stored_body!("p", "BLOB"),
    "), key_id,
        redacted_n IS NOT NULL AND whole IS NULL, whole IS NOT NULL
    FROM webhook_payloads p WHERE event_seq = ?1"
);

const GONE: &str = "/* message_settle */ DELETE FROM outbox_queue
    WHERE message_id = ?1 AND attempts_n = ?2 AND state = 'leased'
    RETURNING shard, node, leased_at_ms, created_at_ms, first_sent_at_ms, generation, destination, effect_name, lane";
const FINISHED: &str = "/* message_settle */ INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms,
        finished_at_ms, attempts_n, generation, http_status, shard, state, destination, effect_name, node, lane,
        last_result, last_error)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'done', ?9, ?10, ?11, ?12, ?13, ?14)";
const BACK: &str = concat!(
    "/* message_settle */ UPDATE outbox_queue
    SET state = ?3, visible_at_ms = COALESCE(?4, visible_at_ms), last_result = ?5, last_error = ?6,
        last_http_status = ?7,
        last_ended_at_ms = CASE WHEN ?8 AND last_ended_at_ms IS NOT NULL THEN last_ended_at_ms ELSE ?9 END,
        attempts_before_n = attempts_before_n + ?8, sent_under = COALESCE(MIN(sent_under, ?10), sent_under, ?10),
        first_sent_at_ms = CASE WHEN NOT (?8 AND ",
    claim_was_first!(),
    ") THEN first_sent_at_ms END,
        key_valid_until_ms = CASE WHEN NOT (?8 AND ",
    claim_was_first!(),
    ") THEN key_valid_until_ms END
    WHERE message_id = ?1 AND attempts_n = ?2 AND state = 'leased'
    RETURNING shard, node, leased_at_ms, created_at_ms"
);
const ATTEMPT_INSERT: &str =
    "/* message_settle */ INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms,
        finished_at_ms, http_status, result, error, response, key_id)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, CASE WHEN ?10 IS NOT NULL THEN ?11 END)";

/// The times and the holder that a lease is written with.
struct Lease<'a> {
    now_ms: UnixMs,
    until_ms: UnixMs,
    node: &'a str,
}

pub(crate) fn message_lease(
    db: &Connection,
    wants: &[LeaseWant],
    now_ms: UnixMs,
    lease_ms: i64,
    node: &str,
) -> DbResult<Vec<ClaimedRow>> {
    let lease = Lease { now_ms, until_ms: now_ms.saturating_add(lease_ms), node };
    let mut claimed = Vec::new();
    for want in wants {
        let first = claimed.len();
        let mut due = db.prepare_cached(DUE)?;
        let mut rows = due.query(params![want.destination.as_str(), now_ms, want.free_n])?;
        let mut bytes_n = 0;
        while let Some(row) = rows.next()? {
            bytes_n += u64::try_from(row.get::<_, i64>("body_bytes_n")?).unwrap_or_default();
            if bytes_n > want.free_bytes_n && claimed.len() > first {
                break;
            }
            claimed.push(due_row(row, want, &lease)?);
        }
        drop(rows);
        // What is found is written when all of it was found: a scan must not meet what it has changed.
        for row in claimed.iter_mut().skip(first) {
            claim(db, row, &lease)?;
        }
    }
    Ok(claimed)
}

/// A due message as it will be when it is claimed.
fn due_row(row: &Row<'_>, want: &LeaseWant, lease: &Lease<'_>) -> rusqlite::Result<ClaimedRow> {
    let mut misread = None;
    let is_lapsed: bool = row.get("is_lapsed")?;
    let attempts_n = count(row, "attempts_n", &mut misread)?;
    let first_sent_at_ms: Option<UnixMs> = row.get("first_sent_at_ms")?;
    let first_sent_at_ms = first_sent_at_ms.unwrap_or(lease.now_ms);
    let key_valid_until_ms: Option<UnixMs> = row.get("key_valid_until_ms")?;
    let last_result: Option<String> = intact(row.get("last_result"), &mut misread)?;
    let generation: i64 = row.get("generation")?;
    if i32::try_from(generation).is_err() {
        misread.get_or_insert_with(|| format!("generation is {generation}"));
    }
    Ok(ClaimedRow {
        message_id: MessageId::from_column(row.get("message_id")?),
        generation: i32::try_from(generation).unwrap_or_default(),
        effect_name: intact(row.get("effect_name"), &mut misread)?,
        destination: want.destination.clone(),
        lane: intact(row.get("lane"), &mut misread)?,
        attempt_n: attempts_n.saturating_add(1),
        attempts_before_n: count(row, "attempts_before_n", &mut misread)?,
        is_lapsed,
        // What became of a lease that ended is unknown, and its call ended with it at the latest.
        last_result: if is_lapsed { Some(AttemptResult::Unknown.as_str().to_owned()) } else { last_result },
        last_ended_at_ms: row.get(if is_lapsed { "visible_at_ms" } else { "last_ended_at_ms" })?,
        created_at_ms: row.get("created_at_ms")?,
        lease_until_ms: lease.until_ms,
        first_sent_at_ms,
        key_valid_until_ms: key_valid_until_ms
            .unwrap_or_else(|| first_sent_at_ms.saturating_add(want.key_valid_for_ms)),
        misread,
        event: None,
        content: None,
        payload: None,
    })
}

/// Number of attempts of a message whose count cannot be read: above all that were made.
const UNREAD_N: u32 = 1 << 30;

/// A count, or [`UNREAD_N`] with the reason in `misread` where the column holds none.
fn count(row: &Row<'_>, column: &str, misread: &mut Option<String>) -> rusqlite::Result<u32> {
    let number: i64 = row.get(column)?;
    Ok(u32::try_from(number).unwrap_or_else(|_| {
        misread.get_or_insert_with(|| format!("{column} is {number}"));
        UNREAD_N
    }))
}

/// What was read, or `None` with the reason in `misread` where a value is not of the type that its column is for: a
/// file may be damaged, and one message that cannot be read stands in no other's way.
fn intact<T>(read: rusqlite::Result<Option<T>>, misread: &mut Option<String>) -> rusqlite::Result<Option<T>> {
    match read {
        Err(
            error @ (rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)),
        ) => {
            misread.get_or_insert_with(|| error.to_string());
            Ok(None)
        }
        read => read,
    }
}

fn claim(db: &Connection, row: &mut ClaimedRow, lease: &Lease<'_>) -> DbResult<()> {
    let (id, event_seq) = (row.message_id.number(), row.message_id.event_seq());
    if row.is_lapsed {
        db.prepare_cached(LAPSED)?.execute(params![id, lease.now_ms])?;
    }
    db.prepare_cached(LEASE)?.execute(params![
        id,
        row.attempt_n,
        lease.until_ms,
        lease.now_ms,
        lease.node,
        row.last_result,
        row.last_ended_at_ms,
        row.first_sent_at_ms,
        row.key_valid_until_ms,
    ])?;
    let event = |found: &Row<'_>| {
        Ok(ClaimedEvent { provider: found.get(0)?, event_id: found.get(1)?, event_type: found.get(2)? })
    };
    let found = db.prepare_cached(EVENT)?.query_row([event_seq], event).optional();
    row.event = intact(found, &mut row.misread)?;
    let content = |found: &Row<'_>| {
        Ok(ClaimedContent {
            method: found.get(0)?,
            path: found.get(1)?,
            headers: found.get(2)?,
            body: found.get(3)?,
            key_id: found.get(4)?,
        })
    };
    let found = db.prepare_cached(CONTENT)?.query_row([id], content).optional();
    row.content = intact(found, &mut row.misread)?;
    if row.content.as_ref().is_none_or(|content| content.body.is_none()) {
        let payload = |found: &Row<'_>| {
            Ok(ClaimedPayload {
                headers: found.get(0)?,
                body: found.get(1)?,
                key_id: found.get(2)?,
                is_redacted: found.get(3)?,
                is_whole: found.get(4)?,
            })
        };
        let found = db.prepare_cached(PAYLOAD)?.query_row([event_seq], payload).optional();
        row.payload = intact(found, &mut row.misread)?;
    }
    Ok(())
}

/// Writes settlements, whose answers were sealed with the key `key_id` if there is one; returns, for each one, true
/// when its token was the message's and all of it is written.
pub(crate) fn message_settle(
    db: &Connection,
    settlements: &[Settlement],
    key_id: Option<&str>,
) -> DbResult<Vec<bool>> {
    settle(db, settlements, key_id).map(|(written, _)| written)
}

/// The same, and takes the messages that are due by it in their lanes.
pub(super) fn settle_next(
    db: &Connection,
    settlements: &[Settlement],
    key_id: Option<&str>,
    want: &NextWant,
) -> DbResult<SettledRows> {
    let (written, turned) = settle(db, settlements, key_id)?;
    let until_ms = want.now_ms.saturating_add(want.lease_ms);
    let lease = Lease { now_ms: want.now_ms, until_ms, node: &want.holder };
    let (mut next, turned_n) = (Vec::new(), turned.len());
    for ((destination, lane), head_seq) in turned {
        let Some(of) = want.wants.iter().find(|one| one.destination.as_str() == destination) else {
            continue;
        };
        let values = params![destination, lane, head_seq, of.free_bytes_n.cast_signed()];
        let mut due = db.prepare_cached(NEXT)?;
        let found = due.query_row(values, |row| due_row(row, of, &lease)).optional()?;
        if let Some(mut row) = found {
            claim(db, &mut row, &lease)?;
            next.push(row);
        }
    }
    let is_more = next.len() < turned_n;
    Ok((written.into_iter().map(Some).collect(), next, is_more))
}

/// A lane whose next message is due, and the place of that in it.
type TurnedLane = (Lane, i64);

/// Writes settlements. The lanes whose next message is due now, with its place.
fn settle(
    db: &Connection,
    settlements: &[Settlement],
    key_id: Option<&str>,
) -> DbResult<(Vec<bool>, Vec<TurnedLane>)> {
    let mut written = Vec::with_capacity(settlements.len());
    for one in settlements {
        let ended = if one.to == SettleTo::Done { finish(db, one)? } else { put_back(db, one)? };
        if let Some(ended) = ended.as_ref().filter(|_| one.has_own_row()) {
            insert_attempt(db, one, ended, key_id)?;
        }
        written.push(ended.is_some());
    }
    let now_ms = settlements.first().map_or(0, |one| one.settled_at_ms);
    let turned = lane::sqlite::lanes_advance(db, &lanes_of(settlements), now_ms)?;
    Ok((written, turned))
}

/// The attempt under way, as the queue had it.
struct Ended {
    shard: i64,
    node: String,
    started_at_ms: UnixMs,
}

impl Ended {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (node, leased_at_ms): (Option<String>, Option<UnixMs>) =
            (row.get("node")?, row.get("leased_at_ms")?);
        let created_at_ms = row.get("created_at_ms")?;
        Ok(Self {
            shard: row.get("shard")?,
            node: node.unwrap_or_default(),
            started_at_ms: leased_at_ms.unwrap_or(created_at_ms),
        })
    }
}

/// Moves a message that is done into the history; `None` when the token is not the message's.
fn finish(db: &Connection, one: &Settlement) -> DbResult<Option<Ended>> {
    let id = one.message_id.number();
    let mut gone = db.prepare_cached(GONE)?;
    let mut rows = gone.query(params![id, one.attempt_n])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let ended = Ended::of(row)?;
    let (effect_name, lane): (Option<String>, Option<String>) = (row.get("effect_name")?, row.get("lane")?);
    db.prepare_cached(FINISHED)?.execute(params![
        id,
        row.get::<_, UnixMs>("created_at_ms")?,
        row.get::<_, Option<UnixMs>>("first_sent_at_ms")?,
        one.settled_at_ms,
        one.attempt_n,
        row.get::<_, i64>("generation")?,
        one.http_status,
        ended.shard,
        row.get::<_, String>("destination")?,
        effect_name,
        row.get::<_, Option<String>>("node")?,
        lane,
        one.result.as_str(),
        one.error,
    ])?;
    Ok(Some(ended))
}

/// Returns a message that is not done to the queue; `None` when the token is not the message's.
fn put_back(db: &Connection, one: &Settlement) -> DbResult<Option<Ended>> {
    let values = params![
        one.message_id.number(),
        one.attempt_n,
        one.to.state().as_str(),
        one.visible_at_ms(),
        one.result.as_str(),
        one.error,
        one.http_status,
        one.is_unsent,
        one.settled_at_ms,
        one.sent_under.map(SentUnder::as_str),
    ];
    Ok(db.prepare_cached(BACK)?.query_row(values, Ended::of).optional()?)
}

fn insert_attempt(db: &Connection, one: &Settlement, ended: &Ended, key_id: Option<&str>) -> DbResult<()> {
    db.prepare_cached(ATTEMPT_INSERT)?.execute(params![
        one.message_id.number(),
        one.attempt_n,
        ended.shard,
        ended.node,
        ended.started_at_ms,
        one.settled_at_ms,
        one.http_status,
        one.result.as_str(),
        one.error,
        one.response,
        key_id,
    ])?;
    Ok(())
}
