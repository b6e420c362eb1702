//! The routes of the API, each behind a token.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodRouter};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version, header};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate};

use super::super::auth::authenticated;
use super::super::error::Problem;
use super::state::ApiState;
use super::{
    decide, destinations, doctor, events, figures, messages, operations, providers, questions, records,
    test_events, tokens,
};
use hooklatch_contract::{IfMatch, ROUTES};
use hooklatch_core::plain;
use hooklatch_core::types::{Principal, Role};
use hooklatch_store::OperationAct;

/// What a path with parameters is about, as the path names it.
const SUBJECTS: [&str; 6] = ["events", "messages", "destinations", "providers", "operations", "tokens"];

/// What answers a route; carried out once for each key, when it is.
struct BuiltRoute {
    method: &'static str,
    router: MethodRouter<Arc<ApiState>, Infallible>,
    is_once: bool,
}

impl BuiltRoute {
    /// The same, carried out once for each `Idempotency-Key`; for what does not take its key in its own transaction.
    fn once(self) -> Self {
        Self { is_once: true, ..self }
    }
}

fn get<H: Handler<T, Arc<ApiState>>, T: 'static>(handler: H) -> BuiltRoute {
    BuiltRoute { method: "GET", router: routing::get(handler), is_once: false }
}

fn post<H: Handler<T, Arc<ApiState>>, T: 'static>(handler: H) -> BuiltRoute {
    BuiltRoute { method: "POST", router: routing::post(handler), is_once: false }
}

/// The list of routes, before there is a state.
#[derive(Default)]
struct Routes(Vec<(&'static str, BuiltRoute)>);

impl Routes {
    fn route(mut self, path: &'static str, answered: BuiltRoute) -> Self {
        self.0.push((path, answered));
        self
    }
}

/// Every route. `api::ROUTES` says of each who may ask, and a test below that none is missing on either side.
fn routes() -> Routes {
    Routes::default()
        .route("/me", get(records::me))
        .route("/events", get(events::list))
        .route("/events/count", get(events::count))
        .route("/events/{provider}/{event_id}", get(events::show))
        .route("/events/{provider}/{event_id}/body", get(events::body))
        .route("/events/{provider}/{event_id}/decide", post(decide::decide_event))
        .route("/events/{provider}/{event_id}/what-if", post(questions::what_if_one))
        .route("/what-if", post(questions::what_if))
        .route("/explain", post(questions::explain))
        .route("/messages", get(messages::list))
        .route("/messages/count", get(messages::count))
        .route("/messages/{message_id}", get(messages::show))
        .route("/messages/{message_id}/decide", post(decide::decide_message))
        .route("/lanes", get(messages::list_lanes))
        .route("/destinations", get(destinations::list))
        .route("/destinations/{name}", get(destinations::show))
        .route("/destinations/{name}/decide", post(decide::decide_destination))
        .route("/rejected", get(records::list_rejected))
        .route("/rejected/groups", get(records::group_rejected))
        .route("/providers", get(providers::list))
        .route("/providers/{name}", get(providers::show))
        .route("/providers/{name}/decide", post(decide::decide_provider))
        .route("/providers/{name}/taught", post(providers::show_taught).once())
        .route("/providers/{name}/test-events", post(test_events::make).once())
        .route("/backlog", get(figures::backlog))
        .route("/search", get(records::search))
        .route("/statistics", get(figures::statistics))
        .route("/activity", get(figures::activity))
        .route("/operations", get(operations::list))
        .route("/operations", post(operations::begin))
        .route("/operations/preview", post(operations::preview))
        .route("/operations/{operation_id}", get(operations::show))
        .route("/operations/{operation_id}/preview", get(operations::preview_again))
        .route(
            "/operations/{operation_id}/approve",
            post(|state, people, id, sent| {
                operations::decide(OperationAct::Approve, state, people, id, sent)
            }),
        )
        .route(
            "/operations/{operation_id}/continue",
            post(|state, people, id, sent| {
                operations::decide(OperationAct::Continue, state, people, id, sent)
            }),
        )
        .route(
            "/operations/{operation_id}/cancel",
            post(|state, people, id, sent| operations::decide(OperationAct::Cancel, state, people, id, sent)),
        )
        .route("/settings", get(records::settings))
        .route("/doctor", get(doctor::show))
        .route("/probes", post(doctor::make_probe))
        .route("/audit", get(records::audit))
        .route("/tokens", get(tokens::list))
        .route("/tokens", post(tokens::make).once())
        .route("/tokens/{token_id}/revoke", post(tokens::revoke).once())
}

/// The role that the contract requires; the strongest when it does not list the route.
fn needed(method: &str, path: &str) -> Role {
    let route = ROUTES.iter().find(|route| route.method == method && route.path == path);
    route.and_then(|route| route.role).unwrap_or(Role::Admin)
}

async fn has_role(State(needed): State<Role>, request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>() {
        Some(principal) if principal.role >= needed => next.run(request).await,
        _ => Problem::denied(needed).into_response(),
    }
}

/// The problem for an id that was not found, by the parameters of the route.
async fn named_when_missing(
    State(path): State<&'static str>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let Ok(parameters) = parameters else { return response };
    if response.status() != StatusCode::NOT_FOUND {
        return response;
    }
    let values: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
    let missing = match (path.split('/').find(|part| SUBJECTS.contains(part)), values.as_slice()) {
        (Some("events"), [provider, event_id]) => format!("event `{event_id}` of provider `{provider}`"),
        (Some(subject), [value]) => format!("{} `{value}`", subject.trim_end_matches('s')),
        _ => return response,
    };
    let detail = format!("there is no {} here, or this token does not reach it", plain::line(&missing));
    Problem::NOT_FOUND.with_detail(detail).into_response()
}

/// 304 for a view whose version the client has (RFC 9110, 13.2.1).
async fn unless_modified(request: Request, next: Next) -> Response {
    let lines = request.headers().get_all(header::IF_NONE_MATCH).iter().map(HeaderValue::to_str);
    let lines: Vec<String> = lines.filter_map(|line| line.ok().map(str::to_owned)).collect();
    let is_read = request.method().is_safe();
    let response = next.run(request).await;
    let tag = response.headers().get(header::ETAG).filter(|_| is_read && !lines.is_empty());
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else { return response };
    // A header that cannot be read names no version.
    if IfMatch::parse_none(lines.iter().map(String::as_str)).is_ok_and(|known| known.names(tag)) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag.to_owned())]).into_response();
    }
    response
}

/// Compresses responses. Not those with an `ETag`: it names these very bytes.
///
/// Only routes with a bearer token go through here, never a page or a route that accepts a cookie: there, the length of
/// a response reveals its content (BREACH).
fn compression() -> CompressionLayer<impl Predicate> {
    let is_untagged =
        |_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions| !headers.contains_key(header::ETAG);
    CompressionLayer::new().compress_when(DefaultPredicate::new().and(is_untagged))
}

/// The routes, to be nested under `/v1`: for those who have a token.
pub fn router(state: Arc<ApiState>) -> Router {
    let gate = Arc::clone(&state.gate);
    let router = inner_router(state).layer(middleware::from_fn(unless_modified)).layer(compression());
    router.layer(middleware::from_fn_with_state(gate, authenticated))
}

/// The same routes for requests that were made inside the process, with the [`Principal`] they are made for.
pub fn inner_router(state: Arc<ApiState>) -> Router {
    let mut router = Router::new();
    for (path, answered) in routes().0 {
        let BuiltRoute { method, router: mut answered, is_once } = answered;
        if is_once {
            // A caller without access claims no key either.
            let role = middleware::from_fn_with_state(needed(method, path), has_role);
            answered = answered.layer(state.once.clone()).layer(role);
        }
        let answered = answered.layer(middleware::from_fn_with_state(path, named_when_missing));
        router = router.route(path, answered);
    }
    router
        .method_not_allowed_fallback(|| async { Problem::OTHER_METHOD })
        .fallback(|| async {
            Problem::NOT_FOUND.with_detail("the API has no such path; /openapi.json lists those that it has")
        })
        .with_state(state)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_in_the_contract_and_everything_in_the_contract_is_a_route() {
        let built: BTreeSet<String> =
            routes().0.iter().map(|(path, answered)| format!("{} {path}", answered.method)).collect();
        let said: BTreeSet<String> =
            ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
        assert_eq!(built.len(), routes().0.len(), "one is there twice");
        assert_eq!(said, built);
    }
}
