//! Search by any id that an operator has, and why it leads nowhere.
//!
//! Ids of events, messages and objects, and the ids inside events that their kinds name, are found by their keys; ids
//! of events and those inside them by their prefix, too. Idempotency keys are one-way and in no table: those of the
//! newest messages are computed again and compared. Names of effects are compared with those of the newest open
//! messages, and refused requests, of which no body is kept, by their headers. An empty result names what was not
//! searched. Each query is bounded by a key or by a number of rows.
//!
//! The ids inside events are in `event_search_ids`, sorted within blocks of 1,024 event numbers. Ids are random, and
//! one B-tree of all of them would change a different page for each inserted id. Within a block the pages are few, and
//! the ids of one commit share them. A search probes each block, the newest first.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::events::LOOK_N;
use super::messages::message_view;
use super::providers::rejected_rows;
use super::{OperatorError, OperatorQueries, any_of};
use crate::damaged::{IntactRows, intact};
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::{event_columns, event_key, event_views};
use crate::message::{MessageRow, message_rows};
use hooklatch_contract::{DamagedRow, EventView, RejectedView, SearchHit, SearchView, why_not_sent};
use hooklatch_core::times;
use hooklatch_core::types::{
    EventState, MessageId, Reach, SEARCH_CHARS_MIN, UnixMs, folded_id, idempotency_key,
};

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

impl OperatorQueries {
    /// Everything in reach that `query` leads to: an id, or the address of a page whose last part is one.
    pub async fn search(
        &self,
        query: &str,
        unsearched: &Unsearched,
        now_ms: UnixMs,
    ) -> Result<SearchView, OperatorError> {
        let id = id_of(query);
        let want = SearchQuery {
            id: id.to_owned(),
            providers: self.principal.providers.names(),
            has_contents: self.may_see_contents(),
            search_keys: self.store.ring().search_keys(&folded_id(id.to_owned())),
            destinations: self.principal.destinations.clone(),
            installation_id: self.store.installation_id().await?,
        };
        // No text in a table holds a NUL, and no id is longer.
        let is_possible = !id.contains('\0') && (1..=255).contains(&id.len());
        let mut facts = if is_possible {
            snapshot!(self.store, "search", |db| search_facts(db, &want).await)?
        } else {
            SearchFacts::default()
        };
        let is_seen = |destination: &str| self.principal.destinations.has(destination);
        facts.messages.retain(|(_, message)| is_seen(&message.destination));
        self.record_headers_read(&facts.rejected, now_ms).await?;
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
                    "No event from before {} is here: older ones were pruned, or never arrived.",
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

/// One sentence about the result of a search.
fn headline(found_n: usize, is_cut: bool, skips_ids_inside: bool) -> String {
    match found_n {
        0 if skips_ids_inside => {
            "Nothing was found in what this token may search. Ids inside events (payments, orders, invoices) are searched for \
             the role `reader` only, so this does not say that the event never arrived."
                .to_owned()
        }
        0 => "No stored event, message or rejected request matches. The notes say what was compared and what was not."
            .to_owned(),
        n if is_cut => format!("More match than the {n} that are listed. The notes say how to see the others."),
        1 => "1 match.".to_owned(),
        n => format!("{n} matches."),
    }
}

/// The note that there are more finds of a sort than are listed, and how to find the others.
fn more(sort: FoundSort, id: &str) -> String {
    let (what, how) = match sort {
        FoundSort::EventId => ("events have ids that begin so", "search for more of the id".to_owned()),
        FoundSort::SearchId => ("events have such an id inside", "search for more of the id".to_owned()),
        FoundSort::Object => (
            "events are about this object",
            format!("list them by their object, provider and time (`hooklatch events list --object {id}`)"),
        ),
        FoundSort::Effect => (
            "open messages have this effect",
            "list messages by state and destination (`hooklatch messages list`)".to_owned(),
        ),
        FoundSort::Rejected => (
            "rejected requests match",
            "list rejected requests by provider (`hooklatch rejected list`)".to_owned(),
        ),
    };
    format!("More than {FOUND_N_MAX} {what}; {FOUND_N_MAX} are listed. To see the others, {how}.")
}

/// What there is to say besides the finds, one sentence each.
fn notes(id: &str, facts: &SearchFacts) -> Vec<String> {
    let mut notes: Vec<String> =
        facts.events.iter().filter(|one| one.event_id == id).filter_map(event_note).collect();
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

/// The id in what an operator pasted: all of it, or of the address of a page its last part.
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
fn event_note(event: &EventView) -> Option<String> {
    let why = why_not_sent(event.state).filter(|_| event.state != EventState::Failed)?;
    Some(format!("`{}` of {}: {why}", event.event_id, event.provider))
}

/// Messages whose idempotency keys are made again, of those that are open and of those that are finished.
const KEYS_N: u32 = 5_000;
/// Open messages whose effects are compared.
const QUEUE_N: u32 = 10_000;
/// Refused requests whose headers are compared.
const REJECTED_N: u32 = 2_000;
/// Blocks of search ids that are probed, each of 1,024 event numbers.
const BLOCKS_N: u32 = 100_000;
/// Rows of search ids that are looked at: what of them the token may not see is left out after that.
const SEARCH_IDS_N: u32 = 2_000;
/// Most finds of each kind.
const FOUND_N_MAX: u32 = 50;
/// One more: that there are more is said.
const ASKED_N: u32 = FOUND_N_MAX + 1;

/// A question of one operator.
struct SearchQuery {
    id: String,
    /// The only providers that may be seen; `None`: any.
    providers: Option<Vec<String>>,
    /// True when headers of refused requests, and ids inside events, may be seen.
    has_contents: bool,
    /// Destinations whose errors may be seen.
    destinations: Reach,
    /// The texts by which the table of search ids may have this one.
    search_keys: Vec<String>,
    installation_id: Uuid,
}

/// What the tables know of it.
#[derive(Default)]
struct SearchFacts {
    /// Events of this id.
    events: Vec<EventView>,
    /// Events with this id inside, or with one that begins so.
    with_id: Vec<EventView>,
    /// True when one of those has it whole.
    is_id_whole: bool,
    /// True when there are more search ids than were looked at.
    is_ids_cut: bool,
    /// Events about this object.
    of_object: Vec<EventView>,
    /// Messages, each with whether it was found by its idempotency key.
    messages: Vec<(bool, MessageRow)>,
    rejected: Vec<RejectedView>,
    /// Time of receipt of the oldest event that is remembered.
    oldest_at_ms: Option<UnixMs>,
    /// Time of receipt of the oldest event whose body is kept, and with it the ids inside.
    oldest_body_at_ms: Option<UnixMs>,
    /// True when not all open messages were compared by their effects.
    is_queue_cut: bool,
    /// Sorts of finds of which there are more than were kept.
    cut: Vec<FoundSort>,
    /// Rows that were found and cannot be read.
    damaged: Vec<DamagedRow>,
}

/// Sorts of finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundSort {
    EventId,
    SearchId,
    Object,
    Effect,
    Rejected,
}

impl SearchFacts {
    /// Keeps no more finds of each sort than are shown, and remembers of which there are more.
    fn cut(mut self) -> Self {
        // Those that a key or a number names stay.
        self.messages.sort_by_key(|(is_by_key, _)| !is_by_key);
        let is_cut = [
            (FoundSort::EventId, is_more(&mut self.events)),
            (FoundSort::SearchId, is_more(&mut self.with_id)),
            (FoundSort::Object, is_more(&mut self.of_object)),
            (FoundSort::Effect, is_more(&mut self.messages)),
            (FoundSort::Rejected, is_more(&mut self.rejected)),
        ];
        self.cut = is_cut.into_iter().filter_map(|(sort, is_cut)| is_cut.then_some(sort)).collect();
        self
    }
}

/// Keeps those that are shown; true when there were more.
fn is_more<T>(found: &mut Vec<T>) -> bool {
    let found_n = found.len();
    found.truncate(FOUND_N_MAX as usize);
    found_n > found.len()
}

/// Every provider that has an event: from each to the next by one probe of the key.
const PROVIDERS: &str = "/* search */ WITH RECURSIVE names (name) AS (
         SELECT MIN(provider) FROM processed_webhook_events
         UNION ALL
         SELECT (SELECT MIN(e.provider) FROM processed_webhook_events e WHERE e.provider > n.name)
         FROM names n WHERE n.name IS NOT NULL)
     SELECT name FROM names WHERE name IS NOT NULL LIMIT 1000";
const MESSAGES: &str =
    "/* search */ SELECT m.* FROM outbox_messages m WHERE m.message_id = ANY($1) ORDER BY m.message_id DESC";
const OF_EFFECT: &str = "/* search */ SELECT q.message_id FROM (
         SELECT message_id, COALESCE(effect_name, destination) AS name FROM outbox_queue
         ORDER BY message_id DESC LIMIT $1) q
     WHERE q.name = $2 ORDER BY q.message_id DESC LIMIT $3";
const QUEUE: &str = "/* search */ SELECT COUNT(*) AS open_n FROM (SELECT 1 FROM outbox_queue LIMIT $1) q";
const REJECTED: &str = "/* search */ SELECT r.* FROM (
         SELECT * FROM rejected_requests ORDER BY rejection_id DESC LIMIT $1) r
     WHERE (CAST($2 AS BIGINT) = 0 OR r.provider = ANY($3))
       AND (r.rejection_id = $4 OR r.body_digest = $5 OR (CAST($6 AS BIGINT) = 1 AND r.headers LIKE $7 ESCAPE '\\'))
     ORDER BY r.rejection_id DESC LIMIT $8";
const OLDEST: &str =
    "/* search */ SELECT received_at_ms FROM processed_webhook_events ORDER BY event_seq LIMIT 1";
const OLDEST_BODY: &str = "/* search */ SELECT e.received_at_ms
     FROM (SELECT event_seq FROM webhook_payloads ORDER BY event_seq LIMIT 1) p
     JOIN processed_webhook_events e ON e.event_seq = p.event_seq";
/// Every block of search ids, the newest first: from each to the next by one probe of the key.
const BLOCKS: &str = "/* search */ WITH RECURSIVE b (block) AS (
         SELECT MAX(block) FROM event_search_ids
         UNION ALL
         SELECT (SELECT MAX(n.block) FROM event_search_ids n WHERE n.block < b.block)
         FROM b WHERE b.block IS NOT NULL)
     SELECT";

fn blocks_n_sql() -> String {
    format!("{BLOCKS} COUNT(*) AS blocks_n FROM (SELECT block FROM b WHERE block IS NOT NULL LIMIT $1) w")
}

/// Events from `e`.
fn events_sql(rest: &str) -> String {
    format!("/* search */ SELECT {} FROM {rest}", event_columns!())
}

fn by_id_sql() -> String {
    events_sql("processed_webhook_events e WHERE e.provider = ANY($1) AND e.event_id = $2 LIMIT $3")
}

fn by_beginning_sql() -> String {
    events_sql(
        "processed_webhook_events e WHERE e.provider = ANY($1)
         AND e.event_id >= CAST($2 AS TEXT) AND e.event_id < CAST($3 AS TEXT) LIMIT $4",
    )
}

fn of_object_sql() -> String {
    events_sql(
        "(SELECT * FROM processed_webhook_events WHERE object = $1 ORDER BY event_seq DESC LIMIT $2) e
         WHERE e.provider = ANY($3) ORDER BY e.event_seq DESC LIMIT $4",
    )
}

/// Events with search ids in a range: `$1` is the most blocks, `$2` the most rows, `$3` the providers, `$4` the most
/// events.
fn with_id_sql(is_in_range: &str) -> String {
    format!(
        "{BLOCKS} {} FROM (SELECT s.event_seq FROM (SELECT block FROM b WHERE block IS NOT NULL LIMIT $1) w
                CROSS JOIN event_search_ids s WHERE s.block = w.block AND {is_in_range} LIMIT $2) f
         JOIN processed_webhook_events e ON e.event_seq = f.event_seq
         WHERE e.provider = ANY($3) ORDER BY e.event_seq DESC LIMIT $4",
        event_columns!()
    )
}
const IS_KEY: &str = "s.search_key = CAST($5 AS TEXT)";
const BEGINS_WITH_KEY: &str = "s.search_key >= CAST($5 AS TEXT) AND s.search_key < CAST($6 AS TEXT)";

/// All that a key is made of, of the newest messages of a table.
fn keys_sql(table: &str) -> String {
    format!(
        "/* search */ SELECT q.message_id, q.generation, COALESCE(q.effect_name, q.destination) AS effect_name,
             e.provider, e.event_id
         FROM (SELECT message_id, generation, effect_name, destination FROM {table} ORDER BY message_id DESC LIMIT $1) q
         JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024"
    )
}

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    vec![
        ("search providers", PROVIDERS.to_owned()),
        ("search events", by_id_sql()),
        ("search events from", by_beginning_sql()),
        ("search ids", with_id_sql(IS_KEY)),
        ("search ids from", with_id_sql(BEGINS_WITH_KEY)),
        ("search blocks", blocks_n_sql()),
        ("search object", of_object_sql()),
        ("search messages", MESSAGES.to_owned()),
        ("search open keys", keys_sql("outbox_queue")),
        ("search finished keys", keys_sql("outbox_finished")),
        ("search effect", OF_EFFECT.to_owned()),
        ("search queue", QUEUE.to_owned()),
        ("search rejected", REJECTED.to_owned()),
        ("search oldest", OLDEST.to_owned()),
        ("search oldest body", OLDEST_BODY.to_owned()),
    ]
}

/// Event numbers of one block of search ids.
const BLOCK_N: i64 = 1_024;

/// Deletes the search ids of the events `$2`, which are in the blocks `$1`.
pub(crate) fn search_ids_delete(op: &str) -> String {
    format!("/* {op} */ DELETE FROM event_search_ids WHERE block = ANY($1) AND event_seq = ANY($2)")
}

/// The block of an event.
pub(crate) fn search_block(event_seq: i64) -> i64 {
    event_seq.div_euclid(BLOCK_N)
}

/// The blocks of these events, each once.
pub(crate) fn search_blocks(events: &[i64]) -> Vec<i64> {
    events.iter().copied().map(search_block).collect::<BTreeSet<i64>>().into_iter().collect()
}

/// Queries the tables, one after the other.
async fn search_facts(db: &mut Executor<'_>, want: &SearchQuery) -> DbResult<SearchFacts> {
    let mut facts = SearchFacts::default();
    let providers = if let Some(names) = &want.providers {
        names.clone()
    } else {
        let rows = db.fetch(PROVIDERS, &[]).await?;
        intact("processed_webhook_events", "name", &rows, |row| row.text("name"))?.rows
    };
    let events = events(db, want, &providers).await?;
    facts.events = views(db, want, &events, &mut facts.damaged).await?;
    if want.has_contents {
        let found;
        (found, facts.is_id_whole) = with_id(db, want, &providers).await?;
        facts.with_id = views(db, want, &found, &mut facts.damaged).await?;
        if facts.with_id.is_empty() {
            let blocks_n = db.fetch_one(blocks_n_sql(), &[(BLOCKS_N + 1).into()]).await?.int("blocks_n")?;
            facts.is_ids_cut = blocks_n > i64::from(BLOCKS_N);
        }
    }
    let by_object = [want.id.as_str().into(), LOOK_N.into(), providers.clone().into(), ASKED_N.into()];
    let rows = db.fetch(of_object_sql(), &by_object).await?;
    facts.of_object = views(db, want, &rows, &mut facts.damaged).await?;
    let messages = messages(db, want, &providers).await?;
    let rejected = rejected(db, want).await?;
    facts.damaged.extend(messages.damaged.into_iter().chain(rejected.damaged));
    (facts.messages, facts.rejected) = (messages.rows, rejected.rows);
    let open_n = db.fetch_one(QUEUE, &[(QUEUE_N + 1).into()]).await?.int("open_n")?;
    facts.is_queue_cut = open_n > i64::from(QUEUE_N);
    for (sql, at_ms) in [(OLDEST, &mut facts.oldest_at_ms), (OLDEST_BODY, &mut facts.oldest_body_at_ms)] {
        *at_ms = db.fetch_optional(sql, &[]).await?.map(|row| row.int("received_at_ms")).transpose()?;
    }
    Ok(facts.cut())
}

/// True when an id is long enough to be found by its beginning.
fn is_beginning(id: &str) -> bool {
    id.chars().nth(SEARCH_CHARS_MIN - 1).is_some()
}

/// The first text behind all that begin with `id`, in the order of bytes.
fn behind(id: &str) -> String {
    format!("{id}{}", char::MAX)
}

/// Events of this id; if there is none, those whose ids begin with it, in the letter case that was written, in lower
/// and in upper case.
async fn events(db: &mut Executor<'_>, want: &SearchQuery, providers: &[String]) -> DbResult<Vec<Row>> {
    let all: Value = providers.to_vec().into();
    let mut found = db.fetch(by_id_sql(), &[all.clone(), want.id.as_str().into(), ASKED_N.into()]).await?;
    if found.is_empty() && is_beginning(&want.id) {
        for id in BTreeSet::from([want.id.clone(), want.id.to_lowercase(), want.id.to_uppercase()]) {
            let values = [all.clone(), id.as_str().into(), behind(&id).into(), ASKED_N.into()];
            found.extend(db.fetch(by_beginning_sql(), &values).await?);
        }
    }
    Ok(found)
}

/// Events with this id inside, and true; if there is none, those with one that begins so.
async fn with_id(
    db: &mut Executor<'_>,
    want: &SearchQuery,
    providers: &[String],
) -> DbResult<(Vec<Row>, bool)> {
    let bounds: [Value; 4] =
        [BLOCKS_N.into(), SEARCH_IDS_N.into(), providers.to_vec().into(), ASKED_N.into()];
    let mut found = Vec::new();
    for key in &want.search_keys {
        let values = [&bounds[..], &[key.as_str().into()]].concat();
        found.extend(db.fetch(with_id_sql(IS_KEY), &values).await?);
    }
    let is_whole = !found.is_empty();
    let id = folded_id(want.id.clone());
    // Ids in clear are looked at only where they count.
    if !is_whole && is_beginning(&want.id) && want.search_keys.contains(&id) {
        let values = [&bounds[..], &[id.as_str().into(), behind(&id).into()]].concat();
        found = db.fetch(with_id_sql(BEGINS_WITH_KEY), &values).await?;
    }
    Ok((found, is_whole))
}

/// The newest of these events as operators see them, each once. Damaged rows are added to `damaged`.
async fn views(
    db: &mut Executor<'_>,
    want: &SearchQuery,
    rows: &[Row],
    damaged: &mut Vec<DamagedRow>,
) -> DbResult<Vec<EventView>> {
    let found = event_views(db, rows, &want.destinations).await?;
    damaged.extend(found.damaged);
    let by_number: BTreeMap<i64, EventView> = found.rows.into_iter().collect();
    Ok(by_number.into_values().rev().take(ASKED_N as usize).collect())
}

/// Messages by their number, by their key and by their effect.
async fn messages(
    db: &mut Executor<'_>,
    want: &SearchQuery,
    providers: &[String],
) -> DbResult<IntactRows<(bool, MessageRow)>> {
    let by_key = by_key(db, want).await?;
    let mut numbers: BTreeSet<i64> = by_key.iter().copied().collect();
    numbers.extend(want.id.parse::<MessageId>().map(MessageId::number));
    let of_effect = [QUEUE_N.into(), want.id.as_str().into(), ASKED_N.into()];
    for row in db.fetch(OF_EFFECT, &of_effect).await? {
        numbers.insert(row.int("message_id")?);
    }
    if numbers.is_empty() {
        return Ok(IntactRows::default());
    }
    let rows = db.fetch(MESSAGES, &[numbers.into_iter().collect::<Vec<_>>().into()]).await?;
    let found = message_rows(&rows, &want.installation_id)?;
    let is_seen = |message: &MessageRow| providers.iter().any(|name| name == message.key.provider.as_str());
    let is_by_key = |message: &MessageRow| by_key.contains(&message.message_id.number());
    let seen = found.rows.into_iter().filter(is_seen).map(|message| (is_by_key(&message), message));
    // The provider of a damaged one may be unreadable: it is for those who reach everywhere.
    let is_everywhere = want.providers.is_none() && want.destinations == Reach::All;
    let damaged = if is_everywhere { found.damaged } else { Vec::new() };
    Ok(IntactRows { rows: seen.collect(), damaged })
}

/// The messages whose calls carry this key, among the newest.
async fn by_key(db: &mut Executor<'_>, want: &SearchQuery) -> DbResult<Vec<i64>> {
    let Ok(wanted) = Uuid::parse_str(&want.id) else { return Ok(Vec::new()) };
    let wanted = wanted.to_string();
    let mut found = Vec::new();
    for table in ["outbox_queue", "outbox_finished"] {
        let read = |row: &Row| {
            let key = event_key(row)?;
            let generation = i32::try_from(row.int("generation")?).unwrap_or(i32::MAX);
            let made = idempotency_key(&want.installation_id, &key, generation, &row.text("effect_name")?);
            Ok((made == wanted).then_some(row.int("message_id")?))
        };
        let rows = db.fetch(keys_sql(table), &[KEYS_N.into()]).await?;
        found.extend(intact("outbox_messages", "message_id", &rows, read)?.rows.into_iter().flatten());
    }
    Ok(found)
}

async fn rejected(db: &mut Executor<'_>, want: &SearchQuery) -> DbResult<IntactRows<RejectedView>> {
    let digest = hex::decode(&want.id).ok().filter(|digest| digest.len() == 32);
    let mut values: Vec<Value> = vec![REJECTED_N.into()];
    values.extend(any_of(want.providers.clone()));
    values.extend([want.id.as_str().into(), digest.into(), i64::from(want.has_contents).into()]);
    values.extend([pattern(&want.id).into(), ASKED_N.into()]);
    let rows = db.fetch(REJECTED, &values).await?;
    let mut found = rejected_rows(&rows)?;
    if !want.has_contents {
        for one in &mut found.rows {
            one.headers.clear();
        }
    }
    Ok(found)
}

/// A pattern that finds `id` within a text of JSON.
fn pattern(id: &str) -> String {
    let quoted = serde_json::Value::from(id).to_string();
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(id);
    let mut pattern = String::from("%");
    for c in inside.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
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

    #[test]
    fn a_pattern_finds_its_text_alone() {
        assert_eq!(pattern("evt_1"), r"%evt\_1%");
        assert_eq!(pattern("100%"), r"%100\%%");
        assert_eq!(pattern(r#"a"b\"#), r#"%a\\"b\\\\%"#);
    }
}
