//! One event is one trace: across attempts, a kill, and two nodes.

use super::called::{Answer, CalledDestination};
use super::collector::{Collector, ReceivedSpan};
use super::{TOKEN, soon, traced};
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe};

on_both!(
    the_spans_of_one_event_are_one_trace_across_a_kill,
    every_span_says_what_was_done_and_nothing_of_what_was_sent,
);

/// The server's ledger of an event.
async fn ledger(server: &Server, id: &str) -> serde_json::Value {
    let url = format!("http://{}/v1/events/stripe/{id}", server.admin);
    let answer = client().get(url).bearer_auth(TOKEN).send().await.unwrap();
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// The `traceparent` of a call's span.
fn traceparent(span: &ReceivedSpan) -> String {
    format!("00-{}-{}-01", span.trace_id, span.span_id)
}

async fn the_spans_of_one_event_are_one_trace_across_a_kill(database: &Database) {
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    far.next(&[Answer::Status(500), Answer::Silence]);
    // The second call is still under way when the first spans are exported, also where everything is slow.
    let config = traced(&collector, &far, "").replace("timeout_ms = 20000", "timeout_ms = 5000");
    let config = config.replace("lease_ms = 30000", "lease_ms = 5500");
    let mut server = Server::start(&database.url, &config).await;
    assert_eq!(post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), "accepted");
    soon("the second call is under way", &server, async || far.calls_n() == 2).await;
    soon("the admission and the first attempt have spans", &server, async || {
        !collector.named("admit stripe").is_empty() && !collector.named("send billing").is_empty()
    })
    .await;
    server.kill();
    server.spawn().await;
    soon("a later process succeeds", &server, async || {
        collector.named("send billing").iter().any(|span| span.get("hooklatch.outcome") == "done")
    })
    .await;
    let shown = ledger(&server, "evt_1").await;
    let trace_id = shown["trace_id"].as_str().unwrap();
    assert_eq!(shown["is_trace_recorded"], true);
    let admission = &collector.named("admit stripe")[0];
    assert_eq!((admission.trace_id.as_str(), admission.parent_id.as_str()), (trace_id, ""));
    let attempts = collector.named("send billing");
    assert!(attempts.iter().all(|one| one.trace_id == trace_id && one.parent_id == admission.span_id));
    let results: Vec<(&str, &str)> =
        attempts.iter().map(|one| (one.get("hooklatch.attempt_n"), one.get("hooklatch.outcome"))).collect();
    assert_eq!(results, [("1", "retry"), ("3", "done")], "the second one died with its process");
    let said = far.spans();
    assert_eq!(said.len(), 3);
    assert_eq!((said[0].0, said[0].1.as_ref()), (1, Some(&traceparent(&attempts[0]))));
    assert_eq!((said[2].0, said[2].1.as_ref()), (3, Some(&traceparent(&attempts[1]))));
    assert!(said[1].1.as_ref().unwrap().contains(trace_id), "also what has no span");
    far.check_signatures();
    assert!(server.terminate(), "{}", server.log());
}

async fn every_span_says_what_was_done_and_nothing_of_what_was_sent(database: &Database) {
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    let more = "service_name = \"shop\"\nheaders = { \"x-key\" = \"s3cr3t-of-the-collector\" }";
    let mut server = Server::start(&database.url, &traced(&collector, &far, more)).await;
    for outcome in ["accepted", "duplicate"] {
        assert_eq!(post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), outcome);
    }
    soon("its spans are exported", &server, async || {
        collector.named("admit stripe").len() == 2 && collector.named("send billing").len() == 1
    })
    .await;
    assert!(server.terminate(), "{}", server.log());
    let (headers, path) = collector.last();
    assert_eq!(
        (path.as_str(), &headers["content-type"]),
        ("/v1/traces", &"application/x-protobuf".parse().unwrap())
    );
    assert_eq!(headers["x-key"], "s3cr3t-of-the-collector");
    let spans = collector.spans();
    assert!(spans.iter().all(|one| one.resource["service.name"] == "shop"));
    assert!(spans.iter().all(|one| one.began_ns <= one.ended_ns && one.began_ns > 1_700_000_000_000_000_000));
    let [first, copy] = &collector.named("admit stripe")[..] else { panic!("{spans:?}") };
    assert_eq!((first.get("hooklatch.outcome"), copy.get("hooklatch.outcome")), ("accepted", "duplicate"));
    assert_eq!(
        (&copy.trace_id, &copy.parent_id),
        (&first.trace_id, &first.span_id),
        "a copy joins the trace"
    );
    assert_ne!(copy.span_id, first.span_id);
    for (key, value) in [
        ("messaging.system", "hooklatch"),
        ("messaging.operation.type", "process"),
        ("http.request.method", "POST"),
        ("http.route", "/webhooks/stripe"),
        ("http.response.status_code", "200"),
        ("hooklatch.event.id", "evt_1"),
        ("hooklatch.event.type", "invoice.paid"),
    ] {
        assert_eq!((key, first.get(key)), (key, value));
    }
    let commits = collector.named("commit");
    let commit = commits.iter().find(|one| one.began_ns <= first.ended_ns).expect("its commit");
    assert_eq!(
        (&commit.trace_id, &commit.parent_id),
        (&first.trace_id, &first.span_id),
        "one trace, not two"
    );
    assert_eq!((commit.get("messaging.batch.message_count"), first.links.len()), ("1", 0));
    assert!(first.began_ns <= commit.began_ns && commit.ended_ns <= first.ended_ns, "within the admission");
    let sent = &collector.named("send billing")[0];
    for (key, value) in [
        ("messaging.system", "hooklatch"),
        ("messaging.operation.name", "send"),
        ("messaging.destination.name", "billing"),
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("hooklatch.attempt_n", "1"),
        ("hooklatch.next", "done"),
        ("server.address", "127.0.0.1"),
        ("url.scheme", "http"),
        ("error.type", ""),
    ] {
        assert_eq!((key, sent.get(key)), (key, value));
    }
    assert_eq!((first.kind, sent.kind, sent.is_error), (5, 3, false));
    let text = format!("{spans:?}");
    for unwanted in ["in_evt_1", "amount_paid", "stripe-signature", "t=1", "whsec", "s3cr3t"] {
        assert!(!text.contains(unwanted), "`{unwanted}` in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_and_their_verdicts_agree_about_every_event() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    let more = traced(&collector, &far, "ratio = 0.5");
    let (mut one, mut other) =
        (Server::start(&database.url, &more).await, Server::start(&database.url, &more).await);
    let client = client();
    for n in 0..40 {
        let (first, second) = if n % 2 == 0 { (&one, &other) } else { (&other, &one) };
        for node in [first, second] {
            post_stripe(&client, &node.url("/webhooks/stripe"), &format!("evt_{n}")).await.unwrap();
        }
    }
    soon("all are done", &one, async || {
        database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'").await == 40
    })
    .await;
    let mut recorded_n = 0;
    for n in 0..40 {
        let (here, there) =
            (ledger(&one, &format!("evt_{n}")).await, ledger(&other, &format!("evt_{n}")).await);
        assert_eq!(
            (&here["trace_id"], &here["is_trace_recorded"]),
            (&there["trace_id"], &there["is_trace_recorded"])
        );
        recorded_n += usize::from(here["is_trace_recorded"] == true);
    }
    assert!((5..=35).contains(&recorded_n), "{recorded_n} of 40 at a half");
    // Of each recorded event: its admission by one node, the copy by the other, and its attempt by either.
    let exported_n = || (collector.named("admit stripe").len(), collector.named("send billing").len());
    soon("all are exported", &one, async || {
        let (admitted_n, sent_n) = exported_n();
        admitted_n >= 2 * recorded_n && sent_n >= recorded_n
    })
    .await;
    assert!(one.terminate() && other.terminate());
    assert_eq!(exported_n(), (2 * recorded_n, recorded_n));
    let nodes: std::collections::BTreeSet<String> =
        collector.spans().iter().map(|span| span.resource["service.instance.id"].clone()).collect();
    assert_eq!(nodes.len(), 2);
    // Calls carry the sampling decision, too.
    let said: Vec<String> = far.spans().into_iter().filter_map(|(_, said)| said).collect();
    assert_eq!(said.len(), 40);
    assert_eq!(said.iter().filter(|said| said.ends_with("-01")).count(), recorded_n);
}
