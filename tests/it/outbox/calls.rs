//! One step at a time: what an attempt does and where its message goes.

use std::time::Duration;

use hooklatch_core::config::{DestinationConfig, KindSettings, Secret, UnknownPolicy};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::AttemptResult;
use hooklatch_store::{LeaseWant, SettleTo, Settlement};
use tokio::net::TcpListener;

use super::{Fixture, HOUR_MS, START_MS, die_holding};
use crate::database::{Database, on_both};
use crate::process::until;
use crate::store::{admit, event, message, name};
use crate::stub::{Mode, Stub};
use hooklatch_receive::provider::Kind;

on_both!(
    a_call_carries_its_key_and_the_events_own_bytes,
    a_failure_is_tried_again_under_the_same_key_with_the_same_bytes,
    refused_and_redirected_calls_are_dead_and_not_followed,
    a_destination_that_is_down_is_tried_again_and_then_given_up,
    an_unknown_outcome_is_treated_as_configured,
    a_connection_that_hangs_before_it_stands_was_not_sent,
    a_destination_with_an_undecided_answer_is_queried_again_and_never_called,
    retry_after_is_honoured_and_capped,
    a_body_that_never_ends_costs_no_more_than_the_timeout,
    a_worker_that_died_leaves_an_unknown_outcome,
    a_stale_settlement_is_fenced,
    a_message_is_handed_back_when_its_lease_expires_before_the_call,
    nothing_is_sent_after_the_key_may_have_expired_at_the_destination,
    a_signed_call_verifies_with_each_of_the_secrets,
    an_open_breaker_sends_one_probe_and_then_the_rest,
    headers_that_never_end_leave_the_outcome_unknown,
);

async fn a_call_carries_its_key_and_the_events_own_bytes(database: &Database) {
    let fixture = Fixture::new(database).await;
    let mut sent = message("billing");
    "/sub?x=1".clone_into(&mut sent.path);
    admit(&fixture.store, &event("evt_é", "{\"a\":1}"), &[sent]).await;
    let mut config = fixture.config(UnknownPolicy::Retry);
    config.headers.insert("idempotency-key".to_owned(), Secret::new("not this one"));
    assert_eq!(fixture.outbox(config).run_due().await.unwrap(), 1);
    let row = fixture.row("evt_é").await;
    assert_eq!((row.state.as_str(), row.attempts_n, row.last_error.as_deref()), ("done", 1, None));
    let call = fixture.stub.call(&fixture.key("evt_é", "billing"));
    assert_eq!((call.requests_n, call.effects_n, call.path.as_str()), (1, 1, "/calls/sub?x=1"));
    assert_eq!(call.bodies, ["{\"a\":1}"]);
    let message_id = row.message_id.to_string();
    let wanted = [
        ("idempotency-key", row.idempotency_key.as_str()),
        ("authorization", "Bearer canary"),
        ("content-type", "application/json"),
        ("hooklatch-message-id", message_id.as_str()),
        ("hooklatch-attempt", "1"),
        ("hooklatch-event-id", "evt_%C3%A9"),
        ("hooklatch-event-type", "invoice.paid"),
        ("x-a", "b"),
    ];
    for (header, value) in wanted {
        assert_eq!(call.headers[header], value, "{header}");
    }
}

async fn a_failure_is_tried_again_under_the_same_key_with_the_same_bytes(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(500), Mode::Status(408)]);
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    assert_eq!(outbox.run_due().await.unwrap(), 1);
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.last_error.as_deref()), ("ready", Some("answered 500")));
    assert!((1..=1_000).contains(&(row.visible_at_ms - START_MS)), "{row:?}");
    fixture.step_to_the_end(&outbox).await;
    assert_eq!(fixture.state("evt_1").await, "done");
    let call = fixture.stub.call(&fixture.key("evt_1", "billing"));
    assert_eq!((call.requests_n, call.effects_n), (3, 1));
    assert!(call.bodies.iter().all(|body| body.as_ref() == b"{\"a\":1}"));
    assert_eq!(call.headers["hooklatch-attempt"], "3");
}

async fn refused_and_redirected_calls_are_dead_and_not_followed(database: &Database) {
    let fixture = Fixture::new(database).await;
    let elsewhere = Stub::start().await;
    let location: &'static str = Box::leak(elsewhere.url().into_boxed_str());
    let headers: &'static [(&str, &str)] = Box::leak(Box::new([("location", location)]));
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    for (n, (mode, error)) in [
        (Mode::Status(400), "refused; answered 400"),
        (Mode::With(301, headers), "redirects are not followed; answered 301"),
        (Mode::With(307, headers), "redirects are not followed; answered 307"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("evt_{n}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[mode]);
        fixture.step_to_the_end(&outbox).await;
        let row = fixture.row(&id).await;
        assert_eq!((row.state.as_str(), row.last_error.as_deref()), ("dead", Some(error)));
        assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), (1, 0));
        assert_eq!(elsewhere.counts(&fixture.key(&id, "billing")), (0, 0));
    }
    assert_eq!(elsewhere.questions_n(), 0, "a redirected POST may become a GET");
}

async fn a_destination_that_is_down_is_tried_again_and_then_given_up(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let mut config = fixture.config(UnknownPolicy::Hold);
    "http://127.0.0.1:9/secret-path".clone_into(&mut config.url);
    let outbox = fixture.outbox(config);
    outbox.run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    let error = row.last_error.unwrap();
    assert_eq!(row.state.as_str(), "ready", "surely not sent, so `hold` does not hold it");
    assert!(error.contains("refused") && !error.contains("secret-path"), "{error}");
    fixture.step_to_the_end(&outbox).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.attempts_n), ("dead", 3));
}

async fn an_unknown_outcome_is_treated_as_configured(database: &Database) {
    let fixture = Fixture::new(database).await;
    let cases = [
        ("retry", UnknownPolicy::Retry, "done", (2, 1), 0),
        ("query", fixture.query(), "done", (1, 1), 1),
        ("hold", UnknownPolicy::Hold, "held", (1, 1), 0),
    ];
    for (how, mode) in [("drop", Mode::ActThenDrop), ("hang", Mode::ActThenHang)] {
        for (policy, unknown, state, counts, questions_n) in &cases {
            let id = format!("evt_{how}_{policy}");
            let asked_before_n = fixture.stub.questions_n();
            fixture.message(&id, &["billing"]).await;
            fixture.stub.next(std::slice::from_ref(&mode));
            let outbox = |timeout_ms| {
                fixture.outbox(DestinationConfig { timeout_ms, ..fixture.config(unknown.clone()) })
            };
            // Only the call that hangs is to reach its time-out.
            let first_ms = if how == "hang" { 2_000 } else { 10_000 };
            assert_eq!(outbox(first_ms).run_due().await.unwrap(), 1, "{id}");
            fixture.clock.advance(70_000);
            fixture.step_to_the_end(&outbox(10_000)).await;
            assert_eq!(fixture.state(&id).await, *state, "{id}");
            assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), *counts, "{id}");
            assert_eq!(fixture.stub.questions_n() - asked_before_n, *questions_n, "{id}");
        }
    }
    // Without an effect the question is answered with no, and only then the message is sent again.
    fixture.message("evt_no", &["billing"]).await;
    fixture.stub.next(&[Mode::Drop]);
    fixture.step_to_the_end(&fixture.outbox(fixture.config(fixture.query()))).await;
    assert_eq!(fixture.state("evt_no").await, "done");
    assert_eq!(fixture.stub.counts(&fixture.key("evt_no", "billing")), (2, 1));
}

async fn a_connection_that_hangs_before_it_stands_was_not_sent(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    // The kernel accepts for it; it never speaks TLS.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = DestinationConfig { timeout_ms: 600, ..fixture.config(UnknownPolicy::Hold) };
    config.url = format!("https://{}/", silent.local_addr().unwrap());
    fixture.outbox(config).run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!(row.state.as_str(), "ready", "{row:?}");
    assert!(row.last_error.unwrap().starts_with("not sent"));
}

async fn a_destination_with_an_undecided_answer_is_queried_again_and_never_called(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::ActThenDrop]);
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    fixture.stub.next_question(&[Mode::Status(500), Mode::Drop]);
    fixture.step_to_the_end(&outbox).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.attempts_n), ("held", 3), "a person decides what is unknown");
    assert_eq!(
        (fixture.stub.questions_n(), fixture.stub.counts(&fixture.key("evt_1", "billing"))),
        (2, (1, 1))
    );
}

async fn retry_after_is_honoured_and_capped(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    let cases: [(&'static [(&str, &str)], i64); 4] = [
        (&[("retry-after", "120")], 120_000),
        (&[("retry-after", "0")], 1_000),
        (&[("retry-after", "99999999999999999999")], 600_000),
        (&[("retry-after", "Thu, 01 Jan 1970 00:02:01 GMT")], 120_000),
    ];
    for (n, (headers, wait_ms)) in cases.into_iter().enumerate() {
        let id = format!("evt_{n}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::With(429, headers)]);
        outbox.run_due().await.unwrap();
        let row = fixture.row(&id).await;
        assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", START_MS + wait_ms), "{headers:?}");
    }
}

async fn a_body_that_never_ends_costs_no_more_than_the_timeout(database: &Database) {
    let fixture = Fixture::new(database).await;
    // The endless one is cut at 64 KiB, long before its timeout; the stalled one at its timeout.
    for (id, mode, timeout_ms) in [("evt_endless", Mode::Endless, 25_000), ("evt_stall", Mode::Stall, 3_000)]
    {
        let outbox = fixture.outbox(DestinationConfig { timeout_ms, ..fixture.config(UnknownPolicy::Hold) });
        fixture.message(id, &["billing"]).await;
        fixture.stub.next(&[mode]);
        let in_time = tokio::time::timeout(Duration::from_secs(20), outbox.run_due()).await;
        assert_eq!(in_time.unwrap().unwrap(), 1);
        assert_eq!(fixture.state(id).await, "done", "the status decides");
    }
}

async fn a_worker_that_died_leaves_an_unknown_outcome(database: &Database) {
    let fixture = Fixture::new(database).await;
    let cases = [
        ("retry", UnknownPolicy::Retry, "done", (1, 1), 0),
        ("query", fixture.query(), "done", (1, 1), 1),
        ("hold", UnknownPolicy::Hold, "held", (0, 0), 0),
    ];
    for (policy, unknown, state, counts, questions_n) in cases {
        let id = format!("evt_{policy}");
        let asked_before_n = fixture.stub.questions_n();
        fixture.message(&id, &["billing"]).await;
        die_holding(&fixture).await;
        assert_eq!(fixture.outbox(fixture.config(unknown)).run_due().await.unwrap(), 1);
        let row = fixture.row(&id).await;
        assert_eq!((row.state.as_str(), row.attempts_n), (state, 2), "{id}");
        assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), counts, "{id}");
        assert_eq!(fixture.stub.questions_n() - asked_before_n, questions_n, "{id}");
    }
}

async fn a_stale_settlement_is_fenced(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 9,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: HOUR_MS,
    };
    let old = fixture.store.message_lease(&[want], START_MS, 30_000, "node-0").await.unwrap().remove(0);
    fixture.clock.advance(30_000);
    fixture.outbox(fixture.config(UnknownPolicy::Retry)).run_due().await.unwrap();
    let late = Settlement {
        message_id: old.message_id,
        destination: old.destination.clone(),
        lane: None,
        attempt_n: old.attempt_n,
        to: SettleTo::Dead,
        result: AttemptResult::Refused,
        http_status: None,
        error: None,
        response: None,
        is_unsent: false,
        sent_under: None,
        settled_at_ms: fixture.clock.now_ms(),
    };
    assert_eq!(fixture.store.message_settle(&[late]).await.unwrap(), [false]);
    assert_eq!(fixture.state("evt_1").await, "done");
}

async fn a_message_is_handed_back_when_its_lease_expires_before_the_call(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    die_holding(&fixture).await;
    let clock = fixture.clock.clone();
    fixture.stub.on_question(move || clock.advance(29_000));
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    outbox.run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", fixture.clock.now_ms()));
    assert!(row.last_error.unwrap().starts_with("handed back"));
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (0, 0));
    fixture.stub.on_question(|| {});
    outbox.run_due().await.unwrap();
    assert_eq!(fixture.state("evt_1").await, "done");
    assert_eq!(fixture.stub.questions_n(), 2, "what was unknown before is asked again");
}

async fn nothing_is_sent_after_the_key_may_have_expired_at_the_destination(database: &Database) {
    let fixture = Fixture::new(database).await;
    for unknown in [UnknownPolicy::Retry, UnknownPolicy::Hold, fixture.query()] {
        let id = format!("evt_{}", fastrand::u32(..));
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::Status(503)]);
        let outbox = fixture.outbox(fixture.config(unknown));
        outbox.run_due().await.unwrap();
        assert_eq!(fixture.state(&id).await, "ready");
        fixture.clock.advance(23 * HOUR_MS);
        assert_eq!(outbox.run_due().await.unwrap(), 1);
        assert_eq!(fixture.state(&id).await, "held");
        assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), (1, 0));
    }
}

async fn a_signed_call_verifies_with_each_of_the_secrets(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let before = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let after = Secret::new("whsec_bmV3IHNlY3JldCBvZiBhIHJlY2VpdmVy");
    let config = DestinationConfig {
        sign_secrets: vec![after.clone(), before.clone()],
        ..fixture.config(UnknownPolicy::Retry)
    };
    fixture.outbox(config).run_due().await.unwrap();
    let call = fixture.stub.call(&fixture.key("evt_1", "billing"));
    assert_eq!(call.headers["webhook-id"], fixture.key("evt_1", "billing"));
    // As the destination would: with the kind that believes Standard Webhooks.
    let kinds = hooklatch_receive::providers::builtin();
    let kind = kinds.iter().find(|kind| kind.kind() == "standard_webhooks").unwrap();
    let request = hooklatch_verify::RawRequest {
        method: http::Method::POST,
        url: String::new(),
        headers: call.headers.clone(),
        body: call.bodies[0].clone(),
        received_at_ms: fixture.clock.now_ms(),
    };
    for secret in [before, after] {
        kind.judge_with(&[secret], &KindSettings::default()).unwrap().verify(request.clone()).unwrap();
    }
    let other = Secret::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert!(kind.judge_with(&[other], &KindSettings::default()).unwrap().verify(request).is_err());
}

async fn an_open_breaker_sends_one_probe_and_then_the_rest(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..6 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    fixture.stub.next(&[Mode::Status(503), Mode::Status(503), Mode::Status(503)]);
    let config = DestinationConfig {
        concurrency_n: 1,
        breaker_failures_n: 3,
        breaker_open_ms: 100,
        ..fixture.config(UnknownPolicy::Hold)
    };
    let outbox = fixture.outbox(config);
    let (stopper, stopping) = Stop::channel();
    let mut running = tokio::task::JoinSet::new();
    running.spawn(outbox.run(stopping));
    let called = async |n: u32| {
        let requests_n = || {
            (0..6).map(|n| fixture.stub.counts(&fixture.key(&format!("evt_{n}"), "billing")).0).sum::<u32>()
        };
        while requests_n() < n {
            tokio::task::yield_now().await;
        }
        requests_n()
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), called(3)).await.unwrap(), 3);
    // The clock stands, so the breaker stays open: polls pass and nothing is sent.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(called(0).await, 3);
    // A failure that is written later than the clock is advanced would be due when it never is.
    let failed = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND last_result IS NOT NULL";
    until("they are written", Duration::from_secs(20), String::new, async || {
        database.count(failed).await == 3
    })
    .await;
    fixture.clock.advance(70_000);
    for n in 0..6 {
        fixture.until(&format!("evt_{n}"), "done").await;
    }
    assert_eq!(called(0).await, 9, "the three that failed were sent once more");
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn headers_that_never_end_leave_the_outcome_unknown(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut talking = tokio::task::JoinSet::new();
    talking.spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        let mut said = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while said.is_ok() {
            said = stream.write_all(b"x-more: and more\r\n").await;
        }
    });
    let config = DestinationConfig { url, timeout_ms: 10_000, ..fixture.config(UnknownPolicy::Hold) };
    fixture.outbox(config).run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!(
        (row.state.as_str(), row.last_result.map(AttemptResult::as_str)),
        ("held", Some("unknown")),
        "{row:?}"
    );
}
