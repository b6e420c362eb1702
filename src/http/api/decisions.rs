//! The routes on which people decide about one event, one message, one destination or one provider.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;

use super::super::error::Problem;
use super::asking::Asking;
use super::decide::DecisionRequest;
use super::state::ApiState;
use crate::api::{EventOrder, MessageOrder, PauseAct, PauseOrder};
use crate::store::Ordered;
use crate::types::{EventKey, MessageId, Name, UnixMs};

pub(super) async fn decide_event(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path((provider, event_id)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let EventOrder { act, reason } = request.order()?;
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    request.decide(&state, &Ordered::Event { key: EventKey { provider, event_id }, act }, &reason).await
}

pub(super) async fn decide_message(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let MessageOrder { act, reason } = request.order()?;
    // What else is wrong with the request is said first; no message has this number.
    let id = id.parse().unwrap_or(MessageId::from_column(0));
    request.decide(&state, &Ordered::Message { id, act }, &reason).await
}

pub(super) async fn decide_destination(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let (act, until_ms, reason) = pause_order(&request)?;
    let name = Name::parse(&name).ok().filter(|name| state.destinations.contains_key(name));
    let name = name.ok_or(Problem::NOT_FOUND)?;
    request.decide(&state, &Ordered::Destination { name, act, until_ms }, &reason).await
}

pub(super) async fn decide_provider(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let (act, until_ms, reason) = pause_order(&request)?;
    let is_configured = |name: &Name| state.providers.iter().any(|facts| facts.name == *name);
    let name = Name::parse(&name).ok().filter(is_configured).ok_or(Problem::NOT_FOUND)?;
    request.decide(&state, &Ordered::Provider { name, act, until_ms }, &reason).await
}

/// What is to be done, until when, and why.
fn pause_order(request: &DecisionRequest) -> Result<(PauseAct, Option<UnixMs>, String), Problem> {
    let PauseOrder { act, reason, until_ms } = request.order()?;
    if until_ms.is_some() && act == PauseAct::Resume {
        return Err(Problem::END_WITHOUT_PAUSE);
    }
    Ok((act, until_ms, reason))
}
