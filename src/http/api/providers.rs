//! `/v1/providers`: which secrets still match, and a secret that a sender taught us.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tracing::info;

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::decide::operator;
use super::state::{ApiState, ProviderFacts};
use crate::types::Name;

/// The secret that a sender taught us, to operators alone, and once.
pub(super) async fn show_taught(
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
    let mut reply = json_reply(StatusCode::OK, &body);
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

pub(super) async fn list(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
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
    Ok(json_reply(StatusCode::OK, &json!({ "now_ms": now_ms, "providers": list })))
}
