//! The operators' API under `/v1`: shows events and messages, and takes an operator's decisions about them.
//!
//! Every request needs a bearer token, unless the console made it inside the process. The row of a route in the
//! contract (`hooklatch_contract::ROUTES`) names the weakest role that has access, which the layer `checked` requires
//! before the handler runs; `store` checks scopes, and the handler those of what only this node knows. Deciding needs
//! an `Idempotency-Key` as well. This file has the routes and what all of them need. `query.rs` parses the query of a
//! list, `order.rs` the body of a POST; `decisions.rs` takes decisions about one subject and about many; `events.rs`
//! (with what-if, explain and test events), `messages.rs` (with lanes and judgements), `providers.rs` (with
//! destinations and the doctor), `records.rs` and `tokens.rs` have the other routes. It decides nothing itself: the
//! effect of a decision is written in `store`.

mod decisions;
mod events;
mod messages;
mod order;
mod providers;
mod query;
mod records;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version, header};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate};

use super::error::Problem;
use super::guard::authenticated;
use super::token_gate::TokenGate;
use crate::doctor::{NodeDoctor, ProbeKey};
use hooklatch_contract::{
    CallTimesView, IfMatch, PolicyView, ROUTES, RouteFacts, SenderView, UnknownPathView,
};
use hooklatch_core::config::EffectiveSetting;
use hooklatch_core::plain;
use hooklatch_core::types::{Clock, Name, Principal, Role, TYPED_BY, TypedBy, UnixMs};
use hooklatch_outbox::traces::Traces;
use hooklatch_receive::admit::WhatIf;
use hooklatch_receive::idempotency::IdempotencyLayer;
use hooklatch_receive::{Explainer, TestEvents};
use hooklatch_store::{ActivityCounts, BulkRules, OperationAct, OperatorQueries, OperatorStore};

/// The routes whose handlers do not take the `Idempotency-Key` in a transaction of their own.
const ONCE: [&str; 4] = [
    "POST /providers/{name}/pairing",
    "POST /providers/{name}/test-events",
    "POST /tokens",
    "POST /tokens/{token_id}/revoke",
];

/// What this node knows of the destination or provider of a name.
type OfName<T> = Box<dyn Fn(&str) -> T + Send + Sync>;

/// State of the API: all that it needs of the app.
pub struct ApiState {
    /// The store, for callers of the API.
    pub people: OperatorStore,
    pub clock: Clock,
    /// The layer for orders that are carried out once for each `Idempotency-Key` without a transaction of their own.
    pub once: IdempotencyLayer,
    /// The tokens of the callers.
    pub gate: Arc<TokenGate>,
    /// Facts about each configured destination.
    pub destinations: BTreeMap<Name, DestinationFacts>,
    /// Returns the state of this node's circuit breaker, for a destination of that name that it calls.
    pub breaker: OfName<Option<&'static str>>,
    /// Returns how long this node's latest calls to a destination of that name took; `None` before the first.
    pub call_times: OfName<Option<CallTimesView>>,
    /// What this node counted and did not add to the table yet.
    pub unsaved: Box<dyn Fn() -> ActivityCounts + Send + Sync>,
    /// Facts about each configured provider.
    pub providers: Vec<ProviderFacts>,
    /// Judges requests that people have saved.
    pub explainer: Explainer,
    /// Every value of the configuration that is in force, by key.
    pub settings: Vec<EffectiveSetting>,
    /// What an operation needs before it begins.
    pub bulk: BulkRules,
    /// Knows the traces of events.
    pub traces: Traces,
    /// Returns the delays of the newest requests of the provider of that name, from signing to arrival. Milliseconds.
    pub delays_ms: OfName<Vec<i64>>,
    /// Paths that no provider has, and that were posted to since the start.
    pub unknown_paths: Box<dyn Fn() -> Vec<UnknownPathView> + Send + Sync>,
    /// Examines this node and its database.
    pub doctor: NodeDoctor,
    /// What it takes to send probes to the receiver.
    pub probes: ProbeFacts,
    /// Makes test events.
    pub test_events: TestEvents,
    /// Runs the handlers of this server without writing.
    pub what_if: WhatIf,
    /// Name of the installation, where it has one.
    pub server_name: Option<String>,
    /// True when it is a test server.
    pub is_test: bool,
    /// Called when a decision may have made something due, so that the workers do not wait for their next poll.
    pub decided: Box<dyn Fn() + Send + Sync>,
}

/// What it takes to send probes to the receiver.
pub struct ProbeFacts {
    /// The key of tokens.
    pub key: ProbeKey,
    /// The URL that senders call, without a trailing slash.
    pub public_url: String,
    /// Largest body of a request. Bytes.
    pub body_bytes_max: u32,
}

/// One configured destination, for the API.
pub struct DestinationFacts {
    /// The kind: `http`, `nats`, ….
    pub kind: &'static str,
    /// Most calls at once of this node.
    pub concurrency_n: u32,
    /// Most calls a second of this node; 0 for any number.
    pub rate_per_s: u32,
    /// How it is called, and when calls are repeated.
    pub policy: PolicyView,
}

/// One configured provider, for the API.
pub struct ProviderFacts {
    pub name: Name,
    pub kind: String,
    /// The URL to register with the sender.
    pub url: String,
    /// Rules that identify its events, the first that applies.
    pub identity: String,
    /// Time that its sender goes on sending an event by itself, and so with the secret it had then. Hours.
    pub horizon_h: u32,
    /// True when its requests are accepted without a signature.
    pub is_unverified: bool,
    /// True while it takes a secret that its sender posts to the URL.
    pub is_pairing: bool,
    /// Time for which the ids of its events are remembered. Days.
    pub ids_days: u32,
    /// What is known of its sender.
    pub sender: SenderView,
    /// False when its events are not found by the ids inside them; `None`: its kind names none.
    pub has_search: Option<bool>,
    /// Headers that its kind reads.
    pub headers: Vec<String>,
    /// Its secrets by what they go by, newest first.
    pub fingerprints: Vec<String>,
    /// Types of which its kind has sample events.
    pub samples: Vec<String>,
}

/// The answer to a request.
type Answer = Result<Response, Problem>;

/// The caller of a route, and what it takes to answer.
struct Caller {
    state: Arc<ApiState>,
    /// The store as the caller may see it.
    people: OperatorQueries,
}

impl Caller {
    fn now_ms(&self) -> UnixMs {
        self.state.clock.now_ms()
    }

    fn provider(&self, name: &str) -> Option<&ProviderFacts> {
        self.state.providers.iter().find(|facts| facts.name.as_str() == name)
    }
}

impl FromRequestParts<Arc<ApiState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned().ok_or(Problem::NOT_FOUND)?;
        let typed_by = parts.headers.get(TYPED_BY).and_then(|text| TypedBy::parse(text.to_str().ok()?));
        Ok(Self { people: state.people.open(principal).typed_by(typed_by), state: Arc::clone(state) })
    }
}

/// The name in a path; nothing has a name of another form.
fn path_name(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|_| Problem::NOT_FOUND)
}

/// The handler of each route of the contract, which has its role, its query and what it takes and answers.
fn handlers() -> Vec<(&'static str, MethodRouter<Arc<ApiState>>)> {
    let decide = |act| post(move |id, request| decisions::decide_operation(act, id, request));
    vec![
        ("GET /me", get(records::me)),
        ("GET /events", get(events::list)),
        ("GET /events/{provider}/{event_id}", get(events::show)),
        ("GET /events/{provider}/{event_id}/body", get(events::body)),
        ("POST /events/{provider}/{event_id}/decide", post(decisions::decide_event)),
        ("POST /events/{provider}/{event_id}/what-if", post(events::what_if_one)),
        ("POST /what-if", post(events::what_if)),
        ("POST /explain", post(events::explain)),
        ("GET /messages", get(messages::list)),
        ("GET /messages/{message_id}", get(messages::show)),
        ("POST /messages/{message_id}/decide", post(decisions::decide_message)),
        ("GET /lanes", get(messages::list_lanes)),
        ("GET /destinations", get(providers::list_destinations)),
        ("GET /destinations/{name}", get(providers::show_destination)),
        ("POST /destinations/{name}/decide", post(decisions::decide_destination)),
        ("GET /rejected", get(records::list_rejected)),
        ("GET /rejected/groups", get(records::group_rejected)),
        ("GET /providers", get(providers::list_providers)),
        ("GET /providers/{name}", get(providers::show_provider)),
        ("POST /providers/{name}/decide", post(decisions::decide_provider)),
        ("POST /providers/{name}/pairing", post(providers::show_pairing)),
        ("POST /providers/{name}/test-events", post(events::make_test_events)),
        ("GET /backlog", get(records::backlog)),
        ("GET /search", get(records::search)),
        ("GET /activity", get(records::activity)),
        ("GET /operations", get(decisions::list_operations)),
        ("POST /operations", post(decisions::begin)),
        ("POST /operations/preview", post(decisions::preview)),
        ("GET /operations/{operation_id}", get(decisions::show_operation)),
        ("GET /operations/{operation_id}/preview", get(decisions::preview_again)),
        ("POST /operations/{operation_id}/approve", decide(OperationAct::Approve)),
        ("POST /operations/{operation_id}/continue", decide(OperationAct::Continue)),
        ("POST /operations/{operation_id}/cancel", decide(OperationAct::Cancel)),
        ("GET /settings", get(records::settings)),
        ("GET /doctor", get(providers::doctor)),
        ("POST /probes", post(providers::make_probe)),
        ("GET /audit", get(records::audit)),
        ("GET /tokens", get(tokens::list)),
        ("POST /tokens", post(tokens::make)),
        ("POST /tokens/{token_id}/revoke", post(tokens::revoke)),
    ]
}

/// The route of this method and path in the contract.
fn facts_of(name: &str) -> Option<&'static RouteFacts> {
    let (method, path) = name.split_once(' ')?;
    ROUTES.iter().find(|facts| facts.method == method && facts.path == path)
}

/// Lets a request through whose caller has the role that the contract requires of this route. The problem for an id
/// that was not found names it.
async fn checked(
    State(facts): State<&'static RouteFacts>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let needed = facts.role.unwrap_or(Role::Admin);
    if request.extensions().get::<Principal>().is_none_or(|principal| principal.role < needed) {
        return Problem::denied(needed).into_response();
    }
    request.extensions_mut().insert(facts);
    let response = next.run(request).await;
    let Ok(parameters) = parameters else { return response };
    if response.status() != StatusCode::NOT_FOUND {
        return response;
    }
    let subject = facts.path.split('/').nth(1).unwrap_or_default().trim_end_matches('s');
    let values: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
    let missing = match values.as_slice() {
        [provider, event_id] => format!("event `{event_id}` of provider `{provider}`"),
        [value] if facts.path.ends_with("/pairing") => format!("pairing secret of provider `{value}`"),
        [value] => format!("{subject} `{value}`"),
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
pub(super) fn router(state: Arc<ApiState>) -> Router {
    let gate = Arc::clone(&state.gate);
    let router = inner_router(state).layer(middleware::from_fn(unless_modified)).layer(compression());
    router.layer(middleware::from_fn_with_state(gate, authenticated))
}

/// The routes for requests that were made inside the process, with the [`Principal`] they are made for.
pub fn inner_router(state: Arc<ApiState>) -> Router {
    let mut router = Router::new();
    for (name, mut handler) in handlers() {
        // A route that is not in the contract is not served; a test holds that there is none.
        let Some(facts) = facts_of(name) else { continue };
        if ONCE.contains(&name) {
            // Behind the check of the role: a caller without access claims no key either.
            handler = handler.layer(state.once.clone());
        }
        router = router.route(facts.path, handler.layer(middleware::from_fn_with_state(facts, checked)));
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
        let built: BTreeSet<&str> = handlers().iter().map(|(name, _)| *name).collect();
        assert_eq!(built.len(), handlers().len(), "one is there twice");
        let unknown: Vec<&&str> = built.iter().filter(|name| facts_of(name).is_none()).collect();
        assert_eq!((unknown, built.len()), (Vec::new(), ROUTES.len()));
        assert!(
            ONCE.iter().all(|name| facts_of(name).is_some_and(RouteFacts::takes_key)),
            "one without a key"
        );
    }
}
