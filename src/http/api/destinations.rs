//! `/v1/destinations`: which ones are paused, and to pause or resume one.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::decide::{decide, decision_request, order};
use super::state::ApiState;
use crate::store::DecisionTarget;
use crate::types::Name;

pub(super) async fn decide_one(
    State(state): State<Arc<ApiState>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = decision_request(request).await?;
    let order = order(&request.body)?;
    order.is_about_one()?;
    let name = Name::parse(&name).ok().filter(|name| state.destinations.contains(name));
    let name = name.ok_or(Problem::NOT_FOUND)?;
    if !matches!(order.act.as_str(), "pause" | "resume") {
        return Err(Problem::bad_request("`act` is pause or resume"));
    }
    decide(&state, &request, &order, &DecisionTarget::Destination(name)).await
}

pub(super) async fn list_paused(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let paused = state.store.pause_list().await?;
    Ok(json_reply(StatusCode::OK, &json!({ "paused": paused })))
}
