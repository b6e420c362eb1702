//! Bulk operations in the store: their sets, their batches, their ends.

use hooklatch_contract::{
    EventAct, EventFilter, MessageAct, MessageFilter, OperationChoice, OperationOrder, OperationState,
    OperationSubject, OperationView, Risk,
};
use hooklatch_core::types::{
    AttemptResult, DeliveryFilter, EventState, IncomingEvent, MessageState, Principal, Reach, Role,
};
use hooklatch_store::{
    BulkRules, LeaseWant, OPERATION_ROWS_N_MAX, OperationAct, OperatorError, OperatorQueries, OperatorStore,
    SettleTo, Settlement, Store,
};

use super::retention::run;
use super::{admit, decide, decision_at, event, key, message, name, on_message, ops, outcome_text, scoped};
use crate::database::{Database, on_both};

on_both!(
    the_set_of_an_operation_is_fixed_and_counted_with_its_order,
    each_row_is_acted_on_once_and_recorded_one_by_one,
    rows_that_have_moved_on_are_passed_over_with_the_reason,
    a_cancelled_operation_stops,
    an_operation_reaches_what_its_orderer_reaches,
    events_are_erased_and_rerun_by_a_filter,
    an_event_refused_halfway_is_left_unchanged,
    of_two_nodes_one_acts_on_a_row,
    a_row_that_the_database_refuses_is_passed_by,
    more_than_an_operation_may_act_on_is_refused,
    old_operations_and_their_rows_are_pruned,
    what_makes_calls_goes_in_steps_that_wait_for_their_calls,
    an_operation_stops_when_its_calls_fail_and_continues_on_an_operators_order,
    a_second_operator_approves_an_order_in_time,
    a_preview_lists_what_an_operation_would_act_on,
);

pub(super) fn of_messages(act: MessageAct, filter: MessageFilter) -> OperationSubject {
    OperationSubject::Messages { act, filter }
}

pub(super) fn in_state(state: MessageState) -> MessageFilter {
    MessageFilter { state: Some(state), ..MessageFilter::default() }
}

pub(super) fn order(subject: OperationSubject, counted_n: u64) -> OperationOrder {
    let reason = "they are back".to_owned();
    OperationOrder { subject, counted_n, set: String::new(), reason, steps: None, again: true }
}

/// The order, with the rows that are found now.
pub(super) async fn seen(people: &OperatorQueries, order: &OperationOrder) -> OperationOrder {
    let choice = match order.subject.clone() {
        OperationSubject::Messages { filter, .. } => OperationChoice::Messages(filter),
        OperationSubject::Events { filter, .. } => OperationChoice::Events(filter),
    };
    let set = people.operation_preview(&choice, 9_000).await.unwrap().set;
    OperationOrder { set, ..order.clone() }
}

/// Begins it on the rows that are named, or on those that are found now.
pub(super) async fn begin(
    people: &OperatorQueries,
    order: &OperationOrder,
    key: &str,
) -> Result<OperationView, String> {
    let order = if order.set.is_empty() { seen(people, order).await } else { order.clone() };
    let begun = people.operation_begin(&order, BulkRules::default(), &decision_at(key, 9_000)).await;
    match begun {
        Ok(begun) => Ok(begun.value),
        refused => Err(outcome_text(refused, |_| String::new())),
    }
}

/// Batches of `rows_n` until the operation is over; how many it took.
pub(super) async fn work_off(store: &Store, id: &str, rows_n: u32) -> u32 {
    for batches_n in 1..100 {
        let step = store.operation_step(id, rows_n, false, 10_000).await.unwrap();
        if step.is_none_or(|step| step.is_over) {
            return batches_n;
        }
    }
    panic!("it has no end");
}

/// Events `evt_0`, …, each with a message to `billing`, all of which are dead.
pub(super) async fn dead(store: &Store, n: u32) {
    for n in 0..n {
        let id = format!("evt_{n}");
        super::operator::settled(store, &id, SettleTo::Dead).await;
    }
}

pub(super) async fn message_states(database: &Database) -> Vec<String> {
    let sql =
        "SELECT state || ' ' || CAST(COUNT(*) AS TEXT) FROM outbox_messages GROUP BY state ORDER BY state";
    database.texts(sql).await
}

async fn the_set_of_an_operation_is_fixed_and_counted_with_its_order(database: &Database) {
    let store = database.store().await;
    dead(&store, 3).await;
    super::operator::settled(&store, "evt_held", SettleTo::Held).await;
    let people = ops(&store);
    let discard = of_messages(MessageAct::Discard, in_state(MessageState::Dead));
    assert_eq!(begin(&people, &order(discard.clone(), 2), "k").await, Err("other_count 3".to_owned()));
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 0, "it left no trace");
    let view = begin(&people, &order(discard.clone(), 3), "k").await.unwrap();
    let said = (view.state, view.total_n, view.changed_n, view.actor.as_str(), view.reason.as_str());
    assert_eq!(said, (OperationState::Running, 3, 0, "ops", "they are back"));
    assert_eq!((&view.subject, view.created_at_ms), (&discard, 9_000));
    // The same request begins it once, whatever became of it meanwhile.
    let again = people
        .operation_begin(&order(discard.clone(), 3), BulkRules::default(), &decision_at("k", 9_500))
        .await
        .unwrap();
    assert!(again.is_again && again.value == view);
    // What dies later is none of it.
    super::operator::settled(&store, "evt_later", SettleTo::Dead).await;
    assert_eq!(work_off(&store, &view.operation_id, 2).await, 2);
    assert_eq!(message_states(database).await, ["dead 1", "discarded 3", "held 1"]);
    let view = people.operation(&view.operation_id).await.unwrap();
    assert_eq!((view.state, view.changed_n, view.finished_at_ms), (OperationState::Done, 3, Some(10_000)));
    // Nothing to do is done at once; what can never be is refused.
    let nothing = of_messages(MessageAct::Send, in_state(MessageState::Held));
    let other = MessageFilter { provider: Some("adyen".to_owned()), ..in_state(MessageState::Held) };
    let empty = begin(&people, &order(of_messages(MessageAct::Send, other), 0), "k2").await.unwrap();
    assert_eq!((empty.state, empty.finished_at_ms), (OperationState::Done, Some(9_000)));
    assert_eq!(begin(&people, &order(nothing, 0), "k3").await, Err("other_count 1".to_owned()));
    for state in [MessageState::Done, MessageState::Ready] {
        let never = begin(&people, &order(of_messages(MessageAct::Send, in_state(state)), 0), "k4").await;
        assert_eq!(never, Err("NeverAllowed".to_owned()), "{state}");
    }
    let page = people.operations(None, 1).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let rest = people.operations(page.next.as_deref(), 9).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    assert_ne!(page.items[0].operation_id, rest.items[0].operation_id);
}

async fn each_row_is_acted_on_once_and_recorded_one_by_one(database: &Database) {
    let store = database.store().await;
    dead(&store, 5).await;
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 5);
    let view = begin(&ops(&store), &send, "k").await.unwrap();
    let step = store.operation_step(&view.operation_id, 2, false, 10_000).await.unwrap().unwrap();
    assert_eq!((step.changed_n, step.skipped_n, step.is_over), (2, 0, false));
    assert_eq!(message_states(database).await, ["dead 3", "ready 2"]);
    // One of those that were sent fails again: it is not sent again by the same operation.
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 1,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let one = store.message_lease(&[want], 100_000, 30_000, "node-1").await.unwrap().remove(0);
    store.message_settle(&[super::operator::settlement(&one, SettleTo::Dead)]).await.unwrap();
    work_off(&store, &view.operation_id, 200).await;
    assert_eq!(message_states(database).await, ["dead 1", "ready 4"]);
    let sql = "SELECT CAST(message_id AS TEXT) FROM audit_log WHERE action = 'message_send'
               AND operation_id = (SELECT operation_id FROM operations) ORDER BY message_id";
    let records = database.texts(sql).await;
    assert_eq!(records.len(), 5, "{records:?}");
    assert_eq!(records.iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
    let begun = "SELECT detail FROM audit_log WHERE action = 'operation_begin' AND operation_id = $1";
    let detail = database.text(begun, &view.operation_id).await;
    assert_eq!(detail.as_deref(), Some("messages send 5: they are back"));
    assert_eq!(store.operation_step(&view.operation_id, 9, false, 11_000).await.unwrap(), None, "it is over");
}

async fn rows_that_have_moved_on_are_passed_over_with_the_reason(database: &Database) {
    let store = database.store().await;
    dead(&store, 3).await;
    let people = ops(&store);
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 3);
    let view = begin(&people, &send, "k").await.unwrap();
    let first = store.message_list_of_event(&key("evt_0")).await.unwrap().remove(0).message_id;
    assert_eq!(
        decide(&people, &on_message(first, MessageAct::Done), &decision_at("d", 9_500)).await,
        "changed 1"
    );
    let second = store.message_list_of_event(&key("evt_1")).await.unwrap().remove(0).message_id;
    run(database, "DELETE FROM outbox_queue WHERE message_id = (SELECT MIN(message_id) FROM outbox_queue)")
        .await;
    work_off(&store, &view.operation_id, 200).await;
    let view = people.operation(&view.operation_id).await.unwrap();
    assert_eq!((view.state, view.changed_n, view.skipped_n), (OperationState::Done, 1, 2));
    let skipped: Vec<_> = view
        .skipped
        .iter()
        .map(|row| (row.subject.as_str(), row.outcome.as_str(), row.state.as_deref()))
        .collect();
    let (first, second) = (first.to_string(), second.to_string());
    assert_eq!(
        skipped,
        [(second.as_str(), "not_found", None), (first.as_str(), "not_allowed", Some("done"))]
    );
}

async fn a_cancelled_operation_stops(database: &Database) {
    let store = database.store().await;
    dead(&store, 5).await;
    let people = ops(&store);
    let discard = order(of_messages(MessageAct::Discard, in_state(MessageState::Dead)), 5);
    let view = begin(&people, &discard, "k").await.unwrap();
    store.operation_step(&view.operation_id, 2, false, 10_000).await.unwrap();
    assert_eq!(store.operations_running(10_000).await.unwrap(), std::slice::from_ref(&view.operation_id));
    let cancelled = people
        .operation_decide(&view.operation_id, OperationAct::Cancel, &decision_at("c", 11_000))
        .await
        .unwrap()
        .value;
    let said =
        (cancelled.state, cancelled.changed_n, cancelled.cancelled_by.as_deref(), cancelled.finished_at_ms);
    assert_eq!(said, (OperationState::Cancelled, 2, Some("ops"), Some(11_000)));
    assert_eq!(store.operation_step(&view.operation_id, 2, false, 12_000).await.unwrap(), None);
    assert!(store.operations_running(10_000).await.unwrap().is_empty());
    assert_eq!(message_states(database).await, ["dead 3", "discarded 2"]);
    let again =
        people.operation_decide(&view.operation_id, OperationAct::Cancel, &decision_at("c2", 12_000)).await;
    assert_eq!(outcome_text(again, |_| String::new()), "not_allowed cancelled");
    let absent = people
        .operation_decide(&uuid::Uuid::nil().to_string(), OperationAct::Cancel, &decision_at("c3", 12_000))
        .await;
    assert_eq!(outcome_text(absent, |_| String::new()), "not_found");
    let sql = "SELECT detail FROM audit_log WHERE action = 'operation_cancel' AND operation_id = $1";
    assert_eq!(
        database.text(sql, &view.operation_id).await.as_deref(),
        Some("after 2 of 5: seen at the bank")
    );
}

async fn an_operation_reaches_what_its_orderer_reaches(database: &Database) {
    let store = database.store().await;
    let adyen = |id: &str| IncomingEvent {
        key: hooklatch_core::types::EventKey { provider: name("adyen"), event_id: id.to_owned() },
        ..event(id, id)
    };
    for n in 0..2 {
        admit(&store, &event(&format!("evt_{n}"), "a"), &[message("billing"), message("mail")]).await;
        admit(&store, &adyen(&format!("a_{n}")), &[message("billing")]).await;
    }
    let discard =
        |counted_n| order(of_messages(MessageAct::Discard, in_state(MessageState::Ready)), counted_n);
    let few = scoped(&store, Role::Operator, Some(&["stripe"]), Some(&["billing"]));
    assert_eq!(begin(&few, &discard(6), "k").await, Err("other_count 2".to_owned()));
    let view = begin(&few, &discard(2), "k").await.unwrap();
    let step = store.operation_step(&view.operation_id, 200, false, 10_000).await.unwrap().unwrap();
    assert_eq!((step.changed_n, step.is_over), (2, true));
    assert_eq!(message_states(database).await, ["discarded 2", "ready 4"]);
    // Who reaches less does not see it, and a viewer orders nothing.
    let other = scoped(&store, Role::Operator, Some(&["adyen"]), None);
    assert!(matches!(other.operation(&view.operation_id).await, Err(OperatorError::NotFound)));
    assert_eq!(other.operations(None, 9).await.unwrap().items.len(), 0);
    let cancelled =
        other.operation_decide(&view.operation_id, OperationAct::Cancel, &decision_at("c", 1)).await;
    assert_eq!(outcome_text(cancelled, |_| String::new()), "not_found");
    let viewer = scoped(&store, Role::Viewer, None, None);
    assert_eq!(begin(&viewer, &discard(4), "k").await, Err("needs operator".to_owned()));
    assert_eq!(viewer.operations(None, 9).await.unwrap().items.len(), 1);
    let out_of_scope = MessageFilter { provider: Some("adyen".to_owned()), ..in_state(MessageState::Ready) };
    let found = begin(&few, &order(of_messages(MessageAct::Discard, out_of_scope), 2), "k2").await;
    assert_eq!(found, Err("other_count 0".to_owned()));
}

async fn events_are_erased_and_rerun_by_a_filter(database: &Database) {
    let store = database.store().await;
    for n in 0..4 {
        let object = hooklatch_core::types::ObjectVersion { object: format!("cus_{}", n % 2), version: n };
        let received_at_ms = 1_000 + n * 100;
        let one = IncomingEvent { object: Some(object), received_at_ms, ..event(&format!("evt_{n}"), "a") };
        admit(&store, &one, &[]).await;
    }
    let people = ops(&store);
    let done = EventFilter { state: Some(EventState::Handled), ..EventFilter::default() };
    let of = |act, filter: &EventFilter| OperationSubject::Events { act, filter: filter.clone() };
    let hers = EventFilter { object: Some("cus_1".to_owned()), ..done.clone() };
    let view = begin(&people, &order(of(EventAct::Erase, &hers), 2), "k1").await.unwrap();
    work_off(&store, &view.operation_id, 1).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads").await, 2);
    // An erased event cannot be run again, and the refusal says so.
    let late = EventFilter { received_from_ms: Some(1_100), received_to_ms: Some(1_300), ..done };
    let view = begin(&people, &order(of(EventAct::Rerun, &late), 2), "k2").await.unwrap();
    work_off(&store, &view.operation_id, 200).await;
    let view = people.operation(&view.operation_id).await.unwrap();
    assert_eq!((view.changed_n, view.skipped_n), (1, 1));
    assert_eq!(
        (view.skipped[0].subject.as_str(), view.skipped[0].outcome.as_str()),
        ("stripe/evt_1", "body_gone")
    );
    let states = "SELECT event_id || ' ' || state FROM processed_webhook_events ORDER BY event_id";
    assert_eq!(
        database.texts(states).await,
        ["evt_0 handled", "evt_1 handled", "evt_2 retry", "evt_3 handled"]
    );
    let failed = EventFilter { state: Some(EventState::Retry), ..EventFilter::default() };
    assert_eq!(
        begin(&people, &order(of(EventAct::Rerun, &failed), 1), "k3").await,
        Err("NeverAllowed".to_owned())
    );
}

async fn an_event_refused_halfway_is_left_unchanged(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_0", "a"), &[message("billing"), message("mail")]).await;
    admit(&store, &event("evt_1", "a"), &[message("billing")]).await;
    let done = EventFilter { state: Some(EventState::Handled), ..EventFilter::default() };
    let subject = OperationSubject::Events { act: EventAct::EraseAndDiscard, filter: done };
    // The message to `mail` is out of reach: that to `billing` stays where it is, too.
    let few = scoped(&store, Role::Operator, None, Some(&["billing"]));
    let view = begin(&few, &order(subject, 2), "k").await.unwrap();
    work_off(&store, &view.operation_id, 200).await;
    let view = few.operation(&view.operation_id).await.unwrap();
    assert_eq!((view.changed_n, view.skipped_n), (1, 1));
    let skipped = (view.skipped[0].subject.as_str(), view.skipped[0].outcome.as_str());
    assert_eq!(skipped, ("stripe/evt_0", "still_open"));
    assert_eq!(message_states(database).await, ["discarded 1", "ready 2"]);
    let sql = "SELECT action || ' ' || event_id FROM audit_log WHERE operation_id IS NOT NULL
               AND action <> 'operation_begin' ORDER BY action";
    assert_eq!(
        database.texts(sql).await,
        ["event_erase evt_1", "message_discard evt_1"],
        "of the other no record"
    );
}

async fn of_two_nodes_one_acts_on_a_row(database: &Database) {
    let store = database.store().await;
    for n in 0..60 {
        admit(&store, &event(&format!("evt_{n}"), "a"), &[message("billing")]).await;
    }
    let discard = order(of_messages(MessageAct::Discard, in_state(MessageState::Ready)), 60);
    let id = begin(&ops(&store), &discard, "k").await.unwrap().operation_id;
    // On SQLite there is one process; two loops of it are as close as it gets.
    let nodes = (0..2).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move {
            let mut changed_n = 0;
            loop {
                match store.operation_step(&id, 3, false, 10_000).await.unwrap() {
                    Some(step) => changed_n += step.changed_n,
                    None if store.operations_running(10_000).await.unwrap().is_empty() => return changed_n,
                    None => tokio::task::yield_now().await,
                }
            }
        })
    });
    let mut changed_n = 0;
    for node in nodes.collect::<Vec<_>>() {
        changed_n += node.await.unwrap();
    }
    assert_eq!(changed_n, 60);
    let records =
        "SELECT COUNT(DISTINCT message_id) * 1000 + COUNT(*) FROM audit_log WHERE action = 'message_discard'";
    assert_eq!(database.count(records).await, 60_060);
    let view = ops(&store).operation(&id).await.unwrap();
    assert_eq!((view.state, view.changed_n, view.skipped_n), (OperationState::Done, 60, 0));
}

async fn a_row_that_the_database_refuses_is_passed_by(database: &Database) {
    let store = database.store().await;
    dead(&store, 2).await;
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 2);
    let id = begin(&ops(&store), &send, "k").await.unwrap().operation_id;
    let step = store.operation_step(&id, 200, true, 10_000).await.unwrap().unwrap();
    assert_eq!((step.changed_n, step.skipped_n, step.is_over), (0, 1, false));
    work_off(&store, &id, 200).await;
    assert_eq!(message_states(database).await, ["dead 1", "ready 1"]);
    let view = ops(&store).operation(&id).await.unwrap();
    assert_eq!((view.changed_n, view.skipped[0].outcome.as_str()), (1, "failed"));
}

async fn more_than_an_operation_may_act_on_is_refused(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_0", "a"), &[]).await;
    // Messages of its own, of one event that is there: more than has places for them.
    let first = database.count("SELECT event_seq * 1024 FROM processed_webhook_events").await;
    let n = OPERATION_ROWS_N_MAX + 1;
    let rows = format!(
        "WITH RECURSIVE places (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM places WHERE n < {n})
         INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, attempts_n, attempts_before_n, generation,
                                   shard, state, destination)
         SELECT CAST({first} AS BIGINT) * 1000 + n, 1, 1, 0, 0, 0, 0, 'dead', 'billing' FROM places"
    );
    run(database, &rows).await;
    let range = format!(
        "WITH RECURSIVE events (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM events WHERE n < {n} / 1024 + 1)
         INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard, event_type,
                                               digest, identity, state)
         SELECT 'stripe', 'more_' || n, CAST({first} AS BIGINT) * 1000 / 1024 + n, 1, 0, 0, 'x', digest, 'sender/1', 'handled'
         FROM events, processed_webhook_events e WHERE e.event_id = 'evt_0'"
    );
    run(database, &range).await;
    let send = of_messages(MessageAct::Send, in_state(MessageState::Dead));
    let refused = begin(&ops(&store), &order(send, n), "k").await;
    assert_eq!(refused, Err(format!("TooMany {{ rows_n_max: {OPERATION_ROWS_N_MAX} }}")));
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 0);
}

async fn old_operations_and_their_rows_are_pruned(database: &Database) {
    let store = database.store().await;
    dead(&store, 3).await;
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 3);
    let id = begin(&ops(&store), &send, "k").await.unwrap().operation_id;
    super::retention::round(&store, &super::retention::cuts(1_000_000), 200, false).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 3, "it runs");
    work_off(&store, &id, 200).await;
    super::retention::round(&store, &super::retention::cuts(9_000), 200, false).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM operations").await, 1, "it is young");
    super::retention::round(&store, &super::retention::cuts(1_000_000), 200, false).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM operations").await, 0);
}

/// Tries the calls that are due: as many as there are to each end.
pub(super) async fn try_calls(store: &Store, now_ms: i64, ends: &[(usize, SettleTo)]) {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 100,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let leased = store.message_lease(&[want], now_ms, 30_000, "node-1").await.unwrap();
    let ends: Vec<SettleTo> = ends.iter().flat_map(|(n, end)| std::iter::repeat_n(*end, *n)).collect();
    assert_eq!(leased.len(), ends.len(), "calls that are due");
    for (one, end) in leased.iter().zip(ends) {
        let result = if end == SettleTo::Done { AttemptResult::Done } else { AttemptResult::Retry };
        let settlement = super::settlement(one, end, result);
        store
            .message_settle(&[Settlement { error: Some("status 500".to_owned()), ..settlement }])
            .await
            .unwrap();
    }
}

async fn what_makes_calls_goes_in_steps_that_wait_for_their_calls(database: &Database) {
    let store = database.store().await;
    dead(&store, 14).await;
    let people = ops(&store);
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 14);
    let id = begin(&people, &send, "k").await.unwrap().operation_id;
    let mut now_ms = 100_000;
    let step = async |now_ms: i64| {
        store
            .operation_step(&id, 200, false, now_ms)
            .await
            .unwrap()
            .map(|step| (step.changed_n, step.is_over))
    };
    let later = SettleTo::Ready { visible_at_ms: 900_000 };
    for (wanted, ends) in [(1, vec![(1, SettleTo::Done)]), (10, vec![(9, SettleTo::Done), (1, later)])] {
        assert_eq!(step(now_ms).await, Some((wanted, false)));
        assert_eq!(step(now_ms + 60_000).await, Some((0, false)), "its calls are not tried yet");
        try_calls(&store, now_ms + 60_000, &ends).await;
        now_ms += 120_000;
    }
    // One of ten failed, which is not more than 10 %.
    assert_eq!(step(now_ms).await, Some((3, false)));
    let view = people.operation(&id).await.unwrap();
    let steps = view.steps.unwrap();
    let counts: Vec<_> =
        steps.list.iter().map(|one| (one.rows_n, one.changed_n, one.good_n, one.failed_n)).collect();
    assert_eq!((steps.current, counts), (3, vec![(1, 1, 1, 0), (10, 10, 9, 1), (3, 3, 0, 0)]));
    assert_eq!(view.state, OperationState::Running);
    try_calls(&store, now_ms, &[(3, SettleTo::Done)]).await;
    assert_eq!(step(now_ms + 1).await, Some((0, true)));
    let view = people.operation(&id).await.unwrap();
    assert_eq!(
        (view.state, view.changed_n, view.finished_at_ms),
        (OperationState::Done, 14, Some(now_ms + 1))
    );
}

async fn an_operation_stops_when_its_calls_fail_and_continues_on_an_operators_order(database: &Database) {
    let store = database.store().await;
    dead(&store, 14).await;
    let people = ops(&store);
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Dead)), 14);
    let id = begin(&people, &send, "k").await.unwrap().operation_id;
    store.operation_step(&id, 200, false, 100_000).await.unwrap();
    try_calls(&store, 100_000, &[(1, SettleTo::Held)]).await;
    let step = store.operation_step(&id, 200, false, 200_000).await.unwrap().unwrap();
    assert!(
        step.stopped
            .is_some_and(|why| why.contains("none may fail in the first step; one of them: status 500"))
    );
    assert_eq!(message_states(database).await, ["dead 13", "held 1"], "one call, and no more");
    let view = people.operation(&id).await.unwrap();
    assert_eq!((view.state, view.changed_n, view.note.is_some()), (OperationState::Stopped, 1, true));
    assert_eq!(people.operations_for_persons().await.unwrap().len(), 1);
    assert_eq!(
        store.operation_step(&id, 200, false, 300_000).await.unwrap(),
        None,
        "by itself it does not go on"
    );
    assert!(store.operations_running(300_000).await.unwrap().is_empty());
    let viewer = scoped(&store, Role::Viewer, None, None);
    let refused = viewer.operation_decide(&id, OperationAct::Continue, &decision_at("c0", 300_000)).await;
    assert_eq!(outcome_text(refused, |_| String::new()), "needs operator");
    let goes_on = people
        .operation_decide(&id, OperationAct::Continue, &decision_at("c1", 300_000))
        .await
        .unwrap()
        .value;
    assert_eq!((goes_on.state, goes_on.note), (OperationState::Running, None));
    let step = store.operation_step(&id, 200, false, 400_000).await.unwrap().unwrap();
    assert_eq!((step.changed_n, step.stopped), (10, None), "what failed before is forgiven");
    try_calls(&store, 400_000, &[(8, SettleTo::Done), (2, SettleTo::Dead)]).await;
    let step = store.operation_step(&id, 200, false, 500_000).await.unwrap().unwrap();
    assert!(step.stopped.is_some_and(|why| why.starts_with("step 2: 2 of the last 10 rows")));
    let again = people
        .operation_decide(&id, OperationAct::Continue, &decision_at("c2", 500_000))
        .await
        .unwrap()
        .value;
    assert_eq!(again.state, OperationState::Running);
    let cancelled =
        people.operation_decide(&id, OperationAct::Cancel, &decision_at("c3", 500_000)).await.unwrap().value;
    assert_eq!(cancelled.state, OperationState::Cancelled);
    let sql = "SELECT action || ' ' || actor FROM audit_log WHERE operation_id IS NOT NULL AND action LIKE 'operation%'
               ORDER BY audit_seq";
    let want = [
        "operation_begin ops",
        "operation_stop hooklatch",
        "operation_continue ops",
        "operation_stop hooklatch",
        "operation_continue ops",
        "operation_cancel ops",
    ];
    assert_eq!(database.texts(sql).await, want);
}

async fn a_second_operator_approves_an_order_in_time(database: &Database) {
    let store = database.store().await;
    dead(&store, 2).await;
    let people = ops(&store);
    let rules = BulkRules { approvals_n: 2, approval_ms: 1_000 };
    let discard = order(of_messages(MessageAct::Discard, in_state(MessageState::Dead)), 2);
    let discard = seen(&people, &discard).await;
    let begun = people.operation_begin(&discard, rules, &decision_at("k", 9_000)).await.unwrap().value;
    assert_eq!((begun.state, begun.approve_until_ms), (OperationState::Waiting, Some(10_000)));
    let id = begun.operation_id;
    assert!(store.operations_running(9_999).await.unwrap().is_empty());
    assert_eq!(store.operation_step(&id, 200, false, 9_999).await.unwrap(), None);
    let own = people.operation_decide(&id, OperationAct::Approve, &decision_at("a1", 9_500)).await;
    assert_eq!(outcome_text(own, |_| String::new()), "OwnOperation");
    let approver = |who: &str, role, providers: Option<&[&str]>| {
        let reach =
            providers.map_or(Reach::All, |names| Reach::These(names.iter().map(|one| name(one)).collect()));
        let principal = Principal { providers: reach, ..Principal::everywhere(name(who), role) };
        OperatorStore::new(store.clone()).open(principal)
    };
    for (who, want) in [
        (approver("bob", Role::Viewer, None), "needs operator"),
        (approver("bob", Role::Operator, Some(&["stripe"])), "not_found"),
    ] {
        let refused = who.operation_decide(&id, OperationAct::Approve, &decision_at("a2", 9_500)).await;
        assert_eq!(outcome_text(refused, |_| String::new()), want);
    }
    let bob = approver("bob", Role::Operator, None);
    assert_eq!(bob.operations_for_persons().await.unwrap().len(), 1);
    let late = bob.operation_decide(&id, OperationAct::Approve, &decision_at("a3", 10_000)).await;
    assert_eq!(outcome_text(late, |_| String::new()), "not_allowed waiting", "its time is over");
    let approved =
        bob.operation_decide(&id, OperationAct::Approve, &decision_at("a4", 9_900)).await.unwrap().value;
    assert_eq!((approved.state, approved.approved_by.as_deref()), (OperationState::Running, Some("bob")));
    work_off(&store, &id, 200).await;
    assert_eq!(message_states(database).await, ["discarded 2"]);
    // An operation without approval ends by itself, and did nothing.
    super::operator::settled(&store, "evt_9", SettleTo::Dead).await;
    let discard = order(of_messages(MessageAct::Discard, in_state(MessageState::Dead)), 1);
    let discard = seen(&people, &discard).await;
    let begun = people.operation_begin(&discard, rules, &decision_at("k2", 20_000)).await.unwrap().value;
    assert_eq!(store.operations_running(21_000).await.unwrap(), std::slice::from_ref(&begun.operation_id));
    let step = store.operation_step(&begun.operation_id, 200, false, 21_000).await.unwrap().unwrap();
    assert_eq!((step.changed_n, step.is_over), (0, true));
    let view = people.operation(&begun.operation_id).await.unwrap();
    assert_eq!((view.state, view.changed_n, view.cancelled_by), (OperationState::Cancelled, 0, None));
    assert!(view.note.is_some_and(|note| note.contains("it was not approved in time")));
    let sql = "SELECT action || ' ' || actor FROM audit_log WHERE action IN ('operation_approve', 'operation_expire')
               ORDER BY audit_seq";
    assert_eq!(database.texts(sql).await, ["operation_approve bob", "operation_expire hooklatch"]);
}

async fn a_preview_lists_what_an_operation_would_act_on(database: &Database) {
    let store = database.store().await;
    super::operator::settled(&store, "evt_held", SettleTo::Held).await;
    for n in 0..3 {
        let one = IncomingEvent { received_at_ms: 5_000 + n, ..event(&format!("evt_{n}"), "a") };
        admit(&store, &one, &[message("billing"), message("mail")]).await;
    }
    let people = ops(&store);
    let done = EventFilter {
        state: Some(EventState::Handled),
        received_from_ms: Some(5_000),
        ..EventFilter::default()
    };
    let preview = people.operation_preview(&OperationChoice::Events(done.clone()), 9_000).await.unwrap();
    assert_eq!(
        preview.events.iter().map(|one| one.event_id.as_str()).collect::<Vec<_>>(),
        ["evt_2", "evt_1", "evt_0"]
    );
    let (found, acts) = (preview.figures, preview.acts);
    let counts = (found.counted_n, found.calls_n, found.open_n, found.untried_n);
    assert_eq!(counts, (3, 6, 6, 6), "{found:?}");
    assert_eq!((found.first_at_ms, found.last_at_ms, found.is_more), (Some(5_000), Some(5_002), false));
    assert_eq!((found.providers[0].name.as_str(), found.providers[0].counted_n), ("stripe", 3));
    let risks: Vec<_> = acts.iter().map(|act| (act.act.as_str(), act.risk)).collect();
    let want =
        [("rerun", Risk::MayRepeatEffect), ("erase", Risk::None), ("erase_and_discard", Risk::LosesEffect)];
    assert_eq!(risks, want);
    // A held call whose attempt has an unknown end.
    let held = OperationChoice::Messages(in_state(MessageState::Held));
    let preview = people.operation_preview(&held, 9_000).await.unwrap();
    let (found, acts) = (preview.figures, preview.acts);
    assert_eq!((found.counted_n, found.uncertain_n, found.untried_n), (1, 1, 0), "{found:?}");
    assert_eq!((acts[0].act.as_str(), acts[0].risk), ("send", Risk::MayRepeatEffect));
    assert_eq!(found.destinations[0].name, "billing");
    // The operation that is there already is named, and nothing was written by looking.
    let send = order(of_messages(MessageAct::Send, in_state(MessageState::Held)), 1);
    let id = begin(&people, &send, "k").await.unwrap().operation_id;
    let acts = people.operation_preview(&held, 9_000).await.unwrap().acts;
    assert_eq!(
        acts.iter().map(|act| act.same_operation_id.clone()).collect::<Vec<_>>(),
        [Some(id), None, None]
    );
    assert_eq!(database.count("SELECT COUNT(*) FROM operation_rows").await, 1);
    let few = scoped(&store, Role::Viewer, Some(&["adyen"]), None);
    let preview = few.operation_preview(&OperationChoice::Events(done.clone()), 9_000).await.unwrap();
    assert_eq!((preview.figures.counted_n, preview.acts.len()), (0, 0), "nothing out of reach is counted");
    // Events by the calls that they have.
    for (calls, wanted) in [("open", 3), ("held", 1), ("stuck", 1), ("dead", 0)] {
        let delivery = DeliveryFilter::parse(calls);
        let choice =
            OperationChoice::Events(EventFilter { delivery, received_from_ms: None, ..done.clone() });
        let found = people.operation_preview(&choice, 9_000).await.unwrap().figures;
        assert_eq!(found.counted_n, wanted, "{calls}");
    }
}
