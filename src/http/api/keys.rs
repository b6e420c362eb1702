//! Keys of requests that are no decisions: each is carried out once. Decisions take theirs in their own transaction.

use std::sync::Arc;

use http::request::Parts;

use super::state::ApiState;
use crate::idempotency::{IdempotencyLayer, RequestRules};
use crate::types::Principal;

/// The layer for a POST that is no decision. An answer with a secret in it says `no-store`, and is not kept.
pub(super) fn once(state: &ApiState) -> IdempotencyLayer {
    let actor = |parts: &Parts| parts.extensions.get::<Principal>().map(|actor| actor.name.to_string());
    let rules = RequestRules::new(state.store.clone(), state.clock.clone(), "operator", Arc::new(actor));
    IdempotencyLayer::of(rules)
}
