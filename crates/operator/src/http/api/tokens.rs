//! `/v1/tokens`: who has a token, who gets one, who loses it.

use std::collections::BTreeSet;

use axum::extract::{Path, Request};
use http::StatusCode;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use super::super::error::{Problem, no_store, view_reply};
use super::super::token_gate::random_bytes;
use super::order::{ORDER_BYTES_MAX, check_reason, order, read_body};
use super::query::{Query, uuid_text};
use super::{Answer, Caller};
use hooklatch_contract::{Page, ReasonOrder, TokenMade, TokenOrder, TokenView};
use hooklatch_core::config::AdminToken;
use hooklatch_core::types::{IdempotencyKey, Name, Principal, Reach, TokenText, UnixMs};
use hooklatch_store::{NewToken, TokenMaking, TokenRow};

/// Bounds of the time for which a token is good. Seconds.
const VALID_FOR_S: std::ops::RangeInclusive<u64> = 60..=31_622_400;
/// Most names of a scope.
const NAMES_N_MAX: usize = 100;

/// Every token within the caller's scope: those of the configuration first, then those made at run time, the newest
/// first.
pub(super) async fn list(caller: Caller, query: Query) -> Answer {
    let (people, now_ms) = (&caller.people, caller.now_ms());
    let cursor = query.cursor(uuid_text)?;
    let (rows, next) = people.token_list(cursor.as_deref(), query.limit()?).await?;
    let configured = caller.state.gate.configured();
    let configured = configured.iter().filter(|_| cursor.is_none()).map(AdminToken::principal);
    let configured = configured.filter(|holder| people.principal().covers(holder));
    let configured = configured.map(|holder| TokenView { is_good: true, ..holder_view(&holder) });
    let items = configured.chain(rows.iter().map(|row| view(row, now_ms))).collect();
    Ok(view_reply(StatusCode::OK, &Page::<TokenView> { next, ..Page::whole(items) }))
}

/// Makes a token, and shows it this once.
pub(super) async fn make(caller: Caller, request: Request) -> Answer {
    let (order, key): (TokenOrder, String) = order_of(request).await?;
    let (people, gate, now_ms) = (&caller.people, &caller.state.gate, caller.now_ms());
    let bytes = random_bytes();
    let bytes =
        bytes.ok_or(Problem { sentence: "the system has no random numbers", ..Problem::UNAVAILABLE })?;
    let token = TokenText::of(&bytes);
    let new = new_token(order, key, &token, now_ms)?;
    match people.token_make(new, &gate.reserved()).await? {
        TokenMaking::Made(row) => {
            info!(actor = %people.principal().name, token.name = %row.principal.name, "made a token");
            read_again(&caller).await;
            let made = TokenMade { facts: view(&row, now_ms), token: token.reveal().to_owned() };
            Ok(no_store(view_reply(StatusCode::CREATED, &made)))
        }
        TokenMaking::MadeBefore(_) => Err(Problem::TOKEN_SHOWN_ONCE),
        TokenMaking::NameTaken => Err(Problem::NAME_TAKEN),
        TokenMaking::TooMany => Err(Problem::TOO_MANY_TOKENS),
        TokenMaking::TooWide => Err(Problem::SCOPE_TOO_WIDE),
    }
}

/// Revokes a token. One that is no longer good stays as it is.
pub(super) async fn revoke(caller: Caller, Path(token_id): Path<String>, request: Request) -> Answer {
    let (order, _key): (ReasonOrder, String) = order_of(request).await?;
    check_reason(&order.reason)?;
    let token_id = uuid::Uuid::parse_str(&token_id).map_err(|_| Problem::NOT_FOUND)?.to_string();
    let (people, now_ms) = (&caller.people, caller.now_ms());
    let row = people.token_revoke(&token_id, &order.reason, now_ms).await?;
    info!(actor = %people.principal().name, token.name = %row.principal.name, "revoked a token");
    read_again(&caller).await;
    Ok(view_reply(StatusCode::OK, &view(&row, now_ms)))
}

/// Loads the tokens, so that the change holds on this node from now on.
async fn read_again(caller: &Caller) {
    if let Err(error) = caller.state.gate.read().await {
        warn!(%error, "could not read the tokens again; the change holds here within seconds");
    }
}

/// Reads an order and the request's key.
async fn order_of<T: DeserializeOwned + JsonSchema>(request: Request) -> Result<(T, String), Problem> {
    let (parts, body) = request.into_parts();
    let key = IdempotencyKey::of_headers(&parts.headers)?.to_string();
    Ok((order(&read_body(body, ORDER_BYTES_MAX).await?)?, key))
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

fn reach(names: Option<Vec<String>>) -> Result<Reach, Problem> {
    let Some(names) = names else { return Ok(Reach::All) };
    let found: Option<BTreeSet<Name>> = names.iter().map(|name| Name::parse(name).ok()).collect();
    let found = found.filter(|_| names.len() <= NAMES_N_MAX).ok_or_else(|| {
        Problem::bad_request("`providers` and `destinations` must be lists of at most 100 names: 1 to 64 characters of a-z, 0-9, `_` and `-`")
    })?;
    Ok(Reach::These(found))
}

fn view(row: &TokenRow, now_ms: UnixMs) -> TokenView {
    TokenView {
        token_id: Some(row.token_id.clone()),
        is_good: row.is_good(now_ms),
        created_at_ms: Some(row.created_at_ms),
        created_by: Some(row.created_by.clone()),
        expires_at_ms: Some(row.expires_at_ms),
        revoked_at_ms: row.revoked_at_ms,
        last_used_at_ms: row.last_used_at_ms,
        ..holder_view(&row.principal)
    }
}

/// What a token's holder says of it.
fn holder_view(holder: &Principal) -> TokenView {
    TokenView {
        token_id: None,
        name: holder.name.to_string(),
        role: holder.role,
        providers: holder.providers.names(),
        destinations: holder.destinations.names(),
        is_good: false,
        created_at_ms: None,
        created_by: None,
        expires_at_ms: None,
        revoked_at_ms: None,
        last_used_at_ms: None,
    }
}
