//! A destination that records its calls, in order, and answers as the test says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};

/// The secret that calls are signed with.
pub(super) const SIGN_SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// An answer to one call; without any it is 200.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    Status(u16),
    /// No answer, for as long as the caller waits.
    Silence,
}

/// A destination that runs as long as its runtime.
#[derive(Clone)]
pub(super) struct CalledDestination {
    url: String,
    calls: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl CalledDestination {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/calls", listener.local_addr().unwrap());
        let far = Self { url, calls: Arc::default(), answers: Arc::default() };
        let router = Router::new().fallback(call).with_state(far.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        far
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The next calls are answered so, one each.
    pub(super) fn next(&self, answers: &[Answer]) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub(super) fn calls_n(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// The calls so far: attempt and `traceparent` of each.
    pub(super) fn spans(&self) -> Vec<(u32, Option<String>)> {
        let text = |headers: &HeaderMap, name: &str| Some(headers.get(name)?.to_str().unwrap().to_owned());
        let calls = self.calls.lock().unwrap();
        let one = |(headers, _): &(HeaderMap, Bytes)| {
            let attempt_n = text(headers, "hooklatch-attempt").unwrap().parse().unwrap();
            (attempt_n, text(headers, "traceparent"))
        };
        calls.iter().map(one).collect()
    }

    /// Checks the signature of every call by Standard Webhooks: over id, time and body, and nothing else.
    pub(super) fn check_signatures(&self) {
        let key = STANDARD.decode(SIGN_SECRET.strip_prefix("whsec_").unwrap()).unwrap();
        for (headers, body) in self.calls.lock().unwrap().iter() {
            let text = |name: &str| headers[name].to_str().unwrap();
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
            mac.update(format!("{}.{}.", text("webhook-id"), text("webhook-timestamp")).as_bytes());
            mac.update(body);
            let want = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
            assert_eq!(text("webhook-signature"), want);
        }
    }

    /// The bodies of the calls so far.
    pub(super) fn bodies(&self) -> Vec<Bytes> {
        self.calls.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }
}

async fn call(State(far): State<CalledDestination>, headers: HeaderMap, body: Bytes) -> Response {
    far.calls.lock().unwrap().push((headers, body));
    let answer = far.answers.lock().unwrap().pop_front().unwrap_or(Answer::Status(200));
    match answer {
        Answer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answer::Silence => std::future::pending().await,
    }
}
