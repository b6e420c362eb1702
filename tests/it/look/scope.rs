//! Records out of a token's scope are not found, by any endpoint.

use std::collections::BTreeSet;

use hooklatch_contract::{EventTaker, LedgerEntry, LedgerWhat, MessageFilter};
use hooklatch_core::types::{EventKey, MessageId, MessageState, Name, Principal, Reach, Role};
use hooklatch_store::{OperatorError, OperatorStore, RejectedQuery, Store};

use super::{fill, refusal, run};
use crate::database::{Database, on_both};
use crate::store::name;

on_both!(
    records_out_of_scope_are_not_found,
    the_audit_log_is_paged_and_shows_what_is_in_scope,
    a_ledger_hides_decisions_about_messages_of_unknown_destination,
);

/// A principal with this scope.
fn principal_with(role: Role, providers: &[&str], destinations: &[&str]) -> Principal {
    let reach = |names: &[&str]| {
        if names.is_empty() {
            Reach::All
        } else {
            Reach::These(names.iter().map(|text| name(text)).collect())
        }
    };
    Principal { name: name("ann"), role, providers: reach(providers), destinations: reach(destinations) }
}

async fn seen(store: &Store, principal: &Principal, filter: MessageFilter) -> Vec<i64> {
    let people = OperatorStore::new(store.clone()).open(principal.clone());
    let page = people.messages(filter, None, 50).await.unwrap();
    page.items.iter().map(|one| one.message_id.event_seq()).collect()
}

async fn records_out_of_scope_are_not_found(database: &Database) {
    fill(database).await;
    let store = database.store().await;
    store.rejections_insert(&[refusal(1, "stripe"), refusal(2, "adyen")]).await.unwrap();
    let held = MessageFilter { state: Some(MessageState::Held), ..MessageFilter::default() };
    let to = |destination: &str| MessageFilter {
        destination: Some(destination.to_owned()),
        ..MessageFilter::default()
    };
    let all = MessageFilter::default;
    for (providers, destinations, filter, wanted) in [
        (&["adyen"][..], &[][..], all(), vec![9, 8]),
        (&[], &["ledger"], all(), vec![8]),
        (&["stripe"], &["ledger"], all(), vec![]),
        (&["adyen"], &[], held.clone(), vec![9]),
        (&[], &["ledger"], held.clone(), vec![]),
        (&[], &["ledger"], to("billing"), vec![]),
        (&["adyen"], &["billing"], to("billing"), vec![9]),
    ] {
        let principal = principal_with(Role::Admin, providers, destinations);
        assert_eq!(seen(&store, &principal, filter).await, wanted, "{principal:?}");
    }
    let open = |providers: &[&str], destinations: &[&str]| {
        OperatorStore::new(store.clone()).open(principal_with(Role::Operator, providers, destinations))
    };
    let is_gone = |answer: Result<(), OperatorError>| matches!(answer, Err(OperatorError::NotFound));
    let id = MessageId::from_column(9 * 1_024);
    assert!(open(&["adyen"], &["billing"]).message(id, 1).await.is_ok());
    assert!(is_gone(open(&["stripe"], &[]).message(id, 1).await.map(drop)));
    assert!(is_gone(open(&[], &["ledger"]).message(id, 1).await.map(drop)));
    assert!(is_gone(open(&[], &["ledger"]).destination(&name("billing"), true, 1).await.map(drop)));
    assert!(is_gone(open(&["adyen"], &[]).take_pairing_secret(&name("stripe"), 1).await.map(drop)));
    let configured = BTreeSet::from([name("billing")]);
    let standings = open(&[], &["ledger"]).destinations(&configured, 1).await.unwrap();
    assert_eq!(standings.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["ledger"]);
    let stripe = open(&["stripe"], &[]);
    assert!(stripe.waiting_events().await.unwrap().0.is_empty());
    let both: BTreeSet<Name> = ["adyen", "stripe"].map(name).into();
    let shown = stripe.providers(both).await.unwrap();
    assert_eq!(shown.into_keys().collect::<Vec<_>>(), [name("stripe")]);
    let refused = async |provider: Option<&Name>| {
        let query = RejectedQuery { provider: provider.cloned(), limit: 9, ..RejectedQuery::default() };
        stripe.rejected(query, 1).await.unwrap().items.len()
    };
    assert_eq!((refused(None).await, refused(Some(&name("adyen"))).await), (1, 0));
    let lanes = async |providers: &[&str], destinations: &[&str]| {
        open(providers, destinations).lanes(None, None, 9).await.unwrap().0.items.len()
    };
    // The head of the only lane is of stripe.
    assert_eq!((lanes(&["stripe"], &[]).await, lanes(&["adyen"], &[]).await), (1, 0));
    assert_eq!((lanes(&[], &["billing"]).await, lanes(&[], &["ledger"]).await), (1, 0));
    let viewer = OperatorStore::new(store.clone()).open(principal_with(Role::Viewer, &[], &[]));
    let denied = viewer.take_pairing_secret(&name("stripe"), 1).await.map(drop);
    assert!(matches!(denied, Err(OperatorError::Denied(Role::Operator))), "{denied:?}");
}

async fn the_audit_log_is_paged_and_shows_what_is_in_scope(database: &Database) {
    fill(database).await;
    run(
        database,
        "INSERT INTO audit_log (audit_seq, at_ms, actor, action, provider, event_id, message_id, detail)
         VALUES (1, 1, 'ops', 'event_rerun', 'stripe', 'evt_1', NULL, 'r'),
                (2, 2, 'ops', 'message_send', 'stripe', 'evt_4', 4096, 'r'),
                (3, 3, 'ops', 'message_send', 'adyen', 'evt_8', 8192, 'r'),
                (4, 4, 'ops', 'message_send', 'adyen', 'evt_9', 9216, 'r'),
                (5, 5, 'ops', 'destination_pause', NULL, NULL, NULL, 'billing: r')"
            .to_owned(),
    )
    .await;
    let store = database.store().await;
    let seen = async |providers: &[&str], destinations: &[&str]| {
        let people =
            OperatorStore::new(store.clone()).open(principal_with(Role::Operator, providers, destinations));
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = people.audit(before, 2).await.unwrap();
            found.extend(page.items.iter().map(|row| row.audit_seq));
            let Some(next) = page.next else { return found };
            before = Some(next.parse().unwrap());
        }
    };
    assert_eq!(seen(&[], &[]).await, [5, 4, 3, 2, 1]);
    assert_eq!(seen(&["stripe"], &[]).await, [2, 1]);
    assert_eq!(seen(&["absent"], &[]).await, [0; 0]);
    assert_eq!(seen(&[], &["ledger"]).await, [3]);
    assert_eq!(seen(&["adyen"], &["billing"]).await, [4], "one of the queue, one of history");
    assert_eq!(seen(&[], &["billing"]).await, [4, 2]);
    let viewer = OperatorStore::new(store.clone()).open(principal_with(Role::Reader, &[], &[]));
    assert!(matches!(viewer.audit(None, 2).await, Err(OperatorError::Denied(Role::Operator))));
}

async fn a_ledger_hides_decisions_about_messages_of_unknown_destination(database: &Database) {
    fill(database).await;
    // The second one is about a message that was pruned.
    run(
        database,
        "INSERT INTO audit_log (audit_seq, at_ms, actor, action, provider, event_id, message_id, detail)
         VALUES (1, 1, 'ops', 'message_send', 'adyen', 'evt_9', 9216, 'kept'),
                (2, 2, 'ops', 'message_send', 'adyen', 'evt_9', 9217, 'pruned'),
                (3, 3, 'ops', 'event_rerun', 'adyen', 'evt_9', NULL, 'of the event')"
            .to_owned(),
    )
    .await;
    let store = database.store().await;
    let visible = async |destinations: &[&str]| {
        let people =
            OperatorStore::new(store.clone()).open(principal_with(Role::Operator, &["adyen"], destinations));
        let key = EventKey { provider: name("adyen"), event_id: "evt_9".to_owned() };
        let ledger = people.event_ledger(&key, 10_000, |_| EventTaker::Taken).await.unwrap();
        let reason = |entry: LedgerEntry| match entry.what {
            LedgerWhat::Decision { decision } => Some(decision.detail),
            _ => None,
        };
        ledger.entries.into_iter().filter_map(reason).collect::<Vec<_>>()
    };
    assert_eq!(visible(&[]).await, ["kept", "pruned", "of the event"]);
    assert_eq!(visible(&["billing"]).await, ["kept", "of the event"]);
    assert_eq!(visible(&["ledger"]).await, ["of the event"]);
}
