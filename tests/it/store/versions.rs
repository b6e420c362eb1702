//! Decisions about one subject: of which version, and in whose scope.

use hooklatch_contract::{EventAct, IfMatch, MessageAct, MessageView, PauseAct, Tagged};
use hooklatch_core::types::Role;
use hooklatch_store::{Decision, MessageRow, SettleTo};

use super::operator::settled;
use super::retention::run;
use super::{decide, decision_at, on_destination, on_event, on_message, ops, scoped};
use crate::database::{Database, on_both};

on_both!(a_decision_about_an_older_version_is_refused, a_decision_reaches_what_is_in_its_scope_alone,);

/// The row as operators see it, up to its version.
fn view_of(row: &MessageRow) -> MessageView {
    MessageView {
        message_id: row.message_id,
        synthetic: row.key.is_synthetic(),
        provider: row.key.provider.to_string(),
        event_id: row.key.event_id.clone(),
        event_type: row.event_type.clone(),
        effect_name: row.effect_name.clone(),
        idempotency_key: row.idempotency_key.clone(),
        destination: row.destination.clone(),
        state: row.state,
        lane: row.lane.clone(),
        attempts_n: row.attempts_n,
        generation: 0,
        visible_at_ms: row.visible_at_ms,
        created_at_ms: row.created_at_ms,
        first_sent_at_ms: row.first_sent_at_ms,
        key_valid_until_ms: row.key_valid_until_ms,
        finished_at_ms: row.finished_at_ms,
        last_result: row.last_result,
        last_error: row.last_error.clone(),
        sent_under: row.sent_under,
        judgement: None,
    }
}

async fn a_decision_about_an_older_version_is_refused(database: &Database) {
    let store = database.store().await;
    let people = ops(&store);
    let id = settled(&store, "evt_1", SettleTo::Held).await;
    let seen = async || {
        let row = store.message_get(id).await.unwrap().unwrap();
        view_of(&row).etag()
    };
    let of = |tag: &str| IfMatch::Tags(vec![tag.to_owned()]);
    let about = async |tag: &IfMatch, act: MessageAct, key: &str| {
        let decision = Decision { if_match: tag, ..decision_at(key, 9_000) };
        decide(&people, &on_message(id, act), &decision).await
    };
    let first = seen().await;
    assert_eq!(about(&of("\"0\""), MessageAct::Send, "k0").await, "other_version");
    assert_eq!(about(&of(&first), MessageAct::Send, "k1").await, "changed 1");
    assert_ne!(seen().await, first);
    // The other operator saw it held.
    assert_eq!(about(&of(&first), MessageAct::Discard, "k2").await, "other_version");
    assert_eq!(about(&of(&first), MessageAct::Send, "k1").await, "again changed 1", "the same request");
    assert_eq!(about(&of(&seen().await), MessageAct::Discard, "k3").await, "changed 1");
    assert_eq!(about(&of(&seen().await), MessageAct::Discard, "k4").await, "not_allowed discarded");
    assert_eq!(about(&of(&first), MessageAct::Discard, "k5").await, "other_version", "said first");
    assert_eq!(about(&IfMatch::Any, MessageAct::Discard, "k6").await, "not_allowed discarded");

    let (any, tag) = (IfMatch::Any, of("\"0\""));
    let with = |if_match, key| Decision { if_match, ..decision_at(key, 9_000) };
    assert_eq!(
        decide(&people, &on_event("evt_1", EventAct::Erase), &with(&tag, "e1")).await,
        "other_version"
    );
    assert_eq!(decide(&people, &on_event("evt_1", EventAct::Erase), &with(&any, "e2")).await, "changed 0");
    assert_eq!(decide(&people, &on_event("evt_9", EventAct::Erase), &with(&tag, "e3")).await, "not_found");
    let running = of(&hooklatch_contract::DestinationView {
        name: "billing".to_owned(),
        kind: String::new(),
        is_configured: true,
        pause: None,
        breaker: None,
        concurrency_n: None,
        rate_per_s: None,
        backlog: Vec::new(),
        oldest_due_at_ms: None,
        call_times: None,
        policy: None,
    }
    .etag());
    let pause = on_destination("billing", PauseAct::Pause);
    assert_eq!(decide(&people, &pause, &with(&running, "d1")).await, "changed 0");
    assert_eq!(decide(&people, &pause, &with(&running, "d2")).await, "other_version");
    let resume = on_destination("billing", PauseAct::Resume);
    assert_eq!(decide(&people, &resume, &with(&running, "d3")).await, "other_version");
    assert_eq!(decide(&people, &resume, &with(&any, "d4")).await, "changed 0");
}

/// A role, the providers and destinations in scope, and what is answered.
type ScopeCase<'a> = (Role, Option<&'a [&'a str]>, Option<&'a [&'a str]>, [&'a str; 3]);

async fn a_decision_reaches_what_is_in_its_scope_alone(database: &Database) {
    let store = database.store().await;
    #[rustfmt::skip]
    let cases: [ScopeCase<'_>; 6] = [
        (Role::Viewer, None, None, ["needs operator"; 3]),
        (Role::Reader, None, None, ["needs operator"; 3]),
        (Role::Operator, Some(&["adyen"]), None, ["not_found", "not_found", "changed 0"]),
        (Role::Operator, None, Some(&["mail"]), ["not_found", "still_open 1", "not_found"]),
        (Role::Operator, Some(&["stripe"]), Some(&["billing"]), ["changed 1", "changed 1", "changed 0"]),
        (Role::Admin, None, None, ["changed 1", "changed 1", "changed 0"]),
    ];
    for (n, (role, providers, destinations, want)) in cases.into_iter().enumerate() {
        let (id, event_id) = (format!("m{n}"), format!("e{n}"));
        let message_id = settled(&store, &id, SettleTo::Held).await;
        settled(&store, &event_id, SettleTo::Held).await;
        let people = scoped(&store, role, providers, destinations);
        let orders = [
            on_message(message_id, MessageAct::Send),
            on_event(&event_id, EventAct::EraseAndDiscard),
            on_destination("billing", PauseAct::Pause),
        ];
        for (ordered, want) in orders.iter().zip(want) {
            let idempotency_key = format!("{n} {ordered:?}");
            assert_eq!(
                decide(&people, ordered, &decision_at(&idempotency_key, 9_000)).await,
                want,
                "{ordered:?}"
            );
        }
        run(database, "DELETE FROM destination_pauses").await;
        run(database, "DELETE FROM outbox_queue").await;
    }
}
