//! The ledger of one event: all that is known of it, in order of time, as it was at one moment.
//!
//! The tables are read in one transaction that sees them at one moment (`ledger_rows.rs`), here they become entries. What
//! was received is read in a second one, by those who may see it: that one writes the audit log too, so that no content
//! leaves untold.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::ledger_rows::{LedgerFacts, ledger_facts};
use super::messages::message_view;
use super::person::{People, PeopleError};
use super::rejected::headers_of;
use crate::api::{
    ContentView, EventFacts, EventTaker, EventView, KeptBody, LedgerEntry, LedgerView, LedgerWhat, PauseFact,
    judge_event,
};
use crate::seal::KeyRing;
use crate::store::apart::{KeptContent, event_content, first_event_id};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door};
use crate::types::{EventKey, EventState, MessageId, Reach, Role, UnixMs};

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
        let mut ledger = self.told(facts, taker, now_ms);
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

    /// The bytes of an event's body, which the audit log tells of.
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

    /// The content of an event, if it is kept; the audit log tells of it and of these answers.
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

    /// The entries of these facts, as far as this person may know them.
    fn told(&self, facts: LedgerFacts, taker: EventTaker, now_ms: UnixMs) -> LedgerView {
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
        // Of a message that is no longer there nobody knows where it went: it is for those who reach everywhere.
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

/// A content with as much of its body as people look at.
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
    db: &mut Door<'_>,
    key: &EventKey,
    installation_id: &uuid::Uuid,
    seen: (Option<&KeyRing>, &Reach),
) -> DbResult<Option<LedgerFacts>> {
    ledger_facts(db, key, installation_id, seen).await
}

/// Reads a content, if it is kept, and says so in the audit log as `read` has it, and that these answers were read.
async fn body_read(
    db: &mut Door<'_>,
    key: &EventKey,
    ring: &KeyRing,
    (read, answers): (&AuditEntry, &[AuditEntry]),
    now_ms: UnixMs,
) -> DbResult<Option<KeptContent>> {
    let content = event_content(db, key, ring).await?;
    let mut told: Vec<AuditEntry> = content.iter().map(|_| read.clone()).collect();
    told.extend_from_slice(answers);
    append(db, now_ms, &told).await?;
    Ok(content)
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
