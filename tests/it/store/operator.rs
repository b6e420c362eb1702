//! Operators' decisions: applied once, recorded, and never against a worker's lease.

use hooklatch_contract::{EventAct, IfMatch, MessageAct, MessageFilter, PauseAct};
use hooklatch_core::types::{AttemptResult, EventState, MessageId, MessageState, Role, SentUnder};
use hooklatch_store::{
    Decision, LeaseWant, LeasedMessage, Ordered, PausesEnded, SettleTo, Settlement, Store,
};

use super::{
    admit, call_key, candidates, decide, decision_at, event, key, message, name, on_destination, on_event,
    on_message, ops, scoped,
};
use crate::database::{Database, on_both};

on_both!(
    a_decision_is_made_once_and_recorded,
    leased_and_done_messages_refuse_decisions,
    of_many_decisions_about_a_message_one_acts,
    a_message_sent_again_starts_anew_under_its_key,
    an_operators_send_does_not_extend_the_window_of_a_possible_effect,
    the_message_of_a_dead_worker_can_be_decided_after_its_lease,
    messages_are_listed_newest_first_page_by_page,
    held_messages_are_listed_and_counted_however_many_destinations_have_them,
    attempts_are_listed_from_history_queue_and_finished_message,
    a_message_that_an_operator_ends_leaves_the_queue_with_its_last_error,
    a_message_that_an_operator_ends_keeps_that_a_call_may_have_happened,
    an_event_without_its_bytes_is_not_dispatched_again,
    the_bytes_of_an_event_are_erased_and_what_became_of_it_stays,
    contents_kept_beside_an_event_are_erased_with_it,
    nothing_is_taken_for_a_paused_destination,
    a_pause_is_over_at_its_end_and_not_before,
    nothing_is_taken_of_a_paused_provider_until_its_pause_is_over,
);

fn decision(idempotency_key: &str) -> Decision<'_> {
    decision_at(idempotency_key, 9_000)
}

/// A message to `billing` for `event_id` that stands in `to`; its id.
pub(super) async fn settled(store: &Store, event_id: &str, to: SettleTo) -> MessageId {
    admit(store, &event(event_id, event_id), &[message("billing")]).await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let one = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap().remove(0);
    assert_eq!(store.message_settle(&[settlement(&one, to)]).await.unwrap(), [true]);
    one.message_id
}

/// An attempt with an unknown end.
pub(super) fn settlement(one: &LeasedMessage, to: SettleTo) -> Settlement {
    Settlement { error: Some("no answer".to_owned()), ..super::settlement(one, to, AttemptResult::Unknown) }
}

async fn a_decision_is_made_once_and_recorded(database: &Database) {
    let store = database.store().await;
    let id = settled(&store, "evt_1", SettleTo::Held).await;
    let done = on_message(id, MessageAct::Done);
    assert_eq!(decide(&ops(&store), &done, &decision("k1")).await, "changed 1");
    let row = store.message_get(id).await.unwrap().unwrap();
    assert_eq!((row.state.as_str(), row.finished_at_ms, row.attempts_n), ("done", Some(9_000), 1));
    assert_eq!(decide(&ops(&store), &done, &decision("k1")).await, "again changed 1");
    let other = Decision { digest: [7; 32], ..decision("k1") };
    assert_eq!(decide(&ops(&store), &on_message(id, MessageAct::Send), &other).await, "key_reused");
    let audit = ops(&store).message(id, 0).await.unwrap().decisions;
    assert_eq!(audit.len(), 1, "{audit:?}");
    let said = (audit[0].actor.as_str(), audit[0].action.as_str(), audit[0].detail.as_str(), audit[0].at_ms);
    assert_eq!(said, ("ops", "message_done", "seen at the bank", 9_000));
    let attempts = store.attempt_list(id).await.unwrap();
    assert_eq!(
        attempts[0].result.map(AttemptResult::as_str),
        Some("unknown"),
        "what happened before stays as it was"
    );
}

async fn leased_and_done_messages_refuse_decisions(database: &Database) {
    let store = database.store().await;
    let done = settled(&store, "evt_1", SettleTo::Done).await;
    admit(&store, &event("evt_2", "b"), &[message("billing")]).await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let leased = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap().remove(0).message_id;
    for (id, state) in [(done, "done"), (leased, "leased")] {
        for act in [MessageAct::Send, MessageAct::Done, MessageAct::Discard] {
            let decided = decide(&ops(&store), &on_message(id, act), &decision("k")).await;
            assert_eq!(decided, format!("not_allowed {state}"), "{act:?}");
        }
        assert_eq!(store.message_get(id).await.unwrap().unwrap().state.as_str(), state);
        assert_eq!(ops(&store).message(id, 0).await.unwrap().decisions, []);
    }
    let absent = on_message(MessageId::from_column(7), MessageAct::Send);
    assert_eq!(decide(&ops(&store), &absent, &decision("k")).await, "not_found");
}

async fn the_message_of_a_dead_worker_can_be_decided_after_its_lease(database: &Database) {
    let store = database.store().await;
    for (n, act, state) in [(1, MessageAct::Done, "done"), (2, MessageAct::Discard, "discarded")] {
        let event_id = format!("evt_{n}");
        admit(&store, &event(&event_id, &event_id), &[message("billing")]).await;
        let want = LeaseWant {
            destination: name("billing"),
            free_n: 1,
            free_bytes_n: u64::MAX >> 1,
            key_valid_for_ms: 10_000,
        };
        let one = store.message_lease(&[want], 1_000, 7_999, "node-1").await.unwrap().remove(0);
        let decided = async |now_ms: i64| {
            let decision = Decision { now_ms, ..decision(&event_id) };
            decide(&ops(&store), &on_message(one.message_id, act), &decision).await
        };
        assert_eq!(decided(8_999).await, "not_allowed leased", "it may be under way");
        assert_eq!(decided(9_000).await, "changed 1");
        let late = Settlement {
            settled_at_ms: 9_500,
            ..super::settlement(&one, SettleTo::Ready { visible_at_ms: 1 }, AttemptResult::Retry)
        };
        assert_eq!(
            store.message_settle(&[late]).await.unwrap(),
            [false],
            "a worker that comes back is too late"
        );
        assert_eq!(store.message_get(one.message_id).await.unwrap().unwrap().state.as_str(), state);
    }
}

async fn of_many_decisions_about_a_message_one_acts(database: &Database) {
    let store = database.store().await;
    for round in 0..6 {
        let id = settled(&store, &format!("evt_{round}"), SettleTo::Held).await;
        let acts = [MessageAct::Send, MessageAct::Discard, MessageAct::Done];
        let all = (0..9).map(|n: usize| {
            let (store, act) = (store.clone(), acts[(n + round) % 3]);
            tokio::spawn(async move {
                let key = format!("r-{round}-{n}");
                (act, decide(&ops(&store), &on_message(id, act), &decision(&key)).await)
            })
        });
        let (mut changed, mut refused) = (Vec::new(), Vec::new());
        for one in all.collect::<Vec<_>>() {
            let (act, said) = one.await.unwrap();
            if said.starts_with("changed") { changed.push(act) } else { refused.push(said) }
        }
        assert_eq!(changed.len(), 1, "{changed:?} {refused:?}");
        let state = match changed[0] {
            MessageAct::Send => "ready",
            MessageAct::Discard => "discarded",
            MessageAct::Done => "done",
        };
        assert_eq!(store.message_get(id).await.unwrap().unwrap().state.as_str(), state);
        assert!(refused.iter().all(|said| said.contains(state)), "they hear what happened: {refused:?}");
    }
    let audited = "SELECT COUNT(*) FROM audit_log WHERE message_id IS NOT NULL";
    assert_eq!(database.count(audited).await, 6);
    // Who has seen that it was sent may discard it all the same.
    let id = settled(&store, "evt_last", SettleTo::Held).await;
    let (send, discard) = (on_message(id, MessageAct::Send), on_message(id, MessageAct::Discard));
    assert_eq!(decide(&ops(&store), &send, &decision("s-1")).await, "changed 1");
    assert_eq!(decide(&ops(&store), &discard, &decision("s-2")).await, "VersionNeeded { state: \"ready\" }");
    let seen = Decision { if_match: &IfMatch::Any, ..decision("s-3") };
    assert_eq!(decide(&ops(&store), &discard, &seen).await, "changed 1");
}

async fn a_message_sent_again_starts_anew_under_its_key(database: &Database) {
    let store = database.store().await;
    for (event_id, to) in [("evt_1", SettleTo::Held), ("evt_2", SettleTo::Dead)] {
        let id = settled(&store, event_id, to).await;
        let decided = decide(&ops(&store), &on_message(id, MessageAct::Send), &decision(event_id)).await;
        assert_eq!(decided, "changed 1");
        let want = LeaseWant {
            destination: name("billing"),
            free_n: 9,
            free_bytes_n: u64::MAX >> 1,
            key_valid_for_ms: 10_000,
        };
        assert!(store.message_lease(std::slice::from_ref(&want), 8_999, 1, "n").await.unwrap().is_empty());
        let again = store.message_lease(&[want], 100_000, 30_000, "node-2").await.unwrap().remove(0);
        assert_eq!((again.message_id, again.attempt_n, again.attempts_before_n), (id, 2, 1));
        assert_eq!(again.idempotency_key, call_key(&store, event_id, "billing").await);
        assert!(!again.is_previous_unknown && !again.is_previous_unsettled, "a person has spoken");
        assert_eq!((again.first_sent_at_ms, again.key_valid_until_ms), (100_000, 110_000));
    }
}

async fn an_operators_send_does_not_extend_the_window_of_a_possible_effect(database: &Database) {
    let store = database.store().await;
    let want = |key_valid_for_ms| {
        [LeaseWant { destination: name("billing"), free_n: 1, free_bytes_n: u64::MAX >> 1, key_valid_for_ms }]
    };
    let settled = |one: &LeasedMessage, to, sent_under| Settlement { sent_under, ..settlement(one, to) };
    let under = async |id| store.message_get(id).await.unwrap().unwrap().sent_under;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let first = store.message_lease(&want(50_000), 1_000, 30_000, "n").await.unwrap().remove(0);
    let id = first.message_id;
    let held = settled(&first, SettleTo::Held, Some(SentUnder::Retry));
    assert_eq!(store.message_settle(&[held]).await.unwrap(), [true]);
    let row = store.message_get(id).await.unwrap().unwrap();
    assert_eq!((row.visible_at_ms, row.sent_under), (5_000, Some(SentUnder::Retry)), "held since then");
    // The key was known until 51,000, and an operator's decision does not extend that.
    let send = async |key| decide(&ops(&store), &on_message(id, MessageAct::Send), &decision(key)).await;
    assert_eq!(send("k1").await, "changed 1");
    let again = store.message_lease(&want(50_000), 40_000, 1_000, "n").await.unwrap().remove(0);
    assert_eq!((again.first_sent_at_ms, again.key_valid_until_ms), (40_000, 51_000));
    // The strictest rule stays, whatever follows.
    for (to, rule, stays) in [
        (SettleTo::Ready { visible_at_ms: 1 }, Some(SentUnder::Hold), SentUnder::Hold),
        (SettleTo::Dead, Some(SentUnder::Retry), SentUnder::Hold),
    ] {
        let one = match to {
            SettleTo::Dead => store.message_lease(&want(50_000), 45_000, 1_000, "n").await.unwrap().remove(0),
            _ => again.clone(),
        };
        assert_eq!(store.message_settle(&[settled(&one, to, rule)]).await.unwrap(), [true]);
        assert_eq!(under(id).await, Some(stays));
    }
    // Once the key has expired, an operator who sends it anyway starts a new window.
    let now = "UPDATE outbox_queue SET key_valid_until_ms = 1";
    database.run(now).await.unwrap();
    assert_eq!(send("k2").await, "changed 1");
    let again = store.message_lease(&want(50_000), 100_000, 1_000, "n").await.unwrap().remove(0);
    assert_eq!((again.key_valid_until_ms, under(id).await), (150_000, Some(SentUnder::Hold)));
}

async fn messages_are_listed_newest_first_page_by_page(database: &Database) {
    let store = database.store().await;
    for n in 0..5 {
        admit(&store, &event(&format!("evt_{n}"), "a"), &[message("billing")]).await;
    }
    let mut seen = Vec::new();
    // Of what is open and what is finished as of one list.
    let ids = settle_some(&store, 3).await;
    let mut before = None;
    loop {
        let page = store.message_list(MessageFilter::default(), before, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.message_id);
        seen.extend(page.into_iter().map(|row| row.key));
    }
    let wanted: Vec<_> = (0..5).rev().map(|n| key(&format!("evt_{n}"))).collect();
    assert_eq!(seen, wanted);
    let done = MessageFilter { state: Some(MessageState::Done), ..MessageFilter::default() };
    let found = store.message_list(done, None, 9).await.unwrap();
    let found: Vec<MessageId> = found.into_iter().map(|row| row.message_id).collect();
    assert_eq!(found, ids.into_iter().rev().collect::<Vec<_>>());
}

async fn held_messages_are_listed_and_counted_however_many_destinations_have_them(database: &Database) {
    let store = database.store().await;
    let mut ids = Vec::new();
    for event_n in 0..3 {
        let to: Vec<_> = (0..340).map(|n| message(&format!("d-{event_n}-{n}"))).collect();
        ids.extend(admit(&store, &event(&format!("evt_{event_n}"), "a"), &to).await);
    }
    database.run("UPDATE outbox_queue SET state = 'held', last_result = 'refused'").await.unwrap();
    let held = MessageFilter { state: Some(MessageState::Held), ..MessageFilter::default() };
    let found = store.message_list(held.clone(), None, 2_000).await.unwrap();
    let found: Vec<MessageId> = found.into_iter().map(|row| row.message_id).collect();
    assert_eq!(found, ids.into_iter().rev().collect::<Vec<_>>());
    let page = ops(&store).messages(held, None, 500).await.unwrap();
    assert_eq!(page.items.iter().map(|row| row.message_id).collect::<Vec<_>>(), found[..500]);
}

async fn nothing_is_taken_for_a_paused_destination(database: &Database) {
    let store = database.store().await;
    let both = [message("billing"), message("mail")];
    admit(&store, &event("evt_1", "a"), &both).await;
    let decided =
        async |act, key| decide(&ops(&store), &on_destination("billing", act), &decision(key)).await;
    assert_eq!(decided(PauseAct::Pause, "k1").await, "changed 0");
    assert_eq!(decided(PauseAct::Pause, "k2").await, "not_allowed paused");
    let all = ops(&store).destinations([], 0).await.unwrap();
    let paused = all.iter().filter_map(|one| Some((one.name.as_str(), one.pause.as_ref()?.actor.as_str())));
    assert_eq!(paused.collect::<Vec<_>>(), [("billing", "ops")]);
    let wants = ["billing", "mail"].map(|to| LeaseWant {
        destination: name(to),
        free_n: 9,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 1,
    });
    let taken = async |wants: &[LeaseWant]| {
        let leased = store.message_lease(wants, 1_000, 30_000, "n").await.unwrap();
        leased.into_iter().map(|one| one.destination.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(taken(&wants).await, ["mail"]);
    assert_eq!(taken(&wants).await, Vec::<String>::new());
    assert_eq!(decided(PauseAct::Resume, "k3").await, "changed 0");
    assert_eq!(taken(&wants).await, ["billing"]);
}

async fn a_pause_is_over_at_its_end_and_not_before(database: &Database) {
    const DAY_MS: i64 = 86_400_000;
    let store = database.store().await;
    let people = ops(&store);
    let pause = async |to: &str, until_ms: Option<i64>| {
        let ordered = Ordered::Destination { name: name(to), act: PauseAct::Pause, until_ms };
        decide(&people, &ordered, &decision(&format!("pause {to} {until_ms:?}"))).await
    };
    // The decision is made at 9 seconds.
    assert_eq!(pause("billing", Some(9_000)).await, "EndPassed");
    assert_eq!(pause("billing", Some(20_000)).await, "changed 0");
    assert_eq!(pause("mail", None).await, "changed 0");
    let shown = people.destination(&name("billing"), true, 0).await.unwrap();
    assert_eq!(shown.pause.unwrap().until_ms, Some(20_000));
    let counted = store.open_counts().await.unwrap();
    let due = [("billing".to_owned(), 20_000), ("mail".to_owned(), 9_000 + DAY_MS)];
    assert_eq!(counted.pauses_due_ms, due, "without an end, a day is long");
    assert_eq!(store.pauses_end(19_999).await.unwrap(), PausesEnded::default());
    assert_eq!(store.pauses_end(20_000).await.unwrap().destinations, ["billing"]);
    assert_eq!(store.pauses_end(20_000).await.unwrap(), PausesEnded::default());
    assert_eq!(store.open_counts().await.unwrap().pauses_due_ms, due[1..]);
    assert_eq!(pause("billing", None).await, "changed 0", "it was resumed");
    assert_eq!(pause("billing", Some(30_000)).await, "changed 0", "another end is set without a gap");
    assert_eq!(store.pauses_end(30_000).await.unwrap().destinations, ["billing"]);
}

async fn nothing_is_taken_of_a_paused_provider_until_its_pause_is_over(database: &Database) {
    const HOUR_MS: i64 = 3_600_000;
    let store = database.store().await;
    let people = ops(&store);
    let ordered = async |act, until_ms, key: &str| {
        let ordered = Ordered::Provider { name: name("stripe"), act, until_ms };
        decide(&people, &ordered, &decision(key)).await
    };
    admit(&store, &event("evt_1", "a"), &[]).await;
    let due = "UPDATE processed_webhook_events SET state = 'retry', due_at_ms = 1, attempts_n = 0";
    database.run(due).await.unwrap();
    let take = async || {
        let mut tx = store.admission_begin().await.unwrap();
        let due = tx.event_take_due(10_000, &[name("github"), name("stripe")]).await.unwrap();
        tx.rollback().await.unwrap();
        due.map(|due| due.key.event_id)
    };
    assert_eq!(take().await.as_deref(), Some("evt_1"));
    // The decisions are made at 9 seconds.
    assert_eq!(ordered(PauseAct::Resume, None, "k0").await, "not_allowed running");
    assert_eq!(ordered(PauseAct::Pause, Some(20_000), "k1").await, "changed 0");
    assert_eq!(ordered(PauseAct::Pause, Some(20_000), "k1").await, "again changed 0");
    assert_eq!(ordered(PauseAct::Pause, Some(20_000), "k2").await, "not_allowed paused");
    assert_eq!(ordered(PauseAct::Pause, Some(30_000), "k3").await, "changed 0", "another end");
    assert_eq!(take().await, None);
    let counted = store.open_counts().await.unwrap();
    assert_eq!(counted.provider_pauses_due_ms, [("stripe".to_owned(), 30_000)]);
    let shown = people.providers([name("stripe")].into()).await.unwrap();
    assert_eq!(shown[&name("stripe")].pause.as_ref().unwrap().until_ms, Some(30_000));
    assert_eq!(store.pauses_end(29_999).await.unwrap(), PausesEnded::default());
    assert_eq!(store.pauses_end(30_000).await.unwrap().providers, ["stripe"]);
    assert_eq!(store.pauses_end(30_000).await.unwrap(), PausesEnded::default());
    assert_eq!(take().await.as_deref(), Some("evt_1"));
    // New events queue behind it, but not permanently.
    let is_holding = async |now_ms| {
        let pauses = store.provider_pauses(now_ms).await.unwrap();
        assert_eq!((pauses.len(), pauses[0].ended_at_ms), (1, Some(30_000)));
        pauses[0].is_holding
    };
    assert!(is_holding(30_001).await && !is_holding(30_000 + HOUR_MS).await);
    database.run("UPDATE processed_webhook_events SET attempts_n = 1").await.unwrap();
    assert!(!is_holding(30_001).await, "what failed holds no lease");
    assert_eq!(ordered(PauseAct::Pause, None, "k4").await, "changed 0", "once more");
    assert_eq!(ordered(PauseAct::Resume, None, "k5").await, "changed 0");
    let audited = "SELECT COUNT(*) FROM audit_log WHERE provider = 'stripe' AND action IN ('provider_pause', 'provider_resume')";
    assert_eq!(database.count(audited).await, 4);
    let outside = scoped(&store, Role::Operator, Some(&["github"]), None);
    let ordered = Ordered::Provider { name: name("stripe"), act: PauseAct::Pause, until_ms: None };
    assert_eq!(decide(&outside, &ordered, &decision("k6")).await, "not_found");
}

/// The oldest `n` messages to `billing` are done; their ids.
async fn settle_some(store: &Store, n: u32) -> Vec<MessageId> {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: n,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let leased = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap();
    let done = |one: &LeasedMessage| Settlement {
        http_status: Some(204),
        ..super::settlement(one, SettleTo::Done, AttemptResult::Done)
    };
    let settlements: Vec<Settlement> = leased.iter().map(done).collect();
    assert!(store.message_settle(&settlements).await.unwrap().iter().all(|is_ours| *is_ours));
    leased.into_iter().map(|one| one.message_id).collect()
}

async fn attempts_are_listed_from_history_queue_and_finished_message(database: &Database) {
    let store = database.store().await;
    // One that went well at once has no row of its own.
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let id = settle_some(&store, 1).await.remove(0);
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_attempts").await, 0);
    let attempts = store.attempt_list(id).await.unwrap();
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    let one = (
        attempts[0].attempt_n,
        attempts[0].result.map(AttemptResult::as_str),
        attempts[0].http_status,
        attempts[0].finished_at_ms,
    );
    assert_eq!(one, (1, Some("done"), Some(204), Some(5_000)));
    assert_eq!((attempts[0].started_at_ms, attempts[0].node.as_str()), (1_000, "node-1"));
    // One that did not, and one that is under way behind it.
    let id = settled(&store, "evt_2", SettleTo::Ready { visible_at_ms: 6_000 }).await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    assert_eq!(store.message_lease(&[want], 7_000, 30_000, "node-2").await.unwrap().len(), 1);
    let attempts = store.attempt_list(id).await.unwrap();
    let attempts: Vec<_> = attempts
        .iter()
        .map(|one| {
            (one.attempt_n, one.node.as_str(), one.started_at_ms, one.result.map(AttemptResult::as_str))
        })
        .collect();
    assert_eq!(attempts, [(2, "node-2", 7_000, None), (1, "node-1", 1_000, Some("unknown"))]);
}

async fn a_message_that_an_operator_ends_leaves_the_queue_with_its_last_error(database: &Database) {
    let store = database.store().await;
    for (n, act, state) in
        [(1, MessageAct::Done, MessageState::Done), (2, MessageAct::Discard, MessageState::Discarded)]
    {
        let event_id = format!("evt_{n}");
        let id = settled(&store, &event_id, SettleTo::Held).await;
        assert_eq!(decide(&ops(&store), &on_message(id, act), &decision(&event_id)).await, "changed 1");
        let row = store.message_get(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.finished_at_ms, row.attempts_n), (state, Some(9_000), 1));
        assert_eq!(
            (row.last_result, row.last_error.as_deref()),
            (Some(AttemptResult::Unknown), Some("no answer"))
        );
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_queue").await, 0);
    // A call whose lease has ended is listed as what it is.
    admit(&store, &event("evt_3", "c"), &[message("billing")]).await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let id = store.message_lease(&[want], 1_000, 1_000, "node-1").await.unwrap().remove(0).message_id;
    assert_eq!(
        decide(&ops(&store), &on_message(id, MessageAct::Discard), &decision("k3")).await,
        "changed 1"
    );
    let attempts = store.attempt_list(id).await.unwrap();
    assert_eq!(
        (attempts.len(), attempts[0].result.map(AttemptResult::as_str)),
        (1, Some("unknown")),
        "{attempts:?}"
    );
    let row = store.message_get(id).await.unwrap().unwrap();
    assert_eq!(row.last_result, Some(AttemptResult::Unknown));
}

/// Its first call had no clear answer, the last one was surely not done: the judgement needs the first.
async fn a_message_that_an_operator_ends_keeps_that_a_call_may_have_happened(database: &Database) {
    let store = database.store().await;
    for (n, act) in [(1, MessageAct::Discard), (2, MessageAct::Done)] {
        let event_id = format!("evt_{n}");
        admit(&store, &event(&event_id, &event_id), &[message("billing")]).await;
        let want = || LeaseWant {
            destination: name("billing"),
            free_n: 1,
            free_bytes_n: u64::MAX >> 1,
            key_valid_for_ms: 10_000,
        };
        let ends = [
            (SettleTo::Ready { visible_at_ms: 1 }, AttemptResult::Unknown, Some(SentUnder::Hold)),
            (SettleTo::Dead, AttemptResult::Retry, None),
        ];
        let mut id = MessageId::from_column(0);
        for (to, result, sent_under) in ends {
            let one = store.message_lease(&[want()], 6_000, 1_000, "n").await.unwrap().remove(0);
            id = one.message_id;
            let ended = Settlement { sent_under, ..super::settlement(&one, to, result) };
            assert_eq!(store.message_settle(&[ended]).await.unwrap(), [true]);
        }
        assert_eq!(decide(&ops(&store), &on_message(id, act), &decision(&event_id)).await, "changed 1");
        let row = store.message_get(id).await.unwrap().unwrap();
        assert_eq!((row.last_result, row.sent_under), (Some(AttemptResult::Retry), Some(SentUnder::Hold)));
    }
    let found = store.message_list(MessageFilter::default(), None, 9).await.unwrap();
    let under: Vec<_> = found.iter().map(|one| one.sent_under).collect();
    assert_eq!(under, [Some(SentUnder::Hold); 2], "lists have it too");
}

async fn an_event_without_its_bytes_is_not_dispatched_again(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[]).await;
    let decided = async |act, key| decide(&ops(&store), &on_event("evt_1", act), &decision(key)).await;
    assert_eq!(decided(EventAct::Dispatch, "k1").await, "not_allowed handled");
    assert_eq!(decided(EventAct::Erase, "k2").await, "changed 0");
    assert_eq!(decided(EventAct::Rerun, "k3").await, "body_gone");
    let row = store.event_get(&key("evt_1")).await.unwrap().unwrap();
    assert_eq!(row.state, EventState::Handled, "nothing waits for what cannot happen");
    // Also of one that was run again before, about which one otherwise decides with its version alone.
    database.run("UPDATE processed_webhook_events SET generation = 1").await.unwrap();
    assert_eq!(decided(EventAct::Rerun, "k5").await, "body_gone");
    let absent = on_event("evt_2", EventAct::Rerun);
    assert_eq!(decide(&ops(&store), &absent, &decision("k4")).await, "not_found");
}

async fn contents_kept_beside_an_event_are_erased_with_it(database: &Database) {
    let store = database.store().await;
    let signed = |id: &str, body: &str| hooklatch_core::types::IncomingEvent {
        replay_key: Some([7; 32]),
        ..event(id, body)
    };
    admit(&store, &signed("evt_1", "a"), &[]).await;
    // Its text under another id, and other content under its own.
    admit(&store, &signed("evt_2", "a"), &[]).await;
    admit(&store, &event("evt_1", "b"), &[]).await;
    let bodies = "SELECT COUNT(*) FROM webhook_payloads";
    assert_eq!(database.count(bodies).await, 3);
    let decided = async |act, key| decide(&ops(&store), &on_event("evt_1", act), &decision(key)).await;
    assert_eq!(decided(EventAct::Erase, "k1").await, "not_allowed conflict");
    assert_eq!(database.count(bodies).await, 3, "all of it or nothing");
    assert_eq!(decided(EventAct::EraseAndDiscard, "k2").await, "changed 0");
    assert_eq!(database.count(bodies).await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 3);
}

async fn the_bytes_of_an_event_are_erased_and_what_became_of_it_stays(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[message("billing"), message("mail")]).await;
    let decided = async |act, key| decide(&ops(&store), &on_event("evt_1", act), &decision(key)).await;
    assert_eq!(decided(EventAct::Erase, "k1").await, "still_open 2");
    assert!(store.event_content(&key("evt_1")).await.unwrap().is_some());
    let id = settle_some(&store, 1).await.remove(0);
    assert_eq!(decided(EventAct::Erase, "k2").await, "still_open 1");
    // The error text of a database or a handler quotes the content that failed.
    for sql in [
        "UPDATE processed_webhook_events SET error = 'invalid type: string \"ann@example.com\"'",
        "UPDATE outbox_queue SET last_error = 'Key (email)=(ann@example.com) already exists'",
        "UPDATE outbox_finished SET last_error = 'Key (email)=(ann@example.com) already exists'",
        "INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result, error)
             SELECT message_id, 9, 1, 2, shard, 'n', 'refused', 'ann@example.com' FROM outbox_finished",
    ] {
        super::retention::run(database, sql).await;
    }
    assert_eq!(decided(EventAct::EraseAndDiscard, "k3").await, "changed 1");
    assert!(store.event_content(&key("evt_1")).await.unwrap().is_none());
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_contents").await, 0);
    for sql in [
        "SELECT COUNT(*) FROM processed_webhook_events WHERE error LIKE '%ann@%'",
        "SELECT COUNT(*) FROM outbox_finished WHERE last_error LIKE '%ann@%'",
        "SELECT COUNT(*) FROM outbox_attempts WHERE error LIKE '%ann@%' OR response IS NOT NULL",
    ] {
        assert_eq!(database.count(sql).await, 0, "{sql}");
    }
    assert_eq!(store.message_get(id).await.unwrap().unwrap().state, MessageState::Done);
    let sql = "SELECT COUNT(*) FROM audit_log WHERE action IN ('event_erase', 'message_discard')";
    assert_eq!(database.count(sql).await, 2);
    // A copy is still known.
    let again = candidates(&store, &[&event("evt_1", "a")], EventState::Handled).await;
    let mut tx = store.admission_begin().await.unwrap();
    let found = tx.events_insert(&again).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(found, [hooklatch_store::Latched::Duplicate]);
}
