//! `/v1/audit`: what people decided, and which contents they looked at.

use axum::extract::RawQuery;
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{cursor, limit, query};

pub(super) async fn list(Asking(people): Asking, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["cursor", "limit"])?;
    let before = cursor(&values, |text| text.parse::<i64>().ok().filter(|seq| *seq >= 0))?;
    Ok(view_reply(StatusCode::OK, &people.audit(before, limit(&values)?).await?))
}
