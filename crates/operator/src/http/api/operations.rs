//! `/v1/operations`: the orders about everything that a filter finds, with their preview, progress and end.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use tracing::info;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::decide::{DecisionRequest, answer, body_of, busy, order};
use super::messages::Judge;
use super::query::{cursor, is_text, limit, query, uuid_text};
use super::state::{ApiState, Asking};
use hooklatch_contract::{OperationChoice, OperationOrder, OperationPreview, ReasonOrder};
use hooklatch_core::types::Name;
use hooklatch_store::{OperationAct, OperatorQueries};

pub(crate) async fn begin(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let order: OperationOrder = request.order()?;
    check(&order.subject.choice())?;
    let decision = request.decision(&state, &order.reason)?;
    let begun = request.people().operation_begin(&order, state.bulk, &decision).await.map_err(busy)?;
    let id = &begun.value.operation_id;
    info!(
        actor = begun.value.actor,
        operation.id = id,
        total_n = begun.value.total_n,
        "an operation was ordered"
    );
    let mut response = answer(StatusCode::ACCEPTED, &begun);
    if let Ok(location) = HeaderValue::try_from(format!("/v1/operations/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// What an operation would act on.
pub(crate) async fn preview(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    body: Body,
) -> Result<Response, Problem> {
    let choice: OperationChoice = order(&body_of(body).await?)?;
    check(&choice)?;
    let preview = people.operation_preview(&choice, state.clock.now_ms()).await?;
    previewed(&state, &people, preview).await
}

/// What an operation that was ordered acts on yet.
pub(super) async fn preview_again(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let preview = people.operation_preview_again(operation_id(&id)?, state.clock.now_ms()).await?;
    previewed(&state, &people, preview).await
}

async fn previewed(
    state: &ApiState,
    people: &OperatorQueries,
    mut preview: OperationPreview,
) -> Result<Response, Problem> {
    Judge::add(state, people, preview.messages.iter_mut()).await?;
    preview.approvals_n = state.bulk.approvals_n;
    Ok(view_reply(StatusCode::OK, &preview))
}

/// Approves, continues or cancels an operation.
pub(crate) async fn decide(
    act: OperationAct,
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let ReasonOrder { reason } = request.order()?;
    let decision = request.decision(&state, &reason)?;
    let decided =
        request.people().operation_decide(operation_id(&id)?, act, &decision).await.map_err(busy)?;
    let word = match act {
        OperationAct::Approve => "approved",
        OperationAct::Continue => "continued",
        OperationAct::Cancel => "cancelled",
    };
    info!(actor = %request.people().principal().name, operation.id = id, "an operation was {word}");
    Ok(answer(StatusCode::OK, &decided))
}

pub(crate) async fn show(Asking(people): Asking, Path(id): Path<String>) -> Result<Response, Problem> {
    Ok(view_reply(StatusCode::OK, &people.operation(operation_id(&id)?).await?))
}

pub(crate) async fn list(Asking(people): Asking, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["cursor", "limit"])?;
    let cursor = cursor(&values, uuid_text)?;
    Ok(view_reply(StatusCode::OK, &people.operations(cursor.as_deref(), limit(&values)?).await?))
}

/// The id of an operation; no operation has one of another form.
fn operation_id(id: &str) -> Result<&str, Problem> {
    uuid::Uuid::parse_str(id).map(|_| id).map_err(|_| Problem::NOT_FOUND)
}

/// Refuses a filter that finds nothing for what is written in it.
fn check(choice: &OperationChoice) -> Result<(), Problem> {
    let is_name = |text: &Option<String>| text.as_deref().is_none_or(|text| Name::parse(text).is_ok());
    let is_text = |text: &Option<String>| text.as_deref().is_none_or(is_text);
    let (has_state, has_names, has_texts) = match choice {
        OperationChoice::Messages(filter) => (
            filter.state.is_some(),
            is_name(&filter.destination) && is_name(&filter.provider),
            is_text(&filter.lane),
        ),
        OperationChoice::Events(filter) => (
            filter.state.is_some(),
            is_name(&filter.provider),
            is_text(&filter.event_type) && is_text(&filter.object),
        ),
    };
    match (has_state, has_names, has_texts) {
        (false, ..) => {
            Err(Problem::bad_request("`state` is missing in the filter: say which state they stand in"))
        }
        (_, false, _) => Err(Problem::bad_request(
            "`provider` and `destination` of the filter must be names: 1 to 64 characters of a-z, 0-9, `_` and `-`",
        )),
        (.., false) => Err(Problem::bad_request(
            "`lane`, `type` and `object` of the filter must be texts of 1 to 255 bytes without NUL",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::OperationSubject;

    #[test]
    fn a_filter_that_cannot_find_anything_is_refused() {
        #[track_caller]
        fn check_one(subject: &str, want: Option<&str>) {
            let found = check(&serde_json::from_str::<OperationSubject>(subject).unwrap().choice())
                .err()
                .map(|problem| problem.sentence);
            assert_eq!(found.is_some(), want.is_some(), "{subject}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{subject}: {found:?}");
        }
        check_one(r#"{"messages":{"act":"send","filter":{"state":"dead"}}}"#, None);
        check_one(r#"{"messages":{"act":"send","filter":{"state":"dead","lane":"a b"}}}"#, None);
        check_one(r#"{"messages":{"act":"send","filter":{}}}"#, Some("which state"));
        check_one(
            r#"{"messages":{"act":"send","filter":{"state":"dead","destination":"A B"}}}"#,
            Some("names"),
        );
        check_one(r#"{"messages":{"act":"send","filter":{"state":"dead","lane":""}}}"#, Some("texts"));
        check_one(r#"{"events":{"act":"erase","filter":{"state":"handled","type":"a"}}}"#, None);
        check_one(r#"{"events":{"act":"erase","filter":{"provider":"stripe"}}}"#, Some("which state"));
        check_one(r#"{"events":{"act":"erase","filter":{"state":"handled","object":""}}}"#, Some("texts"));
        let body = r#"{"messages":{"act":"rerun","filter":{"state":"dead"}}}"#;
        assert!(serde_json::from_str::<OperationSubject>(body).is_err(), "an event's act");
    }
}
