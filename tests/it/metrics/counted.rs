//! Open events and messages are counted by state, and nodes share how often a sender sends.

use std::collections::BTreeMap;

use hooklatch_core::types::{AttemptResult, EventState, MessageState};
use hooklatch_store::{
    EventCount, GAPS_N_MIN, LeaseWant, LeasedMessage, NewMessage, OPEN_COUNTED_N_MAX, SettleTo, Settlement,
    Store,
};

use crate::database::{Database, on_both};
use crate::store::{admit, event, message, name};

on_both!(
    messages_lanes_and_keys_are_counted_by_destination,
    events_are_counted_by_provider_and_each_up_to_a_bound,
    finished_messages_are_not_counted,
    nodes_know_together_how_often_a_sender_sends,
    two_nodes_add_at_once_and_lose_no_gap,
    a_time_from_a_wrong_clock_is_replaced,
);

async fn take(store: &Store) -> Vec<LeasedMessage> {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 100,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let mut leased = store.message_lease(&[want], 10_000, 30_000, "node-1").await.unwrap();
    leased.sort_by(|a, b| a.key.cmp(&b.key));
    leased
}

async fn settle(store: &Store, message: &LeasedMessage, to: SettleTo) {
    let settlement =
        Settlement { settled_at_ms: 11_000, ..crate::store::settlement(message, to, AttemptResult::Retry) };
    assert_eq!(store.message_settle(&[settlement]).await.unwrap(), [true]);
}

async fn messages_lanes_and_keys_are_counted_by_destination(database: &Database) {
    let store = database.store().await;
    assert_eq!(store.open_counts().await.unwrap(), hooklatch_store::OpenCounts::default());
    for (id, lane) in [("evt_1", "a"), ("evt_2", "a"), ("evt_3", "b"), ("evt_4", "c")] {
        let in_lane = NewMessage { lane: Some(lane.to_owned()), ..message("billing") };
        admit(&store, &event(id, id), &[in_lane]).await;
    }
    admit(&store, &event("evt_5", "5"), &[message("billing"), message("other")]).await;
    let leased = take(&store).await;
    let found = store.open_counts().await.unwrap();
    assert_eq!(found.keys_until_ms, [], "those under way are asked again when their lease ends");
    let [first, third, fourth, fifth] = &leased[..] else { panic!("{leased:?}") };
    settle(&store, first, SettleTo::Held).await;
    settle(&store, third, SettleTo::Dead).await;
    settle(&store, fourth, SettleTo::Ready { visible_at_ms: 40_000 }).await;
    settle(&store, fifth, SettleTo::Done).await;
    let found = store.open_counts().await.unwrap();
    let mut counts: Vec<_> =
        found.messages.iter().map(|one| (one.destination.as_str(), one.state, one.messages_n)).collect();
    counts.sort_by_key(|(destination, state, _)| (*destination, state.as_str()));
    let wanted = [
        ("billing", MessageState::Dead, 1),
        ("billing", MessageState::Held, 1),
        ("billing", MessageState::Ready, 1),
        ("billing", MessageState::Waiting, 1),
        ("other", MessageState::Ready, 1),
    ];
    assert_eq!(counts, wanted);
    assert_eq!(found.blocked_lanes, [("billing".to_owned(), 2)], "a held head and a dead one");
    let [(destination, until_ms)] = &found.keys_until_ms[..] else { panic!("{found:?}") };
    assert_eq!((destination.as_str(), *until_ms), ("billing", first.key_valid_until_ms));
}

async fn events_are_counted_by_provider_and_each_up_to_a_bound(database: &Database) {
    let store = database.store().await;
    // A flood of one provider is older than what the other has.
    let of = |first: u32, last: u32, provider: &str, state: &str| {
        let digest = if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "sha256('x')" };
        format!(
            "WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last})
             INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard,
                 event_type, digest, identity, state)
             SELECT '{provider}', 'evt_' || n, n, 1000 + n, 1, 1, 'paid', {digest}, 'sender/1', '{state}' FROM s"
        )
    };
    let bound = OPEN_COUNTED_N_MAX;
    for sql in [
        of(1, bound + 500, "stripe", "failed"),
        of(bound + 501, bound + 503, "adyen", "failed"),
        of(bound + 504, bound + 504, "adyen", "conflict"),
        of(bound + 505, bound + 505, "stripe", "retry"),
        of(bound + 506, bound + 506, "stripe", "unreadable"),
        of(bound + 507, bound + 900, "adyen", "handled"),
    ] {
        database.run(&sql).await.unwrap();
    }
    let count = |provider: &str, state, events_n, oldest_received_at_ms| EventCount {
        provider: provider.to_owned(),
        state,
        events_n,
        oldest_received_at_ms,
    };
    let first_ms = 1_000 + i64::from(bound);
    let mut found = store.open_counts().await.unwrap().events;
    found.sort_by_key(|one| (one.provider.clone(), one.state.as_str()));
    let wanted = [
        count("adyen", EventState::Conflict, 1, first_ms + 504),
        count("adyen", EventState::Failed, 3, first_ms + 501),
        count("stripe", EventState::Failed, u64::from(bound), 1_001),
        count("stripe", EventState::Retry, 1, first_ms + 505),
        count("stripe", EventState::Unreadable, 1, first_ms + 506),
    ];
    assert_eq!(found, wanted);
}

async fn finished_messages_are_not_counted(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "1"), &[message("billing")]).await;
    for one in take(&store).await {
        settle(&store, &one, SettleTo::Done).await;
    }
    assert_eq!(store.open_counts().await.unwrap(), hooklatch_store::OpenCounts::default());
}

const MINUTE_MS: i64 = 60_000;

fn at(provider: &str, minute: i64) -> BTreeMap<String, i64> {
    BTreeMap::from([(provider.to_owned(), minute * MINUTE_MS)])
}

async fn nodes_know_together_how_often_a_sender_sends(database: &Database) {
    let store = database.store().await;
    assert!(store.rhythms().await.unwrap().is_empty());
    let gaps_n = i64::try_from(GAPS_N_MIN).unwrap();
    // Two nodes take turns: each saw every other event, which is 150 minutes after the one before.
    let (one, other) = (store.clone(), store.clone());
    for n in 0..=gaps_n {
        let node = if n % 2 == 0 { &one } else { &other };
        let minute = n * 75;
        let known = node.rhythms_add(&at("stripe", minute), minute * MINUTE_MS).await.unwrap();
        let stripe = &known["stripe"];
        assert_eq!((stripe.last_accepted_at_ms, stripe.gaps_n), (minute * MINUTE_MS, n.unsigned_abs()));
        assert_eq!(stripe.usual_gap_s().is_some(), n == gaps_n, "after {n} gaps");
    }
    let older = one.rhythms_add(&at("stripe", 3), gaps_n * 75 * MINUTE_MS).await.unwrap();
    assert_eq!(older["stripe"].last_accepted_at_ms, gaps_n * 75 * MINUTE_MS, "an older time changes nothing");
    let usual_s = older["stripe"].usual_gap_s().unwrap();
    assert!((4_500.0..5_625.0).contains(&usual_s), "75 minutes, not 150: {usual_s}");
    // A node that starts later reads the same.
    for store in [store, one, other] {
        store.close().await;
    }
    assert_eq!(database.store().await.rhythms().await.unwrap(), older);
}

async fn two_nodes_add_at_once_and_lose_no_gap(database: &Database) {
    let store = database.store().await;
    let providers = ["a", "b", "c"];
    for n in 0..10 {
        let seen: BTreeMap<String, i64> =
            providers.iter().map(|name| ((*name).to_owned(), n * MINUTE_MS)).collect();
        let now_ms = n * MINUTE_MS;
        let (left, right) = tokio::join!(store.rhythms_add(&seen, now_ms), store.rhythms_add(&seen, now_ms));
        left.unwrap();
        right.unwrap();
    }
    let known = store.rhythms().await.unwrap();
    assert_eq!(known.values().map(|one| one.gaps_n).collect::<Vec<_>>(), [9, 9, 9]);
}

async fn a_time_from_a_wrong_clock_is_replaced(database: &Database) {
    let store = database.store().await;
    store.rhythms_add(&at("stripe", 1_000_000), 1_000_000 * MINUTE_MS).await.unwrap();
    let known = store.rhythms_add(&at("stripe", 10), 10 * MINUTE_MS).await.unwrap();
    assert_eq!((known["stripe"].last_accepted_at_ms, known["stripe"].gaps_n), (10 * MINUTE_MS, 0));
    let mut ahead = at("stripe", 1_000);
    ahead.extend(at("adyen", 1_000));
    let same = store.rhythms_add(&ahead, 11 * MINUTE_MS).await.unwrap();
    assert_eq!(same, known, "what was ahead of the clock that is right is not taken over");
}
