//! Other contents that are kept beside an event, operators' decisions about them, and the firing of a signal for a
//! copy.

use hooklatch_contract::{EventAct, IfMatch};
use hooklatch_core::types::{EventKey, EventState, IncomingEvent, OnConflict, Renderings};
use hooklatch_store::{Decision, Latched, NewMessage, Ordered, Store};

use super::admission::insert;
use super::{admit_at_once, candidates, decide, decision_at, event, key, message, ops};
use crate::database::{Database, on_both};

on_both!(
    other_content_is_kept_whole_beside_the_event_that_stands,
    seventeen_other_contents_are_sixteen_rows_and_a_number,
    other_content_under_a_signed_text_that_is_taken_is_a_conflict_with_its_event,
    concurrent_contents_are_each_kept_once,
    a_conflict_that_is_to_be_dispatched_is_due_at_once_and_once,
    of_many_decisions_about_a_conflict_one_acts,
    an_operator_can_dispatch_a_replay_and_a_dismissed_conflict,
    a_signal_is_a_copy_within_its_window_of_the_last_copy_and_later_another_event,
    a_stream_of_signals_is_an_event_again_after_each_window,
    concurrent_signals_are_one_firing,
    an_earlier_body_is_a_replay_under_a_known_id_too,
    one_signed_text_has_room_for_sixteen_other_contents_under_whatever_ids,
    a_content_kept_beside_an_event_is_a_replay_under_another_id,
    a_replay_under_an_id_leaves_that_id_to_its_event,
    one_content_under_two_concurrent_ids_is_kept_once,
    a_text_that_may_repeat_is_accepted_once_in_ten_minutes_of_its_provider_and_counted,
    of_concurrent_repeats_one_is_accepted_and_the_others_are_duplicates,
    copies_within_a_window_rearm_their_signal_once,
    two_renderings_of_one_event_are_one_event_in_any_order,
);

fn conflict(first: &IncomingEvent) -> Latched {
    Latched::Conflict { first: first.digest, first_event_id: first.key.event_id.clone() }
}

/// Ids of what is kept beside an event, with the states.
async fn kept(store: &Store, key: &EventKey) -> Vec<(EventKey, String)> {
    let found = store.event_conflicts(key).await.unwrap();
    found.kept.into_iter().map(|(row, _)| (row.key, row.state.to_string())).collect()
}

async fn act(store: &Store, key: &EventKey, act: EventAct, request: &str) -> String {
    let ordered = Ordered::Event { key: key.clone(), act };
    decide(&ops(store), &ordered, &decision_at(request, 5_000)).await
}

async fn other_content_is_kept_whole_beside_the_event_that_stands(database: &Database) {
    let store = database.store().await;
    let first = event("evt_1", "a");
    let second = IncomingEvent {
        headers: r#"{"x-second":"yes"}"#.into(),
        received_at_ms: 2_000,
        event_type: "invoice.void".to_owned(),
        ..event("evt_1", "b")
    };
    assert_eq!(insert(&store, &[&first]).await, [Latched::New]);
    for _ in 0..3 {
        assert_eq!(insert(&store, &[&second, &first]).await, [conflict(&first), Latched::Duplicate]);
    }
    let found = store.event_conflicts(&first.key).await.unwrap();
    let [(row, Some(content))] = found.kept.as_slice() else { panic!("{found:?}") };
    assert_eq!((row.state.as_str(), row.received_at_ms), ("conflict", 2_000));
    assert_eq!((row.event_type.as_str(), row.digest.as_slice()), ("invoice.void", second.digest.as_slice()));
    assert_eq!(
        (content.headers.as_str(), content.body.as_slice()),
        (r#"{"x-second":"yes"}"#, b"b".as_slice())
    );
    assert_eq!(found.unkept_n, 0, "its copies are the same content");
    assert!(row.error.as_ref().unwrap().contains("evt_1"));
    assert_eq!(store.event_get(&first.key).await.unwrap().unwrap().state, EventState::Handled);
    let counts = store.open_counts().await.unwrap().events;
    assert_eq!(
        counts.iter().map(|one| (one.state.as_str(), one.events_n)).collect::<Vec<_>>(),
        [("conflict", 1)]
    );
}

async fn seventeen_other_contents_are_sixteen_rows_and_a_number(database: &Database) {
    let store = database.store().await;
    let first = event("evt_1", "a");
    insert(&store, &[&first, &event("evt_2", "a")]).await;
    let others: Vec<IncomingEvent> = (0..18).map(|n| event("evt_1", &format!("other {n}"))).collect();
    // Half of them in one batch.
    insert(&store, &others[..9].iter().collect::<Vec<_>>()).await;
    for other in &others[9..] {
        assert_eq!(insert(&store, &[other]).await, [conflict(&first)]);
    }
    let found = store.event_conflicts(&first.key).await.unwrap();
    assert_eq!((found.kept.len(), found.unkept_n), (16, 2));
    insert(&store, &[&event("evt_2", "b")]).await;
    assert_eq!(kept(&store, &key("evt_2")).await.len(), 1, "each event has its own room");
}

async fn other_content_under_a_signed_text_that_is_taken_is_a_conflict_with_its_event(database: &Database) {
    let store = database.store().await;
    let first = of_text(7, "pay_1", "100.00");
    assert_eq!(insert(&store, &[&first]).await, [Latched::New]);
    assert_eq!(insert(&store, &[&of_text(7, "pay_2", "99999.00")]).await, [conflict(&first)]);
    assert_eq!(
        insert(&store, &[&of_text(7, "pay_3", "100.00")]).await,
        [Latched::Replayed { first_event_id: "pay_1".to_owned() }]
    );
    assert_eq!(store.event_get(&key("pay_2")).await.unwrap(), None, "it is no event of its own");
    assert_eq!(kept(&store, &first.key).await.len(), 1);
}

async fn concurrent_contents_are_each_kept_once(database: &Database) {
    let store = database.store().await;
    let all = (0..40).map(|n| {
        let store = store.clone();
        // Ten contents, four times each, two events in either order.
        tokio::spawn(async move {
            let body = format!("content {}", n % 10);
            let (one, other) = (event("evt_1", &body), event("evt_2", &body));
            let both = if n % 2 == 0 { [&one, &other] } else { [&other, &one] };
            let both = candidates(&store, &both, EventState::Handled).await;
            let mut tx = store.admission_begin().await.unwrap();
            let found = tx.events_insert(&both).await;
            match found {
                Ok(found) => tx.commit().await.map(|()| found),
                Err(error) => {
                    tx.rollback().await.unwrap();
                    Err(error)
                }
            }
        })
    });
    let mut new_n = 0;
    for one in all.collect::<Vec<_>>() {
        let found = one.await.unwrap().unwrap();
        new_n += found.iter().filter(|latched| **latched == Latched::New).count();
    }
    assert_eq!(new_n, 2);
    for id in ["evt_1", "evt_2"] {
        let found = store.event_conflicts(&key(id)).await.unwrap();
        assert_eq!((found.kept.len(), found.unkept_n), (9, 0), "{id}");
        let mut bodies: Vec<Vec<u8>> =
            found.kept.into_iter().map(|(_, content)| content.unwrap().body).collect();
        bodies.push(store.event_content(&key(id)).await.unwrap().unwrap().body);
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 10, "{id}: each content is there once");
    }
}

async fn a_conflict_that_is_to_be_dispatched_is_due_at_once_and_once(database: &Database) {
    let store = database.store().await;
    let of = |body: &str| IncomingEvent { on_conflict: OnConflict::Dispatch, ..event("evt_1", body) };
    insert(&store, &[&of("a")]).await;
    insert(&store, &[&of("b")]).await;
    insert(&store, &[&of("b")]).await;
    let kept = kept(&store, &key("evt_1")).await;
    let [(id, state)] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(state, "retry");
    let mut tx = store.admission_begin().await.unwrap();
    let due = tx.event_take_due(10_000, std::slice::from_ref(&id.provider)).await.unwrap().unwrap();
    assert_eq!((&due.key, &due.body[..], due.attempts_n), (id, b"b".as_slice(), 0));
    tx.rollback().await.unwrap();
}

async fn of_many_decisions_about_a_conflict_one_acts(database: &Database) {
    let store = database.store().await;
    insert(&store, &[&event("evt_1", "a")]).await;
    insert(&store, &[&event("evt_1", "b")]).await;
    let (id, _) = kept(&store, &key("evt_1")).await.remove(0);
    assert_eq!(act(&store, &key("evt_1"), EventAct::Dispatch, "r-0").await, "not_allowed handled");
    let all = (0..8).map(|n| {
        let (store, id) = (store.clone(), id.clone());
        let what = if n % 2 == 0 { EventAct::Dispatch } else { EventAct::Dismiss };
        tokio::spawn(async move { act(&store, &id, what, &format!("r-at-once-{n}")).await })
    });
    let (mut changed_n, mut is_dispatched) = (0, false);
    for (n, one) in all.collect::<Vec<_>>().into_iter().enumerate() {
        if one.await.unwrap().starts_with("changed") {
            changed_n += 1;
            is_dispatched = n % 2 == 0;
        }
    }
    assert_eq!(changed_n, 1);
    let want = if is_dispatched { EventState::Retry } else { EventState::Dismissed };
    assert_eq!(store.event_get(&id).await.unwrap().unwrap().state, want);
    let audited = "SELECT COUNT(*) FROM audit_log WHERE action IN ('event_dispatch', 'event_dismiss')";
    assert_eq!(database.count(audited).await, 1);
}

async fn an_operator_can_dispatch_a_replay_and_a_dismissed_conflict(database: &Database) {
    let store = database.store().await;
    let of_text = |id: &str, body: &str| IncomingEvent { replay_key: Some([7; 32]), ..event(id, body) };
    insert(&store, &[&of_text("evt_1", "a"), &of_text("evt_2", "a")]).await;
    insert(&store, &[&of_text("evt_3", "b")]).await;
    assert_eq!(act(&store, &key("evt_2"), EventAct::Dismiss, "r-1").await, "not_allowed replayed");
    assert_eq!(act(&store, &key("evt_2"), EventAct::Dispatch, "r-2").await, "changed 0");
    let (id, _) = kept(&store, &key("evt_1")).await.remove(0);
    assert_eq!(act(&store, &id, EventAct::Dismiss, "r-3").await, "changed 0");
    assert_eq!(act(&store, &id, EventAct::Rerun, "r-4").await, "not_allowed dismissed");
    assert_eq!(act(&store, &id, EventAct::Dispatch, "r-5").await, "VersionNeeded { state: \"dismissed\" }");
    let ordered = Ordered::Event { key: id.clone(), act: EventAct::Dispatch };
    let seen = Decision { if_match: &IfMatch::Any, ..decision_at("r-6", 5_000) };
    assert_eq!(decide(&ops(&store), &ordered, &seen).await, "changed 0");
    assert_eq!(act(&store, &id, EventAct::Dispatch, "r-7").await, "not_allowed retry");
}

/// A copy of a signal with a window of 10 s, so many milliseconds after the first.
fn signal(body: &str, at_ms: i64) -> IncomingEvent {
    IncomingEvent {
        window_ms: Some(10_000),
        is_window_renewed: true,
        received_at_ms: 1_000_000 + at_ms,
        ..event(&format!("signal:{body}"), body)
    }
}

async fn a_signal_is_a_copy_within_its_window_of_the_last_copy_and_later_another_event(database: &Database) {
    let store = database.store().await;
    let ids = async |bodies: &[(&str, i64)]| {
        let mut events: Vec<IncomingEvent> =
            bodies.iter().map(|(body, at_ms)| signal(body, *at_ms)).collect();
        store.signals_number(&mut events).await.unwrap();
        assert!(events.iter().all(|event| event.window_ms.is_none()));
        events.into_iter().map(|event| event.key.event_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[("a", 0)]).await, ["signal:a#1"]);
    assert_eq!(ids(&[("a", 10_000)]).await, ["signal:a#1"], "to the millisecond");
    assert_eq!(ids(&[("a", 19_000)]).await, ["signal:a#1"], "counted from its last copy");
    assert_eq!(ids(&[("a", 29_001), ("b", 29_001)]).await, ["signal:a#2", "signal:b#1"]);
    assert_eq!(ids(&[("a", 20_000)]).await, ["signal:a#2"], "a clock that was set back a little");
    assert_eq!(ids(&[("a", 39_000), ("a", 39_001)]).await, ["signal:a#2", "signal:a#2"]);
    assert_eq!(ids(&[("a", 49_002)]).await, ["signal:a#3"]);
    assert_eq!(
        ids(&[("a", 5_000)]).await,
        ["signal:a#4"],
        "a clock that had been ahead hides no firing until then"
    );
    assert_eq!(ids(&[("a", 14_000)]).await, ["signal:a#4"]);
    assert_eq!(ids(&[("a", 24_001)]).await, ["signal:a#5"]);
    store.signals_number(&mut [event("evt_1", "a")]).await.unwrap();
    assert_eq!(database.count("SELECT COUNT(*) FROM signal_firings").await, 2);
}

async fn a_stream_of_signals_is_an_event_again_after_each_window(database: &Database) {
    let store = database.store().await;
    for (at_ms, firing_n) in [
        (0, 1),
        (6_000, 1),
        (10_000, 1),
        (10_001, 2),
        (15_000, 2),
        (9_000, 2),
        (20_001, 2),
        (20_002, 3),
        (60_000, 4),
    ] {
        let one = IncomingEvent { is_window_renewed: false, ..signal("a", at_ms) };
        let mut events = [one.clone(), one];
        store.signals_number(&mut events).await.unwrap();
        for event in events {
            assert_eq!(event.key.event_id, format!("signal:a#{firing_n}"), "{at_ms} ms after the first");
        }
    }
}

async fn concurrent_signals_are_one_firing(database: &Database) {
    let store = database.store().await;
    let all = (0..16_i64).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut events = [signal("a", n), signal("b", n)];
            if n % 2 == 0 {
                events.reverse();
            }
            store.signals_number(&mut events).await.unwrap();
            insert(&store, &events.iter().collect::<Vec<_>>()).await
        })
    });
    let mut new_n = 0;
    for one in all.collect::<Vec<_>>() {
        new_n += one.await.unwrap().iter().filter(|latched| **latched == Latched::New).count();
    }
    assert_eq!(new_n, 2);
}

/// A message of an event that is admitted in one statement; none where it is decided in between what follows.
fn in_one_statement(database: &Database) -> Vec<NewMessage> {
    if database.url.starts_with("sqlite") { Vec::new() } else { vec![message("billing")] }
}

/// A copy, at this time, of a text that may be repeated under other ids.
fn repeat(text: u8, id: &str, at_ms: i64) -> IncomingEvent {
    let replay_key = Some([text; 32]);
    IncomingEvent {
        replay_key,
        is_repeatable: true,
        received_at_ms: at_ms,
        ..event(id, &format!("body {text}"))
    }
}

async fn a_text_that_may_repeat_is_accepted_once_in_ten_minutes_of_its_provider_and_counted(
    database: &Database,
) {
    let store = database.store().await;
    for (one, want) in [
        (repeat(1, "d1", 0), Latched::New),
        (repeat(1, "d2", 1_000), Latched::Repeated),
        (repeat(1, "d2", 2_000), Latched::Duplicate),
        (repeat(1, "d1", 3_000), Latched::Duplicate),
        (repeat(1, "d3", 4_000), replayed("d1")),
        (repeat(2, "e1", 5_000), Latched::New),
        (repeat(2, "e2", 6_000), replayed("e1")),
        (repeat(1, "d4", 601_000), replayed("d1")),
        (repeat(1, "d5", 601_001), Latched::Repeated),
        // What was kept as a replay is no event of its own later.
        (repeat(1, "d3", 2_000_000), Latched::Duplicate),
        (IncomingEvent { is_repeatable: false, ..repeat(1, "d6", 2_000_000) }, replayed("d1")),
    ] {
        assert_eq!(insert(&store, &[&one]).await, [want], "{}", one.key.event_id);
    }
    let row = async |id: &str| store.event_get(&key(id)).await.unwrap().unwrap();
    for (id, n, at_ms) in [("d2", 1, 1_000), ("d5", 2, 601_001)] {
        let row = row(id).await;
        assert_eq!((row.state, row.attempts_n, row.due_at_ms), (EventState::Retry, 0, Some(at_ms)), "{id}");
        assert_eq!(row.identity, format!("sender/1, repeat no. {n} of stripe, as d1"));
    }
    assert_eq!(row("d3").await.state, EventState::Replayed);
    // In one statement, where the database can: its messages are those of new events alone.
    let messages = in_one_statement(database);
    let found = admit_at_once(&store, &repeat(1, "d7", 3_000_000), &messages).await;
    assert_eq!((found.latched, found.writes.messages.len()), (vec![Some(Latched::Repeated)], 0));
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_queue").await, 0);
    // No route wants this one.
    let unwanted = repeat(1, "d8", 4_000_000);
    let unwanted = candidates(&store, &[&unwanted], EventState::Ignored).await;
    let mut tx = store.admission_begin().await.unwrap();
    assert_eq!(tx.events_insert(&unwanted).await.unwrap(), [Latched::Repeated]);
    tx.rollback().await.unwrap();
    assert_eq!(store.event_get(&key("d8")).await.unwrap(), None, "a repeat that is rolled back");
    let mut tx = store.admission_begin().await.unwrap();
    assert_eq!(tx.events_insert(&unwanted).await.unwrap(), [Latched::Repeated], "takes no place either");
    tx.commit().await.unwrap();
    assert_eq!((row("d8").await.state, row("d8").await.due_at_ms), (EventState::Ignored, None));
}

async fn of_concurrent_repeats_one_is_accepted_and_the_others_are_duplicates(database: &Database) {
    let store = database.store().await;
    assert_eq!(insert(&store, &[&repeat(1, "d0", 0)]).await, [Latched::New]);
    let all = (0..16_i64).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let (first, second) =
                (repeat(1, &format!("x{}", n % 4), n), repeat(1, &format!("y{}", n % 3), n));
            insert(&store, &[&first, &second]).await
        })
    });
    let mut found = Vec::new();
    for one in all.collect::<Vec<_>>() {
        found.extend(one.await.unwrap());
    }
    assert_eq!(found.iter().filter(|latched| **latched == Latched::Repeated).count(), 1, "{found:?}");
    assert!(!found.contains(&Latched::New), "{found:?}");
    let due = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'";
    assert_eq!(database.count(due).await, 1);
}

async fn copies_within_a_window_rearm_their_signal_once(database: &Database) {
    let store = database.store().await;
    let end_ms = |from_ms: i64| 1_000_000 + from_ms + 10_000 + 1_000;
    for (at_ms, id, not_before_ms, want) in [
        (0, "signal:a#1", None, Latched::New),
        (0, "signal:a#1", None, Latched::Duplicate),
        (400, "signal:a#1+", Some(end_ms(0)), Latched::New),
        (9_000, "signal:a#1+", Some(end_ms(0)), Latched::Duplicate),
        (10_000, "signal:a#1+", Some(end_ms(0)), Latched::Duplicate),
        (10_001, "signal:a#2", None, Latched::New),
        (10_000, "signal:a#2+", Some(end_ms(10_001)), Latched::New),
        (30_000, "signal:a#3", None, Latched::New),
    ] {
        let one = IncomingEvent { is_window_renewed: false, is_window_rearmed: true, ..signal("a", at_ms) };
        let mut events = [one.clone(), one];
        store.signals_number(&mut events).await.unwrap();
        let found = insert(&store, &events.iter().collect::<Vec<_>>()).await;
        assert_eq!(found, [want, Latched::Duplicate], "{at_ms}: two in one request are one");
        for event in events {
            assert_eq!((event.key.event_id.as_str(), event.not_before_ms), (id, not_before_ms), "{at_ms}");
        }
    }
}

async fn two_renderings_of_one_event_are_one_event_in_any_order(database: &Database) {
    let store = database.store().await;
    let by = Renderings { same: vec!["/type".to_owned()], differs: "/version".to_owned() };
    let renderings = Some(std::sync::Arc::new(by));
    let written = |id: &str, body: &str| {
        let (on_conflict, renderings) = (OnConflict::Copy, renderings.clone());
        IncomingEvent { on_conflict, renderings, ..event(id, body) }
    };
    let (first, second) = (r#"{"type":"t","version":"1","a":1}"#, r#"{"type":"t","version":"2","b":1}"#);
    // One after the other, in one batch, and in one statement.
    assert_eq!(insert(&store, &[&written("e1", first)]).await, [Latched::New]);
    for _ in 0..2 {
        assert_eq!(insert(&store, &[&written("e1", second)]).await, [Latched::Duplicate]);
    }
    let both = [&written("e2", second), &written("e2", first), &written("e2", second)];
    assert_eq!(insert(&store, &both).await, [Latched::New, Latched::Duplicate, Latched::Duplicate]);
    let found = admit_at_once(&store, &written("e2", first), &in_one_statement(database)).await;
    assert_eq!((found.latched, found.writes.messages.len()), (vec![Some(Latched::Duplicate)], 0));
    // Another type, or the same version with other content, is no rendering.
    let other_type = written("e1", r#"{"type":"u","version":"2"}"#);
    let other_content = written("e1", r#"{"type":"t","version":"1","a":2}"#);
    let stands = conflict(&written("e1", first));
    assert_eq!(insert(&store, &[&other_type, &other_content]).await, [stands.clone(), stands.clone()]);
    assert_eq!(kept(&store, &key("e1")).await.len(), 2, "and is kept for a person");
    // An event whose body was deleted cannot be compared.
    database.run("DELETE FROM webhook_payloads WHERE event_seq = (SELECT event_seq FROM processed_webhook_events WHERE event_id = 'e1')").await.unwrap();
    assert_eq!(insert(&store, &[&written("e1", second)]).await, [stands]);
    assert_eq!(kept(&store, &key("e1")).await.len(), 3);
}

/// A copy whose signed text is that of its number.
fn of_text(text: u8, id: &str, body: &str) -> IncomingEvent {
    IncomingEvent { replay_key: Some([text; 32]), on_conflict: OnConflict::Dispatch, ..event(id, body) }
}

fn replayed(first_event_id: &str) -> Latched {
    Latched::Replayed { first_event_id: first_event_id.to_owned() }
}

async fn an_earlier_body_is_a_replay_under_a_known_id_too(database: &Database) {
    let store = database.store().await;
    insert(&store, &[&of_text(1, "evt_1", "a"), &of_text(2, "evt_2", "b")]).await;
    for _ in 0..2 {
        assert_eq!(insert(&store, &[&of_text(1, "evt_2", "a")]).await, [replayed("evt_1")]);
    }
    let again = of_text(4, "evt_4", "d");
    assert_eq!(
        insert(&store, &[&again, &of_text(1, "evt_4", "a"), &again]).await,
        [Latched::New, replayed("evt_1"), Latched::Duplicate],
        "in one batch with the event whose id it takes"
    );
    assert_eq!(kept(&store, &key("evt_2")).await, []);
    assert_eq!(kept(&store, &key("evt_4")).await, []);
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 3);
}

async fn one_signed_text_has_room_for_sixteen_other_contents_under_whatever_ids(database: &Database) {
    let store = database.store().await;
    insert(&store, &[&of_text(1, "evt_1", "a")]).await;
    for n in 0..20 {
        let id = format!("evt_known_{n}");
        insert(&store, &[&of_text(100 + n, &id, "b")]).await;
        let met = insert(&store, &[&of_text(1, &id, &format!("forged {n}"))]).await;
        assert_eq!(met, [conflict(&event("evt_1", "a"))]);
    }
    let found = store.event_conflicts(&key("evt_1")).await.unwrap();
    assert_eq!((found.kept.len(), found.unkept_n), (16, 4));
    let rows = "SELECT COUNT(*) FROM processed_webhook_events WHERE event_id LIKE 'conflict:%'";
    assert_eq!(database.count(rows).await, 16);
}

async fn a_content_kept_beside_an_event_is_a_replay_under_another_id(database: &Database) {
    let store = database.store().await;
    let (first, second) = (of_text(1, "evt_1", "a"), of_text(2, "evt_1", "b"));
    insert(&store, &[&first]).await;
    assert_eq!(insert(&store, &[&second]).await, [conflict(&first)]);
    assert_eq!(insert(&store, &[&second]).await, [conflict(&first)], "its own copy is the same conflict");
    let (id, _) = kept(&store, &first.key).await.remove(0);
    for other in ["evt_2", "evt_3"] {
        assert_eq!(insert(&store, &[&of_text(2, other, "b")]).await, [replayed(&id.event_id)]);
    }
    insert(&store, &[&of_text(9, "evt_9", "z")]).await;
    assert_eq!(insert(&store, &[&of_text(2, "evt_9", "b")]).await, [replayed(&id.event_id)]);
    let due = "SELECT COUNT(*) FROM processed_webhook_events WHERE state IN ('handled', 'retry')";
    assert_eq!(
        database.count(due).await,
        3,
        "the first, the second, and the one that it has nothing to do with"
    );
}

async fn a_replay_under_an_id_leaves_that_id_to_its_event(database: &Database) {
    let store = database.store().await;
    let kept_of = |id: &str| {
        let (store, id) = (store.clone(), key(id));
        async move { kept(&store, &id).await.into_iter().map(|(_, state)| state).collect::<Vec<_>>() }
    };
    let keep = |one: IncomingEvent| IncomingEvent { on_conflict: OnConflict::Keep, ..one };
    insert(&store, &[&keep(of_text(1, "evt_1", "a"))]).await;
    assert_eq!(insert(&store, &[&keep(of_text(1, "evt_2", "a"))]).await, [replayed("evt_1")]);
    for _ in 0..2 {
        insert(&store, &[&keep(of_text(2, "evt_2", "b"))]).await;
    }
    assert_eq!(kept_of("evt_2").await, ["retry"], "what was signed anew is dispatched, once");
    insert(&store, &[&keep(of_text(3, "evt_1", "c"))]).await;
    assert_eq!(kept_of("evt_1").await, ["conflict"], "beside one that was dispatched it waits for a person");
}

async fn one_content_under_two_concurrent_ids_is_kept_once(database: &Database) {
    let store = database.store().await;
    for round in 0..10_u8 {
        let known = format!("evt_known_{round}");
        insert(&store, &[&of_text(100 + round, &known, "a")]).await;
        let both = [(known, round), (format!("evt_fresh_{round}"), round)].map(|(id, text)| {
            let store = store.clone();
            tokio::spawn(async move { insert(&store, &[&of_text(text, &id, "b")]).await })
        });
        for one in both {
            one.await.unwrap();
        }
    }
    let acting = "SELECT COUNT(*) FROM processed_webhook_events WHERE state IN ('handled', 'retry')";
    assert_eq!(database.count(acting).await, 20, "ten known ones, and each other content once");
}
