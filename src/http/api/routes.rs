//! The routes of the API, each behind a token.

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Router, middleware};

use super::super::auth::authenticated;
use super::super::error::Problem;
use super::keys::once;
use super::state::ApiState;
use super::{
    backlog, decisions, destinations, events, me, messages, providers, requests, search, statistics,
};

/// The routes, to be nested under `/v1`.
pub(crate) fn router(state: Arc<ApiState>) -> Router {
    Router::new()
        .route("/me", get(me::show))
        .route("/events", get(events::list))
        .route("/events/count", get(events::count))
        .route("/events/{provider}/{event_id}", get(events::show))
        .route("/events/{provider}/{event_id}/body", get(events::body))
        .route("/events/{provider}/{event_id}/decide", post(decisions::decide_event))
        .route("/messages", get(messages::list))
        .route("/messages/count", get(messages::count))
        .route("/messages/decide", post(decisions::decide_messages))
        .route("/messages/{id}", get(messages::show))
        .route("/messages/{id}/decide", post(decisions::decide_message))
        .route("/destinations/paused", get(destinations::list_paused))
        .route("/destinations/{name}/decide", post(decisions::decide_destination))
        .route("/rejected", get(requests::list_rejected))
        .route("/providers", get(providers::list))
        .route("/providers/{name}/taught", post(providers::show_taught).layer(once(&state)))
        .route("/backlog", get(backlog::show))
        .route("/search", get(search::show))
        .route("/statistics", get(statistics::show))
        .method_not_allowed_fallback(|| async { Problem::OTHER_METHOD })
        .fallback(|| async { Problem::NOT_FOUND })
        .layer(middleware::from_fn_with_state(Arc::clone(&state.gate), authenticated))
        .with_state(state)
}
