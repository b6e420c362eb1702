//! Search by whatever id a person holds, and why it leads nowhere.
//!
//! Ids of events, messages and objects, and the ids inside events that their kinds name, are found by their keys; ids of
//! events and those inside them by their beginning, too. Idempotency keys are one-way and stand in no table: those of the
//! newest messages are made again and compared. Names of effects are compared with those of the newest open messages, and
//! refused requests, of which no body is kept, by their headers. Whoever finds nothing is told what was not looked at.

use uuid::Uuid;

use super::messages::message_view;
use super::person::{People, PeopleError};
use super::search_rows::{
    FOUND_N_MAX, FoundSort, KEYS_N, QUEUE_N, REJECTED_N, SearchFacts, SearchWant, is_beginning, search_facts,
};
use crate::api::{DamagedRow, EventView, SearchHit, SearchView, why_not_sent};
use crate::store::db::{DbResult, Door};
use crate::times;
use crate::types::{EventState, MessageId, SEARCH_CHARS_MIN, UnixMs, folded_id};

/// Configured providers whose events are not found by the ids inside them.
#[derive(Debug, Clone, Default)]
pub struct Unsearched {
    /// Those with `search = false`.
    pub off: Vec<String>,
    /// Those whose kind names no such ids.
    pub unnamed: Vec<String>,
}

/// Names of providers in one sentence, at most.
const NAMES_N_MAX: usize = 10;

impl People {
    /// Everything in reach that `query` leads to: an id, or the address of a page whose last part is one.
    pub async fn search(
        &self,
        query: &str,
        unsearched: &Unsearched,
        now_ms: UnixMs,
    ) -> Result<SearchView, PeopleError> {
        let id = id_of(query);
        let want = SearchWant {
            id: id.to_owned(),
            providers: self.principal.providers.names(),
            has_contents: self.may_see_contents(),
            search_keys: self.store.ring().search_keys(&folded_id(id.to_owned())),
            destinations: self.principal.destinations.clone(),
            installation_id: self.store.installation_id().await?,
        };
        // No text in a table holds a NUL, and no id is longer.
        let is_possible = !id.contains('\0') && (1..=255).contains(&id.len());
        let store = &self.store;
        let mut facts = if is_possible { snapshot!(store.search(&want))? } else { SearchFacts::default() };
        let is_seen = |destination: &str| self.principal.destinations.has(destination);
        facts.messages.retain(|(_, message)| is_seen(&message.destination));
        self.headers_read(&facts.rejected, now_ms).await?;
        let mut notes: Vec<String> = facts.cut.iter().map(|sort| more(*sort, id)).collect();
        notes.extend(facts.damaged.iter().map(DamagedRow::sentence));
        notes.extend(self::notes(id, &facts));
        if !is_possible {
            notes.push("Nothing was compared: an id has 1 to 255 bytes, and no NUL.".to_owned());
        } else if !is_found(id, &facts) {
            notes.extend(self.not_looked_at(id, &facts, unsearched));
        }
        let (is_cut, skips_ids_inside) = (!facts.cut.is_empty(), !self.may_see_contents());
        let found = found(id, facts);
        let headline = headline(found.len(), is_cut, skips_ids_inside);
        Ok(SearchView { query: id.to_owned(), headline, is_cut, skips_ids_inside, found, notes })
    }

    /// What a search that found nothing looked at, and what it did not.
    fn not_looked_at(&self, id: &str, facts: &SearchFacts, unsearched: &Unsearched) -> Vec<String> {
        let has_contents = self.may_see_contents();
        let mut notes = vec![
            "Compared with: ids of events, of objects and of messages, idempotency keys, names of effects, and ids inside \
             events where their kind names them (`hooklatch providers KIND` says which)."
                .to_owned(),
            "Not looked at: bodies and headers of events. So this does not show that the sender never sent it."
                .to_owned(),
        ];
        notes.push(if is_beginning(id) {
            "Objects, messages and effects were compared whole; ids of events, and those inside them, by their beginning."
                .to_owned()
        } else {
            format!("It is shorter than {SEARCH_CHARS_MIN} characters: ids inside events that are so short are not kept, and of \
                 all others whole ids alone were compared.")
        });
        notes.push(match facts.oldest_at_ms {
            None => "No event that this token may see has been received yet.".to_owned(),
            Some(at_ms) => {
                format!(
                    "No event from before {} is here: older ones were pruned, or never came.",
                    times::day(at_ms)
                )
            }
        });
        if !has_contents {
            notes.push("Ids inside events were not searched: that takes the role `reader`.".to_owned());
        } else if let Some(at_ms) = facts.oldest_body_at_ms {
            notes.push(format!(
                "Ids inside events are deleted with their bodies; the oldest body is from {}.",
                times::day(at_ms)
            ));
        }
        if facts.is_ids_cut {
            notes.push("Ids inside events were compared in the newest 100 million events alone.".to_owned());
        }
        if has_contents && self.store.ring().is_on() {
            notes.push("Bodies are encrypted: ids inside events are found whole only.".to_owned());
        }
        let seen = |names: &[String]| {
            let seen = names.iter().filter(|name| self.principal.providers.has(name));
            let names: Vec<String> = seen.take(NAMES_N_MAX).map(|name| format!("`{name}`")).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(names) = seen(&unsearched.off) {
            notes.push(format!("Ids inside events of {names} are not kept: `search = false`."));
        }
        if let Some(names) = seen(&unsearched.unnamed) {
            notes.push(format!("The kind of {names} names no ids inside its events."));
        }
        if facts.is_queue_cut {
            notes.push(format!(
                "Names of effects were compared with the newest {QUEUE_N} open messages alone."
            ));
        } else {
            notes.push("Names of effects were compared with those of open messages alone.".to_owned());
        }
        let what = if has_contents { "ids, body digests and headers" } else { "ids and body digests" };
        let of_role = if has_contents { "" } else { "; their headers take the role `reader`" };
        notes.push(match facts.rejected.len() {
            0 => format!("No match in the {what} of the newest {REJECTED_N} rejected requests{of_role}."),
            n => format!("{n} of the newest {REJECTED_N} rejected requests match by {what}{of_role}."),
        });
        notes
    }
}

/// What came of a search.
fn headline(found_n: usize, is_cut: bool, skips_ids_inside: bool) -> String {
    match found_n {
        0 if skips_ids_inside => {
            "Nothing was found in what this token may search. Ids inside events (payments, orders, invoices) are searched for \
             the role `reader` only, so this does not say that the event never came."
                .to_owned()
        }
        0 => "No stored event, message or rejected request matches. The notes say what was compared and what was not."
            .to_owned(),
        n if is_cut => format!("More match than the {n} that are listed. The notes say how to see the others."),
        1 => "1 match.".to_owned(),
        n => format!("{n} matches."),
    }
}

/// That there are more finds of a sort than are listed, and how to come to the others.
fn more(sort: FoundSort, id: &str) -> String {
    let (what, how) = match sort {
        FoundSort::EventId => ("events have ids that begin so", "search for more of the id"),
        FoundSort::SearchId => ("events have such an id inside", "search for more of the id"),
        FoundSort::Object => ("events are about this object", "list them by their object, provider and time"),
        FoundSort::Effect => ("open messages have this effect", "list messages by state and destination"),
        FoundSort::Rejected => ("rejected requests match", "list rejected requests by provider"),
    };
    let command = match sort {
        FoundSort::EventId | FoundSort::SearchId => String::new(),
        FoundSort::Object => format!(" (`hooklatch events list --object {id}`)"),
        FoundSort::Effect => " (`hooklatch messages list`)".to_owned(),
        FoundSort::Rejected => " (`hooklatch rejected list`)".to_owned(),
    };
    format!("More than {FOUND_N_MAX} {what}; {FOUND_N_MAX} are listed. To see the others, {how}{command}.")
}

/// What is known besides the finds, one sentence each.
fn notes(id: &str, facts: &SearchFacts) -> Vec<String> {
    let mut notes: Vec<String> =
        facts.events.iter().filter(|one| one.event_id == id).filter_map(told).collect();
    if let Some(note) = only_begins(id, facts) {
        notes.push(note);
    }
    if let [first, _, ..] = &facts.events[..]
        && facts.events.iter().all(|one| one.event_id == first.event_id)
    {
        let n = facts.events.len();
        notes.push(format!("{n} providers have an event of the id `{}`.", first.event_id));
    }
    if Uuid::parse_str(id).is_ok() && !is_found(id, facts) {
        notes.push(format!(
            "Idempotency keys are not stored: those of the newest {KEYS_N} open and {KEYS_N} finished messages \
             were compared. An older message is found by its `Hooklatch-Message-Id`, which every call has."
        ));
    }
    notes
}

/// That nothing has this id whole, where what was found only begins with it.
fn only_begins(id: &str, facts: &SearchFacts) -> Option<String> {
    let is_whole = |event: &EventView| {
        let parts = event.parts.iter().chain([&event.event_id]);
        parts.into_iter().any(|one| folded_id(one.clone()) == folded_id(id.to_owned()))
    };
    let has_events = !facts.events.is_empty() || !facts.with_id.is_empty();
    let is_so = has_events && !facts.is_id_whole && !facts.events.iter().any(is_whole);
    is_so.then(|| {
        format!(
            "No event has the id `{id}`, and none has it inside: the ids of what is listed only begin with it. It may be \
             about something else."
        )
    })
}

/// The id in what a person pasted: all of it, or of the address of a page its last part.
fn id_of(query: &str) -> &str {
    let query = query.trim();
    let Some(address) = query.strip_prefix("https://").or_else(|| query.strip_prefix("http://")) else {
        return query;
    };
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let last = path.split_once('/').and_then(|(_, path)| path.split('/').rfind(|part| !part.is_empty()));
    last.unwrap_or(query)
}

/// True when it is the id of something, not only a text that something holds.
fn is_found(id: &str, facts: &SearchFacts) -> bool {
    !facts.events.is_empty()
        || !facts.with_id.is_empty()
        || !facts.of_object.is_empty()
        || facts.messages.iter().any(|(is_by_key, message)| *is_by_key || is_number(id, message.message_id))
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
    let is_shown = |hits: &[SearchHit], one: &EventView| {
        let is_it = |it: &EventView| (&it.provider, &it.event_id) == (&one.provider, &one.event_id);
        hits.iter().any(|hit| match hit {
            SearchHit::EventId { event } | SearchHit::SearchId { event } => is_it(event),
            _ => false,
        })
    };
    for event in facts.with_id {
        if !is_shown(&found, &event) {
            found.push(SearchHit::SearchId { event });
        }
    }
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
    for event in facts.of_object {
        if !is_shown(&found, &event) {
            found.push(SearchHit::Object { event });
        }
    }
    found.extend(of_effect);
    found.extend(facts.rejected.into_iter().map(|rejected| SearchHit::Rejected { rejected }));
    found
}

/// The reason why nothing, or not what one may expect, followed from an event.
fn told(event: &EventView) -> Option<String> {
    let why = why_not_sent(event.state).filter(|_| event.state != EventState::Failed)?;
    Some(format!("`{}` of {}: {why}", event.event_id, event.provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_out_of_the_address_of_a_page() {
        for (query, want) in [
            ("https://dashboard.stripe.com/test/events/evt_1Abc", "evt_1Abc"),
            ("https://dashboard.stripe.com/payments/pi_1/?x=y/z#top", "pi_1"),
            (" http://example.com/a ", "a"),
            ("https://example.com/", "https://example.com/"),
            ("https://example.com", "https://example.com"),
            ("orders/1042", "orders/1042"),
            (" evt_1\n", "evt_1"),
        ] {
            assert_eq!(id_of(query), want, "{query}");
        }
    }
}
