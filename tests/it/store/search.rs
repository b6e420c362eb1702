//! The ids inside events: found completely or by prefix, within a token's scope, for as long as the body is kept.

use hooklatch_contract::{EventAct, SearchHit, SearchView};
use hooklatch_core::seal::{KeyRing, SealKey};
use hooklatch_core::types::{EventKey, IncomingEvent, Role};
use hooklatch_store::{Latched, OperatorQueries, ResealPlace, SealedTable, Store, Unsearched};

use super::reads::{LATER_MS, people};
use super::{admit, admit_at_once, decide, decision_at, event, name, on_event, ops, scoped};
use crate::database::{Database, on_both};

on_both!(
    an_id_inside_an_event_is_found_whole_or_by_its_beginning_in_any_letter_case,
    ids_inside_events_are_for_readers_and_within_the_scope_of_the_token,
    the_newest_events_with_one_id_are_found_and_no_more_than_fifty,
    other_content_and_copies_have_their_own_ids_and_copies_none,
    search_ids_are_deleted_with_the_body_on_erasure_and_pruning,
    with_a_key_digests_are_stored_whole_ids_are_found_and_reseal_keeps_that,
    incomplete_searches_report_what_they_skipped,
);

fn with_ids(event_id: &str, body: &str, ids: &[&str]) -> IncomingEvent {
    IncomingEvent { search_ids: ids.iter().map(|id| (*id).to_owned()).collect(), ..event(event_id, body) }
}

async fn search(people: &OperatorQueries, id: &str) -> SearchView {
    people.search(id, &Unsearched::default(), LATER_MS).await.unwrap()
}

/// The events that are found, each as what: `inside evt_1`.
async fn found(people: &OperatorQueries, id: &str) -> Vec<String> {
    let describe = |hit: &SearchHit| match hit {
        SearchHit::EventId { event } => format!("id {}", event.event_id),
        SearchHit::SearchId { event } => format!("inside {}", event.event_id),
        SearchHit::Object { event } => format!("object {}", event.event_id),
        other => format!("{other:?}"),
    };
    search(people, id).await.found.iter().map(describe).collect()
}

async fn search_ids(database: &Database) -> Vec<String> {
    database.texts("SELECT search_key FROM event_search_ids ORDER BY search_key").await
}

async fn an_id_inside_an_event_is_found_whole_or_by_its_beginning_in_any_letter_case(database: &Database) {
    let store = database.store().await;
    let adyen = "16:7914073381342284,13:AUTHORISATION,4:true";
    admit(&store, &with_ids("evt_1Abc", "a", &["pi_3mtw", "cus_nff\u{fc}"]), &[]).await;
    admit_at_once(&store, &with_ids(adyen, "b", &["7914073381342284", "order 7/\u{fc}%_"]), &[]).await;
    let reader = people(&store, Role::Reader);
    for (id, want) in [
        ("pi_3MTW", vec!["inside evt_1Abc"]),
        ("PI_3MT", vec!["inside evt_1Abc"]),
        ("pi_3mt", vec!["inside evt_1Abc"]),
        ("https://dashboard.stripe.com/test/payments/pi_3Mtw", vec!["inside evt_1Abc"]),
        ("CUS_NFF\u{dc}", vec!["inside evt_1Abc"]),
        ("791407", vec!["inside 16:7914073381342284,13:AUTHORISATION,4:true"]),
        ("ORDER 7/\u{fc}%_", vec!["inside 16:7914073381342284,13:AUTHORISATION,4:true"]),
        // Too short for a beginning, a pattern, and what lies between two.
        ("pi_3m", vec![]),
        ("pi____", vec![]),
        ("pi_3mtx", vec![]),
        // Ids of events, too: as they are written, and in lower or upper case.
        ("evt_1A", vec!["id evt_1Abc"]),
        ("https://dashboard.stripe.com/events/evt_1Abc", vec!["id evt_1Abc"]),
        ("evt_1", vec![]),
        (adyen, vec!["id 16:7914073381342284,13:AUTHORISATION,4:true"]),
    ] {
        assert_eq!(found(&reader, id).await, want, "{id}");
    }
    let view = search(&reader, "7914073381342284").await;
    let [SearchHit::SearchId { event }] = &view.found[..] else { panic!("{view:?}") };
    assert_eq!(event.parts, ["7914073381342284", "AUTHORISATION", "true"]);
    assert!(view.notes.is_empty(), "{:?}", view.notes);
}

async fn ids_inside_events_are_for_readers_and_within_the_scope_of_the_token(database: &Database) {
    let store = database.store().await;
    let key = EventKey { provider: name("adyen"), event_id: "evt_2".to_owned() };
    let foreign = IncomingEvent { key, ..with_ids("evt_2", "b", &["order-4711"]) };
    admit(&store, &with_ids("evt_1", "a", &["order-4711"]), &[]).await;
    admit(&store, &foreign, &[]).await;
    assert_eq!(found(&people(&store, Role::Reader), "order-4711").await, ["inside evt_2", "inside evt_1"]);
    let bob = scoped(&store, Role::Reader, Some(&["stripe"]), None);
    for id in ["order-4711", "ORDER-"] {
        assert_eq!(found(&bob, id).await, ["inside evt_1"], "{id}");
    }
    let viewer = people(&store, Role::Viewer);
    assert!(found(&viewer, "order-4711").await.is_empty());
    let notes = search(&viewer, "order-4711").await.notes.join("\n");
    assert!(notes.contains("Ids inside events were not searched: that takes the role `reader`"), "{notes}");
}

async fn the_newest_events_with_one_id_are_found_and_no_more_than_fifty(database: &Database) {
    let store = database.store().await;
    for n in 0..60 {
        admit(&store, &with_ids(&format!("evt_{n:02}"), &n.to_string(), &["cus_same"]), &[]).await;
    }
    let reader = people(&store, Role::Reader);
    let all = found(&reader, "cus_same").await;
    assert_eq!((all.len(), all[0].as_str(), all[49].as_str()), (50, "inside evt_59", "inside evt_10"));
    assert_eq!(found(&reader, "cus_sa").await.len(), 50);
}

async fn other_content_and_copies_have_their_own_ids_and_copies_none(database: &Database) {
    let store = database.store().await;
    admit(&store, &with_ids("evt_1", "a", &["order-1"]), &[]).await;
    admit(&store, &with_ids("evt_1", "a", &["order-1"]), &[]).await;
    let admitted = admit_at_once(&store, &with_ids("evt_1", "b", &["order-2"]), &[]).await;
    assert!(matches!(admitted.latched[0], Some(Latched::Conflict { .. })));
    assert_eq!(search_ids(database).await, ["order-1", "order-2"]);
}

async fn search_ids_are_deleted_with_the_body_on_erasure_and_pruning(database: &Database) {
    let store = database.store().await;
    admit(&store, &with_ids("evt_1", "a", &["order-1", "cus_11"]), &[]).await;
    admit(&store, &with_ids("evt_2", "b", &["order-2", "cus_11"]), &[]).await;
    assert_eq!(
        decide(&ops(&store), &on_event("evt_1", EventAct::Erase), &decision_at("k1", 2_000)).await,
        "changed 0"
    );
    assert_eq!(search_ids(database).await, ["cus_11", "order-2"]);
    assert_eq!(found(&people(&store, Role::Reader), "cus_11").await, ["inside evt_2"]);
    let cuts = super::retention::cuts(LATER_MS * 10);
    super::retention::round(&store, &cuts, 100, false).await;
    assert_eq!(search_ids(database).await, Vec::<String>::new());
}

fn ring(keys: &[(&str, u8)]) -> KeyRing {
    let key =
        |(id, byte): &(&str, u8)| SealKey::parse(id, &format!("{byte:02x}{}", "7e".repeat(31))).unwrap();
    KeyRing::new(&keys.iter().map(key).collect::<Vec<_>>())
}

async fn reseal(store: &Store, of: Option<&str>) {
    let step = store.reseal(SealedTable::Payloads, of, ResealPlace::default(), 100).await.unwrap();
    assert_eq!((step.next, step.unopened_n), (None, 0));
}

async fn with_a_key_digests_are_stored_whole_ids_are_found_and_reseal_keeps_that(database: &Database) {
    let clear = database.store().await;
    admit(&clear, &with_ids("evt_1", "a", &["order-11", "cus_11"]), &[]).await;
    let old = clear.clone().sealed_with(ring(&[("old", 1)]));
    admit(&old, &with_ids("evt_2", "b", &["order-22", "cus_11"]), &[]).await;
    admit_at_once(&old, &with_ids("evt_3", "c", &["order-33"]), &[]).await;
    let reader = people(&old, Role::Reader);
    for (id, want) in [
        ("ORDER-22", vec!["inside evt_2"]),
        ("order-33", vec!["inside evt_3"]),
        ("cus_11", vec!["inside evt_2", "inside evt_1"]),
        // By its beginning an id is found that was stored before there was a key.
        ("order-", vec!["inside evt_1"]),
    ] {
        assert_eq!(found(&reader, id).await, want, "{id}");
    }
    let notes = search(&reader, "order-99").await.notes.join("\n");
    assert!(notes.contains("ids inside events are found whole only"), "{notes}");
    // With write access to the database, ids can be written in clear.
    let refusing = people(&old.clone().sealed_with(ring(&[("old", 1)]).refusing_clear(true)), Role::Reader);
    for (id, want) in [("order-11", vec![]), ("order-", vec![]), ("order-22", vec!["inside evt_2"])] {
        assert_eq!(found(&refusing, id).await, want, "{id}");
    }
    reseal(&old, None).await;
    let both = clear.clone().sealed_with(ring(&[("new", 2), ("old", 1)]));
    let keys = search_ids(database).await;
    assert!(keys.len() == 5 && keys.iter().all(|key| key.starts_with("H:")), "{keys:?}");
    // Before it is sealed anew with the newest key, and after that without the older one.
    assert_eq!(found(&people(&both, Role::Reader), "order-11").await, ["inside evt_1"]);
    reseal(&both, Some("old")).await;
    let new = clear.clone().sealed_with(ring(&[("new", 2)]));
    for (id, want) in [("order-11", vec!["inside evt_1"]), ("cus_11", vec!["inside evt_2", "inside evt_1"])] {
        assert_eq!(found(&people(&new, Role::Reader), id).await, want, "{id}");
        assert!(found(&people(&old, Role::Reader), id).await.is_empty(), "{id}");
    }
    assert!(search_ids(database).await.iter().all(|key| !keys.contains(key)));
}

async fn incomplete_searches_report_what_they_skipped(database: &Database) {
    let store = database.store().await;
    let bob = scoped(&store, Role::Reader, Some(&["stripe", "acme"]), None);
    let unsearched =
        Unsearched { off: vec!["stripe".to_owned(), "adyen".to_owned()], unnamed: vec!["acme".to_owned()] };
    let view = bob.search("order-4711", &unsearched, LATER_MS).await.unwrap();
    let notes = view.notes.join("\n");
    for said in [
        "Ids inside events of `stripe` are not kept: `search = false`.",
        "The kind of `acme` names no ids inside its events.",
        "Not looked at: bodies and headers of events.",
    ] {
        assert!(notes.contains(said), "no {said}: {notes}");
    }
    assert!(!notes.contains("adyen"), "{notes}");
    let long = bob.search(&"x".repeat(300), &unsearched, LATER_MS).await.unwrap();
    assert!(long.notes == ["Nothing was compared: an id has 1 to 255 bytes, and no NUL."], "{long:?}");
}
