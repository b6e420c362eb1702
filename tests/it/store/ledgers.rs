//! The ledger of one event, who sees its content, and the search by any id.

use hooklatch_contract::{EventTaker, LedgerWhat, SearchHit};
use hooklatch_core::types::{AttemptResult, EventKey, EventState, IncomingEvent, ObjectVersion, Role};
use hooklatch_store::{
    Candidate, CopyCount, LeaseWant, NewMessage, OperatorError, Refusal, Rejection, SettleTo, Settlement,
    Store, Unsearched,
};

use super::reads::{LATER_MS, people, put};
use super::{admit, event, key, message, name, settlement};
use crate::database::{Database, on_both};

on_both!(
    the_ledger_lists_everything_in_order_of_time,
    reading_content_is_audited,
    reading_a_kept_response_in_a_ledger_is_audited,
    what_is_left_of_a_message_that_is_gone_is_not_for_a_scope_of_destinations,
    any_id_leads_to_what_it_is_an_id_of,
    a_search_that_finds_nothing_says_why,
);

/// Sends the only due message of `billing` once, to this end.
async fn attempted(store: &Store, now_ms: i64, to: SettleTo, result: AttemptResult) {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 100_000,
    };
    let one = store.message_lease(&[want], now_ms, 30_000, "node-1").await.unwrap().remove(0);
    let settlement = Settlement {
        http_status: Some(503),
        response: Some("the answer".to_owned()),
        settled_at_ms: now_ms + 100,
        ..settlement(&one, to, result)
    };
    assert_eq!(store.message_settle(&[settlement]).await.unwrap(), [true]);
}

async fn the_ledger_lists_everything_in_order_of_time(database: &Database) {
    let store = database.store().await;
    let signed = |id: &str| IncomingEvent {
        replay_key: Some([7; 32]),
        secret: Some(-1),
        received_at_ms: 1_000,
        ..event(id, "x")
    };
    admit(&store, &signed("evt_1"), &[message("billing")]).await;
    let mut tx = store.admission_begin().await.unwrap();
    let numbers = store.event_numbers(2).await.unwrap();
    let others = [
        IncomingEvent { received_at_ms: 1_500, ..event("evt_1", "other content") },
        IncomingEvent { received_at_ms: 1_600, ..signed("evt_2") },
    ];
    let candidates: Vec<Candidate> = others
        .into_iter()
        .zip(numbers)
        .map(|(event, event_seq)| Candidate {
            event: event.into(),
            event_seq,
            state: EventState::Handled,
            is_raising: false,
        })
        .collect();
    tx.events_insert(&candidates).await.unwrap();
    tx.commit().await.unwrap();
    let copies = CopyCount {
        provider: "stripe".to_owned(),
        event_id: "evt_1".to_owned(),
        copies_n: 3,
        first_at_ms: 1_700,
        last_at_ms: 1_800,
    };
    store
        .event_copies_add(&[copies.clone(), CopyCount { copies_n: 1, last_at_ms: 1_750, ..copies }])
        .await
        .unwrap();
    attempted(&store, 2_000, SettleTo::Ready { visible_at_ms: 3_000 }, AttemptResult::Retry).await;
    attempted(&store, 3_000, SettleTo::Done, AttemptResult::Done).await;
    let ann = people(&store, Role::Reader);
    assert_eq!(ann.event_body(&key("evt_1"), 4_000).await.unwrap().body, b"x");
    let ledger = ann.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    let listed: Vec<(i64, String)> = ledger
        .entries
        .iter()
        .map(|one| (one.at_ms, serde_json::to_value(one).unwrap()["what"].as_str().unwrap().to_owned()))
        .collect();
    let wanted = [
        (1_000, "received"),
        (1_000, "latched"),
        (1_000, "handled"),
        (1_000, "effect"),
        (1_500, "conflict"),
        (1_600, "replayed"),
        (1_800, "duplicates"),
        (2_000, "attempt"),
        (3_000, "attempt"),
    ];
    assert_eq!(listed, wanted.map(|(at_ms, what)| (at_ms, what.to_owned())));
    for entry in &ledger.entries {
        match &entry.what {
            LedgerWhat::Received { secret_fingerprint, body_bytes_n, .. } => {
                assert_eq!(secret_fingerprint.as_deref(), Some("ffffffffffffffff"));
                assert_eq!(*body_bytes_n, Some(1));
            }
            LedgerWhat::Duplicates { copies_n, first_at_ms } => {
                assert_eq!((*copies_n, *first_at_ms), (4, Some(1_700)));
            }
            LedgerWhat::Replayed { event } => assert_eq!(event.event_id, "evt_2"),
            LedgerWhat::Attempt { attempt, effect_name, .. } => {
                assert_eq!(
                    (effect_name.as_str(), attempt.response.as_deref()),
                    ("billing", Some("the answer"))
                );
            }
            _ => {}
        }
    }
    let content = ledger.content.unwrap();
    assert_eq!((content.body.as_str(), content.body_bytes_n, ledger.is_cut), ("x", 1, false));
    let viewed =
        people(&store, Role::Viewer).event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    assert_eq!((viewed.content, viewed.content_missing.as_deref()), (None, Some("role")));
    let text = serde_json::to_string(&viewed.entries).unwrap();
    assert!(!text.contains("the answer"), "captured answers are contents: {text}");
}

async fn reading_content_is_audited(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "x"), &[]).await;
    let reads = async || database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'body_read'").await;
    let viewer = people(&store, Role::Viewer);
    viewer.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    assert!(matches!(
        viewer.event_body(&key("evt_1"), 5_000).await,
        Err(OperatorError::Denied(Role::Reader))
    ));
    assert_eq!(reads().await, 0);
    let reader = people(&store, Role::Reader);
    reader.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    reader.event_body(&key("evt_1"), 5_000).await.unwrap();
    assert_eq!(reads().await, 2);
    let absent = key("absent");
    assert!(matches!(
        reader.event_ledger(&absent, 5_000, |_| EventTaker::Taken).await,
        Err(OperatorError::NotFound)
    ));
    assert!(matches!(reader.event_body(&absent, 5_000).await, Err(OperatorError::NotFound)));
    for odd in ["", "a\0b", &"x".repeat(256)] {
        assert!(
            matches!(
                reader.event_ledger(&key(odd), 5_000, |_| EventTaker::Taken).await,
                Err(OperatorError::NotFound)
            ),
            "{odd:?}"
        );
    }
    super::retention::run(database, "DELETE FROM webhook_payloads").await;
    let pruned = reader.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    assert_eq!((pruned.content, pruned.content_missing.as_deref()), (None, Some("pruned")));
    assert!(matches!(
        reader.event_body(&key("evt_1"), 5_000).await,
        Err(OperatorError::Refused(Refusal::BodyGone))
    ));
    assert!(matches!(reader.event_body(&absent, 5_000).await, Err(OperatorError::NotFound)));
    assert_eq!(reads().await, 2, "nothing was seen");
}

async fn reading_a_kept_response_in_a_ledger_is_audited(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "x"), &[message("billing")]).await;
    attempted(&store, 2_000, SettleTo::Ready { visible_at_ms: 3_000 }, AttemptResult::Retry).await;
    attempted(&store, 3_000, SettleTo::Done, AttemptResult::Done).await;
    let looks = async || database.count("SELECT COUNT(*) FROM audit_log").await;
    people(&store, Role::Viewer).event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    assert_eq!(looks().await, 0, "no answer was shown");
    let reader = people(&store, Role::Reader);
    reader.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
    assert_eq!(looks().await, 2, "the body, and the answers to one message");
    super::retention::run(database, "DELETE FROM webhook_payloads").await;
    let pruned = reader.event_ledger(&key("evt_1"), 6_000, |_| EventTaker::Taken).await.unwrap();
    assert!(serde_json::to_string(&pruned.entries).unwrap().contains("the answer"));
    let audited = "SELECT COUNT(*) FROM audit_log WHERE action = 'answer_read' AND message_id IS NOT NULL
        AND provider = 'stripe' AND event_id = 'evt_1' AND detail = '2 kept answers'";
    assert_eq!(database.count(audited).await, 2, "also without a body");
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'body_read'").await, 1);
}

async fn what_is_left_of_a_message_that_is_gone_is_not_for_a_scope_of_destinations(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "x"), &[message("billing")]).await;
    attempted(&store, 2_000, SettleTo::Ready { visible_at_ms: 3_000 }, AttemptResult::Retry).await;
    attempted(&store, 3_000, SettleTo::Done, AttemptResult::Done).await;
    let everywhere = people(&store, Role::Reader);
    everywhere.event_ledger(&key("evt_1"), 4_000, |_| EventTaker::Taken).await.unwrap();
    let reach = |destination: &str| hooklatch_core::types::Reach::These([name(destination)].into());
    let ledger_text = async |destination: &str| {
        let principal = hooklatch_core::types::Principal {
            destinations: reach(destination),
            ..hooklatch_core::types::Principal::everywhere(name("bob"), Role::Reader)
        };
        let bob = hooklatch_store::OperatorStore::new(store.clone()).open(principal);
        let ledger = bob.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
        serde_json::to_string(&ledger.entries).unwrap()
    };
    assert!(ledger_text("billing").await.contains("the answer"));
    assert!(!ledger_text("crm").await.contains("answer"));
    super::retention::run(database, "DELETE FROM outbox_finished").await;
    for destination in ["billing", "crm"] {
        let ledger_text = ledger_text(destination).await;
        assert!(!ledger_text.contains("answer"), "its place is unknown: {ledger_text}");
    }
    let all = everywhere.event_ledger(&key("evt_1"), 6_000, |_| EventTaker::Taken).await.unwrap();
    assert!(serde_json::to_string(&all.entries).unwrap().contains("the answer"));
}

async fn any_id_leads_to_what_it_is_an_id_of(database: &Database) {
    let store = database.store().await;
    let object = Some(ObjectVersion { object: "in_7".to_owned(), version: 1 });
    let first = IncomingEvent { object, ..event("evt_1", "x") };
    let capture = NewMessage { effect_name: "capture".to_owned(), ..message("billing") };
    admit(&store, &first, &[capture, message("crm")]).await;
    let reader = people(&store, Role::Reader);
    let rows = store.message_list_of_event(&key("evt_1")).await.unwrap();
    let by = async |id: &str| {
        let found = reader.search(id, &Unsearched::default(), LATER_MS).await.unwrap();
        let words = found.found.iter().map(|hit| serde_json::to_value(hit).unwrap()["by"].clone());
        words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(by("evt_1").await, "event_id");
    assert_eq!(by("in_7").await, "object");
    assert_eq!(by(&rows[0].message_id.to_string()).await, "message_id");
    assert_eq!(by(&format!("0{}", rows[0].message_id)).await, "message_id", "however it is written");
    assert_eq!(by(&rows[0].idempotency_key).await, "idempotency_key");
    assert_eq!(by(&rows[0].idempotency_key.to_uppercase()).await, "idempotency_key");
    assert_eq!((by("capture").await, by("crm").await), ("effect_name".to_owned(), "effect_name".to_owned()));
    attempted(&store, 2_000, SettleTo::Done, AttemptResult::Done).await;
    assert_eq!(by(&rows[0].idempotency_key).await, "idempotency_key", "of a finished one, too");
    assert_eq!(by("capture").await, "", "of open ones alone");
    let rejection = Rejection {
        rejection_id: "0190-1".to_owned(),
        provider: "stripe".to_owned(),
        received_at_ms: 1_000,
        step: "signature".to_owned(),
        reason: "mismatch".to_owned(),
        detail: "no".to_owned(),
        headers: r#"{"webhook-id":["msg_50%_x"]}"#.to_owned(),
        body_digest: "ab".repeat(32),
        body_bytes_n: 7,
        client_address: None,
    };
    store.rejections_insert(&[rejection]).await.unwrap();
    for id in ["msg_50%_x", "0190-1", &"ab".repeat(32)] {
        assert_eq!(by(id).await, "rejected", "{id}");
    }
    assert_eq!(by("msg_50__x").await, "", "a pattern is none");
    let viewer =
        people(&store, Role::Viewer).search("msg_50%_x", &Unsearched::default(), LATER_MS).await.unwrap();
    assert_eq!(viewer.found, [], "headers are contents");
    assert!(viewer.notes.iter().any(|note| note.contains("`reader`")), "{:?}", viewer.notes);
}

async fn a_search_that_finds_nothing_says_why(database: &Database) {
    let store = database.store().await;
    let people = people(&store, Role::Reader);
    let notes = async |id: &str| {
        people.search(id, &Unsearched::default(), 7_200_000 + 1_000).await.unwrap().notes.join("\n")
    };
    assert!(notes("evt_1").await.contains("No event that this token may see has been received yet"));
    let adyen = EventKey { provider: name("adyen"), event_id: "twice".to_owned() };
    admit(&store, &IncomingEvent { key: adyen, ..event("twice", "y") }, &[]).await;
    admit(&store, &event("twice", "x"), &[]).await;
    let found = notes("absent").await;
    for said in [
        "Not looked at: bodies and headers of events",
        "No event from before 1970-01-01 is here",
        "the oldest body is from 1970-01-01",
        "No match in the ids, body digests and headers of the newest 2000 rejected requests",
        "effects were compared with those of open messages alone",
    ] {
        assert!(found.contains(said), "no {said}: {found}");
    }
    assert!(notes("nobod").await.contains("shorter than 6 characters"));
    assert!(notes("twice").await.contains("2 providers have an event"), "{}", notes("twice").await);
    for (id, state, word) in [
        ("r", EventState::Replayed, "another id"),
        ("s", EventState::Superseded, "newer version"),
        ("u", EventState::Unreadable, "could be read"),
        ("c", EventState::Conflict, "other content"),
        ("i", EventState::Ignored, "no handler"),
    ] {
        let number = store.event_numbers(1).await.unwrap()[0];
        put(&store, event(id, id), number, state).await;
        assert!(notes(id).await.contains(word), "{id}: {}", notes(id).await);
    }
    let key = "0b1f2c3d-0000-5000-8000-000000000000";
    assert!(notes(key).await.contains("newest 5000 open"), "{}", notes(key).await);
    assert!(matches!(
        people.search("twice", &Unsearched::default(), LATER_MS).await.unwrap().found[..],
        [SearchHit::EventId { .. }, SearchHit::EventId { .. }]
    ));
    for odd in ["a\0b", "%", "'", "\u{202e}", &"é".repeat(200)] {
        assert_eq!(people.search(odd, &Unsearched::default(), LATER_MS).await.unwrap().found, [], "{odd:?}");
    }
}
