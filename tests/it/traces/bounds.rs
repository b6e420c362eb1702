//! Whatever the collector does, events are admitted and called; what it does not take is dropped and counted.

use std::time::{Duration, Instant};

use super::called::CalledDestination;
use super::collector::{Behaviour, Collector};
use super::{counter, soon, traced};
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, post_stripe};

on_sqlite!(with_a_collector_that_is_gone_or_stalls_or_refuses_events_are_admitted_and_called);

/// Events of one round, and the queue that is shorter than their spans.
const EVENTS_N: usize = 60;
/// What is logged when a collector takes nothing.
const AWAY: &str = "the collector does not take spans";
const SHORT: &str = "queue_n_max = 20\ntimeout_ms = 500";

async fn with_a_collector_that_is_gone_or_stalls_or_refuses_events_are_admitted_and_called(
    database: &Database,
) {
    for (round, behaviour) in
        [None, Some(Behaviour::Stalls), Some(Behaviour::Refuses(503)), Some(Behaviour::Refuses(400))]
            .into_iter()
            .enumerate()
    {
        let collector = if behaviour.is_some() { Collector::start().await } else { Collector::gone() };
        collector.behave(behaviour.unwrap_or(Behaviour::Takes));
        let far = CalledDestination::start().await;
        let mut server = Server::start(&database.url, &traced(&collector, &far, SHORT)).await;
        let client = client();
        let url = server.url("/webhooks/stripe");
        assert_eq!(post_stripe(&client, &url, &format!("first_{round}")).await.as_deref(), Ok("accepted"));
        soon("it was tried", &server, async || server.log().contains(AWAY)).await;
        for n in 0..EVENTS_N {
            let sent = post_stripe(&client, &url, &format!("evt_{round}_{n}")).await;
            assert_eq!(sent.as_deref(), Ok("accepted"));
        }
        soon("all are called", &server, async || far.calls_n() == EVENTS_N + 1).await;
        soon("drops are counted", &server, async || {
            counter(&server, "hooklatch_spans_dropped_total").await > 0
        })
        .await;
        assert_eq!(counter(&server, "hooklatch_spans_exported_total").await, 0);
        let stopped = Instant::now();
        assert!(server.terminate(), "{}", server.log());
        assert!(stopped.elapsed() < Duration::from_secs(20), "a stop does not wait for it");
        let lines = server.log();
        assert_eq!(lines.matches(AWAY).count(), 1, "one line, not one a span: {lines}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_spans_count_as_exported_and_rejected_ones_as_dropped() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    collector.behave(Behaviour::Rejects(1));
    let server = Server::start(&database.url, &traced(&collector, &far, "")).await;
    let client = client();
    let post = async |id: &str| post_stripe(&client, &server.url("/webhooks/stripe"), id).await.unwrap();
    let both = async || {
        let of = async |name| counter(&server, name).await;
        (of("hooklatch_spans_exported_total").await, of("hooklatch_spans_dropped_total").await)
    };
    post("evt_1").await;
    // Admission, commit and attempt, in one post or in more; each of which throws one away.
    soon("they are posted", &server, async || both().await.0 + both().await.1 == 3).await;
    assert_eq!(both().await.1, collector.posts_n() as u64);
    // More than there were, fewer than none, and words that mean nothing.
    let mut before = both().await;
    for (behaviour, id) in [
        (Behaviour::Rejects(i64::MAX), "evt_2"),
        (Behaviour::Rejects(-7), "evt_3"),
        (Behaviour::InvalidResponse, "evt_4"),
    ] {
        collector.behave(behaviour);
        post(id).await;
        soon("they are posted", &server, async || both().await.0 + both().await.1 == before.0 + before.1 + 3)
            .await;
        let now = both().await;
        let dropped_n = now.1 - before.1;
        assert_eq!(dropped_n, if behaviour == Behaviour::Rejects(i64::MAX) { 3 } else { 0 });
        before = now;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_was_away_for_a_moment_gets_what_waited() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    collector.behave(Behaviour::Refuses(503));
    let server = Server::start(&database.url, &traced(&collector, &far, "")).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    soon("it was refused", &server, async || collector.posts_n() > 0).await;
    collector.behave(Behaviour::Takes);
    soon("it is there", &server, async || {
        !collector.named("admit stripe").is_empty() && !collector.named("send billing").is_empty()
    })
    .await;
    assert_eq!(counter(&server, "hooklatch_spans_dropped_total").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_sampling_ratio_of_zero_no_span_is_exported_and_calls_are_unsampled() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    let mut server = Server::start(&database.url, &traced(&collector, &far, "ratio = 0")).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    soon("it is called", &server, async || far.calls_n() == 1).await;
    assert!(server.terminate());
    assert_eq!(collector.posts_n(), 0);
    assert!(far.spans()[0].1.as_ref().unwrap().ends_with("-00"), "not recorded: {:?}", far.spans());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_propagation_a_call_has_no_traceparent() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    for (id, more) in [("evt_off", "endpoint = \"\""), ("evt_silent", "propagate = false")] {
        let config = traced(&collector, &far, more);
        let config = if id == "evt_off" {
            config.replacen(&format!("endpoint = \"{}\"\n", collector.url()), "", 1)
        } else {
            config
        };
        let mut server = Server::start(&database.url, &config).await;
        let before_n = far.calls_n();
        post_stripe(&client(), &server.url("/webhooks/stripe"), id).await.unwrap();
        soon("it is called", &server, async || far.calls_n() > before_n).await;
        assert!(server.terminate());
        assert_eq!(far.spans().last().unwrap().1, None, "{id}");
        assert_eq!(collector.posts_n() > 0, id == "evt_silent");
    }
}
