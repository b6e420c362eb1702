//! `/v1/events`: received events, a page at a time; the ledger of one event, and its bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::super::error::Problem;
use super::super::reply::{tagged_reply, view_reply};
use super::messages::Judge;
use super::query::{limit, name, no_state, query, text, time, word};
use super::state::{ApiState, Asking};
use hooklatch_contract::{EventFilter, EventView, LedgerView, LedgerWhat, MessageView, open_calls_in_words};
use hooklatch_core::types::{DeliveryFilter, DeliveryState, EventKey, EventState, MessageState, Name};
use hooklatch_store::{EventPlace, EventQuery, OperatorQueries};

/// Names and ids in the path; ids are whatever senders make of them, each byte that is none of a path's as `%XX`.
pub(super) type EventPath = Result<Path<(String, String)>, PathRejection>;

/// The event that a path names.
pub(super) fn event_key(path: EventPath) -> Result<EventKey, Problem> {
    let Ok(Path((provider, event_id))) = path else { return Err(Problem::NOT_FOUND) };
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    Ok(EventKey { provider, event_id })
}

fn filter(values: &BTreeMap<String, String>) -> Result<EventFilter, Problem> {
    let states = EventState::ALL.iter().map(|state| state.as_str());
    let calls = DeliveryFilter::ALL.iter().map(|filter| filter.as_str());
    Ok(EventFilter {
        state: word(values, "state", states, EventState::parse)?,
        provider: name(values, "provider")?.map(|name| name.to_string()),
        event_type: text(values, "type")?,
        object: text(values, "object")?,
        delivery: word(values, "delivery", calls, DeliveryFilter::parse)?,
        received_from_ms: time(values, "received_from_ms")?,
        received_to_ms: time(values, "received_to_ms")?,
    })
}

/// The place at which a page begins.
fn place(values: &BTreeMap<String, String>) -> Result<Option<EventPlace>, Problem> {
    let odd = || Problem::NO_SUCH_CURSOR;
    match (values.get("cursor"), values.get("since")) {
        (None, None) => Ok(None),
        (Some(cursor), None) => EventPlace::parse(cursor).map(Some).ok_or_else(odd),
        (None, Some(since)) => {
            let place = EventPlace::parse(since).filter(|place| matches!(place, EventPlace::After(_)));
            place.map(Some).ok_or_else(odd)
        }
        (Some(_), Some(_)) => Err(odd()),
    }
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let known = [
        "provider",
        "type",
        "state",
        "object",
        "delivery",
        "received_from_ms",
        "received_to_ms",
        "cursor",
        "since",
        "limit",
    ];
    let values = query(raw.as_deref(), known)?;
    let (filter, place) = (filter(&values)?, place(&values)?);
    if filter.delivery.is_some() && matches!(place, Some(EventPlace::After(_))) {
        return Err(Problem::NO_SINCE_OF_CALLS);
    }
    let query = EventQuery { filter, place, limit: limit(&values)? };
    let page = people.event_page(query, state.clock.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &page))
}

pub(crate) async fn count(Asking(people): Asking, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let known = ["provider", "type", "state", "object", "received_from_ms", "received_to_ms"];
    let filter = filter(&query(raw.as_deref(), known)?)?;
    if filter.state.is_none() {
        return Err(no_state(EventState::ALL.iter().map(|state| state.as_str())));
    }
    Ok(view_reply(StatusCode::OK, &people.event_count(filter).await?))
}

pub(crate) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    path: EventPath,
) -> Result<Response, Problem> {
    let key = event_key(path)?;
    let taker = |event: &EventView| state.what_if.taker(&key.provider, &event.event_type);
    let mut ledger = people.event_ledger(&key, state.clock.now_ms(), taker).await?;
    place_secret(&state, &key, &mut ledger);
    judge_calls(&state, &people, &mut ledger).await?;
    let generation = i32::try_from(ledger.event.generation).unwrap_or(i32::MAX);
    let root = state.traces.root(&key, generation);
    ledger.trace_id = root.map(|root| hex::encode(root.trace_id));
    ledger.is_trace_recorded = root.map(|root| root.is_sampled);
    Ok(tagged_reply(&ledger, &ledger.event))
}

/// Judges the calls of a ledger, and marks those open ones that are sent without an operator.
async fn judge_calls(
    state: &ApiState,
    people: &OperatorQueries,
    ledger: &mut LedgerView,
) -> Result<(), Problem> {
    let messages = ledger.entries.iter_mut().filter_map(|entry| match &mut entry.what {
        LedgerWhat::Effect { message } => Some(message),
        _ => None,
    });
    let messages: Vec<&mut MessageView> = messages.collect();
    let judge = Judge::of(state, people, messages.iter().map(|message| &**message)).await?;
    let mut open = Vec::new();
    for message in messages {
        let facts = judge.judge(message);
        if matches!(message.state, MessageState::Ready | MessageState::Waiting | MessageState::Leased) {
            open.push(facts.stands_still());
        }
    }
    let said = open_calls_in_words(&open, ledger.event.delivery.state == DeliveryState::Open);
    if !said.is_empty() {
        ledger.judgement.headline.push(' ');
        ledger.judgement.headline.push_str(&said);
    }
    Ok(())
}

/// Finds the place in the configuration of the secret that matched.
fn place_secret(state: &ApiState, key: &EventKey, ledger: &mut LedgerView) {
    let fingerprints =
        state.providers.iter().find(|one| one.name == key.provider).map(|one| &one.fingerprints);
    for entry in &mut ledger.entries {
        if let LedgerWhat::Received { secret_position, secret_fingerprint: Some(matched), .. } =
            &mut entry.what
        {
            let place = fingerprints.and_then(|all| all.iter().position(|one| one == matched));
            *secret_position = place.and_then(|place| u32::try_from(place + 1).ok());
        }
    }
}

/// The bytes, which a browser downloads and never shows: they are the sender's, and untrusted.
pub(crate) async fn body(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    path: EventPath,
) -> Result<Response, Problem> {
    let key = event_key(path)?;
    let content = people.event_body(&key, state.clock.now_ms()).await?;
    if content.unopened.is_some() {
        return Err(Problem::SEALED);
    }
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"body\"")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, content.body).into_response())
}
