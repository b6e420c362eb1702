//! The audit log: rows are added concurrently, pruned by their age, and never changed.

use std::collections::BTreeSet;

use hooklatch_core::types::{Principal, Role};
use hooklatch_store::{
    NewToken, OperatorQueries, OperatorStore, PrunePlace, PruneWalk, PrunedKind, Store, TokenMaking,
};

use super::name;
use super::retention::{cuts, round};
use crate::database::{Database, on_both};

on_both!(
    rows_are_pruned_by_their_age,
    the_database_itself_refuses_to_change_the_log,
    rows_that_many_add_at_once_have_a_number_each,
    a_row_with_the_highest_number_lets_others_in_and_hides_none,
);

fn people(store: &Store, role: Role) -> OperatorQueries {
    OperatorStore::new(store.clone()).open(Principal::everywhere(name("ann"), role))
}

/// Adds a row to the log at this time.
async fn add(people: &OperatorQueries, n: u32, now_ms: i64) {
    let new = NewToken {
        principal: Principal::everywhere(name(&format!("t{n}")), Role::Viewer),
        digest: {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&n.to_be_bytes());
            digest
        },
        expires_at_ms: now_ms + 60_000,
        idempotency_key: format!("k{n}"),
        reason: "for a dashboard".to_owned(),
        now_ms,
    };
    let made = people.token_make(new, &BTreeSet::new()).await.unwrap();
    assert!(matches!(made, TokenMaking::Made(_)), "{made:?}");
}

async fn ten(database: &Database) -> (Store, OperatorQueries) {
    let store = database.store().await;
    let people = people(&store, Role::Admin);
    for n in 1..=10 {
        add(&people, n, 1_000 * i64::from(n)).await;
    }
    (store, people)
}

/// The numbers of the rows, the newest first.
async fn numbers(people: &OperatorQueries) -> Vec<i64> {
    people.audit(None, 200).await.unwrap().items.iter().map(|row| row.audit_seq).collect()
}

async fn rows_are_pruned_by_their_age(database: &Database) {
    let (store, people) = ten(database).await;
    // One whose clock was ahead, and one after it.
    add(&people, 11, 1_000_000).await;
    add(&people, 12, 1_000).await;
    let gone = round(&store, &cuts(5_500), 2, true).await;
    assert_eq!(gone.get("audit_log"), Some(&5), "counted: what was ahead keeps what is after it");
    let gone = round(&store, &cuts(5_500), 2, false).await;
    assert_eq!(gone.get("audit_log"), Some(&5));
    assert_eq!(numbers(&people).await, [12, 11, 10, 9, 8, 7, 6]);
    round(&store, &cuts(2_000_000), 100, false).await;
    assert_eq!(numbers(&people).await, [0; 0]);
    add(&people, 13, 3_000_000).await;
    assert_eq!(numbers(&people).await, [13], "no number is used again");
    let old = store
        .prune_look(PruneWalk::of(PrunedKind::Audit), &cuts(9_000_000), &PrunePlace::default(), 10)
        .await
        .unwrap();
    for wanted in [1, 0] {
        let lease = super::retention::lease("node-1");
        assert_eq!(store.prune_delete(PrunedKind::Audit, &old, &lease).await.unwrap(), Some(wanted));
    }
}

async fn the_database_itself_refuses_to_change_the_log(database: &Database) {
    let (_store, people) = ten(database).await;
    let refused = async |sql: &str| {
        let said = database.run(sql).await.expect_err(sql).to_string();
        assert!(said.contains("only appended to"), "{sql}: {said}");
    };
    for sql in [
        "UPDATE audit_log SET detail = 'x' WHERE audit_seq = 5",
        "UPDATE audit_log SET detail = detail",
        "DELETE FROM audit_log WHERE audit_seq = 1",
        "DELETE FROM audit_log",
    ] {
        refused(sql).await;
    }
    let columns = "audit_seq, at_ms, actor, action, detail";
    if database.url.starts_with("sqlite") {
        // It fires no trigger for updates or deletions.
        refused(&format!(
            "INSERT OR REPLACE INTO audit_log ({columns}) SELECT audit_seq, at_ms, 'eve', action, detail
             FROM audit_log WHERE audit_seq = 5"
        ))
        .await;
        refused("UPDATE OR REPLACE audit_log SET audit_seq = 4 WHERE audit_seq = 5").await;
    } else {
        refused("TRUNCATE audit_log").await;
        refused(&format!(
            "INSERT INTO audit_log ({columns}) SELECT {columns} FROM audit_log WHERE audit_seq = 5
             ON CONFLICT (audit_seq) DO UPDATE SET detail = 'x'"
        ))
        .await;
    }
    assert_eq!(numbers(&people).await.len(), 10);
}

async fn rows_that_many_add_at_once_have_a_number_each(database: &Database) {
    let stores = if database.url.starts_with("sqlite") {
        vec![database.store().await]
    } else {
        vec![database.store().await, database.store().await]
    };
    let mut adding = tokio::task::JoinSet::new();
    for n in 0..60 {
        let people = people(&stores[n as usize % stores.len()], Role::Admin);
        adding.spawn(async move { add(&people, n, 1_000).await });
    }
    while let Some(added) = adding.join_next().await {
        added.unwrap();
    }
    assert_eq!(numbers(&people(&stores[0], Role::Admin)).await.len(), 60);
}

/// A row of another program, or of a damaged file, with a number that leaves none for those after it.
async fn a_row_with_the_highest_number_lets_others_in_and_hides_none(database: &Database) {
    let (store, people) = ten(database).await;
    for (number, next) in [(i64::MAX, 11), (i64::MAX - 1, 12), (1 << 62, 13)] {
        let insert = format!(
            "INSERT INTO audit_log (audit_seq, at_ms, actor, action, detail) VALUES ({number}, 1, 'eve', 'x', 'y')"
        );
        database.run(&insert).await.unwrap();
        add(&people, u32::try_from(next).unwrap(), 1_000).await;
        assert_eq!(numbers(&people).await.iter().find(|n| **n < 1_000), Some(&next));
    }
    let wanted: Vec<i64> = [i64::MAX, i64::MAX - 1, 1 << 62].into_iter().chain((1..=13).rev()).collect();
    assert_eq!(numbers(&people).await, wanted);
    // Page by page, too.
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = people.audit(before, 5).await.unwrap();
        found.extend(page.items.iter().map(|row| row.audit_seq));
        let Some(next) = page.next else { break };
        before = Some(next.parse().unwrap());
    }
    assert_eq!(found, wanted);
    drop(store);
}
