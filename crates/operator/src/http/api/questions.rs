//! `/v1/explain` and `/v1/what-if`: queries with a body, which change nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::decide::{body_of, body_of_at_most, order};
use super::events::{EventPath, event_key};
use super::query::is_text;
use super::state::{ApiState, Asking};
use hooklatch_contract::{EventFilter, ExplainOrder, WHAT_IF_N_DEFAULT, WHAT_IF_N_MAX, WhatIfOrder};
use hooklatch_core::types::{Name, Role};
use hooklatch_receive::admit::ShownBytes;
use hooklatch_store::{EventPlace, EventQuery};

/// Largest question that is read. Bytes.
const EXPLAIN_BYTES_MAX: usize = 1 << 20;

pub(crate) async fn explain(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    body: Body,
) -> Result<Response, Problem> {
    people.needs(Role::Reader)?;
    let body = body_of_at_most(body, EXPLAIN_BYTES_MAX).await?;
    let order: ExplainOrder = order(&body)?;
    if order.provider.as_deref().is_some_and(|name| Name::parse(name).is_err()) {
        return Err(Problem::bad_request(
            "`provider` must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`",
        ));
    }
    let reach = &people.principal().providers;
    let view = state.explainer.explain(order, reach, state.clock.now_ms()).await;
    let mut view = view.ok_or_else(|| {
        let detail = "no provider of this name is configured here, or this token does not reach it";
        Problem::NOT_FOUND.with_detail(detail)
    })?;
    if let Some(provider) = &view.provider {
        people.mark_known(provider, &mut view.events).await?;
    }
    Ok(view_reply(StatusCode::OK, &view))
}

/// Time after which no further event is tried.
const TIME_MAX: Duration = Duration::from_secs(10);

pub(super) async fn what_if_one(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    path: EventPath,
) -> Result<Response, Problem> {
    people.needs(Role::Operator)?;
    let key = event_key(path)?;
    let place = state.what_if.place().await.ok_or(Problem::WHAT_IF_BUSY)?;
    let run = |event| state.what_if.run(&place, event, ShownBytes::ONE);
    let view = people.what_if_one(&key, state.clock.now_ms(), run).await?;
    Ok(view_reply(StatusCode::OK, &view))
}

pub(crate) async fn what_if(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    body: Body,
) -> Result<Response, Problem> {
    people.needs(Role::Operator)?;
    let query = query(order(&body_of(body).await?)?)?;
    let place = state.what_if.place().await.ok_or(Problem::WHAT_IF_BUSY)?;
    let run = |event| state.what_if.run(&place, event, ShownBytes::EACH);
    let view = people.what_if(query, TIME_MAX, state.clock.now_ms(), run).await?;
    Ok(view_reply(StatusCode::OK, &view))
}

/// The events of the query.
fn query(order: WhatIfOrder) -> Result<EventQuery, Problem> {
    let limit = order.limit.unwrap_or(i64::from(WHAT_IF_N_DEFAULT));
    let limit = u32::try_from(limit).ok().filter(|limit| (1..=WHAT_IF_N_MAX).contains(limit));
    let limit = limit.ok_or(Problem::bad_request("`limit` must be a number from 1 to 100"))?;
    let place = |text: &str| {
        let place = EventPlace::parse(text).filter(|place| matches!(place, EventPlace::Before(_)));
        place.ok_or(Problem::NO_SUCH_CURSOR)
    };
    // A mistake in the order itself is reported before one in what it names.
    check(&order.filter)?;
    let place = order.cursor.as_deref().map(place).transpose()?;
    Ok(EventQuery { filter: order.filter, place, limit })
}

/// Refuses a filter that finds nothing for what is written in it.
fn check(filter: &EventFilter) -> Result<(), Problem> {
    if filter.provider.as_deref().is_some_and(|text| Name::parse(text).is_err()) {
        return Err(Problem::bad_request(
            "`filter.provider` must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`",
        ));
    }
    if filter.event_type.iter().chain(&filter.object).all(|text| is_text(text)) {
        return Ok(());
    }
    Err(Problem::bad_request("`filter.type` and `filter.object` must be texts of 1 to 255 bytes without NUL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_cannot_be_answered_is_refused() {
        #[track_caller]
        fn check_one(text: &str, want: Result<u32, &str>) {
            let found = query(serde_json::from_str(text).unwrap());
            match (found, want) {
                (Ok(query), Ok(limit)) => assert_eq!(query.limit, limit),
                (Err(problem), Err(want)) => assert!(problem.sentence.contains(want), "{problem:?}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        check_one("{}", Ok(20));
        check_one(r#"{"filter":{"state":"handled","type":"a b"},"limit":100,"cursor":"b7"}"#, Ok(100));
        check_one(r#"{"limit":0}"#, Err("1 to 100"));
        check_one(r#"{"limit":101}"#, Err("1 to 100"));
        check_one(r#"{"cursor":"a7"}"#, Err("no such `cursor`"));
        check_one(r#"{"filter":{"provider":"A B"}}"#, Err("must be a name"));
        check_one(r#"{"filter":{"object":""}}"#, Err("must be texts"));
        assert!(serde_json::from_str::<WhatIfOrder>(r#"{"act":"rerun"}"#).is_err());
    }
}
