//! `/v1/destinations`: where messages go, what waits for each, and whether it is used now.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::{tagged_reply, view_reply};
use super::state::{ApiState, Asking};
use hooklatch_contract::{DestinationView, Page};
use hooklatch_core::types::Name;
use hooklatch_store::{DestinationStatus, OperatorQueries};

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
) -> Result<Response, Problem> {
    let items = views(&state, &people).await?;
    Ok(view_reply(StatusCode::OK, &Page::<DestinationView>::whole(items)))
}

/// Those destinations that are in scope.
pub(crate) async fn views(
    state: &ApiState,
    people: &OperatorQueries,
) -> Result<Vec<DestinationView>, Problem> {
    let found = people.destinations(state.destinations.keys(), state.clock.now_ms()).await?;
    Ok(found.into_iter().map(|standing| view(state, standing)).collect())
}

pub(crate) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let name = Name::parse(&name).map_err(|_| Problem::NOT_FOUND)?;
    let is_configured = state.destinations.contains_key(&name);
    let standing = people.destination(&name, is_configured, state.clock.now_ms()).await?;
    let view = view(&state, standing);
    Ok(tagged_reply(&view, &view))
}

/// A destination from the tables, with this node's configuration and state.
fn view(state: &ApiState, standing: DestinationStatus) -> DestinationView {
    let facts = state.destinations.get(standing.name.as_str());
    DestinationView {
        kind: facts.map_or_else(|| "unknown".to_owned(), |facts| facts.kind.to_owned()),
        is_configured: facts.is_some(),
        pause: standing.pause,
        breaker: (state.breaker)(&standing.name).map(str::to_owned),
        policy: facts.map(|facts| facts.policy.clone()),
        concurrency_n: facts.map(|facts| facts.concurrency_n),
        rate_per_s: facts.map(|facts| facts.rate_per_s).filter(|n| *n > 0).map(f64::from),
        call_times: (state.call_times)(&standing.name),
        backlog: standing.backlog,
        oldest_due_at_ms: standing.oldest_due_at_ms,
        name: standing.name,
    }
}
