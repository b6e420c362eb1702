//! Leases, fencing tokens, settlements.

use hooklatch_contract::PauseAct;
use hooklatch_core::types::{AttemptResult, MessageState};
use hooklatch_store::{
    InitialLease, Latched, LeaseWant, LeasedMessage, NewMessage, SettleTo, Settlement, Store,
};

use super::{admit, admit_at_once, call_key, decision_at, event, key, message, name, on_destination, ops};
use crate::database::{Database, on_both};

on_both!(
    a_message_is_leased_once_with_all_it_needs,
    an_expired_lease_is_taken_again_and_the_old_holder_loses,
    a_settlement_moves_the_message_to_its_state,
    only_wanted_destinations_and_free_slots_are_leased,
    a_look_takes_no_more_bodies_than_there_is_memory_for,
    workers_at_once_never_share_a_message,
    first_send_and_key_validity_are_set_once,
    a_message_handed_back_unsent_uses_no_attempt,
    a_claim_that_sends_nothing_starts_no_clock,
    open_messages_are_counted_by_state,
    a_message_may_be_written_with_its_first_lease,
    the_attempt_of_a_done_message_is_listed,
    two_settlements_of_one_message_in_one_write_are_kept_apart,
    a_done_message_leaves_the_queue_and_settles_once,
    a_batch_settles_those_of_its_messages_whose_token_is_theirs,
    a_claim_of_many_gives_each_what_is_its_own,
    a_claim_of_a_lapsed_lease_records_the_attempt_before,
);

fn want(destination: &str, free_n: u32) -> LeaseWant {
    LeaseWant {
        destination: name(destination),
        free_n,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    }
}

async fn lease(store: &Store, free_n: u32, now_ms: i64) -> Vec<LeasedMessage> {
    store.message_lease(&[want("billing", free_n)], now_ms, 30_000, "node-1").await.unwrap()
}

fn settlement(message: &LeasedMessage, to: SettleTo, result: AttemptResult) -> Settlement {
    Settlement {
        http_status: Some(200),
        is_unsent: result == AttemptResult::Released,
        ..super::settlement(message, to, result)
    }
}

async fn a_message_is_leased_once_with_all_it_needs(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "{\"a\":1}"), &[message("billing")]).await;
    let leased = lease(&store, 10, 1_000).await;
    let one = &leased[0];
    assert_eq!((leased.len(), one.attempt_n, one.is_previous_unsettled), (1, 1, false));
    assert_eq!(one.body.as_ref(), b"{\"a\":1}", "without a body of its own, the event's bytes");
    assert_eq!(one.event_content_type.as_deref(), Some("application/json"));
    assert_eq!(one.headers["x-a"], "b");
    assert_eq!(one.idempotency_key, call_key(&store, "evt_1", "billing").await);
    assert_eq!((one.lease_until_ms, one.first_sent_at_ms, one.key_valid_until_ms), (31_000, 1_000, 11_000));
    assert!(lease(&store, 10, 1_000).await.is_empty(), "it is held");
}

async fn a_look_takes_no_more_bodies_than_there_is_memory_for(database: &Database) {
    let store = database.store().await;
    for (n, body_bytes_n) in (0_u32..).zip([10, 10, 10, 600, 600, 10]) {
        let one = NewMessage { body_bytes_n, created_at_ms: i64::from(n), ..message("billing") };
        // Both ways in which a message is written.
        if n % 2 == 0 {
            admit(&store, &event(&format!("evt_{n}"), "{}"), &[one]).await;
        } else {
            admit_at_once(&store, &event(&format!("evt_{n}"), "{}"), &[one]).await;
        }
    }
    let mut taken = Vec::new();
    for free_bytes_n in [1_000, 1_000, 5, 5] {
        let want = LeaseWant { free_bytes_n, ..want("billing", 100) };
        let leased = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap();
        taken.push(leased.iter().map(|one| one.key.event_id.clone()).collect::<Vec<_>>());
    }
    for ids in &mut taken {
        ids.sort();
    }
    let want: [&[&str]; 4] = [&["evt_0", "evt_1", "evt_2", "evt_3"], &["evt_4", "evt_5"], &[], &[]];
    assert_eq!(taken, want);
    admit(&store, &event("evt_6", "{}"), &[NewMessage { body_bytes_n: 600, ..message("billing") }]).await;
    let want = LeaseWant { free_bytes_n: 5, ..self::want("billing", 100) };
    let leased = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap();
    assert_eq!(leased.len(), 1, "the first one is taken, whatever its size");
}

async fn an_expired_lease_is_taken_again_and_the_old_holder_loses(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let old = lease(&store, 10, 1_000).await.remove(0);
    assert!(lease(&store, 10, 30_999).await.is_empty(), "not before its end");
    let new = lease(&store, 10, 31_000).await.remove(0);
    assert_eq!((new.attempt_n, new.is_previous_unsettled), (2, true));
    let late = settlement(&old, SettleTo::Dead, AttemptResult::Refused);
    let winner = settlement(&new, SettleTo::Done, AttemptResult::Done);
    assert_eq!(store.message_settle(std::slice::from_ref(&late)).await.unwrap(), [false]);
    assert_eq!(store.message_settle(std::slice::from_ref(&winner)).await.unwrap(), [true]);
    assert_eq!(
        store.message_settle(&[winner, late]).await.unwrap(),
        [false, false],
        "a settled message stays settled"
    );
    assert_eq!(store.message_list_of_event(&key("evt_1")).await.unwrap()[0].state.as_str(), "done");
}

async fn a_settlement_moves_the_message_to_its_state(database: &Database) {
    let store = database.store().await;
    let rows = [
        ("evt_1", SettleTo::Done, AttemptResult::Done, "done"),
        ("evt_2", SettleTo::Ready { visible_at_ms: 9_000 }, AttemptResult::Unknown, "ready"),
        ("evt_3", SettleTo::Dead, AttemptResult::Refused, "dead"),
        ("evt_4", SettleTo::Held, AttemptResult::Unknown, "held"),
    ];
    for (id, ..) in rows {
        admit(&store, &event(id, "a"), &[message("billing")]).await;
    }
    let leased = lease(&store, 10, 1_000).await;
    let of = |id: &str| leased.iter().find(|message| message.key.event_id == id).unwrap();
    let all: Vec<_> = rows.iter().map(|(id, to, result, _)| settlement(of(id), *to, *result)).collect();
    assert_eq!(store.message_settle(&all).await.unwrap(), [true; 4]);
    for (id, .., state) in rows {
        assert_eq!(store.message_list_of_event(&key(id)).await.unwrap()[0].state.as_str(), state, "{id}");
    }
    assert!(lease(&store, 10, 8_999).await.is_empty());
    let again = lease(&store, 10, 9_000).await;
    assert_eq!(again.len(), 1, "only the one that is ready");
    assert!(again[0].is_previous_unknown && !again[0].is_previous_unsettled);
}

async fn only_wanted_destinations_and_free_slots_are_leased(database: &Database) {
    let store = database.store().await;
    for n in 0..5 {
        let id = format!("evt_{n}");
        admit(&store, &event(&id, "a"), &[message("billing"), message("unknown-here")]).await;
    }
    assert_eq!(lease(&store, 2, 1_000).await.len(), 2);
    assert_eq!(lease(&store, 0, 1_000).await.len(), 0);
    let wants = [want("billing", 10), want("ledger", 10)];
    assert_eq!(store.message_lease(&wants, 1_000, 30_000, "node-1").await.unwrap().len(), 3);
    let foreign = store.message_list_of_event(&key("evt_0")).await.unwrap();
    assert_eq!((foreign[1].destination.as_str(), foreign[1].state.as_str()), ("unknown-here", "ready"));
}

async fn workers_at_once_never_share_a_message(database: &Database) {
    let store = database.store().await;
    for n in 0..60 {
        let id = format!("evt_{n}");
        admit(&store, &event(&id, "a"), &[message("billing")]).await;
    }
    let worker = |_| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let leased = lease(&store, 7, 1_000).await;
                if leased.is_empty() {
                    return mine;
                }
                mine.extend(leased.into_iter().map(|message| message.message_id));
            }
        })
    };
    let mut all = Vec::new();
    for one in (0..4).map(worker).collect::<Vec<_>>() {
        all.extend(one.await.unwrap());
    }
    all.sort();
    let total_n = all.len();
    all.dedup();
    assert_eq!((all.len(), total_n), (60, 60));
}

async fn first_send_and_key_validity_are_set_once(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let first = lease(&store, 1, 1_000).await.remove(0);
    let again = SettleTo::Ready { visible_at_ms: 2_000 };
    store.message_settle(&[settlement(&first, again, AttemptResult::Retry)]).await.unwrap();
    let second = lease(&store, 1, 8_000).await.remove(0);
    assert_eq!((second.first_sent_at_ms, second.key_valid_until_ms), (1_000, 11_000));
}

async fn open_messages_are_counted_by_state(database: &Database) {
    let store = database.store().await;
    for id in ["evt_1", "evt_2"] {
        admit(&store, &event(id, "a"), &[message("billing")]).await;
    }
    let one = lease(&store, 1, 1_000).await.remove(0);
    store.message_settle(&[settlement(&one, SettleTo::Held, AttemptResult::Unknown)]).await.unwrap();
    let mut counts: Vec<_> = store
        .open_counts()
        .await
        .unwrap()
        .messages
        .into_iter()
        .map(|one| (one.state, one.messages_n))
        .collect();
    counts.sort_by_key(|(state, _)| state.as_str());
    assert_eq!(counts, [(MessageState::Held, 1), (MessageState::Ready, 1)]);
}

async fn a_message_handed_back_unsent_uses_no_attempt(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let ready = SettleTo::Ready { visible_at_ms: 1_000 };
    for (result, before_n) in [
        (AttemptResult::Released, 0),
        (AttemptResult::Retry, 1),
        (AttemptResult::Released, 1),
        (AttemptResult::Unknown, 2),
    ] {
        let one = lease(&store, 1, 1_000).await.remove(0);
        assert_eq!(one.attempts_before_n, before_n, "before {result:?}");
        assert_eq!(store.message_settle(&[settlement(&one, ready, result)]).await.unwrap(), [true]);
    }
    assert_eq!(lease(&store, 1, 1_000).await.remove(0).attempts_before_n, 2);
}

/// The validity of a key and the age of retries run from the first call.
async fn a_claim_that_sends_nothing_starts_no_clock(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    admit_at_once(&store, &event("evt_2", "a"), &[leased_at_once("ledger")]).await;
    let mut born = lease(&store, 1, 1_000).await.remove(0);
    for (now_ms, result, sent_ms) in [
        (2_000, AttemptResult::Released, 2_000),
        (3_000, AttemptResult::Released, 3_000),
        (4_000, AttemptResult::Retry, 4_000),
        (5_000, AttemptResult::Released, 4_000),
        (6_000, AttemptResult::Released, 4_000),
    ] {
        let ready = SettleTo::Ready { visible_at_ms: now_ms };
        store.message_settle(&[settlement(&born, ready, AttemptResult::Released)]).await.unwrap();
        born = lease(&store, 1, now_ms).await.remove(0);
        assert_eq!((born.first_sent_at_ms, born.key_valid_until_ms), (sent_ms, sent_ms + 10_000), "{now_ms}");
        if result == AttemptResult::Retry {
            store.message_settle(&[settlement(&born, ready, result)]).await.unwrap();
            born = lease(&store, 1, now_ms).await.remove(0);
        }
    }
    // The same of one that was written with its first lease, and of one whose lease ended: that may have been sent.
    let cleared =
        "SELECT COUNT(*) FROM outbox_queue WHERE first_sent_at_ms IS NULL AND key_valid_until_ms IS NULL";
    let at_once = lease_of(&store, "ledger", 40_000).await;
    assert_eq!(at_once.first_sent_at_ms, 1_000, "its lease ended: it may have been sent");
    let ready = SettleTo::Ready { visible_at_ms: 40_000 };
    store.message_settle(&[settlement(&at_once, ready, AttemptResult::Released)]).await.unwrap();
    assert_eq!(database.count(cleared).await, 0);
}

async fn lease_of(store: &Store, to: &str, now_ms: i64) -> LeasedMessage {
    store.message_lease(&[want(to, 1)], now_ms, 30_000, "node-1").await.unwrap().remove(0)
}

/// A message that is written with a lease of node-1 until 31,000.
fn leased_at_once(destination: &str) -> NewMessage {
    let lease = InitialLease {
        node: "node-1".into(),
        from_ms: 1_000,
        until_ms: 31_000,
        key_valid_until_ms: 11_000,
        taken_at_ms: None,
    };
    NewMessage { lease: Some(lease), ..message(destination) }
}

async fn a_message_may_be_written_with_its_first_lease(database: &Database) {
    let store = database.store().await;
    let pause = on_destination("paused", PauseAct::Pause);
    ops(&store).decide(&pause, &decision_at("k", 1)).await.unwrap();
    // In a transaction of its own, and in one statement where the database can.
    for (way, id) in ["evt_1", "evt_2"].into_iter().enumerate() {
        let sent = event(id, "{\"a\":1}");
        let messages = [leased_at_once("billing"), leased_at_once("paused"), message("later")];
        if way == 0 {
            admit(&store, &sent, &messages).await;
        } else {
            let done = admit_at_once(&store, &sent, &messages).await;
            assert_eq!(
                (done.latched, done.queued.paused),
                (vec![Some(Latched::New)], ["paused".to_owned()].into())
            );
        }
        let rows = store.message_list_of_event(&key(id)).await.unwrap();
        let states: Vec<_> = rows.iter().map(|row| (row.destination.as_str(), row.state.as_str())).collect();
        assert_eq!(states, [("billing", "leased"), ("later", "ready"), ("paused", "ready")]);
        let row = &rows[0];
        assert_eq!((row.attempts_n, row.visible_at_ms), (1, 31_000));
        assert_eq!((row.first_sent_at_ms, row.key_valid_until_ms), (Some(1_000), Some(11_000)));
        let attempts = store.attempt_list(row.message_id).await.unwrap();
        assert_eq!((attempts.len(), attempts[0].node.as_str()), (1, "node-1"), "before any byte left");
        assert!(store.attempt_list(rows[2].message_id).await.unwrap().is_empty());
        assert!(lease(&store, 10, 30_999).await.is_empty(), "it is held");
        let new = NewMessage { message_id: row.message_id, ..messages[0].clone() };
        let held = new.to_leased(&sent, &store.installation_id().await.unwrap()).unwrap();
        assert_eq!(held.body.as_ref(), b"{\"a\":1}");
        let taken = lease(&store, 10, 31_000).await;
        let again = taken.iter().find(|one| one.message_id == held.message_id).unwrap();
        assert_eq!((again.attempt_n, again.is_previous_unsettled), (2, true), "like any lease that ended");
        let same = LeasedMessage {
            attempt_n: 1,
            is_previous_unsettled: false,
            is_previous_unknown: false,
            previous_ended_at_ms: None,
            lease_until_ms: 31_000,
            ..again.clone()
        };
        assert_eq!(format!("{same:?}"), format!("{held:?}"), "what was handed over is what is stored");
        let late = settlement(&held, SettleTo::Done, AttemptResult::Done);
        assert_eq!(store.message_settle(&[late]).await.unwrap(), [false], "fenced");
    }
}

async fn the_attempt_of_a_done_message_is_listed(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let first = lease(&store, 1, 1_000).await.remove(0);
    let again = SettleTo::Ready { visible_at_ms: 6_000 };
    store.message_settle(&[settlement(&first, again, AttemptResult::Retry)]).await.unwrap();
    let second = lease(&store, 1, 6_000).await.remove(0);
    store.message_settle(&[settlement(&second, SettleTo::Done, AttemptResult::Done)]).await.unwrap();
    let attempts = store.attempt_list(first.message_id).await.unwrap();
    let listed: Vec<_> = attempts
        .iter()
        .map(|one| (one.result.map(AttemptResult::as_str), one.http_status, one.finished_at_ms))
        .collect();
    assert_eq!(
        listed,
        [(Some("done"), Some(200), Some(5_000)), (Some("retry"), Some(200), Some(5_000))],
        "the newest first"
    );
}

async fn two_settlements_of_one_message_in_one_write_are_kept_apart(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let stale = lease(&store, 1, 1_000).await.remove(0);
    let current = lease(&store, 1, 31_000).await.remove(0);
    let late = settlement(&stale, SettleTo::Dead, AttemptResult::Refused);
    let right = settlement(&current, SettleTo::Held, AttemptResult::Retry);
    assert_eq!(store.message_settle(&[late, right]).await.unwrap(), [false, true]);
    let attempts = store.attempt_list(stale.message_id).await.unwrap();
    let results: Vec<_> = attempts.iter().map(|one| one.result.map(AttemptResult::as_str)).collect();
    assert_eq!(results, [Some("retry"), Some("unknown")], "the stale one wrote nothing");
}

async fn a_done_message_leaves_the_queue_and_settles_once(database: &Database) {
    let store = database.store().await;
    for id in ["evt_1", "evt_2", "evt_3"] {
        admit(&store, &event(id, "a"), &[message("billing")]).await;
    }
    let leased = lease(&store, 10, 1_000).await;
    let done = |one: &LeasedMessage| settlement(one, SettleTo::Done, AttemptResult::Done);
    let with_answer = Settlement { response: Some("{}".to_owned()), ..done(&leased[1]) };
    let held = settlement(&leased[2], SettleTo::Held, AttemptResult::Unknown);
    let all = [held, done(&leased[0]), with_answer];
    assert_eq!(store.message_settle(&all).await.unwrap(), [true; 3]);
    assert_eq!(store.message_settle(&all).await.unwrap(), [false; 3], "nothing is settled twice");
    for (sql, wanted) in [
        ("SELECT COUNT(*) FROM outbox_queue WHERE state = 'held' AND node = 'node-1'", 1),
        ("SELECT COUNT(*) FROM outbox_queue", 1),
        ("SELECT COUNT(*) FROM outbox_finished WHERE http_status = 200 AND finished_at_ms = 5000", 2),
        // A successful first attempt without a response is stored with the message alone.
        ("SELECT COUNT(*) FROM outbox_attempts WHERE started_at_ms = 1000 AND finished_at_ms = 5000", 2),
        ("SELECT COUNT(*) FROM outbox_attempts", 2),
    ] {
        assert_eq!(database.count(sql).await, wanted, "{sql}");
    }
}

async fn a_batch_settles_those_of_its_messages_whose_token_is_theirs(database: &Database) {
    let store = database.store().await;
    for id in ["evt_1", "evt_2", "evt_3", "evt_4"] {
        admit(&store, &event(id, "a"), &[message("billing")]).await;
    }
    let leased = lease(&store, 10, 1_000).await;
    let stale = leased.iter().find(|one| one.key.event_id == "evt_2").unwrap();
    let again = SettleTo::Ready { visible_at_ms: 6_000 };
    store.message_settle(&[settlement(stale, again, AttemptResult::Retry)]).await.unwrap();
    let current = lease(&store, 10, 6_000).await.remove(0);
    let done = |one: &LeasedMessage| settlement(one, SettleTo::Done, AttemptResult::Done);
    let of = |id: &str| done(leased.iter().find(|one| one.key.event_id == id).unwrap());
    let with_answer = Settlement { response: Some("{}".to_owned()), ..of("evt_3") };
    let batch = [of("evt_1"), done(stale), with_answer, done(&current)];
    assert_eq!(store.message_settle(&batch).await.unwrap(), [true, false, true, true]);
    for (sql, wanted) in [
        ("SELECT COUNT(*) FROM outbox_queue", 1),
        ("SELECT COUNT(*) FROM outbox_finished", 3),
        ("SELECT COUNT(*) FROM outbox_finished WHERE attempts_n = 2", 1),
        ("SELECT COUNT(*) FROM outbox_attempts WHERE result = 'done'", 2),
        ("SELECT COUNT(*) FROM outbox_attempts", 3),
    ] {
        assert_eq!(database.count(sql).await, wanted, "{sql}");
    }
}

async fn a_claim_of_many_gives_each_what_is_its_own(database: &Database) {
    let store = database.store().await;
    for n in 0..6 {
        let id = format!("evt_{n}");
        let mut own = message("billing");
        own.body = (n % 2 == 0).then(|| format!("own {n}").into());
        own.path = format!("/{n}");
        admit(&store, &event(&id, &n.to_string()), &[own]).await;
    }
    let first = lease(&store, 2, 1_000).await;
    // Two of these were claimed before, and their leases have ended.
    let leased = lease(&store, 10, 31_000).await;
    assert_eq!((first.len(), leased.len()), (2, 6));
    for one in leased {
        let n = one.key.event_id.strip_prefix("evt_").unwrap();
        let is_own = n.parse::<i32>().unwrap() % 2 == 0;
        let (want, wanted_type) =
            if is_own { (format!("own {n}"), None) } else { (n.to_owned(), Some("application/json")) };
        assert_eq!((&one.body[..], one.path), (want.as_bytes(), format!("/{n}")));
        assert_eq!(one.event_content_type.as_deref(), wanted_type);
        let was_claimed = first.iter().any(|before| before.message_id == one.message_id);
        assert_eq!((one.attempt_n, one.is_previous_unknown), (1 + u32::from(was_claimed), was_claimed));
        assert_eq!(one.first_sent_at_ms, if was_claimed { 1_000 } else { 31_000 });
        assert_eq!(one.key_valid_until_ms, one.first_sent_at_ms + 10_000);
    }
}

async fn a_claim_of_a_lapsed_lease_records_the_attempt_before(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    lease(&store, 1, 1_000).await;
    let again = lease(&store, 1, 31_000).await.remove(0);
    assert_eq!((again.previous_ended_at_ms, again.is_previous_unknown), (Some(31_000), true));
    let lapsed = "SELECT COUNT(*) FROM outbox_attempts WHERE attempt_n = 1 AND result = 'unknown' AND started_at_ms = 1000
        AND finished_at_ms = 31000 AND node = 'node-1'";
    assert_eq!(database.count(lapsed).await, 1);
    assert_eq!(
        database.count("SELECT COUNT(*) FROM outbox_attempts").await,
        1,
        "the one under way is in the queue"
    );
}
