//! Bearer tokens of the operators' API, and what wrong ones cost.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use tracing::warn;

use super::error::Problem;
use super::extensions::{KnownCaller, Peer};
use super::throttle::Throttle;
use crate::config::AdminToken;
use crate::logging::Sampler;
use crate::types::Principal;

/// The tokens that are good, and what is remembered of wrong ones.
pub(crate) struct TokenGate {
    tokens: Vec<AdminToken>,
    throttle: Throttle,
}

impl TokenGate {
    /// A gate that lets these tokens through.
    pub(crate) fn new(tokens: Vec<AdminToken>) -> Self {
        Self { tokens, throttle: Throttle::default() }
    }

    /// True while a token of this principal is good: answers that go on ask again and again.
    pub(super) fn still_lets(&self, principal: &Principal) -> bool {
        self.tokens.iter().any(|token| token.name == principal.name && token.role == principal.role)
    }
}

/// Lets requests with a good token through, with their [`Principal`].
pub(super) async fn authenticated(
    State(gate): State<Arc<TokenGate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let given = request.headers().get(header::AUTHORIZATION);
    let text = given.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = text.strip_prefix("Bearer ").unwrap_or_default();
    // Every token is compared, so that the time says nothing about which one came near.
    let mut found = None;
    for token in &gate.tokens {
        if token.token.is(text) {
            found = Some(Principal::everywhere(token.name.clone(), token.role));
        }
    }
    let Some(principal) = found else {
        // Who presents nothing guesses nothing.
        return match given {
            None => UNAUTHORIZED.into_response(),
            Some(_) => wrong_token(peer, gate.throttle.wrong(peer)),
        };
    };
    request.extensions_mut().insert(principal);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(KnownCaller);
    response
}

const UNAUTHORIZED: Problem =
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "send a bearer token of `admin.tokens`");

/// Counts and logs it; `wait_s` when it is one of too many.
fn wrong_token(peer: IpAddr, wait_s: Option<u32>) -> Response {
    static LINES: Sampler = Sampler::new(2);
    let reason = if wait_s.is_some() { "throttled" } else { "token" };
    metrics::counter!("hooklatch_operator_refused_total", "reason" => reason).increment(1);
    if let Some(left_out_n) = LINES.take() {
        warn!(%peer, is_throttled = wait_s.is_some(), left_out_n, "refused a wrong operator token");
    }
    let Some(wait_s) = wait_s else { return UNAUTHORIZED.into_response() };
    let title = "too many wrong tokens came in: wait, or send a right one";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_wrong_tokens", title);
    Problem { retry_after_s: Some(wait_s), ..problem }.into_response()
}
