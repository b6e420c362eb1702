//! Bodies of more than a mebibyte: admitted alone, never delayed by unsigned requests, refused at once when too large.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::admit::{book, create_ledger};
use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, stripe_header, until};
use crate::stub::Stub;

on_both!(
    a_large_event_is_admitted_once_and_followed,
    a_large_event_of_a_transactional_handler_is_admitted_once
);

const MIB: usize = 1 << 20;

async fn server(database: &Database, more: &str) -> Server {
    let mut server = Server::prepare(&database.url, more);
    server.server_keys("body_bytes_max = 8388608");
    server.spawn().await;
    server
}

/// A signed event of `bytes_n` bytes; its body.
fn large(id: &str, bytes_n: usize) -> String {
    format!(
        r#"{{"id":"{id}","type":"invoice.paid","data":{{"object":{{"id":"in_1"}}}},"filler":"{}"}}"#,
        "x".repeat(bytes_n)
    )
}

async fn post(server: &Server, body: String) -> (u16, String) {
    let request = client().post(server.url("/webhooks/stripe"));
    let signed = request.header("stripe-signature", stripe_header(&body, now_s())).body(body);
    let response = signed.send().await.unwrap();
    let outcome = response.headers().get("hooklatch-outcome").map_or("", |value| value.to_str().unwrap());
    (response.status().as_u16(), outcome.to_owned())
}

async fn a_large_event_is_admitted_once_and_followed(database: &Database) {
    let stub = Stub::start().await;
    let routes = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\nlane = \"/id\"\n[destinations.billing]\n\
         url = \"{}/{{{{ payload.id }}}}\"\n",
        stub.url()
    );
    let server = server(database, &routes).await;
    let body = large("evt_1", 3 * MIB);
    let both = tokio::join!(post(&server, body.clone()), post(&server, body.clone()));
    let mut outcomes = [both.0, both.1].map(|(status, outcome)| format!("{status} {outcome}"));
    outcomes.sort();
    assert_eq!(outcomes, ["200 accepted", "200 duplicate"], "{}", server.log());
    assert_eq!(post(&server, body.replace("xx\"}", "xy\"}")).await, (200, "conflict".to_owned()));
    let log = || server.log();
    until("it is called once", Duration::from_secs(20), log, async || stub.requests_n() == 1).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_queue").await, 0);
    let done = "SELECT COUNT(*) FROM processed_webhook_events WHERE event_id = 'evt_1' AND state = 'handled'";
    assert_eq!(database.count(done).await, 1);
    let in_parts = "SELECT COUNT(*) FROM webhook_payloads p WHERE parts_n = (SELECT COUNT(*)
        FROM webhook_body_parts b WHERE b.event_seq = p.event_seq)";
    assert_eq!(database.count(in_parts).await, 1, "that of the conflict is in one piece");
    until("nothing is left of copies", Duration::from_secs(20), log, async || {
        database.count("SELECT COUNT(*) FROM unlatched_bodies").await == 0
    })
    .await;
}

async fn a_large_event_of_a_transactional_handler_is_admitted_once(database: &Database) {
    create_ledger(database).await;
    let kind = stripe_kind().on_tx("invoice.paid", book);
    let app = TestApp::start_with(database, kind, "body_bytes_max = 8388608", "").await;
    for (id, amount, state) in [("good", 5, "handled"), ("bad", 500, "retry")] {
        let filler = format!(r#"{{"filler":"{}","#, "x".repeat(2 * MIB));
        let body = event_body(id, "invoice.paid", amount).replacen('{', &filler, 1);
        for outcome in ["accepted", "duplicate"] {
            let (status, found, _) = app.post(&body).await;
            assert_eq!((status, found.as_str()), (200, outcome), "{id}");
        }
        assert_eq!(crate::admit::state(database, id).await.0, state);
    }
    app.running.stop().await;
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE invoice = 'in_good'").await, 2);
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads WHERE parts_n > 1").await, 2);
    assert_eq!(database.count("SELECT COUNT(*) FROM unlatched_bodies").await, 0);
}

/// A request whose body does not end, from a proxy that names this client.
async fn stalled(server: &Server, client: &str, signature: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.receiver).await.unwrap();
    let head = format!(
        "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {client}\r\n{signature}content-length: {}\r\n\r\n",
        3 * MIB
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; 2 * MIB]).await.unwrap();
    stream
}

async fn behind_a_proxy(database: &Database) -> Server {
    let mut server = Server::prepare(&database.url, "");
    server
        .server_keys("body_bytes_max = 8388608\nproxies = [\"127.0.0.1\"]\nforwarded = \"x-forwarded-for\"");
    server.spawn().await;
    server
}

#[tokio::test]
async fn slow_bodies_of_one_stranger_delay_a_large_body_of_another_client_by_no_more_than_a_moment() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = behind_a_proxy(&database).await;
    let mut strangers = Vec::new();
    let signature = format!("stripe-signature: {}\r\n", stripe_header("{}", now_s()));
    for _ in 0..12 {
        strangers.push(stalled(&server, "192.0.2.1", &signature).await);
    }
    let began = Instant::now();
    assert_eq!(
        post(&server, large("evt_1", 2 * MIB)).await,
        (200, "accepted".to_owned()),
        "{}",
        server.log()
    );
    // Half a second until the first of them gives up its place; the rest is the machine's.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(strangers);
}

#[tokio::test]
async fn a_large_body_whose_headers_have_no_signature_is_rejected_before_it_is_complete() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = behind_a_proxy(&database).await;
    for signature in ["", "stripe-signature: nonsense\r\n"] {
        let mut stream = stalled(&server, "192.0.2.1", signature).await;
        let mut answer = vec![0; 4_096];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer[..read.unwrap().unwrap()]).to_string();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{signature}: {answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_and_does_not_come_is_refused_at_once() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = server(&database, "").await;
    let began = Instant::now();
    let answer = answered(server.receiver, "POST /webhooks/stripe", 99_000_000, b"{").await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("connection: close"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_refusal_without_reading_the_body_sends_connection_close() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = server(&database, "").await;
    let answer = answered(server.admin, "POST /v1/explain", 100_000, &b" ".repeat(50_000)).await;
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close"), "{answer}");
    let answer = answered(server.receiver, "POST /nowhere", 100_000, &b" ".repeat(50_000)).await;
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("connection: close"), "{answer}");
}

/// The head of the answer to a request of which `sent` is all that comes of its body.
async fn answered(to: SocketAddr, line: &str, bytes_n: usize, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let host = format!("127.0.0.1:{}", to.port());
    let head = format!("{line} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {bytes_n}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = vec![0; 4_096];
    let n = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer[..n]).to_lowercase().replacen("http/1.1", "HTTP/1.1", 1)
}
