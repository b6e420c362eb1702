//! Templates that expand much: their events delay no others, take little memory, and are kept with the reason.

use std::time::{Duration, Instant};

use crate::database::{Database, on_both};
use crate::process::{Server, client, now_s, stripe_header, until};
use crate::stub::Stub;

on_both!(
    an_event_that_a_template_would_make_gigabytes_of_fails_alone,
    a_template_that_others_cannot_wait_for_is_filled_in_alone
);

/// A server whose `push` events are amplified, and whose other events are forwarded.
async fn server(database: &Database, stub: &Stub) -> Server {
    let route = |on: &str, to: &str| {
        format!("[[providers.stripe.routes]]\non = [\"{on}\"]\nto = \"{to}\"\nlane = \"/id\"\n")
    };
    let body = "{\"all\":[{% for commit in payload.commits %}{{ payload.message }},{% endfor %}0]}";
    let more = format!(
        "{}{}[destinations.plain]\nurl = \"{url}/plain\"\nbody = '{{\"id\":{{{{ payload.id }}}}}}'\n[destinations.amplified]\nurl = \
         \"{url}/amplified\"\nbody = '{body}'\n",
        route("invoice.paid", "plain"),
        route("push", "amplified"),
        url = stub.url(),
    );
    let mut server = Server::prepare(&database.url, &more);
    server.server_keys("body_bytes_max = 8388608");
    server.spawn().await;
    server
}

/// Sends a signed event; the status, the outcome and the time of the answer.
async fn post(server: &Server, body: String) -> (u16, String, Duration) {
    let since = Instant::now();
    let request = client().post(server.url("/webhooks/stripe"));
    let signed = request.header("stripe-signature", stripe_header(&body, now_s())).body(body);
    let response = signed.send().await.unwrap();
    let outcome = response.headers().get("hooklatch-outcome").map_or("", |value| value.to_str().unwrap());
    (response.status().as_u16(), outcome.to_owned(), since.elapsed())
}

/// An event with a text of `text_n` bytes and a list of `commits_n`.
fn push(id: &str, text_n: usize, commits_n: usize) -> String {
    let (text, commits) = ("m".repeat(text_n), vec!["1"; commits_n].join(","));
    format!(
        r#"{{"id":"{id}","type":"push","data":{{"object":{{"id":"{id}","message":"{text}","commits":[{commits}]}}}}}}"#
    )
}

fn paid(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"invoice.paid","data":{{"object":{{"id":"{id}"}}}}}}"#)
}

async fn an_event_that_a_template_would_make_gigabytes_of_fails_alone(database: &Database) {
    let stub = Stub::start().await;
    let server = server(database, &stub).await;
    assert_eq!(post(&server, paid("evt_warm")).await.0, 200);
    let (before, _) = server.usage();
    for (n, kib) in [127, 307, 423].into_iter().enumerate() {
        let poison = push(&format!("evt_poison_{n}"), kib * 512, kib * 256);
        assert_eq!(poison.len() / 1024, kib, "its size");
        // Its sender tries again and again, beside honest events.
        let repeats = async {
            for outcome in ["accepted", "duplicate", "duplicate", "duplicate"] {
                let (status, answer, _) = post(&server, poison.clone()).await;
                assert_eq!((status, answer.as_str()), (200, outcome), "{kib} KiB");
            }
        };
        let honest = async {
            for one in 0..40 {
                let (status, answer, took) = post(&server, paid(&format!("evt_{n}_{one}"))).await;
                assert_eq!((status, answer.as_str()), (200, "accepted"), "beside {kib} KiB");
                assert!(took < Duration::from_secs(2), "beside {kib} KiB: {took:?}");
            }
        };
        tokio::join!(repeats, honest);
    }
    let failed = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'failed' AND attempts_n = 1
        AND error LIKE 'template of destination `amplified`, body: %'";
    until(
        "all three failed",
        Duration::from_secs(20),
        || server.log(),
        async || database.count(failed).await == 3,
    )
    .await;
    let calls = || server.log();
    until("the others are called", Duration::from_secs(20), calls, async || stub.requests_n() == 121).await;
    let (after, _) = server.usage();
    assert!(after - before < 96 << 20, "{} MiB more", (after - before) >> 20);
}

async fn a_template_that_others_cannot_wait_for_is_filled_in_alone(database: &Database) {
    let stub = Stub::start().await;
    let server = server(database, &stub).await;
    for outcome in ["accepted", "duplicate"] {
        let (status, answer, _) = post(&server, push("evt_large", 1_000, 300)).await;
        assert_eq!((status, answer.as_str()), (200, outcome));
    }
    // Larger than what is parsed beside others.
    let filler = format!(r#"{{"filler":"{}","#, "x".repeat(1 << 20));
    assert_eq!(post(&server, push("evt_wide", 10, 10).replacen('{', &filler, 1)).await.0, 200);
    let handled = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled' AND attempts_n = 1";
    let log = || server.log();
    until("both are dispatched", Duration::from_secs(20), log, async || database.count(handled).await == 2)
        .await;
    until("each is called once", Duration::from_secs(20), log, async || stub.requests_n() == 2).await;
}
