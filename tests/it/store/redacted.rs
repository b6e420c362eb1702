//! Redaction before storing: people see the redacted body, handlers and destinations get the received body or nothing.

use bytes::Bytes;
use hooklatch_contract::EventAct;
use hooklatch_core::seal::{KeyRing, SealKey};
use hooklatch_core::types::{AttemptResult, EventState, IncomingEvent, MessageState, RedactedBody};
use hooklatch_store::{LeaseWant, LeasedMessage, NewMessage, SettleTo, Settlement, Store};

use super::retention::run;
use super::{
    admit, admit_at_once, candidates, decide, decision_at, event, key, message, name, on_event, ops,
    settlement,
};
use crate::database::{Database, on_both};

on_both!(
    an_original_body_without_messages_is_never_stored,
    a_message_sends_the_received_body_which_is_then_deleted,
    bodies_of_messages_of_a_redacted_event_are_deleted_when_all_are_done,
    a_waiting_event_is_dispatched_with_the_received_body,
    a_redacted_body_is_never_sent_or_dispatched,
    temporary_content_is_encrypted_too,
    a_conflict_keeps_the_received_body_until_an_operator_decides,
);

const RECEIVED: &str = "{\"email\":\"ann@example.com\"}";
const LEFT: &str = "{\"email\":\"[redacted]\"}";
const WHOLES: &str = "SELECT COUNT(*) FROM webhook_payloads WHERE whole IS NOT NULL";

fn redacted(event_id: &str) -> IncomingEvent {
    let left = RedactedBody { body: Bytes::from_static(LEFT.as_bytes()), values_n: 1 };
    IncomingEvent { redacted: Some(left), ..event(event_id, RECEIVED) }
}

async fn lease(store: &Store) -> Vec<LeasedMessage> {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 10,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000_000,
    };
    store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap()
}

async fn shown(store: &Store, event_id: &str) -> (String, Option<u32>) {
    let content = store.event_content(&key(event_id)).await.unwrap().unwrap();
    (String::from_utf8(content.body).unwrap(), content.redacted_n)
}

async fn decided(store: &Store, event_id: &str, act: EventAct) -> String {
    decide(&ops(store), &on_event(event_id, act), &decision_at(event_id, 9_000)).await
}

/// A message with bytes of its own, of which no event's are needed.
fn own() -> NewMessage {
    NewMessage { body: Some(Bytes::from_static(b"own")), ..message("billing") }
}

async fn an_original_body_without_messages_is_never_stored(database: &Database) {
    let store = database.store().await;
    admit(&store, &redacted("evt_1"), &[]).await;
    admit_at_once(&store, &redacted("evt_2"), &[]).await;
    for id in ["evt_1", "evt_2"] {
        assert_eq!(shown(&store, id).await, (LEFT.to_owned(), Some(1)));
        assert_eq!(
            decided(&store, id, EventAct::Rerun).await,
            "body_gone",
            "a handler would not see what was received"
        );
    }
    assert_eq!(database.count(WHOLES).await, 0);
    admit(&store, &event("evt_3", RECEIVED), &[]).await;
    assert_eq!(shown(&store, "evt_3").await, (RECEIVED.to_owned(), None));
}

async fn a_message_sends_the_received_body_which_is_then_deleted(database: &Database) {
    let store = database.store().await;
    let forward = NewMessage { headers: std::collections::BTreeMap::new(), ..message("billing") };
    admit_at_once(&store, &redacted("evt_1"), &[forward]).await;
    assert_eq!(shown(&store, "evt_1").await, (LEFT.to_owned(), Some(1)), "people see none of it");
    let one = lease(&store).await.remove(0);
    assert_eq!(&one.body[..], RECEIVED.as_bytes());
    store.wholes_delete(0, 100).await.unwrap();
    assert_eq!(database.count(WHOLES).await, 1, "while it is under way");
    store.message_settle(&[done(&one)]).await.unwrap();
    assert_eq!(
        store.wholes_delete(0, 1).await.unwrap(),
        Some(one.message_id.event_seq()),
        "there may be more"
    );
    assert_eq!(database.count(WHOLES).await, 0);
    assert_eq!(store.wholes_delete(0, 1).await.unwrap(), None);
}

fn done(one: &LeasedMessage) -> Settlement {
    Settlement { http_status: Some(200), ..settlement(one, SettleTo::Done, AttemptResult::Done) }
}

async fn bodies_of_messages_of_a_redacted_event_are_deleted_when_all_are_done(database: &Database) {
    const CONTENTS: &str = "SELECT COUNT(*) FROM outbox_contents";
    let store = database.store().await;
    let filled = |effect: &str| NewMessage {
        effect_name: effect.to_owned(),
        body: Some(Bytes::from_static(b"mail ann@example.com")),
        ..message("billing")
    };
    admit(&store, &redacted("evt_1"), &[filled("one"), filled("two")]).await;
    admit(&store, &event("evt_2", RECEIVED), &[filled("one")]).await;
    let mut leased = lease(&store).await;
    leased.sort_by_key(|one| one.message_id);
    assert_eq!((leased.len(), database.count(CONTENTS).await), (3, 3));
    for (one, left_n) in leased.iter().zip([3, 1, 1]) {
        assert_eq!(&one.body[..], b"mail ann@example.com");
        store.wholes_delete(0, 100).await.unwrap();
        store.message_settle(&[done(one)]).await.unwrap();
        store.wholes_delete(0, 100).await.unwrap();
        assert_eq!(database.count(CONTENTS).await, left_n, "what is not redacted is kept as bodies are");
    }
    assert_eq!(database.count(WHOLES).await, 0);
}

async fn a_waiting_event_is_dispatched_with_the_received_body(database: &Database) {
    let store = database.store().await;
    let candidates = candidates(&store, &[&redacted("evt_1")], EventState::Retry).await;
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&candidates).await.unwrap();
    tx.commit().await.unwrap();
    run(database, "UPDATE processed_webhook_events SET due_at_ms = 1").await;
    store.wholes_delete(0, 100).await.unwrap();
    let mut tx = store.admission_begin().await.unwrap();
    let due = tx.event_take_due(10, &[name("stripe")]).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    assert_eq!((&due.body[..], due.broken), (RECEIVED.as_bytes(), None));
    for (state, is_kept) in [("failed", true), ("unreadable", true), ("handled", false)] {
        let sql = format!("UPDATE processed_webhook_events SET state = '{state}'");
        run(database, &sql).await;
        store.wholes_delete(0, 100).await.unwrap();
        assert_eq!(database.count(WHOLES).await == 1, is_kept, "{state}");
    }
}

async fn a_redacted_body_is_never_sent_or_dispatched(database: &Database) {
    let store = database.store().await;
    admit(&store, &redacted("evt_1"), &[message("billing"), own()]).await;
    run(database, "UPDATE webhook_payloads SET whole = NULL").await;
    let sent = lease(&store).await;
    assert_eq!(sent.len(), 1, "that with bytes of its own");
    assert_eq!(&sent[0].body[..], b"own");
    let held = store.message_list_of_event(&key("evt_1")).await.unwrap();
    let held: Vec<_> = held.iter().filter(|one| one.state == MessageState::Held).collect();
    assert!(held[0].last_error.as_deref().is_some_and(|why| why.contains("redacted")), "{held:?}");
    run(database, "UPDATE processed_webhook_events SET state = 'retry', due_at_ms = 1").await;
    let mut tx = store.admission_begin().await.unwrap();
    let due = tx.event_take_due(10, &[name("stripe")]).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    assert!(due.body.is_empty() && due.broken.is_some_and(|why| why.contains("redacted")));
}

async fn temporary_content_is_encrypted_too(database: &Database) {
    let ring = KeyRing::new(&[SealKey::parse("k1", &format!("01{}", "7e".repeat(31))).unwrap()]);
    let store = database.store().await.sealed_with(ring);
    admit(&store, &redacted("evt_1"), &[message("billing")]).await;
    assert_eq!(shown(&store, "evt_1").await, (LEFT.to_owned(), Some(1)));
    let sql = if database.url.starts_with("sqlite") {
        "SELECT COUNT(*) FROM webhook_payloads WHERE instr(whole, CAST('ann@' AS BLOB)) = 0"
    } else {
        "SELECT COUNT(*) FROM webhook_payloads WHERE position('ann@'::bytea IN whole) = 0"
    };
    assert_eq!(database.count(sql).await, 1);
    assert_eq!(&lease(&store).await[0].body[..], RECEIVED.as_bytes());
}

async fn a_conflict_keeps_the_received_body_until_an_operator_decides(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "{}"), &[]).await;
    admit(&store, &redacted("evt_1"), &[]).await;
    assert_eq!(database.count(WHOLES).await, 1);
    let conflicts = store.event_conflicts(&key("evt_1")).await.unwrap();
    let (row, content) = &conflicts.kept[0];
    assert_eq!(content.as_ref().unwrap().body, LEFT.as_bytes());
    let id = row.key.event_id.clone();
    assert_eq!(decided(&store, &id, EventAct::Dispatch).await, "changed 0");
    store.wholes_delete(0, 100).await.unwrap();
    assert_eq!(database.count(WHOLES).await, 1, "it is dispatched with what was received");
}
