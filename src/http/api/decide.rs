//! A person's decision as a request brings it: its key, the version that it is about, its order; and its answer.
//!
//! Every decision has an `Idempotency-Key`: the same key with the same request gets the stored answer again.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::info;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::order::{body_of, check_reason, order};
use super::state::ApiState;
use crate::api::{IfMatch, OrderResult};
use crate::idempotency::fingerprint;
use crate::store::{Answered, Decision, Ordered, People, PeopleError, StoreError};
use crate::types::{IdempotencyKey, ProblemCode, Role};

/// A request to decide: who asks, and what was sent.
pub(super) struct DecisionRequest {
    people: People,
    key: IdempotencyKey,
    if_match: IfMatch,
    fingerprint: [u8; 32],
    body: Bytes,
}

impl DecisionRequest {
    /// Reads a request to decide; refuses who may not act.
    pub(super) async fn read(people: People, request: Request<Body>) -> Result<Self, Problem> {
        people.needs(Role::Operator)?;
        let (parts, body) = request.into_parts();
        let body = body_of(body).await?;
        let (key, if_match) = (IdempotencyKey::of_headers(&parts.headers)?, if_match(&parts.headers)?);
        let fingerprint = fingerprint(&parts, people.principal().name.as_str(), &body);
        Ok(Self { people, key, if_match, fingerprint, body })
    }

    /// The order in the body.
    pub(super) fn order<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, Problem> {
        order(&self.body)
    }

    /// The store as the caller may see it.
    pub(super) fn people(&self) -> &People {
        &self.people
    }

    /// The request as the store takes it.
    pub(super) fn decision<'a>(&'a self, state: &ApiState, reason: &'a str) -> Result<Decision<'a>, Problem> {
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
    pub(super) async fn decide(
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
pub(super) fn answer<T: Serialize>(status: StatusCode, answered: &Answered<T>) -> Response {
    let mut response = view_reply(status, &answered.value);
    if answered.is_again {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// A request under the same key, or a decision about the same rows, is being carried out for longer than we wait.
pub(super) fn busy(error: PeopleError) -> Problem {
    if !matches!(error, PeopleError::Store(StoreError::Locked { .. } | StoreError::Conflict { .. })) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
