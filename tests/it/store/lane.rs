//! Lanes: strict order, one under way, each blocked by its own head alone.

use hooklatch_contract::MessageAct;
use hooklatch_core::types::{AttemptResult, EventState, MessageState};
use hooklatch_store::{
    Latched, LeaseWant, LeasedMessage, NewMessage, NextWant, SettleTo, Settled, Settlement, Store,
    StoreError, Writes,
};
use tokio::task::JoinSet;

use super::{admit, admit_at_once, decision_at, event, key, message, name, on_message, ops, settlement};
use crate::database::{Database, on_both};

on_both!(
    messages_of_a_lane_are_leased_one_at_a_time_in_order,
    a_stuck_head_blocks_its_own_lane_until_an_operator_decides,
    a_discarded_message_in_the_middle_is_passed_over,
    a_lane_that_ran_dry_starts_again,
    nodes_that_add_and_take_at_once_keep_the_order,
    nodes_that_take_the_next_with_the_head_keep_the_order,
    the_next_of_a_lane_is_taken_with_the_head,
    what_must_not_be_taken_with_the_head_is_due,
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

fn done(message: &LeasedMessage) -> Settlement {
    settlement(message, SettleTo::Done, AttemptResult::Done)
}

/// Settles these and takes what is next in their lanes, of `destinations`, with bodies of so many bytes at most.
async fn settle_next(store: &Store, all: &[Settlement], destinations: &[&str], bytes_n: u64) -> Settled {
    let want = |destination: &&str| LeaseWant {
        destination: name(destination),
        free_n: 1,
        free_bytes_n: bytes_n,
        key_valid_for_ms: 10_000,
    };
    let wants = destinations.iter().map(want).collect();
    let want = NextWant { wants, now_ms: 10_000, lease_ms: 30_000, holder: "node-1/7".to_owned() };
    store.message_settle_next(all, want).await.unwrap()
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
    order_is_kept(database, false).await;
}

async fn nodes_that_take_the_next_with_the_head_keep_the_order(database: &Database) {
    order_is_kept(database, true).await;
}

/// Settles this one, and says what was taken with it, if that is wanted and could be.
async fn settle_and_take(store: &Store, one: &LeasedMessage, takes_next: bool) -> Vec<LeasedMessage> {
    let mut next = Vec::new();
    if takes_next {
        // A lane that is locked for too long is no failure: it is settled by itself.
        let want = LeaseWant {
            destination: name("billing"),
            free_n: 1,
            free_bytes_n: u64::MAX >> 1,
            key_valid_for_ms: 10_000,
        };
        let want =
            NextWant { wants: vec![want], now_ms: 10_000, lease_ms: 30_000, holder: "node-1/7".to_owned() };
        match store.message_settle_next(&[done(one)], want).await {
            Ok(settled) if settled.written == [Some(true)] => return settled.next,
            Ok(settled) => {
                assert_eq!(settled.written, [None], "never fenced here");
                next = settled.next;
            }
            Err(StoreError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    settle_late(store, one).await;
    next
}

async fn order_is_kept(database: &Database, takes_next: bool) {
    const EACH_N: usize = 30;
    let store = database.store().await;
    let mut adders = JoinSet::new();
    for adder in 0..3 {
        let store = store.clone();
        adders.spawn(async move {
            for n in 0..EACH_N {
                let id = format!("evt_{adder}_{n:03}");
                let messages =
                    ["one", "two"].map(|lane| NewMessage { effect_name: lane.to_owned(), ..in_lane(lane) });
                // Step by step, and in one statement.
                if n % 2 == 0 {
                    admit(&store, &event(&id, &id), &messages).await;
                } else {
                    let admitted = admit_at_once(&store, &event(&id, &id), &messages).await;
                    assert_eq!(admitted.latched, [Some(Latched::New)]);
                }
            }
        });
    }
    let mut takers = JoinSet::new();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for _ in 0..3 {
        let (store, seen) = (store.clone(), std::sync::Arc::clone(&seen));
        takers.spawn(async move {
            while seen.lock().unwrap().len() < 2 * 3 * EACH_N {
                let mut taken = take(&store).await;
                while let Some(one) = taken.pop() {
                    seen.lock().unwrap().push((one.effect_name.clone(), one.key.event_id.clone()));
                    taken.extend(settle_and_take(&store, &one, takes_next).await);
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

async fn the_next_of_a_lane_is_taken_with_the_head(database: &Database) {
    let store = database.store().await;
    for n in 1..=4 {
        add(&store, &format!("evt_{n}"), "a").await;
    }
    add(&store, "evt_8", "b").await;
    admit(&store, &event("evt_9", "9"), &[message("billing")]).await;
    decide(&store, "evt_2", MessageAct::Discard).await;
    let heads = take(&store).await;
    assert_eq!(ids(&heads), ["evt_1", "evt_8", "evt_9"]);
    let all: Vec<Settlement> = heads.iter().map(done).collect();
    let settled = settle_next(&store, &all, &["billing"], 1_000).await;
    assert_eq!((settled.written, settled.is_more), (vec![Some(true); 3], false));
    let [next] = &settled.next[..] else { panic!("{:?}", settled.next) };
    assert_eq!((next.key.event_id.as_str(), next.attempt_n), ("evt_3", 1), "the second was discarded");
    assert_eq!((next.lane.as_deref(), next.lease_until_ms), (Some("a"), 40_000));
    assert_eq!((next.first_sent_at_ms, next.key_valid_until_ms), (10_000, 20_000));
    assert_eq!(next.body, "evt_3", "with all that it needs");
    assert!(take(&store).await.is_empty(), "it is taken");
    // The head again: it was settled, and nothing is taken for it.
    let again = settle_next(&store, &all[..1], &["billing"], 1_000).await;
    assert_eq!((again.written, again.next.len()), (vec![Some(false)], 0));
    let last = settle_next(&store, &[done(next)], &["billing"], 1_000).await.next.remove(0);
    assert_eq!(last.key, key("evt_4"));
    let end = settle_next(&store, &[done(&last)], &["billing"], 1_000).await;
    assert_eq!((end.written, end.next.len(), end.is_more), (vec![Some(true)], 0, false), "it is dry");
    add(&store, "evt_5", "a").await;
    assert_eq!(ids(&take(&store).await), ["evt_5"], "and starts again");
}

async fn what_must_not_be_taken_with_the_head_is_due(database: &Database) {
    let store = database.store().await;
    let large = NewMessage { body_bytes_n: 2_000, ..in_lane("large") };
    for (lane, second) in [("unwanted", in_lane("unwanted")), ("large", large)] {
        add(&store, &format!("{lane}_1"), lane).await;
        admit(&store, &event(&format!("{lane}_2"), lane), &[second]).await;
    }
    let heads = take(&store).await;
    assert_eq!(ids(&heads), ["large_1", "unwanted_1"]);
    let settled = settle_next(&store, &[done(&heads[1])], &["other"], 1_000).await;
    assert_eq!((settled.written, settled.next.len(), settled.is_more), (vec![Some(true)], 0, true));
    let settled = settle_next(&store, &[done(&heads[0])], &["billing"], 1_000).await;
    assert_eq!((settled.written, settled.next.len(), settled.is_more), (vec![Some(true)], 0, true));
    let next = take(&store).await;
    assert_eq!(ids(&next), ["large_2", "unwanted_2"], "due at once");
    // Behind a pause.
    add(&store, "large_3", "large").await;
    let pause = super::on_destination("billing", hooklatch_contract::PauseAct::Pause);
    assert_eq!(super::decide(&ops(&store), &pause, &decision_at("pause", 6_000)).await, "changed 0");
    let settled = settle_next(&store, &[done(&next[0])], &["billing"], 1_000).await;
    assert_eq!((settled.written, settled.next.len(), settled.is_more), (vec![Some(true)], 0, true));
    assert_eq!(state(&store, "large_3").await, MessageState::Ready);
}

/// An admission that has the lane until its commit writes what the settlement's snapshot has not. Only here: SQLite has
/// one writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_committed_while_its_lane_is_waited_for_is_not_left_behind() {
    let Some(database) = Database::create(crate::database::On::Postgres).await else { return };
    let store = database.store().await;
    add(&store, "evt_1", "a").await;
    let head = take(&store).await.remove(0);
    let new = super::candidates(&store, &[&event("evt_2", "2")], EventState::Handled).await;
    let mut tx = store.admission_begin().await.unwrap();
    assert_eq!(tx.events_insert(&new).await.unwrap(), [Latched::New]);
    let messages = super::numbered(&new[0], &[in_lane("a")]);
    tx.write(&Writes { messages, updates: Vec::new() }).await.unwrap();
    let mut settling = JoinSet::new();
    let (of, all) = (store.clone(), [done(&head)]);
    settling.spawn(async move { settle_next(&of, &all, &["billing"], 1_000).await });
    let waits = "SELECT COUNT(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while database.texts(waits).await != ["1"] {
        tokio::task::yield_now().await;
    }
    tx.commit().await.unwrap();
    let settled = settling.join_next().await.unwrap().unwrap();
    assert_eq!((settled.written, settled.next.len()), (vec![None], 0), "nothing was written");
    settle(&store, &head, SettleTo::Done).await;
    assert_eq!(ids(&take(&store).await), ["evt_2"]);
}
