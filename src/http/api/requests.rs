//! `/v1/rejected`: requests that were refused, and why.

use axum::extract::RawQuery;
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{cursor, limit, name, query};

pub(super) async fn list_rejected(
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "cursor", "limit"])?;
    let provider = name(&values, "provider")?;
    let is_id = |text: &str| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let before = cursor(&values, |text| Some(text.to_owned()).filter(|text| is_id(text)))?;
    let page = people.rejected(provider.as_ref(), before, limit(&values)?).await?;
    Ok(view_reply(StatusCode::OK, &page))
}
