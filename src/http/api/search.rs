//! `/v1/search`: whatever an id leads to, and why it leads nowhere.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{query, text};
use super::state::ApiState;

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["id"])?;
    let id = text(&values, "id")?.ok_or(Problem::bad_request("say which `id` to look for"))?;
    Ok(view_reply(StatusCode::OK, &people.search(&id, state.clock.now_ms()).await?))
}
