//! What the API needs of the app, and the caller of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::super::error::Problem;
use super::super::token_gate::TokenGate;
use crate::doctor::{NodeDoctor, ProbeKey};
use hooklatch_contract::{CallTimesView, PolicyView, SenderView, UnknownPathView};
use hooklatch_core::config::EffectiveSetting;
use hooklatch_core::types::{Clock, Name, Principal, TYPED_BY, TypedBy};
use hooklatch_outbox::traces::Traces;
use hooklatch_receive::admit::WhatIf;
use hooklatch_receive::idempotency::IdempotencyLayer;
use hooklatch_receive::{Explainer, TestEvents};
use hooklatch_store::{ActivityCounts, BulkRules, OperatorQueries, OperatorStore};

/// The word for how the circuit breaker of a destination stands on this node; `None` for one that it does not call.
pub(crate) type BreakerState = dyn Fn(&str) -> Option<&'static str> + Send + Sync;

/// How long this node's newest calls to a destination took; `None` before the first.
pub(crate) type CallTimesOf = dyn Fn(&str) -> Option<CallTimesView> + Send + Sync;

/// Delays of a provider's newest requests behind the times that they were signed at. Milliseconds.
pub(crate) type DelaysOf = dyn Fn(&str) -> Vec<i64> + Send + Sync;

/// The paths that no provider has, and that were posted to since the start.
pub(crate) type UnknownPathsOf = dyn Fn() -> Vec<UnknownPathView> + Send + Sync;

/// What this node counted and did not add to the table yet.
pub(crate) type UnsavedActivity = dyn Fn() -> ActivityCounts + Send + Sync;

/// State of the API: all that it needs of the app.
pub struct ApiState {
    /// The store, for callers of the API.
    pub people: OperatorStore,
    pub clock: Clock,
    /// The layer for orders that are carried out once for each `Idempotency-Key` without a transaction of their own.
    pub once: IdempotencyLayer,
    /// The tokens of the callers.
    pub gate: Arc<TokenGate>,
    /// Facts about each configured destination.
    pub destinations: BTreeMap<Name, DestinationFacts>,
    /// Returns the state of this node's circuit breaker, for a destination of that name that it calls.
    pub breaker: Box<BreakerState>,
    /// Returns how long this node's latest calls to a destination of that name took.
    pub call_times: Box<CallTimesOf>,
    /// What this node counted and did not save yet.
    pub unsaved: Box<UnsavedActivity>,
    /// Facts about each configured provider.
    pub providers: Vec<ProviderFacts>,
    /// Judges requests that people have saved.
    pub explainer: Explainer,
    /// Every value of the configuration that is in force, by key.
    pub settings: Vec<EffectiveSetting>,
    /// What an operation needs before it begins.
    pub bulk: BulkRules,
    /// Knows the traces of events.
    pub traces: Traces,
    /// Returns the delays of the newest requests of the provider of that name, from signing to arrival. Milliseconds.
    pub delays_ms: Box<DelaysOf>,
    /// Paths that no provider has, and that were posted to.
    pub unknown_paths: Box<UnknownPathsOf>,
    /// Examines this node and its database.
    pub doctor: NodeDoctor,
    /// What it takes to send probes to the receiver.
    pub probes: ProbeFacts,
    /// Makes test events.
    pub test_events: TestEvents,
    /// Runs the handlers of this server without writing.
    pub what_if: WhatIf,
    /// Name of the installation, where it has one.
    pub server_name: Option<String>,
    /// True when it is a test server.
    pub is_test: bool,
    /// Called when a decision may have made something due, so that the workers do not wait for their next poll.
    pub decided: Box<dyn Fn() + Send + Sync>,
}

/// What it takes to send probes to the receiver.
pub struct ProbeFacts {
    /// The key of tokens.
    pub key: ProbeKey,
    /// The URL that senders call, without a trailing slash.
    pub public_url: String,
    /// Largest body of a request. Bytes.
    pub body_bytes_max: u32,
}

/// One configured destination, for the API.
pub struct DestinationFacts {
    /// The kind: `http`, `nats`, ….
    pub kind: &'static str,
    /// Most calls at once of this node.
    pub concurrency_n: u32,
    /// Most calls a second of this node; 0 for any number.
    pub rate_per_s: u32,
    /// How it is called, and when calls are repeated.
    pub policy: PolicyView,
}

/// One configured provider, for the API.
pub struct ProviderFacts {
    pub name: Name,
    pub kind: String,
    /// The URL to register with the sender.
    pub url: String,
    /// Rules that tell its events from each other, the first that applies.
    pub identity: String,
    /// Time that its sender goes on sending an event by itself, and so with the secret it had then. Hours.
    pub horizon_h: u32,
    /// True when its requests are accepted without a signature.
    pub is_unverified: bool,
    /// True while it takes a secret that its sender posts to the URL.
    pub is_pairing: bool,
    /// Time for which the ids of its events are remembered. Days.
    pub ids_days: u32,
    /// What is known of its sender.
    pub sender: SenderView,
    /// False when its events are not found by the ids inside them; `None`: its kind names none.
    pub has_search: Option<bool>,
    /// Headers that its kind reads.
    pub headers: Vec<String>,
    /// Its secrets by what they go by, newest first.
    pub fingerprints: Vec<String>,
    /// Types of which its kind has sample events.
    pub samples: Vec<String>,
}

/// The store as the caller of a route may see it.
pub(super) struct Asking(pub(super) OperatorQueries);

impl FromRequestParts<Arc<ApiState>> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned().ok_or(Problem::NOT_FOUND)?;
        let typed_by = parts.headers.get(TYPED_BY).and_then(|text| TypedBy::parse(text.to_str().ok()?));
        Ok(Self(state.people.open(principal).typed_by(typed_by)))
    }
}
