//! Trace headers of senders, and of Hooklatch's calls.

use super::called::CalledDestination;
use super::collector::{Collector, ReceivedSpan};
use super::{soon, traced};
use crate::database::{Database, On};
use crate::process::{Server, client, now_s, stripe};

const THEIRS: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const THEIR_SPAN: &str = "00f067aa0ba902b7";

/// Admits one event whose request has these `traceparent`s, and gives its span.
async fn admitted(rule: &str, said: &[String]) -> ReceivedSpan {
    let database = Database::create(On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    let mut server = Server::prepare(&database.url, &traced(&collector, &far, rule));
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("filter = \"warn\"", "filter = \"info\"")).unwrap();
    server.spawn().await;
    let (body, header) = stripe("evt_1", now_s());
    let mut request =
        client().post(server.url("/webhooks/stripe")).header("stripe-signature", header).body(body);
    for value in said {
        request = request.header("traceparent", http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    assert_eq!(request.send().await.unwrap().status(), 200);
    soon("it is reported", &server, async || !collector.named("admit stripe").is_empty()).await;
    soon("it is called", &server, async || far.calls_n() == 1).await;
    assert!(server.terminate(), "{}", server.log());
    let span = collector.named("admit stripe").remove(0);
    assert_eq!(span.parent_id, "", "never a parent");
    assert_ne!(span.trace_id, THEIRS, "never their trace");
    // The log leads to it.
    let trace_id = format!("\"trace_id\":\"{}\"", span.trace_id);
    assert!(server.log().contains(&trace_id), "{trace_id}: {}", server.log());
    let said = far.spans().remove(0).1.unwrap();
    assert!(said.contains(&span.trace_id), "calls are of our trace: {said}");
    span
}

/// True when the span has a link to theirs.
fn is_linked(span: &ReceivedSpan) -> bool {
    span.links.contains(&(THEIRS.to_owned(), THEIR_SPAN.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_traceparent_is_not_looked_at_and_a_trusted_one_is_a_link() {
    let theirs = format!("00-{THEIRS}-{THEIR_SPAN}-01");
    for (rule, said, want) in [
        ("", vec![theirs.clone()], false),
        ("inbound = \"ignore\"", vec![theirs.clone()], false),
        ("inbound = \"link\"", vec![theirs.clone()], true),
        ("inbound = \"link\"", vec![theirs.clone(), theirs.replace("-01", "-00")], false),
        ("inbound = \"link\"", vec![format!("00-{}-{THEIR_SPAN}-01", "0".repeat(32))], false),
        ("inbound = \"link\"", vec!["é".repeat(3_000)], false),
        ("inbound = \"link\"", Vec::new(), false),
    ] {
        let span = admitted(rule, &said).await;
        assert_eq!((is_linked(&span), span.links.len()), (want, usize::from(want)), "{rule} {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_traceparent_header_in_a_destinations_configuration_wins() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    let own = format!("00-{THEIRS}-{THEIR_SPAN}-01");
    let config = format!("{}headers = {{ traceparent = \"{own}\" }}\n", traced(&collector, &far, ""));
    let server = Server::start(&database.url, &config).await;
    crate::process::post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    soon("it is called", &server, async || far.calls_n() == 1).await;
    assert_eq!(far.spans(), [(1, Some(own))]);
    far.check_signatures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_requests_are_equal_with_and_without_tracing() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let (collector, far) = (Collector::start().await, CalledDestination::start().await);
    let on = traced(&collector, &far, "");
    let off = on.replacen(&format!("endpoint = \"{}\"\n", collector.url()), "", 1);
    for (n, config) in [on, off].iter().enumerate() {
        let mut server = Server::start(&database.url, config).await;
        let (body, header) = stripe(&format!("evt_{n}"), now_s());
        let sent = client()
            .post(server.url("/webhooks/stripe"))
            .header("stripe-signature", header)
            .body(body.clone());
        sent.send().await.unwrap();
        soon("it is called", &server, async || far.calls_n() == n + 1).await;
        assert_eq!(far.bodies()[n], body, "byte for byte");
        assert!(server.terminate());
    }
    far.check_signatures();
}
