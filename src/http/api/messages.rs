//! `/v1/messages`: calls that are to be made or were, and all that is known of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::{tagged_reply, view_reply};
use super::asking::Asking;
use super::judged::Judge;
use super::query::{cursor, limit, name, no_state, query, text, time, word};
use super::state::ApiState;
use crate::api::MessageFilter;
use crate::types::{MessageId, MessageState};

fn wanted(values: &BTreeMap<String, String>) -> Result<MessageFilter, Problem> {
    let states = MessageState::ALL.iter().map(|state| state.as_str());
    Ok(MessageFilter {
        state: word(values, "state", states, MessageState::parse)?,
        destination: name(values, "destination")?.map(|name| name.to_string()),
        provider: name(values, "provider")?.map(|name| name.to_string()),
        lane: text(values, "lane")?,
        created_before_ms: time(values, "created_before_ms")?,
    })
}

pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let known = ["state", "destination", "provider", "lane", "created_before_ms", "cursor", "limit"];
    let values = query(raw.as_deref(), known)?;
    let before = cursor(&values, |text| text.parse::<MessageId>().ok())?;
    let mut page = people.messages(wanted(&values)?, before, limit(&values)?).await?;
    let judge = Judge::of(&state, &people, &page.items).await?;
    for message in &mut page.items {
        judge.judge(message);
    }
    Ok(view_reply(StatusCode::OK, &page))
}

pub(super) async fn count(Asking(people): Asking, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let known = ["state", "destination", "provider", "lane", "created_before_ms"];
    let filter = wanted(&query(raw.as_deref(), known)?)?;
    if filter.state.is_none() {
        return Err(no_state(MessageState::ALL.iter().map(|state| state.as_str())));
    }
    Ok(view_reply(StatusCode::OK, &people.messages_count(filter).await?))
}

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    // A text that is no number is the id of none.
    let id = id.parse().map_err(|_| Problem::NOT_FOUND)?;
    let mut detail = people.message(id, state.clock.now_ms()).await?;
    let facts = Judge::of(&state, &people, [&detail.message]).await?.judge(&mut detail.message);
    detail.policy =
        state.destinations.get(detail.message.destination.as_str()).map(|facts| facts.policy.clone());
    Ok(tagged_reply(&detail, &(&detail.message, facts.is_rerun)))
}
