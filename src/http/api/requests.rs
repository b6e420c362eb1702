//! `/v1/rejected`: requests that were refused, and why.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::query::{limit, query};
use super::state::ApiState;
use crate::types::Name;

pub(super) async fn list_rejected(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "limit"])?;
    let provider = values.get("provider").map(|text| Name::parse(text)).transpose();
    let provider = provider.map_err(|_| Problem::bad_request("that is not a name"))?;
    let found = state.store.rejection_list(provider.as_ref(), limit(&values)?).await?;
    Ok(json_reply(StatusCode::OK, &json!({ "rejected": found })))
}
