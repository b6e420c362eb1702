//! `/v1/search`: whatever an id leads to, and why it leads nowhere.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::judged::Judge;
use super::query::query_within;
use super::state::{ApiState, ProviderFacts};
use crate::api::SearchHit;
use crate::store::Unsearched;

/// Longest text that is looked for: the address of a page may be longer than any id. Characters.
const QUERY_CHARS_MAX: usize = 1_000;
/// The same in bytes.
const QUERY_BYTES_MAX: usize = 4_096;

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query_within(raw.as_deref(), ["id"], QUERY_BYTES_MAX)?;
    let id = values.get("id").filter(|id| !id.is_empty() && !id.contains('\0'));
    let id = id.filter(|id| id.chars().nth(QUERY_CHARS_MAX).is_none());
    let id =
        id.ok_or(Problem::bad_request("`id` must be what to look for: 1 to 1,000 characters without NUL"))?;
    let names = |has_search: Option<bool>| {
        let is_so = |facts: &&ProviderFacts| facts.has_search == has_search;
        state.providers.iter().filter(is_so).map(|facts| facts.name.to_string()).collect()
    };
    let unsearched = Unsearched { off: names(Some(false)), unnamed: names(None) };
    let mut found = people.search(id, &unsearched, state.clock.now_ms()).await?;
    let messages = found.found.iter_mut().filter_map(|hit| match hit {
        SearchHit::MessageId { message }
        | SearchHit::IdempotencyKey { message }
        | SearchHit::EffectName { message } => Some(message),
        _ => None,
    });
    Judge::add(&state, &people, messages).await?;
    Ok(view_reply(StatusCode::OK, &found))
}
