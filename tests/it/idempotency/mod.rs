//! The layer for `Idempotency-Key`, over routes of a program's own and over the operators' API.

mod commit;
mod killed;
mod layer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hooklatch::App;
use hooklatch::Background;
use hooklatch::idempotency::IdempotencyLayer;
use hooklatch::testing::AppExt;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, Settings};
use http::HeaderMap;
use http_body_util::BodyExt;
use tempfile::TempDir;
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::app::stripe_kind;
use crate::database::Database;

/// A Hooklatch that is mounted into a program, whose clock the test moves.
pub(super) struct Program {
    pub(super) background: Background,
    pub(super) clock: Clock,
    webhooks: Router,
    _folder: TempDir,
}

impl Program {
    pub(super) async fn start(database: &Database) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooklatch.toml");
        std::fs::write(&file, format!("[database]\nurl = \"{}\"\n", database.url)).unwrap();
        let settings = Settings { file: Some(file), ..Settings::default() };
        let config = hooklatch_operator::load::load_for_tools(&settings, &Kinds::of(vec![stripe_kind()]));
        let config = config.unwrap_or_else(|why| panic!("{why:?}"));
        let clock = Clock::manual(Clock::system().now_ms());
        let app = App::new(config).clock(clock.clone());
        let app = app.migrate(
            "shop",
            [("0001_orders", "CREATE TABLE orders (id TEXT PRIMARY KEY, amount BIGINT NOT NULL)")],
        );
        let (webhooks, background) = app.mounted().await.unwrap();
        Self { background, clock, webhooks, _folder: folder }
    }

    /// A layer whose principal is in the header `x-who`.
    pub(super) fn layer(&self) -> IdempotencyLayer {
        let who = |parts: &http::request::Parts| Some(parts.headers.get("x-who")?.to_str().ok()?.to_owned());
        self.background.idempotency(who)
    }

    pub(super) async fn stop(self) {
        drop(self.webhooks);
        self.background.stop().await;
    }
}

/// Counts the calls of the handler, and lets a test hold it.
#[derive(Clone, Default)]
pub(super) struct Effects {
    pub(super) calls_n: Arc<AtomicU32>,
    pub(super) go: Arc<Notify>,
    pub(super) began: Arc<Notify>,
}

impl Effects {
    pub(super) fn n(&self) -> u32 {
        self.calls_n.load(Ordering::SeqCst)
    }

    pub(super) fn take(&self) -> u32 {
        self.calls_n.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Status, headers and body of an answer.
pub(super) type HttpResponse = (u16, HeaderMap, String);

/// One request of `ann`'s under `key`.
pub(super) fn request(path: &str, key: Option<&str>, body: &str) -> http::Request<Body> {
    let mut request = http::Request::post(path).header("x-who", "ann");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

pub(super) async fn send(router: &Router, request: http::Request<Body>) -> HttpResponse {
    read_response(router.clone().oneshot(request).await.unwrap()).await
}

pub(super) async fn read_response(response: Response) -> HttpResponse {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

pub(super) async fn post(router: &Router, key: &str) -> HttpResponse {
    send(router, request("/orders", Some(key), "{}")).await
}

pub(super) fn is_replayed((_, headers, _): &HttpResponse) -> bool {
    headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

pub(super) fn code((_, _, body): &HttpResponse) -> String {
    let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    problem["code"].as_str().unwrap_or_default().to_owned()
}
