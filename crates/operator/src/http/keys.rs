//! Keys of operators' requests that are no decisions: each is carried out once. Decisions take theirs in their own
//! transaction.

use std::sync::Arc;

use http::request::Parts;

use hooklatch_core::types::{Clock, Principal};
use hooklatch_receive::idempotency::{IdempotencyLayer, RequestRules};
use hooklatch_store::Store;

/// The layer for a POST that is no decision. An answer with a secret in it says `no-store`, and is not kept.
pub fn once(store: Store, clock: Clock) -> IdempotencyLayer {
    let actor = |parts: &Parts| parts.extensions.get::<Principal>().map(Principal::key_owner);
    IdempotencyLayer::from(RequestRules::new(store, clock, "operator", Arc::new(actor)))
}
