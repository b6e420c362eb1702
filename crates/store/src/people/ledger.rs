//! The ledger of one event: all that is known of it, in order of time, from one snapshot.
//!
//! The tables are read in one snapshot transaction, and become entries. The received content is read in a second one,
//! for those who may see it: that one writes the audit log too, so that no access to content is unrecorded.
//!
//! The rows of the ledger of one event, each found by a key.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::messages::{attempt_view, message_view};
use super::person::{People, PeopleError};
use super::providers::headers_of;
use super::tokens::audit_rows;
use crate::apart::{KeptContent, conflict_ids, event_content, first_event_id, replay_places};
use crate::audit::{AuditEntry, append};
use crate::damaged::{IntactRows, intact, of_row};
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::{event_columns, event_view, event_views, stored_body_bytes};
use crate::look::AttemptRow;
use crate::message::{MessageRow, message_rows};
use hooklatch_contract::{
    AttemptView, AuditView, ContentView, DamagedRow, EventFacts, EventTaker, EventView, KeptBody,
    LedgerEntry, LedgerView, LedgerWhat, PauseFact, judge_event,
};
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{EventKey, EventState, MESSAGES_N_MAX, MessageId, Reach, Role, UnixMs};

/// Most entries of a ledger.
const ENTRIES_N_MAX: usize = 1_000;
/// Time after which a dispatch that is due counts as late. Milliseconds.
const LATE_MS: i64 = 60_000;
/// Most bytes of a body that are shown within a ledger.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

impl People {
    /// All that is known of one event; `taker` says what this node's configuration has for it. Where its content is
    /// shown, the audit log records it.
    pub async fn event_ledger(
        &self,
        key: &EventKey,
        now_ms: UnixMs,
        taker: impl FnOnce(&EventView) -> EventTaker,
    ) -> Result<LedgerView, PeopleError> {
        self.needs_event(key)?;
        let installation_id = self.store.installation_id().await?;
        let ring = self.may_see_contents().then(|| self.store.ring.clone());
        let (store, wanted, reach) = (&self.store, key.clone(), self.principal.destinations.clone());
        let facts = snapshot!(store.event_ledger(&wanted, &installation_id, (ring.as_ref(), &reach)))?;
        let facts: LedgerFacts = facts.ok_or(PeopleError::NotFound)?;
        let has_payload = facts.payload.is_some();
        let taker = taker(&facts.event);
        let mut ledger = self.ledger_view(facts, taker, now_ms);
        let answers = self.answers_read(key, &ledger);
        if self.may_see_contents() && (has_payload || !answers.is_empty()) {
            ledger.content = self.content(key, answers, now_ms).await?.as_ref().map(content_view);
        }
        ledger.content_missing = match (&ledger.content, self.may_see_contents()) {
            (Some(_), _) => None,
            (None, true) => Some("pruned".to_owned()),
            (None, false) => Some("role".to_owned()),
        };
        Ok(ledger)
    }

    /// The bytes of an event's body; the access is recorded in the audit log.
    pub async fn event_body(&self, key: &EventKey, now_ms: UnixMs) -> Result<KeptContent, PeopleError> {
        self.needs(Role::Reader)?;
        self.needs_event(key)?;
        self.content(key, Vec::new(), now_ms).await?.ok_or(PeopleError::NotFound)
    }

    /// What the audit log is to tell of the kept answers that a ledger shows: a row for each message.
    fn answers_read(&self, key: &EventKey, ledger: &LedgerView) -> Vec<AuditEntry> {
        let mut answers_n: BTreeMap<MessageId, usize> = BTreeMap::new();
        for entry in &ledger.entries {
            let LedgerWhat::Attempt { message_id, attempt, .. } = &entry.what else { continue };
            if let (Ok(id), true) = (message_id.parse(), attempt.response.is_some()) {
                *answers_n.entry(id).or_default() += 1;
            }
        }
        answers_n.into_iter().map(|(id, answers_n)| self.answer_read(key, id, answers_n)).collect()
    }

    /// Refuses events of providers out of scope, and ids that no event can have.
    pub(super) fn needs_event(&self, key: &EventKey) -> Result<(), PeopleError> {
        let is_possible = !key.event_id.contains('\0') && (1..=255).contains(&key.event_id.len());
        if is_possible { self.needs_provider(key.provider.as_str()) } else { Err(PeopleError::NotFound) }
    }

    /// The content of an event, if it is kept; the audit log records access to it and to these answers.
    async fn content(
        &self,
        key: &EventKey,
        answers: Vec<AuditEntry>,
        now_ms: UnixMs,
    ) -> Result<Option<KeptContent>, PeopleError> {
        let (store, key, ring) = (&self.store, key.clone(), self.store.ring.clone());
        let read = AuditEntry {
            actor: self.actor(),
            action: "body_read",
            provider: Some(key.provider.to_string()),
            event_id: Some(key.event_id.clone()),
            ..AuditEntry::default()
        };
        Ok(together!(store.deciding.body_read(&key, &ring, (&read, &answers), now_ms))?)
    }

    /// The entries of these facts, as far as this operator may know them.
    fn ledger_view(&self, facts: LedgerFacts, taker: EventTaker, now_ms: UnixMs) -> LedgerView {
        let judgement = judge_event(&judged_facts(&facts, taker, now_ms));
        let reach = &self.principal.destinations;
        let mut entries = beginnings(&facts);
        let (mut seen, mut hidden_n) = (BTreeSet::new(), 0);
        for message in facts.messages {
            if reach.has(&message.destination) {
                seen.insert(message.message_id.to_string());
                let at_ms = message.created_at_ms;
                entries.push(entry(at_ms, LedgerWhat::Effect { message: message_view(message) }));
            } else {
                hidden_n += 1;
            }
        }
        // The destination of a message that is no longer there is unknown: only those who reach everywhere may see it.
        let is_seen = |id: &str| *reach == Reach::All || seen.contains(id);
        for one in facts.attempts {
            let (message_id, effect_name) = (one.message_id.to_string(), one.effect_name);
            if !is_seen(&message_id) {
                continue;
            }
            let what = LedgerWhat::Attempt { message_id, effect_name, attempt: one.attempt };
            entries.push(entry(one.at_ms, what));
        }
        for decision in facts.decisions {
            if decision.message_id.as_deref().is_none_or(is_seen) {
                entries.push(entry(decision.at_ms, LedgerWhat::Decision { decision }));
            }
        }
        // What happened in the same millisecond stays in the order of this list.
        entries.sort_by_key(|one| one.at_ms);
        let cut_n = entries.len().saturating_sub(ENTRIES_N_MAX);
        entries.drain(..cut_n);
        let event = facts.event;
        let beside_event_id = first_event_id(&event.event_id, event.error.as_deref()).map(str::to_owned);
        LedgerView {
            event,
            judgement,
            beside_event_id,
            content: None,
            content_missing: None,
            entries,
            conflicts_unkept_n: facts.unkept_n,
            hidden_messages_n: hidden_n,
            damaged: facts.damaged,
            is_cut: cut_n > 0 || facts.is_cut,
            // The node that answers knows.
            trace_id: None,
            is_trace_recorded: None,
        }
    }
}

/// The facts that an event is judged by.
fn judged_facts(facts: &LedgerFacts, taker: EventTaker, now_ms: UnixMs) -> EventFacts<'_> {
    let event = &facts.event;
    let kept_beside = facts.conflicts.iter().map(|(kept, _)| kept).chain(&facts.replays);
    let is_open = |kept: &EventView| {
        kept.delivery.unfinished_n() > 0
            || matches!(kept.state, EventState::Retry | EventState::Failed | EventState::Conflict)
    };
    let conflicts = facts.conflicts.iter().filter(|(kept, _)| kept.state == EventState::Conflict);
    EventFacts {
        provider: &event.provider,
        state: event.state,
        attempts_n: event.attempts_n,
        generation: event.generation,
        is_first_ordered: facts.decisions.iter().any(|one| one.action == "event_dispatch"),
        delivery: &event.delivery,
        body: match &facts.payload {
            None => KeptBody::Gone,
            Some(payload) if payload.is_whole => KeptBody::Whole,
            Some(_) => KeptBody::Redacted,
        },
        taker,
        is_restored: facts.is_restored,
        is_late: event.due_at_ms.is_some_and(|at_ms| at_ms.saturating_add(LATE_MS) < now_ms),
        is_synthetic: event.synthetic,
        beside: first_event_id(&event.event_id, event.error.as_deref()),
        pause: match facts.pause {
            PauseFact::Until(until_ms) if until_ms <= now_ms => PauseFact::No,
            pause => pause,
        },
        conflicts_n: u32::try_from(conflicts.count()).unwrap_or(u32::MAX),
        has_open_beside: kept_beside.into_iter().any(is_open),
    }
}

fn entry(at_ms: UnixMs, what: LedgerWhat) -> LedgerEntry {
    LedgerEntry { at_ms, what }
}

/// What happened before anything was sent.
fn beginnings(facts: &LedgerFacts) -> Vec<LedgerEntry> {
    let event = &facts.event;
    let received = LedgerWhat::Received {
        body_bytes_n: facts.payload.as_ref().and_then(|payload| payload.body_bytes_n),
        secret_position: None,
        secret_fingerprint: facts.payload.as_ref().and_then(|payload| payload.secret.clone()),
    };
    let latched = LedgerWhat::Latched { digest: facts.digest.clone(), identity: event.identity.clone() };
    let mut entries = vec![entry(event.received_at_ms, received), entry(event.received_at_ms, latched)];
    for (kept, digest) in &facts.conflicts {
        let what = LedgerWhat::Conflict { event: kept.clone(), digest: digest.clone() };
        entries.push(entry(kept.received_at_ms, what));
    }
    for kept in &facts.replays {
        entries.push(entry(kept.received_at_ms, LedgerWhat::Replayed { event: kept.clone() }));
    }
    if let Some((copies_n, first_at_ms, last_at_ms)) = facts.copies {
        let what = LedgerWhat::Duplicates { copies_n, first_at_ms: Some(first_at_ms) };
        entries.push(entry(last_at_ms, what));
    }
    // No handler is asked about these.
    let is_put_aside = matches!(
        event.state,
        EventState::Unreadable | EventState::Replayed | EventState::Conflict | EventState::Dismissed
    );
    if !is_put_aside {
        let (state, attempts_n, error) = (event.state, event.attempts_n, event.error.clone());
        let at_ms = event.processed_at_ms.unwrap_or(event.received_at_ms);
        entries.push(entry(at_ms, LedgerWhat::Handled { state, attempts_n, error }));
    }
    entries
}

/// A content with as much of its body as operators look at.
fn content_view(content: &KeptContent) -> ContentView {
    let (shown, is_lossy) = if let Ok(text) = std::str::from_utf8(&content.body) {
        (Cow::Borrowed(text.get(..text.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or(text)), false)
    } else {
        (String::from_utf8_lossy(content.body.get(..SHOWN_BYTES_MAX).unwrap_or(&content.body)), true)
    };
    ContentView {
        headers: headers_of(&content.headers),
        body: shown.into_owned(),
        is_lossy,
        body_bytes_n: content.body.len() as u64,
        is_encrypted: content.key_id.is_some(),
        unopened: content.unopened.clone(),
        redacted_n: content.redacted_n,
    }
}

async fn event_ledger(
    db: &mut Executor<'_>,
    key: &EventKey,
    installation_id: &uuid::Uuid,
    seen: (Option<&KeyRing>, &Reach),
) -> DbResult<Option<LedgerFacts>> {
    ledger_facts(db, key, installation_id, seen).await
}

/// Reads a content, if it is kept, and records that access in the audit log as `read`, and access to these answers.
async fn body_read(
    db: &mut Executor<'_>,
    key: &EventKey,
    ring: &KeyRing,
    (read, answers): (&AuditEntry, &[AuditEntry]),
    now_ms: UnixMs,
) -> DbResult<Option<KeptContent>> {
    let content = event_content(db, key, ring).await?;
    let mut entries: Vec<AuditEntry> = content.iter().map(|_| read.clone()).collect();
    entries.extend_from_slice(answers);
    append(db, now_ms, &entries).await?;
    Ok(content)
}

const EVENTS_TABLE: &str = "processed_webhook_events";
/// Most attempts, and most decisions, that are read: more than a ledger has entries, so that it knows that it is cut.
const ROWS_N_MAX: u32 = 1_001;

/// What the tables say of one event.
pub(super) struct LedgerFacts {
    pub event: EventView,
    /// Digest of its content, in hexadecimal.
    pub digest: String,
    /// `None` when its bytes are no longer kept.
    pub payload: Option<PayloadFacts>,
    /// Further copies: how many, and when the first and the last one were received.
    pub copies: Option<(u64, UnixMs, UnixMs)>,
    /// Other contents under its id, with their digests.
    pub conflicts: Vec<(EventView, String)>,
    pub unkept_n: u64,
    /// Copies under other ids.
    pub(super) replays: Vec<EventView>,
    pub messages: Vec<MessageRow>,
    pub attempts: Vec<AttemptFacts>,
    pub decisions: Vec<AuditView>,
    /// Rows of all these that cannot be read.
    pub damaged: Vec<DamagedRow>,
    /// True when there are more attempts or decisions.
    pub is_cut: bool,
    /// True when the database was restored from a backup after the event was received.
    pub(super) is_restored: bool,
    /// The pause of its provider; its end may be over.
    pub pause: PauseFact,
}

pub(super) struct PayloadFacts {
    /// `None` when it is sealed.
    pub body_bytes_n: Option<u64>,
    /// Fingerprint of the secret that matched.
    pub secret: Option<String>,
    /// True when it is kept as received, so that handlers can be run on it.
    pub is_whole: bool,
}

pub(super) struct AttemptFacts {
    pub at_ms: UnixMs,
    pub message_id: MessageId,
    pub effect_name: String,
    pub attempt: AttemptView,
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
    db: &mut Executor<'_>,
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

async fn payload_of(db: &mut Executor<'_>, event_seq: i64) -> DbResult<Option<PayloadFacts>> {
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
    db: &mut Executor<'_>,
    key: &EventKey,
    replay_key: Option<Vec<u8>>,
    reach: &Reach,
) -> DbResult<IntactRows<(i64, EventView)>> {
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
    db: &mut Executor<'_>,
    event_seq: i64,
    installation_id: &Uuid,
    ring: Option<&KeyRing>,
) -> DbResult<(IntactRows<MessageRow>, IntactRows<AttemptFacts>)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_body_is_shown_in_part_and_counted_whole() {
        let content = |body: Vec<u8>, headers: &str| KeptContent {
            headers: headers.to_owned(),
            body,
            key_id: None,
            unopened: None,
            redacted_n: None,
        };
        let long = content_view(&content(vec![b'x'; SHOWN_BYTES_MAX + 1], "{}"));
        assert_eq!((long.body.len(), long.body_bytes_n), (SHOWN_BYTES_MAX, SHOWN_BYTES_MAX as u64 + 1));
        let wide = content_view(&content("ä".repeat(SHOWN_BYTES_MAX).into_bytes()[1..].to_vec(), "{}"));
        assert!(wide.is_lossy);
        let wide = content_view(&content(["x", &"ä".repeat(SHOWN_BYTES_MAX)].concat().into_bytes(), "{}"));
        assert_eq!((wide.body.len(), wide.is_lossy), (SHOWN_BYTES_MAX - 1, false), "no half of a character");
        let short = content_view(&content(b"a\xffb".to_vec(), r#"{"x":["1"]}"#));
        assert_eq!(
            (short.body.as_str(), short.is_lossy, short.headers["x"].as_slice()),
            ("a\u{fffd}b", true, &["1".to_owned()][..])
        );
        assert!(content_view(&content(Vec::new(), "no JSON")).headers.is_empty());
    }
}
