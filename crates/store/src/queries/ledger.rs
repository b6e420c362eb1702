//! The ledger of one event: all rows about it, in order of time, from one snapshot.
//!
//! The tables are read in one snapshot transaction, each by a key, and become entries. The received content is read in
//! a second one, for those who may see it: that one writes the audit log too, so that no access to content is
//! unrecorded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::messages::{attempt_view, attempts_sql, message_view};
use super::providers::headers_of;
use super::records::audit_rows;
use super::{OperatorError, OperatorQueries};
use crate::apart::{KeptContent, conflict_ids, event_content, first_event_id, replay_places};
use crate::audit::{AuditEntry, append};
use crate::damaged::{IntactRows, intact, of_row};
use crate::db::{DbResult, Executor, Row, Value};
use crate::decision::Refusal;
use crate::event::{event_columns, event_view, event_views, stored_body_bytes};
use crate::message::{MessageRow, message_rows};
use hooklatch_contract::{
    AuditView, ContentView, DamagedRow, EventFacts, EventTaker, EventView, KeptBody, LedgerEntry, LedgerView,
    LedgerWhat, PauseFact, judge_event,
};
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{EventKey, EventState, MESSAGES_N_MAX, MessageId, Reach, Role, UnixMs};

/// Most entries of a ledger.
const ENTRIES_N_MAX: usize = 1_000;
/// Time after which a dispatch that is due counts as late. Milliseconds.
const LATE_MS: i64 = 60_000;
/// Most bytes of a body that are shown within a ledger.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

impl OperatorQueries {
    /// All rows about one event; `taker` says what this node's configuration has for it. Where its content is
    /// shown, the audit log records it.
    pub async fn event_ledger(
        &self,
        key: &EventKey,
        now_ms: UnixMs,
        taker: impl FnOnce(&EventView) -> EventTaker,
    ) -> Result<LedgerView, OperatorError> {
        self.needs_event(key)?;
        let installation_id = self.store.installation_id().await?;
        let ring = self.may_see_contents().then(|| self.store.ring.clone());
        let (wanted, reach) = (key.clone(), self.principal.destinations.clone());
        let facts = snapshot!(self.store, "event_ledger", |db| {
            ledger_facts(db, &wanted, &installation_id, (ring.as_ref(), &reach)).await
        })?;
        let facts: LedgerFacts = facts.ok_or(OperatorError::NotFound)?;
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
    pub async fn event_body(&self, key: &EventKey, now_ms: UnixMs) -> Result<KeptContent, OperatorError> {
        self.needs(Role::Reader)?;
        self.needs_event(key)?;
        if let Some(content) = self.content(key, Vec::new(), now_ms).await? {
            return Ok(content);
        }
        // An event outlives its bytes.
        let is_event = self.store.event_get(key).await?.is_some();
        Err(if is_event { Refusal::BodyGone.into() } else { OperatorError::NotFound })
    }

    /// Rows of the audit log about the kept answers that a ledger shows: one for each message.
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

    /// The content of an event, if it is kept; the audit log records access to it and to these answers.
    async fn content(
        &self,
        key: &EventKey,
        answers: Vec<AuditEntry>,
        now_ms: UnixMs,
    ) -> Result<Option<KeptContent>, OperatorError> {
        let read = self.entry("body_read", "").on_event(key.provider.to_string(), &key.event_id);
        let (key, ring) = (key.clone(), self.store.ring.clone());
        Ok(together!(self.store, deciding, "body_read", |db| {
            let content = event_content(db, &key, &ring).await?;
            let mut entries: Vec<AuditEntry> = content.iter().map(|_| read.clone()).collect();
            entries.extend(answers);
            append(db, now_ms, &entries).await?;
            Ok(content)
        })?)
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
        entries.extend(facts.attempts.into_iter().filter(|one| match &one.what {
            LedgerWhat::Attempt { message_id, .. } => is_seen(message_id),
            _ => true,
        }));
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
        body_bytes_n: facts.payload.as_ref().map(|payload| payload.body_bytes_n),
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
        body_bytes_n: content.body_bytes_n,
        is_encrypted: content.key_id.is_some(),
        unopened: content.unopened.clone(),
        redacted_n: content.redacted_n,
    }
}

const EVENTS_TABLE: &str = "processed_webhook_events";
/// Most attempts, and most decisions, that are read: more than a ledger has entries, so that it knows that it is cut.
const ROWS_N_MAX: u32 = 1_001;

/// What the tables say of one event.
struct LedgerFacts {
    event: EventView,
    /// Digest of its content, in hexadecimal.
    digest: String,
    /// `None` when its bytes are no longer kept.
    payload: Option<PayloadFacts>,
    /// Further copies: how many, and when the first and the last one were received.
    copies: Option<(u64, UnixMs, UnixMs)>,
    /// Other contents under its id, with their digests.
    conflicts: Vec<(EventView, String)>,
    unkept_n: u64,
    /// Copies under other ids.
    replays: Vec<EventView>,
    messages: Vec<MessageRow>,
    /// The attempts, as entries.
    attempts: Vec<LedgerEntry>,
    decisions: Vec<AuditView>,
    /// Rows of all these that cannot be read.
    damaged: Vec<DamagedRow>,
    /// True when there are more attempts or decisions.
    is_cut: bool,
    /// True when the database was restored from a backup after the event was received.
    is_restored: bool,
    /// The pause of its provider; its end may be over.
    pause: PauseFact,
}

struct PayloadFacts {
    /// Length of the body, also of one that is sealed.
    body_bytes_n: u64,
    /// Fingerprint of the secret that matched.
    secret: Option<String>,
    /// True when it is kept as received, so that handlers can be run on it.
    is_whole: bool,
}

/// Events `e` of one provider with their replay keys, by an id, several or a replay key.
fn events_sql(is_it: &str) -> String {
    let columns = event_columns!();
    format!(
        "/* event_ledger */ SELECT {columns}, e.replay_key FROM processed_webhook_events e
         WHERE e.provider = $1 AND {is_it}"
    )
}
const IS_ID: &str = "e.event_id = $2";
const IS_ONE_OF: &str = "e.event_id = ANY($2)";
const IS_REPLAY: &str = "e.replay_key = $2";

fn payload_sql() -> String {
    format!(
        "/* event_ledger */ SELECT CAST({} AS BIGINT) AS bytes_n, secret, key_id,
             CASE WHEN redacted_n IS NULL OR whole IS NOT NULL THEN 1 ELSE 0 END AS is_whole FROM webhook_payloads p
         WHERE event_seq = $1",
        stored_body_bytes!("p")
    )
}

fn event_attempts_sql() -> String {
    attempts_sql("event_ledger", "ORDER BY started_at_ms DESC, message_id DESC, attempt_n DESC LIMIT $3")
}

const COPIES: &str = "/* event_ledger */ SELECT copies_n, first_at_ms, last_at_ms FROM event_copies
     WHERE provider = $1 AND event_id = $2";
const UNKEPT: &str =
    "/* event_ledger */ SELECT unkept_n FROM conflict_counts WHERE provider = $1 AND event_id = $2";
const MESSAGES: &str = "/* event_ledger */ SELECT m.* FROM outbox_messages m
     WHERE m.event_seq = $1 / 1024 AND m.message_id >= $1 AND m.message_id < $2 ORDER BY m.message_id";
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
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    vec![
        ("event_ledger event", events_sql(IS_ID)),
        ("event_ledger payload", payload_sql()),
        ("event_ledger copies", COPIES.to_owned()),
        ("event_ledger conflicts", events_sql(IS_ONE_OF)),
        ("event_ledger unkept", UNKEPT.to_owned()),
        ("event_ledger replay", events_sql(IS_REPLAY)),
        ("event_ledger messages", MESSAGES.to_owned()),
        ("event_ledger attempts", event_attempts_sql()),
        ("event_ledger decisions", DECISIONS.to_owned()),
        ("event_ledger restored", RESTORED.to_owned()),
    ]
}

/// What the tables say of the event with this key; `None` when there is none. With a ring, the pieces of answers too.
async fn ledger_facts(
    db: &mut Executor<'_>,
    key: &EventKey,
    installation_id: &Uuid,
    (ring, reach): (Option<&KeyRing>, &Reach),
) -> DbResult<Option<LedgerFacts>> {
    let by_key: [Value; 2] = [key.provider.as_str().into(), (&key.event_id).into()];
    let Some(row) = db.fetch_optional(events_sql(IS_ID), &by_key).await? else { return Ok(None) };
    let event_seq = row.int("event_seq")?;
    let conflicts = [by_key[0].clone(), conflict_ids(&key.event_id).into()];
    let conflicts = db.fetch(events_sql(IS_ONE_OF), &conflicts).await?;
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
    let Some(row) = db.fetch_optional(payload_sql(), &[event_seq.into()]).await? else { return Ok(None) };
    let is_sealed = row.text_or_null("key_id")?.is_some();
    Ok(Some(PayloadFacts {
        body_bytes_n: KeyRing::clear_bytes_n(is_sealed, row.int("bytes_n")?.unsigned_abs()),
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
        let Some(row) = db.fetch_optional(events_sql(IS_REPLAY), &values).await? else { break };
        found.push(row);
    }
    event_views(db, &found, reach).await
}

async fn messages_of(
    db: &mut Executor<'_>,
    event_seq: i64,
    installation_id: &Uuid,
    ring: Option<&KeyRing>,
) -> DbResult<(IntactRows<MessageRow>, IntactRows<LedgerEntry>)> {
    let first = event_seq.saturating_mul(i64::from(MESSAGES_N_MAX));
    let range: [Value; 2] = [first.into(), first.saturating_add(i64::from(MESSAGES_N_MAX)).into()];
    let rows = db.fetch(MESSAGES, &range).await?;
    let messages = message_rows(&rows, installation_id)?;
    let mut range = range.to_vec();
    range.push(ROWS_N_MAX.into());
    let rows = db.fetch(event_attempts_sql(), &range).await?;
    let attempt = |row: &Row| {
        let message_id = MessageId::from_column(row.int("message_id")?);
        let message = messages.rows.iter().find(|message| message.message_id == message_id);
        let effect_name = message.map(|message| message.effect_name.clone()).unwrap_or_default();
        let attempt = attempt_view(row, ring)?;
        let message_id = message_id.to_string();
        Ok(entry(attempt.started_at_ms, LedgerWhat::Attempt { message_id, effect_name, attempt }))
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
            body_bytes_n: body.len() as u64,
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
