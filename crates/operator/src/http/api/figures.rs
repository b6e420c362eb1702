//! `/v1/backlog`, `/v1/statistics` and `/v1/activity`: what waits, and what was counted over time.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::query::{name, query, up_to};
use super::state::{ApiState, Asking};
use hooklatch_contract::{BacklogEvents, BacklogMessages, BacklogView};
use hooklatch_core::types::EventState;
use hooklatch_store::ActivityQuery;

/// Counts the events and messages that need an operator, and says of each whether anything configured takes
/// them.
pub(crate) async fn backlog(
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

/// Minutes to look back, unless `minutes_n` says otherwise.
const MINUTES_N_DEFAULT: u32 = 60;
/// Most minutes to look back: a day.
const MINUTES_N_MAX: u32 = 1_440;

pub(crate) async fn statistics(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "minutes_n"])?;
    let wrong = "`minutes_n` must be a number from 1 to 1440";
    let minutes_n = up_to(&values, ("minutes_n", MINUTES_N_DEFAULT, MINUTES_N_MAX), wrong)?;
    let provider = name(&values, "provider")?.map(|name| name.to_string());
    let found = people.statistics(provider, minutes_n, state.clock.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &found))
}

/// Hours to look back, unless `hours_n` says otherwise.
const HOURS_N_DEFAULT: u32 = 24;
/// Most hours to look back: as long as counts are kept.
const HOURS_N_MAX: u32 = 9_600;

pub(crate) async fn activity(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "destination", "hours_n"])?;
    let wrong = "`hours_n` must be a number from 1 to 9600";
    let hours_n = up_to(&values, ("hours_n", HOURS_N_DEFAULT, HOURS_N_MAX), wrong)?;
    let (provider, destination) = (name(&values, "provider")?, name(&values, "destination")?);
    let principal = people.principal();
    let named = [(&provider, &principal.providers), (&destination, &principal.destinations)];
    for (name, reach) in named {
        if let Some(name) = name.as_ref().filter(|name| !reach.has(name.as_str())) {
            return Err(Problem::NOT_FOUND.with_detail(format!("this token does not reach `{name}`")));
        }
    }
    let asked = ActivityQuery { provider, destination, hours_n };
    let view = people.activity(&asked, (state.unsaved)(), state.clock.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &view))
}
