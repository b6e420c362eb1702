//! New events, duplicates, and what a transaction leaves behind.

use hooklatch_core::types::{EventState, IncomingEvent, ObjectVersion};
use hooklatch_store::{EventCount, EventUpdate, Latched, Store, StoreError, Writes};

use super::{candidates, event, key, message, name, numbered};
use crate::database::{Database, on_both};

on_both!(
    a_second_copy_is_a_duplicate_and_another_body_a_conflict,
    the_same_key_twice_in_a_batch_is_one_event,
    the_same_bytes_under_another_unsigned_id_are_replayed,
    copies_under_other_ids_without_end_take_up_few_rows,
    of_64_at_once_one_is_new,
    a_rollback_leaves_nothing,
    ids_are_compared_by_bytes,
    bodies_are_any_bytes,
    a_large_batch_is_latched_whole,
    a_number_that_was_given_before_costs_one_try,
    versions_only_go_up,
    a_due_event_is_taken_once_and_its_retry_is_fenced,
    shared_batches_of_two_nodes_do_not_deadlock,
);

pub(super) async fn insert(store: &Store, events: &[&IncomingEvent]) -> Vec<Latched> {
    let candidates = candidates(store, events, EventState::Handled).await;
    let mut tx = store.admission_begin().await.unwrap();
    let found = tx.events_insert(&candidates).await.unwrap();
    tx.commit().await.unwrap();
    found
}

fn conflict(first: &IncomingEvent) -> Latched {
    Latched::Conflict { first: first.digest, first_event_id: first.key.event_id.clone() }
}

async fn a_second_copy_is_a_duplicate_and_another_body_a_conflict(database: &Database) {
    let store = database.store().await;
    let first = event("evt_1", "a");
    assert_eq!(insert(&store, &[&first]).await, [Latched::New]);
    assert_eq!(insert(&store, &[&first, &event("evt_2", "a")]).await, [Latched::Duplicate, Latched::New]);
    assert_eq!(insert(&store, &[&event("evt_1", "b")]).await, [conflict(&first)]);
    let row = store.event_get(&first.key).await.unwrap().unwrap();
    assert_eq!((row.digest.as_slice(), row.state), (first.digest.as_slice(), EventState::Handled));
}

async fn the_same_key_twice_in_a_batch_is_one_event(database: &Database) {
    let store = database.store().await;
    let (one, other) = (event("evt_1", "a"), event("evt_1", "b"));
    let found = insert(&store, &[&one, &one, &other, &event("evt_0", "a")]).await;
    assert_eq!(found, [Latched::New, Latched::Duplicate, conflict(&one), Latched::New]);
}

async fn the_same_bytes_under_another_unsigned_id_are_replayed(database: &Database) {
    let store = database.store().await;
    let unsigned = |id: &str, body: &str| {
        let event = event(id, body);
        IncomingEvent { replay_key: Some(event.digest), ..event }
    };
    assert_eq!(insert(&store, &[&unsigned("d-1", "a")]).await, [Latched::New]);
    let replayed = Latched::Replayed { first_event_id: "d-1".to_owned() };
    assert_eq!(
        insert(&store, &[&unsigned("d-2", "a"), &unsigned("d-3", "b")]).await,
        [replayed, Latched::New]
    );
    assert_eq!(
        insert(&store, &[&unsigned("d-2", "a")]).await,
        [Latched::Duplicate],
        "it is kept under its own id"
    );
    assert_eq!(store.event_get(&key("d-2")).await.unwrap().unwrap().state, EventState::Replayed);
    let both = insert(&store, &[&unsigned("d-5", "c"), &unsigned("d-4", "c")]).await;
    let new_n = both.iter().filter(|found| **found == Latched::New).count();
    assert_eq!(new_n, 1, "within one batch as well: {both:?}");
}

async fn copies_under_other_ids_without_end_take_up_few_rows(database: &Database) {
    let store = database.store().await;
    let unsigned = |id: &str, body: &str| {
        let event = event(id, body);
        IncomingEvent { replay_key: Some(event.digest), ..event }
    };
    assert_eq!(
        insert(&store, &[&unsigned("d-1", "a"), &unsigned("e-1", "b")]).await,
        [Latched::New, Latched::New]
    );
    let replayed = Latched::Replayed { first_event_id: "d-1".to_owned() };
    for round in 0..8 {
        let copies: Vec<_> = (0..5).map(|n| unsigned(&format!("copy-{round}-{n}"), "a")).collect();
        let found = insert(&store, &copies.iter().collect::<Vec<_>>()).await;
        assert!(found.iter().all(|found| *found == replayed), "{found:?}");
    }
    let replayed_n = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'replayed'";
    assert_eq!(database.count(replayed_n).await, 16);
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads").await, 18);
    let other = insert(&store, &[&unsigned("e-2", "b"), &unsigned("f-1", "c")]).await;
    assert_eq!(
        other,
        [Latched::Replayed { first_event_id: "e-1".to_owned() }, Latched::New],
        "others have theirs"
    );
    assert_eq!(database.count(replayed_n).await, 17);
    assert_eq!(insert(&store, &[&unsigned("d-1", "a")]).await, [Latched::Duplicate]);
}

async fn of_64_at_once_one_is_new(database: &Database) {
    let store = database.store().await;
    let all = (0..64).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { insert(&store, &[&event("evt_1", "a")]).await })
    });
    let mut new_n = 0;
    for one in all.collect::<Vec<_>>() {
        new_n += one.await.unwrap().iter().filter(|found| **found == Latched::New).count();
    }
    assert_eq!(new_n, 1);
}

async fn a_rollback_leaves_nothing(database: &Database) {
    let store = database.store().await;
    let one = event("evt_1", "a");
    let candidates = candidates(&store, &[&one], EventState::Handled).await;
    let messages = numbered(&candidates[0], &[message("billing")]);
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&candidates).await.unwrap();
    tx.write(&Writes { messages, updates: Vec::new() }).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(store.event_get(&one.key).await.unwrap(), None);
    assert_eq!(store.message_list_of_event(&one.key).await.unwrap(), []);
    assert_eq!(insert(&store, &[&one]).await, [Latched::New]);
}

async fn ids_are_compared_by_bytes(database: &Database) {
    let store = database.store().await;
    let long = "x".repeat(255);
    let ids = [
        "evt",
        "EVT",
        "evt ",
        " evt",
        "é",
        "e\u{301}",
        "18446744073709551616",
        "18446744073709551617",
        &long,
    ];
    for id in ids {
        assert_eq!(insert(&store, &[&event(id, "a")]).await, [Latched::New], "{id:?}");
        assert_eq!(insert(&store, &[&event(id, "a")]).await, [Latched::Duplicate], "{id:?}");
    }
}

async fn bodies_are_any_bytes(database: &Database) {
    let store = database.store().await;
    let odd = IncomingEvent { body: vec![0, 255, b'\'', 0, 10].into(), ..event("evt_1", "a") };
    let candidates = candidates(&store, &[&odd], EventState::Retry).await;
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&candidates).await.unwrap();
    tx.events_update(&[retry(candidates[0].event_seq, 1, 500)]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.admission_begin().await.unwrap();
    let due = tx.event_take_due(500, &[name("stripe")]).await.unwrap().unwrap();
    assert_eq!(due.body, odd.body);
}

async fn a_large_batch_is_latched_whole(database: &Database) {
    let store = database.store().await;
    let events: Vec<IncomingEvent> = (0..1_500).map(|n| event(&format!("evt_{n}"), "a")).collect();
    let found = insert(&store, &events.iter().collect::<Vec<_>>()).await;
    assert!(found.iter().all(|one| *one == Latched::New));
    let again = insert(&store, &events.iter().collect::<Vec<_>>()).await;
    assert!(again.iter().all(|one| *one == Latched::Duplicate));
}

async fn versions_only_go_up(database: &Database) {
    let store = database.store().await;
    let stripe = name("stripe");
    let raise = async |versions: &[(&str, i64)]| {
        let at = |(object, version): &(&str, i64)| IncomingEvent {
            object: Some(ObjectVersion { object: (*object).to_owned(), version: *version }),
            ..event("evt", "a")
        };
        let events: Vec<IncomingEvent> = versions.iter().map(at).collect();
        let candidates = candidates(&store, &events.iter().collect::<Vec<_>>(), EventState::Handled).await;
        let mut tx = store.admission_begin().await.unwrap();
        let stale = tx.versions_raise(&candidates, &vec![Latched::New; candidates.len()]).await.unwrap();
        tx.commit().await.unwrap();
        (stale, candidates)
    };
    let (stale, highest) = raise(&[("o", 5)]).await;
    assert_eq!(stale, [false]);
    assert_eq!(raise(&[("o", 3), ("p", 1)]).await.0, [true, false]);
    assert_eq!(raise(&[("o", 5)]).await.0, [true], "an equal version of another event is not newer");
    let mut tx = store.admission_begin().await.unwrap();
    let (object, event_seq) = (highest[0].event.object.as_ref().unwrap(), highest[0].event_seq);
    let is_stale = tx.version_raise(&stripe, object, event_seq).await.unwrap();
    tx.commit().await.unwrap();
    assert!(!is_stale, "the event that holds the maximum, dispatched again");
    assert_eq!(raise(&[("o", 7), ("o", 9), ("o", 8)]).await.0, [true, false, true]);
}

fn retry(event_seq: i64, attempts_n: u32, due_at_ms: i64) -> EventUpdate {
    EventUpdate {
        event_seq,
        key: key("evt_1"),
        state: EventState::Retry,
        error: Some("not yet".to_owned()),
        attempts_n,
        due_at_ms: Some(due_at_ms),
        processed_at_ms: 1_000,
    }
}

async fn a_due_event_is_taken_once_and_its_retry_is_fenced(database: &Database) {
    let store = database.store().await;
    insert(&store, &[&event("evt_1", "a")]).await;
    let event_seq = store.event_get(&key("evt_1")).await.unwrap().unwrap().event_seq;
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_update(&[retry(event_seq, 1, 2_000)]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.admission_begin().await.unwrap();
    assert!(tx.event_take_due(1_999, &[name("stripe")]).await.unwrap().is_none(), "not due yet");
    assert!(
        tx.event_take_due(2_000, &[name("other")]).await.unwrap().is_none(),
        "not a provider of this node"
    );
    let due = tx.event_take_due(2_000, &[name("stripe")]).await.unwrap().unwrap();
    assert_eq!((due.attempts_n, due.event_type.as_str(), due.next_place), (1, "invoice.paid", 0));
    if store.dialect() == "postgres" {
        let mut other = store.admission_begin().await.unwrap();
        assert!(
            other.event_take_due(2_000, &[name("stripe")]).await.unwrap().is_none(),
            "passed, not waited for"
        );
        other.rollback().await.unwrap();
    }
    tx.rollback().await.unwrap();
    assert!(store.event_retry_later(&retry(event_seq, 2, 3_000), 1).await.unwrap());
    assert!(
        !store.event_retry_later(&retry(event_seq, 2, 9_000), 1).await.unwrap(),
        "another test counted before us"
    );
    assert_eq!(store.event_get(&key("evt_1")).await.unwrap().unwrap().due_at_ms, Some(3_000));
    let counts = store.open_counts().await.unwrap().events;
    let one = |count: &EventCount| (count.provider.clone(), count.state, count.events_n);
    assert_eq!(counts.iter().map(one).collect::<Vec<_>>(), [("stripe".to_owned(), EventState::Retry, 1)]);
}

async fn shared_batches_of_two_nodes_do_not_deadlock(database: &Database) {
    let store = database.store().await;
    let batch = |reversed: bool| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let mut events: Vec<_> = (0..40).map(|n| event(&format!("evt_{round}_{n}"), "a")).collect();
                if reversed {
                    events.reverse();
                }
                insert(&store, &events.iter().collect::<Vec<_>>()).await;
            }
        })
    };
    let (one, other) = (batch(false), batch(true));
    one.await.unwrap();
    other.await.unwrap();
    assert_eq!(super::all_events(&store).await.len(), 400);
}

/// As after a fail-over to a standby without the newest blocks.
async fn a_number_that_was_given_before_costs_one_try(database: &Database) {
    let store = database.store().await;
    insert(&store, &[&event("evt_1", "{}")]).await;
    let first = store.event_numbers(1).await.unwrap()[0] - 1;
    store.event_numbers(4_094).await.unwrap();
    let back = if database.url.starts_with("sqlite") {
        "UPDATE event_blocks SET next_seq = next_seq - 4096"
    } else {
        "SELECT setval('event_blocks', last_value, false) FROM event_blocks"
    };
    database.run(back).await.unwrap();
    let candidates = candidates(&store, &[&event("evt_2", "{}")], EventState::Handled).await;
    assert_eq!(candidates[0].event_seq, first, "the number of the other one");
    let mut tx = store.admission_begin().await.unwrap();
    let refused = tx.events_insert(&candidates).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    drop(tx);
    insert(&store, &[&event("evt_2", "{}")]).await;
    let newest = store.event_get(&key("evt_2")).await.unwrap().unwrap();
    assert!(newest.event_seq > first + 4_095, "{newest:?}");
}
