//! Bearer tokens of the operators' API, and what wrong ones cost.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use super::error::Problem;
use super::extensions::{KnownCaller, Peer};
use super::token_gate::{Presented, TokenGate};
use hooklatch_core::types::ProblemCode;

/// Lets requests with a valid token through, with their [`Principal`](hooklatch_core::types::Principal).
pub(super) async fn authenticated(
    State(gate): State<Arc<TokenGate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let Some(given) = request.headers().get(header::AUTHORIZATION) else {
        // Who presents nothing guesses nothing.
        return UNAUTHORIZED.into_response();
    };
    let text = given.to_str().unwrap_or_default();
    let principal = match gate.judge(bearer(text).unwrap_or_default()).await {
        Presented::Good(principal) => principal,
        Presented::Wrong => return wrong_token(gate.wrong(peer)),
        // Neither is a guess, so neither counts as one: its holder once had a valid token.
        Presented::Expired => return EXPIRED.into_response(),
        Presented::Revoked => return REVOKED.into_response(),
        Presented::Away => return AWAY.into_response(),
    };
    request.extensions_mut().insert(principal);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(KnownCaller);
    response
}

/// The token in `Authorization`; the name of the scheme in any case (RFC 9110, 11.1).
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

const UNAUTHORIZED: Problem = Problem::new(
    StatusCode::UNAUTHORIZED,
    ProblemCode::Unauthorized,
    "send a bearer token: one of `admin.tokens`, or one that an admin made",
);
const EXPIRED: Problem = Problem::new(
    StatusCode::UNAUTHORIZED,
    ProblemCode::TokenExpired,
    "this token has expired: have an admin make another",
);
const REVOKED: Problem =
    Problem::new(StatusCode::UNAUTHORIZED, ProblemCode::TokenRevoked, "this token was revoked");
/// Tokens made at run time cannot be checked; the response does not reveal whether this is one.
const AWAY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    ProblemCode::TokensUnknown,
    "the database does not answer: only tokens of the configuration can be judged now",
)
.retry_after(5);

/// The response to a wrong token; `wait_s` when it is one of too many.
fn wrong_token(wait_s: Option<u32>) -> Response {
    let Some(wait_s) = wait_s else { return UNAUTHORIZED.into_response() };
    let sentence = "too many wrong tokens were sent: wait, or send a right one";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, ProblemCode::TooManyWrongTokens, sentence);
    Problem { retry_after_s: Some(wait_s), ..problem }.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_read_in_any_case_and_no_other_is_taken() {
        for good in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(bearer(good), Some("abc"), "{good}");
        }
        for bad in ["", "abc", "Basic abc", "Bearerabc", "Bearer\tabc"] {
            assert_eq!(bearer(bad), None, "{bad}");
        }
    }
}
