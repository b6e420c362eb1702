//! `/v1/rejected`, `/v1/providers` and `/v1/backlog`: what was refused and why, which secrets still match or were
//! taught by their senders, and what waits for somebody.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Value, json};
use tracing::info;

use super::api::{ApiState, answer, bad, limit, operator, query};
use super::error::Problem;
use crate::types::Name;

/// One configured provider, for the API.
pub(crate) struct ProviderFacts {
    pub(crate) name: Name,
    pub(crate) kind: String,
    /// How long its sender goes on sending an event by itself, and so with the secret it had then. Hours.
    pub(crate) horizon_h: u32,
    /// Whether its requests are accepted although nobody signs them.
    pub(crate) is_unverified: bool,
    /// Its secrets by what they go by, newest first.
    pub(crate) fingerprints: Vec<String>,
}

/// The routes, part of `/v1`.
pub(super) fn router() -> Router<Arc<ApiState>> {
    Router::new()
        .route("/rejected", get(rejected))
        .route("/providers", get(providers))
        .route("/providers/{name}/taught", post(taught))
        .route("/backlog", get(backlog))
}

/// How many events and messages stand where somebody should look, and whether anybody configured takes them.
async fn backlog(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let is_provider = |name: &str| state.providers.iter().any(|one| one.name.as_str() == name);
    let is_destination = |name: &str| state.destinations.iter().any(|one| one.as_str() == name);
    let (events, messages) = (state.store.event_counts_open().await?, state.store.message_counts().await?);
    let events = events.iter().map(|one| {
        json!({
            "provider": one.provider, "state": one.state, "events_n": one.events_n,
            "oldest_received_at_ms": one.oldest_received_at_ms, "configured": is_provider(&one.provider),
        })
    });
    let messages = messages.iter().map(|one| {
        json!({
            "destination": one.destination, "state": one.state.as_str(), "messages_n": one.messages_n,
            "oldest_visible_at_ms": one.oldest_visible_at_ms, "configured": is_destination(&one.destination),
        })
    });
    let body = json!({
        "now_ms": state.clock.now_ms(), "events": events.collect::<Vec<_>>(), "messages": messages.collect::<Vec<_>>(),
    });
    Ok(answer(StatusCode::OK, &body))
}

/// The secret that a sender taught us, to operators alone, and once.
async fn taught(
    State(state): State<Arc<ApiState>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let actor = operator(request.extensions())?;
    let name = Name::parse(&name).map_err(|_| Problem::NOT_FOUND)?;
    let taught = state.store.taught_take(&name).await?.ok_or(Problem::NOT_FOUND)?;
    info!(provider.name = %name, actor = %actor.name.as_str(), "showed a secret that its sender taught us");
    let body =
        json!({ "provider": taught.provider, "secret": taught.secret, "taught_at_ms": taught.taught_at_ms });
    Ok(answer(StatusCode::OK, &body))
}

async fn rejected(State(state): State<Arc<ApiState>>, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "limit"])?;
    let provider = values.get("provider").map(|text| Name::parse(text)).transpose();
    let provider = provider.map_err(|_| bad("that is not a name"))?;
    let found = state.store.rejection_list(provider.as_ref(), limit(&values)?).await?;
    Ok(answer(StatusCode::OK, &json!({ "rejected": found })))
}

async fn providers(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let uses = state.store.secret_use_list().await?;
    let now_ms = state.clock.now_ms();
    let one = |facts: &ProviderFacts| {
        let secrets: Vec<Value> = facts
            .fingerprints
            .iter()
            .enumerate()
            .map(|(n, fingerprint)| {
                let used = uses
                    .iter()
                    .find(|one| one.provider == facts.name.as_str() && one.fingerprint == *fingerprint);
                let last_ms = used.map(|one| one.last_matched_at_ms);
                let horizon_ms = i64::from(facts.horizon_h) * 3_600_000;
                // Nobody knows of a secret that never matched here; the newest one is the one to keep.
                let is_idle = last_ms.is_some_and(|last_ms| now_ms.saturating_sub(last_ms) > horizon_ms);
                json!({
                    "position": n + 1, "matched_n": used.map_or(0, |one| one.matched_n),
                    "last_matched_at_ms": last_ms, "is_safe_to_remove": n > 0 && is_idle,
                })
            })
            .collect();
        json!({
            "name": facts.name.as_str(), "kind": facts.kind, "horizon_h": facts.horizon_h,
            "unverified": facts.is_unverified, "secrets": secrets,
        })
    };
    let list: Vec<Value> = state.providers.iter().map(one).collect();
    Ok(answer(StatusCode::OK, &json!({ "now_ms": now_ms, "providers": list })))
}
