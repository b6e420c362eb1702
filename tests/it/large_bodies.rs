//! Bodies of more than a mebibyte: admitted by themselves, never kept waiting by strangers, refused at once when too large.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, stripe_header, until};
use crate::stub::Stub;

on_both!(a_large_event_is_admitted_once_and_followed, two_slow_strangers_do_not_keep_a_large_body_waiting);

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
    let done = "SELECT COUNT(*) FROM processed_webhook_events WHERE event_id = 'evt_1' AND state = 'done'";
    assert_eq!(database.count(done).await, 1);
}

async fn two_slow_strangers_do_not_keep_a_large_body_waiting(database: &Database) {
    let server = server(database, "").await;
    let mut strangers = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.receiver).await.unwrap();
        let head =
            format!("POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 3 * MIB);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 2 * MIB]).await.unwrap();
        strangers.push(stream);
    }
    let began = Instant::now();
    assert_eq!(
        post(&server, large("evt_1", 2 * MIB)).await,
        (200, "accepted".to_owned()),
        "{}",
        server.log()
    );
    // `server.body_timeout_ms` is 15 s.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(strangers);
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
async fn who_refuses_a_body_unread_says_that_the_connection_ends() {
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
