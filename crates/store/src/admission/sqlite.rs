//! Admission on SQLite: one closure on the writer's thread does all of it, from `BEGIN IMMEDIATE` to `COMMIT`, with
//! prepared statements of one row each.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::batch::{self, Batch, EventInsert, ExistingRows, SealedContents, VersionRaise, sealed_search_ids};
use super::{
    AdmittedBatch, Candidate, Decide, FastPath, MessageInsert, Plan, Queued, Writes, lanes_wanted,
    message_rows,
};
use crate::db::DbResult;
use crate::event::Latched;
use crate::lane;
use crate::message::NewMessage;
use crate::queries::search_block;
use hooklatch_core::seal::{KeyRing, SealedPlace};
use hooklatch_core::types::IncomingEvent;

const EVENT: &str =
    "INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, created_at_ms,
         version, attempts_n, shard, event_type, digest, identity, state, object, replay_key)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING";
const PAYLOAD: &str = "INSERT INTO webhook_payloads (event_seq, shard, headers, body, key_id, secret, search_ids) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const SEARCH_ID: &str =
    "INSERT INTO event_search_ids (block, search_key, event_seq, shard) VALUES (?1, ?2, ?3, ?4)";
const MESSAGE: &str = "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, leased_at_ms,
         first_sent_at_ms, key_valid_until_ms, attempts_n, generation, shard, state, destination, effect_name, node,
         lane, lane_seq, last_result, sent_under, body_bytes_n)
     VALUES (?1, ?2, ?3, ?4, COALESCE(?4, ?15), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
         CASE WHEN ?15 IS NOT NULL THEN 'unknown' END, CASE WHEN ?15 IS NOT NULL THEN 'restored' END, ?16)";
const CONTENTS: &str = "INSERT INTO outbox_contents (message_id, shard, method, path, headers, body, key_id)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const SAME_KEY: &str =
    "SELECT digest, state FROM processed_webhook_events WHERE provider = ?1 AND event_id = ?2";
const SAME_TEXT: &str =
    "SELECT event_id, digest FROM processed_webhook_events WHERE provider = ?1 AND replay_key = ?2";

pub(super) fn admit<D: Decide>(
    db: &mut Connection,
    candidates: &[Candidate],
    decide: D,
    ring: &KeyRing,
) -> DbResult<FastPath<D>> {
    let batch = Batch::new(candidates);
    let inserted = batch.inserted(&events_insert(db, &batch.rows(), ring)?);
    let lost = batch.lost(&inserted);
    let events: Vec<Arc<IncomingEvent>> =
        lost.iter().filter_map(|n| candidates.get(*n)).map(|one| Arc::clone(&one.event)).collect();
    let Some(latched) = batch.plainly(&inserted, &lost, &events_holders(db, &events)?) else {
        begin_anew(db)?;
        return Ok(FastPath::Slow(decide));
    };
    let raised = batch::raised(candidates, &latched);
    let is_newest = versions_raise(db, &batch::highest(candidates, &raised))?;
    let stale = batch::stale(candidates, &raised, &is_newest);
    let found: Vec<(Latched, bool)> = latched.into_iter().zip(stale).collect();
    let mut admitted = AdmittedBatch::of(decide);
    match admitted.decide.decide(&found) {
        Plan::Write(writes) => admitted.writes = writes,
        Plan::RollBack => {
            begin_anew(db)?;
            return Ok(FastPath::Done(Box::new(admitted)));
        }
    }
    admitted.decide.lease(&mut admitted.writes.messages);
    admitted.queued = write(db, &admitted.writes, ring)?;
    admitted.latched = found.into_iter().map(|(latched, _)| Some(latched)).collect();
    Ok(FastPath::Done(Box::new(admitted)))
}

/// Leaves nothing of what was done, and a transaction for the COMMIT that follows.
fn begin_anew(db: &Connection) -> DbResult<()> {
    Ok(db.execute_batch("ROLLBACK; BEGIN")?)
}

fn write(db: &Connection, writes: &Writes, ring: &KeyRing) -> DbResult<Queued> {
    let messages: &[NewMessage] = &writes.messages;
    let has_leases = messages.iter().any(|message| message.lease.is_some());
    let paused = if has_leases { paused_names(db)? } else { HashSet::new() };
    let lanes = lanes_wanted(messages);
    let used_at_ms = messages.first().map_or(0, |message| message.created_at_ms);
    let places =
        if lanes.is_empty() { Vec::new() } else { lane::sqlite::lanes_extend(db, &lanes, used_at_ms)? };
    let rows = message_rows(messages, &paused, &lanes, &places);
    messages_insert(db, &rows, ring)?;
    for update in &writes.updates {
        db.prepare_cached(
            "UPDATE processed_webhook_events
             SET state = ?2, error = ?3, attempts_n = ?4, due_at_ms = ?5, processed_at_ms = ?6 WHERE event_seq = ?1",
        )?
        .execute(params![
            update.event_seq,
            update.state.as_str(),
            update.error,
            update.attempts_n,
            update.due_at_ms,
            update.processed_at_ms
        ])?;
    }
    Ok(Queued::of(paused, &rows))
}

/// The numbers of those rows that were not inserted.
pub(crate) fn events_insert(db: &Connection, rows: &[EventInsert], ring: &KeyRing) -> DbResult<Vec<i64>> {
    let mut event_insert = db.prepare_cached(EVENT)?;
    let mut payload_insert = db.prepare_cached(PAYLOAD)?;
    let mut search_id_insert = db.prepare_cached(SEARCH_ID)?;
    let mut lost = Vec::new();
    for row in rows {
        let event = &row.event;
        let shard = event.key.shard();
        let inserted_n = event_insert.execute(params![
            event.key.provider.as_str(),
            event.key.event_id,
            row.event_seq,
            event.received_at_ms,
            event.created_at_ms,
            event.object.as_ref().map(|object| object.version),
            row.attempts_n(),
            shard,
            event.event_type,
            event.digest.as_slice(),
            event.identity,
            row.state.as_str(),
            event.object.as_ref().map(|object| object.object.as_str()),
            row.replay_key(),
        ])?;
        if inserted_n == 0 {
            lost.push(row.event_seq);
        } else {
            let place = |column| SealedPlace::of_event(column, row.event_seq, event.key.as_pair());
            let headers = ring.seal_text(&place("headers"), &event.headers)?;
            let body = ring.seal(&place("body"), event.stored_body())?;
            payload_insert.execute(params![
                row.event_seq,
                shard,
                headers,
                &*body,
                ring.key_id(),
                event.secret,
                sealed_search_ids(ring, row.event_seq, event)?,
            ])?;
            for id in &event.search_ids {
                search_id_insert.execute(params![
                    search_block(row.event_seq),
                    ring.search_key(id),
                    row.event_seq,
                    shard
                ])?;
            }
        }
    }
    Ok(lost)
}

pub(super) fn events_holders(db: &Connection, events: &[Arc<IncomingEvent>]) -> DbResult<Vec<ExistingRows>> {
    let mut same_key = db.prepare_cached(SAME_KEY)?;
    let mut same_text = db.prepare_cached(SAME_TEXT)?;
    let mut holders = Vec::with_capacity(events.len());
    for (position, event) in events.iter().enumerate() {
        let provider = event.key.provider.as_str();
        let by_key = same_key
            .query_row(params![provider, event.key.event_id], |row| {
                Ok((row.get("digest")?, row.get("state")?))
            })
            .optional()?;
        let by_text = match &event.replay_key {
            Some(text) => same_text
                .query_row(params![provider, text.as_slice()], |row| {
                    Ok((row.get("event_id")?, row.get("digest")?))
                })
                .optional()?,
            None => None,
        };
        holders.push(ExistingRows { position, same_key: by_key, same_text: by_text });
    }
    Ok(holders)
}

fn versions_raise(db: &Connection, versions: &[VersionRaise<'_>]) -> DbResult<Vec<bool>> {
    let mut is_newest = Vec::with_capacity(versions.len());
    for raise in versions {
        let row = db
            .prepare_cached(batch::VERSION_RAISE)?
            .query_row(params![raise.provider, raise.object, raise.version, raise.event_seq], |_| Ok(()))
            .optional()?;
        is_newest.push(row.is_some());
    }
    Ok(is_newest)
}

fn paused_names(db: &Connection) -> DbResult<HashSet<String>> {
    let mut names = db.prepare_cached("SELECT destination FROM destination_pauses")?;
    Ok(names.query_map([], |row| row.get("destination"))?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn messages_insert(db: &Connection, rows: &[MessageInsert<'_>], ring: &KeyRing) -> DbResult<()> {
    let mut message_insert = db.prepare_cached(MESSAGE)?;
    for row in rows {
        let (message, lease) = (row.message, row.lease());
        message_insert.execute(params![
            message.message_id.number(),
            lease.map_or(message.created_at_ms, |lease| lease.until_ms),
            message.created_at_ms,
            lease.map(|lease| lease.from_ms),
            lease.map(|lease| lease.key_valid_until_ms),
            i64::from(lease.is_some()),
            message.generation,
            message.shard,
            row.state.as_str(),
            message.destination,
            message.effect_name_column(),
            lease.map(|lease| &*lease.node),
            message.lane,
            row.lane_seq,
            message.unknown_since_ms,
            message.body_bytes_n,
        ])?;
        if !message.is_forward() {
            let contents = SealedContents::of(ring, message)?;
            db.prepare_cached(CONTENTS)?.execute(params![
                message.message_id.number(),
                message.shard,
                message.method,
                message.path,
                contents.headers,
                contents.body.as_deref(),
                ring.key_id(),
            ])?;
        }
    }
    Ok(())
}
