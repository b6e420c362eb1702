//! The conformance suite of the store: each behaviour written once, run on both databases.

mod admission;
mod admission_ways;
mod apart;
mod audit;
mod idempotency;
mod lane;
mod large;
mod ledgers;
mod lifecycle;
mod look;
mod message;
mod notes;
mod operations;
mod operations_changed;
mod operator;
mod parts;
mod plans;
pub(crate) mod read_plans;
mod reads;
mod redacted;
pub(crate) mod retention;
mod retention_age;
mod sealed;
mod search;
mod versions;

use std::sync::Arc;

use bytes::Bytes;
use hooklatch_contract::{EventAct, IfMatch, MessageAct, PauseAct};
use hooklatch_core::types::{
    AttemptResult, EventKey, EventState, IncomingEvent, MessageId, Name, Principal, Reach, Role,
};
use hooklatch_store::{
    AdmittedBatch, Answered, Candidate, Decide, Decision, EventPlace, EventQuery, EventRow, Latched,
    LeasedMessage, NewMessage, OperatorError, OperatorQueries, OperatorStore, Ordered, Plan, Refusal,
    SettleTo, Settlement, Store, StoreError, StoreSettings, Writes,
};
use sha2::{Digest, Sha256};

use crate::database::{Database, on_both};

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn key(event_id: &str) -> EventKey {
    EventKey { provider: name("stripe"), event_id: event_id.to_owned() }
}

pub(crate) fn event(event_id: &str, body: &str) -> IncomingEvent {
    let (digest, bytes) = (Sha256::digest(body).into(), Bytes::copy_from_slice(body.as_bytes()));
    IncomingEvent {
        headers: r#"{"content-type":"application/json"}"#.into(),
        ..IncomingEvent::new(key(event_id), "invoice.paid", digest, bytes, 1_000)
    }
}

/// What became of the attempt that this lease is for; without an answer.
pub(crate) fn settlement(message: &LeasedMessage, to: SettleTo, result: AttemptResult) -> Settlement {
    Settlement {
        message_id: message.message_id,
        destination: message.destination.clone(),
        lane: message.lane.clone(),
        attempt_n: message.attempt_n,
        to,
        result,
        http_status: None,
        error: None,
        response: None,
        is_unsent: false,
        sent_under: None,
        settled_at_ms: 5_000,
    }
}

/// A message to `destination`; its admission numbers it.
pub(crate) fn message(destination: &str) -> NewMessage {
    let headers = std::collections::BTreeMap::from([("x-a".to_owned(), "b".to_owned())]);
    let forward = NewMessage::forward(MessageId::from_column(0), key("evt_1"), destination);
    NewMessage { shard: 0, headers, created_at_ms: 1_000, ..forward }
}

/// The events as they ask to be admitted, each with a number of its own and with `state`. To be asked for before a
/// transaction is open.
pub(crate) async fn candidates(
    store: &Store,
    events: &[&IncomingEvent],
    state: EventState,
) -> Vec<Candidate> {
    let numbers = store.event_numbers(events.len()).await.unwrap();
    let of = |(event, event_seq): (&&IncomingEvent, i64)| Candidate {
        event: Arc::new((*event).clone()),
        event_seq,
        state,
        is_raising: event.object.is_some(),
    };
    events.iter().zip(numbers).map(of).collect()
}

/// `messages` as those of this event, in their order.
pub(crate) fn numbered(candidate: &Candidate, messages: &[NewMessage]) -> Vec<NewMessage> {
    let of = |(place, message): (u16, &NewMessage)| NewMessage {
        message_id: MessageId::of(candidate.event_seq, place).unwrap(),
        event: Arc::new(candidate.event.key.clone()),
        ..message.clone()
    };
    (0..).zip(messages).map(of).collect()
}

/// Every event, the newest first.
pub(crate) async fn all_events(store: &Store) -> Vec<EventRow> {
    let people = reads::people(store, Role::Viewer);
    let (mut found, mut place) = (Vec::new(), None);
    loop {
        let query = EventQuery { place, limit: 500, ..EventQuery::default() };
        let page = people.event_page(query, 0).await.unwrap();
        for one in page.items {
            let key = EventKey { provider: name(&one.provider), event_id: one.event_id };
            found.push(store.event_get(&key).await.unwrap().unwrap());
        }
        let Some(next) = page.next else { return found };
        place = EventPlace::parse(&next);
    }
}

/// The key that the calls of this event's message to `destination` carry.
pub(crate) async fn call_key(store: &Store, event_id: &str, destination: &str) -> String {
    let installation_id = store.installation_id().await.unwrap();
    hooklatch_core::types::idempotency_key(&installation_id, &key(event_id), 0, destination)
}

/// Admits one event with its messages, as `handled`; their ids.
pub(crate) async fn admit(store: &Store, event: &IncomingEvent, messages: &[NewMessage]) -> Vec<MessageId> {
    let candidates = candidates(store, &[event], EventState::Handled).await;
    let messages = numbered(&candidates[0], messages);
    let ids = messages.iter().map(|message| message.message_id).collect();
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&candidates).await.unwrap();
    tx.write(&Writes { messages, updates: Vec::new() }).await.unwrap();
    tx.commit().await.unwrap();
    ids
}

/// A decision whose writes are known before any query.
pub(crate) struct Known(Option<Writes>);

impl Decide for Known {
    fn unconditional(&mut self) -> Option<Writes> {
        self.0.take()
    }
    fn decide(&mut self, _: &[(Latched, bool)]) -> Plan {
        Plan::Write(self.0.take().unwrap())
    }
    fn lease(&mut self, _: &mut [NewMessage]) {}
}

/// The same as the program does it: in one statement, where the database can.
pub(crate) async fn admit_at_once(
    store: &Store,
    event: &IncomingEvent,
    messages: &[NewMessage],
) -> AdmittedBatch<Known> {
    let candidates = candidates(store, &[event], EventState::Handled).await;
    let messages = numbered(&candidates[0], messages);
    let known = Known(Some(Writes { messages, updates: Vec::new() }));
    store.admit(candidates, known, None).await.unwrap()
}

/// The store as an operator sees it whose word reaches everything.
pub(crate) fn ops(store: &Store) -> OperatorQueries {
    scoped(store, Role::Operator, None, None)
}

/// The store as one of this role sees it, with these providers and destinations.
pub(crate) fn scoped(
    store: &Store,
    role: Role,
    providers: Option<&[&str]>,
    destinations: Option<&[&str]>,
) -> OperatorQueries {
    let reach = |names: Option<&[&str]>| {
        names.map_or(Reach::All, |names| Reach::These(names.iter().map(|text| name(text)).collect()))
    };
    let (providers, destinations) = (reach(providers), reach(destinations));
    OperatorStore::new(store.clone()).open(Principal { name: name("ops"), role, providers, destinations })
}

/// A request to decide at `now_ms`, about any version.
pub(crate) fn decision_at(idempotency_key: &str, now_ms: i64) -> Decision<'_> {
    let digest = Sha256::digest(idempotency_key).into();
    Decision { idempotency_key, digest, reason: "seen at the bank", if_match: IfMatch::MISSING, now_ms }
}

pub(crate) fn on_message(id: MessageId, act: MessageAct) -> Ordered {
    Ordered::Message { id, act }
}

pub(crate) fn on_event(event_id: &str, act: EventAct) -> Ordered {
    Ordered::Event { key: key(event_id), act }
}

pub(crate) fn on_destination(destination: &str, act: PauseAct) -> Ordered {
    Ordered::Destination { name: name(destination), act, until_ms: None }
}

/// The result of an order, in words: `changed 1`, `again changed 1`, `not_allowed done`, ….
pub(crate) fn outcome_text<T>(
    answer: Result<Answered<T>, OperatorError>,
    changed: impl Fn(&T) -> String,
) -> String {
    match answer {
        Ok(answered) if answered.is_again => format!("again {}", changed(&answered.value)),
        Ok(answered) => changed(&answered.value),
        Err(OperatorError::NotFound) => "not_found".to_owned(),
        Err(OperatorError::Changed) => "other_version".to_owned(),
        Err(OperatorError::Denied(role)) => format!("needs {}", role.as_str()),
        Err(OperatorError::Refused(refusal)) => match refusal {
            Refusal::NotAllowed { state } => format!("not_allowed {state}"),
            Refusal::StillOpen { messages_n } => format!("still_open {messages_n}"),
            Refusal::OtherCount { counted_n, .. } => format!("other_count {counted_n}"),
            Refusal::OtherSet { changed } => format!("OtherSet: {}", changed.in_words()),
            Refusal::SameOperation { operation_id, shared } => {
                let id = operation_id.map_or_else(|| "another".to_owned(), |id| id.to_string());
                format!("same as {id}: {}", shared.in_words())
            }
            Refusal::BodyGone => "body_gone".to_owned(),
            Refusal::KeyReused => "key_reused".to_owned(),
            other => format!("{other:?}"),
        },
        Err(OperatorError::Store(error)) => panic!("{error}"),
    }
}

/// Decides as this person; returns the result in words.
pub(crate) async fn decide(people: &OperatorQueries, ordered: &Ordered, decision: &Decision<'_>) -> String {
    outcome_text(people.decide(ordered, decision).await, |result| {
        format!("{} {}", result.outcome, result.messages_n)
    })
}

on_both!(migrating_twice_changes_nothing, installation_keeps_its_id, database_answers_and_its_clock_is_near,);

async fn migrating_twice_changes_nothing(database: &Database) {
    let database = &Database::empty(database.on()).await.unwrap();
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 4 }).await.unwrap();
    assert_ne!(store.schema_state().await.unwrap().to_string(), "current");
    assert_eq!(store.migrate().await.unwrap(), [1]);
    assert_eq!(store.migrate().await.unwrap(), Vec::<i64>::new());
    assert_eq!(store.schema_state().await.unwrap().to_string(), "current");
}

async fn installation_keeps_its_id(database: &Database) {
    let store = database.store().await;
    let first = store.installation_id().await.unwrap();
    store.migrate().await.unwrap();
    assert_eq!(store.installation_id().await.unwrap(), first);
}

async fn database_answers_and_its_clock_is_near(database: &Database) {
    let store = database.store().await;
    store.probe().await.unwrap();
    let now_ms = hooklatch_core::types::Clock::system().now_ms();
    assert!(store.clock_offset_ms(now_ms).await.unwrap().abs() < 60_000);
}

#[tokio::test]
async fn a_second_process_is_refused_the_same_file() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let _first = database.store().await;
    let second = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 1 }).await;
    assert!(matches!(&second, Err(StoreError::Refused(why)) if why.contains("another process")));
}

#[tokio::test]
async fn a_database_in_memory_or_of_another_make_is_refused() {
    for url in ["sqlite::memory:", "mysql://localhost/x", "postgres://[broken"] {
        let opened = Store::open(&StoreSettings { url: url.to_owned(), connections_n: 1 }).await;
        assert!(matches!(opened, Err(StoreError::Refused(_))), "{url}");
    }
}

#[test]
fn migrations_have_equal_numbers_names_tables_and_columns() {
    let words = |dialect: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(dialect);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            let text = std::fs::read_to_string(&path).unwrap();
            // PostgreSQL has a sequence instead.
            let (before, blocks) = text.split_once("CREATE TABLE event_blocks").unwrap_or((&text, ""));
            let after = blocks.split_once("STRICT;").map_or("", |(_, after)| after);
            for line in before.lines().chain(after.lines()) {
                let first = line.split_whitespace().next().unwrap_or_default();
                let is_column = line.starts_with("    ")
                    && !line.starts_with("     ")
                    && first.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                if is_column && !first.is_empty() {
                    found.push(first.to_owned());
                } else if line.starts_with("CREATE TABLE") {
                    found.push(line.to_owned());
                }
            }
        }
        found.sort();
        found
    };
    assert_eq!(words("sqlite"), words("postgres"));
}
