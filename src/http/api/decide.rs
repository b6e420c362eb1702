//! A person's decision: who asks, what is asked for, and the answer that is kept with it.
//!
//! Every decision has an `Idempotency-Key`: the same key with the same request gets the stored answer again.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::json;
use tracing::info;

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::state::ApiState;
use crate::idempotency::fingerprint;
use crate::store::{Act, Decided, Decision, DecisionReply, DecisionTarget, StoreError};
use crate::types::{IdempotencyKey, Principal, Role, stored_text};

/// Largest body of a decision, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest time that a decision's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a decision. `state`, `destination`, `provider` and `messages_n` belong to a decision about several
/// messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    pub(super) act: String,
    pub(super) reason: String,
    pub(super) state: Option<String>,
    pub(super) destination: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) messages_n: Option<u64>,
}

impl Order {
    /// Refuses what belongs to a decision about several messages: it would be overlooked.
    pub(super) fn is_about_one(&self) -> Result<(), Problem> {
        let is_filter = self.state.is_some() || self.destination.is_some() || self.provider.is_some();
        if is_filter || self.messages_n.is_some() {
            return Err(Problem::bad_request("a decision about one has `act` and `reason` alone"));
        }
        Ok(())
    }
}

/// A request to decide: who asks, and what was sent.
pub(super) struct DecisionRequest {
    actor: Principal,
    headers: HeaderMap,
    fingerprint: [u8; 32],
    pub(super) body: Bytes,
}

/// Returns the person who asks, if they may act.
pub(super) fn operator(extensions: &http::Extensions) -> Result<Principal, Problem> {
    let actor = extensions.get::<Principal>().cloned().ok_or(Problem::NOT_FOUND)?;
    if actor.role < Role::Operator {
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "this token may look, but not act"));
    }
    Ok(actor)
}

/// Reads a request to decide; refuses who may not act.
pub(super) async fn decision_request(request: Request<Body>) -> Result<DecisionRequest, Problem> {
    let (parts, body) = request.into_parts();
    let actor = operator(&parts.extensions)?;
    let read = Limited::new(body, BODY_BYTES_MAX).collect();
    let read = tokio::time::timeout(BODY_TIMEOUT, read).await;
    let body = read.map_err(|_| Problem::TOO_SLOW)?.map_err(|_| Problem::TOO_LARGE)?.to_bytes();
    let fingerprint = fingerprint(&parts, actor.name.as_str(), &body);
    Ok(DecisionRequest { actor, headers: parts.headers, fingerprint, body })
}

pub(super) fn order(body: &[u8]) -> Result<Order, Problem> {
    let order: Order = serde_json::from_slice(body).map_err(|_| {
        Problem::bad_request("the body is a JSON object with `act` (send, done or discard) and `reason`")
    })?;
    let is_plain = stored_text(&order.reason).is_ok() && !order.reason.trim().is_empty();
    if is_plain {
        Ok(order)
    } else {
        Err(Problem::bad_request("`reason` is a text of 1 to 255 bytes on one line"))
    }
}

pub(super) async fn decide(
    state: &ApiState,
    request: &DecisionRequest,
    order: &Order,
    target: &DecisionTarget,
) -> Result<Response, Problem> {
    let key = IdempotencyKey::of_headers(&request.headers)?;
    let act = Act::parse(&order.act)
        .filter(|act| match target {
            DecisionTarget::Destination(_) => matches!(act, Act::Pause | Act::Resume),
            DecisionTarget::Event(_) => {
                matches!(act, Act::Rerun | Act::Dispatch | Act::Dismiss | Act::Erase | Act::EraseAndDiscard)
            }
            DecisionTarget::One(_) | DecisionTarget::All(..) => {
                matches!(act, Act::Send | Act::Done | Act::Discard)
            }
        })
        .ok_or_else(|| Problem::bad_request("`act` is send, done or discard"))?;
    let decision = Decision {
        actor: request.actor.name.as_str(),
        idempotency_key: key.as_str(),
        digest: request.fingerprint,
        reason: &order.reason,
        now_ms: state.clock.now_ms(),
    };
    let (decided, is_again) = match state.store.message_decide(target, act, &decision).await.map_err(busy)? {
        DecisionReply::New(decided) => (decided, false),
        DecisionReply::Again(decided) => (decided, true),
        DecisionReply::KeyReused => {
            let title = "this `Idempotency-Key` was used for another request";
            return Err(Problem::new(StatusCode::CONFLICT, "idempotency_key_reused", title));
        }
    };
    info!(actor = %request.actor.name, act = order.act, outcome = ?decided, is_again, "an operator decided");
    let status = match decided {
        Decided::Changed { .. } => {
            (state.decided)();
            StatusCode::OK
        }
        Decided::NotFound => return Err(Problem::NOT_FOUND),
        Decided::BodyGone => {
            let title = "the event's bytes are no longer kept, so that it cannot be dispatched";
            return Err(Problem::new(StatusCode::CONFLICT, "body_gone", title));
        }
        Decided::NotAllowed { .. } | Decided::OtherCount { .. } | Decided::StillOpen { .. } => {
            StatusCode::CONFLICT
        }
    };
    let mut response = json_reply(status, &json!(decided));
    if is_again {
        response.headers_mut().insert("idempotency-replayed", http::HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// A request under the same key, or a decision about the same rows, is being carried out for longer than we wait.
fn busy(error: StoreError) -> Problem {
    if !matches!(error, StoreError::Locked { .. } | StoreError::Conflict { .. }) {
        return Problem::from(error);
    }
    let title = "a decision about the same is being carried out: repeat yours for its answer";
    Problem { retry_after_s: Some(1), ..Problem::new(StatusCode::CONFLICT, "idempotency_key_in_use", title) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_needs_an_act_and_a_reason_on_one_line_and_nothing_that_is_overlooked() {
        #[track_caller]
        fn check(body: &str, want: Result<bool, &str>) {
            let found = order(body.as_bytes()).map(|order| order.is_about_one().is_ok());
            match (found, want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{body}"),
                (Err(problem), Err(why)) => assert!(problem.title.contains(why), "{body}: {}", problem.title),
                (found, want) => panic!("{body}: {found:?}, not {want:?}"),
            }
        }
        check(r#"{"act":"send","reason":"asked by Ann"}"#, Ok(true));
        check(r#"{"act":"send","reason":"x","state":"held","messages_n":2}"#, Ok(false));
        check(r#"{"act":"send","reason":"x","provider":"stripe"}"#, Ok(false));
        check(r#"{"act":"send","reason":"  "}"#, Err("`reason` is a text"));
        check(r#"{"act":"send","reason":"a\nb"}"#, Err("`reason` is a text"));
        check(r#"{"act":"send"}"#, Err("JSON object with `act`"));
        check(r#"{"act":"send","reason":"x","why":"y"}"#, Err("JSON object with `act`"));
        check("", Err("JSON object with `act`"));
        check(&format!(r#"{{"act":"send","reason":"{}"}}"#, "x".repeat(256)), Err("1 to 255 bytes"));
    }
}
