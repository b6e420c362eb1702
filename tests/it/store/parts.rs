//! Large bodies, stored in parts before their event is latched: read unchanged, deleted with their event, and swept
//! when no event is latched.

use std::sync::Arc;

use hooklatch_contract::EventAct;
use hooklatch_core::seal::{KeyRing, SealKey};
use hooklatch_core::types::{AttemptResult, EventState, IncomingEvent};
use hooklatch_store::{Candidate, LeaseWant, ResealPlace, SealedTable, SettleTo, Store, Writes};

use super::{decide, decision_at, event, key, message, name, numbered, on_event, ops, settlement};
use crate::database::{Database, on_both};

on_both!(
    a_body_in_parts_is_read_unchanged_and_erased_with_its_event,
    a_sealed_body_in_parts_is_read_and_sealed_anew,
    a_sealed_body_in_parts_opens_where_it_is_kept_as_a_conflict,
    parts_of_an_event_that_was_not_latched_are_swept_and_those_of_a_latched_one_never,
    an_event_whose_parts_were_swept_is_not_latched,
    a_body_with_a_missing_part_is_treated_as_deleted,
);

/// Bytes of any value, of more than one part.
fn body() -> Vec<u8> {
    (0..300_000_u32).map(|n| u8::try_from(n * 7 % 256).unwrap()).collect()
}

fn large(event_id: &str) -> IncomingEvent {
    IncomingEvent { body: body().into(), ..event(event_id, "") }
}

/// Writes the parts of an event; the event that refers to them, and its number.
async fn written(store: &Store, event: &IncomingEvent, now_ms: i64) -> Candidate {
    let event_seq = store.event_numbers(1).await.unwrap()[0];
    let parts_n = store.body_parts_write(event_seq, event, now_ms).await.unwrap();
    let event = Arc::new(IncomingEvent { stored_parts_n: Some(parts_n), ..event.clone() });
    Candidate { event, event_seq, state: EventState::Handled, is_raising: false }
}

/// Latches it, with a message.
async fn latch(store: &Store, candidate: Candidate) -> Result<(), String> {
    let messages = numbered(&candidate, &[message("billing")]);
    let mut tx = store.admission_begin().await.unwrap();
    if let Err(failure) = tx.events_insert(&[candidate]).await {
        tx.rollback().await.unwrap();
        return Err(failure.to_string());
    }
    tx.write(&Writes { messages, updates: Vec::new() }).await.unwrap();
    tx.commit().await.map_err(|failure| failure.to_string())
}

/// Bodies that there are parts of, and those that are not latched.
async fn rows_n(database: &Database) -> (i64, i64) {
    let parts_n = database.count("SELECT COUNT(DISTINCT event_seq) FROM webhook_body_parts").await;
    (parts_n, database.count("SELECT COUNT(*) FROM unlatched_bodies").await)
}

async fn is_read(store: &Store, event_id: &str) {
    let content = store.event_content(&key(event_id)).await.unwrap().unwrap();
    assert!(content.body == body(), "{} bytes", content.body.len());
}

async fn a_body_in_parts_is_read_unchanged_and_erased_with_its_event(database: &Database) {
    let store = database.store().await;
    assert!(!store.event_is_known(&large("evt_1")).await.unwrap());
    let candidate = written(&store, &large("evt_1"), 1_000).await;
    assert_eq!(rows_n(database).await, (1, 1));
    latch(&store, candidate).await.unwrap();
    assert!(store.event_is_known(&large("evt_1")).await.unwrap());
    assert_eq!(rows_n(database).await, (1, 0));
    assert_eq!(database.count("SELECT SUM(length(body)) FROM webhook_payloads").await, 0);
    is_read(&store, "evt_1").await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let leased = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap();
    assert!(leased[0].body == body(), "the destination gets what was received");
    let done = settlement(&leased[0], SettleTo::Done, AttemptResult::Done);
    assert_eq!(store.message_settle(&[done]).await.unwrap(), [true]);
    let erased = decide(&ops(&store), &on_event("evt_1", EventAct::Erase), &decision_at("k", 5_000)).await;
    assert!(erased.starts_with("changed"), "{erased}");
    assert_eq!(rows_n(database).await, (0, 0));
}

async fn a_sealed_body_in_parts_is_read_and_sealed_anew(database: &Database) {
    let seal_key = |id: &str| SealKey::parse(id, &format!("{:02x}{}", id.len(), "7e".repeat(31))).unwrap();
    let (old, new) = (seal_key("old"), seal_key("newer"));
    let store = database.store().await.sealed_with(KeyRing::new(std::slice::from_ref(&old)));
    let candidate = written(&store, &large("evt_1"), 1_000).await;
    latch(&store, candidate).await.unwrap();
    is_read(&store, "evt_1").await;
    let both = store.clone().sealed_with(KeyRing::new(&[new.clone(), old]));
    let step = both.reseal(SealedTable::Payloads, Some("old"), ResealPlace::default(), 10).await.unwrap();
    assert_eq!((step.resealed_n, step.unopened_n), (1, 0));
    is_read(&store.sealed_with(KeyRing::new(&[new])), "evt_1").await;
    assert_eq!(rows_n(database).await, (0, 0), "it is in one piece now");
}

async fn a_sealed_body_in_parts_opens_where_it_is_kept_as_a_conflict(database: &Database) {
    let key_of = SealKey::parse("k1", &format!("01{}", "7e".repeat(31))).unwrap();
    let store = database.store().await.sealed_with(KeyRing::new(&[key_of]));
    // Both were new when their parts were written.
    let other_body = bytes::Bytes::from(vec![b'o'; body().len()]);
    let other = IncomingEvent { digest: [9; 32], body: other_body.clone(), ..large("evt_1") };
    let (first, second) =
        (written(&store, &large("evt_1"), 1_000).await, written(&store, &other, 1_000).await);
    let second_seq = second.event_seq;
    latch(&store, first).await.unwrap();
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&[second]).await.unwrap();
    tx.commit().await.unwrap();
    let kept = store.event_conflicts(&key("evt_1")).await.unwrap().kept.remove(0).1.unwrap();
    assert_eq!((kept.unopened, kept.body), (None, other_body.to_vec()));
    assert!(store.body_parts_delete(second_seq).await.unwrap(), "its parts go as those of any copy");
    is_read(&store, "evt_1").await;
}

async fn parts_of_an_event_that_was_not_latched_are_swept_and_those_of_a_latched_one_never(
    database: &Database,
) {
    let store = database.store().await;
    let latched = written(&store, &large("evt_1"), 1_000).await;
    latch(&store, latched.clone()).await.unwrap();
    written(&store, &large("evt_2"), 2_000).await;
    let given_up = written(&store, &large("evt_3"), 3_000).await;
    assert_eq!(rows_n(database).await, (3, 2));
    assert!(store.body_parts_delete(given_up.event_seq).await.unwrap());
    assert!(!store.body_parts_delete(latched.event_seq).await.unwrap());
    assert!(!store.body_parts_sweep(2_000).await.unwrap(), "it may still be latched");
    assert!(store.body_parts_sweep(2_001).await.unwrap());
    assert!(!store.body_parts_sweep(i64::MAX).await.unwrap());
    assert_eq!(rows_n(database).await, (1, 0));
    is_read(&store, "evt_1").await;
}

async fn an_event_whose_parts_were_swept_is_not_latched(database: &Database) {
    let store = database.store().await;
    let candidate = written(&store, &large("evt_1"), 1_000).await;
    assert!(store.body_parts_sweep(i64::MAX).await.unwrap());
    assert!(latch(&store, candidate).await.is_err());
    assert!(store.event_get(&key("evt_1")).await.unwrap().is_none());
}

async fn a_body_with_a_missing_part_is_treated_as_deleted(database: &Database) {
    let store = database.store().await;
    let candidate = written(&store, &large("evt_1"), 1_000).await;
    latch(&store, candidate).await.unwrap();
    database.run("DELETE FROM webhook_body_parts WHERE part_n = 1").await.unwrap();
    assert!(store.event_content(&key("evt_1")).await.unwrap().is_none());
}
