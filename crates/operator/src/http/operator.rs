//! The operator side: `/livez`, `/readyz`, `/metrics`, `/v1`, and the console at `/`, also below the path under which a
//! proxy shows them. On a listener of its own, so that the listener that providers reach reveals nothing about us.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{StatusCode, Uri, header};
use tokio::sync::watch;
use tower::util::MapRequest;
use tower_http::compression::CompressionLayer;

use super::api::{self, ApiState};
use hooklatch_core::stop::Leaving;
use hooklatch_core::types::{Clock, Principal};
use hooklatch_receive::idempotency::{IdempotencyLayer, RequestRules};
use hooklatch_store::Store;

/// Parts that this node needs to take traffic. Kept up to date by the app's health task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part that is there or not")]
pub struct Readiness {
    /// True while the database answers.
    pub is_database_there: bool,
    /// True when its schema is one that this binary works with.
    pub is_schema_current: bool,
    /// True while the outbox loop runs.
    pub is_outbox_running: bool,
    /// True while no other long-lived part is away after a panic, or hangs in a handler that does not come back.
    pub are_parts_running: bool,
    /// True until the app stops.
    pub is_accepting: bool,
}

impl Readiness {
    /// What is failing, in words for people; empty when it is ready.
    pub fn failing(&self) -> Vec<&'static str> {
        self.parts().into_iter().filter(|(.., is_there)| !is_there).map(|(_, failing, _)| failing).collect()
    }

    /// True when it takes traffic.
    pub fn is_ready(&self) -> bool {
        self.failing().is_empty()
    }

    /// The parts by their names, the words for people when it is away, and whether each is there.
    pub fn parts(&self) -> [(&'static str, &'static str, bool); 5] {
        let parts = "a part is away after a panic, or hangs in a handler";
        [
            ("database", "the database does not answer", self.is_database_there),
            ("migrations", "the schema is another one", self.is_schema_current),
            ("outbox", "the outbox does not run", self.is_outbox_running),
            ("parts", parts, self.are_parts_running),
            ("accepting", "it stops", self.is_accepting),
        ]
    }
}

/// State of the operator side: all that it needs of the app.
pub struct OperatorState {
    pub readiness: watch::Receiver<Readiness>,
    /// The text of `/metrics`, which is made at once.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Checked by each query, for the time until `readiness` reports it.
    pub leaving: Leaving,
}

/// The layer for a POST that takes its `Idempotency-Key` in no transaction of its own. An answer with a secret in it
/// says `no-store`, and is not kept.
pub fn once(store: Store, clock: Clock) -> IdempotencyLayer {
    let actor = |parts: &Parts| parts.extensions.get::<Principal>().map(Principal::key_owner);
    IdempotencyLayer::from(RequestRules::new(store, clock, "operator", Arc::new(actor)))
}

/// The operator's routes, with those of `api` under `/v1`; all else is for `console`.
pub fn router(state: Arc<OperatorState>, api: Arc<ApiState>, console: Router) -> Router {
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi).layer(CompressionLayer::new()))
        .nest_service("/v1", api::router(api))
        .with_state(state)
        .fallback_service(console)
}

async fn readyz(State(state): State<Arc<OperatorState>>) -> Response {
    let mut readiness = state.readiness.borrow().clone();
    readiness.is_accepting &= !state.leaving.has_begun();
    let word = |is_good: bool| if is_good { "ok" } else { "away" };
    let parts = readiness.parts().map(|(name, _, is_there)| (name.to_owned(), word(is_there).into()));
    let mut body: serde_json::Map<String, serde_json::Value> = parts.into_iter().collect();
    body.insert("ready".to_owned(), readiness.is_ready().into());
    let body = serde_json::Value::Object(body);
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

/// The contract, for every caller of the operator side: it contains nothing about this server.
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../../openapi.json")).into_response()
}

async fn metrics(State(state): State<Arc<OperatorState>>) -> Response {
    let text = (state.metrics)();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// These routes, also below `base`, which has no slash at its end and is empty for none.
pub fn below(base: String, router: Router) -> Router {
    if base.is_empty() {
        return router;
    }
    // In front of the router, which has chosen a route before any layer of its own.
    let service = MapRequest::new(router, move |mut request: Request<Body>| {
        if let Some(uri) = without(&base, request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    });
    Router::new().fallback_service(service)
}

/// The address without the prefix; `None` when it does not begin with it.
fn without(base: &str, uri: &Uri) -> Option<Uri> {
    let rest = uri.path().strip_prefix(base)?;
    let path = match rest {
        "" => "/",
        rest if rest.starts_with('/') => rest,
        _ => return None,
    };
    let text = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(text.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_when_all_its_parts_are() {
        let all = Readiness {
            is_database_there: true,
            is_schema_current: true,
            is_outbox_running: true,
            are_parts_running: true,
            is_accepting: true,
        };
        assert!(all.is_ready() && !Readiness::default().is_ready());
        for without in [
            Readiness { is_database_there: false, ..all.clone() },
            Readiness { is_schema_current: false, ..all.clone() },
            Readiness { is_outbox_running: false, ..all.clone() },
            Readiness { are_parts_running: false, ..all.clone() },
            Readiness { is_accepting: false, ..all.clone() },
        ] {
            assert!(!without.is_ready(), "{without:?}");
        }
    }

    #[test]
    fn a_prefix_is_taken_off_whole_parts_alone() {
        #[track_caller]
        fn check(given: &str, want: Option<&str>) {
            let found = without("/ops/hooklatch", &given.parse().expect("an address"));
            assert_eq!(found.map(|uri| uri.to_string()).as_deref(), want, "{given}");
        }
        check("/ops/hooklatch", Some("/"));
        check("/ops/hooklatch?a=b", Some("/?a=b"));
        check("/ops/hooklatch/events/a%2Fb?c=%20", Some("/events/a%2Fb?c=%20"));
        check("http://ops.internal/ops/hooklatch/v1/me", Some("http://ops.internal/v1/me"));
        check("/ops/hooklatch2/events", None);
        check("/events", None);
        check("/ops", None);
    }
}
