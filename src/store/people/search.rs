//! Search by whatever id a person holds, and why it leads nowhere.
//!
//! Ids of events and messages and objects are found by their keys. Idempotency keys are one-way and stand in no table:
//! those of the newest messages are made again and compared. Names of effects are compared with those of the newest
//! open messages, and refused requests, of which no body is kept, by their headers. How far each of these went is said.

use uuid::Uuid;

use super::messages::message_view;
use super::person::{People, PeopleError};
use super::search_rows::{KEYS_N, QUEUE_N, REJECTED_N, SearchFacts, SearchWant, search_facts};
use crate::api::{EventView, SearchHit, SearchView, why_not_sent};
use crate::figures::plural;
use crate::store::db::{DbResult, Door};
use crate::types::{EventState, MessageId, UnixMs};

impl People {
    /// Everything in reach that `id` leads to.
    pub async fn search(&self, id: &str, now_ms: UnixMs) -> Result<SearchView, PeopleError> {
        let want = SearchWant {
            id: id.to_owned(),
            providers: self.principal.providers.names(),
            destinations: self.principal.destinations.clone(),
            has_headers: self.may_see_contents(),
            installation_id: self.store.installation_id().await?,
        };
        // No text in a table holds a NUL, and no id is longer.
        let is_possible = !id.contains('\0') && (1..=255).contains(&id.len());
        let store = &self.store;
        let mut facts = if is_possible { snapshot!(store.search(&want))? } else { SearchFacts::default() };
        let is_seen = |destination: &str| self.principal.destinations.has(destination);
        facts.messages.retain(|(_, message)| is_seen(&message.destination));
        self.headers_read(&facts.rejected, now_ms).await?;
        let notes = notes(id, &facts, self.may_see_contents(), now_ms);
        Ok(SearchView { query: id.to_owned(), found: found(id, facts), notes })
    }
}

async fn search(db: &mut Door<'_>, want: &SearchWant) -> DbResult<SearchFacts> {
    search_facts(db, want).await
}

/// True when `id` is that of this message, however its number is written.
fn is_number(id: &str, message_id: MessageId) -> bool {
    id.parse::<MessageId>() == Ok(message_id)
}

/// The finds, the most telling first.
fn found(id: &str, facts: SearchFacts) -> Vec<SearchHit> {
    let mut found: Vec<SearchHit> =
        facts.events.into_iter().map(|event| SearchHit::EventId { event }).collect();
    let mut of_effect = Vec::new();
    for (is_by_key, row) in facts.messages {
        let message = message_view(row);
        if is_by_key {
            found.push(SearchHit::IdempotencyKey { message });
        } else if is_number(id, message.message_id) {
            found.push(SearchHit::MessageId { message });
        } else {
            of_effect.push(SearchHit::EffectName { message });
        }
    }
    found.extend(facts.of_object.into_iter().map(|event| SearchHit::Object { event }));
    found.extend(of_effect);
    found.extend(facts.rejected.into_iter().map(|rejected| SearchHit::Rejected { rejected }));
    found
}

/// What else is known, one sentence each.
fn notes(id: &str, facts: &SearchFacts, has_headers: bool, now_ms: UnixMs) -> Vec<String> {
    let mut notes: Vec<String> = facts.events.iter().filter_map(told).collect();
    if let [first, _, ..] = &facts.events[..] {
        let n = facts.events.len();
        notes.push(format!("{n} providers have an event of the id `{}`.", first.event_id));
    }
    if Uuid::parse_str(id).is_ok() && !facts.messages.iter().any(|(is_by_key, _)| *is_by_key) {
        notes.push(format!(
            "Idempotency keys are not stored: those of the newest {KEYS_N} open and {KEYS_N} finished messages were \
             compared; an older message is found by its `Hooklatch-Message-Id`, which goes with every call."
        ));
    }
    let is_found = !facts.events.is_empty()
        || !facts.of_object.is_empty()
        || facts.messages.iter().any(|(is_by_key, message)| *is_by_key || is_number(id, message.message_id));
    if is_found {
        return notes;
    }
    notes.push(if facts.is_queue_cut {
        format!("Names of effects were compared with the newest {QUEUE_N} open messages alone.")
    } else {
        "Names of effects were compared with those of open messages alone.".to_owned()
    });
    notes.push("Objects were compared whole, as the list of events shows them.".to_owned());
    notes.push(nowhere(facts, now_ms));
    notes.push(if has_headers {
        format!(
            "Of a refused request no body is kept: its id, the digest of its body and its headers were compared, of \
             the newest {REJECTED_N}, and {} of them tell of it.",
            facts.rejected.len()
        )
    } else {
        format!(
            "Of the newest {REJECTED_N} refused requests their ids and the digests of their bodies were compared, and \
             {} of them tell of it; their headers are for the role `reader` to see.",
            facts.rejected.len()
        )
    });
    notes
}

/// The reason why nothing has this id.
fn nowhere(facts: &SearchFacts, now_ms: UnixMs) -> String {
    let providers_n = facts.providers_n;
    match facts.oldest_at_ms {
        None => "No event has come yet that this token may see.".to_owned(),
        Some(at_ms) => format!(
            "None of {providers_n} providers has an event of this id: it never came, was refused before its id was \
             read, or came before what is remembered, which goes back {}.",
            span(now_ms.saturating_sub(at_ms))
        ),
    }
}

/// A time span in words, as long as it surely is.
fn span(span_ms: UnixMs) -> String {
    match u64::try_from(span_ms).unwrap_or_default() / 3_600_000 {
        0 => "less than an hour".to_owned(),
        hours_n @ 1..48 => plural(hours_n, "hour"),
        hours_n => plural(hours_n / 24, "day"),
    }
}

/// The reason why nothing was sent for an event.
fn told(event: &EventView) -> Option<String> {
    let why = why_not_sent(event.state).filter(|_| event.state != EventState::Failed)?;
    Some(format!("`{}` of {}: {why}", event.event_id, event.provider))
}
