//! The tail as server-sent events, through the real listener.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::add_events;
use crate::database::{Database, On, on_sqlite};
use crate::process::{Server, client, post_stripe, until};

on_sqlite!(events_are_told_as_they_come_in_and_a_client_that_comes_back_misses_none);

const TOKEN: &str = "viewer-token-0123456789";

/// A server with these keys in `[server]`.
async fn serve(database: &Database, keys: &str) -> Server {
    let mut server = Server::prepare(&database.url, "");
    server.server_keys(keys);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let more =
        format!("tokens = [{{ name = \"looker\", role = \"viewer\", token = \"{TOKEN}\" }}]\n[database]");
    std::fs::write(server.config(), config.replace("[database]", &more)).unwrap();
    server.spawn().await;
    server
}

/// A stream of server-sent events, read piece by piece.
struct Told {
    response: reqwest::Response,
    text: String,
}

impl Told {
    async fn open(server: &Server, query: &str, last_id: &str) -> Self {
        let url = format!("http://{}/v1/tail{query}", server.admin);
        let mut request = client().get(url).bearer_auth(TOKEN);
        if !last_id.is_empty() {
            request = request.header("last-event-id", last_id);
        }
        Self { response: request.send().await.unwrap(), text: String::new() }
    }

    /// The next block; `None` when the stream is over.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let more = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await;
            let more = more.expect("something is told within the time").ok()??;
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    /// The next event: where to resume, its name, its data.
    async fn event(&mut self) -> (String, String, Value) {
        loop {
            let block = self.block().await.expect("it goes on");
            let line = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
            };
            if block.contains("data: ") {
                return (line("id: "), line("event: "), serde_json::from_str(&line("data: ")).unwrap());
            }
        }
    }
}

async fn events_are_told_as_they_come_in_and_a_client_that_comes_back_misses_none(database: &Database) {
    let mut server = serve(database, "").await;
    let url = server.url("/webhooks/stripe");
    post_stripe(&client(), &url, "evt_before").await.unwrap();
    let mut told = Told::open(&server, "", "").await;
    let header = |name: &str| told.response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(told.response.status(), 200);
    assert_eq!(
        (header("content-type"), header("cache-control"), header("x-accel-buffering")),
        ("text/event-stream".to_owned(), "no-store".to_owned(), "no".to_owned())
    );
    assert_eq!(told.block().await.unwrap(), "retry: 3000");
    let mut other = Told::open(&server, "?provider=nobody", "").await;
    assert_eq!(other.block().await.unwrap(), "retry: 3000");
    post_stripe(&client(), &url, "evt_1").await.unwrap();
    let (id, what, data) = told.event().await;
    assert_eq!(
        (what.as_str(), &data["what"], &data["event"]["event_id"]),
        ("event", &"event".into(), &"evt_1".into())
    );
    let view: hooklatch::api::TailView = serde_json::from_value(data.clone()).unwrap();
    assert_eq!(serde_json::to_value(view).unwrap(), data);
    drop(told);
    for n in 2..5 {
        post_stripe(&client(), &url, &format!("evt_{n}")).await.unwrap();
    }
    let mut told = Told::open(&server, "", &id).await;
    for n in 2..5 {
        assert_eq!(told.event().await.2["event"]["event_id"], format!("evt_{n}"));
    }
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_tail_polls_total"), "{metrics}");
    for (query, token, status) in [("", "wrong", 401), ("?provider=A%20B", TOKEN, 400), ("?x=1", TOKEN, 400)]
    {
        let url = format!("http://{}/v1/tail{query}", server.admin);
        let answer = client().get(url).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), status, "{query}");
    }
    // A stop waits for nobody who only views.
    let last_id = {
        post_stripe(&client(), &url, "evt_5").await.unwrap();
        told.event().await.0
    };
    let began = std::time::Instant::now();
    assert!(server.terminate());
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    while let Some(block) = told.block().await {
        assert!(!block.contains("data: "), "{block}");
    }
    server.spawn().await;
    post_stripe(&client(), &url, "evt_6").await.unwrap();
    let mut told = Told::open(&server, "", &last_id).await;
    assert_eq!(told.event().await.2["event"]["event_id"], "evt_6", "after a restart as well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_with_the_life_of_its_connection_and_its_viewer_is_gone() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = serve(&database, "connection_life_ms = 1000").await;
    let mut told = Told::open(&server, "", "").await;
    while told.block().await.is_some() {}
    nobody_views(&server).await;
}

async fn nobody_views(server: &Server) {
    let log = || server.log();
    until("nobody views any more", Duration::from_secs(20), log, async || {
        server.admin_text("/metrics").await.contains("hooklatch_tail_viewers 0")
    })
    .await;
}

/// A connection that has asked for the tail and read no more than the beginning of the answer.
fn silent(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.admin).unwrap();
    let request =
        format!("GET /v1/tail HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\r\n", server.admin);
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 64];
    stream.read_exact(&mut head).unwrap();
    assert!(head.starts_with(b"HTTP/1.1 200"));
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_that_reads_nothing_is_let_go_and_holds_no_memory_meanwhile() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = serve(&database, "write_timeout_ms = 1000").await;
    let _silent: Vec<TcpStream> = (0..8).map(|_| silent(&server)).collect();
    let (before, _) = server.usage();
    let mut first = 1;
    let log = || server.log();
    // More and more, until all that the system keeps for a reader is full.
    until("those who read nothing are gone", Duration::from_mins(1), log, async || {
        add_events(&database, "stripe", first, 2_000).await;
        first += 2_000;
        server.admin_text("/metrics").await.contains("hooklatch_tail_viewers 0")
    })
    .await;
    let (after, _) = server.usage();
    assert!(after < before + 48 * 1024 * 1024, "{before} bytes before, {after} after {first} events");
    let mut told = Told::open(&server, "", "").await;
    assert_eq!(told.block().await.unwrap(), "retry: 3000", "others are served");
}
