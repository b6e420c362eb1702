//! `/v1/rejected`: requests that were refused, and why.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{cursor, limit, name, query, text};
use super::state::ApiState;
use crate::api::Page;
use crate::store::RejectedQuery;

pub(super) async fn list_rejected(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "reason", "cursor", "limit"])?;
    let provider = name(&values, "provider")?;
    let is_id = |text: &str| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let before = cursor(&values, |text| Some(text.to_owned()).filter(|text| is_id(text)))?;
    let query = RejectedQuery { provider, reason: text(&values, "reason")?, before, limit: limit(&values)? };
    let page = people.rejected(query, state.clock.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &page))
}

pub(super) async fn group_rejected(
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    query(raw.as_deref(), [])?;
    Ok(view_reply(StatusCode::OK, &Page::whole(people.rejected_groups().await?)))
}
