//! Claims and settlements on SQLite: one closure a batch on the writer's thread, in one transaction, with prepared
//! statements of a whole list where the batch has the same to write of each. No other connection writes meanwhile, so
//! what is read first stays as it was.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::claimed::{ClaimedContent, ClaimedEvent, ClaimedPayload, ClaimedRow};
use super::types::{LeaseWant, NextWant, SettleTo, SettledRows, Settlement, lanes_of};
use crate::db::{DbError, DbResult};
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
/// Claims all of these, with what [`due_row`] says of each: a statement opens each index of the queue once.
const LEASE: &str = "/* message_lease */ UPDATE outbox_queue
    SET state = 'leased', visible_at_ms = ?2, leased_at_ms = ?3, node = ?4,
        attempts_n = CASE WHEN attempts_n BETWEEN 0 AND 4294967295 THEN MIN(attempts_n + 1, 4294967295) ELSE ?6 END,
        last_result = CASE WHEN state = 'leased' THEN 'unknown' ELSE last_result END,
        last_ended_at_ms = CASE WHEN state = 'leased' THEN visible_at_ms ELSE last_ended_at_ms END,
        first_sent_at_ms = COALESCE(first_sent_at_ms, ?3),
        key_valid_until_ms = COALESCE(key_valid_until_ms, COALESCE(first_sent_at_ms, ?3) + ?5)
    WHERE message_id IN (SELECT value FROM json_each(?1))";
/// Events, contents and payloads of claimed messages, each at its place in the list.
const CONTENTS: &str = concat!(
    "/* message_lease */ SELECT j.key, e.provider, e.event_id, e.event_type, t.method, t.path, t.headers, t.body, t.key_id,
        p.headers, COALESCE(p.whole, ",
    stored_body!("p", "BLOB"),
    "), p.key_id, p.redacted_n IS NOT NULL AND p.whole IS NULL, p.whole IS NOT NULL, e.event_seq, t.message_id, p.event_seq
    FROM json_each(?1) j
    LEFT JOIN processed_webhook_events e ON e.event_seq = j.value / 1024
    LEFT JOIN outbox_contents t ON t.message_id = j.value
    LEFT JOIN webhook_payloads p ON p.event_seq = j.value / 1024 AND t.body IS NULL"
);

/// Moved within the database: nothing of it is read here, and most that are done need no row of their own. A list of
/// message, token, time, status, result and error; `CROSS`: in the order of the list, whatever the statistics say.
const FINISHED: &str = "/* message_settle */ INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms,
        finished_at_ms, attempts_n, generation, http_status, shard, state, destination, effect_name, node, lane,
        last_result, last_error)
    SELECT q.message_id, q.created_at_ms, q.first_sent_at_ms, j.value ->> 2, q.attempts_n, q.generation, j.value ->> 3,
        q.shard, 'done', q.destination, q.effect_name, q.node, q.lane, j.value ->> 4, j.value ->> 5
    FROM json_each(?1) j CROSS JOIN outbox_queue q ON q.message_id = j.value ->> 0
    WHERE q.attempts_n = j.value ->> 1 AND q.state = 'leased'";
/// Those of the list that [`FINISHED`] has moved, before they are [`GONE`].
const MOVED: &str = "/* message_settle */ SELECT j.key FROM json_each(?1) j
    CROSS JOIN outbox_queue q ON q.message_id = j.value ->> 0
    WHERE q.attempts_n = j.value ->> 1 AND q.state = 'leased'";
const STARTED: &str = "/* message_settle */ SELECT shard, node, leased_at_ms, created_at_ms FROM outbox_queue WHERE message_id = ?1";
const GONE: &str =
    "/* message_settle */ DELETE FROM outbox_queue WHERE message_id IN (SELECT value FROM json_each(?1))";
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
            bytes_n += u64::try_from(row.get::<_, i64>(13)?).unwrap_or_default();
            if bytes_n > want.free_bytes_n && claimed.len() > first {
                break;
            }
            claimed.push(due_row(row, want, &lease)?);
        }
        drop(rows);
        // What is found is written when all of it was found: a scan must not meet what it has changed.
        claim(db, claimed.iter().skip(first), want, &lease)?;
    }
    read_contents(db, &mut claimed)?;
    Ok(claimed)
}

/// A due message as it will be when it is claimed. By the places of [`DUE`]: to look for fourteen names costs as much as
/// to read what they name.
fn due_row(row: &Row<'_>, want: &LeaseWant, lease: &Lease<'_>) -> rusqlite::Result<ClaimedRow> {
    let mut misread = None;
    let is_lapsed: bool = row.get(6)?;
    let attempts_n = count(row, (4, "attempts_n"), &mut misread)?;
    let first_sent_at_ms: Option<UnixMs> = row.get(10)?;
    let first_sent_at_ms = first_sent_at_ms.unwrap_or(lease.now_ms);
    let key_valid_until_ms: Option<UnixMs> = row.get(11)?;
    let last_result: Option<String> = intact(row.get(7), &mut misread)?;
    let generation: i64 = row.get(1)?;
    if i32::try_from(generation).is_err() {
        misread.get_or_insert_with(|| format!("generation is {generation}"));
    }
    Ok(ClaimedRow {
        message_id: MessageId::from_column(row.get(0)?),
        generation: i32::try_from(generation).unwrap_or_default(),
        effect_name: intact(row.get(2), &mut misread)?,
        destination: want.destination.clone(),
        lane: intact(row.get(3), &mut misread)?,
        attempt_n: attempts_n.saturating_add(1),
        attempts_before_n: count(row, (5, "attempts_before_n"), &mut misread)?,
        is_lapsed,
        // What became of a lease that ended is unknown, and its call ended with it at the latest.
        last_result: if is_lapsed { Some(AttemptResult::Unknown.as_str().to_owned()) } else { last_result },
        last_ended_at_ms: row.get(if is_lapsed { 9 } else { 12 })?,
        created_at_ms: row.get(8)?,
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
fn count(row: &Row<'_>, (place, name): (usize, &str), misread: &mut Option<String>) -> rusqlite::Result<u32> {
    let number: i64 = row.get(place)?;
    Ok(u32::try_from(number).unwrap_or_else(|_| {
        misread.get_or_insert_with(|| format!("{name} is {number}"));
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

/// A list for `json_each`.
fn json(list: &impl Serialize) -> DbResult<String> {
    serde_json::to_string(list).map_err(DbError::unsaid)
}

fn claim<'a>(
    db: &Connection,
    rows: impl Iterator<Item = &'a ClaimedRow>,
    want: &LeaseWant,
    lease: &Lease<'_>,
) -> DbResult<()> {
    let mut ids = Vec::new();
    for row in rows {
        let id = row.message_id.number();
        if row.is_lapsed {
            db.prepare_cached(LAPSED)?.execute(params![id, lease.now_ms])?;
        }
        ids.push(id);
    }
    if !ids.is_empty() {
        let Lease { now_ms, until_ms, node } = lease;
        let values = params![json(&ids)?, until_ms, now_ms, node, want.key_valid_for_ms, UNREAD_N + 1];
        db.prepare_cached(LEASE)?.execute(values)?;
    }
    Ok(())
}

/// Reads what claimed messages are about.
fn read_contents(db: &Connection, claimed: &mut [ClaimedRow]) -> DbResult<()> {
    if claimed.is_empty() {
        return Ok(());
    }
    let ids = json(&claimed.iter().map(|row| row.message_id.number()).collect::<Vec<_>>())?;
    let mut contents = db.prepare_cached(CONTENTS)?;
    let mut found = contents.query([ids])?;
    while let Some(found) = found.next()? {
        let Some(row) = claimed.get_mut(found.get::<_, u32>(0)? as usize) else { continue };
        let event = || {
            Ok(ClaimedEvent { provider: found.get(1)?, event_id: found.get(2)?, event_type: found.get(3)? })
        };
        let content = || {
            Ok(ClaimedContent {
                method: found.get(4)?,
                path: found.get(5)?,
                headers: found.get(6)?,
                body: found.get(7)?,
                key_id: found.get(8)?,
            })
        };
        let payload = || {
            Ok(ClaimedPayload {
                headers: found.get(9)?,
                body: found.get(10)?,
                key_id: found.get(11)?,
                is_redacted: found.get(12)?,
                is_whole: found.get(13)?,
            })
        };
        let is_there = |place| found.get::<_, Option<i64>>(place).map(|id| id.is_some());
        row.event = intact(is_there(14)?.then(event).transpose(), &mut row.misread)?;
        row.content = intact(is_there(15)?.then(content).transpose(), &mut row.misread)?;
        row.payload = intact(is_there(16)?.then(payload).transpose(), &mut row.misread)?;
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
        claim(db, found.iter(), of, &lease)?;
        next.extend(found);
    }
    read_contents(db, &mut next)?;
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
    let mut done = finish(db, settlements, key_id)?;
    let mut written = Vec::with_capacity(settlements.len());
    for one in settlements {
        written.push(if one.to == SettleTo::Done {
            done.remove(&token(one))
        } else {
            put_back(db, one, key_id)?
        });
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

fn token(one: &Settlement) -> (MessageId, u32) {
    (one.message_id, one.attempt_n)
}

/// Moves the messages that are done into the history: those whose token is the message's.
fn finish(
    db: &Connection,
    settlements: &[Settlement],
    key_id: Option<&str>,
) -> DbResult<HashSet<(MessageId, u32)>> {
    let mut seen = HashSet::new();
    let done = settlements.iter().filter(|one| one.to == SettleTo::Done && seen.insert(token(one)));
    let mut done: Vec<&Settlement> = done.collect();
    if done.is_empty() {
        return Ok(seen);
    }
    let rows = done.iter().map(|one| {
        let (id, result, error) = (one.message_id.number(), one.result.as_str(), one.error.as_deref());
        (id, one.attempt_n, one.settled_at_ms, one.http_status, result, error)
    });
    let list = json(&rows.collect::<Vec<_>>())?;
    let moved_n = db.prepare_cached(FINISHED)?.execute([&list])?;
    if moved_n < done.len() {
        let mut moved = db.prepare_cached(MOVED)?;
        let moved: HashSet<u32> =
            moved.query_map([&list], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut place = 0..;
        done.retain(|_| place.next().is_some_and(|place| moved.contains(&place)));
    }
    for one in done.iter().filter(|one| one.has_own_row()) {
        let ended = db.prepare_cached(STARTED)?.query_row([one.message_id.number()], Ended::of)?;
        insert_attempt(db, one, &ended, key_id)?;
    }
    let ids = json(&done.iter().map(|one| one.message_id.number()).collect::<Vec<_>>())?;
    db.prepare_cached(GONE)?.execute([ids])?;
    Ok(done.into_iter().map(token).collect())
}

/// Returns a message that is not done to the queue; `false` when the token is not the message's.
fn put_back(db: &Connection, one: &Settlement, key_id: Option<&str>) -> DbResult<bool> {
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
    let ended = db.prepare_cached(BACK)?.query_row(values, Ended::of).optional()?;
    if let Some(ended) = ended.as_ref().filter(|_| one.has_own_row()) {
        insert_attempt(db, one, ended, key_id)?;
    }
    Ok(ended.is_some())
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
