//! `/v1/messages`: calls that are to be made, their attempts, and what a person decides about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::query::{limit, query};
use super::state::ApiState;
use crate::store::{Filter, MessageRow};
use crate::types::{MessageId, MessageState, Name};

pub(super) fn filter(state: Option<&str>, to: Option<&str>, from: Option<&str>) -> Result<Filter, Problem> {
    let name = |text: Option<&str>| {
        text.map(Name::parse).transpose().map_err(|_| Problem::bad_request("that is not a name"))
    };
    let parse = |word| {
        MessageState::parse(word).ok_or_else(|| Problem::bad_request("no message is ever in that state"))
    };
    Ok(Filter { state: state.map(parse).transpose()?, destination: name(to)?, provider: name(from)? })
}

fn filter_of(values: &BTreeMap<String, String>) -> Result<Filter, Problem> {
    let value = |name: &str| values.get(name).map(String::as_str);
    filter(value("state"), value("destination"), value("provider"))
}

pub(super) fn message_json(row: &MessageRow) -> Value {
    json!({
        "message_id": row.message_id, "provider": row.key.provider.as_str(), "event_id": row.key.event_id,
        "type": row.event_type, "effect_name": row.effect_name, "idempotency_key": row.idempotency_key,
        "destination": row.destination, "state": row.state, "attempts_n": row.attempts_n,
        "visible_at_ms": row.visible_at_ms, "last_result": row.last_result, "last_error": row.last_error,
        "created_at_ms": row.created_at_ms, "first_sent_at_ms": row.first_sent_at_ms,
        "lane": row.lane, "key_valid_until_ms": row.key_valid_until_ms, "settled_at_ms": row.finished_at_ms,
    })
}

pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["state", "destination", "provider", "before", "limit"])?;
    let (filter, limit) = (filter_of(&values)?, limit(&values)?);
    let before = values.get("before").map(|text| text.parse::<MessageId>()).transpose();
    let before = before.map_err(|_| Problem::bad_request("`before` is the id of a message"))?;
    let rows = state.store.message_list(&filter, before, limit).await?;
    // A full page may have a next one.
    let next = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.message_id);
    let messages: Vec<Value> = rows.iter().map(message_json).collect();
    Ok(json_reply(StatusCode::OK, &json!({ "messages": messages, "next_before": next })))
}

pub(super) async fn count(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let filter = filter_of(&query(raw.as_deref(), ["state", "destination", "provider"])?)?;
    if filter.state.is_none() {
        return Err(Problem::bad_request("say which `state` to count"));
    }
    let messages_n = state.store.message_count(&filter).await?;
    Ok(json_reply(StatusCode::OK, &json!({ "messages_n": messages_n })))
}

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = message_id(&id)?;
    let row = state.store.message_get(id).await?.ok_or(Problem::NOT_FOUND)?;
    let attempts = state.store.attempt_list(id).await?;
    let decisions = state.store.audit_list(id).await?;
    let body = json!({ "message": message_json(&row), "attempts": attempts, "decisions": decisions });
    Ok(json_reply(StatusCode::OK, &body))
}

/// Reads a message's id; a text that is no number is the id of none.
fn message_id(text: &str) -> Result<MessageId, Problem> {
    text.parse().map_err(|_| Problem::NOT_FOUND)
}
