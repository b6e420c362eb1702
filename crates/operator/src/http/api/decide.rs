//! Decisions of operators: the order of a POST, its version and key, and the routes that decide about one subject.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::info;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::shape;
use super::state::{ApiState, Asking};
use hooklatch_contract::{EventOrder, IfMatch, MessageOrder, OrderResult, PauseAct, PauseOrder, is_reason};
use hooklatch_core::plain;
use hooklatch_core::types::{EventKey, IdempotencyKey, MessageId, Name, ProblemCode, Role, UnixMs};
use hooklatch_receive::idempotency::fingerprint;
use hooklatch_store::{Answered, Decision, OperatorError, OperatorQueries, Ordered, StoreError};

/// Largest body of an order, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest text about what is wrong with a body; it repeats a part of it. Characters.
const DETAIL_CHARS_MAX: usize = 300;
/// Longest time that an order's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// All of a body, within its bounds.
pub(crate) async fn body_of(body: Body) -> Result<Bytes, Problem> {
    body_of_at_most(body, BODY_BYTES_MAX).await
}

/// The same of a body that may have so many bytes.
pub(super) async fn body_of_at_most(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, bytes_max).collect()).await;
    Ok(read.map_err(|_| Problem::TOO_SLOW)?.map_err(|_| Problem::TOO_LARGE)?.to_bytes())
}

/// The order in a body, which is a JSON object; a refusal names the field that is wrong.
pub(crate) fn order<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Problem> {
    let unread = |error: serde_json::Error| {
        let detail: String =
            format!("the body cannot be read: {error}").chars().take(DETAIL_CHARS_MAX).collect();
        Problem::bad_request("the body cannot be read").with_detail(plain::line(&detail))
    };
    let value = serde_json::from_slice(body).map_err(unread)?;
    if let Some(mistake) = shape::mistake::<T>(&value) {
        return Err(Problem::bad_request("the body is not as the route needs it").with_detail(mistake));
    }
    // From the text: of a name that is there twice, a `Value` keeps one.
    serde_json::from_slice(body).map_err(unread)
}

/// Refuses a reason that cannot be kept.
pub(super) fn check_reason(reason: &str) -> Result<(), Problem> {
    if is_reason(reason) { Ok(()) } else { Err(Problem::BAD_REASON) }
}

/// A request to decide: its caller, and its content.
pub(super) struct DecisionRequest {
    people: OperatorQueries,
    key: IdempotencyKey,
    if_match: IfMatch,
    fingerprint: [u8; 32],
    body: Bytes,
}

impl DecisionRequest {
    /// Reads a request to decide; refuses who may not act.
    pub(crate) async fn read(people: OperatorQueries, request: Request<Body>) -> Result<Self, Problem> {
        people.needs(Role::Operator)?;
        let (parts, body) = request.into_parts();
        let body = body_of(body).await?;
        let (key, if_match) = (IdempotencyKey::of_headers(&parts.headers)?, if_match(&parts.headers)?);
        let fingerprint = fingerprint(&parts, people.principal().name.as_str(), &body);
        Ok(Self { people, key, if_match, fingerprint, body })
    }

    /// The order in the body.
    pub(crate) fn order<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, Problem> {
        order(&self.body)
    }

    /// The store as the caller may see it.
    pub(crate) fn people(&self) -> &OperatorQueries {
        &self.people
    }

    /// The request as the store takes it.
    pub(crate) fn decision<'a>(&'a self, state: &ApiState, reason: &'a str) -> Result<Decision<'a>, Problem> {
        check_reason(reason)?;
        Ok(Decision {
            idempotency_key: self.key.as_str(),
            digest: self.fingerprint,
            reason,
            if_match: &self.if_match,
            now_ms: state.clock.now_ms(),
        })
    }

    /// Carries out an order about one subject, and answers.
    pub(crate) async fn decide(
        &self,
        state: &ApiState,
        ordered: &Ordered,
        reason: &str,
    ) -> Result<Response, Problem> {
        let decided: Answered<OrderResult> =
            self.people.decide(ordered, &self.decision(state, reason)?).await.map_err(busy)?;
        let (act, subject) = ordered.in_words();
        let actor = &self.people.principal().name;
        info!(%actor, act, subject, is_again = decided.is_again, "an operator decided");
        (state.decided)();
        Ok(answer(StatusCode::OK, &decided))
    }
}

/// An answer, and whether it was given before.
pub(crate) fn answer<T: Serialize>(status: StatusCode, answered: &Answered<T>) -> Response {
    let mut response = view_reply(status, &answered.value);
    if answered.is_again {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// A request under the same key, or a decision about the same rows, is being carried out for longer than we wait.
pub(crate) fn busy(error: OperatorError) -> Problem {
    if !matches!(error, OperatorError::Store(StoreError::Locked { .. } | StoreError::Conflict { .. })) {
        return Problem::from(error);
    }
    let sentence = "a decision about the same is being carried out: repeat yours for its answer";
    Problem {
        retry_after_s: Some(1),
        ..Problem::new(StatusCode::CONFLICT, ProblemCode::IdempotencyKeyInUse, sentence)
    }
}

fn if_match(headers: &HeaderMap) -> Result<IfMatch, Problem> {
    let bad = || Problem::bad_request("`If-Match` must be `*`, or a list of entity tags in quotes");
    let lines = headers.get_all(header::IF_MATCH).iter().map(HeaderValue::to_str);
    let lines = lines.collect::<Result<Vec<_>, _>>().map_err(|_| bad())?;
    IfMatch::parse(lines).map_err(|_| bad())
}

pub(super) async fn decide_event(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path((provider, event_id)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let EventOrder { act, reason } = request.order()?;
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    request.decide(&state, &Ordered::Event { key: EventKey { provider, event_id }, act }, &reason).await
}

pub(super) async fn decide_message(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let MessageOrder { act, reason } = request.order()?;
    // Other mistakes in the request are reported first; no message has this number.
    let id = id.parse().unwrap_or(MessageId::from_column(0));
    request.decide(&state, &Ordered::Message { id, act }, &reason).await
}

pub(super) async fn decide_destination(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let (act, until_ms, reason) = pause_order(&request)?;
    let name = Name::parse(&name).ok().filter(|name| state.destinations.contains_key(name));
    let name = name.ok_or(Problem::NOT_FOUND)?;
    request.decide(&state, &Ordered::Destination { name, act, until_ms }, &reason).await
}

pub(super) async fn decide_provider(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let request = DecisionRequest::read(people, request).await?;
    let (act, until_ms, reason) = pause_order(&request)?;
    let is_configured = |name: &Name| state.providers.iter().any(|facts| facts.name == *name);
    let name = Name::parse(&name).ok().filter(is_configured).ok_or(Problem::NOT_FOUND)?;
    request.decide(&state, &Ordered::Provider { name, act, until_ms }, &reason).await
}

/// What is to be done, until when, and why.
fn pause_order(request: &DecisionRequest) -> Result<(PauseAct, Option<UnixMs>, String), Problem> {
    let PauseOrder { act, reason, until_ms } = request.order()?;
    if until_ms.is_some() && act == PauseAct::Resume {
        return Err(Problem::END_WITHOUT_PAUSE);
    }
    Ok((act, until_ms, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::MessageOrder;

    #[test]
    fn an_order_is_an_act_of_its_subject_and_a_reason_and_nothing_that_is_overlooked() {
        #[track_caller]
        fn check(body: &str, want: Option<&str>) {
            let found = order::<MessageOrder>(body.as_bytes()).err().and_then(|problem| problem.detail);
            assert_eq!(found.is_some(), want.is_some(), "{body}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{body}");
        }
        check(r#"{"act":"send","reason":"asked by Ann"}"#, None);
        check(r#"{"act":"send","reason":"x","state":"held"}"#, Some("`state` does not exist"));
        check(r#"{"act":"send"}"#, Some("`reason` is missing"));
        check(r#"{"act":"pause","reason":"x"}"#, Some("`act` must be one of"));
        check(r#"{"act":"send","act":"done","reason":"x"}"#, Some("duplicate field `act`"));
        check(r#"["send","x"]"#, Some("the body must be an object"));
        check("", Some("EOF"));
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
        assert_eq!(if_match(&headers(&[])).ok(), Some(IfMatch::Unsaid));
        let two = headers(&[("if-match", "\"a\""), ("if-match", "\"b\"")]);
        assert!(if_match(&two).unwrap().admits("\"b\""));
        assert!(if_match(&headers(&[("if-match", "a")])).is_err());
    }
}
