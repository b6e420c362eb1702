//! `/v1/tokens`: who has a token, who gets one, who loses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use super::super::error::Problem;
use super::super::random;
use super::super::reply::view_reply;
use super::decide::{body_of, check_reason, order};
use super::query::{cursor, limit, query, uuid_text};
use super::state::{ApiState, Asking};
use hooklatch_contract::{Page, ReasonOrder, TokenMade, TokenOrder, TokenView};
use hooklatch_core::config::AdminToken;
use hooklatch_core::types::{IdempotencyKey, Name, Principal, ProblemCode, Reach, TokenText, UnixMs};
use hooklatch_store::{NewToken, TokenMaking, TokenRow};

/// Bounds of the time for which a token is good. Seconds.
const VALID_FOR_S: std::ops::RangeInclusive<u64> = 60..=31_622_400;

/// Every token within the scope of who asks: those of the configuration first, then those made at run time, the newest
/// first.
pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
    Asking(people): Asking,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["cursor", "limit"])?;
    let (cursor, now_ms) = (cursor(&values, uuid_text)?, state.clock.now_ms());
    let (rows, next) = people.token_list(cursor.as_deref(), limit(&values)?).await?;
    let configured = state.gate.configured();
    let configured = configured.iter().filter(|_| cursor.is_none());
    let configured =
        configured.filter(|token| people.principal().covers(&token.principal())).map(configured_view);
    let items = configured.chain(rows.iter().map(|row| view(row, now_ms))).collect();
    Ok(view_reply(StatusCode::OK, &Page::<TokenView> { next, ..Page::whole(items) }))
}

/// Makes a token, and shows it this once.
pub(crate) async fn make(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    request: Request,
) -> Result<Response, Problem> {
    let (order, key): (TokenOrder, String) = order_of(request).await?;
    let now_ms = state.clock.now_ms();
    let token = TokenText::of(&random_bytes()?);
    let new = new_token(order, key, &token, now_ms)?;
    match people.token_make(new, &state.gate.reserved()).await? {
        TokenMaking::Made(row) => {
            info!(actor = %people.principal().name, token.name = %row.principal.name, "made a token");
            read_again(&state).await;
            let made = TokenMade { facts: view(&row, now_ms), token: token.reveal().to_owned() };
            let mut response = view_reply(StatusCode::CREATED, &made);
            // Caches must not store it.
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            Ok(response)
        }
        TokenMaking::MadeBefore(_) => Err(conflict(
            ProblemCode::TokenShownOnce,
            "this request has made a token before, which was shown then and is kept nowhere: revoke it, and make \
             another under another key",
        )),
        TokenMaking::NameTaken => Err(conflict(
            ProblemCode::NameTaken,
            "another token has this name: choose another, or revoke that one first",
        )),
        TokenMaking::TooMany => {
            Err(conflict(ProblemCode::TooManyTokens, "1000 tokens are valid: revoke some of them"))
        }
        TokenMaking::TooWide => Err(Problem::new(
            StatusCode::FORBIDDEN,
            ProblemCode::ScopeTooWide,
            "a token cannot reach further than the token that makes it: name `providers` and `destinations` of yours",
        )),
    }
}

/// Revokes a token. One that is good no more stays as it is.
pub(crate) async fn revoke(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(token_id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (order, _key): (ReasonOrder, String) = order_of(request).await?;
    check_reason(&order.reason)?;
    let token_id = uuid::Uuid::parse_str(&token_id).map_err(|_| Problem::NOT_FOUND)?.to_string();
    let now_ms = state.clock.now_ms();
    let row = people.token_revoke(&token_id, &order.reason, now_ms).await?;
    info!(actor = %people.principal().name, token.name = %row.principal.name, "revoked a token");
    read_again(&state).await;
    Ok(view_reply(StatusCode::OK, &view(&row, now_ms)))
}

/// What is answered now holds on this node from now on.
async fn read_again(state: &ApiState) {
    if let Err(error) = state.gate.read().await {
        warn!(%error, "could not read the tokens again; the change holds here within seconds");
    }
}

fn conflict(code: ProblemCode, sentence: &'static str) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, sentence)
}

/// Reads an order and the request's key.
async fn order_of<T: DeserializeOwned + JsonSchema>(request: Request<Body>) -> Result<(T, String), Problem> {
    let (parts, body) = request.into_parts();
    let key = IdempotencyKey::of_headers(&parts.headers)?.to_string();
    let body = body_of(body).await?;
    Ok((order(&body)?, key))
}

fn new_token(order: TokenOrder, key: String, token: &TokenText, now_ms: UnixMs) -> Result<NewToken, Problem> {
    check_reason(&order.reason)?;
    let name = Name::parse(&order.name)
        .map_err(|_| Problem::bad_request("`name` must be 1 to 64 characters of a-z, 0-9, `_` and `-`"))?;
    if !VALID_FOR_S.contains(&order.valid_for_s) {
        return Err(Problem::bad_request("`valid_for_s` is a number of seconds from 60 to 31622400"));
    }
    let valid_for_ms = i64::try_from(order.valid_for_s).unwrap_or(i64::MAX).saturating_mul(1_000);
    let principal = Principal {
        name,
        role: order.role,
        providers: reach(order.providers)?,
        destinations: reach(order.destinations)?,
    };
    Ok(NewToken {
        principal,
        digest: token.digest(),
        expires_at_ms: now_ms.saturating_add(valid_for_ms),
        idempotency_key: key,
        reason: order.reason,
        now_ms,
    })
}

/// Most names of a scope.
const NAMES_N_MAX: usize = 100;

fn reach(names: Option<Vec<String>>) -> Result<Reach, Problem> {
    let Some(names) = names else { return Ok(Reach::All) };
    let found: Option<BTreeSet<Name>> = names.iter().map(|name| Name::parse(name).ok()).collect();
    let found = found.filter(|_| names.len() <= NAMES_N_MAX).ok_or_else(|| {
        Problem::bad_request("`providers` and `destinations` must be lists of at most 100 names: 1 to 64 characters of a-z, 0-9, `_` and `-`")
    })?;
    Ok(Reach::These(found))
}

fn random_bytes() -> Result<[u8; 32], Problem> {
    random::bytes().ok_or(Problem { sentence: "the system has no random numbers", ..Problem::UNAVAILABLE })
}

fn view(row: &TokenRow, now_ms: UnixMs) -> TokenView {
    TokenView {
        token_id: Some(row.token_id.clone()),
        name: row.principal.name.to_string(),
        role: row.principal.role,
        providers: row.principal.providers.names(),
        destinations: row.principal.destinations.names(),
        is_good: row.is_good(now_ms),
        created_at_ms: Some(row.created_at_ms),
        created_by: Some(row.created_by.clone()),
        expires_at_ms: Some(row.expires_at_ms),
        revoked_at_ms: row.revoked_at_ms,
        last_used_at_ms: row.last_used_at_ms,
    }
}

fn configured_view(token: &AdminToken) -> TokenView {
    TokenView {
        token_id: None,
        name: token.name.to_string(),
        role: token.role,
        providers: token.providers.names(),
        destinations: token.destinations.names(),
        is_good: true,
        created_at_ms: None,
        created_by: None,
        expires_at_ms: None,
        revoked_at_ms: None,
        last_used_at_ms: None,
    }
}
