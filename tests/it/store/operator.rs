//! What people decide: once, recorded, and never over a worker's head.

use hooklatch::store::{
    Act, Chosen, Decided, Decision, Decree, Filter, LeaseWant, SettleTo, Settlement, Store,
};
use hooklatch::types::{AttemptResult, MessageState};

use super::{admit, event, key, message, name};
use crate::database::{Database, on_both};

on_both!(
    a_decision_is_made_once_and_recorded,
    what_a_worker_holds_or_is_done_is_not_decided_about,
    a_message_sent_again_starts_anew_under_its_key,
    what_a_dead_worker_held_is_decided_about_when_its_lease_has_ended,
    several_are_decided_about_only_if_as_many_as_were_counted,
    messages_are_listed_newest_first_page_by_page,
    answers_are_forgotten_in_time,
    nothing_is_taken_for_a_paused_destination,
);

fn decision(idempotency_key: &str) -> Decision<'_> {
    let digest = Decision::digest_of("/v1", b"{}");
    Decision { actor: "ops", idempotency_key, digest, reason: "seen at the bank", now_ms: 9_000 }
}

/// A message to `billing` for `event_id` that stands in `to`; its id.
async fn settled(store: &Store, event_id: &str, to: SettleTo) -> String {
    admit(store, &event(event_id, event_id), &[message(event_id, "billing")]).await;
    let want = LeaseWant { destination: name("billing"), free_n: 1, key_valid_for_ms: 10_000 };
    let one = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap().remove(0);
    let settlement = Settlement {
        message_id: one.message_id.clone(),
        has_lane: one.has_lane,
        attempt_n: one.attempt_n,
        to,
        result: AttemptResult::Unknown,
        http_status: None,
        error: Some("no answer".to_owned()),
        response: None,
        is_unsent: false,
        settled_at_ms: 5_000,
    };
    assert_eq!(store.message_settle(&[settlement]).await.unwrap(), [true]);
    one.message_id
}

async fn a_decision_is_made_once_and_recorded(database: &Database) {
    let store = database.store().await;
    let id = settled(&store, "evt_1", SettleTo::Held).await;
    let one = Chosen::One(id.clone());
    let changed = Decided::Changed { messages_n: 1 };
    let decided = store.message_decide(&one, Act::Done, &decision("k1")).await.unwrap();
    assert_eq!(decided, Decree::New(changed.clone()));
    let row = store.message_get(&id).await.unwrap().unwrap();
    assert_eq!((row.state.as_str(), row.settled_at_ms, row.attempts_n), ("done", Some(9_000), 1));
    assert_eq!(store.message_decide(&one, Act::Done, &decision("k1")).await.unwrap(), Decree::Again(changed));
    let other = Decision { digest: [7; 32], ..decision("k1") };
    assert_eq!(store.message_decide(&one, Act::Send, &other).await.unwrap(), Decree::KeyReused);
    let audit = store.audit_list(&id).await.unwrap();
    assert_eq!(audit.len(), 1, "{audit:?}");
    let said = (audit[0].actor.as_str(), audit[0].action.as_str(), audit[0].detail.as_str(), audit[0].at_ms);
    assert_eq!(said, ("ops", "message_done", "seen at the bank", 9_000));
    let attempts = store.attempt_list(&id).await.unwrap();
    assert_eq!(attempts[0].result.as_deref(), Some("unknown"), "what happened before stays as it was");
}

async fn what_a_worker_holds_or_is_done_is_not_decided_about(database: &Database) {
    let store = database.store().await;
    let done = settled(&store, "evt_1", SettleTo::Done).await;
    admit(&store, &event("evt_2", "b"), &[message("evt_2", "billing")]).await;
    let want = LeaseWant { destination: name("billing"), free_n: 1, key_valid_for_ms: 10_000 };
    let leased = store.message_lease(&[want], 1_000, 30_000, "node-1").await.unwrap().remove(0).message_id;
    for (id, state) in [(&done, "done"), (&leased, "leased")] {
        for act in [Act::Send, Act::Done, Act::Discard] {
            let decided = store.message_decide(&Chosen::One(id.clone()), act, &decision("k")).await.unwrap();
            assert_eq!(decided, Decree::New(Decided::NotAllowed { state: state.to_owned() }), "{act:?}");
        }
        assert_eq!(store.message_get(id).await.unwrap().unwrap().state, state);
        assert_eq!(store.audit_list(id).await.unwrap(), []);
    }
    let nobody = Chosen::One("nobody".to_owned());
    let decided = store.message_decide(&nobody, Act::Send, &decision("k")).await.unwrap();
    assert_eq!(decided, Decree::New(Decided::NotFound));
}

async fn what_a_dead_worker_held_is_decided_about_when_its_lease_has_ended(database: &Database) {
    let store = database.store().await;
    for (n, act, state) in [(1, Act::Done, "done"), (2, Act::Discard, "discarded")] {
        let event_id = format!("evt_{n}");
        admit(&store, &event(&event_id, &event_id), &[message(&event_id, "billing")]).await;
        let want = LeaseWant { destination: name("billing"), free_n: 1, key_valid_for_ms: 10_000 };
        let one = store.message_lease(&[want], 1_000, 7_999, "node-1").await.unwrap().remove(0);
        let decided = async |now_ms: i64| {
            let decision = Decision { now_ms, ..decision(&event_id) };
            store.message_decide(&Chosen::One(one.message_id.clone()), act, &decision).await.unwrap()
        };
        let state_before = Decided::NotAllowed { state: "leased".to_owned() };
        assert_eq!(decided(8_999).await, Decree::New(state_before), "it may be under way");
        assert_eq!(decided(9_000).await, Decree::New(Decided::Changed { messages_n: 1 }));
        let late = Settlement {
            message_id: one.message_id.clone(),
            has_lane: false,
            attempt_n: one.attempt_n,
            to: SettleTo::Ready { visible_at_ms: 1 },
            result: AttemptResult::Retry,
            http_status: None,
            error: None,
            response: None,
            is_unsent: false,
            settled_at_ms: 9_500,
        };
        assert_eq!(store.message_settle(&[late]).await.unwrap(), [false], "whoever comes back is too late");
        assert_eq!(store.message_get(&one.message_id).await.unwrap().unwrap().state, state);
    }
}

async fn a_message_sent_again_starts_anew_under_its_key(database: &Database) {
    let store = database.store().await;
    for (event_id, to) in [("evt_1", SettleTo::Held), ("evt_2", SettleTo::Dead)] {
        let id = settled(&store, event_id, to).await;
        let decided = store.message_decide(&Chosen::One(id.clone()), Act::Send, &decision(event_id)).await;
        assert_eq!(decided.unwrap(), Decree::New(Decided::Changed { messages_n: 1 }));
        let want = LeaseWant { destination: name("billing"), free_n: 9, key_valid_for_ms: 10_000 };
        assert!(store.message_lease(std::slice::from_ref(&want), 8_999, 1, "n").await.unwrap().is_empty());
        let again = store.message_lease(&[want], 100_000, 30_000, "node-2").await.unwrap().remove(0);
        assert_eq!((again.message_id, again.attempt_n, again.attempts_before_n), (id, 2, 1));
        assert_eq!(again.idempotency_key, format!("key-{event_id}-billing"));
        assert!(!again.is_previous_unknown && !again.is_previous_unsettled, "a person has spoken");
        assert_eq!((again.first_sent_at_ms, again.key_valid_until_ms), (100_000, 110_000));
    }
}

async fn several_are_decided_about_only_if_as_many_as_were_counted(database: &Database) {
    let store = database.store().await;
    for n in 0..3 {
        settled(&store, &format!("evt_{n}"), SettleTo::Dead).await;
    }
    let held = settled(&store, "evt_9", SettleTo::Held).await;
    let filter = Filter {
        state: Some(MessageState::Dead),
        destination: Some(name("billing")),
        provider: Some(name("stripe")),
    };
    assert_eq!(store.message_count(&filter).await.unwrap(), 3);
    let other = Filter { provider: Some(name("adyen")), ..filter.clone() };
    assert_eq!(store.message_count(&other).await.unwrap(), 0);
    let wrong = Chosen::All(filter.clone(), 2);
    let decided = store.message_decide(&wrong, Act::Discard, &decision("k")).await.unwrap();
    assert_eq!(decided, Decree::New(Decided::OtherCount { messages_n: 3 }));
    let right = Chosen::All(filter.clone(), 3);
    let decided = store.message_decide(&right, Act::Discard, &decision("k")).await.unwrap();
    assert_eq!(decided, Decree::New(Decided::Changed { messages_n: 3 }));
    let discarded = Filter { state: Some(MessageState::Discarded), ..Filter::default() };
    assert_eq!(store.message_count(&discarded).await.unwrap(), 3);
    assert_eq!(store.message_get(&held).await.unwrap().unwrap().state, "held");
}

async fn messages_are_listed_newest_first_page_by_page(database: &Database) {
    let store = database.store().await;
    for n in 0..5 {
        admit(&store, &event(&format!("evt_{n}"), "a"), &[message(&format!("evt_{n}"), "billing")]).await;
    }
    let mut seen = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let page = store.message_list(&Filter::default(), before.as_deref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.message_id.clone());
        seen.extend(page.into_iter().map(|row| row.key));
    }
    let mut wanted: Vec<_> = (0..5).map(|n| key(&format!("evt_{n}"))).collect();
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted);
}

async fn answers_are_forgotten_in_time(database: &Database) {
    let store = database.store().await;
    let id = settled(&store, "evt_1", SettleTo::Held).await;
    store.message_decide(&Chosen::One(id), Act::Done, &decision("k1")).await.unwrap();
    assert_eq!(store.idempotency_prune(9_000).await.unwrap(), 0);
    assert_eq!(store.idempotency_prune(9_001).await.unwrap(), 1);
}

async fn nothing_is_taken_for_a_paused_destination(database: &Database) {
    let store = database.store().await;
    let both = [message("evt_1", "billing"), message("evt_1", "mail")];
    admit(&store, &event("evt_1", "a"), &both).await;
    let billing = Chosen::Destination(name("billing"));
    let decide = async |act, key| store.message_decide(&billing, act, &decision(key)).await.unwrap();
    let changed = Decree::New(Decided::Changed { messages_n: 0 });
    assert_eq!(decide(Act::Pause, "k1").await, changed);
    let again = Decree::New(Decided::NotAllowed { state: "paused".to_owned() });
    assert_eq!(decide(Act::Pause, "k2").await, again);
    let paused = store.pause_list().await.unwrap();
    assert_eq!(paused.len(), 1);
    assert_eq!((paused[0].destination.as_str(), paused[0].actor.as_str()), ("billing", "ops"));
    let wants =
        ["billing", "mail"].map(|to| LeaseWant { destination: name(to), free_n: 9, key_valid_for_ms: 1 });
    let taken = async |wants: &[LeaseWant]| {
        let leased = store.message_lease(wants, 1_000, 30_000, "n").await.unwrap();
        leased.into_iter().map(|one| one.destination.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(taken(&wants).await, ["mail"]);
    assert_eq!(taken(&wants).await, Vec::<String>::new());
    assert_eq!(decide(Act::Resume, "k3").await, changed);
    assert_eq!(taken(&wants).await, ["billing"]);
}
