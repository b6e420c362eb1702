//! Plain handlers behind the layer: which requests are executed, and the answers to the others.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post as on_post};
use http::{HeaderMap, StatusCode};

use super::{Effects, Program, code, is_replayed, post, request, send};
use crate::database::{Database, on_both};

on_both!(
    of_a_hundred_at_once_under_one_key_one_takes_effect,
    a_request_without_a_usable_key_is_refused_and_one_that_changes_nothing_needs_none,
    what_is_answered_for_good_is_answered_again_and_what_is_not_is_tried_again,
    another_request_under_a_key_is_refused_with_the_status_of_choice,
    a_caller_that_hangs_up_finds_its_answer,
    a_handler_that_panics_or_takes_too_long_frees_its_key,
    who_takes_over_after_the_lock_has_the_last_word,
    a_clock_that_jumps_carries_no_request_out_twice,
    a_long_or_secret_answer_is_given_once,
);

fn shop(program: &Program, effects: &Effects) -> Router {
    async fn order(State(effects): State<Effects>, body: String) -> Response {
        let n = effects.take();
        (StatusCode::CREATED, [("location", format!("/orders/{n}"))], format!("order {n}: {body}"))
            .into_response()
    }
    let routes = Router::new().route("/orders", any(order)).route("/refunds", on_post(order));
    routes.layer(program.layer()).with_state(effects.clone())
}

async fn of_a_hundred_at_once_under_one_key_one_takes_effect(database: &Database) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let shop = shop(&program, &effects);
    let all: Vec<_> = (0..100)
        .map(|_| {
            let shop = shop.clone();
            tokio::spawn(async move { post(&shop, "k").await })
        })
        .collect();
    let (mut first_n, mut replayed_n, mut in_use_n) = (0, 0, 0);
    for one in all {
        let response = one.await.unwrap();
        match response.0 {
            201 if is_replayed(&response) => replayed_n += 1,
            201 => first_n += 1,
            409 => {
                assert_eq!(code(&response), "idempotency_key_in_use");
                assert!(response.1.contains_key("retry-after"));
                in_use_n += 1;
            }
            _ => panic!("{response:?}"),
        }
        if response.0 == 201 {
            assert_eq!(response.2, "order 1: {}", "everybody hears the same");
        }
    }
    assert_eq!((effects.n(), first_n, replayed_n + in_use_n), (1, 1, 99));
    assert_eq!(database.count("SELECT COUNT(*) FROM idempotency_keys WHERE state = 'succeeded'").await, 1);
    drop(shop);
    program.stop().await;
}

async fn a_request_without_a_usable_key_is_refused_and_one_that_changes_nothing_needs_none(
    database: &Database,
) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let shop = shop(&program, &effects);
    for (key, want) in [
        (None, "idempotency_key_missing"),
        (Some(""), "idempotency_key_malformed"),
        (Some("a, b"), "idempotency_key_malformed"),
        (Some("\"a\";v=1"), "idempotency_key_malformed"),
        (Some("a b"), "idempotency_key_malformed"),
    ] {
        let response = send(&shop, request("/orders", key, "{}")).await;
        assert_eq!((response.0, code(&response).as_str()), (400, want), "{key:?}");
        assert_eq!(response.1["content-type"], "application/problem+json");
    }
    let mut twice = request("/orders", Some("a"), "{}");
    twice.headers_mut().append("idempotency-key", "a".parse().unwrap());
    assert_eq!(code(&send(&shop, twice).await), "idempotency_key_malformed");
    let mut anonymous = request("/orders", Some("a"), "{}");
    anonymous.headers_mut().remove("x-who");
    assert_eq!(send(&shop, anonymous).await.0, 401);
    assert_eq!(effects.n(), 0);
    for (method, status) in
        [("GET", 201), ("HEAD", 201), ("OPTIONS", 201), ("PUT", 400), ("PATCH", 400), ("DELETE", 400)]
    {
        let mut one = request("/orders", None, "");
        *one.method_mut() = method.parse().unwrap();
        assert_eq!(send(&shop, one).await.0, status, "{method}");
    }
    assert_eq!(effects.n(), 3);
    let bare = post(&shop, "k").await;
    let quoted = post(&shop, "\"k\"").await;
    assert!(is_replayed(&quoted) && !is_replayed(&bare), "the quotes are not part of the key");
    assert_eq!((quoted.0, &quoted.2, &quoted.1["location"]), (201, &bare.2, &bare.1["location"]));
    let until_ms = program.clock.now_ms() + 86_400_000;
    for response in [&bare, &quoted] {
        assert_eq!(response.1["idempotency-expires-at-ms"], until_ms.to_string());
    }
    drop(shop);
    program.stop().await;
}

async fn what_is_answered_for_good_is_answered_again_and_what_is_not_is_tried_again(database: &Database) {
    async fn answer(State(effects): State<Effects>, Path(status): Path<u16>) -> Response {
        let n = effects.take();
        (StatusCode::from_u16(status).unwrap(), format!("{n}")).into_response()
    }
    let (program, effects) = (Program::start(database).await, Effects::default());
    let router =
        Router::new().route("/{status}", on_post(answer)).layer(program.layer()).with_state(effects.clone());
    for (status, is_kept) in [
        (200, true),
        (204, true),
        (303, true),
        (400, true),
        (404, true),
        (409, true),
        (422, true),
        (401, false),
        (403, false),
        (408, false),
        (425, false),
        (429, false),
        (500, false),
        (503, false),
    ] {
        let (path, key) = (format!("/{status}"), format!("k-{status}"));
        let before_n = effects.n();
        let first = send(&router, request(&path, Some(&key), "{}")).await;
        let second = send(&router, request(&path, Some(&key), "{}")).await;
        assert_eq!((first.0, second.0), (status, status));
        assert_eq!(effects.n() - before_n, if is_kept { 1 } else { 2 }, "{status}");
        assert_eq!((is_replayed(&second), first.2 == second.2), (is_kept, is_kept), "{status}");
    }
    drop(router);
    program.stop().await;
}

async fn another_request_under_a_key_is_refused_with_the_status_of_choice(database: &Database) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let shop = shop(&program, &effects);
    assert_eq!(post(&shop, "k").await.0, 201);
    let mut other_type = request("/orders", Some("k"), "{}");
    other_type.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    for other in [
        request("/orders", Some("k"), "{ }"),
        request("/refunds", Some("k"), "{}"),
        request("/orders?twice=1", Some("k"), "{}"),
        other_type,
    ] {
        let response = send(&shop, other).await;
        assert_eq!((response.0, code(&response).as_str()), (422, "idempotency_key_reused"));
        assert!(response.2.contains("\"expires_at_ms\":"), "{}", response.2);
    }
    let mut bobs = request("/orders", Some("k"), "{}");
    bobs.headers_mut().insert("x-who", "bob".parse().unwrap());
    assert_eq!(send(&shop, bobs).await.0, 201, "his key is another one");
    assert_eq!(effects.n(), 2);
    let other = Router::new().route("/orders", on_post(|| async { "never" }));
    let other = other.layer(program.layer().mismatch_status(409));
    assert_eq!(send(&other, request("/orders", Some("k"), "other")).await.0, 409);
    drop((shop, other));
    program.stop().await;
}

/// A router whose handler signals that it began, and waits until it may go on.
fn slow(program: &Program, effects: &Effects, lock: Duration) -> Router {
    async fn order(State(effects): State<Effects>) -> String {
        let n = effects.take();
        effects.began.notify_one();
        effects.go.notified().await;
        format!("order {n}")
    }
    let layer = program.layer().wait(Duration::ZERO).lock(lock);
    Router::new().route("/orders", on_post(order)).layer(layer).with_state(effects.clone())
}

async fn a_caller_that_hangs_up_finds_its_answer(database: &Database) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let router = slow(&program, &effects, Duration::from_mins(1));
    tokio::select! {
        response = post(&router, "k") => panic!("{response:?}"),
        () = effects.began.notified() => {}
    }
    let busy = post(&router, "k").await;
    assert_eq!((busy.0, code(&busy).as_str()), (409, "idempotency_key_in_use"));
    effects.go.notify_one();
    crate::process::until("it is carried out", Duration::from_secs(30), String::new, async || {
        is_replayed(&post(&router, "k").await)
    })
    .await;
    assert_eq!((post(&router, "k").await.2.as_str(), effects.n()), ("order 1", 1));
    drop(router);
    program.stop().await;
}

async fn a_handler_that_panics_or_takes_too_long_frees_its_key(database: &Database) {
    async fn order(State(effects): State<Effects>) -> String {
        match effects.take() {
            1 => panic!("as it may"),
            2 => std::future::pending().await,
            n => format!("order {n}"),
        }
    }
    let (program, effects) = (Program::start(database).await, Effects::default());
    let layer = program.layer().lock(Duration::from_secs(1));
    let router = Router::new().route("/orders", on_post(order)).layer(layer).with_state(effects.clone());
    assert_eq!(code(&post(&router, "k").await), "internal");
    // Its key is freed by a statement in the background: until then this one waits.
    let late = post(&router, "k").await;
    assert_eq!((late.0, code(&late).as_str()), (503, "idempotency_timeout"));
    assert_eq!((post(&router, "k").await.2.as_str(), effects.n()), ("order 3", 3));
    drop(router);
    program.stop().await;
}

async fn who_takes_over_after_the_lock_has_the_last_word(database: &Database) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let router = slow(&program, &effects, Duration::from_mins(1));
    let old = tokio::spawn({
        let router = router.clone();
        async move { post(&router, "k").await }
    });
    effects.began.notified().await;
    program.clock.advance(60_000);
    // As if the first one's process had stood still: its lock is over, and it does not know.
    let new = tokio::spawn({
        let (effects, layer) = (effects.clone(), program.layer());
        let quick = Router::new()
            .route("/orders", on_post(move || async move { format!("order {}", effects.take()) }));
        async move { post(&quick.layer(layer), "k").await }
    });
    assert_eq!(new.await.unwrap().2, "order 2");
    effects.go.notify_one();
    let late = old.await.unwrap();
    assert_eq!((late.0, code(&late).as_str()), (409, "idempotency_key_in_use"), "its answer is not the one");
    assert_eq!(post(&router, "k").await.2, "order 2");
    drop(router);
    program.stop().await;
}

async fn a_clock_that_jumps_carries_no_request_out_twice(database: &Database) {
    let (program, effects) = (Program::start(database).await, Effects::default());
    let router = slow(&program, &effects, Duration::from_mins(1));
    let first = tokio::spawn({
        let router = router.clone();
        async move { post(&router, "k").await }
    });
    effects.began.notified().await;
    program.clock.advance(3_600_000);
    let again = post(&router, "k").await;
    assert_eq!((again.0, code(&again).as_str()), (409, "idempotency_key_in_use"));
    let other = send(&router, request("/orders", Some("k"), "other")).await;
    assert_eq!((other.0, code(&other).as_str()), (422, "idempotency_key_reused"));
    effects.go.notify_one();
    assert_eq!(first.await.unwrap().2, "order 1");
    assert_eq!((post(&router, "k").await.2.as_str(), effects.n()), ("order 1", 1));
    drop(router);
    program.stop().await;
}

async fn a_long_or_secret_answer_is_given_once(database: &Database) {
    async fn long(State(effects): State<Effects>) -> String {
        effects.take();
        "x".repeat(64 * 1024 + 1)
    }
    async fn secret(State(effects): State<Effects>) -> (HeaderMap, &'static str) {
        effects.take();
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", "no-store".parse().unwrap());
        (headers, "token-0123456789")
    }
    let (program, effects) = (Program::start(database).await, Effects::default());
    let routes = Router::new().route("/long", on_post(long)).route("/secret", on_post(secret));
    let router = routes.layer(program.layer()).with_state(effects.clone());
    for (path, bytes_n) in [("/long", 64 * 1024 + 1), ("/secret", 16)] {
        let first = send(&router, request(path, Some(path), "")).await;
        assert_eq!((first.0, first.2.len()), (200, bytes_n), "it is sent on whole");
        let second = send(&router, request(path, Some(path), "")).await;
        assert_eq!((second.0, code(&second).as_str()), (409, "idempotency_answer_not_kept"));
        assert!(second.2.contains("\"first_status\":200"), "{}", second.2);
    }
    assert_eq!(effects.n(), 2);
    assert_eq!(database.count("SELECT COUNT(*) FROM idempotency_keys WHERE body IS NULL").await, 2);
    drop(router);
    program.stop().await;
}
