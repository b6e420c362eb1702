//! Bulk operations about rows that have changed since they were seen, or that another operation is about.

use hooklatch_contract::{
    EventAct, EventFilter, IfMatch, MessageAct, MessageFilter, OperationChoice, OperationOrder,
    OperationState, OperationSubject,
};
use hooklatch_core::types::{EventState, IncomingEvent, MessageState, Role};
use hooklatch_store::{BulkRules, Decision, OperationAct, OperatorError, Refusal, SettleTo};

use super::operations::{
    begin, dead, in_state, message_states, of_messages, order, seen, try_calls, work_off,
};
use super::retention::run;
use super::{admit, decide, decision_at, event, message, on_message, ops, scoped};
use crate::database::{Database, on_both};

on_both!(
    the_same_act_on_the_same_filter_is_ordered_twice_only_on_purpose,
    an_order_is_about_the_rows_that_were_seen_as_they_stood,
    an_order_is_refused_when_a_call_of_its_events_or_the_event_of_its_messages_went_on,
    an_operation_neither_settles_nor_discards_what_changed_after_the_order,
    an_order_on_rows_of_another_one_to_the_same_effect_is_refused_for_a_while,
    a_refused_order_names_only_rows_in_reach_and_counts_the_others,
);

async fn the_same_act_on_the_same_filter_is_ordered_twice_only_on_purpose(database: &Database) {
    let store = database.store().await;
    dead(&store, 2).await;
    let people = ops(&store);
    let subject = of_messages(MessageAct::Send, in_state(MessageState::Dead));
    let plain = |subject: &OperationSubject, counted_n| OperationOrder {
        again: false,
        ..order(subject.clone(), counted_n)
    };
    let view = begin(&people, &plain(&subject, 2), "k1").await.unwrap();
    let rows = database
        .texts("SELECT CAST(message_id AS TEXT) FROM outbox_queue ORDER BY message_id")
        .await
        .join(", ");
    let same = format!("same as {}: {rows}", view.operation_id);
    assert_eq!(begin(&people, &plain(&subject, 2), "k2").await, Err(same));
    // Without access to the first one, the answer says only that there is one.
    let few = scoped(&store, Role::Operator, Some(&["stripe"]), None);
    assert_eq!(begin(&few, &plain(&subject, 2), "k3").await, Err(format!("same as another: {rows}")));
    // Another act or another filter is another operation.
    let discard = of_messages(MessageAct::Discard, in_state(MessageState::Dead));
    assert!(begin(&people, &plain(&discard, 2), "k4").await.is_ok());
    work_off(&store, &view.operation_id, 200).await;
    let same = format!("same as {}: ", view.operation_id);
    assert_eq!(begin(&people, &plain(&subject, 0), "k5").await, Err(same), "it ended a moment ago");
    let again = begin(&people, &order(subject.clone(), 0), "k6").await.unwrap();
    assert_eq!(again.state, OperationState::Done);
    let nothing_left = seen(&people, &plain(&subject, 0)).await;
    let later =
        people.operation_begin(&nothing_left, BulkRules::default(), &decision_at("k7", 700_000)).await;
    assert_eq!(later.unwrap().value.state, OperationState::Done, "ten minutes later it is another matter");
    let nothing = plain(&of_messages(MessageAct::Done, in_state(MessageState::Held)), 0);
    let (one, two) = tokio::join!(begin(&people, &nothing, "k8"), begin(&people, &nothing, "k9"));
    assert!(one.is_ok() && two.is_ok(), "nothing to do is done at once, however often");
}

async fn an_order_is_about_the_rows_that_were_seen_as_they_stood(database: &Database) {
    let store = database.store().await;
    dead(&store, 2).await;
    let people = ops(&store);
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 2);
    let ids = database.texts("SELECT CAST(message_id AS TEXT) FROM outbox_queue ORDER BY message_id").await;
    let [first, second] = [0, 1].map(|n: usize| ids[n].parse().unwrap());
    // One is settled and another one dies: as many, and not the same ones.
    let before = seen(&people, &send).await;
    decide(&people, &on_message(first, MessageAct::Done), &decision_at("d1", 9_000)).await;
    super::operator::settled(&store, "evt_9", SettleTo::Dead).await;
    let numbers =
        database.texts("SELECT CAST(message_id AS TEXT) FROM outbox_queue ORDER BY message_id").await;
    let third = numbers.last().unwrap();
    assert_eq!(begin(&people, &before, "k1").await, Err(format!("OtherSet: {first}, {third}")));
    // One of them is sent and dies once more: the same ones, and not as they were seen.
    let before = seen(&people, &send).await;
    decide(&people, &on_message(second, MessageAct::Send), &decision_at("d2", 9_000)).await;
    try_calls(&store, 100_000, &[(1, SettleTo::Dead)]).await;
    assert_eq!(begin(&people, &before, "k2").await, Err(format!("OtherSet: {second}")));
    let choice = OperationChoice::Messages(in_state(MessageState::Dead));
    let recent = people.operation_preview(&choice, 9_001).await.unwrap().recent.unwrap();
    let shown =
        (recent.changed.rows.clone(), recent.changed.rows_n, recent.last_at_ms, recent.actors.clone());
    assert_eq!(shown, (vec![second.to_string()], 1, 9_000, vec!["ops".to_owned()]));
    assert_eq!(people.operation_preview(&choice, 609_001).await.unwrap().recent, None);
    // An event that was run again meanwhile.
    let done = EventFilter { state: Some(EventState::Handled), ..EventFilter::default() };
    let rerun = order(OperationSubject::Events { act: EventAct::Rerun, filter: done }, 3);
    let before = seen(&people, &rerun).await;
    run(database, "UPDATE processed_webhook_events SET generation = generation + 1 WHERE event_id = 'evt_9'")
        .await;
    assert_eq!(begin(&people, &before, "k3").await, Err("OtherSet: stripe/evt_9".to_owned()));
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 0);
    assert!(begin(&people, &seen(&people, &rerun).await, "k4").await.is_ok());
}

async fn an_order_is_refused_when_a_call_of_its_events_or_the_event_of_its_messages_went_on(
    database: &Database,
) {
    let store = database.store().await;
    let people = ops(&store);
    let held = super::operator::settled(&store, "evt_held", SettleTo::Held).await;
    let done = EventFilter { state: Some(EventState::Handled), ..EventFilter::default() };
    let rerun = order(OperationSubject::Events { act: EventAct::Rerun, filter: done }, 1);
    // An operator sends the call, and it is held again; then another settles it: what was paid would be paid once more.
    for (key, act) in [("d1", MessageAct::Send), ("d2", MessageAct::Done)] {
        let before = seen(&people, &rerun).await;
        let decision = Decision { if_match: &IfMatch::Any, ..decision_at(key, 9_000) };
        decide(&people, &on_message(held, act), &decision).await;
        if act == MessageAct::Send {
            try_calls(&store, 100_000, &[(1, SettleTo::Held)]).await;
        }
        let begun = begin(&people, &before, &format!("begin-{key}")).await;
        assert_eq!(begun, Err("OtherSet: stripe/evt_held".to_owned()), "{act:?}");
    }
    // A call that goes out by itself, and is tried at any moment, is no reason to refuse; that it ended is one.
    admit(&store, &event("evt_ready", "b"), &[message("billing")]).await;
    let rerun = OperationOrder { counted_n: 2, ..rerun };
    let before = seen(&people, &rerun).await;
    try_calls(&store, 100_000, &[(1, SettleTo::Ready { visible_at_ms: 100_000 })]).await;
    assert_eq!(seen(&people, &rerun).await.set, before.set);
    try_calls(&store, 200_000, &[(1, SettleTo::Done)]).await;
    assert_eq!(begin(&people, &before, "k3").await, Err("OtherSet: stripe/evt_ready".to_owned()));
    // A held call whose event an operator runs again: that run may do the same under another key.
    super::operator::settled(&store, "evt_again", SettleTo::Held).await;
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Held)), 1);
    let before = seen(&people, &send).await;
    decide(&people, &super::on_event("evt_again", EventAct::Rerun), &decision_at("d3", 9_000)).await;
    let refused = begin(&people, &before, "k4").await.unwrap_err();
    assert!(refused.starts_with("OtherSet: ") && refused.len() > 12, "{refused}");
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 0);
}

async fn an_operation_neither_settles_nor_discards_what_changed_after_the_order(database: &Database) {
    let store = database.store().await;
    let people = ops(&store);
    let is_over = async |id: &str| {
        work_off(&store, id, 200).await;
        let view = people.operation(id).await.unwrap();
        (view.changed_n, view.skipped.iter().map(|row| row.outcome.clone()).collect::<Vec<_>>())
    };
    let moved = || vec!["moved".to_owned()];
    // Held, because the order says that it took effect; then it is sent once more, and refused.
    let one = super::operator::settled(&store, "evt_0", SettleTo::Held).await;
    super::operator::settled(&store, "evt_1", SettleTo::Held).await;
    let done = order(of_messages(MessageAct::Done, in_state(MessageState::Held)), 2);
    let done = begin(&people, &done, "k1").await.unwrap().operation_id;
    decide(&people, &on_message(one, MessageAct::Send), &decision_at("d1", 9_500)).await;
    try_calls(&store, 100_000, &[(1, SettleTo::Dead)]).await;
    assert_eq!(is_over(&done).await, (1, moved()));
    assert_eq!(message_states(database).await, ["dead 1", "done 1"]);
    // A message that is to be discarded because it is dead is not discarded while an order to send it waits.
    let discard = order(of_messages(MessageAct::Discard, in_state(MessageState::Dead)), 1);
    let discard = begin(&people, &discard, "k2").await.unwrap().operation_id;
    decide(&people, &on_message(one, MessageAct::Send), &decision_at("d2", 9_500)).await;
    assert_eq!(is_over(&discard).await, (0, moved()));
    // Its event is run again after the order: sending it may do the same twice.
    try_calls(&store, 200_000, &[(1, SettleTo::Dead)]).await;
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 1);
    let later = OperationOrder { set: seen(&people, &send).await.set, ..send };
    let send = people.operation_begin(&later, BulkRules::default(), &decision_at("k3", 300_000)).await;
    let send = send.unwrap().value.operation_id;
    decide(&people, &super::on_event("evt_0", EventAct::Rerun), &decision_at("d3", 300_500)).await;
    assert_eq!(is_over(&send).await, (0, moved()));
    // No call was open when the events were to be erased: a run that is ordered meanwhile is not given up.
    let of_other = EventFilter {
        state: Some(EventState::Handled),
        object: Some("cus_1".to_owned()),
        ..EventFilter::default()
    };
    for id in ["evt_8", "evt_9"] {
        let object = hooklatch_core::types::ObjectVersion { object: "cus_1".to_owned(), version: 1 };
        admit(&store, &IncomingEvent { object: Some(object), ..event(id, id) }, &[]).await;
    }
    let erase = OperationSubject::Events { act: EventAct::EraseAndDiscard, filter: of_other };
    let erase = begin(&people, &order(erase, 2), "k4").await.unwrap().operation_id;
    decide(&people, &super::on_event("evt_8", EventAct::Rerun), &decision_at("d4", 9_500)).await;
    assert_eq!(is_over(&erase).await, (1, moved()));
    let states = "SELECT event_id || ' ' || state FROM processed_webhook_events WHERE object = 'cus_1' ORDER BY event_id";
    assert_eq!(database.texts(states).await, ["evt_8 retry", "evt_9 handled"]);
}

async fn an_order_on_rows_of_another_one_to_the_same_effect_is_refused_for_a_while(database: &Database) {
    let store = database.store().await;
    dead(&store, 3).await;
    let people = ops(&store);
    let plain = |subject: &OperationSubject, counted_n| OperationOrder {
        again: false,
        ..order(subject.clone(), counted_n)
    };
    let to_billing =
        MessageFilter { destination: Some("billing".to_owned()), ..in_state(MessageState::Dead) };
    let (send, some) = (in_state(MessageState::Dead), of_messages(MessageAct::Send, to_billing.clone()));
    let done = EventFilter { state: Some(EventState::Handled), ..EventFilter::default() };
    let rerun = OperationSubject::Events { act: EventAct::Rerun, filter: done };
    let first = begin(&people, &plain(&of_messages(MessageAct::Send, send), 3), "k1").await.unwrap();
    let rows = database
        .texts("SELECT CAST(message_id AS TEXT) FROM outbox_queue ORDER BY message_id")
        .await
        .join(", ");
    let same = Err(format!("same as {}: {rows}", first.operation_id));
    let same_events =
        Err(format!("same as {}: stripe/evt_0, stripe/evt_1, stripe/evt_2", first.operation_id));
    // Another filter that finds the same messages, and the events of these.
    assert_eq!(begin(&people, &plain(&some, 3), "k2").await, same);
    assert_eq!(begin(&people, &plain(&rerun, 3), "k3").await, same_events);
    let acts =
        people.operation_preview(&OperationChoice::Messages(to_billing.clone()), 9_000).await.unwrap().acts;
    let named: Vec<_> = acts.iter().map(|act| act.same_operation_id.is_some()).collect();
    assert_eq!(named, [true, false, false], "to give them up is another matter");
    // It is over: what it acted on blocks another one for ten minutes, unless the order allows it.
    work_off(&store, &first.operation_id, 200).await;
    assert_eq!(begin(&people, &plain(&rerun, 3), "k4").await, same_events);
    let late = seen(&people, &plain(&rerun, 3)).await;
    let late = people.operation_begin(&late, BulkRules::default(), &decision_at("k5", 700_000)).await;
    let late = late.unwrap().value;
    let ready = OperationChoice::Messages(in_state(MessageState::Ready));
    let acts = people.operation_preview(&ready, 700_000).await.unwrap().acts;
    assert!(acts.iter().all(|act| act.same_operation_id.is_none()));
    // Of one that is cancelled, what it did not act on is free.
    let cancel = decision_at("c", 700_000);
    let cancelled = people.operation_decide(&late.operation_id, OperationAct::Cancel, &cancel).await;
    assert_eq!(cancelled.unwrap().value.changed_n, 0);
    let again = seen(&people, &plain(&rerun, 3)).await;
    let begun = people.operation_begin(&again, BulkRules::default(), &decision_at("k6", 700_001)).await;
    assert!(begun.is_ok());
}

async fn a_refused_order_names_only_rows_in_reach_and_counts_the_others(database: &Database) {
    let store = database.store().await;
    let ids = admit(&store, &event("evt_1", "a"), &[message("billing"), message("mail")]).await;
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    run(database, "UPDATE outbox_queue SET state = 'dead'").await;
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 2);
    // A preview of everything; then both messages are tried, and it is ordered by others.
    let before = seen(&ops(&store), &send).await;
    run(database, "UPDATE outbox_queue SET attempts_n = attempts_n + 1").await;
    for (providers, destinations, wanted) in [
        (None, Some(&["billing"][..]), &ids[..1]),
        (None, Some(&["mail"][..]), &ids[1..]),
        (Some(&["adyen"][..]), None, &[]),
        (Some(&["stripe"][..]), None, &ids[..]),
        (None, None, &ids[..]),
    ] {
        let who = scoped(&store, Role::Operator, providers, destinations);
        let refused = who.operation_begin(&before, BulkRules::default(), &decision_at("k", 9_000)).await;
        let Err(OperatorError::Refused(Refusal::OtherCount { changed, .. } | Refusal::OtherSet { changed })) =
            refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((&changed.rows[..], changed.rows_n), (wanted, 2), "{providers:?} {destinations:?}");
    }
}
