//! The destination, in this process, and calls made to it without an outbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::tables::BODY;

/// A stub that counts its calls, at this URL.
pub(super) async fn start() -> (String, Arc<AtomicUsize>) {
    async fn call(State(calls_n): State<Arc<AtomicUsize>>, _body: Bytes) -> &'static str {
        calls_n.fetch_add(1, Ordering::Relaxed);
        "{}"
    }
    async fn after_20_ms(State(calls_n): State<Arc<AtomicUsize>>, _body: Bytes) -> &'static str {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        calls_n.fetch_add(1, Ordering::Relaxed);
        "{}"
    }
    let calls_n = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/calls", listener.local_addr().unwrap());
    let slow = || async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        "{}"
    };
    let router = Router::new()
        .route("/calls/20ms", axum::routing::post(after_20_ms))
        .route("/calls/slow", axum::routing::post(slow))
        .fallback(call)
        .with_state(Arc::clone(&calls_n));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, calls_n)
}

/// Which client makes direct calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// hyper's HTTP/1.1 on connections of its own, as the outbox makes most of its calls.
    Hyper,
    /// What a team would take.
    Reqwest,
}

/// Makes `calls_n` calls, so many at once.
pub(super) async fn call_directly(client: Client, url: &str, calls_n: usize, concurrency_n: u32) {
    let left_n = Arc::new(AtomicUsize::new(calls_n));
    let mut callers = tokio::task::JoinSet::new();
    // As ours: nothing of the environment, no certificates to be read.
    let shared = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    for _ in 0..concurrency_n {
        let (url, left_n, shared) = (url.to_owned(), Arc::clone(&left_n), shared.clone());
        let is_more =
            move || left_n.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
        callers.spawn(async move {
            match client {
                Client::Reqwest => with_reqwest(&shared, &url, is_more).await,
                Client::Hyper => with_hyper(&url, is_more).await,
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
}

async fn with_reqwest(client: &reqwest::Client, url: &str, is_more: impl Fn() -> bool) {
    while is_more() {
        let request =
            client.post(url).header("idempotency-key", "k").header("content-type", "application/json");
        let answer = request.body(BODY).send().await.unwrap();
        assert!(answer.status().is_success());
        answer.bytes().await.unwrap();
    }
}

async fn with_hyper(url: &str, is_more: impl Fn() -> bool) {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let stream = TcpStream::connect(authority).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(connection);
    while is_more() {
        let request = Request::post(format!("/{path}"))
            .header("host", authority)
            .header("idempotency-key", "k")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from_static(BODY.as_bytes())))
            .unwrap();
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert!(answer.status().is_success());
        answer.into_body().collect().await.unwrap();
    }
}
