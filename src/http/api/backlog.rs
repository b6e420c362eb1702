//! `/v1/backlog`: what waits for somebody.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::state::ApiState;
use crate::api::{BacklogEvents, BacklogMessages, BacklogView};
use crate::types::EventState;

/// Counts the events and messages that somebody should look at, and says of each whether anything configured takes
/// them.
pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
) -> Result<Response, Problem> {
    let now_ms = state.clock.now_ms();
    let (events, pauses) = people.waiting_events().await?;
    let events = events.into_iter().map(|(provider, count)| BacklogEvents {
        is_configured: state.providers.iter().any(|one| one.name.as_str() == provider),
        pause: pauses.get(&provider).filter(|_| count.state == EventState::Retry).cloned(),
        provider,
        count,
    });
    let standings = people.destinations(state.destinations.keys(), now_ms).await?;
    let messages = standings.into_iter().flat_map(|standing| {
        let is_configured = state.destinations.contains_key(standing.name.as_str());
        let destination = standing.name;
        standing.backlog.into_iter().map(move |count| BacklogMessages {
            destination: destination.clone(),
            is_configured,
            count,
        })
    });
    let mut unknown_paths =
        if people.principal().is_everywhere() { (state.unknown_paths)() } else { Vec::new() };
    if !people.may_see_contents() {
        for one in &mut unknown_paths {
            one.client_address = None;
        }
    }
    let causes = people.causes().await?;
    let operations = people.operations_for_persons().await?;
    let view = BacklogView {
        now_ms,
        events: events.collect(),
        messages: messages.collect(),
        unknown_paths,
        causes,
        operations,
    };
    Ok(view_reply(StatusCode::OK, &view))
}
