//! The operators' API under `/v1`: shows events and messages, and takes a person's decisions about messages.
//!
//! Every request needs a bearer token; deciding needs the role `operator` and an `Idempotency-Key`. A later
//! part of Hooklatch adds to these routes; what is here stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::auth::{Actor, Gate, authenticated};
use super::error::Problem;
use super::rejected::{self, ProviderFacts};
use crate::config::AdminRole;
use crate::plain;
use crate::store::{
    Act, Decided, Decision, DecisionReply, DecisionTarget, EventRow, Filter, KeptContent, MessageRow, Store,
    StoreError,
};
use crate::types::{Clock, EventKey, EventState, MessageId, MessageState, Name, stored_text};

/// Largest body of a decision.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// How much of a body is shown. Bytes.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
/// Rows of a list, unless `limit` says otherwise; and the most it may say.
const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 500;

/// What the API needs of the app.
pub(crate) struct ApiState {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Who may ask.
    pub(crate) gate: Arc<Gate>,
    /// Those that are configured.
    pub(crate) destinations: BTreeSet<Name>,
    /// Those that are configured.
    pub(crate) providers: Vec<ProviderFacts>,
    /// Called when a decision may have made something due: nobody should wait for the next look.
    pub(crate) decided: Box<dyn Fn() + Send + Sync>,
}

/// The routes, to be nested under `/v1`.
pub(crate) fn router(state: Arc<ApiState>) -> Router {
    Router::new()
        .route("/events", get(event_list))
        .route("/events/{provider}/{event_id}", get(event_get))
        .route("/events/{provider}/{event_id}/decide", post(decide_event))
        .route("/messages", get(message_list))
        .route("/messages/count", get(message_count))
        .route("/messages/decide", post(decide_all))
        .route("/messages/{id}", get(message_get))
        .route("/messages/{id}/decide", post(decide_one))
        .route("/destinations/paused", get(pause_list))
        .route("/destinations/{name}/decide", post(decide_destination))
        .merge(rejected::router())
        .fallback(|| async { Problem::NOT_FOUND })
        .layer(middleware::from_fn_with_state(Arc::clone(&state.gate), authenticated))
        .with_state(state)
}

pub(super) fn problem(status: StatusCode, code: &'static str, title: &'static str) -> Problem {
    Problem { status, code, title, retry_after_s: None }
}

pub(super) fn bad(title: &'static str) -> Problem {
    problem(StatusCode::BAD_REQUEST, "bad_request", title)
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        warn!(%error, "could not serve an operator");
        Self { title: "the database did not answer", ..Self::UNAVAILABLE }
    }
}

/// The query's values; a name that is there twice or is not known is an error.
pub(super) fn query<const N: usize>(
    raw: Option<&str>,
    known: [&str; N],
) -> Result<BTreeMap<String, String>, Problem> {
    let mut values = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        if !known.contains(&name.as_ref()) || values.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(bad("the query has a name that is not known, or one twice"));
        }
    }
    Ok(values)
}

pub(super) fn limit(values: &BTreeMap<String, String>) -> Result<u32, Problem> {
    let Some(text) = values.get("limit") else { return Ok(LIMIT_DEFAULT) };
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| bad("`limit` is a number from 1 to 500"))
}

fn filter(state: Option<&str>, to: Option<&str>, from: Option<&str>) -> Result<Filter, Problem> {
    let name = |text: Option<&str>| text.map(Name::parse).transpose().map_err(|_| bad("that is not a name"));
    let parse = |word| MessageState::parse(word).ok_or_else(|| bad("no message is ever in that state"));
    Ok(Filter { state: state.map(parse).transpose()?, destination: name(to)?, provider: name(from)? })
}

fn filter_of(values: &BTreeMap<String, String>) -> Result<Filter, Problem> {
    let value = |name: &str| values.get(name).map(String::as_str);
    filter(value("state"), value("destination"), value("provider"))
}

/// JSON, which people read in terminals too: what strangers wrote in it steers none.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    let text = plain::text(&format!("{body}\n")).into_owned();
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn event_json(row: &EventRow) -> Value {
    json!({
        "provider": row.key.provider.as_str(), "event_id": row.key.event_id, "type": row.event_type,
        "state": row.state, "attempts_n": row.attempts_n, "due_at_ms": row.due_at_ms, "error": row.error,
        "received_at_ms": row.received_at_ms, "identity": row.identity,
    })
}

/// One content, with its headers and as much of its body as people look at.
fn content_json(content: Option<&KeptContent>) -> Value {
    let Some(content) = content else { return Value::Null };
    let shown = content.body.get(..SHOWN_BYTES_MAX).unwrap_or(&content.body);
    json!({
        "headers": serde_json::from_str::<Value>(&content.headers).unwrap_or_default(),
        "body": String::from_utf8_lossy(shown), "body_bytes_n": content.body.len(),
    })
}

fn message_json(row: &MessageRow) -> Value {
    json!({
        "message_id": row.message_id, "provider": row.key.provider.as_str(), "event_id": row.key.event_id,
        "type": row.event_type, "effect_name": row.effect_name, "idempotency_key": row.idempotency_key,
        "destination": row.destination, "state": row.state, "attempts_n": row.attempts_n,
        "visible_at_ms": row.visible_at_ms, "last_result": row.last_result, "last_error": row.last_error,
        "created_at_ms": row.created_at_ms, "first_sent_at_ms": row.first_sent_at_ms,
        "lane": row.lane, "key_valid_until_ms": row.key_valid_until_ms, "settled_at_ms": row.finished_at_ms,
    })
}

async fn event_list(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["state", "limit"])?;
    let parse = |word: &String| EventState::parse(word).ok_or_else(|| bad("no event is ever in that state"));
    let wanted = values.get("state").map(parse).transpose()?;
    let rows = state.store.event_list(wanted, limit(&values)?).await?;
    Ok(answer(StatusCode::OK, &json!({ "events": rows.iter().map(event_json).collect::<Vec<_>>() })))
}

async fn event_get(
    State(state): State<Arc<ApiState>>,
    Path((provider, event_id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    let key = EventKey { provider, event_id };
    let row = state.store.event_get(&key).await?.ok_or(Problem::NOT_FOUND)?;
    let messages = state.store.message_list_of_event(&key).await?;
    let messages: Vec<Value> = messages.iter().map(message_json).collect();
    let content = state.store.event_content(&key).await?;
    let found = state.store.event_conflicts(&key).await?;
    let conflict = |(row, content): &(EventRow, Option<KeptContent>)| json!({ "event": event_json(row), "content": content_json(content.as_ref()) });
    Ok(answer(
        StatusCode::OK,
        &json!({
            "event": event_json(&row), "content": content_json(content.as_ref()), "messages": messages,
            "conflicts": found.kept.iter().map(conflict).collect::<Vec<_>>(), "conflicts_unkept_n": found.unkept_n,
        }),
    ))
}

async fn message_list(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["state", "destination", "provider", "before", "limit"])?;
    let (filter, limit) = (filter_of(&values)?, limit(&values)?);
    let before = values.get("before").map(|text| text.parse::<MessageId>()).transpose();
    let before = before.map_err(|_| bad("`before` is the id of a message"))?;
    let rows = state.store.message_list(&filter, before, limit).await?;
    // A full page may have a next one.
    let next = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.message_id);
    let messages: Vec<Value> = rows.iter().map(message_json).collect();
    Ok(answer(StatusCode::OK, &json!({ "messages": messages, "next_before": next })))
}

async fn message_count(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let filter = filter_of(&query(raw.as_deref(), ["state", "destination", "provider"])?)?;
    if filter.state.is_none() {
        return Err(bad("say which `state` to count"));
    }
    let messages_n = state.store.message_count(&filter).await?;
    Ok(answer(StatusCode::OK, &json!({ "messages_n": messages_n })))
}

async fn message_get(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = message_id(&id)?;
    let row = state.store.message_get(id).await?.ok_or(Problem::NOT_FOUND)?;
    let attempts = state.store.attempt_list(id).await?;
    let decisions = state.store.audit_list(id).await?;
    let body = json!({ "message": message_json(&row), "attempts": attempts, "decisions": decisions });
    Ok(answer(StatusCode::OK, &body))
}

/// What is not a number is no message's id.
fn message_id(text: &str) -> Result<MessageId, Problem> {
    text.parse().map_err(|_| Problem::NOT_FOUND)
}

/// What a person decides. `state` and `messages_n` belong to a decision about several.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    act: String,
    reason: String,
    state: Option<String>,
    destination: Option<String>,
    provider: Option<String>,
    messages_n: Option<u64>,
}

impl Order {
    /// Refuses what belongs to a decision about several messages: it would be overlooked.
    fn is_about_one(&self) -> Result<(), Problem> {
        let is_filter = self.state.is_some() || self.destination.is_some() || self.provider.is_some();
        if is_filter || self.messages_n.is_some() {
            return Err(bad("a decision about one has `act` and `reason` alone"));
        }
        Ok(())
    }
}

async fn decide_one(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let sent = sent(request).await?;
    let order = order(&sent.body)?;
    order.is_about_one()?;
    // What else is wrong with the request is said first; no message has this number.
    let id = id.parse().unwrap_or(MessageId::from_column(0));
    decide(&state, &sent, &order, &DecisionTarget::One(id)).await
}

async fn decide_event(
    State(state): State<Arc<ApiState>>,
    Path((provider, event_id)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let sent = sent(request).await?;
    let order = order(&sent.body)?;
    order.is_about_one()?;
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    if !matches!(order.act.as_str(), "rerun" | "dispatch" | "dismiss" | "erase" | "erase_and_discard") {
        return Err(bad("`act` is rerun, dispatch, dismiss, erase or erase_and_discard"));
    }
    decide(&state, &sent, &order, &DecisionTarget::Event(EventKey { provider, event_id })).await
}

async fn decide_destination(
    State(state): State<Arc<ApiState>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let sent = sent(request).await?;
    let order = order(&sent.body)?;
    order.is_about_one()?;
    let name = Name::parse(&name).ok().filter(|name| state.destinations.contains(name));
    let name = name.ok_or(Problem::NOT_FOUND)?;
    if !matches!(order.act.as_str(), "pause" | "resume") {
        return Err(bad("`act` is pause or resume"));
    }
    decide(&state, &sent, &order, &DecisionTarget::Destination(name)).await
}

async fn pause_list(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let paused = state.store.pause_list().await?;
    Ok(answer(StatusCode::OK, &json!({ "paused": paused })))
}

async fn decide_all(State(state): State<Arc<ApiState>>, request: Request) -> Result<Response, Problem> {
    let sent = sent(request).await?;
    let order = order(&sent.body)?;
    let filter = filter(order.state.as_deref(), order.destination.as_deref(), order.provider.as_deref())?;
    let (Some(_), Some(counted_n)) = (filter.state, order.messages_n) else {
        return Err(bad("say which `state`, and with `messages_n` how many you counted"));
    };
    decide(&state, &sent, &order, &DecisionTarget::All(filter, counted_n)).await
}

/// A request to decide: who asks, what was sent.
struct Sent {
    actor: Actor,
    headers: HeaderMap,
    path: String,
    body: Bytes,
}

/// Who asks, if they may act.
pub(super) fn operator(extensions: &http::Extensions) -> Result<Actor, Problem> {
    let actor = extensions.get::<Actor>().cloned().ok_or(Problem::NOT_FOUND)?;
    if actor.role < AdminRole::Operator {
        return Err(problem(StatusCode::FORBIDDEN, "forbidden", "this token may look, but not act"));
    }
    Ok(actor)
}

/// Only operators come through.
async fn sent(request: Request<Body>) -> Result<Sent, Problem> {
    let (parts, body) = request.into_parts();
    let actor = operator(&parts.extensions)?;
    let read = Limited::new(body, BODY_BYTES_MAX).collect();
    let read = tokio::time::timeout(std::time::Duration::from_secs(10), read).await;
    let body = read.map_err(|_| Problem::TOO_SLOW)?.map_err(|_| Problem::TOO_LARGE)?.to_bytes();
    Ok(Sent { actor, headers: parts.headers, path: parts.uri.path().to_owned(), body })
}

fn order(body: &[u8]) -> Result<Order, Problem> {
    let order: Order = serde_json::from_slice(body)
        .map_err(|_| bad("the body is a JSON object with `act` (send, done or discard) and `reason`"))?;
    let is_plain = stored_text(&order.reason).is_ok() && !order.reason.trim().is_empty();
    if is_plain { Ok(order) } else { Err(bad("`reason` is a text of 1 to 255 bytes on one line")) }
}

async fn decide(
    state: &ApiState,
    sent: &Sent,
    order: &Order,
    chosen: &DecisionTarget,
) -> Result<Response, Problem> {
    let key = sent.headers.get("idempotency-key").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if key.is_empty() || key.len() > 255 {
        let title = "send an `Idempotency-Key` of 1 to 255 characters, the same when you repeat the request";
        return Err(problem(StatusCode::BAD_REQUEST, "idempotency_key_missing", title));
    }
    let act = Act::parse(&order.act)
        .filter(|act| match chosen {
            DecisionTarget::Destination(_) => matches!(act, Act::Pause | Act::Resume),
            DecisionTarget::Event(_) => {
                matches!(act, Act::Rerun | Act::Dispatch | Act::Dismiss | Act::Erase | Act::EraseAndDiscard)
            }
            DecisionTarget::One(_) | DecisionTarget::All(..) => {
                matches!(act, Act::Send | Act::Done | Act::Discard)
            }
        })
        .ok_or_else(|| bad("`act` is send, done or discard"))?;
    let decision = Decision {
        actor: sent.actor.name.as_str(),
        idempotency_key: key,
        digest: Decision::digest_of(&sent.path, &sent.body),
        reason: &order.reason,
        now_ms: state.clock.now_ms(),
    };
    let (decided, is_again) = match state.store.message_decide(chosen, act, &decision).await? {
        DecisionReply::New(decided) => (decided, false),
        DecisionReply::Again(decided) => (decided, true),
        DecisionReply::KeyReused => {
            let title = "this `Idempotency-Key` was used for another request";
            return Err(problem(StatusCode::CONFLICT, "idempotency_key_reused", title));
        }
    };
    info!(actor = %sent.actor.name, act = order.act, outcome = ?decided, is_again, "an operator decided");
    let status = match decided {
        Decided::Changed { .. } => {
            (state.decided)();
            StatusCode::OK
        }
        Decided::NotFound => return Err(Problem::NOT_FOUND),
        Decided::BodyGone => {
            let title = "the event's bytes are no longer kept, so that it cannot be dispatched";
            return Err(problem(StatusCode::CONFLICT, "body_gone", title));
        }
        Decided::NotAllowed { .. } | Decided::OtherCount { .. } | Decided::StillOpen { .. } => {
            StatusCode::CONFLICT
        }
    };
    let mut response = answer(status, &json!(decided));
    if is_again {
        response.headers_mut().insert("idempotency-replayed", http::HeaderValue::from_static("true"));
    }
    Ok(response)
}
