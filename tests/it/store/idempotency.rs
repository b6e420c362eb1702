//! The row of a key: its holder, its state, and who may still write its response.

use hooklatch_store::{KeyClaim, KeyReply, KeyRequest, KeyState, NewAnswer, Store};

use crate::database::{Database, on_both};

on_both!(
    a_key_is_claimed_once_and_then_returns_its_response,
    another_request_under_a_used_key_is_refused_first,
    a_lock_that_ended_is_taken_over_and_the_old_owner_writes_nothing,
    a_released_key_can_be_claimed_again_and_continues_its_count,
    a_key_whose_window_is_over_is_new,
    a_key_belongs_to_its_principal,
    of_many_concurrent_claims_one_wins,
);

fn asked(now_ms: i64) -> KeyRequest {
    KeyRequest {
        principal: "app:ann".to_owned(),
        key: "k".to_owned(),
        fingerprint: [1; 32],
        now_ms,
        lock_ms: 1_000,
        kept_ms: 10_000,
    }
}

fn answer(body: &str) -> NewAnswer {
    let (state, headers) = (KeyState::Succeeded, r#"[["etag","x"]]"#.to_owned());
    NewAnswer { state, status: 201, headers, body: Some(body.as_bytes().to_vec()) }
}

async fn claimed(store: &Store, request: &KeyRequest) -> KeyClaim {
    match store.idempotency_begin(request).await.unwrap() {
        KeyReply::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    }
}

async fn answered(store: &Store, request: &KeyRequest) -> NewAnswer {
    match store.idempotency_begin(request).await.unwrap() {
        KeyReply::Answered(kept) => kept.answer,
        other => panic!("{other:?}"),
    }
}

async fn a_key_is_claimed_once_and_then_returns_its_response(database: &Database) {
    let store = database.store().await;
    let claim = claimed(&store, &asked(0)).await;
    assert_eq!((claim.fence, claim.expires_at_ms), (1, 10_000));
    let busy = store.idempotency_begin(&asked(400)).await.unwrap();
    assert_eq!(busy, KeyReply::InProgress { locked_until_ms: 1_000, now_ms: 400 });
    assert!(store.idempotency_finish(&claim, &answer("one")).await.unwrap());
    assert_eq!(answered(&store, &asked(9_999)).await, answer("one"));
    assert!(!store.idempotency_finish(&claim, &answer("two")).await.unwrap(), "an answer is never changed");
    store.idempotency_release(&claim).await.unwrap();
    assert_eq!(answered(&store, &asked(9_999)).await, answer("one"), "nor taken back");
    let empty = NewAnswer { state: KeyState::Failed, body: None, ..answer("") };
    let other = KeyRequest { key: "k2".to_owned(), ..asked(0) };
    let claim = claimed(&store, &other).await;
    assert!(store.idempotency_finish(&claim, &empty).await.unwrap());
    assert_eq!(answered(&store, &other).await, empty);
}

async fn another_request_under_a_used_key_is_refused_first(database: &Database) {
    let store = database.store().await;
    let other = |now_ms| KeyRequest { fingerprint: [2; 32], ..asked(now_ms) };
    let reused = KeyReply::Reused { expires_at_ms: 10_000 };
    let claim = claimed(&store, &asked(0)).await;
    assert_eq!(store.idempotency_begin(&other(1)).await.unwrap(), reused, "while it is carried out");
    assert_eq!(store.idempotency_begin(&other(5_000)).await.unwrap(), reused, "though its owner died");
    store.idempotency_finish(&claim, &answer("one")).await.unwrap();
    assert_eq!(store.idempotency_begin(&other(5_000)).await.unwrap(), reused);
}

async fn a_lock_that_ended_is_taken_over_and_the_old_owner_writes_nothing(database: &Database) {
    let store = database.store().await;
    let old = claimed(&store, &asked(0)).await;
    assert!(matches!(store.idempotency_begin(&asked(999)).await.unwrap(), KeyReply::InProgress { .. }));
    let new = claimed(&store, &asked(1_000)).await;
    assert_eq!((new.fence, new.expires_at_ms), (2, 11_000));
    assert!(!store.idempotency_finish(&old, &answer("old")).await.unwrap());
    store.idempotency_release(&old).await.unwrap();
    assert!(matches!(store.idempotency_begin(&asked(1_001)).await.unwrap(), KeyReply::InProgress { .. }));
    assert!(store.idempotency_finish(&new, &answer("new")).await.unwrap());
    assert_eq!(answered(&store, &asked(1_002)).await, answer("new"));
}

async fn a_released_key_can_be_claimed_again_and_continues_its_count(database: &Database) {
    let store = database.store().await;
    let first = claimed(&store, &asked(0)).await;
    store.idempotency_release(&first).await.unwrap();
    let other = KeyRequest { fingerprint: [2; 32], ..asked(1) };
    let second = claimed(&store, &other).await;
    assert_eq!(second.fence, 2);
    store.idempotency_release(&second).await.unwrap();
    let third = claimed(&store, &asked(2)).await;
    // A claim that lapsed long ago can never be confused with the current one.
    for late in [&first, &second] {
        assert!(!store.idempotency_finish(late, &answer("late")).await.unwrap());
    }
    assert!(store.idempotency_finish(&third, &answer("third")).await.unwrap());
}

async fn a_key_whose_window_is_over_is_new(database: &Database) {
    let store = database.store().await;
    let first = claimed(&store, &asked(0)).await;
    store.idempotency_finish(&first, &answer("one")).await.unwrap();
    assert_eq!(answered(&store, &asked(9_999)).await, answer("one"));
    let other = KeyRequest { fingerprint: [2; 32], ..asked(10_000) };
    let anew = claimed(&store, &other).await;
    assert_eq!((anew.fence, anew.expires_at_ms), (2, 20_000));
    assert!(matches!(store.idempotency_begin(&other).await.unwrap(), KeyReply::InProgress { .. }));
}

async fn a_key_belongs_to_its_principal(database: &Database) {
    let store = database.store().await;
    let bob = KeyRequest { principal: "app:bob".to_owned(), ..asked(0) };
    let (anns, bobs) = (claimed(&store, &asked(0)).await, claimed(&store, &bob).await);
    store.idempotency_finish(&anns, &answer("ann")).await.unwrap();
    store.idempotency_finish(&bobs, &answer("bob")).await.unwrap();
    assert_eq!(answered(&store, &asked(1)).await, answer("ann"));
    assert_eq!(answered(&store, &bob).await, answer("bob"));
}

async fn of_many_concurrent_claims_one_wins(database: &Database) {
    let store = database.store().await;
    let ask = |_| {
        let store = store.clone();
        tokio::spawn(async move { store.idempotency_begin(&asked(0)).await.unwrap() })
    };
    let all: Vec<_> = (0..50).map(ask).collect();
    let mut claims_n = 0;
    for one in all {
        match one.await.unwrap() {
            KeyReply::Claimed(claim) => claims_n += i32::from(claim.fence == 1),
            other => assert!(matches!(other, KeyReply::InProgress { .. }), "{other:?}"),
        }
    }
    assert_eq!(claims_n, 1);
}
