//! Reading events: pages, counts and statistics, within the reader's scope.

use hooklatch_contract::{EventFilter, EventTaker, EventView, Page};
use hooklatch_core::types::{EventKey, EventState, IncomingEvent, ObjectVersion, Principal, Reach, Role};
use hooklatch_store::{
    Candidate, EventPlace, EventQuery, OperatorError, OperatorQueries, OperatorStore, Store, Unsearched,
};

use super::{admit, event, key, message, name};
use crate::database::{Database, on_both};

on_both!(
    pages_stay_as_they_are_while_rows_arrive,
    each_filter_finds_what_it_says_and_nothing_else,
    since_lists_each_event_once_in_any_commit_order_of_two_nodes,
    a_walk_with_few_matches_returns_its_position_and_continues,
    out_of_scope_records_are_not_found,
);

/// Long after everything that these tests let happen.
pub(super) const LATER_MS: i64 = 10_000_000_000;

pub(crate) fn people(store: &Store, role: Role) -> OperatorQueries {
    OperatorStore::new(store.clone()).open(Principal::everywhere(name("ann"), role))
}

fn scoped(store: &Store, providers: &[&str], destinations: &[&str]) -> OperatorQueries {
    let these = |names: &[&str]| Reach::These(names.iter().map(|one| name(one)).collect());
    OperatorStore::new(store.clone()).open(Principal {
        name: name("bob"),
        role: Role::Reader,
        providers: these(providers),
        destinations: these(destinations),
    })
}

/// An event of a given time, under a number of the test's own.
pub(super) async fn put(store: &Store, event: IncomingEvent, event_seq: i64, state: EventState) {
    let candidate = Candidate { event: event.into(), event_seq, state, is_raising: false };
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&[candidate]).await.unwrap();
    tx.commit().await.unwrap();
}

fn at(event_id: &str, received_at_ms: i64) -> IncomingEvent {
    IncomingEvent { received_at_ms, ..event(event_id, event_id) }
}

fn query(filter: &EventFilter, place: Option<&String>, limit: u32) -> EventQuery {
    let place = place.map(|text| EventPlace::parse(text).unwrap());
    EventQuery { filter: filter.clone(), place, limit }
}

fn ids(page: &Page<EventView>) -> Vec<String> {
    page.items.iter().map(|one| one.event_id.clone()).collect()
}

/// All pages, one after the other.
async fn all(people: &OperatorQueries, filter: &EventFilter, limit: u32) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), None);
    loop {
        let page = people.event_page(query(filter, next.as_ref(), limit), LATER_MS).await.unwrap();
        found.extend(ids(&page));
        next = page.next;
        if next.is_none() {
            return found;
        }
    }
}

async fn pages_stay_as_they_are_while_rows_arrive(database: &Database) {
    let store = database.store().await;
    for n in 0..25 {
        put(&store, at(&format!("evt_{n}"), 1_000 + n), 5_000 + n, EventState::Handled).await;
    }
    let people = people(&store, Role::Viewer);
    let filter = EventFilter::default();
    let (mut found, mut next) = (Vec::new(), None);
    for n in 0.. {
        let page = people.event_page(query(&filter, next.as_ref(), 10), LATER_MS).await.unwrap();
        found.extend(ids(&page));
        put(&store, at(&format!("new_{n}"), 2_000), 9_000 + n, EventState::Handled).await;
        assert_eq!(page.since.is_some(), n == 0, "where a page begins at the newest");
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    let wanted: Vec<String> = (0..25).rev().map(|n| format!("evt_{n}")).collect();
    assert_eq!(found, wanted);
    assert_eq!(all(&people, &filter, 7).await.len(), 28);
    // The last page is full to the row, and nothing follows it.
    let page = people.event_page(query(&filter, None, 28), LATER_MS).await.unwrap();
    assert_eq!((page.items.len(), page.next), (28, None));
}

async fn each_filter_finds_what_it_says_and_nothing_else(database: &Database) {
    let store = database.store().await;
    let hour = 3_600_000;
    for n in 0..12_i64 {
        let provider = name(["stripe", "adyen"][usize::from(n % 3 == 0)]);
        let id = format!("e{n}");
        let one = IncomingEvent {
            key: EventKey { provider, event_id: id.clone() },
            event_type: ["paid", "void"][usize::from(n % 2 == 0)].to_owned(),
            object: (n % 4 == 1).then(|| ObjectVersion { object: "in_1".to_owned(), version: n }),
            ..at(&id, 1_000 + n * hour)
        };
        let state = if n % 5 == 0 { EventState::Failed } else { EventState::Handled };
        put(&store, one, 5_000 + n, state).await;
    }
    let people = people(&store, Role::Viewer);
    let check = async |filter: EventFilter, wanted: &[i64]| {
        let wanted: Vec<String> = wanted.iter().map(|n| format!("e{n}")).collect();
        for limit in [1, 3, 100] {
            assert_eq!(all(&people, &filter, limit).await, wanted, "{filter:?}");
        }
    };
    let any = EventFilter::default();
    let text = |text: &str| Some(text.to_owned());
    check(any.clone(), &[11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]).await;
    check(EventFilter { provider: text("adyen"), ..any.clone() }, &[9, 6, 3, 0]).await;
    check(EventFilter { event_type: text("void"), ..any.clone() }, &[10, 8, 6, 4, 2, 0]).await;
    check(EventFilter { state: Some(EventState::Failed), ..any.clone() }, &[10, 5, 0]).await;
    check(
        EventFilter { state: Some(EventState::Handled), provider: text("adyen"), ..any.clone() },
        &[9, 6, 3],
    )
    .await;
    check(EventFilter { object: text("in_1"), ..any.clone() }, &[9, 5, 1]).await;
    let failed = EventFilter { object: text("in_1"), state: Some(EventState::Failed), ..any.clone() };
    check(failed, &[5]).await;
    let hours = |from: Option<i64>, to: Option<i64>| EventFilter {
        received_from_ms: from.map(|n| 1_000 + n * hour),
        received_to_ms: to.map(|n| 1_000 + n * hour),
        ..EventFilter::default()
    };
    check(hours(Some(9), None), &[11, 10, 9]).await;
    check(hours(None, Some(2)), &[1, 0]).await;
    check(hours(Some(3), Some(5)), &[4, 3]).await;
    check(hours(Some(5), Some(5)), &[]).await;
    check(hours(Some(100), None), &[]).await;
    check(hours(None, Some(-100)), &[]).await;
    let adyen = EventFilter { provider: text("adyen"), event_type: text("paid"), ..hours(Some(1), Some(10)) };
    check(adyen, &[9, 3]).await;
    for odd in ["", "PAID", "paid ", "a\0b", "%", "\u{202e}"] {
        check(EventFilter { event_type: text(odd), ..any.clone() }, &[]).await;
        check(EventFilter { object: text(odd), ..any.clone() }, &[]).await;
    }
}

/// One node has the numbers from 5,000 on, the other, later ones: they draw blocks at once and commit as they come.
async fn since_lists_each_event_once_in_any_commit_order_of_two_nodes(database: &Database) {
    let store = database.store().await;
    let people = people(&store, Role::Viewer);
    let filter = EventFilter::default();
    let mut now_ms = 1_000_000;
    let first = people.event_page(query(&filter, None, 10), now_ms).await.unwrap();
    let mut since = first.since.unwrap();
    let mut listed = Vec::new();
    let (mut low, mut high) = (5_000, 9_096);
    for round in 0..40_i64 {
        now_ms += 10_000;
        if round < 20 {
            // What the second node numbered is there first; what the first one did follows up to 20 s later.
            put(&store, at(&format!("b{round}"), now_ms), high, EventState::Handled).await;
            put(&store, at(&format!("a{round}"), now_ms - 20_000), low, EventState::Handled).await;
            (low, high) = (low + 1, high + 1);
            if round % 4 == 3 {
                // Both draw the next block.
                (low, high) = (high + 4_096, high + 8_192);
            }
        }
        loop {
            let page = people.event_page(query(&filter, Some(&since), 3), now_ms).await.unwrap();
            let young = page.items.iter().filter(|one| one.received_at_ms > now_ms - 60_000).count();
            assert_eq!(young, 0, "nothing is listed before all that precedes it is there");
            listed.extend(ids(&page));
            since = page.since.unwrap();
            if page.next.is_none() {
                break;
            }
            assert_eq!(page.next.as_ref(), Some(&since));
        }
    }
    let mut sorted = listed.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((listed.len(), sorted.len()), (40, 40), "each once: {listed:?}");
}

async fn a_walk_with_few_matches_returns_its_position_and_continues(database: &Database) {
    let store = database.store().await;
    super::large::fill_events(database, 100_000, 10_050).await;
    let rare = IncomingEvent { event_type: "rare".to_owned(), ..at("evt_rare", 500) };
    put(&store, rare, 5_000, EventState::Handled).await;
    let people = people(&store, Role::Viewer);
    let filter = EventFilter { event_type: Some("rare".to_owned()), ..EventFilter::default() };
    let page = people.event_page(query(&filter, None, 10), LATER_MS).await.unwrap();
    assert_eq!((ids(&page), page.looked_back_to_ms), (Vec::new(), Some(21_000)));
    let page = people.event_page(query(&filter, page.next.as_ref(), 10), LATER_MS).await.unwrap();
    assert_eq!((ids(&page), page.next, page.looked_back_to_ms), (vec!["evt_rare".to_owned()], None, None));
    // The other way round: it is found at once, and the rest is looked through.
    let page = people.event_page(query(&filter, Some(&"a0".to_owned()), 10), LATER_MS).await.unwrap();
    assert_eq!(ids(&page), ["evt_rare"]);
    let page = people.event_page(query(&filter, page.next.as_ref(), 10), LATER_MS).await.unwrap();
    assert_eq!((ids(&page), page.next), (Vec::new(), None));
}

async fn out_of_scope_records_are_not_found(database: &Database) {
    let store = database.store().await;
    let adyen = EventKey { provider: name("adyen"), event_id: "evt_1".to_owned() };
    let other = IncomingEvent { key: adyen.clone(), ..event("evt_1", "secret of adyen") };
    admit(&store, &event("evt_1", "x"), &[message("billing"), message("crm")]).await;
    admit(&store, &other, &[message("billing")]).await;
    let bob = scoped(&store, &["stripe"], &["crm"]);
    let filter = EventFilter::default();
    let page = bob.event_page(query(&filter, None, 10), LATER_MS).await.unwrap();
    assert_eq!(page.items.iter().map(|one| one.provider.as_str()).collect::<Vec<_>>(), ["stripe"]);
    let asked = EventFilter { provider: Some("adyen".to_owned()), ..filter.clone() };
    assert!(matches!(bob.event_page(query(&asked, None, 10), LATER_MS).await, Err(OperatorError::NotFound)));
    assert!(matches!(
        bob.event_ledger(&adyen, LATER_MS, |_| EventTaker::Taken).await,
        Err(OperatorError::NotFound)
    ));
    assert!(matches!(bob.event_body(&adyen, LATER_MS).await, Err(OperatorError::NotFound)));
    let found = bob.search("evt_1", &Unsearched::default(), LATER_MS).await.unwrap();
    assert_eq!(found.found.len(), 1, "{found:?}");
    assert!(!format!("{found:?}").contains("adyen"), "not even by a note");
    let ledger = bob.event_ledger(&key("evt_1"), LATER_MS, |_| EventTaker::Taken).await.unwrap();
    let text = serde_json::to_string(&ledger.entries).unwrap();
    assert!(text.contains("crm") && !text.contains("billing"), "{text}");
    assert_eq!(ledger.hidden_messages_n, 1);
    // Not another provider's message, by its id or its key.
    let hidden = store.message_list_of_event(&adyen).await.unwrap().remove(0);
    for id in [hidden.message_id.to_string(), hidden.idempotency_key] {
        assert_eq!(bob.search(&id, &Unsearched::default(), LATER_MS).await.unwrap().found, [], "{id}");
        assert_eq!(
            people(&store, Role::Viewer)
                .search(&id, &Unsearched::default(), LATER_MS)
                .await
                .unwrap()
                .found
                .len(),
            1,
            "{id}"
        );
    }
}
