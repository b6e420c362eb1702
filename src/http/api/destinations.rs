//! `/v1/destinations`: which ones are paused.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::state::ApiState;

pub(super) async fn list_paused(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let paused = state.store.pause_list().await?;
    Ok(json_reply(StatusCode::OK, &json!({ "paused": paused })))
}
