//! `/v1/statistics`: events per minute and provider.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{minutes_n, name, query};
use super::state::ApiState;

/// Most minutes to look back: a day.
const MINUTES_N_MAX: u32 = 1_440;

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "minutes_n"])?;
    let minutes_n = minutes_n(&values, MINUTES_N_MAX, "`minutes_n` must be a number from 1 to 1440")?;
    let provider = name(&values, "provider")?.map(|name| name.to_string());
    let found = people.statistics(provider, minutes_n, state.clock.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &found))
}
