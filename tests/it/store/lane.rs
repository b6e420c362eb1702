//! Lanes: strict order, one under way, each blocked by its own head alone.

use hooklatch_contract::MessageAct;
use hooklatch_core::types::{AttemptResult, MessageState};
use hooklatch_store::{LeaseWant, LeasedMessage, NewMessage, SettleTo, Store, StoreError};

use super::{admit, decision_at, event, key, message, name, on_message, ops, settlement};
use crate::database::{Database, on_both};

on_both!(
    messages_of_a_lane_are_leased_one_at_a_time_in_order,
    a_stuck_head_blocks_its_own_lane_until_an_operator_decides,
    a_discarded_message_in_the_middle_is_passed_over,
    a_lane_that_ran_dry_starts_again,
    nodes_that_add_and_take_at_once_keep_the_order,
);

fn in_lane(lane: &str) -> NewMessage {
    NewMessage { lane: Some(lane.to_owned()), ..message("billing") }
}

async fn add(store: &Store, event_id: &str, lane: &str) {
    admit(store, &event(event_id, event_id), &[in_lane(lane)]).await;
}

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

fn ids(leased: &[LeasedMessage]) -> Vec<&str> {
    leased.iter().map(|one| one.key.event_id.as_str()).collect()
}

async fn settle(store: &Store, message: &LeasedMessage, to: SettleTo) {
    let settlement = settlement(message, to, AttemptResult::Done);
    assert_eq!(store.message_settle(&[settlement]).await.unwrap(), [true]);
}

/// Settles as the program does: a write that finds its lane locked for too long is repeated.
async fn settle_late(store: &Store, message: &LeasedMessage) {
    loop {
        match store.message_settle(&[settlement(message, SettleTo::Done, AttemptResult::Done)]).await {
            Ok(settled) => return assert_eq!(settled, [true]),
            Err(StoreError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn decide(store: &Store, event_id: &str, act: MessageAct) {
    let row = store.message_list_of_event(&key(event_id)).await.unwrap().remove(0);
    let ordered = on_message(row.message_id, act);
    assert_eq!(super::decide(&ops(store), &ordered, &decision_at(event_id, 6_000)).await, "changed 1");
}

async fn state(store: &Store, event_id: &str) -> MessageState {
    store.message_list_of_event(&key(event_id)).await.unwrap().remove(0).state
}

async fn messages_of_a_lane_are_leased_one_at_a_time_in_order(database: &Database) {
    let store = database.store().await;
    let both = [in_lane("a"), NewMessage { effect_name: "second".to_owned(), ..in_lane("a") }];
    admit(&store, &event("evt_1", "1"), &both).await;
    add(&store, "evt_2", "a").await;
    add(&store, "evt_3", "b").await;
    admit(&store, &event("evt_4", "4"), &[message("billing")]).await;
    let first = take(&store).await;
    assert_eq!(ids(&first), ["evt_1", "evt_3", "evt_4"], "the head of each lane, and what is in none");
    assert_eq!(first[0].effect_name, "billing");
    assert!(take(&store).await.is_empty(), "one under way");
    settle(&store, &first[0], SettleTo::Ready { visible_at_ms: 20_000 }).await;
    assert!(take(&store).await.is_empty(), "a head that waits for its retry is not overtaken");
    settle(&store, &first[1], SettleTo::Done).await;
    assert!(take(&store).await.is_empty(), "lanes move by themselves");
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 9,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let again = store.message_lease(&[want], 20_000, 30_000, "n").await.unwrap().remove(0);
    assert_eq!((again.effect_name.as_str(), again.attempt_n), ("billing", 2));
    settle(&store, &again, SettleTo::Done).await;
    let second = take(&store).await.remove(0);
    assert_eq!((second.key.event_id.as_str(), second.effect_name.as_str()), ("evt_1", "second"));
    settle(&store, &second, SettleTo::Done).await;
    assert_eq!(ids(&take(&store).await), ["evt_2"]);
}

async fn a_stuck_head_blocks_its_own_lane_until_an_operator_decides(database: &Database) {
    let store = database.store().await;
    for n in 1..=4 {
        add(&store, &format!("evt_{n}"), "a").await;
    }
    add(&store, "evt_9", "b").await;
    let first = take(&store).await;
    assert_eq!(ids(&first), ["evt_1", "evt_9"]);
    settle(&store, &first[0], SettleTo::Held).await;
    assert!(take(&store).await.is_empty());
    assert_eq!(state(&store, "evt_2").await, MessageState::Waiting, "seen as such");
    let counts = store.open_counts().await.unwrap().messages;
    let waiting = counts.iter().find(|count| count.state == MessageState::Waiting);
    assert_eq!(waiting.map(|count| count.messages_n), Some(3), "and counted");
    decide(&store, "evt_1", MessageAct::Done).await;
    let second = take(&store).await.remove(0);
    assert_eq!(second.key, key("evt_2"));
    settle(&store, &second, SettleTo::Dead).await;
    assert!(take(&store).await.is_empty());
    decide(&store, "evt_2", MessageAct::Discard).await;
    let third = take(&store).await.remove(0);
    assert_eq!(third.key, key("evt_3"));
    settle(&store, &third, SettleTo::Dead).await;
    decide(&store, "evt_3", MessageAct::Send).await;
    assert_eq!(ids(&take(&store).await), ["evt_3"], "sent again, and still before the fourth");
}

async fn a_discarded_message_in_the_middle_is_passed_over(database: &Database) {
    let store = database.store().await;
    for n in 1..=4 {
        add(&store, &format!("evt_{n}"), "a").await;
    }
    decide(&store, "evt_2", MessageAct::Discard).await;
    decide(&store, "evt_3", MessageAct::Discard).await;
    let first = take(&store).await.remove(0);
    assert_eq!(first.key, key("evt_1"));
    settle(&store, &first, SettleTo::Done).await;
    assert_eq!(ids(&take(&store).await), ["evt_4"]);
}

async fn a_lane_that_ran_dry_starts_again(database: &Database) {
    let store = database.store().await;
    for n in 1..=3 {
        add(&store, &format!("evt_{n}"), "a").await;
        let one = take(&store).await.remove(0);
        assert_eq!(one.key, key(&format!("evt_{n}")));
        settle(&store, &one, SettleTo::Done).await;
    }
}

async fn nodes_that_add_and_take_at_once_keep_the_order(database: &Database) {
    const EACH_N: usize = 30;
    let store = database.store().await;
    let mut adders = tokio::task::JoinSet::new();
    for adder in 0..3 {
        let store = store.clone();
        adders.spawn(async move {
            for n in 0..EACH_N {
                let id = format!("evt_{adder}_{n:03}");
                admit(
                    &store,
                    &event(&id, &id),
                    &[in_lane("one"), in_lane("two")].map(|mut message| {
                        message.effect_name = message.lane.clone().unwrap();
                        message
                    }),
                )
                .await;
            }
        });
    }
    let mut takers = tokio::task::JoinSet::new();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for _ in 0..3 {
        let (store, seen) = (store.clone(), std::sync::Arc::clone(&seen));
        takers.spawn(async move {
            while seen.lock().unwrap().len() < 2 * 3 * EACH_N {
                for one in take(&store).await {
                    seen.lock().unwrap().push((one.effect_name.clone(), one.key.event_id.clone()));
                    settle_late(&store, &one).await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    while let Some(done) = adders.join_next().await {
        done.unwrap();
    }
    let ended = async {
        while let Some(done) = takers.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), ended).await.expect("nothing is stuck");
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 2 * 3 * EACH_N);
    for lane in ["one", "two"] {
        for adder in 0..3 {
            let begin = format!("evt_{adder}_");
            let of: Vec<_> =
                seen.iter().filter(|(in_lane, id)| in_lane == lane && id.starts_with(&begin)).collect();
            assert!(of.is_sorted(), "what one sender sent in order went out in order: {of:?}");
            assert_eq!(of.len(), EACH_N);
        }
    }
}
