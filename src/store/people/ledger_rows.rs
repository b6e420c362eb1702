//! The rows that the ledger of one event is made of, each found by a key.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::audit::audit_rows;
use super::message::attempt_view;
use crate::api::{AttemptView, AuditView, DamagedRow, EventView, PauseFact};
use crate::seal::KeyRing;
use crate::store::apart::{conflict_ids, replay_places};
use crate::store::damaged::{Intact, intact, of_row};
use crate::store::db::{DbResult, Door, Row, Value};
use crate::store::event::{event_columns, event_view, event_views, stored_body_bytes};
use crate::store::look::AttemptRow;
use crate::store::message::{MessageRow, message_rows};
use crate::types::{EventKey, MESSAGES_N_MAX, MessageId, Reach, UnixMs};

const EVENTS_TABLE: &str = "processed_webhook_events";
/// Most attempts, and most decisions, that are read: more than a ledger has entries, so that it knows that it is cut.
const ROWS_N_MAX: u32 = 1_001;

/// What the tables say of one event.
pub(super) struct LedgerFacts {
    pub(super) event: EventView,
    /// Digest of its content, in hexadecimal.
    pub(super) digest: String,
    /// `None` when its bytes are no longer kept.
    pub(super) payload: Option<PayloadFacts>,
    /// Further copies: how many, and when the first and the last one came.
    pub(super) copies: Option<(u64, UnixMs, UnixMs)>,
    /// Other contents under its id, with their digests.
    pub(super) conflicts: Vec<(EventView, String)>,
    pub(super) unkept_n: u64,
    /// Copies under other ids.
    pub(super) replays: Vec<EventView>,
    pub(super) messages: Vec<MessageRow>,
    pub(super) attempts: Vec<AttemptFacts>,
    pub(super) decisions: Vec<AuditView>,
    /// Rows of all these that cannot be read.
    pub(super) damaged: Vec<DamagedRow>,
    /// True when there are more attempts or decisions.
    pub(super) is_cut: bool,
    /// True when the database was restored from a backup after the event came.
    pub(super) is_restored: bool,
    /// The pause of its provider; its end may be over.
    pub(super) pause: PauseFact,
}

pub(super) struct PayloadFacts {
    /// `None` when it is sealed.
    pub(super) body_bytes_n: Option<u64>,
    /// Fingerprint of the secret that matched.
    pub(super) secret: Option<String>,
    /// True when it is kept as it came, so that handlers can be run on it.
    pub(super) is_whole: bool,
}

pub(super) struct AttemptFacts {
    pub(super) at_ms: UnixMs,
    pub(super) message_id: MessageId,
    pub(super) effect_name: String,
    pub(super) attempt: AttemptView,
}

const EVENT: &str = concat!(
    "/* event_ledger */ SELECT ",
    event_columns!(),
    ", e.replay_key FROM processed_webhook_events e WHERE e.provider = $1 AND e.event_id = $2"
);
const PAYLOAD: &str = concat!(
    "/* event_ledger */ SELECT CAST(",
    stored_body_bytes!("p"),
    " AS BIGINT) AS bytes_n, secret, key_id,
         CASE WHEN redacted_n IS NULL OR whole IS NOT NULL THEN 1 ELSE 0 END AS is_whole FROM webhook_payloads p
     WHERE event_seq = $1"
);
const COPIES: &str = "/* event_ledger */ SELECT copies_n, first_at_ms, last_at_ms FROM event_copies
     WHERE provider = $1 AND event_id = $2";
const CONFLICTS: &str = concat!(
    "/* event_ledger */ SELECT ",
    event_columns!(),
    " FROM processed_webhook_events e WHERE e.provider = $1 AND e.event_id = ANY($2)"
);
const UNKEPT: &str =
    "/* event_ledger */ SELECT unkept_n FROM conflict_counts WHERE provider = $1 AND event_id = $2";
const REPLAY: &str = concat!(
    "/* event_ledger */ SELECT ",
    event_columns!(),
    " FROM processed_webhook_events e WHERE e.provider = $1 AND e.replay_key = $2"
);
const MESSAGES: &str = "/* event_ledger */ SELECT m.* FROM outbox_messages m
     WHERE m.event_seq = $1 / 1024 AND m.message_id >= $1 AND m.message_id < $2 ORDER BY m.message_id";
const ATTEMPTS: &str = "/* event_ledger */ SELECT * FROM (
         SELECT a.message_id, a.attempt_n, a.node, a.started_at_ms, a.finished_at_ms, a.result, a.http_status, a.error,
             a.response, a.key_id
         FROM outbox_attempts a WHERE a.message_id >= $1 AND a.message_id < $2
         UNION ALL
         SELECT q.message_id, q.attempts_n, q.node, q.leased_at_ms, NULL, NULL, NULL, NULL, NULL, NULL
         FROM outbox_queue q WHERE q.message_id >= $1 AND q.message_id < $2 AND q.state = 'leased'
         UNION ALL
         SELECT f.message_id, f.attempts_n, f.node, COALESCE(f.first_sent_at_ms, f.created_at_ms), f.finished_at_ms,
             f.last_result, f.http_status, NULL, NULL, NULL
         FROM outbox_finished f
         WHERE f.message_id >= $1 AND f.message_id < $2 AND f.attempts_n = 1 AND f.last_result = 'done'
           AND NOT EXISTS (SELECT 1 FROM outbox_attempts o WHERE o.message_id = f.message_id AND o.attempt_n = 1)) t
     ORDER BY started_at_ms DESC, message_id DESC, attempt_n DESC LIMIT $3";
/// Not who saw its content: each view of the event's page is one, and stands in the audit log alone.
const DECISIONS: &str =
    "/* event_ledger */ SELECT * FROM (SELECT * FROM audit_log WHERE provider = $1 AND event_id = $2
         ORDER BY audit_seq DESC LIMIT 10000) a WHERE a.action NOT IN ('body_read', 'answer_read')
     ORDER BY a.audit_seq DESC LIMIT $3";
const RESTORED: &str = "/* event_ledger */ SELECT COUNT(*) AS n FROM (
         SELECT 1 FROM restores WHERE until_ms > $1 LIMIT 1) r";

const PAUSE: &str = "/* event_ledger */ SELECT until_ms FROM provider_pauses
     WHERE provider = $1 AND ended_at_ms IS NULL";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("event_ledger event", EVENT),
    ("event_ledger payload", PAYLOAD),
    ("event_ledger copies", COPIES),
    ("event_ledger conflicts", CONFLICTS),
    ("event_ledger unkept", UNKEPT),
    ("event_ledger replay", REPLAY),
    ("event_ledger messages", MESSAGES),
    ("event_ledger attempts", ATTEMPTS),
    ("event_ledger decisions", DECISIONS),
    ("event_ledger restored", RESTORED),
];

/// What the tables say of the event with this key; `None` when there is none. With a ring, the pieces of answers too.
pub(super) async fn ledger_facts(
    db: &mut Door<'_>,
    key: &EventKey,
    installation_id: &Uuid,
    (ring, reach): (Option<&KeyRing>, &Reach),
) -> DbResult<Option<LedgerFacts>> {
    let by_key: [Value; 2] = [key.provider.as_str().into(), (&key.event_id).into()];
    let Some(row) = db.fetch_optional(EVENT, &by_key).await? else { return Ok(None) };
    let event_seq = row.int("event_seq")?;
    let conflicts = db.fetch(CONFLICTS, &[by_key[0].clone(), conflict_ids(&key.event_id).into()]).await?;
    let digest = |row: &Row| Ok((row.int("event_seq")?, hex::encode(row.bytes("digest")?)));
    let digests = intact(EVENTS_TABLE, "event_seq", &conflicts, digest)?.rows;
    let digests: BTreeMap<i64, String> = digests.into_iter().collect();
    let conflicts = event_views(db, &conflicts, reach).await?;
    let mut damaged = conflicts.damaged;
    let conflicts = conflicts.rows.into_iter();
    let conflicts =
        conflicts.map(|(seq, event)| (event, digests.get(&seq).cloned().unwrap_or_default())).collect();
    let event = event_view(db, &row, reach).await?;
    let digest = of_row(EVENTS_TABLE, &row.key_text("event_seq"), row.bytes("digest"))?;
    let restored = db.fetch_one(RESTORED, &[event.received_at_ms.into()]).await?;
    let pause = db.fetch_optional(PAUSE, &by_key[..1]).await?;
    let pause = pause.map(|row| row.int_or_null("until_ms")).transpose()?;
    let pause =
        pause.map_or(PauseFact::No, |until_ms| until_ms.map_or(PauseFact::UntilResumed, PauseFact::Until));
    let unkept = db.fetch_optional(UNKEPT, &by_key).await?;
    let copies = db.fetch_optional(COPIES, &by_key).await?;
    let copies_of = |row: Row| -> DbResult<(u64, UnixMs, UnixMs)> {
        Ok((row.int("copies_n")?.unsigned_abs(), row.int("first_at_ms")?, row.int("last_at_ms")?))
    };
    let (messages, attempts) = messages_of(db, event_seq, installation_id, ring).await?;
    let replays = replays_of(db, key, row.bytes_or_null("replay_key").unwrap_or_default(), reach).await?;
    damaged.extend(messages.damaged.into_iter().chain(attempts.damaged).chain(replays.damaged));
    let (messages, attempts) = (messages.rows, attempts.rows);
    let mut decisions = by_key.to_vec();
    decisions.push(ROWS_N_MAX.into());
    let decisions = db.fetch(DECISIONS, &decisions).await?;
    let rows: Vec<Row> = decisions.into_iter().rev().collect();
    let decisions = audit_rows(&rows)?;
    damaged.extend(decisions.damaged);
    let decisions = decisions.rows;
    let is_cut = attempts.len().max(decisions.len()) >= ROWS_N_MAX as usize;
    Ok(Some(LedgerFacts {
        event,
        digest: hex::encode(digest),
        payload: payload_of(db, event_seq).await?,
        copies: copies.map(copies_of).transpose()?,
        conflicts,
        unkept_n: unkept.map_or(Ok(0), |row| row.int("unkept_n"))?.unsigned_abs(),
        replays: replays.rows.into_iter().map(|(_, event)| event).collect(),
        messages,
        attempts,
        decisions,
        damaged,
        is_cut,
        is_restored: restored.int("n")? > 0,
        pause,
    }))
}

async fn payload_of(db: &mut Door<'_>, event_seq: i64) -> DbResult<Option<PayloadFacts>> {
    let Some(row) = db.fetch_optional(PAYLOAD, &[event_seq.into()]).await? else { return Ok(None) };
    let is_sealed = row.text_or_null("key_id")?.is_some();
    Ok(Some(PayloadFacts {
        body_bytes_n: Some(row.int("bytes_n")?.unsigned_abs()).filter(|_| !is_sealed),
        secret: row.int_or_null("secret")?.map(|number| format!("{number:016x}")),
        is_whole: row.int("is_whole")? == 1,
    }))
}

/// The rows that were left of the same signed text under other ids.
async fn replays_of(
    db: &mut Door<'_>,
    key: &EventKey,
    replay_key: Option<Vec<u8>>,
    reach: &Reach,
) -> DbResult<Intact<(i64, EventView)>> {
    let mut found = Vec::new();
    let text = replay_key.and_then(|key| key.try_into().ok());
    for place in text.map(|text| replay_places(&text)).unwrap_or_default() {
        let values = [key.provider.as_str().into(), place.as_slice().into()];
        // They are taken in this order.
        let Some(row) = db.fetch_optional(REPLAY, &values).await? else { break };
        found.push(row);
    }
    event_views(db, &found, reach).await
}

async fn messages_of(
    db: &mut Door<'_>,
    event_seq: i64,
    installation_id: &Uuid,
    ring: Option<&KeyRing>,
) -> DbResult<(Intact<MessageRow>, Intact<AttemptFacts>)> {
    let first = event_seq.saturating_mul(i64::from(MESSAGES_N_MAX));
    let range: [Value; 2] = [first.into(), first.saturating_add(i64::from(MESSAGES_N_MAX)).into()];
    let rows = db.fetch(MESSAGES, &range).await?;
    let messages = message_rows(&rows, installation_id)?;
    let mut range = range.to_vec();
    range.push(ROWS_N_MAX.into());
    let rows = db.fetch(ATTEMPTS, &range).await?;
    let attempt = |row: &Row| {
        let message_id = MessageId::from_column(row.int("message_id")?);
        let message = messages.rows.iter().find(|message| message.message_id == message_id);
        let attempt = attempt_view(AttemptRow::of(row, message_id, ring)?);
        Ok(AttemptFacts {
            at_ms: attempt.started_at_ms,
            message_id,
            effect_name: message.map(|message| message.effect_name.clone()).unwrap_or_default(),
            attempt,
        })
    };
    // The oldest first.
    let rows: Vec<Row> = rows.into_iter().rev().collect();
    let attempts = intact("outbox_attempts", "message_id", &rows, attempt)?;
    Ok((messages, attempts))
}
