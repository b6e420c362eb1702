//! The routes on which people decide: about one event, one message or one destination, and about several messages.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;

use super::super::error::Problem;
use super::decide::{decide, decision_request, order};
use super::messages;
use super::state::ApiState;
use crate::store::DecisionTarget;
use crate::types::{EventKey, MessageId, Name};

pub(super) async fn decide_event(
    State(state): State<Arc<ApiState>>,
    Path((provider, event_id)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let request = decision_request(request).await?;
    let order = order(&request.body)?;
    order.is_about_one()?;
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    if !matches!(order.act.as_str(), "rerun" | "dispatch" | "dismiss" | "erase" | "erase_and_discard") {
        return Err(Problem::bad_request("`act` is rerun, dispatch, dismiss, erase or erase_and_discard"));
    }
    decide(&state, &request, &order, &DecisionTarget::Event(EventKey { provider, event_id })).await
}

pub(super) async fn decide_message(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = decision_request(request).await?;
    let order = order(&request.body)?;
    order.is_about_one()?;
    // What else is wrong with the request is said first; no message has this number.
    let id = id.parse().unwrap_or(MessageId::from_column(0));
    decide(&state, &request, &order, &DecisionTarget::One(id)).await
}

pub(super) async fn decide_messages(
    State(state): State<Arc<ApiState>>,
    request: Request,
) -> Result<Response, Problem> {
    let request = decision_request(request).await?;
    let order = order(&request.body)?;
    let filter =
        messages::filter(order.state.as_deref(), order.destination.as_deref(), order.provider.as_deref())?;
    let (Some(_), Some(counted_n)) = (filter.state, order.messages_n) else {
        return Err(Problem::bad_request("say which `state`, and with `messages_n` how many you counted"));
    };
    decide(&state, &request, &order, &DecisionTarget::All(filter, counted_n)).await
}

pub(super) async fn decide_destination(
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
