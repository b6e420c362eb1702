//! `/v1/backlog`: what waits for somebody.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::state::ApiState;

/// Counts the events and messages that somebody should look at, and says of each whether anything configured takes
/// them.
pub(super) async fn show(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let is_provider = |name: &str| state.providers.iter().any(|one| one.name.as_str() == name);
    let is_destination = |name: &str| state.destinations.iter().any(|one| one.as_str() == name);
    let (events, messages) = (state.store.event_counts_open().await?, state.store.message_counts().await?);
    let events = events.iter().map(|one| {
        json!({
            "provider": one.provider, "state": one.state, "events_n": one.events_n,
            "oldest_received_at_ms": one.oldest_received_at_ms, "configured": is_provider(&one.provider),
        })
    });
    let messages = messages.iter().map(|one| {
        json!({
            "destination": one.destination, "state": one.state.as_str(), "messages_n": one.messages_n,
            "oldest_visible_at_ms": one.oldest_visible_at_ms, "configured": is_destination(&one.destination),
        })
    });
    let body = json!({
        "now_ms": state.clock.now_ms(), "events": events.collect::<Vec<_>>(), "messages": messages.collect::<Vec<_>>(),
    });
    Ok(json_reply(StatusCode::OK, &body))
}
