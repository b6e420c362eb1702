//! Decisions of operators: the version and key of an order, the routes that decide about one subject, and
//! `/v1/operations`, the orders about everything that a filter finds, with their preview, progress and end.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use tracing::info;

use super::super::error::{Problem, view_reply};
use super::messages::Judge;
use super::order::{ORDER_BYTES_MAX, check_reason, order, read_body};
use super::query::{Query, is_text, uuid_text};
use super::{Answer, ApiState, Caller, path_name};
use hooklatch_contract::{
    EventOrder, IfMatch, MessageOrder, OperationChoice, OperationOrder, OperationPreview, OrderResult,
    PauseAct, PauseOrder, ReasonOrder,
};
use hooklatch_core::types::{EventKey, IdempotencyKey, MessageId, Name, UnixMs};
use hooklatch_receive::idempotency::fingerprint;
use hooklatch_store::{Answered, Decision, OperationAct, OperatorError, Ordered, StoreError};

/// A request to decide: its caller, and its content.
pub(super) struct DecisionRequest {
    caller: Caller,
    key: IdempotencyKey,
    if_match: IfMatch,
    fingerprint: [u8; 32],
    body: Bytes,
}

impl FromRequest<Arc<ApiState>> for DecisionRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, state).await?;
        let body = read_body(body, ORDER_BYTES_MAX).await?;
        let (key, if_match) = (IdempotencyKey::of_headers(&parts.headers)?, if_match(&parts.headers)?);
        let fingerprint = fingerprint(&parts, caller.people.principal().name.as_str(), &body);
        Ok(Self { caller, key, if_match, fingerprint, body })
    }
}

impl DecisionRequest {
    /// The request as the store takes it.
    fn decision<'a>(&'a self, reason: &'a str) -> Result<Decision<'a>, Problem> {
        check_reason(reason)?;
        Ok(Decision {
            idempotency_key: self.key.as_str(),
            digest: self.fingerprint,
            reason,
            if_match: &self.if_match,
            now_ms: self.caller.now_ms(),
        })
    }

    /// Carries out an order about one subject, and answers.
    async fn decide(&self, ordered: &Ordered, reason: &str) -> Answer {
        let people = &self.caller.people;
        let decided: Answered<OrderResult> =
            people.decide(ordered, &self.decision(reason)?).await.map_err(busy)?;
        let (act, subject) = ordered.in_words();
        let actor = &people.principal().name;
        info!(%actor, act, subject, is_again = decided.is_again, "an operator decided");
        (self.caller.state.decided)();
        Ok(answer(StatusCode::OK, &decided))
    }

    /// What is to be done to a destination or provider, until when, and why.
    fn pause_order(&self) -> Result<(PauseAct, Option<UnixMs>, String), Problem> {
        let PauseOrder { act, reason, until_ms } = order(&self.body)?;
        if until_ms.is_some() && act == PauseAct::Resume {
            return Err(Problem::END_WITHOUT_PAUSE);
        }
        Ok((act, until_ms, reason))
    }
}

/// An answer, and whether it was given before.
fn answer<T: Serialize>(status: StatusCode, answered: &Answered<T>) -> Response {
    let mut response = view_reply(status, &answered.value);
    if answered.is_again {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// A request under the same key, or a decision about the same rows, is being carried out for longer than we wait.
fn busy(error: OperatorError) -> Problem {
    if !matches!(error, OperatorError::Store(StoreError::Locked { .. } | StoreError::Conflict { .. })) {
        return Problem::from(error);
    }
    Problem::KEY_IN_USE
}

fn if_match(headers: &HeaderMap) -> Result<IfMatch, Problem> {
    let bad = || Problem::bad_request("`If-Match` must be `*`, or a list of entity tags in quotes");
    let lines = headers.get_all(header::IF_MATCH).iter().map(HeaderValue::to_str);
    let lines = lines.collect::<Result<Vec<_>, _>>().map_err(|_| bad())?;
    IfMatch::parse(lines).map_err(|_| bad())
}

pub(super) async fn decide_event(
    Path((provider, event_id)): Path<(String, String)>,
    request: DecisionRequest,
) -> Answer {
    let EventOrder { act, reason } = order(&request.body)?;
    let key = EventKey { provider: path_name(&provider)?, event_id };
    request.decide(&Ordered::Event { key, act }, &reason).await
}

pub(super) async fn decide_message(Path(id): Path<String>, request: DecisionRequest) -> Answer {
    let MessageOrder { act, reason } = order(&request.body)?;
    // Other mistakes in the request are reported first; no message has this number.
    let id = id.parse().unwrap_or(MessageId::from_column(0));
    request.decide(&Ordered::Message { id, act }, &reason).await
}

pub(super) async fn decide_destination(Path(name): Path<String>, request: DecisionRequest) -> Answer {
    let (act, until_ms, reason) = request.pause_order()?;
    let name = path_name(&name)?;
    if !request.caller.state.destinations.contains_key(&name) {
        return Err(Problem::NOT_FOUND);
    }
    request.decide(&Ordered::Destination { name, act, until_ms }, &reason).await
}

pub(super) async fn decide_provider(Path(name): Path<String>, request: DecisionRequest) -> Answer {
    let (act, until_ms, reason) = request.pause_order()?;
    let name = path_name(&name)?;
    request.caller.provider(name.as_str()).ok_or(Problem::NOT_FOUND)?;
    request.decide(&Ordered::Provider { name, act, until_ms }, &reason).await
}

pub(super) async fn begin(request: DecisionRequest) -> Answer {
    let order: OperationOrder = order(&request.body)?;
    check(&order.subject.choice())?;
    let (decision, Caller { state, people }) = (request.decision(&order.reason)?, &request.caller);
    let begun = people.operation_begin(&order, state.bulk, &decision).await.map_err(busy)?;
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
pub(super) async fn preview(caller: Caller, body: Body) -> Answer {
    let choice: OperationChoice = order(&read_body(body, ORDER_BYTES_MAX).await?)?;
    check(&choice)?;
    let preview = caller.people.operation_preview(&choice, caller.now_ms()).await?;
    previewed(&caller, preview).await
}

/// What an operation that was ordered acts on yet.
pub(super) async fn preview_again(caller: Caller, Path(id): Path<String>) -> Answer {
    let preview = caller.people.operation_preview_again(operation_id(&id)?, caller.now_ms()).await?;
    previewed(&caller, preview).await
}

async fn previewed(caller: &Caller, mut preview: OperationPreview) -> Answer {
    Judge::add(caller, preview.messages.iter_mut()).await?;
    preview.approvals_n = caller.state.bulk.approvals_n;
    Ok(view_reply(StatusCode::OK, &preview))
}

/// Approves, continues or cancels an operation.
pub(super) async fn decide_operation(
    act: OperationAct,
    Path(id): Path<String>,
    request: DecisionRequest,
) -> Answer {
    let (ReasonOrder { reason }, people) = (order(&request.body)?, &request.caller.people);
    let decision = request.decision(&reason)?;
    let decided = people.operation_decide(operation_id(&id)?, act, &decision).await.map_err(busy)?;
    let word = match act {
        OperationAct::Approve => "approved",
        OperationAct::Continue => "continued",
        OperationAct::Cancel => "cancelled",
    };
    info!(actor = %people.principal().name, operation.id = id, "an operation was {word}");
    Ok(answer(StatusCode::OK, &decided))
}

pub(super) async fn show_operation(caller: Caller, Path(id): Path<String>) -> Answer {
    Ok(view_reply(StatusCode::OK, &caller.people.operation(operation_id(&id)?).await?))
}

pub(super) async fn list_operations(caller: Caller, query: Query) -> Answer {
    let cursor = query.cursor(uuid_text)?;
    Ok(view_reply(StatusCode::OK, &caller.people.operations(cursor.as_deref(), query.limit()?).await?))
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

    #[test]
    fn a_version_is_read_or_refused() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            headers
        };
        assert_eq!(if_match(&headers(&[])).ok(), Some(IfMatch::Missing));
        let two = headers(&[("if-match", "\"a\""), ("if-match", "\"b\"")]);
        assert!(if_match(&two).unwrap().admits("\"b\""));
        assert!(if_match(&headers(&[("if-match", "a")])).is_err());
    }
}
