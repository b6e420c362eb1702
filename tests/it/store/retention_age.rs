//! The age of stored rows with wrong clocks, and which of them a pruning round would delete.

use std::collections::BTreeMap;

use hooklatch_core::types::{Clock, IncomingEvent, ObjectVersion};
use hooklatch_store::{Cuts, PrunePlace, PruneWalk, PrunedKind, SettleTo};

use super::retention::{counts, cuts, received, round, run, settle};
use super::{admit, key, message, name};
use crate::database::{Database, On, on_both};

on_both!(
    what_waits_for_something_else_is_not_counted_before_it,
    only_prunable_rows_count_as_overdue,
    a_clock_that_was_behind_loses_nothing,
);

/// Keys wait for their messages, messages for the bytes, and what goes with a key goes with it: of each window one that
/// is shorter and one that is longer than the one before.
async fn what_waits_for_something_else_is_not_counted_before_it(database: &Database) {
    let store = database.store().await;
    admit(&store, &received("evt_quiet", 1_000), &[]).await;
    // Dispatched again not long ago, without a message this time.
    admit(&store, &received("evt_again", 1_000), &[]).await;
    let object = ObjectVersion { object: "in_1".to_owned(), version: 7 };
    for (event_id, received_at_ms, settled_at_ms) in [
        ("evt_a", 1_000, 2_000),
        ("evt_b", 1_000, 20_000),
        ("evt_c", 1_000, 60_000),
        ("evt_d", 30_000, 40_000),
    ] {
        let object = (event_id == "evt_a").then(|| object.clone());
        admit(&store, &IncomingEvent { object, ..received(event_id, received_at_ms) }, &[message("billing")])
            .await;
        settle(&store, SettleTo::Done, settled_at_ms).await;
    }
    run(
        database,
        "UPDATE processed_webhook_events SET processed_at_ms = 45000 WHERE event_id = 'evt_again';
         INSERT INTO object_versions (provider, object, version, event_seq)
             SELECT provider, 'of ' || event_id, 1, event_seq FROM processed_webhook_events;
         INSERT INTO conflict_counts (provider, event_id, unkept_n)
             SELECT provider, event_id, 1 FROM processed_webhook_events;
         INSERT INTO signal_firings (provider, signal, firing_n, counted_from_ms) VALUES ('stripe', 'sig', 1, 1000)",
    )
    .await;
    let (ids, messages, bodies) = (50_000, 10_000, 30_000);
    let windows = [
        Cuts { messages_ms: messages, bodies_ms: bodies, ..cuts(ids) },
        Cuts { ids_of: BTreeMap::from([(name("stripe"), 500)]), ..cuts(ids) },
        Cuts { messages_ms: 30_000, ..cuts(ids) },
        cuts(ids),
        cuts(100_000),
    ];
    for windows in windows {
        let counted = round(&store, &windows, 3, true).await;
        let gone = round(&store, &windows, 3, false).await;
        assert_eq!(counted, gone, "{windows:?}");
    }
    assert_eq!(counts(database).await, [0, 0, 0, 0]);
}

/// A row that was needed for long is pruned late, and is no sign of late pruning.
async fn only_prunable_rows_count_as_overdue(database: &Database) {
    let store = database.store().await;
    for n in 0..20 {
        admit(&store, &received(&format!("evt_{n}"), 1_000), &[message("billing")]).await;
    }
    run(
        database,
        "INSERT INTO conflict_counts (provider, event_id, unkept_n) SELECT provider, event_id, 1
             FROM processed_webhook_events;
         INSERT INTO object_versions (provider, object, version, event_seq) SELECT provider, event_id, 1, event_seq
             FROM processed_webhook_events",
    )
    .await;
    let windows = Cuts { messages_ms: 1_500, ..cuts(90_000_000) };
    let overdue = async |kind| {
        let from = PrunePlace::default();
        store
            .prune_look(PruneWalk { kind, ids_cut_ms: windows.ids_ms }, &windows, &from, 10)
            .await
            .unwrap()
            .overdue_ms()
    };
    assert_eq!(overdue(PrunedKind::Bodies).await, 90_000_000 - 1_000);
    assert_eq!(overdue(PrunedKind::Ids).await, 500, "messages go first");
    assert_eq!(overdue(PrunedKind::ConflictCounts).await, 0);
    assert_eq!(overdue(PrunedKind::ObjectVersions).await, 0);
    run(database, "UPDATE processed_webhook_events SET received_at_ms = 89999000 WHERE event_id = 'evt_3'")
        .await;
    assert_eq!(overdue(PrunedKind::Bodies).await, 1_000, "the others waited for something");
}

/// Each walk in batches of all sizes: what is behind a batch's end knows what was before it.
async fn a_clock_that_was_behind_loses_nothing(database: &Database) {
    let store = database.store().await;
    for (n, received_at_ms) in [1_000, 60_000, 61_000, 1_000, 1_500, 62_000].into_iter().enumerate() {
        admit(&store, &received(&format!("evt_{n}"), received_at_ms), &[message("billing")]).await;
        settle(&store, SettleTo::Done, 2_000).await;
    }
    for rows_n in [1, 2, 3, 100] {
        round(&store, &cuts(50_000), rows_n, false).await;
        assert_eq!(counts(database).await, [5, 5, 5, 5], "{rows_n} at a time");
    }
    assert!(store.event_get(&key("evt_0")).await.unwrap().is_none());
    round(&store, &cuts(61_001), 100, false).await;
    assert_eq!(counts(database).await, [1, 1, 1, 1], "as old as what arrived before them");
}

#[tokio::test]
async fn pruning_uses_the_earlier_of_two_clocks() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let store = database.store().await;
    assert_eq!(store.prune_now(1_000).await.unwrap(), 1_000, "that of the node");
    let year_ms = 365 * 86_400_000;
    let now_ms = Clock::system().now_ms();
    let used_ms = store.prune_now(now_ms + year_ms).await.unwrap();
    assert!(used_ms.abs_diff(now_ms) < 60_000, "that of the database, not a year ahead");
}
