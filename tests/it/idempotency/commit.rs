//! The effect and its answer in one commit.

use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use hooklatch::idempotency::IdempotencyClaim;
use http::StatusCode;

use super::{Effects, Program, code, is_replayed, post};
use crate::database::{Database, on_both};

on_both!(
    an_effect_and_its_answer_are_one_commit,
    an_effect_that_lost_its_claim_is_not_committed,
    a_transaction_that_is_dropped_or_ended_by_its_handler_leaves_nothing,
    an_effect_that_its_handler_committed_itself_is_not_repeated,
);

const ORDERS: &str = "SELECT COUNT(*) FROM orders";

/// Writes an order and answers; the first call fails, the second one refuses.
async fn order(State(effects): State<Effects>, Extension(claim): Extension<IdempotencyClaim>) -> Response {
    let n = effects.take();
    let mut tx = claim.begin().await.unwrap();
    let id = format!("o{n}");
    tx.execute("INSERT INTO orders (id, amount) VALUES ($1, 7)", &[id.as_str().into()]).await.unwrap();
    effects.began.notify_one();
    let answer = match n {
        1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => (StatusCode::CREATED, id).into_response(),
    };
    claim.commit(tx, answer).await
}

async fn an_effect_and_its_answer_are_one_commit(database: &Database) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let router =
        Router::new().route("/orders", on_post(order)).layer(program.layer()).with_state(effects.clone());
    assert_eq!(post(&router, "k").await.0, 503);
    assert_eq!(database.count(ORDERS).await, 0, "what may be tried again took no effect");
    let first = post(&router, "k").await;
    assert_eq!((first.0, first.2.as_str(), is_replayed(&first)), (201, "o2", false));
    let again = post(&router, "k").await;
    assert_eq!((again.0, again.2.as_str(), is_replayed(&again)), (201, "o2", true));
    let all: Vec<_> = (0..100)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { post(&router, "k2").await })
        })
        .collect();
    for one in all {
        let response = one.await.unwrap();
        assert!(response.2 == "o3" || code(&response) == "idempotency_key_in_use", "{response:?}");
    }
    assert_eq!((database.count(ORDERS).await, effects.n()), (2, 3));
    drop(router);
    program.stop().await;
}

async fn an_effect_that_lost_its_claim_is_not_committed(database: &Database) {
    async fn late(State(effects): State<Effects>, Extension(claim): Extension<IdempotencyClaim>) -> Response {
        let n = effects.take();
        if n == 1 {
            effects.began.notify_one();
            effects.go.notified().await;
        }
        let mut tx = claim.begin().await.unwrap();
        let id = format!("o{n}");
        tx.execute("INSERT INTO orders (id, amount) VALUES ($1, 7)", &[id.as_str().into()]).await.unwrap();
        claim.commit(tx, id).await
    }
    let (program, effects) = (Program::start(database).await, Effects::default());
    // Each layer is a process of its own: what one process carries out it does not begin again, whatever its clock says.
    let [router, other] = [program.layer(), program.layer()]
        .map(|layer| Router::new().route("/orders", on_post(late)).layer(layer).with_state(effects.clone()));
    let old = tokio::spawn({
        let router = router.clone();
        async move { post(&router, "k").await }
    });
    effects.began.notified().await;
    program.clock.advance(60_000);
    assert_eq!(post(&other, "k").await.2, "o2");
    effects.go.notify_one();
    assert_eq!(code(&old.await.unwrap()), "idempotency_key_in_use");
    assert_eq!(database.texts("SELECT id FROM orders").await, ["o2"]);
    drop((router, other));
    program.stop().await;
}

async fn an_effect_that_its_handler_committed_itself_is_not_repeated(database: &Database) {
    async fn commits(
        State(effects): State<Effects>,
        Extension(claim): Extension<IdempotencyClaim>,
    ) -> Response {
        let n = effects.take();
        let mut tx = claim.begin().await.unwrap();
        let id = format!("o{n}");
        tx.execute("INSERT INTO orders (id, amount) VALUES ($1, 7)", &[id.as_str().into()]).await.unwrap();
        tx.batch("COMMIT").await.unwrap();
        assert_ne!(n, 2, "it panics after its commit");
        claim.commit(tx, id).await
    }
    let (program, effects) = (Program::start(database).await, Effects::default());
    let layer = program.layer().wait(Duration::from_secs(10));
    let router = Router::new().route("/orders", on_post(commits)).layer(layer).with_state(effects.clone());
    for (key, first) in [("said", 503), ("panicked", 500)] {
        assert_eq!(post(&router, key).await.0, first, "{key}");
        for _ in 0..2 {
            let again = post(&router, key).await;
            assert_eq!((again.0, code(&again)), (409, "idempotency_answer_not_kept".into()), "{key}");
        }
    }
    assert_eq!((database.count(ORDERS).await, effects.n()), (2, 2));
    drop(router);
    program.stop().await;
}

async fn a_transaction_that_is_dropped_or_ended_by_its_handler_leaves_nothing(database: &Database) {
    async fn odd(State(effects): State<Effects>, Extension(claim): Extension<IdempotencyClaim>) -> Response {
        let n = effects.take();
        let mut tx = claim.begin().await.unwrap();
        tx.execute("INSERT INTO orders (id, amount) VALUES ('o', 7)", &[]).await.unwrap();
        match n {
            1 => panic!("killed between the effect and the answer"),
            2 => {
                tx.batch("ROLLBACK").await.unwrap();
                claim.commit(tx, "never").await
            }
            _ => claim.commit(tx, "done").await,
        }
    }
    let (program, effects) = (Program::start(database).await, Effects::default());
    let layer = program.layer().wait(Duration::from_secs(10));
    let router = Router::new().route("/orders", on_post(odd)).layer(layer).with_state(effects.clone());
    assert_eq!(post(&router, "k").await.0, 500);
    assert_eq!(post(&router, "k").await.0, 503);
    assert_eq!(database.count(ORDERS).await, 0);
    assert_eq!(post(&router, "k").await.2, "done");
    assert_eq!((database.count(ORDERS).await, effects.n()), (1, 3));
    drop(router);
    program.stop().await;
}
